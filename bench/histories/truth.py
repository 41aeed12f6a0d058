"""The true tables of a history, in the columns of the tables of the analysis.

Called by `written`, one partition at a time. Times are exact, so every error is 0 and both bounds
of a duration are the duration. Nothing is unknown: what scrapes cannot show is the business of
`scores`. Columns about samples are null.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from .brokers import ClusterHistory, Scrape
from .plan import Plan
from .replicas import PartitionHistory, Stored
from .signals import RECORD_BYTES

Row = dict[str, Any]
Named = tuple[str, Row]
"""The name of a table and a row of it."""

MINUTE_MS: Final = 60_000
KINDS: Final = {
    "offline": "broker_failure",
    "controlled_shutdown": "controlled",
    "preferred": "preferred",
    "unclean": "unclean",
}
"""By the label of the controller's counter: the kind of the table."""
CAUSES: Final = {Scrape.SAMPLES: "alive", Scrape.FAILED: "stale", Scrape.NOTHING: "gap"}
TABLES: Final = (
    *("isr_intervals", "isr_size_intervals", "ur_episodes", "umi_episodes", "at_min_isr"),
    *("elections", "controller_elections", "zombie_leaders", "replication_throughput"),
    *("truncations", "data_at_risk", "coverage", "restarts"),
)
"""The tables of the analysis that have a true one here; `summed` has those that they add up to."""
WITHOUT: Final = {
    "hw_lag": "its quantiles are those of scrapes",
    "follower_lag": "its quantiles are those of scrapes",
    "hw_stalls": "a stall is a run of scrapes, and ends with the first one that shows a commit",
    "hw_regressions": "what fell is what one leader showed after another, at their scrapes",
    "missed_edges": "it counts what scrapes did not see",
    "incidents": "the faults are its truth, and are scored as such",
    "incident_curves": "its rows are scrapes",
    "lagtime_whatif": "it tells what another setting would have done, which did not happen",
}
"""By table: why it has no truth that does not depend on scrapes."""
FAULTS: Final = "faults"
"""A table besides those of the analysis: what was done to the cluster."""


def of_partition(cluster: ClusterHistory, history: PartitionHistory) -> Iterator[Named]:
    """Yield the rows that are about one partition."""
    plan = cluster.plan
    for replica in history.replicas:
        broker = replica.broker
        for row in _intervals(plan, history, partial(_is_member, broker), "in_isr"):
            epoch = history.at(row["start_ms"]).epoch
            yield (
                "isr_intervals",
                {**row, "replica": broker, "leader_epoch": epoch, "sample_count": None},
            )
    yield from _sizes(plan, history)
    yield from _elections(cluster, history)
    for zombie in history.zombies:
        start, end = zombie.from_ms, min(zombie.until_ms, plan.end_ms)
        yield (
            "zombie_leaders",
            {
                **_subject(history),
                "broker": zombie.broker,
                "epoch": zombie.epoch,
                "newer_leader": zombie.newer_leader,
                "newer_epoch": zombie.newer_epoch,
                **span_of(start, end),
                "finding": True,
            },
        )
    for cut in history.truncations:
        yield (
            "truncations",
            {
                **_subject(history),
                "broker": cut.broker,
                "at_ms": cut.at_ms,
                "at_err_ms": 0,
                "leo_from": cut.leo_from,
                "leo_to": cut.leo_to,
                "records_low": cut.leo_from - cut.leo_to,
                "leader_epoch": cut.leader_epoch,
            },
        )
    yield from _data_at_risk(plan, history)


