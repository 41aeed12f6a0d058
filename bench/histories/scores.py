"""How well a table agrees with the truth: precision, recall, edges, durations.

Plain Python over rows, for tests and for whoever prints scores. Three shapes of tables are
compared: states (every moment has one, null where it is unknown), episodes (times in which
something was so) and events (one moment each, known by a key).

States are compared where they are known: samples cannot tell what happened in a gap, and that is no
error. How much is known is a score of its own. What happened between two scrapes cannot be seen
either; such edges are missed, and told apart from those that could have been found.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Row = Mapping[str, Any]
CanShow = Callable[[Row], bool]
"""Whether a scrape could show a row of the truth."""
IOU_MIN: Final = 0.8
"""Share of their union that two intervals have in common at least, to be the same one."""

SHARE_ERROR: Final = 0.01
"""How far two shares of a whole lie apart at most, to be the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a table agrees with the truth."""

    found: int
    """Rows of the table that say something."""
    expected: int
    """Rows of the truth that lie in known time."""
    matched: int
    worst_duration_error_ms: int = 0
    """Of the rows that match."""
    missed_edges: int = 0
    """Changes in known time that the table has not within a scrape interval."""
    missed_between_scrapes: int = 0
    """Those of them beside a state that lasted less than a scrape interval."""
    unseen: int = 0
    """Rows of the truth that no scrape could show, and that are not among the expected ones."""
    late_edges: int = 0
    """Edges of the table that lie outside of their own stated error."""
    wrong_ms: int = 0
    """Time in which the table says something else than the truth, beyond its stated errors."""
    known_ms: int = 0
    total_ms: int = 0

    @property
    def precision(self) -> float:
        """Return the share of what was found that is true; 1 if nothing was found."""
        return self.matched / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Return the share of what is true that was found; 1 if there was nothing."""
        return self.matched / self.expected if self.expected else 1.0

    @property
    def coverage(self) -> float:
        """Return the share of the time that is known."""
        return self.known_ms / self.total_ms if self.total_ms else 1.0

    def __str__(self) -> str:
        return (
            f"precision {self.precision:.3f}, recall {self.recall:.3f} of {self.expected}, "
            f"worst duration error {self.worst_duration_error_ms} ms, missed edges "
            f"{self.missed_edges} ({self.missed_between_scrapes} between scrapes), "
            f"wrong {self.wrong_ms} ms, known {self.coverage:.3f}"
        )


def always(_: Row) -> bool:
    """Tell that scrapes could show a row."""
    return True


def states(
    table: Iterable[Row], truth: Iterable[Row], *, key: Sequence[str], value: str, interval_ms: int
) -> Score:
    """Score a table that tells a state at every moment.

    Shape:   rows have `key`, `value` (null: unknown), start_ms and end_ms; rows of the table also
             start_err_ms and end_err_ms
    Units:   interval_ms is the scrape interval
    """
    found, true = _by_key(table, key), _by_key(truth, key)
    total = Score(found=0, expected=0, matched=0)
    for subject in found.keys() | true.keys():
        score = _states_of(found[subject], true[subject], value=value, interval_ms=interval_ms)
        total = _sum(total, score)
    return total


def episodes(
    table: Iterable[Row],
    truth: Iterable[Row],
    *,
    key: Sequence[str],
    interval_ms: int,
    can_show: CanShow = always,
) -> Score:
    """Score a table that tells when something was so; where it has no row, it was not.

    Shape:   rows have `key`, start_ms and end_ms
    """
    found, true = _by_key(table, key), _by_key(truth, key)
    total = Score(found=0, expected=0, matched=0)
    for subject in found.keys() | true.keys():
        rows, expected = found[subject], true[subject]
        pairs = _matched(rows, expected, interval_ms=interval_ms)
        errors = [abs(_length(row) - _length(other)) for row, other in pairs]
        matched = {id(other) for _, other in pairs}
        missed = [other for other in expected if id(other) not in matched]
        unseen = len(missed)
        missed = [other for other in missed if can_show(other)]
        unseen -= len(missed)
        short = sum(_length(other) < interval_ms for other in missed)
        score = Score(
            found=len(rows),
            expected=len(expected) - unseen,
            matched=len(pairs),
            unseen=unseen,
            worst_duration_error_ms=max(errors, default=0),
            missed_edges=2 * len(missed),
            missed_between_scrapes=2 * short,
        )
        total = _sum(total, score)
    return total


