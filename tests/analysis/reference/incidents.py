"""Reference of analysis 9: incidents of any episodes, not of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

GONE = ("down", "restart")
NO_BLAME = ("controller", "gap")


class Episode(NamedTuple):
    """One episode and one broker that it points to."""

    kind: str
    start_ms: int
    end_ms: int
    topic: str | None
    partition: int | None
    broker: int | None


def clusters(found: Sequence[Episode]) -> Iterator[list[Episode]]:
    """Yield the episodes of each incident: 30 s without any, of which 60 s count, divide them."""
    cluster: list[Episode] = []
    furthest = 0
    for each in sorted(found, key=lambda one: (one.start_ms, one.end_ms)):
        if cluster and each.start_ms - furthest > 30_000:
            yield cluster
            cluster, furthest = [], 0
        cluster.append(each)
        furthest = max(furthest, min(each.end_ms, each.start_ms + 60_000))
    if cluster:
        yield cluster


def incidents_of(
    found: Sequence[Episode],
    replicas: Mapping[int, int],
    *,
    interval_ms: int,
    lag_time_max_ms: int,
) -> Iterator[dict[str, Any]]:
    """Yield the incidents, with the broker at the root of each."""
    gone = [each for each in found if each.kind in GONE and each.broker is not None]
    for cluster in clusters(found):
        start = cluster[0].start_ms
        begin = start - interval_ms - 3 * lag_time_max_ms // 2
        absent = [each for each in gone if begin <= each.start_ms <= start + interval_ms]
        places = {(each.topic, each.partition) for each in cluster if each.topic is not None}
        blamed = [each for each in cluster if each.broker is not None]
        blamed = [each for each in blamed if each.kind not in NO_BLAME]
        scores = []
        for broker in {each.broker for each in [*blamed, *absent] if each.broker is not None}:
            own = [each for each in blamed if each.broker == broker]
            hit = len({(each.topic, each.partition) for each in own if each.topic is not None})
            was_gone = [each for each in absent if each.broker == broker]
            share = hit / len(places) if places else 0.0
            specific = hit / replicas[broker] if broker in replicas else 0.0
            first = min(each.start_ms for each in [*own, *was_gone])
            score = share * specific + (0.5 if was_gone else 0.0)
            scores.append((-score, first, broker, bool(was_gone)))
        yield _row(cluster, sorted(scores, key=lambda each: each[:3]), len(places))


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
