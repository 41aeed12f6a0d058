"""How effects and replicas are printed in scenarios: short, and the same on every run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from strandline.core.effects import (
    CreateReplica,
    Effect,
    LogReadInfo,
    PersistState,
    ProposeIsr,
    ReplyFetch,
    ReplyLeaderAndIsr,
    ReplyStopReplica,
    SendFetch,
    WriteEpochCheckpoint,
)
from strandline.core.views import PartitionView
from strandline.errors import ErrorCode
from strandline.model import EpochEndOffset, EpochStart, IsrEntry, LeaderEpoch

HIDDEN_FIELDS = frozenset({"tp", "topic_name", "log_start_offset", "records"})


def show(broker: int, effect: Effect) -> str | None:
    """Return one effect as a line, None for what only repeats the command."""
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
            each = partitions[0]
            return (
                f"{broker} -> {leader}  SendFetch request_id={short(effect.request_id)}"
                f" fetch_offset={each.fetch_offset} leader_epoch={each.leader_epoch}"
                f" last_fetched_epoch={each.last_fetched_epoch}"
            )
        case ReplyFetch(follower=follower, partitions=partitions):
            what = " ".join(map(read, partitions)) or "(nothing)"
            return (
                f"{broker} -> {follower}  ReplyFetch request_id={short(effect.request_id)} {what}"
            )
        case WriteEpochCheckpoint(epochs=epochs):
            return f"{broker}: WriteEpochCheckpoint {value(epochs)}"
        case _:
            return f"{broker}: {line(effect)}"


def read(each: LogReadInfo) -> str:
    """Return one partition of a response to a follower."""
    if each.error is not ErrorCode.NONE:
        return f"error={each.error.name}"
    if each.diverging is not None:
        return f"diverging={value(each.diverging)}"
    return f"hw={each.high_watermark} records=[{each.from_offset}, {each.up_to_offset})"


def line(item: object) -> str:
    """Return a frozen value as its name and fields."""
    fields = [
        f"{field.name}={value(getattr(item, field.name))}"
        if field.name != "request_id"
        else f"request_id={short(getattr(item, field.name))}"
        for field in dataclasses.fields(item)  # type: ignore[arg-type]  # a frozen value
        if field.name not in HIDDEN_FIELDS and getattr(item, field.name) is not None
    ]
    return " ".join([type(item).__name__, *fields])


def short(request_id: int) -> str:
    """Return a request id without the part that tells processes of a broker apart."""
    return str(request_id & 0xFFFF_FFFF)


def value(item: object) -> str:
    """Return a field's value."""
    match item:
        case ErrorCode():
            return item.name
        case IsrEntry():
            return f"{item.broker_id}@{item.broker_epoch}"
        case EpochEndOffset():
            return f"({item.leader_epoch}, {item.end_offset})"
        case EpochStart():
            return f"{item.leader_epoch}@{item.start_offset}"
        case tuple() | list():
            return "[" + ", ".join(value(each) for each in item) + "]"
        case _:
            return str(item)


def picture(broker: int, view: PartitionView) -> str:
    """Return a replica as a line."""
    parts = [
        f"{broker}: {view.role.value} leader_epoch={view.leader_epoch}",
        f"partition_epoch={view.partition_epoch} hw={view.high_watermark}",
        f"leo={view.log_end_offset} epochs={value(view.epochs)}",
    ]
    if view.followers:
        parts.append(f"isr={value(view.isr)} maximal_isr={sorted(view.maximal_isr)}")
    return " ".join(parts)


def records(broker: int, log: Iterable[tuple[LeaderEpoch, str]]) -> str:
    """Return the records of a log as `name@epoch`."""
    return f"{broker}: " + " ".join(f"{name}@{epoch}" for epoch, name in log)
