"""Reference of the controllers' part of analysis 6."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.analysis.reference.holding import History, Range, exactly, holding, label, series_of
from tests.analysis.reference.leader_states import broker_of

EPOCH, ACTIVE = "strandline_controller_epoch", "strandline_controller_active"


def controller_elections(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield when brokers began to obey another controller; epoch 0 is that of none."""
    begun: dict[int, tuple[int, int]] = {}
    for samples in series_of(history, EPOCH).values():
        for held in holding(samples, of):
            error = of.interval_ms if held.previous is None else held.at - held.previous
            epoch = int(held.value)
            begun[epoch] = min(begun.get(epoch, (held.at, error)), (held.at, error))
    begun.pop(0, None)
    acted = _controllers(history, of)
    for before, epoch in zip(sorted(begun), sorted(begun)[1:], strict=False):
        at, error = begun[epoch]
        yield {
            "epoch": epoch,
            "old_controller": acted.get(before) if before == epoch - 1 else None,
            "new_controller": acted.get(epoch),
            "at_ms": at,
            "at_err_ms": error,
        }


def _controllers(history: History, of: Range) -> dict[int, int]:
    """Return the controller of each epoch: of those that acted in it the one that began last."""
    acted: dict[int, tuple[int, int]] = {}
    for labels, samples in series_of(history, ACTIVE).items():
        epochs = exactly(history, EPOCH, labels)
        since, before = 0, 0.0
        for held in holding(samples, of):
            if held.previous is None or not before:
                since = held.at
            before = held.value
            if held.value and held.at in epochs:
                one = (since, broker_of(label(labels, "pod")))
                epoch = int(epochs[held.at])
                acted[epoch] = max(acted.get(epoch, one), one)
    return {epoch: broker for epoch, (_, broker) in acted.items()}
