"""What samples lack is told in one sentence for each, which says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from strandline import names
from strandline_analysis.findings import (
    ClusterUnclear,
    chosen_cluster,
    clusters_of,
    empty_window,
    findings,
    no_partition,
)

HERE = "http://here"
INTERVAL_MS = 1_000
MADE_OF = {
    "isr_intervals": (names.PARTITION_ISR_MEMBER, names.ISR_SHRINKS_TOTAL),
    "hw_lag": (names.PARTITION_HIGH_WATERMARK, names.PARTITION_LOG_END_OFFSET),
    "controller_elections": (names.LEADER_ELECTIONS_TOTAL,),
    "follower_lag": (names.REPLICA_LOG_END_OFFSET,),
}
Row = dict[str, Any]


def row(metric: names.Metric | str, broker: int, *, cluster: str = "blue", **changes: Any) -> Row:
    name = metric if isinstance(metric, str) else metric.name
    return {
        "label": cluster,
        "namespace": "strandline",
        "prefix": cluster,
        "pod": f"{cluster}-{broker}",
        "metric": name,
        "replica": None,
        "leading_ms": None,
        "ahead_ms": None,
        "behind_ms": None,
        **changes,
    }


def whole(brokers: range = range(3)) -> list[Row]:
    """Return what is seen of a cluster in which nothing is missing."""
    seen = []
    for broker in brokers:
        seen += [row(metric, broker) for metrics in MADE_OF.values() for metric in metrics]
        seen += [row(names.PARTITION_ISR_MEMBER, broker, replica=replica) for replica in range(3)]
        seen.append(row("up", broker))
    return seen


def told(seen: list[Row]) -> list[str]:
    return findings(seen, origin=HERE, interval_ms=INTERVAL_MS, made_of=MADE_OF)


def test_nothing_is_told_of_a_whole_cluster() -> None:
    assert told(whole()) == []


def test_brokers_that_are_not_scraped_are_named() -> None:
    (sentence,) = told(whole(range(1)))
    assert sentence == (
        "http://here has samples of 1 of 3 brokers: brokers 1 and 2 were not scraped at all, so "
        "let Prometheus scrape every broker's pod; what they led and held is unknown"
    )


def test_many_brokers_are_told_as_a_range() -> None:
    member = names.PARTITION_ISR_MEMBER
    seen = [*whole(range(1)), *(row(member, 0, replica=replica) for replica in (3, 5))]
    (sentence,) = told(seen)
    assert "1 of 5 brokers: brokers 1 to 3 and 5 were not" in sentence


def test_a_broker_that_is_down_all_the_time_is_told_apart() -> None:
    (sentence,) = told([*whole(range(2)), row("up", 2)])
    assert "has samples of 2 of 3 brokers: no scrape of broker 2 succeeded" in sentence
    assert "see whether the pod runs" in sentence


def test_replicas_of_pods_without_a_name_are_not_taken_for_missing() -> None:
    assert told([{**each, "pod": None} for each in whole(range(1))]) == []


def test_missing_metrics_are_named_with_the_tables_that_suffer() -> None:
    lost = {names.PARTITION_HIGH_WATERMARK.name, names.REPLICA_LOG_END_OFFSET.name}
    (sentence,) = told([each for each in whole() if each["metric"] not in lost])
    assert sentence == (
        "http://here has no sample of strandline_partition_high_watermark and "
        "strandline_replica_log_end_offset, so follower_lag and hw_lag cannot tell all: let no "
        "relabelling of Prometheus drop them, and upgrade brokers that do not show them"
    )


@pytest.mark.parametrize("metric", [names.ISR_SHRINKS_TOTAL, names.LEADER_ELECTIONS_TOTAL])
def test_what_never_happened_is_not_missing(metric: names.Metric) -> None:
    assert told([each for each in whole() if each["metric"] != metric.name]) == []


def test_one_replica_has_no_follower_to_be_missed() -> None:
    member, follower = names.PARTITION_ISR_MEMBER.name, names.REPLICA_LOG_END_OFFSET.name
    lone = [
        {**each, "replica": 0} if each["metric"] == member else each
        for each in whole(range(1))
        if each["metric"] != follower
    ]
    assert told(lone) == []


@pytest.mark.parametrize(
    ("column", "word", "found"),
    [("ahead_ms", "ahead", True), ("behind_ms", "behind", True), ("ahead_ms", "ahead", False)],
)
def test_a_clock_is_wrong_by_more_than_a_scrape_takes(column: str, word: str, found: bool) -> None:
    stamp = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    skew_ms = 4_200.4 if found else INTERVAL_MS
    skewed: Row = {**row(stamp, 1), column: skew_ms}
    sentences = told([*whole(), skewed, row(stamp, 1, ahead_ms=-9.0)])
    assert len(sentences) == found
    if found:
        assert f"that of blue-1 is at least 4.2 s {word}; set the clocks" in sentences[0]


def test_two_clusters_are_named_and_one_must_be_chosen() -> None:
    green = [row(names.PARTITION_ISR_MEMBER, 0, cluster="green")]
    # Prometheus scrapes much that is no broker.
    other = row("up", 0, cluster="website")
    clusters = clusters_of([*whole(), *green, other])
    assert [each.name for each in clusters] == ["strandline/blue", "strandline/green"]
    with pytest.raises(ClusterUnclear) as refused:
        chosen_cluster(clusters, wanted="", origin=HERE)
    assert str(refused.value) == (
        "http://here holds samples of 2 clusters, strandline/blue, strandline/green: name one with "
        "--cluster (analysis.cluster of the chart), as their topics must not be mixed"
    )
    for wanted in ("green", "strandline/green"):
        assert chosen_cluster(clusters, wanted=wanted, origin=HERE) == clusters[1]
    with pytest.raises(ClusterUnclear, match=r"no samples of a cluster een, only of strandline/b"):
        chosen_cluster(clusters, wanted="een", origin=HERE)


def test_clusters_of_one_name_are_told_apart_by_what_else_is_known() -> None:
    seen = [
        row(names.PARTITION_ISR_MEMBER, 0, label="east"),
        row(names.PARTITION_ISR_MEMBER, 0, label="west"),
        row(names.PARTITION_ISR_MEMBER, 0, namespace="test"),
    ]
    named = [each.name for each in clusters_of(seen)]
    assert named == ["test/blue", "east/strandline/blue", "west/strandline/blue"]


def test_one_cluster_alone_need_not_be_named() -> None:
    clusters = clusters_of(whole())
    assert chosen_cluster(clusters, wanted="", origin=HERE) == clusters[0]
    assert chosen_cluster([], wanted="", origin=HERE) is None
    with pytest.raises(ClusterUnclear, match="no samples of a cluster blue, of no cluster"):
        chosen_cluster([], wanted="blue", origin=HERE)


def test_an_empty_window_names_its_range_and_what_to_try() -> None:
    said = empty_window(HERE, start_ms=0, end_ms=1000)
    assert said.startswith("http://here holds no two scrapes of one target from 1970-01-01 00:00:")
    assert "--start, --end, --window" in said
    assert "let Prometheus scrape port http of the brokers' pods" in no_partition(HERE)
