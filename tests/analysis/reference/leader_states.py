"""What leaders told, as intervals, from single samples: the reference of analyses 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.analysis.reference.holding import (
    Held,
    History,
    Labels,
    Range,
    exactly,
    holding,
    label,
    series_of,
)

VERSION = "strandline_partition_partition_epoch"
ISR_GAUGES = ("strandline_partition_isr_member", "strandline_partition_isr_size")
Subject = tuple[str, int, int | None]
"""Topic, partition, and replica if the gauge has one."""
Edge = tuple[int, int]
"""A time and its error."""
Told = tuple[int, float]
"""The time of a leadership's last sample, and the partition epoch in it; NaN: not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A time in which a gauge had one value; None where that is not known."""

    value: float | None
    start_ms: int
    end_ms: int
    start_err_ms: int
    end_err_ms: int
    start_reason: str
    end_reason: str
    epoch: int | None = None
    pod: str | None = None


def broker_of(pod: str) -> int:
    """Return the broker's id, the ordinal at the end of its pod's name."""
    return int(pod.rsplit("-", 1)[1])


def leader_states(
    history: History, gauges: tuple[str, ...], of: Range
) -> dict[tuple[str, Subject], list[State]]:
    """Return by gauge and subject the states over the whole range, for one partition's history."""
    first_scrape: dict[int, int] = {}
    last_told: dict[int, Told] = {}
    pieces: dict[tuple[str, Subject], list[State]] = {}
    listed = [
        (gauge, labels, samples)
        for gauge in gauges
        for labels, samples in series_of(history, gauge).items()
    ]
    for _, labels, samples in listed:
        epochs = exactly(history, "strandline_partition_leader_epoch", labels)
        versions = exactly(history, VERSION, labels)
        for at, value in samples:
            if value is not None:
                epoch, told = int(epochs[at]), (at, versions.get(at, math.nan))
                first_scrape[epoch] = min(first_scrape.get(epoch, at), at)
                last_told[epoch] = max(last_told.get(epoch, told), told, key=lambda each: each[0])
    for gauge, labels, samples in listed:
        replica = label(labels, "replica")
        subject = (
            label(labels, "topic"),
            int(label(labels, "partition")),
            int(replica) if replica else None,
        )
        found = pieces.setdefault((gauge, subject), [])
        of_series = holding(samples, of)
        found += _of_series(history, gauge, labels, of_series, first_scrape, last_told, of)
    whole: dict[tuple[str, Subject], list[State]] = {}
    for of_isr in (True, False):
        alike = {key: states for key, states in pieces.items() if (key[0] in ISR_GAUGES) is of_isr}
        begun: dict[int, Edge] = {}
        ended: dict[int, int] = {}
        for state in (each for states in alike.values() for each in states):
            assert state.epoch is not None
            edge = (state.start_ms, state.start_err_ms)
            begun[state.epoch] = min(begun.get(state.epoch, edge), edge)
            ended[state.epoch] = max(ended.get(state.epoch, 0), state.end_ms)
        whole |= {key: _whole(states, begun, ended, of) for key, states in alike.items()}
    return whole


def _of_series(
    history: History,
    gauge: str,
    labels: Labels,
    samples: list[Held],
    first_scrape: dict[int, int],
    last_told: dict[int, Told],
    of: Range,
) -> Iterator[State]:
    """Yield the pieces of one series: equal values in a row under one leader epoch."""
    epochs = exactly(history, "strandline_partition_leader_epoch", labels)
    versions = exactly(history, VERSION, labels)
    changes = exactly(history, "strandline_partition_isr_last_change_timestamp_seconds", labels)
    begins = exactly(history, "strandline_partition_leader_since_timestamp_seconds", labels)
    made: list[State] = []
    before: Held | None = None
    for sample in samples:
        at, epoch = sample.at, int(epochs[sample.at])
        follows = before is not None and sample.previous == before.at
        same_epoch = follows and before is not None and int(epochs[before.at]) == epoch
        if same_epoch and before is not None and before.value == sample.value:
            made[-1] = replace(made[-1], end_ms=sample.until, end_reason=sample.end_reason)
            before = sample
            continue
        changed, since = round(changes[at] * 1000), round(begins[at] * 1000)
        of_isr = gauge in ISR_GAUGES
        previous = sample.previous if same_epoch else None
        if at == first_scrape[epoch] and 0 <= at - since <= of.gap_ms:
            own_change = changed if of_isr else None
            version, told = versions.get(at, math.nan), _told_before(last_told, epoch)
            start, error = _begin(told, at=at, since=since, changed=own_change, version=version)
        elif (
            of_isr
            and previous is not None
            and previous < changed <= at
            and versions[at] == versions[previous] + 1
        ):
            start, error = changed, 0
        else:
            start, error = at, of.interval_ms if previous is None else at - previous
        if follows and made and made[-1].end_ms == at:
            reason = made[-1].end_reason if same_epoch else "leader_change"
            made[-1] = replace(made[-1], end_ms=start, end_err_ms=error, end_reason=reason)
        made.append(
            State(
                value=sample.value,
                start_ms=start,
                end_ms=sample.until,
                start_err_ms=error,
                end_err_ms=of.interval_ms,
                start_reason="leader_change" if follows and not same_epoch else sample.start_reason,
                end_reason=sample.end_reason,
                epoch=epoch,
                pod=label(labels, "pod"),
            )
        )
        before = sample
    yield from made


