"""A store whose writes are compare-and-swaps, and its responses: OK, conflict, or unknown."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from strandline.controller.effects import (
    LoadCluster,
    ReadBroker,
    ReadClusterRecord,
    ReadControllerRecord,
    ReadEpochFloor,
    ReadLease,
    ReadStoredPartition,
    ReadTopics,
    WriteClusterRecord,
    WriteControllerRecord,
    WriteLease,
    WritePartitionStatus,
)
from strandline.controller.store_events import (
    BrokerRead,
    ClusterLoaded,
    ClusterRecordResponseReceived,
    ControllerRecordResponseReceived,
    EpochFloorRead,
    LeaseResponseReceived,
    PartitionResponseReceived,
    StoreOutcome,
    TopicsRead,
)
from strandline.controller.topic_effects import TellAppliedConfig
from strandline.model import (
    STATE_LOST,
    ClusterRecord,
    ControllerEpoch,
    ControllerRecord,
    LeaseRecord,
    PartitionState,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
    TopicPartition,
)

from .values import CLUSTER, LEASE_FREE, NO_RECORD

StoreRead = (
    ReadLease
    | ReadEpochFloor
    | ReadControllerRecord
    | LoadCluster
    | ReadStoredPartition
    | ReadBroker
    | ReadTopics
    | ReadClusterRecord
)
StoreWrite = WriteLease | WriteControllerRecord | WriteClusterRecord | WritePartitionStatus
StoreCall = StoreRead | StoreWrite
StoreResponse = (
    LeaseResponseReceived
    | EpochFloorRead
    | ControllerRecordResponseReceived
    | ClusterLoaded
    | PartitionResponseReceived
    | BrokerRead
    | TopicsRead
    | ClusterRecordResponseReceived
)


class FakeStore:
    """The objects of Kubernetes that a controller reads and writes."""

    def __init__(self) -> None:
        self.version = 10
        self.lease: LeaseRecord | None = LEASE_FREE
        self.record: ControllerRecord | None = NO_RECORD
        """The controller's record; None: there is no BrokerCluster."""
        self.cluster = CLUSTER
        """The rest of the BrokerCluster; `cluster_record` gives it its version and epoch."""
        self.partitions: dict[str, StoredPartition] = {}
        self.brokers: dict[int, StoredBroker] = {}
        self.topics: dict[TopicId, StoredTopic] = {}
        self.status_writes: list[PartitionState] = []
        self.history: dict[TopicPartition, list[PartitionState]] = {}

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    def back_up(self) -> FakeStore:
        """Return a copy of all objects."""
        copied = copy(self)
        copied.partitions, copied.brokers = dict(self.partitions), dict(self.brokers)
        copied.topics, copied.history = dict(self.topics), {}
        return copied

    def restored(self, backup: FakeStore) -> FakeStore:
        """Return what a backup has; the new API server gives no version twice."""
        restored = backup.back_up()
        restored.version = self.version
        return restored

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

    def cluster_record(self) -> ClusterRecord | None:
        """Return the BrokerCluster as the controller reads it."""
        if self.record is None:
            return None
        return replace(
            self.cluster,
            resource_version=self.record.resource_version,
            controller_epoch=self.record.controller_epoch,
        )

    def put_cluster(self, written: ClusterRecord) -> ClusterRecord | None:
        if self.record is None or self.record.resource_version != written.resource_version:
            return None
        version = self.next_version()
        self.record = replace(self.record, resource_version=version)
        deleted = (
            replace(each, deleted_at=each.deleted_at or f"t{version}")
            for each in written.deleted_topics
        )
        self.cluster = replace(written, deleted_topics=tuple(deleted))
        return self.cluster_record()

    def put_applied(self, told: TellAppliedConfig) -> StoredTopic | None:
        for found in self.topics.values():
            if (found.name, found.resource_version) == (told.name, told.resource_version):
                version = self.next_version()
                changed = replace(found, resource_version=version, applied=told.applied)
                self.topics[found.topic_id] = changed
                return changed
        return None

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
        """Fail on a write that the CRD's rules refuse."""
        assert new.leader == -1 or new.leader in new.isr_ids
        assert new.isr or new.leader == -1
        candidates = [entry.broker_id for entry in new.candidates]
        assert len(set(candidates)) == len(candidates)
        assert set(candidates) <= set(new.replicas)
        assert not new.eligible_leaders or len(new.isr) < new.min_insync_replicas
        for moving in (new.adding_replicas, new.removing_replicas):
            assert not moving or set(moving) < set(new.replicas)
        if old is None:
            return
        is_fence = new.reason == STATE_LOST and new.partition_epoch > old.partition_epoch
        assert new.partition_epoch == old.partition_epoch + 1 or is_fence
        assert new.leader_epoch >= old.leader_epoch
        assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
        assert set(old.replicas) <= set(new.replicas) or new.leader_epoch > old.leader_epoch

    # --- calls of controllers -----------------------------------------------------------

    def respond(self, call: StoreCall) -> StoreResponse:
        """Perform a call and return its response."""
        if isinstance(call, StoreWrite):
            return self._written(call)
        return self._read(call)

    def _written(self, call: StoreWrite) -> StoreResponse:
        match call:
            case WriteLease():
                lease = self.put_lease(call.lease)
                return LeaseResponseReceived(
                    request_id=call.request_id, outcome=_outcome_of(lease), lease=lease
                )
            case WriteControllerRecord():
                record = self.put_record(call.record)
                return ControllerRecordResponseReceived(
                    request_id=call.request_id, outcome=_outcome_of(record), record=record
                )
            case WriteClusterRecord():
                cluster = self.put_cluster(call.record)
                return ClusterRecordResponseReceived(
                    request_id=call.request_id, outcome=_outcome_of(cluster), record=cluster
                )
            case WritePartitionStatus():
                stored = self.put_status(call)
                return PartitionResponseReceived(
                    request_id=call.request_id, outcome=_outcome_of(stored), partition=stored
                )

    def _read(self, call: StoreRead) -> StoreResponse:
        request_id, ok = call.request_id, StoreOutcome.OK
        match call:
            case ReadLease():
                return LeaseResponseReceived(request_id=request_id, outcome=ok, lease=self.lease)
            case ReadEpochFloor():
                epochs = [p.state.controller_epoch for p in self.partitions.values() if p.state]
                return EpochFloorRead(
                    request_id=request_id,
                    outcome=ok,
                    partitions_epoch=max(epochs, default=ControllerEpoch(0)),
                    record=self.record,
                )
            case ReadControllerRecord():
                return ControllerRecordResponseReceived(
                    request_id=request_id, outcome=ok, record=self.record
                )
            case LoadCluster():
                return ClusterLoaded(
                    request_id=request_id,
                    outcome=ok,
                    cluster=self.cluster_record(),
                    partitions=tuple(self.partitions.values()),
                    brokers=tuple(self.brokers.values()),
                    topics=tuple(self.topics.values()),
                )
            case ReadStoredPartition():
                return PartitionResponseReceived(
                    request_id=request_id, outcome=ok, partition=self.partitions.get(call.name)
                )
            case ReadBroker():
                return BrokerRead(
                    request_id=request_id, outcome=ok, broker=self.brokers.get(call.broker_id)
                )
            case ReadClusterRecord():
                return ClusterRecordResponseReceived(
                    request_id=request_id, outcome=ok, record=self.cluster_record()
                )
            case ReadTopics():
                return TopicsRead(
                    request_id=request_id,
                    outcome=ok,
                    cluster=self.cluster_record(),
                    topic_ids=frozenset(self.topics),
                    topics=tuple(self.topics.values()),
                )


def _outcome_of(stored: object) -> StoreOutcome:
    return StoreOutcome.CONFLICT if stored is None else StoreOutcome.OK


def unknown_response(call: StoreCall) -> StoreResponse:
    """Return the response to a call that may or may not have been applied."""
    request_id, unknown = call.request_id, StoreOutcome.UNKNOWN
    match call:
        case ReadLease() | WriteLease():
            return LeaseResponseReceived(request_id=request_id, outcome=unknown)
        case ReadEpochFloor():
            return EpochFloorRead(request_id=request_id, outcome=unknown)
        case ReadControllerRecord() | WriteControllerRecord():
            return ControllerRecordResponseReceived(request_id=request_id, outcome=unknown)
        case ReadStoredPartition() | WritePartitionStatus():
            return PartitionResponseReceived(request_id=request_id, outcome=unknown)
        case LoadCluster():
            return ClusterLoaded(request_id=request_id, outcome=unknown)
        case ReadBroker():
            return BrokerRead(request_id=request_id, outcome=unknown)
        case ReadTopics():
            return TopicsRead(request_id=request_id, outcome=unknown)
        case ReadClusterRecord() | WriteClusterRecord():
            return ClusterRecordResponseReceived(request_id=request_id, outcome=unknown)
