"""Values every layer shares: ids, epochs, and the state of a partition and of a broker.

Every layer uses it; it imports nothing of ours. Every value is frozen, so that the pure machines,
shells and tests share it. Keys are named tuples: these are hashed, compared and made in C.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
TopicId = NewType("TopicId", str)
"""The uid of the ReplicatedTopic, or the id that it adopts: one created again has another id."""

NO_LEADER = BrokerId(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_BROKER_EPOCH = BrokerEpoch(-1)
STATE_LOST = "StateLost"
"""Reason of a partition whose object was lost while brokers hold its data (ADR 0004)."""
UNCLEAN_LAST_REPLICA = "UncleanLastReplica"
"""Reason of a partition whose last ISR members and eligible leaders all lost data since."""
TOPIC_DELETED = PartitionEpoch(0)
"""In a StopReplica, in place of the partition epoch at which a replica was removed."""
EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
"""Timestamps by which a client asks for the first and the last offset, as in Kafka."""
UNLIMITED = -1
"""A retention that deletes nothing, as in Kafka."""
TO_HIGH_WATERMARK = -1
"""The offset by which a client asks to delete all records that it can read, as in Kafka."""


class Acks(Enum):
    """Acknowledgements a producer asks for; values are those of Kafka's field `acks`."""

    NONE = 0
    LEADER = 1
    ALL = -1


class Recovery(Enum):
    """How the present leader was elected; values are the words in `Partition.status`."""

    CLEAN = "Clean"
    UNCLEAN = "Unclean"


class ElectionKind(Enum):
    """Kinds of leader election; values are the metric label `kind`."""

    NEW = "new"
    OFFLINE = "offline"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    VOLUME_FULL = "volume_full"
    UNCLEAN = "unclean"
    REASSIGNMENT = "reassignment"
    PREFERRED = "preferred"


class TopicPartition(NamedTuple):
    """One partition of one incarnation of a topic; names are for display only."""

    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition}"


class IsrEntry(NamedTuple):
    """A broker and the epoch under which it joined the ISR (ADR 0002).

    A member of the ISR has one, and an eligible leader keeps the one that it had as a member.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


def covers(entry: IsrEntry, *, clean_since_epoch: BrokerEpoch, broker_epoch: BrokerEpoch) -> bool:
    """Tell whether an ISR entry is in sync, given the start of its broker (ADR 0002).

    The broker lost no records since clean_since_epoch; broker_epoch is its present epoch.
    """
    return clean_since_epoch <= entry.broker_epoch <= broker_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """What the controller committed in `Partition.status`.

    leader is NO_LEADER or the broker_id of one entry of isr; isr is empty only without a leader;
    partition_epoch rises by one with each committed change and leader_epoch with each change of
    leader. eligible_leaders (ELR) left the isr while it was going below min_insync_replicas: what
    is committed since, they have (ADR 0030). It is empty unless isr has fewer members than
    min_insync_replicas, and shares no broker with isr. While the partition moves (ADR 0057),
    replicas has those that it had and those that it shall have: it did not have adding_replicas
    before the move, and shall not keep removing_replicas.
    """

    replicas: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrEntry, ...]
    min_insync_replicas: int
    controller_epoch: ControllerEpoch
    recovery: Recovery = Recovery.CLEAN
    reason: str = ""
    eligible_leaders: tuple[IsrEntry, ...] = ()
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()

    @property
    def original_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas as they were before the present move; all of them without one."""
        if not self.adding_replicas:
            return self.replicas
        return tuple(each for each in self.replicas if each not in self.adding_replicas)

    @property
    def least_in_sync(self) -> int:
        """The configured minimum, capped by the number of replicas."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def candidates(self) -> tuple[IsrEntry, ...]:
        """The entries of all replicas that may be elected without loss: ISR, then ELR."""
        return self.isr + self.eligible_leaders

    @property
    def isr_ids(self) -> tuple[BrokerId, ...]:
        """The members of the ISR in the order in which they are stored."""
        return tuple(entry.broker_id for entry in self.isr)

    def entry_of(self, broker_id: BrokerId) -> IsrEntry | None:
        """Return the ISR entry of a broker, None if it is not in the ISR."""
        return next((entry for entry in self.isr if entry.broker_id == broker_id), None)


class EpochStart(NamedTuple):
    """First offset written under a leader epoch."""

    leader_epoch: LeaderEpoch
    start_offset: int


class EpochEndOffset(NamedTuple):
    """Greatest known epoch not above the requested one, and its exclusive end offset."""

    leader_epoch: LeaderEpoch
    end_offset: int


UNKNOWN_EPOCH_END = EpochEndOffset(leader_epoch=NO_EPOCH, end_offset=-1)


GRPC_LISTENER = "GRPC"
"""The listener for other brokers and the operator; every registration has it."""

INTERNAL_LISTENER = "INTERNAL"
"""The listener for Kafka's clients inside the cluster, at the pod's IP."""

EXTERNAL_LISTENER = "EXTERNAL"
"""The listener for Kafka's clients outside, at the address that the Broker object names."""


