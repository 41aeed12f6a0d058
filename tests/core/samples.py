"""Values for unit tests of the core: one partition, and brokers 0, 1 and 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strandline import component_settings
from strandline.config.replication import ReplicationConfig
from strandline.config.timing import TimingConfig
from strandline.core.broker_context import BrokerContext
from strandline.core.effects import Effect, PersistState, SendFetch
from strandline.core.events import (
    Event,
    FollowerFetchReceived,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    ProduceReceived,
    RecordsHandle,
    SequenceCheck,
    StatePersisted,
)
from strandline.core.fetch_changes import FetchPartition
from strandline.core.live_brokers import LiveBrokers
from strandline.core.local_log import LocalLog
from strandline.core.marked_partitions import MarkedPartitions
from strandline.core.replicas import Replicas
from strandline.core.settings import CoreSettings
from strandline.errors import ErrorCode
from strandline.model import (
    Acks,
    BatchSpan,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    EpochEndOffset,
    EpochStart,
    HostedPartition,
    IsrEntry,
    LeaderEpoch,
    LiveBroker,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicId,
    TopicPartition,
    TopicSettings,
)

TP = TopicPartition(topic_id=TopicId("t"), partition=0)
OTHER_TP = TopicPartition(topic_id=TopicId("t"), partition=1)
NAME = "orders"
RECORDS = RecordsHandle("some records")
SETTINGS = replace(
    component_settings.core(TimingConfig(), ReplicationConfig()), replica_lag_time_max_ms=1_000
)


def ids(*brokers: int) -> frozenset[BrokerId]:
    """Return a set of broker ids."""
    return frozenset(BrokerId(each) for each in brokers)


def entry(broker: int, epoch: int = 1) -> IsrEntry:
    """Return an ISR entry."""
    return IsrEntry(broker_id=BrokerId(broker), broker_epoch=BrokerEpoch(epoch))


def entries(*brokers: int) -> tuple[IsrEntry, ...]:
    """Return ISR entries of broker epoch 1."""
    return tuple(entry(each) for each in brokers)


def end(epoch: int, offset: int) -> EpochEndOffset:
    """Return an epoch with its end offset."""
    return EpochEndOffset(leader_epoch=LeaderEpoch(epoch), end_offset=offset)


def starts(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    """Return epoch entries from (epoch, start offset)."""
    return tuple(
        EpochStart(leader_epoch=LeaderEpoch(epoch), start_offset=offset) for epoch, offset in pairs
    )


def batch(base: int, after: int, epoch: int = 0) -> BatchSpan:
    """Return a batch that covers [base, after)."""
    return BatchSpan(base_offset=base, next_offset=after, leader_epoch=LeaderEpoch(epoch))


def state(
    leader: int = 0,
    *,
    isr: Sequence[IsrEntry] = entries(0, 1, 2),
    le: int = 0,
    pe: int = 0,
    replicas: tuple[int, ...] = (0, 1, 2),
    min_isr: int = 1,
) -> PartitionState:
    """Return a committed state."""
    return PartitionState(
        replicas=tuple(BrokerId(each) for each in replicas),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(le),
        partition_epoch=PartitionEpoch(pe),
        isr=tuple(isr),
        min_insync_replicas=min_isr,
        controller_epoch=ControllerEpoch(1),
    )


def context(*live: int, settings: CoreSettings = SETTINGS) -> BrokerContext:
    """Return the context of broker 0 with these brokers live under epoch 1."""
    return BrokerContext(
        broker_id=BrokerId(0),
        broker_epoch=BrokerEpoch(1),
        settings=settings,
        live=LiveBrokers(alive(*live)),
    )


def alive(*brokers: int, epoch: int = 1) -> tuple[LiveBroker, ...]:
    """Return announced brokers."""
    return tuple(
        LiveBroker(
            broker_id=BrokerId(each),
            broker_epoch=BrokerEpoch(epoch),
            clean_since_epoch=BrokerEpoch(1),
            endpoints=(),
        )
        for each in brokers
    )


def log(
    end_offset: int = 0,
    *,
    high_watermark: int = 0,
    start: int = 0,
    epochs: str = "",
    tp: TopicPartition = TP,
) -> LocalLog:
    """Return a log; `epochs` is written as "epoch@start epoch@start"."""
    pairs = [each.split("@") for each in epochs.split()]
    return LocalLog(
        tp=tp,
        topic_name=NAME,
        settings=TopicSettings(),
        moved=MarkedPartitions(),
        log_start_offset=start,
        log_end_offset=end_offset,
        high_watermark=high_watermark,
        epochs=starts(*((int(epoch), int(offset)) for epoch, offset in pairs)),
    )


def hosted(
    end_offset: int = 0, *, le: int = 0, pe: int = 0, epochs: str = "0@0"
) -> HostedPartition:
    """Return a replica found on disk."""
    found = log(end_offset, epochs=epochs)
    return HostedPartition(
        tp=TP,
        topic_name=NAME,
        leader_epoch=LeaderEpoch(le),
        partition_epoch=PartitionEpoch(pe),
        isr=entries(0, 1, 2),
        log_start_offset=0,
        log_end_offset=end_offset,
        high_watermark=0,
        epochs=found.epochs.entries,
    )


def fetch(
    offset: int, *, le: int = 0, last: int = -1, start: int = 0, tp: TopicPartition = TP
) -> FetchPartition:
    """Return one partition of a fetch."""
    return FetchPartition(
        tp=tp,
        fetch_offset=offset,
        leader_epoch=LeaderEpoch(le),
        last_fetched_epoch=LeaderEpoch(last),
        high_watermark=-1,
        log_start_offset=start,
    )


def fetched(
    follower: int,
    *fetches: FetchPartition,
    request_id: int = 1,
    be: int = 1,
    clean: int = 1,
    max_wait_ms: int = 500,
) -> FollowerFetchReceived:
    """Return a follower's fetch."""
    return FollowerFetchReceived(
        request_id=request_id,
        follower=BrokerId(follower),
        broker_epoch=BrokerEpoch(be),
        clean_since_epoch=BrokerEpoch(clean),
        max_wait_ms=max_wait_ms,
        partitions=fetches,
    )


