"""Commands for scenarios in which controllers decide: sessions, the store, and their faults."""

from __future__ import annotations

from dataclasses import replace

from strandline.controller import effects
from strandline.controller.events import (
    BrokerResponseReceived,
    HeartbeatReceived,
    HostedReported,
    IsrChangeRequested,
    ProbeVerdict,
    ShutdownRequested,
    StopRequested,
)
from strandline.controller.store_events import (
    HolderDied,
    PartitionDeleted,
    PartitionObserved,
    TopicDeleted,
    WatchLost,
)
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    HolderIdentity,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    StoredPartition,
)
from tests.support.world.controllers import ControllerNode
from tests.support.world.network import Mode
from tests.support.world.session_messages import hosted_by, trashed_by
from tests.support.world.values import LEASE_FREE, NAME, topic

from .language import ScenarioError
from .story import Story

MESSAGES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        effects.ReadLease,
        effects.WriteLease,
        effects.ReadEpochFloor,
        effects.ReadControllerRecord,
        effects.WriteControllerRecord,
        effects.LoadCluster,
        effects.ReadStoredPartition,
        effects.WritePartitionStatus,
        effects.ReadBroker,
        effects.ReadTopics,
        effects.WriteClusterRecord,
        effects.SendFullState,
        effects.SendLeaderAndIsr,
        effects.SendStopReplica,
        effects.SendRestoreReplica,
        effects.ReplyAlterPartition,
        IsrChangeRequested,
        BrokerResponseReceived,
    )
}
"""The messages that `hold` can hold: calls of the store, and messages of sessions."""


def connect(
    story: Story, *, brokers: tuple[int, ...], controller: int, broker_epoch: int | None = None
) -> None:
    """Open sessions of brokers with a controller; each hello carries what its broker hosts."""
    _node(story, controller)
    for each in brokers:
        broker = story.broker(each)
        hosted, trashed = hosted_by(broker), trashed_by(broker)
        story.world.hello(each, controller, epoch=broker_epoch, hosted=hosted, trashed=trashed)


def disconnect(story: Story, *, broker: int, probe: ProbeVerdict) -> None:
    """Break the session of a broker; later probes of it have this result."""
    story.world.probes[broker] = probe
    story.world.break_session(broker)


def silence(story: Story, *, broker: int) -> None:
    """Freeze a broker: it sends no heartbeats and no probe responses; its session stays open."""
    story.world.silent.add(broker)
    story.world.probes[broker] = ProbeVerdict.NO_ANSWER


def resume(story: Story, *, broker: int) -> None:
    """Let a silenced broker send heartbeats and respond to probes again."""
    story.world.silent.discard(broker)
    story.world.probes[broker] = ProbeVerdict.ANSWERED


def propose(
    story: Story,
    *,
    broker: int,
    controller: int,
    isr: tuple[str, ...],
    request: int = 1,
    session: int | None = None,
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    broker_epoch: int | None = None,
) -> None:
    """Send an AlterPartition that no core made; its epochs are the stored ones unless given."""
    world, requester = story.world, story.broker(broker)
    world.alter(
        broker,
        controller,
        story.entries(isr),
        request_id=request,
        session_id=session,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        broker_epoch=broker_epoch or requester.broker_epoch,
    )


def report(story: Story, *, broker: int) -> None:
    """Let a broker report what it hosts, as each broker does every 30 s."""
    node_id, session_id = story.world.sessions[broker]
    reporter = story.broker(broker)
    story.world.deliver(
        node_id,
        HostedReported(
            session_id=session_id,
            broker_id=reporter.broker_id,
            hosted=hosted_by(reporter),
            trashed=trashed_by(reporter),
        ),
    )


def heartbeat(
    story: Story, *, broker: int, controller: int, session: int, broker_epoch: int
) -> None:
    """Send a heartbeat with any session id and broker epoch."""
    event = HeartbeatReceived(
        session_id=session,
        broker_id=story.broker(broker).broker_id,
        broker_epoch=BrokerEpoch(broker_epoch),
    )
    story.world.deliver(controller, event)


