"""The judges of tests on pods, tried on what they must refuse."""

from __future__ import annotations

import json

import pytest

from strandline_cli.kubectl_watch import TimedWatchEvent
from tests.support.broker_logs import handed_over
from tests.support.evictions import taken_in_turns
from tests.support.isr_watch import IsrSeen, isr_of


def event(name: str, uid: str, *, deleting: bool = False, ready: bool = False) -> TimedWatchEvent:
    return TimedWatchEvent(
        at=0.0, event="MODIFIED", name=name, uid=uid, deleting=deleting, ready=ready
    )


def test_pods_that_leave_one_after_the_other_are_told_in_order() -> None:
    events = [
        event("default-0", "a", ready=True),
        event("default-1", "b", ready=True),
        event("default-1", "b", deleting=True, ready=True),
        event("default-1", "b", deleting=True),
        event("strandline-operator-x", "o", deleting=True),
        event("default-1", "b2"),
        event("default-1", "b2", ready=True),
        event("default-0", "a", deleting=True),
    ]
    assert taken_in_turns(events, "default-") == ["default-1", "default-0"]


def test_a_pod_that_leaves_before_the_last_one_is_back_is_found() -> None:
    events = [
        event("default-1", "b", deleting=True),
        event("default-1", "b2"),
        event("default-0", "a", deleting=True),
    ]
    with pytest.raises(AssertionError, match=r"default-0 left while \['default-1'\] was away"):
        taken_in_turns(events, "default-")


def log_of(*lines: tuple[str, int, int]) -> str:
    """Return a broker's log; of each line its message, the leader and the leader epoch."""
    shown = [
        {
            "message": message,
            "broker_id": 1,
            "topic_name": "orders",
            "partition": "id-0",
            "leader": leader,
            "leader_epoch": epoch,
        }
        for message, leader, epoch in lines
    ]
    return "\n".join(json.dumps(each) for each in shown)


STOPPING, STOPPED = ("stopping", 0, 0), ("stopped", 0, 0)


def test_partitions_that_got_another_leader_before_the_end_are_told() -> None:
    log = log_of(("became leader", 1, 3), STOPPING, ("became follower", 2, 4), STOPPED)
    assert handed_over(log, "orders") == ["id-0"]
    assert handed_over(log, "another") == []
    assert handed_over(log_of(("became follower", 2, 3), STOPPING, STOPPED), "orders") == []


@pytest.mark.parametrize(
    "log",
    [
        log_of(("became leader", 1, 3), STOPPING, STOPPED),
        log_of(("became leader", 1, 3), STOPPING, ("became follower", 2, 4)),
        log_of(("became leader", 1, 3), STOPPING, ("became follower", -1, 4), STOPPED),
        log_of(("became leader", 1, 3), STOPPING, ("became follower", 2, 3), STOPPED),
        log_of(("became leader", 1, 3), STOPPED),
    ],
    ids=["still led", "killed", "nobody leads", "same epoch", "not asked to stop"],
)
def test_a_leader_that_ended_without_a_successor_is_found(log: str) -> None:
    with pytest.raises(AssertionError):
        handed_over(log, "orders")


def test_an_isr_is_read_from_a_line_of_the_watch() -> None:
    seen = IsrSeen(partition=4, minimum=2, isr=(2, 0, 1))
    assert isr_of("orders|4|2|[2,0,1]\n", "orders") == seen
    assert isr_of("orders|4|2|[2 0 1]\n", "orders") == seen
    assert isr_of("orders|4|2|[]\n", "orders") == IsrSeen(partition=4, minimum=2, isr=())
    assert isr_of("orders|4||\n", "orders") is None
    assert isr_of("other|4|2|[1]\n", "orders") is None
