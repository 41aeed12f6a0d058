"""Commands of a scenario that print and change nothing."""

from __future__ import annotations

from strandline.model import LeaderEpoch
from tests.support.world.values import tp

from .printing import state_text, value
from .show import picture, records
from .show_controller import holder
from .story import Story


def state(story: Story) -> list[str]:
    """Print every broker's replica of partition 0."""
    printed = []
    for broker_id, broker in story.world.replication.brokers.items():
        view = broker.replicas.view(tp())
        if broker.alive and view is not None:
            printed.append(picture(broker_id, view))
        else:
            printed.append(f"{broker_id}: {'no replica' if broker.alive else 'down'}")
    return printed


def logs(story: Story) -> list[str]:
    """Print every broker's records of partition 0, each with its leader epoch."""
    return [
        records(each, broker.disk.log[broker.disk.log_start_offset :])
        for each, broker in story.world.replication.brokers.items()
    ]


def stored(story: Story) -> list[str]:
    """Print the status of every partition in the store."""
    return [
        f"{name} {'no status' if found.state is None else state_text(found.state)}"
        for name, found in sorted(story.world.store.partitions.items())
    ]


def told(story: Story) -> list[str]:
    """Print the deleted topics and the strays that the BrokerCluster names."""
    found = story.world.store.cluster
    printed = [f"deleted: {each.topic_name}" for each in found.deleted_topics]
    for stray in found.strays:
        where = "in trash" if stray.in_trash else "on disk"
        replicas = " ".join(
            f"{each.partition}:{','.join(map(str, each.brokers))}" for each in stray.replicas
        )
        printed.append(f"stray {where}: {stray.topic_name} {replicas}")
    return printed


def controllers(story: Story) -> list[str]:
    """Print which controllers are active, and the store's Lease and controller record."""
    printed = []
    for broker_id, node in sorted(story.world.nodes.items()):
        epoch = node.controller.epoch
        active = "candidate" if epoch is None else f"active controller_epoch={epoch}"
        stopped = "stopped" if node.controller.is_stopped else active
        printed.append(f"controller-{broker_id}: {stopped}{' frozen' if node.frozen else ''}")
    for name, found in (("Lease", story.world.store.lease), ("record", story.world.store.record)):
        if found is None:
            printed.append(f"{name}: none")
        else:
            printed.append(f"{name}: {holder(found)}")
    return printed


def disk(story: Story, *, broker: int) -> list[str]:
    """Print what a new process would find on a broker's disk of partition 0."""
    found = story.broker(broker).disk
    epochs = f"({found.leader_epoch}, {found.partition_epoch})"
    persisted = f"persisted={epochs} isr={value(found.isr)}"
    if not found.exists:
        return [f"no log, {persisted}"]
    span = f"[{found.log_start_offset}, {len(found.log)})"
    return [f"log={span} segment_bytes={found.settings.segment_bytes} {persisted}"]


def offset(story: Story, *, broker: int, of: str) -> list[str]:
    """Request the earliest or latest offset, or the offset of a timestamp."""
    timestamp = {"earliest": -2, "latest": -1}.get(of)
    wanted = int(of) if timestamp is None else timestamp
    error, found, epoch = story.broker(broker).replicas.consumer_reads.list_offset(
        tp(), wanted, None
    )
    return [f"{error.name} {found} leader_epoch={epoch}"]


def epoch_end(story: Story, *, broker: int, leader_epoch: int) -> list[str]:
    """Request the end offset of a leader epoch."""
    error, end = story.broker(broker).replicas.consumer_reads.end_offset_for_epoch(
        tp(), LeaderEpoch(leader_epoch), None
    )
    return [f"{error.name} {value(end)}"]


def consume(
    story: Story, *, broker: int, offset: int, last_fetched_epoch: int | None = None
) -> list[str]:
    """Read below the high watermark, as a consumer does."""
    last = None if last_fetched_epoch is None else LeaderEpoch(last_fetched_epoch)
    read = story.broker(broker).replicas.consumer_reads.read(
        tp(), fetch_offset=offset, leader_epoch=None, last_fetched_epoch=last
    )
    if read.diverging is not None:
        return [f"diverging {value(read.diverging)}"]
    found = story.broker(broker).disk.log[read.from_offset : read.up_to_offset]
    names = " ".join(name for _, name in found) or "(nothing)"
    return [f"{read.error.name} hw={read.high_watermark} {names}"]