def joined_address(host: str, port: int) -> str:
    """Return host and port as one text, an IPv6 address in brackets (RFC 3986, 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Endpoint(NamedTuple):
    """A named listener of a broker: INTERNAL (Kafka protocol, pod IP), EXTERNAL, or GRPC."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBroker:
    """One start of a broker, as the controller announces it to the others: epochs and addresses.

    clean_since_epoch is the broker epoch since which its log lost nothing; see `covers`. rack is
    where its pod runs, "" while none is known; the operator says it, and no decision of a broker or
    controller reads it (ADR 0064).
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    rack: str = ""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint with that listener name, None without one."""
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration(LiveBroker):
    """What a broker wrote into `Broker.status` at its start: a LiveBroker, and more.

    incarnation is "<pod uid>/<nonce>", new with each process. volume_full, config_digest (of the
    settings that the broker works with, "" if it does not tell) and config_refused (sentences) are
    for people and the operator: the broker changes them while it runs, and no decision reads them.
    reading_logs is the incarnation of the next process while it reads its logs, "" otherwise.
    is_removed and rack are no words of the broker's: the operator says in `Broker.spec` that the
    cluster has it no more, and where its pod runs.
    """

    incarnation: str
    log_dir_id: str
    boot_id: str
    software_version: str = ""
    protocol_version: int = 1
    volume_full: bool = False
    config_digest: str = ""
    config_refused: str = ""
    reading_logs: str = ""
    is_removed: bool = False

    @property
    def is_full(self) -> bool:
        """Tell whether the volume of a broker that the cluster has is full."""
        return self.volume_full and not self.is_removed


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Topic configuration that reaches brokers with LeaderAndIsr; Kafka's keys in brackets.

    Sizes are bytes, times ms. min.insync.replicas is not here: it travels in PartitionState. These
    defaults delete nothing: a broker that does not know a topic's retention keeps every record.
    """

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    flush_messages: int = (1 << 63) - 1
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    segment_ms: int = 604_800_000
    file_delete_delay_ms: int = 60_000

    @property
    def flushes_every_append(self) -> bool:
        """Whether a record counts as written once it is fsynced, and not before (ADR 0055)."""
        return self.flush_messages == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCommand:
    """One partition of a LeaderAndIsr or FullState: the state for a replica to apply."""

    tp: TopicPartition
    topic_name: str
    state: PartitionState
    settings: TopicSettings = TopicSettings()
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpan:
    """A record batch as the core sees it: its place [base_offset, next_offset), never its bytes."""

    base_offset: int
    next_offset: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderTerm:
    """The last leadership of a partition that a broker accepted, also if nobody leads since.

    led_by is its leader, led_as the leader's broker epoch in the ISR of that state.
    """

    leader_epoch: LeaderEpoch = NO_EPOCH
    led_by: BrokerId = NO_LEADER
    led_as: BrokerEpoch = NO_BROKER_EPOCH


NO_TERM = LeaderTerm()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedPartition:
    """A replica found on disk: what its log and the state file of its log directory say.

    leader_epoch, partition_epoch, isr and term are the last that the broker accepted (state file);
    log_start_offset <= high_watermark <= log_end_offset; epochs ascend in both fields. All of the
    log is on disk: a load fsyncs what an earlier process left in the page cache.
    """

    tp: TopicPartition
    topic_name: str
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrEntry, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    epochs: tuple[EpochStart, ...]
    term: LeaderTerm = NO_TERM


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashedReplica:
    """The newest deleted log of a partition in a broker's trash (ADR 0024)."""

    tp: TopicPartition
    topic_name: str
    deleted_at_ms: int


