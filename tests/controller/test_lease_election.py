"""The Lease elector by itself: what it does at each response and each time."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from strandline.controller.effects import ReadLease, WriteLease
from strandline.controller.lease_election import LeaseEffect, LeaseElector
from strandline.controller.lease_observation import LeaseLost, LeaseWon, MayTake
from strandline.controller.store_events import LeaseResponseReceived, StoreOutcome
from strandline.model import ControllerEpoch, LeaseRecord
from tests.support.world.timings import demo_timing
from tests.support.world.values import LEASE_FREE

OTHERS = replace(LEASE_FREE, holder_identity="other", resource_version="5", renew_time="t5")


def elector(*, rank: int = 0, identity: str = "me") -> LeaseElector:
    numbers = count(1)
    return LeaseElector(
        identity=identity,
        rank=rank,
        timing=demo_timing().lease,
        new_request_id=lambda: next(numbers),
    )


def request_of(effects: list[LeaseEffect]) -> int:
    (effect,) = effects
    assert isinstance(effect, ReadLease | WriteLease)
    return effect.request_id


def written(effects: list[LeaseEffect]) -> LeaseRecord:
    (effect,) = effects
    assert isinstance(effect, WriteLease)
    return effect.lease


def respond(
    one: LeaseElector,
    request_id: int,
    outcome: StoreOutcome,
    lease: LeaseRecord | None,
    now_ms: int,
) -> list[LeaseEffect]:
    event = LeaseResponseReceived(request_id=request_id, outcome=outcome, lease=lease)
    return one.on_lease_response(event, now_ms)


def seen(
    found: LeaseRecord | None, *, rank: int = 0, now_ms: int = 0, identity: str = "me"
) -> LeaseElector:
    """Return an elector that read this Lease."""
    one = elector(rank=rank, identity=identity)
    request_id = request_of(one.tick(now_ms))
    assert respond(one, request_id, StoreOutcome.OK, found, now_ms) == []
    return one


def holding(*, now_ms: int = 0) -> tuple[LeaseElector, LeaseRecord]:
    """Return an elector that took the free Lease, and the Lease as stored."""
    one = seen(LEASE_FREE, now_ms=now_ms)
    assert one.tick(now_ms) == [MayTake(lease=LEASE_FREE)]
    effects = one.take(ControllerEpoch(4), now_ms)
    stored = replace(written(effects), resource_version="9", renew_time="t9")
    assert respond(one, request_of(effects), StoreOutcome.OK, stored, now_ms) == [
        LeaseWon(lease=stored)
    ]
    return one, stored


def test_first_step_is_a_quorum_read_and_no_lease_is_offered_before() -> None:
    one = elector()
    (effect,) = one.tick(0)
    assert isinstance(effect, ReadLease)
    assert one.next_wakeup_ms is None
    assert one.tick(10_000) == []


def test_failed_read_is_repeated_after_a_retry_period() -> None:
    one = elector()
    request_id = request_of(one.tick(0))
    assert respond(one, request_id, StoreOutcome.UNKNOWN, None, 0) == []
    assert one.tick(499) == []
    request_of(one.tick(500))


@pytest.mark.parametrize("rank, free_ms", [(0, 3_000), (2, 3_100)])
def test_lease_of_another_is_offered_after_its_own_duration_and_the_rank(
    rank: int, free_ms: int
) -> None:
    one = seen(OTHERS, rank=rank)
    assert one.next_wakeup_ms == free_ms
    assert one.tick(free_ms - 1) == []
    assert one.tick(free_ms) == [MayTake(lease=OTHERS)]


def test_duration_is_the_holders_and_ours_if_it_gives_none() -> None:
    assert seen(replace(OTHERS, lease_duration_seconds=15)).next_wakeup_ms == 15_000
    assert seen(replace(OTHERS, lease_duration_seconds=0)).next_wakeup_ms == 3_000


@pytest.mark.parametrize(
    "change", [{"resource_version": "6"}, {"holder_identity": "third"}, {"renew_time": "t6"}]
)
def test_each_change_is_a_sign_of_life(change: dict[str, Any]) -> None:
    one = seen(OTHERS)
    one.observe(OTHERS, 1_000)
    assert one.next_wakeup_ms == 3_000
    one.observe(replace(OTHERS, **change), 1_000)
    assert one.next_wakeup_ms == 4_000


def test_lease_of_a_dead_holder_is_offered_early_but_by_rank() -> None:
    one = seen(OTHERS, rank=1)
    one.holder_died("third", 100)
    assert one.next_wakeup_ms == 3_050
    one.holder_died("other", 100)
    assert one.next_wakeup_ms == 150


@pytest.mark.parametrize(
    "holder, free_ms", [("broker-1/before", 2_000), ("broker-1/now", 0), ("me", 3_000)]
)
def test_lease_of_a_former_process_of_this_broker_is_offered_after_four_probe_deadlines(
    holder: str, free_ms: int
) -> None:
    """This process has registered in its place; meanwhile others may prove it dead."""
    lease = replace(OTHERS, holder_identity=holder)
    one = seen(lease, identity="broker-1/now")
    assert one.next_wakeup_ms == free_ms
    assert one.tick(free_ms) == [MayTake(lease=lease)]


def test_process_of_another_broker_is_no_former_one() -> None:
    one = seen(replace(OTHERS, holder_identity="broker-11/before"), identity="broker-1/now")
    assert one.tick(2_000) == []


def test_former_process_that_renews_keeps_its_lease() -> None:
    one = seen(replace(OTHERS, holder_identity="broker-1/before"), identity="broker-1/now")
    renewed = replace(OTHERS, holder_identity="broker-1/before", resource_version="6")
    one.observe(renewed, 1_900)
    assert one.next_wakeup_ms == 3_900


def test_offer_that_is_no_longer_free_is_not_taken() -> None:
    one = seen(LEASE_FREE)
    assert one.tick(0) == [MayTake(lease=LEASE_FREE)]
    one.observe(OTHERS, 1)
    assert one.take(ControllerEpoch(2), 2) == []
    assert one.next_wakeup_ms == 3_001
    assert one.take(ControllerEpoch(2), 9_000) == []


def test_declined_offer_comes_again() -> None:
    one = seen(LEASE_FREE)
    one.decline(0)
    one.tick(0)
    one.decline(10)
    assert one.next_wakeup_ms == 510
    assert one.tick(510) == [MayTake(lease=LEASE_FREE)]


def test_taking_write_carries_holder_epoch_and_version() -> None:
    one = seen(replace(OTHERS, lease_transitions=7))
    one.tick(3_000)
    lease = written(one.take(ControllerEpoch(12), 3_000))
    assert (lease.holder_identity, lease.controller_epoch) == ("me", 12)
    assert (lease.resource_version, lease.lease_transitions) == ("5", 8)
    assert (lease.acquire_time, lease.renew_time) == ("", "")
    assert lease.lease_duration_seconds == 3


def test_taking_again_from_oneself_is_no_transition() -> None:
    one = seen(replace(OTHERS, holder_identity="me", lease_transitions=7))
    assert isinstance(one.tick(0)[0], MayTake)
    assert written(one.take(ControllerEpoch(2), 0)).lease_transitions == 7


@pytest.mark.parametrize("outcome", [StoreOutcome.CONFLICT, StoreOutcome.UNKNOWN])
def test_taking_write_in_doubt_is_settled_by_a_quorum_read(outcome: StoreOutcome) -> None:
    ours = replace(LEASE_FREE, holder_identity="me", controller_epoch=ControllerEpoch(2))
    for found, won in ((OTHERS, False), (ours, True)):
        one = seen(LEASE_FREE)
        one.tick(0)
        put = request_of(one.take(ControllerEpoch(2), 0))
        read = request_of(respond(one, put, outcome, None, 900))
        effects = respond(one, read, StoreOutcome.OK, found, 950)
        assert effects == ([LeaseWon(lease=found)] if won else [])
        assert bool(one.release(960)) is won


def test_taking_write_in_doubt_with_a_failed_read_proves_no_holder() -> None:
    one = seen(LEASE_FREE)
    one.tick(0)
    put = request_of(one.take(ControllerEpoch(2), 0))
    read = request_of(respond(one, put, StoreOutcome.UNKNOWN, None, 900))
    assert respond(one, read, StoreOutcome.UNKNOWN, None, 1_000) == []
    assert one.release(1_000) == []
    # The write was applied after all: the Lease names us, and the elector takes it again.
    read = request_of(one.tick(1_500))
    own = replace(LEASE_FREE, holder_identity="me", resource_version="8")
    respond(one, read, StoreOutcome.OK, own, 1_500)
    assert one.tick(1_500) == [MayTake(lease=own)]


def test_renewals_come_each_retry_period_and_count_from_when_they_were_sent() -> None:
    one, stored = holding()
    assert one.tick(499) == []
    effects = one.tick(500)
    lease = written(effects)
    assert (lease.resource_version, lease.renew_time) == ("9", "")
    assert lease.acquire_time == stored.acquire_time
    respond(
        one, request_of(effects), StoreOutcome.OK, replace(stored, resource_version="10"), 1_800
    )
    renewal = one.tick(1_800)
    assert written(renewal).resource_version == "10"
    # The last renewal that is known to be applied was sent at 500 ms.
    assert one.tick(2_499) == []
    assert one.tick(2_500) == [LeaseLost(reason="renew deadline passed")]
    assert respond(one, request_of(renewal), StoreOutcome.OK, stored, 2_501) == []


def test_renewal_in_doubt_is_read_and_tried_again_at_once() -> None:
    one, stored = holding()
    put = request_of(one.tick(500))
    read = request_of(respond(one, put, StoreOutcome.CONFLICT, None, 510))
    edited = replace(stored, resource_version="20")
    assert respond(one, read, StoreOutcome.OK, edited, 520) == []
    assert written(one.tick(520)).resource_version == "20"


def test_failed_read_while_holding_is_repeated_until_the_deadline() -> None:
    one, _ = holding()
    put = request_of(one.tick(500))
    read = request_of(respond(one, put, StoreOutcome.UNKNOWN, None, 700))
    assert respond(one, read, StoreOutcome.UNKNOWN, None, 900) == []
    assert one.tick(1_399) == []
    request_of(one.tick(1_400))
    assert one.tick(2_000) == [LeaseLost(reason="renew deadline passed")]


@pytest.mark.parametrize("found", [OTHERS, None, LEASE_FREE])
def test_quorum_read_that_does_not_name_us_loses_the_lease(found: LeaseRecord | None) -> None:
    one, _ = holding()
    read = request_of(one.observe(OTHERS, 100))
    assert respond(one, read, StoreOutcome.OK, found, 110) == [LeaseLost(reason="another holder")]


def test_lease_of_an_earlier_term_of_this_process_is_not_renewed_but_taken_again() -> None:
    """A store that went back shows it; the record in the BrokerCluster went back as well."""
    one, stored = holding()
    put = request_of(one.tick(500))
    read = request_of(respond(one, put, StoreOutcome.CONFLICT, None, 510))
    older = replace(stored, resource_version="5", controller_epoch=ControllerEpoch(3))
    assert respond(one, read, StoreOutcome.OK, older, 520) == [
        LeaseLost(reason="another controller epoch")
    ]
    again = request_of(one.tick(520))
    assert respond(one, again, StoreOutcome.OK, older, 530) == []
    assert one.tick(530) == [MayTake(lease=older)]


def test_read_of_an_earlier_term_of_this_process_proves_no_taking() -> None:
    one = seen(LEASE_FREE)
    one.tick(0)
    put = request_of(one.take(ControllerEpoch(4), 0))
    read = request_of(respond(one, put, StoreOutcome.UNKNOWN, None, 10))
    older = replace(LEASE_FREE, holder_identity="me", controller_epoch=ControllerEpoch(3))
    assert respond(one, read, StoreOutcome.OK, older, 20) == []
    assert one.tick(20) == [MayTake(lease=older)]


def test_watch_event_of_another_holder_alone_ends_nothing() -> None:
    one, stored = holding()
    read = request_of(one.observe(OTHERS, 100))
    assert one.observe(OTHERS, 101) == []
    assert respond(one, read, StoreOutcome.OK, stored, 110) == []
    assert one.observe(stored, 111) == []
    assert written(one.release(112)).holder_identity == ""


def test_late_response_to_an_abandoned_request_is_ignored() -> None:
    one, stored = holding()
    assert respond(one, 77, StoreOutcome.OK, OTHERS, 10) == []
    assert one.lease == stored


def test_release_empties_the_holder_and_keeps_the_epoch() -> None:
    one, _ = holding()
    effects = one.release(100)
    lease = written(effects)
    assert (lease.holder_identity, lease.controller_epoch) == ("", 4)
    free = replace(lease, resource_version="11")
    assert respond(one, request_of(effects), StoreOutcome.OK, free, 110) == []
    assert one.release(111) == []
    assert one.tick(111) == [MayTake(lease=free)]


def test_release_is_tried_again_after_a_conflict_and_not_for_ever() -> None:
    one, stored = holding()
    effects = one.stop(100)
    for version in range(20, 23):
        assert not one.is_stopped
        read = request_of(respond(one, request_of(effects), StoreOutcome.CONFLICT, None, 110))
        found = replace(stored, resource_version=str(version))
        effects = respond(one, read, StoreOutcome.OK, found, 120)
    assert effects == []
    assert one.is_stopped


def test_release_ends_when_the_lease_is_anothers_or_unreadable() -> None:
    for outcome, found in (
        (StoreOutcome.OK, OTHERS),
        (StoreOutcome.OK, None),
        (StoreOutcome.UNKNOWN, None),
    ):
        one, _ = holding()
        put = request_of(one.stop(100))
        read = request_of(respond(one, put, StoreOutcome.UNKNOWN, None, 110))
        assert respond(one, read, outcome, found, 120) == []
        assert one.is_stopped
        assert one.tick(90_000) == []


def test_stop_while_taking_releases_what_may_have_been_taken() -> None:
    one = seen(LEASE_FREE)
    one.tick(0)
    put = request_of(one.take(ControllerEpoch(2), 0))
    read = request_of(one.stop(1))
    own = replace(LEASE_FREE, holder_identity="me", resource_version="3")
    assert respond(one, put, StoreOutcome.OK, own, 2) == []
    release = respond(one, read, StoreOutcome.OK, own, 3)
    assert written(release).holder_identity == ""
    assert one.stop(4) == []
    respond(one, request_of(release), StoreOutcome.OK, replace(own, holder_identity=""), 5)
    assert one.is_stopped


def test_stopped_candidate_takes_nothing() -> None:
    one = seen(LEASE_FREE)
    assert one.stop(0) == []
    assert one.is_stopped
    assert one.tick(10) == []
    assert one.take(ControllerEpoch(2), 10) == []
    assert one.next_wakeup_ms is None


def test_deleted_lease_is_read_again_and_not_made() -> None:
    one = seen(None)
    assert one.next_wakeup_ms == 500
    request_of(one.tick(500))
    one = seen(OTHERS)
    one.observe(None, 100)
    assert one.next_wakeup_ms == 600
