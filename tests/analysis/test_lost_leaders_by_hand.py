"""Tables of histories made by hand, in which a leader is lost and something with it."""

from __future__ import annotations

from typing import Any

import pytest

from strandline import names
from strandline.names import Metric
from tests.analysis.generated import START_MS, History, shifted
from tests.analysis.test_tables_by_hand import leader, line, table_of

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def small(planned_small: None) -> None:
    """Plan every query for few rows."""


def test_a_log_that_was_cut_and_has_grown_since_is_found_by_the_counter(spark: Any) -> None:
    # Twice three records are cut between two scrapes, by one process each, and more come at once.
    of = {"topic": "orders", "partition": "0"}
    ends = [100.0 + 5 * scrape for scrape in range(20)]
    rows = table_of(
        spark,
        "truncations",
        line(names.PARTITION_LOG_END_OFFSET, ends, of=of),
        line(names.PARTITION_LEADER_EPOCH, [3.0] * 12 + [4.0] * 8, of=of),
        line(names.BROKER_START_TIMESTAMP_SECONDS, [1.0] * 12 + [2.0] * 8),
        line(
            names.TRUNCATED_RECORDS_TOTAL,
            [3.0] * 15,
            first=5,
            of={**of, "reason": "diverged"},
        ),
    )
    assert [row["at_ms"] - START_MS for row in rows] == [5_000, 12_000]
    assert [(row["leo_from"], row["leo_to"], row["records_low"]) for row in rows] == [
        (120, 125, 3),
        (155, 160, 3),
    ]
    assert [row["leader_epoch"] for row in rows] == [3, 4]


def test_a_leader_that_began_behind_the_one_before_commits_from_its_own_begin(spark: Any) -> None:
    # Leader 0 is alone and dies; leader 1 lacks its last 40 records, and is alone for a while.
    of = {"topic": "orders", "partition": "0"}
    since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    marks = (names.PARTITION_HIGH_WATERMARK, names.PARTITION_LOG_END_OFFSET)
    rows = table_of(
        spark,
        "data_at_risk",
        leader(10, changed={}),
        shifted(leader(10, changed={}, epoch=2, broker=1), 14_000),
        line(since, [START_MS / 1000 + 13.5] * 10, broker=1, first=14, of=of),
        *(line(metric, [100.0 + n for n in range(10)], of=of) for metric in marks),
        *(line(m, [60.0 + n for n in range(10)], broker=1, first=14, of=of) for m in marks),
        *(
            line(metric, [value] * 10, broker=broker, first=first, of=of)
            for metric, value in ((names.PARTITION_ISR_SIZE, 1), (names.PARTITION_REPLICAS, 2))
            for broker, first in ((0, 0), (1, 14))
        ),
        length=24_000,
    )
    assert [(row["leader"], row["hw_start"], row["hw_end"]) for row in rows] == [
        (0, 100, 109),
        (1, 60, 69),
    ]


def test_a_leader_that_was_cut_off_and_is_scraped_once_more_did_not_lead_all_the_time(
    spark: Any,
) -> None:
    # Broker 0 is scraped as leader up to second 9, and once more at 20, when it still thinks so.
    of = {"topic": "orders", "partition": "0"}
    since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    hidden: list[float | None] = [None, *[-1.0] * 9]
    second = shifted(leader(18, changed={}, epoch=2, broker=1), 12_000)
    (election,) = table_of(
        spark,
        "elections",
        line(names.PARTITION_IS_LEADER, [*[1.0] * 10, *hidden, 1.0, *[0.0] * 9], of=of),
        line(names.PARTITION_LEADER_EPOCH, [*[1.0] * 10, *hidden, 1.0, *[2.0] * 9], of=of),
        line(since, [*[START_MS / 1000 - 60] * 10, *hidden, START_MS / 1000 - 60], of=of),
        second,
        line(since, [START_MS / 1000 + 11.5] * 18, broker=1, first=12, of=of),
        length=30_000,
    )
    assert election["t_last_old_ms"] == START_MS + 9_000
    assert (election["no_leader_low_ms"], election["no_leader_high_ms"]) == (1_500, 2_500)
    assert (election["cause"], election["kind"]) == ("stale", "broker_failure")


