"""How values are printed in scenarios: short, and the same on every run."""

from __future__ import annotations

import dataclasses

from strandline.errors import ErrorCode
from strandline.model import (
    ElectionKind,
    EpochEndOffset,
    EpochStart,
    IsrEntry,
    LiveBroker,
    PartitionState,
    Recovery,
    TopicPartition,
)
from tests.support.world.values import NAME

HIDDEN_FIELDS = frozenset({"resource_version", "tp", "topic_name", "log_start_offset", "records"})


def line(item: object) -> str:
    """Return a frozen value as its name and fields."""
    fields = [
        f"{field.name}={value(getattr(item, field.name))}"
        if field.name != "request_id"
        else f"request_id={short(getattr(item, field.name))}"
        for field in dataclasses.fields(item)  # type: ignore[arg-type]  # a frozen value
        if field.name not in HIDDEN_FIELDS and getattr(item, field.name) is not None
    ]
    return " ".join([type(item).__name__, *partition_of(item), *fields])


def partition_of(item: object) -> list[str]:
    """Return the partition of a value, if it is not partition 0."""
    tp = getattr(item, "tp", None)
    return [f"partition={tp.partition}"] if isinstance(tp, TopicPartition) and tp.partition else []


def short(request_id: int) -> str:
    """Return a request id without the part that tells processes of a broker apart."""
    return str(request_id & 0xFFFF_FFFF)


def value(item: object) -> str:
    """Return a field's value."""
    match item:
        case ErrorCode():
            return item.name
        case IsrEntry() | LiveBroker():
            return f"{item.broker_id}@{item.broker_epoch}"
        case ElectionKind() | Recovery():
            return str(item.value)
        case TopicPartition():
            return f"{NAME}-{item.partition}"
        case EpochEndOffset():
            return f"({item.leader_epoch}, {item.end_offset})"
        case EpochStart():
            return f"{item.leader_epoch}@{item.start_offset}"
        case tuple() | list():
            return "[" + ", ".join(value(each) for each in item) + "]"
        case _:
            return str(item)


def state_text(state: PartitionState) -> str:
    """Return a committed state as text."""
    parts = [
        f"leader={state.leader} leader_epoch={state.leader_epoch}",
        f"partition_epoch={state.partition_epoch} isr={value(state.isr)}",
        f"controller_epoch={state.controller_epoch}",
        f"min_isr={state.min_insync_replicas}",
    ]
    if state.adding_replicas or state.removing_replicas:
        moving = f"adding={value(state.adding_replicas)} removing={value(state.removing_replicas)}"
        parts.append(f"replicas={value(state.replicas)} {moving}")
    if state.eligible_leaders:
        parts.append(f"elr={value(state.eligible_leaders)}")
    if state.recovery is not Recovery.CLEAN:
        parts.append(f"recovery={state.recovery.value}")
    if state.reason:
        parts.append(f"reason={state.reason}")
    return " ".join(parts)