def of_topic(cluster: ClusterHistory, histories: Sequence[PartitionHistory]) -> Iterator[Named]:
    """Yield what clients appended to a topic, by broker and minute.

    Shape:   histories are all partitions of one topic
    """
    plan = cluster.plan
    for broker in range(plan.brokers):
        lines = [
            replica.produced
            for history in histories
            for replica in history.replicas
            if replica.broker == broker
        ]
        spans = cluster.processes[broker]
        for minute in range(plan.start_ms // MINUTE_MS, -(-plan.end_ms // MINUTE_MS)):
            begin = max(minute * MINUTE_MS, plan.start_ms)
            end = min((minute + 1) * MINUTE_MS, plan.end_ms)
            records = 0
            for span in spans:
                first, last = max(begin, span.from_ms), min(end, span.until_ms)
                if first < last:
                    records += sum(line.before(last) - line.at(first) for line in lines)
            resets = sum(begin <= span.from_ms < end for span in spans)
            if not records and not resets:
                continue
            yield (
                "replication_throughput",
                {
                    "broker": broker,
                    "topic": histories[0].topic,
                    "minute_ms": minute * MINUTE_MS,
                    "flow": "produced",
                    "bytes": records * RECORD_BYTES,
                    "records": records,
                    "across_gap": False,
                    "resets": resets,
                },
            )


def of_cluster(cluster: ClusterHistory) -> Iterator[Named]:
    """Yield the rows that are about brokers, controllers and targets, and the faults."""
    plan = cluster.plan
    for old, new in zip(cluster.controllers, cluster.controllers[1:], strict=False):
        yield (
            "controller_elections",
            {
                "epoch": new.epoch,
                "old_controller": old.broker,
                "new_controller": new.broker,
                "at_ms": new.at_ms,
                "at_err_ms": 0,
            },
        )
    for broker in range(plan.brokers):
        pod = f"{plan.cluster}-{broker}"
        spans = cluster.processes[broker]
        unclean = dict(cluster.starts(broker))
        for old_span, new_span in itertools.pairwise(spans):
            restart = {
                "pod": pod,
                "broker": broker,
                "at_ms": new_span.from_ms,
                "at_err_ms": 0,
                "old_start_ms": old_span.from_ms,
                "new_start_ms": new_span.from_ms,
                "unclean": unclean[new_span.from_ms],
            }
            yield "restarts", restart
        down = [(before.until_ms, after.from_ms) for before, after in itertools.pairwise(spans)]
        for kind, found in (
            ("restart", down),
            ("down", cluster.unreachable[broker]),
            ("gap", cluster.unscraped),
        ):
            for start, end in found:
                target = {"pod": pod, "instance": f"{pod}:8080", "missing_samples": None}
                when = span_of(start, min(end, plan.end_ms))
                yield "coverage", {**target, **when, "kind": kind, "ongoing": end >= plan.end_ms}
    for fault in plan.faults:
        what = {"kind": fault.kind.value, "start_ms": fault.at_ms, "end_ms": fault.until_ms}
        where = {"topic": fault.topic, "partition": fault.partition}
        yield FAULTS, {**what, "broker": fault.broker, **where}


def _is_member(broker: int, state: Stored) -> bool:
    return broker in state.isr


def _subject(history: PartitionHistory) -> Row:
    return {"topic": history.topic, "partition": history.partition}


def span_of(start_ms: int, end_ms: int) -> Row:
    """Return the columns of a time whose edges are exact."""
    length = end_ms - start_ms
    return {
        "start_ms": start_ms,
        "end_ms": end_ms,
        "start_err_ms": 0,
        "end_err_ms": 0,
        "duration_low_ms": length,
        "duration_high_ms": length,
    }


def _intervals(
    plan: Plan, history: PartitionHistory, what: Callable[[Stored], Any], name: str
) -> Iterator[Row]:
    """Yield the maximal intervals in which a value of the stored state stays the same."""
    begin, reason = plan.start_ms, "range"
    state = history.at(begin)
    value = what(state)
    # Of two changes within a millisecond the last one counts.
    last = {each.at_ms: each for each in history.states if begin < each.at_ms < plan.end_ms}
    for following in last.values():
        change = "leader_change" if following.epoch > state.epoch else "change"
        state = following
        if what(state) == value:
            continue
        reasons = {"start_reason": reason, "end_reason": change}
        yield {**_subject(history), name: value, **span_of(begin, state.at_ms), **reasons}
        begin, value, reason = state.at_ms, what(state), change
    reasons = {"start_reason": reason, "end_reason": "range"}
    yield {**_subject(history), name: value, **span_of(begin, plan.end_ms), **reasons}


def _sizes(plan: Plan, history: PartitionHistory) -> Iterator[Named]:
    replicas, min_isr = len(history.replicas), history.min_isr
    for row in _intervals(plan, history, lambda state: len(state.isr), "isr_size"):
        yield "isr_size_intervals", {**row, "replicas": replicas, "min_isr": min_isr}
    tests: dict[str, Callable[[Stored], bool]] = {
        "ur_episodes": lambda state: len(state.isr) < replicas,
        "umi_episodes": lambda state: len(state.isr) < min_isr,
        "at_min_isr": lambda state: len(state.isr) == min_isr,
    }
    for table, is_bad in tests.items():
        for row in _intervals(plan, history, is_bad, "bad"):
            if row.pop("bad"):
                yield table, {**row, **_episode(plan, history, row["start_ms"], row["end_ms"])}


def _episode(plan: Plan, history: PartitionHistory, start_ms: int, end_ms: int) -> Row:
    sizes, absent_ms = [], dict[int, int]()
    states = history.states
    for number, state in enumerate(states):
        until = states[number + 1].at_ms if number + 1 < len(states) else plan.end_ms
        overlap = min(until, end_ms) - max(state.at_ms, start_ms)
        if overlap <= 0:
            continue
        sizes.append(len(state.isr))
        for replica in history.replicas:
            if replica.broker not in state.isr:
                absent_ms[replica.broker] = absent_ms.get(replica.broker, 0) + overlap
    return {
        "bad_ms": end_ms - start_ms,
        "unknown_ms": 0,
        "min_size": min(sizes),
        "missing_replicas": sorted(absent_ms, key=lambda broker: (-absent_ms[broker], broker)),
        "ongoing": end_ms == plan.end_ms,
    }


def _elections(cluster: ClusterHistory, history: PartitionHistory) -> Iterator[Named]:
    for election in history.elections:
        without_ms = election.at_ms - election.lost_ms
        yield (
            "elections",
            {
                **_subject(history),
                "epoch": election.epoch,
                "old_leader": election.old_leader,
                "new_leader": election.new_leader,
                "t_last_old_ms": election.lost_ms,
                "t_first_new_ms": election.at_ms,
                "t_first_new_err_ms": 0,
                "no_leader_low_ms": without_ms,
                "no_leader_high_ms": without_ms,
                "kind": KINDS[election.kind],
                "cause": CAUSES[cluster.scrape(election.old_leader, election.at_ms)],
                "observed": True,
            },
        )


def _data_at_risk(plan: Plan, history: PartitionHistory) -> Iterator[Named]:
    """Yield the times in which one replica alone committed records."""
    states = [state for state in history.states if state.at_ms < plan.end_ms]
    for number, state in enumerate(states):
        if len(state.isr) > 1 or len(history.replicas) == 1:
            continue
        following = states[number + 1] if number + 1 < len(states) else None
        start = max(state.at_ms, plan.start_ms)
        end = following.at_ms if following else plan.end_ms
        hw_start, hw_end = history.committed.at(start), history.committed.before(end)
        if hw_end <= hw_start:
            continue
        gone = following is not None and following.epoch > state.epoch
        exposed_ms = (plan.end_ms if gone else end) - start
        lost = history.lost_by_epoch.get(following.epoch, 0) if following and gone else 0
        yield (
            "data_at_risk",
            {
                **_subject(history),
                "leader": state.leader,
                **span_of(start, end),
                "hw_start": hw_start,
                "hw_end": hw_end,
                "offsets": hw_end - hw_start,
                "bytes": float((hw_end - hw_start) * RECORD_BYTES),
                "exposed_low_ms": exposed_ms,
                "exposed_high_ms": exposed_ms,
                "recovered": following is not None and not gone,
                "lost": min(lost, hw_end - hw_start),
            },
        )