def test_a_leader_that_was_cut_off_between_two_scrapes_may_not_have_led_since_the_first(
    spark: Any,
) -> None:
    # Broker 0 is scraped as leader at 9 and at 11, when it still thinks so; it may have been cut
    # off just after 9, and one late scrape is no gap.
    of = {"topic": "orders", "partition": "0"}
    since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    (election,) = table_of(
        spark,
        "elections",
        line(names.PARTITION_IS_LEADER, [*[1.0] * 10, -1.0, 1.0, *[0.0] * 18], of=of),
        line(names.PARTITION_LEADER_EPOCH, [*[1.0] * 10, -1.0, 1.0, *[2.0] * 18], of=of),
        line(since, [*[START_MS / 1000 - 60] * 10, -1.0, START_MS / 1000 - 60], of=of),
        shifted(leader(18, changed={}, epoch=2, broker=1), 12_000),
        line(since, [START_MS / 1000 + 10.5] * 18, broker=1, first=12, of=of),
        length=30_000,
    )
    assert election["t_first_new_ms"] == START_MS + 10_500
    assert (election["no_leader_low_ms"], election["no_leader_high_ms"]) == (0, 2_500)
    assert (election["cause"], election["kind"]) == ("alive", "controlled")


@pytest.mark.parametrize(("ended", "low_ms"), [(None, 1_500), (-1.0, 0)])
def test_a_leader_led_up_to_the_scrape_that_no_longer_showed_it_or_nobody_knows(
    spark: Any, ended: float | None, low_ms: int
) -> None:
    # Broker 0 is scraped as leader up to second 8. The scrape at 9 is lost, and the one at 10
    # fails, or is lost as well.
    of = {"topic": "orders", "partition": "0"}
    since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    (election,) = table_of(
        spark,
        "elections",
        leader(9, changed={}),
        *(
            line(metric, [*[1.0] * 9, -1.0, ended], of=of)
            for metric in (names.PARTITION_IS_LEADER, names.PARTITION_LEADER_EPOCH)
        ),
        shifted(leader(18, changed={}, epoch=2, broker=1), 12_000),
        line(since, [START_MS / 1000 + 11.5] * 18, broker=1, first=12, of=of),
        length=30_000,
    )
    assert election["t_last_old_ms"] == START_MS + 8_000
    assert (election["no_leader_low_ms"], election["no_leader_high_ms"]) == (low_ms, 3_500)


def led_by_one_outside() -> tuple[History, ...]:
    """Return leader 0, scraped up to 9, and leader 1 from 11.5 on, then outside its last ISR."""
    of = {"topic": "orders", "partition": "0"}
    since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    return (
        leader(10, changed={}),
        line(names.PARTITION_ISR_MEMBER, [0.0] * 10, of={**of, "replica": "1"}),
        shifted(leader(10, changed={}, epoch=2, broker=1), 12_000),
        line(since, [START_MS / 1000 + 11.5] * 10, broker=1, first=12, of=of),
    )


@pytest.mark.parametrize(
    ("counted", "kind"),
    [
        ((), "unclean"),
        (("controlled_shutdown", "offline"), "broker_failure"),
        (("offline", "unclean"), "unclean"),
    ],
)
def test_a_new_leader_that_joined_the_isr_unseen_was_not_elected_uncleanly(
    spark: Any, counted: tuple[str, ...], kind: str
) -> None:
    # The last scrape of leader 0 shows broker 1 outside the ISR; what happened until second 12 is
    # unseen, but controllers count each kind of election.
    total = names.LEADER_ELECTIONS_TOTAL
    (election,) = table_of(
        spark,
        "elections",
        *led_by_one_outside(),
        *(line(total, [1.0] * 11 + [2.0] * 11, broker=2, of={"kind": e}) for e in counted),
        length=24_000,
    )
    assert election["kind"] == kind


def test_an_election_whose_count_was_lost_is_not_told_as_unclean(spark: Any) -> None:
    # As before, and the controller that elected ended before the next scrape: another one shows
    # what it had counted itself.
    total = names.LEADER_ELECTIONS_TOTAL
    earlier = line(total, [1.0] * 22, broker=2, of={"kind": "unclean"})
    (election,) = table_of(spark, "elections", *led_by_one_outside(), earlier, length=24_000)
    assert election["kind"] == "broker_failure"


