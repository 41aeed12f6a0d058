"""Elections and ISR changes as Events: merged, bounded, and never silently dropped."""

from __future__ import annotations

from dataclasses import replace

from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
)
from strandline_operator import kinds
from strandline_operator.actions import PostEvent
from strandline_operator.events import EVENTS_A_WINDOW, SETTLE_MS, WINDOW_MS, PartitionNews
from strandline_operator.observed import ObjectRef

CLUSTER = ObjectRef(kind=kinds.CLUSTER, name="default", uid="c")


def partition(number: int = 0) -> ObjectRef:
    return ObjectRef(kind=kinds.PARTITION, name=f"orders-{number}", uid=f"p{number}")


def state(
    leader: int = 0, epoch: int = 5, isr: tuple[int, ...] = (0, 1, 2), reason: str = ""
) -> PartitionState:
    return PartitionState(
        replicas=(BrokerId(0), BrokerId(1), BrokerId(2)),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=PartitionEpoch(9),
        isr=tuple(IsrEntry(broker_id=BrokerId(i), broker_epoch=BrokerEpoch(1)) for i in isr),
        min_insync_replicas=2,
        controller_epoch=ControllerEpoch(1),
        reason=reason,
    )


def told(events: list[PostEvent]) -> list[tuple[str, str, bool]]:
    return [(event.reason, event.message, event.is_warning) for event in events]


def one(before: PartitionState, after: PartitionState) -> list[tuple[str, str, bool]]:
    news = PartitionNews()
    news.observe(partition(), CLUSTER, before, after, now_ms=0)
    assert news.due(SETTLE_MS - 1) == []
    return told(news.due(SETTLE_MS))


def test_an_election_names_both_leaders_and_epochs_and_the_isr() -> None:
    assert one(state(), state(leader=1, epoch=6, isr=(1, 2))) == [
        (
            "LeaderElected",
            "broker 1 leads epoch 6; before it broker 0 led epoch 5; ISR [0, 1, 2] -> [1, 2]",
            False,
        )
    ]


def test_a_lost_leader_is_a_warning_with_its_reason() -> None:
    assert one(state(isr=(0,)), state(leader=-1, epoch=6, isr=(0,), reason="NoLiveIsrMember")) == [
        (
            "LeaderLost",
            (
                "no broker leads epoch 6 (NoLiveIsrMember); before it broker 0 led epoch 5; "
                "fewer than min.insync.replicas 2"
            ),
            True,
        )
    ]


def test_isr_changes_are_told_and_warn_under_min_isr() -> None:
    assert one(state(), state(isr=(0, 1))) == [
        ("IsrShrunk", "leader 0 in epoch 5; ISR [0, 1, 2] -> [0, 1]", False)
    ]
    assert one(state(isr=(0,)), state(isr=(0, 1, 2))) == [
        ("IsrChanged", "leader 0 in epoch 5; ISR [0] -> [0, 1, 2]", False)
    ]
    ((reason, message, is_warning),) = one(state(), state(isr=(0,)))
    assert (reason, is_warning) == ("IsrShrunk", True)
    assert message.endswith("fewer than min.insync.replicas 2")


def test_other_changes_of_a_status_are_no_news() -> None:
    assert one(state(), replace(state(), partition_epoch=PartitionEpoch(10))) == []


def test_changes_of_one_moment_become_one_event() -> None:
    news = PartitionNews()
    news.observe(partition(), CLUSTER, state(), state(isr=(0, 1)), now_ms=0)
    news.observe(partition(), CLUSTER, state(isr=(0, 1)), state(1, 6, (1,)), now_ms=200)
    ((reason, message, _),) = told(news.due(SETTLE_MS))
    assert reason == "LeaderElected"
    assert "ISR [0, 1, 2] -> [1]" in message


def test_a_minute_has_a_bounded_number_of_events_and_the_last_one_counts_the_others() -> None:
    news = PartitionNews()
    for number in range(30):
        after = state(1, 6) if number >= 25 else state(isr=(0, 1))
        news.observe(partition(number), CLUSTER, state(), after, now_ms=0)
    first = news.due(SETTLE_MS)
    assert len(first) == EVENTS_A_WINDOW - 1
    assert [event.about.name for event in first[:5]] == [f"orders-{n}" for n in range(25, 30)]
    news.observe(partition(1), CLUSTER, state(), state(1, 6), now_ms=SETTLE_MS)
    assert news.due(WINDOW_MS) == []
    (last,) = news.due(SETTLE_MS + WINDOW_MS)
    assert (last.about, last.reason) == (CLUSTER, "ChangesNotTold")
    assert last.message == (
        "1 elections and 21 ISR changes of 22 partitions have no Event of their own"
    )
    assert news.due(3 * WINDOW_MS) == []


def test_each_cluster_has_its_own_bound_and_a_new_window_begins_anew() -> None:
    news = PartitionNews()
    other = replace(CLUSTER, name="other", uid="o")
    for number in range(EVENTS_A_WINDOW):
        news.observe(partition(number), CLUSTER, state(), state(1, 6), now_ms=0)
    news.due(SETTLE_MS)
    news.observe(partition(90), other, state(), state(1, 6), now_ms=0)
    assert [event.about.name for event in news.due(SETTLE_MS)] == ["orders-90"]
    later = SETTLE_MS + WINDOW_MS
    assert [event.reason for event in news.due(later)] == ["ChangesNotTold"]
    news.observe(partition(1), CLUSTER, state(), state(1, 6), now_ms=later)
    assert [event.about.name for event in news.due(later + SETTLE_MS)] == ["orders-1"]
