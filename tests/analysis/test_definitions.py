"""The definitions of the tables, as the plain references have them, against the truth of histories.

Spark makes the same tables as the references (`test_agreement.py`); they take a second where it
takes minutes, so that many histories are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

import pytest

from bench.analysis_scores import of_table, scorers
from bench.histories.plan import FaultKind, Plan, planned
from bench.histories.scores import Score
from tests.analysis.generated import History
from tests.analysis.reference import churn as churn_reference
from tests.analysis.reference import coverage as coverage_reference
from tests.analysis.reference import elections as elections_reference
from tests.analysis.reference import isr_intervals as isr_reference
from tests.analysis.reference import isr_sizes as sizes_reference
from tests.analysis.reference import risk as risk_reference
from tests.analysis.reference import throughput as throughput_reference
from tests.analysis.reference.holding import Range

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("packages")]

SEEDS = (7, 9)
SECOND_MS = 1_000
OF_PARTITIONS: dict[str, Callable[[History, Range], Iterable[dict[str, Any]]]] = {
    "isr_intervals": isr_reference.isr_intervals,
    "isr_size_intervals": sizes_reference.isr_size_intervals,
    **{
        name: partial(sizes_reference.episodes, table=name, merge_gap_ms=0)
        for name in ("ur_episodes", "umi_episodes", "at_min_isr")
    },
    "elections": elections_reference.elections,
    "zombie_leaders": elections_reference.zombie_leaders,
    "truncations": throughput_reference.truncations,
    "data_at_risk": risk_reference.data_at_risk,
}
OF_OTHERS = {
    "replication_throughput": throughput_reference.replication_throughput,
    "restarts": coverage_reference.restarts,
}


class Scraped:
    """A history as its scrapes show it, and its truth."""

    def __init__(self, plan: Plan, interval_ms: int) -> None:
        from bench.histories import signals, summed, truth
        from bench.histories.brokers import happened
        from bench.histories.partition import walked
        from bench.histories.scrapes import Scraper

        self.plan, self.interval_ms = plan, interval_ms
        cluster = happened(plan)
        scraper = Scraper(cluster, interval_ms=interval_ms)
        self.of = Range(start_ms=plan.start_ms, end_ms=plan.end_ms, interval_ms=interval_ms)
        walks = {each: walked(cluster, *each) for each in plan.subjects()}
        elected = [election for walk in walks.values() for election in walk.elections]
        sums = summed.Summed(plan)
        common = _history(map(scraper.sampled, signals.of_cluster(cluster, elected)))
        self.partitions: list[History] = []
        self.topics: list[History] = []
        self.true: dict[str, list[dict[str, Any]]] = {}
        for topic in plan.topic_names():
            ours = [walk for (name, _), walk in walks.items() if name == topic]
            for walk in ours:
                shown = map(scraper.sampled, signals.of_partition(cluster, walk))
                self.partitions.append(_history(shown) | common)
                self._add(sums.added(walk, truth.of_partition(cluster, walk)))
            shown = map(scraper.sampled, signals.of_topic(cluster, ours))
            self.topics.append(_history(shown) | common)
            self._add(truth.of_topic(cluster, ours))
        self._add(truth.of_cluster(cluster))
        self._add(sums.rows())

    def rows(self, name: str) -> list[dict[str, Any]]:
        if name in OF_PARTITIONS:
            make = OF_PARTITIONS[name]
            return [row for each in self.partitions for row in make(each, self.of)]
        histories = self.topics if name == "replication_throughput" else self.topics[:1]
        return [row for each in histories for row in OF_OTHERS[name](each, self.of)]

    def score(self, name: str) -> Score:
        rows, true = self.rows(name), self.true.get(name, [])
        return of_table(name, rows, true, plan=self.plan, interval_ms=self.interval_ms)

    def _add(self, rows: Iterator[tuple[str, dict[str, Any]]]) -> None:
        for name, row in rows:
            self.true.setdefault(name, []).append(row)


def _history(series: Iterable[Any]) -> History:
    import numpy as np

    from strandline_analysis.xor_chunk import STALE_BITS

    return {
        tuple(sorted(each.labels.items())): [
            (at, None if bits == STALE_BITS else value)
            for at, bits, value in zip(
                each.timestamps.tolist(),
                each.bits.tolist(),
                each.bits.view(np.float64).tolist(),
                strict=True,
            )
        ]
        for each in series
    }


@cache
def scraped(seed: int, interval_ms: int = SECOND_MS) -> Scraped:
    plan = planned(Plan(seed=seed, length_ms=1_200_000, topics=2, partitions=2))
    return Scraped(plan, interval_ms)


@pytest.mark.parametrize("name", [*OF_PARTITIONS, *OF_OTHERS])
def test_scraped_each_second_a_table_has_what_scrapes_can_show_and_nothing_else(name: str) -> None:
    assert name in scorers(SECOND_MS)
    expected = 0
    for seed in SEEDS:
        score = scraped(seed).score(name)
        print(seed, name, score)
        expected += score.expected
        assert (score.precision, score.recall) == (1, 1), seed
        assert score.worst_duration_error_ms <= SECOND_MS
    assert expected > 0


@pytest.mark.parametrize("interval_ms", [1_000, 5_000, 15_000])
def test_a_change_of_an_isr_lies_within_the_error_of_its_edge(interval_ms: int) -> None:
    for seed in SEEDS:
        for name in ("isr_intervals", "isr_size_intervals"):
            score = scraped(seed, interval_ms).score(name)
            assert score.found > 50
            assert score.late_edges == 0, (seed, name)


def test_churn_counts_nothing_that_did_not_happen_and_lacks_what_fell_into_gaps() -> None:
    for seed in SEEDS:
        history = scraped(seed)
        rows = list(churn_reference.isr_churn(history.partitions, history.of))
        true = history.true["isr_churn"]
        score = of_table("isr_churn", rows, true, plan=history.plan, interval_ms=SECOND_MS)
        print(seed, score)
        assert score.expected > 50
        assert score.precision == 1
        assert score.recall > 0.85


def test_a_replica_that_is_told_to_flap_did_so_then_and_as_often() -> None:
    found = 0
    for seed in SEEDS:
        history = scraped(seed)
        for partition in history.partitions:
            for row in churn_reference.flapping(partition, history.of):
                found += 1
                true = [
                    other
                    for other in history.true["flapping"]
                    if all(other[n] == row[n] for n in ("topic", "partition", "replica"))
                    and other["start_ms"] <= row["start_ms"]
                    and row["end_ms"] - row["end_err_ms"] <= other["end_ms"]
                ]
                assert len(true) == 1, row
                assert row["cycles"] <= true[0]["cycles"]
    assert found > 5


@pytest.mark.parametrize("interval_ms", [1_000, 5_000, 15_000])
def test_holes_of_coverage_begin_and_end_within_their_errors(interval_ms: int) -> None:
    from bench.histories.scrapes import JITTER_MS

    found = 0
    for seed in SEEDS:
        history = scraped(seed, interval_ms)
        for row in coverage_reference.coverage(history.topics[0], history.of):
            found += 1
            silent = [
                (true["start_ms"], true["end_ms"])
                for true in history.true["coverage"]
                if true["pod"] == row["pod"]
                and true["start_ms"] <= row["end_ms"]
                and row["start_ms"] - row["start_err_ms"] <= true["end_ms"]
            ]
            begin, finish = min(start for start, _ in silent), max(end for _, end in silent)
            # A scrape that was not made is taken to have been due an interval after the one before.
            start_ms, end_ms = row["start_ms"] + 2 * JITTER_MS, row["end_ms"]
            assert row["start_ms"] - row["start_err_ms"] <= begin <= start_ms, row
            assert end_ms - row["end_err_ms"] - 2 * JITTER_MS <= finish <= end_ms, row
            low, high = row["duration_low_ms"] - 4 * JITTER_MS, row["duration_high_ms"]
            assert low <= finish - begin <= high, row
    assert found > 10


def test_what_no_scrape_could_show_is_counted_apart_and_not_all_there_is() -> None:
    scores = [scraped(seed).score("zombie_leaders") for seed in SEEDS]
    assert sum(score.unseen for score in scores) > 0
    assert sum(score.expected for score in scores) > 0
    # A row that a scrape could show is expected: without it the recall falls.
    whole = scraped(7)
    less = of_table(
        "zombie_leaders",
        whole.rows("zombie_leaders")[1:],
        whole.true["zombie_leaders"],
        plan=whole.plan,
        interval_ms=SECOND_MS,
    )
    assert less.recall < 1


@pytest.mark.parametrize("interval_ms", [1_000, 5_000, 15_000])
def test_times_without_a_leader_lie_within_their_bounds_whoever_comes_back(
    interval_ms: int,
) -> None:
    cut_off = 0
    for seed in (7, 20):
        plan = Plan(seed=seed, length_ms=900_000, topics=2, partitions=1)
        kinds = [FaultKind.CUT, FaultKind.ZOMBIE, FaultKind.KILL, FaultKind.UNCLEAN]
        history = Scraped(planned(plan, kinds), interval_ms)
        cut_off += sum(row["cause"] != "alive" for row in history.true["elections"])
        assert history.score("elections").worst_duration_error_ms == 0, seed
    assert cut_off > 10
