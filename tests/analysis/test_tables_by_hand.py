"""Tables of histories made by hand, in which one thing happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import pytest

from strandline import names
from strandline.names import Metric
from strandline_analysis import catalogue
from tests.analysis.agreement import Row, in_order, made, over
from tests.analysis.generated import START_MS, UP, History, frame, shifted
from tests.analysis.timeline import INTERVAL_MS

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def small(planned_small: None) -> None:
    """Plan every query for few rows."""


def line(
    metric: Metric | str,
    values: Iterable[float | None],
    *,
    broker: int = 0,
    first: int = 0,
    of: Mapping[str, str] | None = None,
) -> History:
    """Return a series with one value for each scrape; None is a stale marker, -1 is no sample."""
    name = metric if isinstance(metric, str) else metric.name
    given = {"__name__": name, "pod": f"default-{broker}", "instance": f"10.{broker}:1"} | dict(
        of or {}
    )
    samples = [
        (START_MS + (first + number) * INTERVAL_MS, value)
        for number, value in enumerate(values)
        if value != -1
    ]
    return {tuple(sorted(given.items())): samples}


def leader(scrapes: int, *, changed: dict[int, int], epoch: int = 1, broker: int = 0) -> History:
    """Return what tells a leader, with the scrapes at which its ISR had just changed."""
    of = {"topic": "orders", "partition": "0"}
    versions, at = [], []
    for scrape in range(scrapes):
        past = [each for each in changed if each <= scrape]
        versions.append(1.0 + len(past))
        at.append((START_MS + changed[past[-1]]) / 1000 if past else START_MS / 1000 - 60)
    since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    changes = names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS
    return {
        **line(names.PARTITION_LEADER_EPOCH, [epoch] * scrapes, broker=broker, of=of),
        **line(names.PARTITION_IS_LEADER, [1] * scrapes, broker=broker, of=of),
        **line(names.PARTITION_PARTITION_EPOCH, versions, broker=broker, of=of),
        **line(since, [START_MS / 1000 - 60] * scrapes, broker=broker, of=of),
        **line(changes, at, broker=broker, of=of),
    }


def table_of(spark: Any, name: str, *histories: History, length: int = 60_000) -> list[Row]:
    """Return a table of the series of several histories."""
    from strandline_analysis.tables import ANALYSES

    analysis = ANALYSES[name]
    whole = {labels: samples for each in histories for labels, samples in each.items()}
    gap_ms = 0 if analysis.plain else 2.5 * INTERVAL_MS
    table, of = catalogue.TABLES[name], over(length)
    return made(spark, analysis.make, table, [whole], of=of, gap_ms=gap_ms)


def test_three_returns_in_ten_minutes_are_flapping(spark: Any) -> None:
    # Out for ten seconds, every two minutes, four times; a fifth time a quarter of an hour later.
    starts = [60, 180, 300, 420, 1500]
    out = {scrape for start in starts for scrape in range(start, start + 10)}
    changed = {at: at * 1000 - 300 for start in starts for at in (start, start + 10)}
    of = {"topic": "orders", "partition": "0", "replica": "2"}
    member = line(names.PARTITION_ISR_MEMBER, [float(n not in out) for n in range(1700)], of=of)
    told = leader(1700, changed=changed)
    length = 1700 * INTERVAL_MS
    (found,) = table_of(spark, "flapping", member, told, length=length)
    assert (found["replica"], found["cycles"]) == (2, 4)
    assert found["start_ms"] == START_MS + 59_700
    assert found["end_ms"] == START_MS + 429_700
    assert found["duration_low_ms"] == found["duration_high_ms"] == 370_000
    assert found["score"] == pytest.approx(4 / 3, abs=1e-6)
    churn = table_of(spark, "isr_churn", member, told, length=length)
    by_broker = {(row["broker"], row["window_start_ms"]): row for row in churn}
    assert sum(row["shrinks"] for row in by_broker.values()) == 5
    assert {row["broker"] for row in churn if row["observed_expands"]} == {0}


def test_a_clock_that_is_wrong_is_seen_by_the_times_that_it_tells(spark: Any) -> None:
    from strandline_analysis.observations import observations

    began = names.BROKER_START_TIMESTAMP_SECONDS
    at = START_MS / 1000
    told = {
        **line(began, [at - 60] * 5 + [at + 4.5] * 5, broker=0),
        **line(began, [at - 60] * 5 + [at + 5 + 7] * 5, broker=1),
        **line(began, [at - 60] * 5 + [at + 4 - 7] * 5, broker=2),
        # A process that began at an unknown time before the range tells nothing of its clock.
        **line(began, [at - 3600] * 5, broker=3),
        **line(names.PARTITION_IS_LEADER, [1.0] * 3 + [0.0] * 3, broker=0),
        **line(names.PARTITION_ISR_MEMBER, [1.0], broker=0, of={"replica": "7"}),
    }
    ranged = {"start_ms": START_MS, "end_ms": START_MS + 60_000}
    plain, runs = (
        observations(frame(spark, told, gap_ms=gap_ms, **ranged)).toArrow().to_pylist()
        for gap_ms in (0, 2.5 * INTERVAL_MS)
    )
    count = sum(len(values) for values in told.values())
    # Four series changed once, two never.
    assert (sum(row.pop("runs") for row in plain), sum(row.pop("runs") for row in runs)) == (
        count,
        10,
    )
    assert sum(row["samples"] for row in runs) == count
    assert in_order(plain) == in_order(runs)
    by_pod = {row["pod"]: row for row in runs if row["metric"] == began.name}
    clocks = {pod: (row["ahead_ms"], row["behind_ms"]) for pod, row in by_pod.items()}
    assert clocks == {
        "default-0": (-500, -500),
        "default-1": (7_000, -8_000),
        "default-2": (-8_000, 7_000),
        "default-3": (-3_600_000, None),
    }
    leading = {row["leading_ms"] for row in runs if row["metric"] != began.name}
    assert leading == {START_MS + 2_000, None}
    assert {(row["prefix"], row["namespace"], row["label"]) for row in runs} == {
        ("default", "", "")
    }
    assert [row["replica"] for row in runs if row["replica"]] == [7]


def test_changes_between_two_scrapes_are_counted_as_missed(spark: Any) -> None:
    of = {"topic": "orders", "partition": "0"}
    (found,) = table_of(
        spark,
        "missed_edges",
        leader(20, changed={}),
        line(names.PARTITION_ISR_MEMBER, [1.0] * 20, of={**of, "replica": "1"}),
        line(names.ISR_SHRINKS_TOTAL, [4.0] * 10 + [6.0] * 10, of=of),
        line(names.ISR_EXPANDS_TOTAL, [4.0] * 10 + [6.0] * 10, of=of),
        length=20_000,
    )
    assert [found[f"{what}_shrinks"] for what in ("seen", "counted", "missed")] == [0, 2, 2]


def test_controllers_follow_each_other(spark: Any) -> None:
    rows = table_of(
        spark,
        "controller_elections",
        line(names.CONTROLLER_EPOCH, [3.0] * 10 + [4.0] * 10, broker=0),
        line(names.CONTROLLER_ACTIVE, [1.0] * 10 + [0.0] * 10, broker=0),
        line(names.CONTROLLER_EPOCH, [3.0] * 11 + [4.0] * 9, broker=1),
        line(names.CONTROLLER_ACTIVE, [0.0] * 11 + [1.0] * 9, broker=1),
        length=20_000,
    )
    assert rows == [
        {
            "epoch": 4,
            "old_controller": 0,
            "new_controller": 1,
            "at_ms": START_MS + 10_000,
            "at_err_ms": INTERVAL_MS,
        }
    ]


def test_a_controller_that_acts_before_it_shows_its_epoch_is_not_that_of_the_one_before(
    spark: Any,
) -> None:
    # Broker 1 acts from scrape 10 on, and shows epoch 4 one scrape later.
    (found,) = table_of(
        spark,
        "controller_elections",
        line(names.CONTROLLER_EPOCH, [3.0] * 9, broker=0),
        line(names.CONTROLLER_ACTIVE, [1.0] * 9, broker=0),
        line(names.CONTROLLER_EPOCH, [3.0] * 11 + [4.0] * 9, broker=1),
        line(names.CONTROLLER_ACTIVE, [0.0] * 10 + [1.0] * 10, broker=1),
        length=20_000,
    )
    assert (found["epoch"], found["old_controller"], found["new_controller"]) == (4, 0, 1)


def test_silence_is_down_a_gap_or_a_restart_and_none_at_the_edges(spark: Any) -> None:
    start = names.BROKER_START_TIMESTAMP_SECONDS
    old, new = START_MS / 1000 - 60, START_MS / 1000 + 24.5
    rows = table_of(
        spark,
        "coverage",
        # Failed scrapes, and another process afterwards.
        line(UP, [1.0] * 20 + [0.0] * 5 + [1.0] * 35, broker=0),
        line(start, [old] * 20 + [None] + [-1] * 4 + [new] * 35, broker=0),
        # No scrapes.
        line(UP, [1.0] * 20 + [-1] * 5 + [1.0] * 35, broker=1),
        # Gone, and there from the tenth second on: only the end is an event.
        line(UP, [1.0] * 20 + [None], broker=2, first=10),
    )
    told = [(row["pod"], row["kind"], row["missing_samples"], row["ongoing"]) for row in rows]
    assert told == [
        ("default-0", "restart", 5, False),
        ("default-1", "gap", 5, False),
        ("default-2", "down", 30, True),
    ]
    assert [row["start_ms"] - START_MS for row in rows] == [20_000, 20_000, 30_000]
    errors = [(row["start_err_ms"], row["end_err_ms"]) for row in rows]
    assert errors == [(1_000, 1_000), (1_000, 1_000), (1_000, 0)]
    bounds = [(row["duration_low_ms"], row["duration_high_ms"]) for row in rows]
    assert bounds == [(4_000, 6_000), (4_000, 6_000), (30_000, 31_000)]


def test_a_truncation_is_no_reset_and_a_reset_no_truncation(spark: Any) -> None:
    of = {"topic": "orders", "partition": "0"}
    start = line(names.BROKER_START_TIMESTAMP_SECONDS, [1.0] * 10 + [2.0] * 10)
    ends = line(names.PARTITION_LOG_END_OFFSET, [100.0] * 5 + [90.0] * 15, of=of)
    records = line(names.PRODUCED_RECORDS_TOTAL, [50.0] * 10 + [7.0] * 10, of={"topic": "orders"})
    sizes = line(names.PRODUCED_BYTES_TOTAL, [500.0] * 10 + [70.0] * 10, of={"topic": "orders"})
    (cut,) = table_of(
        spark, "truncations", ends, line(names.PARTITION_LEADER_EPOCH, [3.0] * 20, of=of)
    )
    assert (cut["leo_from"], cut["leo_to"], cut["records_low"], cut["leader_epoch"]) == (
        *(100, 90, 10),
        3,
    )
    (moved,) = table_of(spark, "replication_throughput", start, ends, records, sizes)
    assert (moved["records"], moved["bytes"], moved["resets"]) == (7, 70, 1)


def test_slo_counts_what_is_known_and_names_the_rest(spark: Any) -> None:
    # Broker 0 leads alone in the ISR for ten seconds and dies; broker 1 leads 3.5 s after its end.
    of = {"topic": "orders", "partition": "0"}
    alone = [1.0 if 10 <= scrape < 20 else 3.0 for scrape in range(30)]
    since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    second = leader(26, changed={}, epoch=2, broker=1)
    second = {
        labels: [(at + 34_000, value) for at, value in samples]
        for labels, samples in second.items()
    } | line(since, [START_MS / 1000 + 33.5] * 26, broker=1, first=34, of=of)
    found = table_of(
        spark,
        "slo",
        leader(30, changed={10: 10_000, 20: 20_000}),
        line(names.PARTITION_IS_LEADER, [1.0] * 30 + [None], of=of),
        line(names.PARTITION_ISR_SIZE, [*alone, None], of=of),
        line(names.PARTITION_REPLICAS, [3.0] * 30 + [None], of=of),
        line(names.PARTITION_MIN_INSYNC_REPLICAS, [2.0] * 30 + [None], of=of),
        line(names.PARTITION_HIGH_WATERMARK, [10.0 * n for n in range(30)], of=of),
        line(names.PARTITION_LOG_END_OFFSET, [10.0 * n for n in range(30)], of=of),
        second,
        *(
            line(metric, [value] * 26, broker=1, first=34, of=of)
            for metric, value in (
                (names.PARTITION_ISR_SIZE, 3.0),
                (names.PARTITION_REPLICAS, 3.0),
                (names.PARTITION_MIN_INSYNC_REPLICAS, 2.0),
                (names.PARTITION_HIGH_WATERMARK, 300.0),
                (names.PARTITION_LOG_END_OFFSET, 300.0),
            )
        ),
    )
    (day,) = found
    # The last scrape of the old leader was 4.5 s before the new one began.
    assert (day["known_ms"], day["total_ms"], day["failover_p99_ms"]) == (60_000, 60_000, 4500)
    assert day["availability"] == pytest.approx(1 - 4500 / 60_000, abs=1e-6)
    assert day["produce_availability"] == pytest.approx(1 - (10_000 + 4500) / 60_000, abs=1e-6)
    assert day["ur_ratio"] == pytest.approx(10_000 / 60_000, abs=1e-6)
    assert day["durability_risk"] == pytest.approx(90 / 300, abs=1e-6)
    assert day["error_budget_left"] == pytest.approx(1 - 0.075 / 0.001, abs=1e-6)


def follower(scrapes: int, caught: Mapping[int, float], *, rate: float = 10.0) -> History:
    """Return what leader 0 shows of follower 1, which last had everything at caught[scrape] s."""
    of = {"topic": "orders", "partition": "0"}
    of_replica = {**of, "replica": "1"}
    had = [caught.get(n, float(n)) for n in range(scrapes)]
    known = [min(each, n) * rate for n, each in enumerate(had)]
    times = [START_MS / 1000 + each for each in had]
    return {
        **line(names.PARTITION_LOG_END_OFFSET, [n * rate for n in range(scrapes)], of=of),
        **line(names.PARTITION_HIGH_WATERMARK, known, of=of),
        **line(names.PARTITION_REPLICAS, [2.0] * scrapes, of=of),
        **line(names.PARTITION_MIN_INSYNC_REPLICAS, [2.0] * scrapes, of=of),
        **line(names.PARTITION_ISR_MEMBER, [1.0] * scrapes, of=of_replica),
        **line(names.REPLICA_LOG_END_OFFSET, known, of=of_replica),
        **line(names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS, times, of=of_replica),
    }


def test_other_lag_times_replay_an_absence_in_bounds(spark: Any) -> None:
    # From second 10 to 22.6 the follower lacks records; its leader waits for it all the time.
    caught = {**dict.fromkeys(range(10, 23), 10.0), 23: 22.6}
    rows = table_of(spark, "lagtime_whatif", leader(60, changed={}), follower(60, caught))
    told = {row["setting_ms"]: row for row in rows}
    # What is shorter than a gap between scrapes is left out.
    assert sorted(told) == [5_000, 10_000, 15_000, 20_000, 30_000, 45_000, 60_000]

    def bounds(setting: int, what: str, unit: str = "") -> tuple[int, int]:
        row = told[setting]
        return row[f"{what}_low{unit}"], row[f"{what}_high{unit}"]

    # It leaves at second 15 to 17.5, and is back between the scrape at 22 and 22.6.
    assert (bounds(5_000, "shrinks"), bounds(5_000, "expands")) == ((1, 1), (1, 1))
    assert bounds(5_000, "ur", "_ms") == bounds(5_000, "umi", "_ms") == (4_500, 7_600)
    # The check at which it would leave may come too late.
    assert (bounds(10_000, "shrinks"), bounds(10_000, "ur", "_ms")) == ((0, 1), (0, 2_600))
    assert bounds(15_000, "shrinks") == bounds(60_000, "shrinks") == (0, 0)
    # The last scrape of the absence still showed it in the ISR.
    assert [told[each]["extra_hw_stall_ms"] for each in (5_000, 15_000)] == [0, 600]


def test_bounds_hold_for_each_min_isr_that_a_topic_had(packages: str) -> None:
    from strandline_analysis.tables.whatif import replayed

    def absence(begin_s: int, min_isr: int) -> Row:
        begin = START_MS + begin_s * 1000
        times = {"begin_ms": begin, "seen_ms": begin + 20_000, "until_ms": begin + 20_500}
        told = {"inside_ms": begin, "returned": True, "replicas": 3, "min_isr": min_isr}
        return {"topic": "orders", "partition": 0} | times | told

    # One of three is missing, twice: that stops acks=all the second time alone.
    (row,) = replayed([absence(10, 2), absence(100, 3)], [5_000], start_ms=START_MS)
    (second,) = replayed([absence(100, 3)], [5_000], start_ms=START_MS)
    assert second["umi_low_ms"] == 12_500
    assert row["umi_low_ms"] <= second["umi_low_ms"] < second["umi_high_ms"] <= row["umi_high_ms"]


def test_a_stall_counts_what_was_written_before_its_leader_changed(spark: Any) -> None:
    # Leader 0 writes ten records that it never commits, and dies; leader 1 has only the first.
    of = {"topic": "orders", "partition": "0"}
    since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    second = shifted(leader(10, changed={}, epoch=2, broker=1), 10 * INTERVAL_MS)
    (stall,) = table_of(
        spark,
        "hw_stalls",
        leader(10, changed={}),
        line(names.PARTITION_LOG_END_OFFSET, [20.0 + n for n in range(10)], of=of),
        line(names.PARTITION_HIGH_WATERMARK, [19.0] * 10, of=of),
        second,
        line(since, [START_MS / 1000 + 9.5] * 10, broker=1, first=10, of=of),
        line(names.PARTITION_LOG_END_OFFSET, [20.0] * 10, broker=1, first=10, of=of),
        line(names.PARTITION_HIGH_WATERMARK, [19.0] * 10, broker=1, first=10, of=of),
        length=20_000,
    )
    assert (stall["leo_start"], stall["leo_end"], stall["backlog"]) == (20, 20, 1)
    assert (stall["duration_low_ms"], stall["cause"]) == (19_000, "leaderless")


def test_a_follower_that_lacks_nothing_leaves_under_no_setting(spark: Any) -> None:
    idle = follower(60, dict.fromkeys(range(10, 40), 10.0), rate=0.0)
    rows = table_of(spark, "lagtime_whatif", leader(60, changed={}), idle)
    assert {row["shrinks_high"] for row in rows} == {0}


def healthy(scrapes: int) -> History:
    """Return a partition of two brokers with which nothing is amiss."""
    of = {"topic": "orders", "partition": "0"}
    began = [START_MS / 1000 - 60] * scrapes
    return {
        **leader(scrapes, changed={}),
        **follower(scrapes, {}),
        **line(names.PARTITION_ISR_SIZE, [2.0] * scrapes, of=of),
        **line(names.CONTROLLER_EPOCH, [3.0] * scrapes),
        **line(names.CONTROLLER_ACTIVE, [1.0] * scrapes),
        **line(names.BROKER_START_TIMESTAMP_SECONDS, began),
        **line(UP, [1.0] * scrapes),
        **line(UP, [1.0] * scrapes, broker=1),
    }


def test_edges_of_the_range_are_no_incidents(spark: Any) -> None:
    # Scrapes from the twentieth second on, and up to the very end.
    late = {
        labels: [(at + 20_000, value) for at, value in samples]
        for labels, samples in healthy(40).items()
    }
    assert table_of(spark, "incidents", late) == []


def test_a_broker_that_dies_is_the_root_of_one_incident(spark: Any) -> None:
    of = {"topic": "orders", "partition": "0"}
    start = names.BROKER_START_TIMESTAMP_SECONDS
    began, again = START_MS / 1000 - 60, START_MS / 1000 + 30.2
    rows = table_of(
        spark,
        "incidents",
        healthy(60)
        | line(UP, [1.0] * 20 + [0.0] * 11 + [1.0] * 29, broker=1)
        | line(start, [began] * 20 + [None] + [-1] * 10 + [again] * 29, broker=1)
        | line(names.PARTITION_ISR_SIZE, [2.0] * 22 + [1.0] * 12 + [2.0] * 26, of=of)
        | line(
            names.PARTITION_ISR_MEMBER,
            [1.0] * 22 + [0.0] * 12 + [1.0] * 26,
            of={**of, "replica": "1"},
        ),
    )
    (found,) = rows
    assert (found["kind"], found["root_broker"], found["partitions"]) == ("broker", 1, 1)
    assert found["start_ms"] == START_MS + 20_000
    kinds = [proof["kind"] for proof in found["evidence"]]
    assert kinds == ["down", "umi", "ur", "restart"]
    assert {proof["broker"] for proof in found["evidence"]} == {1}


def test_curves_are_of_the_partition_that_stalled_around_its_incident(spark: Any) -> None:
    from strandline_analysis.schema import struct
    from strandline_analysis.tables.incidents import AROUND_MS, incident_curves

    def proof(kind: str, partition: int | None) -> Row:
        topic = None if partition is None else "orders"
        at = {"at_ms": START_MS + 40_000, "kind": kind, "broker": 1}
        return {**at, "topic": topic, "partition": partition}

    incident = {
        "id": "one",
        "start_ms": START_MS + 40_000,
        "end_ms": START_MS + 45_000,
        "kind": "broker",
        "root_broker": 1,
        "confidence": 1.0,
        "partitions": 2,
        "brokers": 1,
        "episodes": 4,
        "evidence": [proof("down", None), proof("ur", 1), proof("ur", 1), proof("stall", 0)],
    }
    incidents = spark.createDataFrame([incident], struct(catalogue.INCIDENTS))
    history = {**leader(120, changed={}), **follower(120, {})}
    rows = made(
        spark,
        partial(incident_curves, incidents=incidents),
        catalogue.INCIDENT_CURVES,
        [history],
        of=over(120_000),
        gap_ms=0,
    )
    times = [row["at_ms"] for row in rows]
    assert (min(times), max(times)) == (
        START_MS + 40_000 - AROUND_MS,
        START_MS + 45_000 + AROUND_MS,
    )
    first = min(rows, key=lambda row: int(row["at_ms"]))
    assert (first["incident"], first["partition"], first["leader"]) == ("one", 0, 0)
    assert (first["leo"], first["hw"]) == (100, 100)


def test_runs_are_refused_where_single_samples_are_needed(spark: Any) -> None:
    from strandline_analysis.tables.watermarks import hw_lag

    of = {"topic": "orders", "partition": "0"}
    history = {
        **leader(20, changed={}),
        **line(names.PARTITION_LOG_END_OFFSET, [5.0] * 20, of=of),
        **line(names.PARTITION_HIGH_WATERMARK, [5.0] * 20, of=of),
    }
    with pytest.raises(Exception, match="gap_ms 0"):
        made(spark, hw_lag, catalogue.HW_LAG, [history], of=over())


def test_a_pod_that_was_replaced_between_two_scrapes_began_anew_and_was_not_missed(
    spark: Any,
) -> None:
    # Scraped at 9 and, elsewhere, at 10.4, when the process was 0.2 s old.
    before, after = {"instance": "10.0:1"}, {"instance": "10.9:1"}
    began = names.BROKER_START_TIMESTAMP_SECONDS
    told = [
        line(UP, [*[1.0] * 10, None], of=before),
        line(began, [*[START_MS / 1000 - 60] * 10, None], of=before),
        shifted(line(UP, [1.0] * 10, of=after), 10_400),
        shifted(line(began, [START_MS / 1000 - 0.2] * 10, of=after), 10_400),
    ]
    (unseen,) = table_of(spark, "coverage", *told, length=20_000)
    assert (unseen["kind"], unseen["missing_samples"]) == ("restart", 0)
    (incident,) = table_of(spark, "incidents", *told, length=20_000)
    assert [sign["kind"] for sign in incident["evidence"]] == ["restart"]
    assert (incident["root_broker"], incident["end_ms"] - START_MS) == (0, 10_200)
