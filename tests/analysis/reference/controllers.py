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
    """Return the controller of each epoch: who was seen acting in it longest, or began last."""
    acted: dict[tuple[int, int], tuple[int, int]] = {}
    for labels, samples in series_of(history, ACTIVE).items():
        epochs = exactly(history, EPOCH, labels)
        since, before = 0, 0.0
        for held in holding(samples, of):
            acting, before = before, held.value
            if held.previous is None or not acting:
                since = held.at
            if held.value and held.at in epochs:
                key = (int(epochs[held.at]), broker_of(label(labels, "pod")))
                lasted, began = acted.get(key, (0, since))
                if acting and held.previous is not None and epochs.get(held.previous) == key[0]:
                    lasted += held.at - held.previous
                acted[key] = (lasted, max(began, since))
    longest = {key: (*of_one, key[1]) for key, of_one in acted.items()}
    return {
        epoch: max((of_one for key, of_one in longest.items() if key[0] == epoch))[2]
        for epoch, _ in acted
    }
