"""Commands about processes, disks and time."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from strandline.core.events import LogDirectoryLost, LogFlushed
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
)
from tests.support.world.network import controller_address
from tests.support.world.values import topic, tp

from . import script_controller
from .language import ScenarioError
from .story import Story

FOREVER_MS = 10_000_000
QUIET_FIGURES = {
    "fetch_wait_max_ms": FOREVER_MS,
    "fetch_timeout_ms": FOREVER_MS,
    "high_watermark_checkpoint_interval_ms": FOREVER_MS,
}


def cluster(
    story: Story,
    *,
    brokers: int,
    min_isr: int = 1,
    controllers: tuple[int, ...] = (),
    partitions: int = 1,
    replicas: tuple[int, ...] = (),
    **figures: int,
) -> None:
    """Start brokers 0, 1, ..., each assigned to every partition of the topic orders.

    With replicas=, only these are assigned. With controllers=, these brokers run controllers that
    decide; without, the script decides. Further keys are settings of the core. With partitions=0
    there is no topic yet.
    """
    if story.world.replication.brokers:
        raise ScenarioError("a story has one cluster")
    story.core_settings = replace(story.core_settings, **{**QUIET_FIGURES, **figures})
    story.controllers = controllers
    ids = tuple(range(brokers))
    for broker_id in ids:
        story.world.replication.add(broker_id, story.core_settings)
        story.world.start(broker_id)
    if partitions:
        story.world.put_topic(topic(min_isr=min_isr))
    for number in range(partitions):
        assigned = replicas or ids
        state = None if controllers else _unborn(assigned, min_isr)
        story.world.put_partition(state, number=number, assigned=assigned)
    for broker_id in controllers:
        story.world.add_node(broker_id)
    if not controllers:
        script_controller.live(story, brokers=ids)


def _unborn(replicas: tuple[int, ...], min_isr: int) -> PartitionState:
    """Return the state before the script's first election."""
    return PartitionState(
        replicas=tuple(map(BrokerId, replicas)),
        leader=BrokerId(-1),
        leader_epoch=LeaderEpoch(-1),
        partition_epoch=PartitionEpoch(-1),
        isr=(),
        min_insync_replicas=min_isr,
        controller_epoch=ControllerEpoch(1),
    )


def advance(story: Story, *, ms: int) -> None:
    """Let time pass; all that is due happens, in the order of its time."""
    story.world.advance(ms)


def kill(story: Story, *, broker: int) -> None:
    """End the process of a broker and of its controller; its disk stays as it is."""
    story.broker(broker)
    story.proposals.pop(broker, None)
    if story.world.nodes.pop(broker, None) is not None:
        story.world.network.unregister(controller_address(broker))
    story.world.kill(broker)


def start(story: Story, *, broker: int, log: str = "kept", begin: int | None = None) -> None:
    """Begin a new process and register it; a process that still runs is killed before.

    log=kept is a clean start. A number keeps the records below it and loses the rest: an unclean
    start; 0 is an empty disk. With begin=, older segments are deleted: the log begins there.
    """
    started = story.broker(broker)
    if begin is not None:
        started.disk.begin_at(begin)
        story.world.replication.invariants.forget_below(begin)
    if log != "kept":
        started.clean_since_epoch = BrokerEpoch(started.broker_epoch + 1)
        started.disk.cut(int(log))
        if int(log) == 0:
            started.wipe()
    if started.alive:
        story.world.replication.kill(broker)
    story.world.start(broker)
    if broker in story.controllers and broker not in story.world.nodes:
        story.world.add_node(broker, incarnation=f"pod-{broker}/{started.broker_epoch}")


def hold_persist(story: Story, *, broker: int) -> None:
    """Make the disk of a broker slow: each later write of its state or a log start waits."""
    story.world.replication.persist_held[broker] = deque()


def persist(story: Story, *, broker: int) -> None:
    """Finish the oldest write of a slow disk."""
    waiting = story.world.replication.persist_held[broker]
    story.step(broker, waiting.popleft())


def flush(story: Story, *, broker: int) -> list[str] | None:
    """End the sync of a log that follows its appends; what came behind it is for the next one."""
    end = story.broker(broker).disk.end_sync()
    if end is None:
        return ["overtaken by a cut, the next one begins"]
    story.step(broker, LogFlushed(tp=tp(), offset=end))
    return None


def lose_disk(story: Story, *, broker: int) -> None:
    """Let the log directory of a broker fail."""
    story.step(broker, LogDirectoryLost(reason="read only"))


def configure(
    story: Story,
    *,
    min_isr: int | None = None,
    unclean: bool | None = None,
    segment_bytes: int | None = None,
    flush_messages: int | None = None,
    digest: str = "",
) -> None:
    """Change the topic's configuration in the store; only a controller informs brokers of it.

    With digest= the controller tells in the topic's status which brokers work with it.
    """
    (found,) = story.world.store.topics.values()
    settings = found.settings
    story.world.put_topic(
        replace(
            found,
            resource_version=story.world.store.next_version(),
            config_digest=digest,
            min_insync_replicas=min_isr or found.min_insync_replicas,
            unclean_leader_election=found.unclean_leader_election if unclean is None else unclean,
            settings=replace(
                settings,
                segment_bytes=segment_bytes or settings.segment_bytes,
                flush_messages=flush_messages or settings.flush_messages,
            ),
        )
    )
