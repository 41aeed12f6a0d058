"""What `strandline watch` counts and shows: gaps, events, outages, within its bounds."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from strandline_cli import watch_page, watch_state
from strandline_cli.cluster_view import PartitionSeen, PodSeen
from strandline_cli.watch_state import ReplicaSeen, WatchState, replicas_of


def partition(
    number: int = 0,
    leader: int = 0,
    epoch: int = 1,
    isr: tuple[int, ...] = (0, 1, 2),
    topic: str = "orders",
) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{topic}-{number}"},
        "spec": {"topicName": topic, "partition": number},
        "status": {"leader": leader, "leaderEpoch": epoch, "isr": isr, "replicas": [0, 1, 2]},
    }


def healthy(topic: str = "") -> WatchState:
    """Return a cluster of three brokers that respond, and one partition that broker 0 leads."""
    state = WatchState(topic)
    state.brokers_listed([2, 0, 1])
    state.partitions_listed([partition()], 0.0)
    for broker in range(3):
        seen = ReplicaSeen(high_watermark=7, log_end_offset=9, leader_epoch=1)
        state.broker_responds(broker, {("orders", 0): seen}, 0.0)
    state.controller_seen(1, 4, 0.0)
    state.pods_seen({"c-0": PodSeen(uid="a", ready=True, restarts=0, image="i")}, 0.0)
    assert not state.events
    return state


def said(state: WatchState) -> list[str]:
    return [each.text for each in state.events]


# --- gaps ---------------------------------------------------------------------------------


def test_a_gap_begins_with_the_first_silence_of_a_leader_and_ends_with_the_next_leader() -> None:
    state = healthy()
    state.broker_silent(0, "status 502", 1.0, 1.2)
    state.partition_changed(partition(leader=2, epoch=2, isr=(1, 2)), 1.5)
    (watched,) = state.partitions.values()
    assert (watched.gaps, watched.longest_gap, watched.elections) == (1, 0.5, 1)
    assert said(state) == [
        "broker 0 does not respond (status 502)",
        "orders-0: leader 0 -> 2, epoch 2",
        "orders-0: 0 left the ISR, now [1, 2]",
        "orders-0: led again by 2 after 0.5 s",
    ]
    assert [each.at_seconds for each in state.events] == [1.2, 1.5, 1.5, 1.5]


def test_the_longest_of_several_gaps_counts_and_the_present_one_too() -> None:
    state = healthy()
    state.partition_changed(partition(leader=-1, epoch=2, isr=(0,)), 1.0)
    state.partition_changed(partition(epoch=3, isr=(0,)), 4.0)
    state.partition_changed(partition(leader=-1, epoch=4, isr=(0,)), 10.0)
    (watched,) = state.partitions.values()
    assert (watched.gap_at(11.0), watched.gap_at(15.0), watched.gaps) == (3.0, 5.0, 2)
    assert watched.elections == 1
    assert watch_page.summary(state, 15.0)[1] == "orders-0: longest gap 5.0 s of 2, which goes on"


def test_a_silent_follower_is_no_gap() -> None:
    state = healthy()
    state.broker_silent(1, "timed out", 1.0, 2.0)
    state.broker_responds(1, {}, 3.0)
    assert said(state) == ["broker 1 does not respond (timed out)", "broker 1 responds again"]
    assert watch_page.summary(state, 4.0)[-1] == (
        "no partition was seen without a leader that responds"
    )


def test_a_broker_whose_metrics_could_never_be_read_makes_no_gap() -> None:
    state = WatchState()
    state.brokers_listed([0])
    state.partitions_listed([partition()], 0.0)
    state.broker_silent(0, "status 403", 0.0, 0.0)
    assert state.is_led(partition_seen(state))
    assert watch_page.notes(state, 1.0)[-1] == "broker 0 does not respond: status 403"


def partition_seen(state: WatchState) -> PartitionSeen:
    (watched,) = state.partitions.values()
    return watched.seen


def test_while_the_api_server_is_away_no_gap_is_timed() -> None:
    state = healthy()
    state.partition_changed(partition(leader=-1, epoch=2), 1.0)
    state.api_away("status 502", 2.0)
    state.api_away("status 502", 3.0)
    assert "the API server does not respond for 6.0 s" in watch_page.notes(state, 8.0)[1]
    state.api_responds(12.0)
    state.partition_changed(partition(leader=1, epoch=3), 14.0)
    (watched,) = state.partitions.values()
    assert watched.longest_gap == 2.0
    assert said(state)[1:3] == [
        "the API server does not respond (status 502); brokers go on meanwhile",
        "the API server responds again, after 10.0 s",
    ]
    assert watch_page.summary(state, 15.0)[1] == (
        "the API server was away once, 10.0 s in all: no gap was timed then"
    )


# --- what is told once, and what is forgotten ---------------------------------------------


def test_a_list_that_repeats_what_is_known_says_nothing() -> None:
    state = healthy()
    state.partitions_listed([partition()], 1.0)
    state.controller_seen(1, 4, 1.0)
    state.controller_seen(-1, -1, 1.0)
    assert not state.events
    assert state.controller == 1


def test_a_new_partition_and_its_first_leader_are_no_election() -> None:
    state = healthy()
    new = {**partition(number=1), "status": {}}
    state.partition_changed(new, 1.0)
    state.partition_changed(partition(number=1), 2.0)
    assert not state.events
    assert watch_page.summary(state, 3.0)[0] == (
        "watched 2 partitions for 3.0 s: 0 elections, 0 ISR changes, 0 events"
    )


def test_what_is_deleted_goes_from_the_page() -> None:
    state = healthy()
    state.partitions_listed([partition(number=1), partition(number=2)], 1.0)
    state.partition_deleted(partition(number=2), 2.0)
    assert said(state) == ["orders-0 is deleted", "orders-2 is deleted"]
    state.brokers_listed([0, 1])
    assert state.replicas.keys() == {0, 1}


def test_one_topic_alone_can_be_watched() -> None:
    state = healthy("orders")
    state.partition_changed(partition(topic="other"), 1.0)
    assert [each.topic for each in state.partitions.values()] == ["orders"]


def test_partitions_and_events_have_bounds_and_what_is_left_out_is_counted() -> None:
    state = healthy()
    many = [partition(number=n) for n in range(watch_state.PARTITIONS_MAX + 3)]
    state.partitions_listed(many, 1.0)
    assert len(state.partitions) == watch_state.PARTITIONS_MAX
    assert "3 more partitions are not followed" in watch_page.notes(state, 1.0)
    state.partitions_listed(many[1:], 2.0)
    assert "2 more partitions are not followed" in watch_page.notes(state, 1.0)
    for number in range(watch_state.EVENTS_MAX + 5):
        state.say(str(number), 3.0)
    assert len(state.events) == watch_state.EVENTS_MAX
    assert state.events_total == watch_state.EVENTS_MAX + 6


# --- the page -----------------------------------------------------------------------------


def test_a_row_has_hw_and_leo_of_every_replica_and_marks_an_older_epoch() -> None:
    state = healthy()
    state.partition_changed(partition(epoch=2, isr=(0, 2)), 1.0)
    state.broker_responds(
        0, {("orders", 0): ReplicaSeen(high_watermark=8, log_end_offset=9, leader_epoch=2)}, 1.0
    )
    state.broker_silent(2, "timed out", 1.0, 1.0)
    assert watch_page.lines(state, 2.0) == [
        "PARTITION  LEADER  EPOCH  ISR  0 HW/LEO     1 HW/LEO  2 HW/LEO  LONGEST GAP",
        "orders-0        0      2  0,2       8/9  7/9 epoch 1    silent            -",
        "controller: broker 1",
        "broker 2 does not respond: timed out",
    ]


def test_a_small_terminal_shows_first_what_is_not_well() -> None:
    state = healthy()
    state.partitions_listed([partition(number=n) for n in range(50)], 1.0)
    state.partition_changed(partition(number=40, isr=(0,)), 1.0)
    console = Console(width=120, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(watch_page.drawing(state, 1.0, height=24))
    shown = captured.get()
    assert "orders-40" in shown
    assert "orders-30" not in shown
    assert "47 more partitions, which are no worse, have no room here" in shown
    assert len(shown.splitlines()) <= 24


def test_replicas_come_from_metrics_of_every_topic() -> None:
    metrics = "\n".join(
        f'strandline_partition_{name}{{partition="{number}",topic="{topic}"}} {value}'
        for name, number, topic, value in (
            ("high_watermark", 0, "orders", 7.0),
            ("log_end_offset", 0, "orders", 9.0),
            ("leader_epoch", 0, "orders", 3.0),
            ("high_watermark", 1, "other", 1.0),
            ("is_leader", 1, "third", 1.0),
        )
    )
    assert replicas_of(metrics + "\n") == {
        ("orders", 0): ReplicaSeen(high_watermark=7, log_end_offset=9, leader_epoch=3),
        ("other", 1): ReplicaSeen(high_watermark=1),
    }
