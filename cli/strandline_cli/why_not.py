"""What is amiss with clusters and topics, as their conditions say it: one line for each reason."""

from __future__ import annotations

from collections.abc import Iterable

from .kubectl import Object

TRUE_WHEN_AMISS = frozenset(
    {
        "BrokerFailed",
        "Conflict",
        "PartitionsCopied",
        "Rolling",
        "Scaling",
        "VolumesFull",
        "VolumesTooSmall",
    }
)
"""Conditions that are True while something is wrong or under way, and not True when all is well."""
AT_WORK = frozenset({"Stalled", "Reconciling"})
"""Conditions for programs; they repeat the reason of another one."""


def why_not(found: Object) -> list[str]:
    """Return the sentences of an object's conditions that are amiss, each reason once."""
    head = f"{found['kind']} {found['metadata']['name']}"
    sentences: dict[str, str] = {}
    for condition in found.get("status", {}).get("conditions", ()):
        kind, is_true = condition["type"], condition["status"] == "True"
        is_amiss = is_true if kind in TRUE_WHEN_AMISS else condition["status"] == "False"
        if is_amiss and kind not in AT_WORK:
            line = f"{head}: {condition['reason']}: {condition['message']}"
            sentences.setdefault(condition["reason"], line)
    return list(sentences.values())


def why_not_all(found: Iterable[Object]) -> list[str]:
    """Return the sentences of all of these objects."""
    return [sentence for each in found for sentence in why_not(each)]
