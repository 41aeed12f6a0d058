"""Values for tests of the controller, and a store whose writes are compare-and-swaps."""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.effects import WritePartitionStatus
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerRecord,
    Endpoint,
    IsrEntry,
    LeaderEpoch,
    LeaseRecord,
    PartitionEpoch,
    PartitionState,
    Registration,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
    TopicPartition,
    TopicSettings,
)

TOPIC = TopicId("uid-orders")
NO_RECORD = ControllerRecord(
    resource_version="2",
    holder_identity="",
    broker_id=BrokerId(-1),
    controller_epoch=ControllerEpoch(0),
)
LEASE_FREE = LeaseRecord(
    name="c-controller",
    resource_version="1",
    holder_identity="",
    lease_duration_seconds=3,
    acquire_time="",
    renew_time="",
    lease_transitions=0,
    controller_epoch=ControllerEpoch(0),
)


def entry(broker_id: int, broker_epoch: int = 1) -> IsrEntry:
    return IsrEntry(broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(broker_epoch))


def tp(partition: int = 0, topic_id: TopicId = TOPIC) -> TopicPartition:
    return TopicPartition(topic_id=topic_id, partition=partition)


def registration(broker_id: int, epoch: int = 1, clean_since: int = 1) -> Registration:
    return Registration(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(epoch),
        clean_since_epoch=BrokerEpoch(clean_since),
        incarnation=f"pod-{broker_id}/{epoch}",
        endpoints=(Endpoint(listener="GRPC", host=f"10.0.0.{broker_id}", port=9090),),
        log_dir_id=f"dir-{broker_id}",
        boot_id="boot",
    )


def state(
    *,
    leader: int = 0,
    isr: tuple[IsrEntry, ...] = (entry(0), entry(1), entry(2)),
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    controller_epoch: int = 0,
    min_isr: int = 2,
    replicas: tuple[int, ...] = (0, 1, 2),
    reason: str = "",
) -> PartitionState:
    return PartitionState(
        replicas=tuple(BrokerId(r) for r in replicas),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        isr=isr,
        min_insync_replicas=min_isr,
        controller_epoch=ControllerEpoch(controller_epoch),
        reason=reason,
    )


def topic(*, min_isr: int = 2, unclean: bool = False, topic_id: TopicId = TOPIC) -> StoredTopic:
    return StoredTopic(
        name="orders",
        resource_version="1",
        topic_id=topic_id,
        topic_name="orders",
        min_insync_replicas=min_isr,
        unclean_leader_election=unclean,
        settings=TopicSettings(),
    )


class FakeStore:
    """Kubernetes, as far as a controller sees it: each write is a compare-and-swap."""

    def __init__(self) -> None:
        self.version = 10
        self.lease: LeaseRecord | None = LEASE_FREE
        self.record: ControllerRecord | None = NO_RECORD
        self.partitions: dict[str, StoredPartition] = {}
        self.brokers: dict[int, StoredBroker] = {}
        self.topics: dict[TopicId, StoredTopic] = {}
        self.status_writes: list[PartitionState] = []
        self.history: dict[TopicPartition, list[PartitionState]] = {}

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        if self.lease is None or self.lease.resource_version != lease.resource_version:
            return None
        version = self.next_version()
        self.lease = replace(
            lease,
            resource_version=version,
            renew_time=lease.renew_time or f"t{version}",
            acquire_time=lease.acquire_time or f"t{version}",
        )
        return self.lease

    def put_record(self, record: ControllerRecord) -> ControllerRecord | None:
        if self.record is None or self.record.resource_version != record.resource_version:
            return None
        assert record.controller_epoch >= self.record.controller_epoch
        self.record = replace(record, resource_version=self.next_version())
        return self.record

    def put_status(self, write: WritePartitionStatus) -> StoredPartition | None:
        found = self.partitions.get(write.name)
        if found is None or found.resource_version != write.resource_version:
            return None
        self.check_rules(found.state, write.state)
        stored = replace(found, resource_version=self.next_version(), state=write.state)
        self.partitions[write.name] = stored
        self.status_writes.append(write.state)
        self.history.setdefault(found.tp, []).append(write.state)
        return stored

    @staticmethod
    def check_rules(old: PartitionState | None, new: PartitionState) -> None:
        """Refuse what the rules of the CRD refuse."""
        assert new.leader == -1 or new.leader in new.isr_ids
        assert new.isr or new.leader == -1
        assert set(new.isr_ids) <= set(new.replicas)
        if old is None:
            return
        assert new.partition_epoch == old.partition_epoch + 1
        assert new.leader_epoch >= old.leader_epoch
        assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
