"""Prints the effects of cores, replicas and logs in scenarios."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.controller.effects import ControllerEffect
from strandline.core.effects import (
    CreateReplica,
    LogReadInfo,
    PersistState,
    ProposeIsr,
    ReplyFetch,
    ReplyLeaderAndIsr,
    ReplyStopReplica,
    SendFetch,
    WriteEpochCheckpoint,
)
from strandline.core.fetch_changes import FetchPartition
from strandline.core.views import PartitionView
from strandline.errors import ErrorCode
from strandline.model import LeaderEpoch
from tests.support.world.world import Fate

from .printing import line, partition_of, short, value
from .show_controller import show_of_controller


def show(address: str, happened: object) -> str | None:
    """Return what happened at an address as a line, None if it only repeats the command."""
    if isinstance(happened, Fate):
        message = happened.message
        source, destination = message.source, message.destination
        if happened.word == "refused":
            source, destination = destination, source
        return f"{source} -> {destination}  {happened.word}: {type(message.content).__name__}"
    if isinstance(happened, ControllerEffect):
        return show_of_controller(address, happened)
    return _show_of_core(address, happened)


def _show_of_core(broker: str, effect: object) -> str | None:
    match effect:
        case CreateReplica() | PersistState():
            return None
        case ReplyLeaderAndIsr(error=error, partitions=partitions):
            errors = {error, *(each for _, each in partitions)} - {ErrorCode.NONE}
            if not errors:
                return None
            return f"{broker} -> controller  ReplyLeaderAndIsr error={min(errors).name}"
        case ReplyStopReplica(error=error):
            return f"{broker} -> controller  ReplyStopReplica error={error.name}"
        case ProposeIsr():
            return f"{broker} -> controller  {line(effect)}"
        case SendFetch(leader=leader, partitions=partitions):
            what = ", ".join(map(wanted, partitions))
            return f"{broker} -> {leader}  SendFetch request_id={short(effect.request_id)} {what}"
        case ReplyFetch(follower=follower, partitions=partitions):
            what = ", ".join(map(read, partitions)) or "(nothing)"
            return (
                f"{broker} -> {follower}  ReplyFetch request_id={short(effect.request_id)} {what}"
            )
        case WriteEpochCheckpoint(epochs=epochs):
            return f"{broker}: WriteEpochCheckpoint {value(epochs)}"
        case _:
            return f"{broker}: {line(effect)}"


def wanted(each: FetchPartition) -> str:
    """Return one partition of a follower's fetch."""
    parts = [
        *partition_of(each),
        f"fetch_offset={each.fetch_offset} leader_epoch={each.leader_epoch}",
        f"last_fetched_epoch={each.last_fetched_epoch}",
    ]
    if each.log_start_offset > 0:
        parts.append(f"log_start={each.log_start_offset}")
    return " ".join(parts)


def read(each: LogReadInfo) -> str:
    """Return one partition of a response to a follower."""
    if each.error is not ErrorCode.NONE:
        what = f"error={each.error.name}"
    elif each.diverging is not None:
        what = f"diverging={value(each.diverging)}"
    else:
        what = f"hw={each.high_watermark} records=[{each.from_offset}, {each.up_to_offset})"
        if each.log_start_offset > 0:
            what += f" log_start={each.log_start_offset}"
    return " ".join([*partition_of(each), what])


def picture(broker: int, view: PartitionView) -> str:
    """Return a replica as a line."""
    parts = [
        f"{broker}: {view.role.value} leader_epoch={view.leader_epoch}",
        f"partition_epoch={view.partition_epoch}",
        *([f"log_start={view.log_start_offset}"] if view.log_start_offset else []),
        f"hw={view.high_watermark}",
        f"leo={view.log_end_offset} epochs={value(view.epochs)}",
    ]
    if view.followers:
        parts.append(f"isr={value(view.isr)} maximal_isr={sorted(view.maximal_isr)}")
    return " ".join(parts)


def records(broker: int, log: Iterable[tuple[LeaderEpoch, str]]) -> str:
    """Return the records of a log as `name@epoch`."""
    names = " ".join(f"{name}@{epoch}" for epoch, name in log)
    return f"{broker}: {names or '(nothing)'}"