def _told_before(last_told: dict[int, Told], epoch: int) -> Told | None:
    """Return what the leadership before an epoch told last, None without one."""
    earlier = [each for each in last_told if each < epoch]
    return last_told[max(earlier)] if earlier else None


def _begin(told: Told | None, *, at: int, since: int, changed: int | None, version: float) -> Edge:
    """Return the start of a piece that the first scrape of a leadership shows.

    Shape:   told by the leadership before; changed is None of gauges that are not of the ISR
    """
    start, error = since, at - since
    if changed is not None and since <= changed <= at:
        start, error = changed, changed - since
    if told is None:
        return start, error
    last, version_before = told
    rose = version - version_before
    # An election and the new leader's own change are all that raised the version.
    is_all = changed is not None and (
        (rose == 1 and changed == since) or (rose == 2 and changed > since)
    )
    return start, error if is_all else max(error, start - last)


def _whole(
    states: list[State], begun: dict[int, tuple[int, int]], ended: dict[int, int], of: Range
) -> list[State]:
    """Cut leaderships where later ones begin, merge equal neighbours, and fill the holes."""
    cut = []
    for state in states:
        assert state.epoch is not None
        end, error, reason = state.end_ms, state.end_err_ms, state.end_reason
        later = min((edge for epoch, edge in begun.items() if epoch > state.epoch), default=None)
        if later is not None and later[0] <= end:
            (end, error), reason = later, "leader_change"
        known_until = max((at for epoch, at in ended.items() if epoch < state.epoch), default=0)
        follows = state.start_ms == begun[state.epoch][0] <= known_until
        bounded = replace(
            state,
            start_ms=max(state.start_ms, of.start_ms),
            start_reason="leader_change" if follows else state.start_reason,
            end_ms=min(end, of.end_ms),
            end_err_ms=error,
            end_reason=reason,
        )
        if bounded.start_ms < bounded.end_ms:
            cut.append(bounded)
    whole: list[State] = []
    for state in sorted(cut, key=lambda each: each.start_ms):
        last = whole[-1] if whole else None
        if last is not None and last.end_ms >= state.start_ms and last.value == state.value:
            whole[-1] = replace(
                last,
                end_ms=state.end_ms,
                end_err_ms=state.end_err_ms,
                end_reason=state.end_reason,
            )
        else:
            whole.append(state)
    return _without_holes(whole, of)


def _without_holes(states: list[State], of: Range) -> list[State]:
    filled = []
    at, error, reason = of.start_ms, 0, "range"
    for state in states:
        if at < state.start_ms:
            filled.append(
                _unknown(at, error, reason, state.start_ms, state.start_err_ms, state.start_reason)
            )
        filled.append(state)
        at, error, reason = state.end_ms, state.end_err_ms, state.end_reason
    if at < of.end_ms:
        filled.append(_unknown(at, error, reason, of.end_ms, 0, "range"))
    return filled


def _unknown(
    start: int, start_err: int, start_reason: str, end: int, end_err: int, end_reason: str
) -> State:
    return State(
        value=None,
        start_ms=start,
        end_ms=end,
        start_err_ms=start_err,
        end_err_ms=end_err,
        start_reason=start_reason,
        end_reason=end_reason,
    )
