"""Makes values for tests from plain numbers: objects of the store, ids and epochs."""

from __future__ import annotations

from strandline.controller.events import HostedReplica
from strandline.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ClusterRecord,
    ControllerEpoch,
    ControllerRecord,
    Endpoint,
    IsrEntry,
    LeaderEpoch,
    LeaseRecord,
    PartitionEpoch,
    PartitionState,
    Registration,
    StoredTopic,
    TopicId,
    TopicPartition,
    TopicSettings,
)

TOPIC = TopicId("uid-orders")
NAME = "orders"
NO_RECORD = ControllerRecord(
    resource_version="2",
    holder_identity="",
    broker_id=BrokerId(-1),
    controller_epoch=ControllerEpoch(0),
)
CLUSTER = ClusterRecord(
    resource_version="2",
    uid="uid-cluster",
    is_deleting=False,
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


def replica(found: TopicPartition, partition_epoch: int = 0) -> HostedReplica:
    return HostedReplica(
        tp=found,
        topic_name=NAME,
        leader=NO_LEADER,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(partition_epoch),
        accepted_leader_epoch=LeaderEpoch(0),
        accepted_partition_epoch=PartitionEpoch(partition_epoch),
        last_epoch=LeaderEpoch(0),
        log_start_offset=0,
        log_end_offset=3,
    )


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
    elr: tuple[IsrEntry, ...] = (),
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
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
        eligible_leaders=elr,
        adding_replicas=tuple(map(BrokerId, adding)),
        removing_replicas=tuple(map(BrokerId, removing)),
    )


def topic(
    *, min_isr: int = 2, unclean: bool = False, topic_id: TopicId = TOPIC, partitions: int = 1
) -> StoredTopic:
    return StoredTopic(
        name=NAME,
        resource_version="1",
        topic_id=topic_id,
        topic_name=NAME,
        partition_count=partitions,
        min_insync_replicas=min_isr,
        unclean_leader_election=unclean,
        settings=TopicSettings(),
    )