def events(
    table: Iterable[Row],
    truth: Iterable[Row],
    *,
    key: Sequence[str],
    at: str,
    interval_ms: int,
    same: Sequence[str] = (),
    bounds: tuple[str, str] | None = None,
    can_show: CanShow = always,
) -> Score:
    """Score a table of moments: a row matches if key, time and the columns `same` agree.

    Shape:   `at` names the column with the time; f"{at[:-3]}_err_ms" is its error, where there is
             one. `bounds` names columns with a low and a high duration; the error of a duration is
             how far the true one lies outside of them.
    """
    found = {_key(row, key): row for row in table}
    true = {_key(row, key): row for row in truth}
    error_column = f"{at.removesuffix('_ms')}_err_ms"
    matched = late = worst = 0
    for subject in found.keys() & true.keys():
        row, other = found[subject], true[subject]
        if any(row[name] is not None and row[name] != other[name] for name in same):
            continue
        early_ms = row[at] - other[at]
        stated = row.get(error_column)
        late += stated is not None and not 0 <= early_ms <= stated
        if abs(early_ms) > interval_ms:
            continue
        matched += 1
        if bounds is not None and row[bounds[0]] is not None:
            low, high = (row[name] for name in bounds)
            worst = max(worst, low - other[bounds[0]], other[bounds[1]] - high)
    missed = true.keys() - found.keys()
    unseen = sum(not can_show(true[subject]) for subject in missed)
    return Score(
        found=len(found),
        expected=len(true) - unseen,
        matched=matched,
        unseen=unseen,
        worst_duration_error_ms=worst,
        missed_edges=len(missed) - unseen,
        late_edges=late,
    )


def counts(
    table: Iterable[Row], truth: Iterable[Row], *, key: Sequence[str], counted: Sequence[str]
) -> Score:
    """Score a table that counts: what it counts beyond the truth costs precision, less recall.

    Shape:   `counted` names the columns with counts
    """
    found, true = (
        {(*_key(row, key), name): int(row[name]) for row in rows for name in counted}
        for rows in (table, truth)
    )
    return Score(
        found=sum(found.values()),
        expected=sum(true.values()),
        matched=sum(min(count, true.get(what, 0)) for what, count in found.items()),
    )


def figures(
    table: Iterable[Row],
    truth: Iterable[Row],
    *,
    key: Sequence[str],
    shares: Sequence[str] = (),
    pairs: Sequence[tuple[str, str]] = (),
) -> Score:
    """Score a table of sums: a row matches if its figures are near the true ones.

    Shape:   `shares` names columns from 0 to 1, near by SHARE_ERROR; `pairs` names columns with a
             low and a high bound, between which the true value lies
    """
    found = {_key(row, key): row for row in table}
    true = {_key(row, key): row for row in truth}
    matched = 0
    for subject in found.keys() & true.keys():
        row, other = found[subject], true[subject]
        near = all(abs(row[name] - other[name]) <= SHARE_ERROR for name in shares)
        held = all(row[low] <= other[low] and other[high] <= row[high] for low, high in pairs)
        matched += near and held
    return Score(found=len(found), expected=len(true), matched=matched)


def root_causes(incidents: Iterable[Row], faults: Iterable[Row], *, settle_ms: int) -> Score:
    """Score the incidents: a fault is found if the first incident at its time names its broker.

    Shape:   incidents have start_ms, end_ms and root_broker; faults are those of the truth. Faults
             without a broker are left out; an incident at the time of no fault costs precision.
    Units:   settle_ms: how long effects may come after the end of a fault
    """
    rows = sorted(incidents, key=lambda row: int(row["start_ms"]))
    expected = matched = 0
    near_one = set[int]()
    for fault in faults:
        begin, end = fault["start_ms"], fault["end_ms"] + settle_ms
        near = [row for row in rows if row["start_ms"] < end and begin < row["end_ms"]]
        near_one |= {id(row) for row in near}
        if fault["broker"] is not None:
            expected += 1
            matched += bool(near) and near[0]["root_broker"] == fault["broker"]
    surplus = len(rows) - len(near_one)
    return Score(found=expected + surplus, expected=expected, matched=matched)