# --- objects as they are stored in Kubernetes -------------------------------------------
# resource_version is an opaque token: compared for equality and sent back, never ordered.


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPartition:
    """A Partition object: the operator's wish (assigned, recover) and the controller's state.

    assigned are the replicas that the partition shall have; it moves to them (ADR 0057). state is
    None until a controller first wrote the status; the controller reads recover only while state
    is None (ADR 0004). rebuild_without names the brokers that a person told the controller not to
    wait for; elect_preferred_in is the leader epoch in which a person wants the first replica to be
    elected. generation rises with each change of these wishes.
    """

    name: str
    resource_version: str
    tp: TopicPartition
    topic_name: str
    assigned: tuple[BrokerId, ...]
    recover: bool
    state: PartitionState | None
    rebuild_without: frozenset[BrokerId] = frozenset()
    elect_preferred_in: LeaderEpoch = NO_EPOCH
    generation: int = 0


class AdvertisedAddress(NamedTuple):
    """Where clients outside find a broker; host "" means the address of its pod's node."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBroker:
    """A Broker object; registration is None until the broker first started.

    external is what the operator wants the broker to advertise outside, None for nothing; settings
    are what it gives the running broker, each with Kafka's key.
    """

    name: str
    resource_version: str
    broker_id: BrokerId
    registration: Registration | None
    external: AdvertisedAddress | None = None
    settings: tuple[tuple[str, int | float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedConfig:
    """The brokers that work with the configuration of a digest, in order; "" and none at first."""

    digest: str = ""
    brokers: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """A ReplicatedTopic as brokers need it: identity and effective configuration.

    min_insync_replicas is as configured: the controller caps it at the number of replicas. So is
    partition_count. applied is what a controller last told of config_digest (ADR 0060).
    """

    name: str
    resource_version: str
    topic_id: TopicId
    topic_name: str
    partition_count: int
    min_insync_replicas: int
    unclean_leader_election: bool
    settings: TopicSettings
    config_digest: str = ""
    applied: AppliedConfig = AppliedConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A coordination Lease. The API server never expires it: candidates judge by their own clock.

    holder_identity is "" when released; renew_time and acquire_time are opaque RFC 3339
    strings with six fractional digits; controller_epoch is our annotation, 0 if absent.
    """

    name: str
    resource_version: str
    holder_identity: str
    lease_duration_seconds: int
    acquire_time: str
    renew_time: str
    lease_transitions: int
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderIdentity:
    """How a broker's process signs the controller Lease: `broker-<id>/<incarnation>`."""

    broker_id: BrokerId
    incarnation: str

    def __str__(self) -> str:
        return f"{_HOLDER_PREFIX}{self.broker_id}/{self.incarnation}"

    @classmethod
    def parse(cls, text: str) -> HolderIdentity | None:
        """Return the identity, None for a free Lease or one that no broker signed."""
        name, _, incarnation = text.partition("/")
        number = name.removeprefix(_HOLDER_PREFIX)
        if not incarnation or number == name or not number.isdecimal():
            return None
        return cls(broker_id=BrokerId(int(number)), incarnation=incarnation)


_HOLDER_PREFIX = "broker-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRecord:
    """`BrokerCluster.status.controller` and the resourceVersion of the object it was read from."""

    resource_version: str
    holder_identity: str
    broker_id: BrokerId
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """A topic that this store had, and whose deletion is proved; deleted_at is RFC 3339."""

    topic_id: TopicId
    topic_name: str
    deleted_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StrayReplicas:
    """The brokers that have a log of one partition of a stray topic, on disk or in the trash."""

    partition: int
    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayTopic:
    """A topic id that brokers have logs of, while no ReplicatedTopic has it (ADR 0037).

    partition_count is the highest number plus one. in_trash: no log of it is on disk, all are in
    the trash; deleted_at_ms is the latest time at which one came there, 0 without any.
    """

    topic_id: TopicId
    topic_name: str
    partition_count: int
    in_trash: bool
    deleted_at_ms: int
    replicas: tuple[StrayReplicas, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """A BrokerCluster as the controller reads it, and the part of its status that it writes.

    controller_epoch is that of the record, 0 without one. topic_revision rises each time a
    controller came to know topics; strays_total counts those that found no room in strays, too.
    """

    resource_version: str
    uid: str
    is_deleting: bool
    controller_epoch: ControllerEpoch
    topic_revision: int = 0
    deleted_topics: tuple[DeletedTopic, ...] = ()
    strays: tuple[StrayTopic, ...] = ()
    strays_total: int = 0
