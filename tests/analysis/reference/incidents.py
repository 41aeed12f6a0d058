"""Reference of analysis 9: incidents of any episodes, and the episodes that samples tell of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.analysis.reference import churn, coverage, elections, isr_sizes, watermarks
from tests.analysis.reference.holding import History, Range, label, series_of
from tests.analysis.reference.isr_intervals import MEMBER
from tests.analysis.reference.leader_states import broker_of

GONE = ("down", "restart")
NEAR_MS = 10_000
NO_BLAME = ("controller", "gap")
AROUND_MS, CURVE_MS_MAX = 30_000, 600_000


class Episode(NamedTuple):
    """One episode and one broker that it points to."""

    kind: str
    start_ms: int
    end_ms: int
    topic: str | None
    partition: int | None
    broker: int | None


def incidents(histories: Sequence[History], of: Range) -> Iterator[dict[str, Any]]:
    """Yield the incidents of several partitions without a controller."""
    found = [episode for history in histories for episode in episodes(history, of)]
    places: dict[int, set[tuple[str, str]]] = {}
    for history in histories:
        for labels in series_of(history, MEMBER):
            place = (label(labels, "topic"), label(labels, "partition"))
            places.setdefault(int(label(labels, "replica")), set()).add(place)
    replicas = {broker: len(those) for broker, those in places.items()}
    yield from incidents_of(found, replicas)


def episodes(history: History, of: Range) -> Iterator[Episode]:
    """Yield what is amiss with one partition and its brokers."""
    for table, kind in (("ur_episodes", "ur"), ("umi_episodes", "umi")):
        for row in isr_sizes.episodes(history, of, table=table, merge_gap_ms=NEAR_MS):
            for broker in row["missing_replicas"] or [None]:
                yield _of(row, kind, broker)
    for row in watermarks.hw_stalls(history, of, stall_ms=10_000):
        yield _of(row, "stall", row["culprit"])
    for row in elections.elections(history, of):
        if row["kind"] in {"broker_failure", "unclean"}:
            end = row["t_first_new_ms"]
            times = {"start_ms": end - row["no_leader_low_ms"], "end_ms": end}
            yield _of(row | times, "leaderless", row["old_leader"])
    for row in churn.flapping(history, of):
        if row["end_ms"] - row["start_ms"] <= row["cycles"] * 60_000:
            end = min(row["end_ms"], row["start_ms"] + 60_000)
            yield _of(row | {"end_ms": end}, "flapping", row["replica"])
    for row in coverage.coverage(history, of):
        kind = "gap" if row["kind"] == "gap" else "down"
        broker = broker_of(row["pod"])
        yield Episode(kind, row["start_ms"], row["end_ms"], None, None, broker)
    for row in coverage.restarts(history, of):
        at = row["at_ms"]
        yield Episode("restart", at - row["at_err_ms"], at, None, None, row["broker"])


def _of(row: dict[str, Any], kind: str, broker: int | None) -> Episode:
    return Episode(kind, row["start_ms"], row["end_ms"], row["topic"], row["partition"], broker)


def clusters(found: Sequence[Episode]) -> Iterator[list[Episode]]:
    """Yield the episodes of each incident: a time without any, of which 60 s count, divides."""
    cluster: list[Episode] = []
    furthest = 0
    for each in sorted(found, key=lambda one: (one.start_ms, one.end_ms)):
        if cluster and each.start_ms - furthest > NEAR_MS:
            yield cluster
            cluster, furthest = [], 0
        cluster.append(each)
        furthest = max(furthest, min(each.end_ms, each.start_ms + 60_000))
    if cluster:
        yield cluster


def incidents_of(found: Sequence[Episode], replicas: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the incidents, with the broker at the root of each."""
    for cluster in clusters(found):
        places = {(each.topic, each.partition) for each in cluster if each.topic is not None}
        blamed = [each for each in cluster if each.broker is not None]
        blamed = [each for each in blamed if each.kind not in NO_BLAME]
        scores = []
        for broker in {each.broker for each in blamed if each.broker is not None}:
            own = [each for each in blamed if each.broker == broker]
            hit = len({(each.topic, each.partition) for each in own if each.topic is not None})
            was_gone = any(each.kind in GONE for each in own)
            share = hit / len(places) if places else 0.0
            specific = hit / replicas[broker] if broker in replicas else 0.0
            first = min(each.start_ms for each in own)
            score = share * specific + (0.5 if was_gone else 0.0)
            scores.append((-score, first, broker, was_gone))
        yield _row(cluster, sorted(scores, key=lambda each: each[:3]), len(places))


def incident_curves(
    histories: Sequence[History], of: Range, found: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield what leaders showed around the three incidents with the most partitions."""
    of_partitions = [row for row in found if any(each["topic"] for each in row["evidence"])]
    for row in sorted(of_partitions, key=lambda r: (-r["partitions"], r["start_ms"], r["id"]))[:3]:
        signs: Counter[tuple[str, int]] = Counter()
        stalls: Counter[tuple[str, int]] = Counter()
        for each in row["evidence"]:
            if each["topic"]:
                signs[each["topic"], each["partition"]] += 1
                stalls[each["topic"], each["partition"]] += each["kind"] == "stall"
        topic, partition = min(signs, key=lambda one: (-stalls[one], -signs[one], one))
        begin = row["start_ms"] - AROUND_MS
        finish = min(row["end_ms"] + AROUND_MS, begin + CURVE_MS_MAX)
        for scrape in (one for history in histories for one in watermarks.scrapes(history, of)):
            place = (label(scrape.labels, "topic"), int(label(scrape.labels, "partition")))
            if place == (topic, partition) and begin <= scrape.at <= finish:
                yield {
                    "incident": row["id"],
                    "topic": topic,
                    "partition": partition,
                    "leader": broker_of(scrape.pod),
                    "at_ms": scrape.at,
                    "at_err_ms": 0,
                    "leo": int(scrape.leo),
                    "hw": int(scrape.hw),
                }


def _row(
    cluster: Sequence[Episode],
    scores: Sequence[tuple[float, int, int | None, bool]],
    partitions: int,
) -> dict[str, Any]:
    kinds = {each.kind for each in cluster}
    root, confidence, kind = None, 0.0, "unknown"
    if scores and scores[0][0] < 0:
        second = scores[1][0] if len(scores) > 1 else 0.0
        confidence = min(second - scores[0][0], 1.0)
        if second == scores[0][0] and not scores[0][3]:
            kind = "network"
        else:
            kind, root = "broker", scores[0][2]
    if kinds <= {"down", "gap"}:
        kind = "scrape"
    if kinds == {"controller"}:
        kind = "controller"
    start = cluster[0].start_ms
    proofs = {
        (each.start_ms, each.kind, each.broker, each.topic, each.partition) for each in cluster
    }
    fields = ("at_ms", "kind", "broker", "topic", "partition")
    return {
        "id": f"{start}-{kind}-{'none' if root is None else root}",
        "start_ms": start,
        "end_ms": max(each.end_ms for each in cluster),
        "kind": kind,
        "root_broker": root,
        "confidence": confidence,
        "partitions": partitions,
        "brokers": len({each.broker for each in cluster} - {None}),
        "episodes": len({each[:5] for each in cluster}),
        "evidence": [
            dict(zip(fields, proof, strict=True))
            for proof in sorted(
                proofs, key=lambda one: [(value is not None, value) for value in one]
            )[:50]
        ],
    }