def fill_volume(story: Story, *, broker: int) -> None:
    """Let a broker's volume have no room for records; its heartbeats say so from now on."""
    story.world.full.add(broker)
    _tell_volume(story, broker)


def grow_volume(story: Story, *, broker: int) -> None:
    """Let a broker's volume have room again."""
    story.world.full.remove(broker)
    _tell_volume(story, broker)


def _tell_volume(story: Story, broker: int) -> None:
    heartbeat = story.world.heartbeat_of(broker)
    if broker in story.world.sessions and heartbeat is not None:
        story.world.deliver(story.world.sessions[broker][0], heartbeat)


def shutdown(story: Story, *, broker: int, broker_epoch: int | None = None) -> None:
    """Let a broker announce that its process will end."""
    node_id, session_id = story.world.sessions[broker]
    leaving = story.broker(broker)
    story.world.deliver(
        node_id,
        ShutdownRequested(
            session_id=session_id,
            request_id=story.next_id(),
            broker_id=leaving.broker_id,
            broker_epoch=BrokerEpoch(broker_epoch or leaving.broker_epoch),
        ),
    )


def stop(story: Story, *, controller: int) -> None:
    """Ask a controller to stop: it resigns and releases the Lease."""
    _node(story, controller)
    story.world.deliver(controller, StopRequested())


def freeze(story: Story, *, controller: int) -> None:
    """Freeze a controller's process; messages to it wait."""
    _node(story, controller).frozen = True


def thaw(story: Story, *, controller: int) -> None:
    """Let a frozen controller go on."""
    _node(story, controller).frozen = False


def cut_watch(story: Story, *, controller: int) -> None:
    """Stop a controller's watches without an error: its cache becomes stale."""
    _node(story, controller).cut = True


def restore_watch(story: Story, *, controller: int) -> None:
    """Restore a controller's watches; it receives WatchLost, and lists everything again."""
    _node(story, controller).cut = False
    story.world.deliver(controller, WatchLost())


def hold(story: Story, *, message: str, outcome: Mode) -> None:
    """Hold the next message of this kind.

    delayed: it waits for `release`. lost: it never arrives. response_lost, response_delayed: it
    arrives, and its response is lost or waits. The sender of a lost store call gets UNKNOWN.
    """
    if message not in MESSAGES:
        raise ScenarioError(f"no message {message!r}; messages are: {', '.join(MESSAGES)}")
    story.world.hold(MESSAGES[message], outcome)


def release(story: Story) -> None:
    """Deliver the oldest delayed message."""
    if not story.world.held:
        raise ScenarioError("no message is delayed")
    story.world.release()


def time_out(story: Story) -> None:
    """Give the sender of the oldest delayed store call UNKNOWN; the call is still under way."""
    if not story.world.held:
        raise ScenarioError("no message is delayed")
    story.world.time_out(story.world.held[0])


def write(
    story: Story,
    *,
    leader: int,
    isr: tuple[str, ...],
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    controller_epoch: int = 0,
    partition: int = 0,
    name: str = "",
) -> None:
    """Write the status of a partition as a foreign writer does, without any comparison.

    name= is the object's, by default orders-0 for partition 0.
    """
    found = story.world.store.partitions[name or f"{NAME}-{partition}"]
    (configured,) = story.world.store.topics.values()
    story.world.put_partition(
        PartitionState(
            replicas=found.assigned,
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(leader_epoch),
            partition_epoch=PartitionEpoch(partition_epoch),
            isr=story.entries(isr),
            min_insync_replicas=min(configured.min_insync_replicas, len(found.assigned)),
            controller_epoch=ControllerEpoch(controller_epoch),
        ),
        number=partition,
        assigned=found.assigned,
        name=name,
    )


def delete_partition(story: Story, *, partition: int, name: str = "") -> None:
    """Delete a Partition object by hand; the topic and the logs remain."""
    found = story.world.store.partitions.pop(name or f"{NAME}-{partition}")
    story.world.show(PartitionDeleted(name=found.name, tp=found.tp))


def assign(story: Story, *, replicas: tuple[int, ...], partition: int = 0) -> None:
    """Write the replicas that a partition shall have into its spec."""
    found = story.world.store.partitions[f"{NAME}-{partition}"]
    _wish(story, replace(found, assigned=tuple(map(BrokerId, replicas))))