@pytest.mark.parametrize("lost", [1, 2, 5], ids=["no gap", "a gap", "until after the leader"])
@pytest.mark.parametrize("is_new", [True, False], ids=["another process", "the same process"])
def test_a_controller_counts_on_after_lost_scrapes_and_from_zero_after_a_restart(
    spark: Any, lost: int, *, is_new: bool
) -> None:
    # As before, but the controller that elected missed scrapes after the last one of leader 0, or
    # is a process of after it; the one before it had counted more then.
    told = START_MS / 1000
    began = [told - 60] * 10 + [-1.0] * lost + [told + 10.5 if is_new else told - 60] * 8
    offline = [3.0] * 10 + [-1.0] * lost + [1.0 if is_new else 4.0] * 8
    (election,) = table_of(
        spark,
        "elections",
        *led_by_one_outside(),
        line(names.BROKER_START_TIMESTAMP_SECONDS, began, broker=2),
        line(names.LEADER_ELECTIONS_TOTAL, offline, broker=2, of={"kind": "offline"}),
        length=24_000,
    )
    assert election["kind"] == "broker_failure"


def succeeded(partition: int, *, version: float, changed_ms: int) -> History:
    """Return a leader, scraped up to second 9, and the next one, which began at 9.8.

    Shape:   version is the partition epoch that the next one shows, -1 if nobody shows one; it
             had 3 members of the ISR before, and 2 from second 10 on
    Units:   changed_ms: since the start, when the next one last saw the ISR change
    """
    of, told = {"topic": "orders", "partition": str(partition)}, START_MS / 1000
    shown: dict[Metric, tuple[float, float]] = {
        names.PARTITION_LEADER_EPOCH: (1, 2),
        names.PARTITION_IS_LEADER: (1, 1),
        names.PARTITION_PARTITION_EPOCH: (7 if version > 0 else -1, version),
        names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS: (told - 60, told + 9.8),
        names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS: (told - 60, told + changed_ms / 1000),
        names.PARTITION_ISR_SIZE: (3, 2),
        names.PARTITION_REPLICAS: (3, 3),
        names.PARTITION_MIN_INSYNC_REPLICAS: (2, 2),
    }
    lines = [
        line(metric, [value] * 10, broker=broker, first=10 * broker, of=of)
        for metric, values in shown.items()
        for broker, value in enumerate(values)
    ]
    member = names.PARTITION_ISR_MEMBER
    for broker, value in enumerate((1.0, 0.0)):
        of_replica = {**of, "replica": "2"}
        lines.append(line(member, [value] * 10, broker=broker, first=10 * broker, of=of_replica))
    return {labels: samples for each in lines for labels, samples in each.items() if samples}


SUCCEEDED = {
    # The election raised the partition epoch, and nothing else did: the ISR changed with it.
    0: ((8, 9_800), 9_800, 0),
    # The leader before had shrunk the ISR, at any time since its last scrape.
    1: ((9, 9_800), 9_800, 800),
    # The new leader shrank the ISR itself, if the election had not.
    2: ((9, 9_900), 9_900, 100),
    # One of the two did so, and something else happened as well.
    3: ((10, 9_900), 9_900, 900),
    # Nothing tells.
    4: ((-1, 9_800), 9_800, 800),
}
"""By partition: version and changed_ms of `succeeded`, and the edge's time and error."""


@pytest.mark.parametrize("name", ["isr_intervals", "isr_size_intervals", "ur_episodes"])
def test_an_isr_change_that_an_old_leader_made_after_its_last_scrape_lies_within_the_error(
    spark: Any, name: str
) -> None:
    given = [
        succeeded(number, version=version, changed_ms=changed_ms)
        for number, ((version, changed_ms), _, _) in SUCCEEDED.items()
    ]
    rows = table_of(spark, name, *given, length=20_000)
    after = {row["partition"]: row for row in rows if row["start_ms"] > START_MS}
    edges = {n: (row["start_ms"] - START_MS, row["start_err_ms"]) for n, row in after.items()}
    assert edges == {n: (at, error) for n, (_, at, error) in SUCCEEDED.items()}
    for row in after.values():
        earliest = row["start_ms"] - row["start_err_ms"]
        assert row["duration_high_ms"] == row["end_ms"] - earliest
    for row in rows:
        if row["start_ms"] == START_MS:
            following = after[row["partition"]]
            assert row["end_ms"] == following["start_ms"]
            assert row["end_err_ms"] == following["start_err_ms"]
            assert row["duration_low_ms"] == row["end_ms"] - START_MS - row["end_err_ms"]