def produced(
    request_id: int,
    count: int = 1,
    *,
    acks: Acks = Acks.ALL,
    tp: TopicPartition = TP,
    sequence: SequenceCheck = ErrorCode.NONE,
) -> ProduceReceived:
    """Return a producer's batch."""
    return ProduceReceived(
        request_id=request_id,
        tp=tp,
        acks=acks,
        record_count=count,
        records=RECORDS,
        timeout_ms=1_000,
        sequence=sequence,
    )


def command(
    committed: PartitionState,
    *,
    tp: TopicPartition = TP,
    is_new: bool = False,
    settings: TopicSettings | None = None,
) -> PartitionCommand:
    """Return one partition of a LeaderAndIsr."""
    return PartitionCommand(
        tp=tp,
        topic_name=NAME,
        state=committed,
        is_new=is_new,
        settings=settings or TopicSettings(),
    )


def leader_and_isr(
    *commands: PartitionCommand, request_id: int = 1, ce: int = 1, be: int = 1
) -> LeaderAndIsrReceived:
    """Return a LeaderAndIsr."""
    return LeaderAndIsrReceived(
        request_id=request_id,
        controller_epoch=ControllerEpoch(ce),
        broker_epoch=BrokerEpoch(be),
        partitions=commands,
    )


def received(fetch: SendFetch, follower: int) -> FollowerFetchReceived:
    """Return what a leader gets of a follower's fetch."""
    return FollowerFetchReceived(
        request_id=fetch.request_id,
        follower=BrokerId(follower),
        broker_epoch=BrokerEpoch(1),
        clean_since_epoch=BrokerEpoch(1),
        max_wait_ms=fetch.max_wait_ms,
        partitions=fetch.partitions,
        changes=fetch.changes,
    )


class Core:
    """Broker 0; each write of its state file completes at once."""

    def __init__(self, settings: CoreSettings = SETTINGS) -> None:
        self.replicas = Replicas(BrokerId(0), BrokerEpoch(1), BrokerEpoch(1), settings)
        self.now_ms = 0
        self.live(0, 1, 2)

    def live(self, *brokers: int) -> list[Effect]:
        """Announce live brokers."""
        event = LiveBrokersChanged(controller_epoch=ControllerEpoch(1), brokers=alive(*brokers))
        effects = self.replicas.step(event, self.now_ms)
        return effects + self._persist(effects)

    def step(self, event: Event, *, after_ms: int = 0) -> list[Effect]:
        """Step, complete the writes of the state file, and return all effects."""
        self.now_ms += after_ms
        effects = self.replicas.step(event, self.now_ms)
        return effects + self._persist(effects)

    def send_state(self, committed: PartitionState, tp: TopicPartition = TP) -> list[Effect]:
        """Send a committed state, as the controller does."""
        return self.step(leader_and_isr(command(committed, tp=tp)))

    def _persist(self, effects: list[Effect]) -> list[Effect]:
        more: list[Effect] = []
        for effect in effects:
            if isinstance(effect, PersistState):
                more += self.step(StatePersisted(token=effect.token))
        return more


def of_type(effects: Sequence[Effect], *types: type) -> list[Effect]:
    """Return the effects of these types."""
    return [effect for effect in effects if isinstance(effect, types)]