def ask_preferred(story: Story, *, leader_epoch: int, partition: int = 0) -> None:
    """Ask in a partition's spec for its first replica to be elected in this leader epoch."""
    found = story.world.store.partitions[f"{NAME}-{partition}"]
    _wish(story, replace(found, elect_preferred_in=LeaderEpoch(leader_epoch)))


def _wish(story: Story, wished: StoredPartition) -> None:
    version, generation = story.world.store.next_version(), wished.generation + 1
    wished = replace(wished, resource_version=version, generation=generation)
    story.world.store.partitions[wished.name] = wished
    story.world.show(PartitionObserved(partition=wished))
    story.world.settle()


def make_partition(
    story: Story,
    *,
    partition: int,
    recover: bool = False,
    replicas: tuple[int, ...] = (),
    name: str = "",
) -> None:
    """Create a Partition object without a status, as the operator does; recover: it was lost.

    Assigned are all brokers, or replicas=. With name= it is another object of the partition than
    the operator's.
    """
    story.world.put_partition(
        None,
        number=partition,
        recover=recover,
        assigned=replicas or tuple(story.world.replication.brokers),
        name=name,
    )


def delete_topic(story: Story) -> None:
    """Delete the topic orders; its Partition objects remain."""
    story.world.delete_topic()


def back_up(story: Story) -> None:
    """Keep a backup of all objects, as a snapshot of etcd does."""
    story.backup = story.world.store.back_up()


def restore(story: Story) -> None:
    """Restore the backup: whatever was written since is gone, and every watch is lost."""
    if story.backup is None:
        raise ScenarioError("there is no backup")
    story.world.store = story.world.store.restored(story.backup)
    for node in story.world.nodes.values():
        if node.watching:
            node.inbox.append(WatchLost())
    story.world.settle()


def make_topic(story: Story, *, partitions: int, min_isr: int = 1) -> None:
    """Create the topic orders and its Partitions, each on all brokers."""
    assigned = tuple(story.world.replication.brokers)
    story.world.put_topic(topic(min_isr=min_isr))
    for number in range(partitions):
        story.world.put_partition(None, number=number, assigned=assigned)


def seem_deleted(story: Story) -> None:
    """Let the watch show that the topic is deleted, although it is not."""
    (found,) = story.world.store.topics
    story.world.show(TopicDeleted(topic_id=found))


def take_lease(story: Story, *, broker: int) -> None:
    """Write a broker's process into the Lease as its holder, with the Lease's present epoch."""
    holder = _holder(story, broker)
    found = story.world.store.lease
    if found is None or story.world.store.put_lease(replace(found, holder_identity=holder)) is None:
        raise ScenarioError("there is no Lease")
    story.world.show_lease()


def holder_died(story: Story, *, broker: int, controller: int) -> None:
    """Tell a candidate that probes proved this process dead, which may hold the Lease."""
    _node(story, controller)
    story.world.deliver(controller, HolderDied(holder_identity=_holder(story, broker)))


def _holder(story: Story, broker: int) -> str:
    """Return how the last process of a broker signs the Lease."""
    found = story.world.replication.brokers.get(broker)
    epoch = 1 if found is None else found.broker_epoch
    identity = HolderIdentity(broker_id=BrokerId(broker), incarnation=f"pod-{broker}/{epoch}")
    return str(identity)


def delete_lease(story: Story) -> None:
    """Delete the Lease."""
    story.world.store.lease = None
    story.world.show_lease()


def recreate_lease(story: Story) -> None:
    """Create the Lease again: free, and without a controller epoch."""
    version = story.world.store.next_version()
    story.world.store.lease = replace(LEASE_FREE, resource_version=version)
    story.world.show_lease()


def _node(story: Story, controller: int) -> ControllerNode:
    found = story.world.nodes.get(controller)
    if found is None:
        known = ", ".join(map(str, story.world.nodes)) or "none"
        raise ScenarioError(f"no controller {controller}; controllers are: {known}")
    return found