def _states_of(rows: list[Row], truth: list[Row], *, value: str, interval_ms: int) -> Score:
    known = [row for row in rows if row[value] is not None]
    spans = united([(row["start_ms"], row["end_ms"]) for row in known])
    expected = clipped(truth, spans)
    pairs = _matched(known, expected, interval_ms=interval_ms, value=value)
    wrong = 0
    for row in known:
        # A table may say when it saw a state, not when it began: that is what its errors are for.
        begin, end = row["start_ms"], row["end_ms"] - row["end_err_ms"]
        for other in truth:
            if other[value] != row[value]:
                wrong += max(0, min(end, other["end_ms"]) - max(begin, other["start_ms"]))
    missed = short = 0
    starts = defaultdict(list)
    for row in known:
        starts[row[value]].append(row["start_ms"])
    for before, after in itertools.pairwise(truth):
        edge = after["start_ms"]
        if not any(begin < edge < end for begin, end in spans):
            continue
        if not any(abs(at - edge) <= interval_ms for at in starts[after[value]]):
            missed += 1
            short += min(_length(before), _length(after)) < interval_ms
    late = sum(_is_late(row, truth, value) for row in _begun(rows, value))
    errors = [abs(_length(row) - _length(other)) for row, other in pairs]
    return Score(
        found=len(known),
        expected=len(expected),
        matched=len(pairs),
        worst_duration_error_ms=max(errors, default=0),
        missed_edges=missed,
        missed_between_scrapes=short,
        late_edges=late,
        wrong_ms=wrong,
        known_ms=sum(end - begin for begin, end in spans),
        total_ms=sum(map(_length, truth)),
    )


def _begun(rows: Sequence[Row], value: str) -> Iterator[Row]:
    """Yield the rows that begin with a change from one known state to another."""
    for before, row in itertools.pairwise(rows):
        known = before[value] is not None and row[value] is not None
        if known and before[value] != row[value] and before["end_ms"] == row["start_ms"]:
            yield row


def _is_late(row: Row, truth: Sequence[Row], value: str) -> bool:
    """Tell whether the start of a row lies outside of its own error."""
    latest, earliest = row["start_ms"], row["start_ms"] - row["start_err_ms"]
    edges = [other["start_ms"] for other in truth if other[value] == row[value]]
    return not any(earliest <= edge <= latest for edge in edges)


def _matched(
    rows: Sequence[Row], truth: Sequence[Row], *, interval_ms: int, value: str | None = None
) -> list[tuple[Row, Row]]:
    """Pair rows with true ones, each at most once, in order of time."""
    pairs, free = [], list(truth)
    for row in rows:
        for other in free:
            if (value is None or row[value] == other[value]) and _agree(row, other, interval_ms):
                pairs.append((row, other))
                free.remove(other)
                break
    return pairs


def _agree(row: Row, other: Row, interval_ms: int) -> bool:
    begin, end = abs(row["start_ms"] - other["start_ms"]), abs(row["end_ms"] - other["end_ms"])
    common = min(row["end_ms"], other["end_ms"]) - max(row["start_ms"], other["start_ms"])
    union = max(row["end_ms"], other["end_ms"]) - min(row["start_ms"], other["start_ms"])
    return bool(max(begin, end) <= interval_ms or common >= IOU_MIN * union)


def clipped(truth: Sequence[Row], spans: Sequence[tuple[int, int]]) -> list[Row]:
    """Return the parts of true rows that lie in known time."""
    parts: list[Row] = []
    for row in truth:
        for begin, end in spans:
            start, until = max(row["start_ms"], begin), min(row["end_ms"], end)
            if start < until:
                parts.append({**row, "start_ms": start, "end_ms": until})
    return parts


def united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same times as disjoint spans in order."""
    united: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((begin, end))
    return united


def _by_key(rows: Iterable[Row], key: Sequence[str]) -> defaultdict[tuple[Any, ...], list[Row]]:
    by_key: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        by_key[_key(row, key)].append(row)
    for found in by_key.values():
        found.sort(key=lambda row: int(row["start_ms"]))
    return by_key


def _key(row: Row, key: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)


def _length(row: Row) -> int:
    return int(row["end_ms"] - row["start_ms"])


def _sum(one: Score, other: Score) -> Score:
    """Add two scores; of the worst errors the greater one counts."""
    added = {
        name: getattr(one, name) + getattr(other, name)
        for name in Score.__dataclass_fields__
        if name != "worst_duration_error_ms"
    }
    worst = max(one.worst_duration_error_ms, other.worst_duration_error_ms)
    return Score(**added, worst_duration_error_ms=worst)
