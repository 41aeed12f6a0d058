"""Reference of analysis 10, one setting and one follower after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.analysis.reference.holding import History, Range, exactly, label, series_of
from tests.analysis.reference.leader_states import broker_of
from tests.analysis.reference.watermarks import scrapes

CAUGHT_UP = "strandline_replica_last_caught_up_timestamp_seconds"
KNOWN = "strandline_replica_log_end_offset"
MEMBER = "strandline_partition_isr_member"
REPLICAS = "strandline_partition_replicas"
LEAST = "strandline_partition_min_insync_replicas"
STANDARD = (1, 2, 5, 10, 15, 20, 30, 45, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one scrape showed of one follower."""

    at: int
    caught: int
    lacks: bool
    inside: bool
    replicas: int
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    begin: int
    seen: int
    until: int
    returned: bool
    stalled: int
    replicas: int
    least: int


def lagtime_whatif(
    histories: Iterable[History], of: Range, *, lag_time_max_ms: int
) -> Iterator[dict[str, Any]]:
    """Yield what each setting would have done, over several partitions."""
    settings = {1000 * each for each in STANDARD if 1000 * each > of.gap_ms} | {lag_time_max_ms}
    shortest = min(settings)
    absent = [
        [each for each in _absences(history, of) if each.until - each.begin > shortest]
        for history in histories
    ]
    for setting in sorted(settings):
        totals = [_replayed(found, setting, of) for found in absent if found]
        names = ("shrinks", "expands", "ur", "umi")
        row = {"setting_ms": setting, "extra_hw_stall_ms": sum(total[-1] for total in totals)}
        for index, name in enumerate(names):
            unit = "_ms" if name in {"ur", "umi"} else ""
            row[f"{name}_low{unit}"] = sum(total[index][0] for total in totals)
            row[f"{name}_high{unit}"] = sum(total[index][1] for total in totals)
        yield row


def _absences(history: History, of: Range) -> Iterator[Absence]:
    for looks in _looks(history, of).values():
        groups: dict[int, list[Look]] = {}
        for look in looks:
            groups.setdefault(look.caught, []).append(look)
        following = dict(pairwise(looks))
        for caught, group in groups.items():
            if not any(look.lacks for look in group) or not any(look.inside for look in group):
                continue
            last = max(group, key=lambda look: look.at)
            after = following.get(last)
            back = after.caught if after and after.at - last.at <= of.gap_ms else None
            inside = [look.at for look in group if look.inside]
            until = min(last.at + of.interval_ms, of.end_ms) if back is None else back
            yield Absence(
                begin=caught,
                seen=last.at,
                until=max(until, last.at),
                returned=back is not None,
                stalled=max(inside, default=caught) - caught,
                replicas=last.replicas,
                least=last.least,
            )


def _looks(history: History, of: Range) -> dict[tuple[str, int, int], list[Look]]:
    """Return by leader, epoch and follower what the scrapes showed, in order."""
    found: dict[tuple[str, int, int], list[Look]] = {}
    for each in scrapes(history, of):
        for labels, samples in series_of(history, CAUGHT_UP).items():
            replica = int(label(labels, "replica"))
            if label(labels, "pod") != each.pod or replica == broker_of(each.pod):
                continue
            values = dict(samples)
            caught = values.get(each.at)
            if caught is None:
                continue
            look = Look(
                at=each.at,
                caught=round(caught * 1000),
                lacks=each.leo > _of(history, KNOWN, labels, each.at),
                inside=_of(history, MEMBER, labels, each.at) > 0,
                replicas=int(exactly(history, REPLICAS, each.labels)[each.at]),
                least=int(exactly(history, LEAST, each.labels)[each.at]),
            )
            found.setdefault((each.pod, each.epoch, replica), []).append(look)
    return found


def _of(history: History, metric: str, like: Any, at: int) -> float:
    wanted = tuple(sorted((dict(like) | {"__name__": metric}).items()))
    value = dict(history[wanted])[at]
    assert value is not None
    return value


def _replayed(absent: list[Absence], setting: int, of: Range) -> Any:
    late = setting + setting // 2
    sure = [each for each in absent if each.seen - each.begin > late]
    possible = [each for each in absent if each.until - each.begin > setting]
    needed = {max(a.replicas - b.least + 1, 1) for a in absent for b in absent}
    out_low = [(max(each.begin + late, of.start_ms), each.seen) for each in sure]
    out_high = [(max(each.begin + setting, of.start_ms), each.until) for each in possible]
    return (
        (
            sum(each.begin + setting >= of.start_ms for each in sure),
            sum(each.begin + late >= of.start_ms for each in possible),
        ),
        (sum(each.returned for each in sure), sum(each.returned for each in possible)),
        (_deep(out_low, 1), _deep(out_high, 1)),
        (_deep(out_low, max(needed)), _deep(out_high, min(needed))),
        sum(
            max(min(each.until - each.begin, late) - min(each.stalled, each.until - each.begin), 0)
            for each in absent
        ),
    )


def _deep(spans: list[tuple[int, int]], depth: int) -> int:
    moments = sorted({edge for span in spans for edge in span})
    return sum(
        after - before
        for before, after in pairwise(moments)
        if sum(start <= before < end for start, end in spans) >= depth
    )
