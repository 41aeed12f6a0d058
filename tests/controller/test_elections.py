"""Tables of the leader election's rules: each permission beside its refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.broker_entry import (
    Awaited,
    BrokerEntry,
    Dead,
    InSession,
    Unregistered,
)
from strandline.controller.election_input import ElectionDecision, ElectionInput
from strandline.controller.elections import (
    NO_LIVE_ISR_MEMBER,
    decide,
)
from strandline.controller.events import HostedReplica
from strandline.controller.isr_entries import entries_above_registration
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    UNCLEAN_LAST_REPLICA,
    BrokerId,
    ControllerEpoch,
    ElectionKind,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    Recovery,
    StoredPartition,
    StoredTopic,
)
from tests.support.world.values import entry, registration, state, topic, tp

TOPIC_OBJECT = topic()
View = tuple[BrokerId, BrokerEntry]


def view(
    broker_id: int,
    liveness: type[BrokerEntry] = InSession,
    *,
    epoch: int = 1,
    clean: int = 1,
    leaving: bool = False,
    reported: int = 0,
    full: bool = False,
) -> View:
    """Return a broker's id and what the controller knows of it."""
    found = registration(broker_id, epoch, clean)
    entry: BrokerEntry
    if liveness is InSession:
        entry = InSession(
            registration=found,
            heard_ms=0,
            reported_ms=reported,
            session_id=1,
            shutting_down=leaving,
            is_full=full,
        )
    elif liveness is Awaited:
        entry = Awaited(registration=found, heard_ms=0, shutting_down=leaving)
    elif liveness is Dead:
        entry = Dead(registration=found, detect_ms=0)
    else:
        entry = Unregistered()
    return BrokerId(broker_id), entry


def hosted(last_epoch: int, log_end_offset: int) -> HostedReplica:
    return HostedReplica(
        tp=tp(),
        topic_name="orders",
        leader=NO_LEADER,
        leader_epoch=LeaderEpoch(last_epoch),
        partition_epoch=PartitionEpoch(0),
        accepted_leader_epoch=LeaderEpoch(last_epoch),
        accepted_partition_epoch=PartitionEpoch(0),
        last_epoch=LeaderEpoch(last_epoch),
        log_start_offset=0,
        log_end_offset=log_end_offset,
    )


def stored(found: PartitionState | None, *, recover: bool = False) -> StoredPartition:
    return StoredPartition(
        name="orders-0",
        resource_version="1",
        tp=tp(),
        topic_name="orders",
        assigned=(BrokerId(0), BrokerId(1), BrokerId(2)),
        recover=recover,
        state=found,
    )


def decided(
    found: PartitionState | None,
    *views: View,
    found_topic: StoredTopic | None = TOPIC_OBJECT,
    on_disk: dict[int, HostedReplica] | None = None,
    waited: bool = True,
    recover: bool = False,
    state_lost: bool = False,
    announced: PartitionState | None = None,
    first_seen: int = 0,
) -> ElectionDecision | None:
    inputs = ElectionInput(
        brokers=dict(views),
        topic=found_topic,
        hosted={BrokerId(b): h for b, h in (on_disk or {}).items()},
        controller_epoch=ControllerEpoch(9),
        waited=waited,
        state_lost=state_lost,
        announced=announced,
        first_seen_ms=first_seen,
    )
    return decide(stored(found, recover=recover), inputs)


ALL = (view(0), view(1), view(2))


def test_nothing_to_do_writes_nothing() -> None:
    assert decided(state(), *ALL) is None


@pytest.mark.parametrize(
    "views, leader, isr",
    [
        (ALL, 0, (0, 1, 2)),
        ((view(0, Dead), view(1), view(2)), 1, (1, 2)),
        ((view(1), view(2)), 1, (1, 2)),
        ((view(0, leaving=True), view(1), view(2, Awaited)), 1, (1,)),
    ],
)
def test_new_partition_is_led_by_the_first_in_session(
    views: tuple[View, ...], leader: int, isr: tuple[int, ...]
) -> None:
    decision = decided(None, *views)
    assert decision is not None
    assert decision.kind is ElectionKind.NEW
    assert (decision.state.leader, decision.state.isr_ids) == (leader, isr)
    assert (decision.state.leader_epoch, decision.state.partition_epoch) == (0, 0)
    assert decision.state.controller_epoch == 9


@pytest.mark.parametrize(
    "views, waited, found_topic",
    [
        ((view(0), view(1)), False, topic()),
        ((view(0), view(1), view(2, Awaited)), False, topic()),
        ((view(0, Dead), view(1, Unregistered)), True, topic()),
        (ALL, True, None),
    ],
)
def test_new_partition_waits(
    views: tuple[View, ...], waited: bool, found_topic: StoredTopic | None
) -> None:
    assert decided(None, *views, waited=waited, found_topic=found_topic) is None


def test_new_partition_does_not_wait_for_the_dead() -> None:
    decision = decided(None, view(0), view(1), view(2, Dead), waited=False)
    assert decision is not None
    assert decision.state.isr_ids == (0, 1)


def test_lost_object_is_not_a_new_one() -> None:
    for decision in (
        decided(None, *ALL, recover=True, announced=state()),
        decided(None, *ALL, recover=True, on_disk={1: hosted(0, 0)}),
        decided(None, *ALL, on_disk={1: hosted(0, 0)}),
    ):
        assert decision is not None
        assert decision.kind is None
        assert (decision.state.leader, decision.state.reason) == (-1, STATE_LOST)
        assert decided(decision.state, *ALL) is None


def test_partition_to_recover_is_new_once_all_its_brokers_said_that_they_have_nothing() -> None:
    decision = decided(None, *ALL, recover=True)
    assert decision is not None
    assert (decision.kind, decision.state.isr_ids) == (ElectionKind.NEW, (0, 1, 2))
    assert (decision.state.recovery, decision.state.reason) == (Recovery.CLEAN, "")


@pytest.mark.parametrize(
    "views",
    [
        (view(0), view(1)),
        (view(0), view(1), view(2, Dead)),
        (view(0), view(1), view(2, Awaited)),
        (view(0), view(1), view(2, Unregistered)),
        (view(0), view(1), view(2, leaving=True)),
    ],
)
def test_partition_to_recover_waits_for_each_broker_that_may_have_its_data(
    views: tuple[View, ...],
) -> None:
    assert decided(None, *views, recover=True) is None


def test_report_of_before_the_object_was_seen_does_not_count() -> None:
    late = tuple(view(broker_id, reported=7) for broker_id in range(3))
    assert decided(None, *late[:2], view(2, reported=6), recover=True, first_seen=7) is None
    assert decided(None, *late, recover=True, first_seen=7) is not None


def test_partition_that_begins_anew_on_a_broker_that_lost_data_says_so() -> None:
    decision = decided(None, view(0), view(1, epoch=3, clean=2), view(2), recover=True)
    assert decision is not None
    assert decision.state.recovery is Recovery.UNCLEAN


def test_partition_refused_as_new_goes_offline_and_stays_so() -> None:
    decision = decided(state(), *ALL, state_lost=True)
    assert decision is not None
    assert (decision.state.leader, decision.state.leader_epoch) == (-1, 1)
    assert decision.state.reason == STATE_LOST
    assert decided(decision.state, *ALL, state_lost=True) is None


@pytest.mark.parametrize(
    "views, leader, isr",
    [
        ((view(0, Dead), view(1), view(2)), 1, (entry(1), entry(2))),
        ((view(0, Dead), view(1, Dead), view(2)), 2, (entry(2),)),
        # An awaited broker counts as live, but a broker in session is preferred.
        ((view(0, Dead), view(1, Awaited), view(2)), 2, (entry(1), entry(2))),
        ((view(0, Dead), view(1, Awaited), view(2, Awaited)), 1, (entry(1), entry(2))),
        # A broker neither known live nor known dead stays in the ISR and does not lead.
        ((view(0, Dead), view(1, Unregistered), view(2)), 2, (entry(1), entry(2))),
        ((view(0, Dead), view(2)), 2, (entry(1), entry(2))),
        # A clean restart keeps the others' entries; the leader's gets its present epoch.
        ((view(0, epoch=2), view(1), view(2)), 0, (entry(0, 2), entry(1), entry(2))),
        ((view(0, Dead), view(1, epoch=5), view(2, epoch=5)), 1, (entry(1, 5), entry(2))),
        # A broker that lost data since its entry neither leads nor stays.
        ((view(0, epoch=2, clean=2), view(1), view(2)), 1, (entry(1), entry(2))),
        ((view(0, Dead), view(1, epoch=2, clean=2), view(2)), 2, (entry(2),)),
        # A broker that shuts down is no candidate.
        ((view(0, Dead), view(1, leaving=True), view(2)), 2, (entry(2),)),
    ],
)
def test_offline_election(views: tuple[View, ...], leader: int, isr: tuple[object, ...]) -> None:
    decision = decided(state(leader_epoch=4, partition_epoch=7), *views)
    assert decision is not None
    assert decision.kind is ElectionKind.OFFLINE
    assert (decision.state.leader, decision.state.isr) == (leader, isr)
    assert (decision.state.leader_epoch, decision.state.partition_epoch) == (5, 8)
    assert (decision.state.recovery, decision.state.reason) == (Recovery.CLEAN, "")


def test_replica_outside_of_the_isr_is_not_elected() -> None:
    decision = decided(state(isr=(entry(0),)), view(0, Dead), view(1), view(2))
    assert decision is not None
    assert decision.kind is None
    assert (decision.state.leader, decision.state.isr) == (-1, (entry(0),))
    assert decision.state.reason == NO_LIVE_ISR_MEMBER
    assert decision.state.leader_epoch == 1
    assert decided(decision.state, view(0, Dead), view(1), view(2)) is None


ELIGIBLE = state(isr=(entry(0),), elr=(entry(1), entry(2)), leader_epoch=4, partition_epoch=7)


@pytest.mark.parametrize(
    "views, leader, isr, elr",
    [
        ((view(0, Dead), view(1), view(2)), 1, (entry(1),), (entry(2), entry(0))),
        ((view(0, Dead), view(1, Dead), view(2)), 2, (entry(2),), (entry(1), entry(0))),
        ((view(0, Dead), view(1, Awaited), view(2)), 2, (entry(2),), (entry(1), entry(0))),
        ((view(0, Dead), view(1, leaving=True), view(2)), 2, (entry(2),), (entry(1), entry(0))),
        # A clean restart keeps an entry good; one that lost data is not elected, and dropped.
        ((view(0, Dead), view(1, epoch=3)), 1, (entry(1, 3),), (entry(2), entry(0))),
        ((view(0, Dead), view(1, epoch=3, clean=3), view(2)), 2, (entry(2),), (entry(0),)),
        ((view(0, epoch=2, clean=2), view(1), view(2)), 1, (entry(1),), (entry(2),)),
        # A member of the ISR goes before, even if it is only awaited.
        ((view(0, Awaited, epoch=2), view(1), view(2)), 0, (entry(0, 2),), (entry(1), entry(2))),
    ],
)
def test_eligible_leader_is_elected_if_no_member_of_the_isr_can_lead(
    views: tuple[View, ...], leader: int, isr: tuple[object, ...], elr: tuple[object, ...]
) -> None:
    decision = decided(ELIGIBLE, *views)
    assert decision is not None
    assert (decision.kind, decision.state.recovery) == (ElectionKind.OFFLINE, Recovery.CLEAN)
    assert (decision.state.leader, decision.state.isr) == (leader, isr)
    assert decision.state.eligible_leaders == elr
    assert (decision.state.leader_epoch, decision.state.partition_epoch) == (5, 8)


def test_partition_without_an_available_candidate_waits_for_an_eligible_leader() -> None:
    views = (view(0, epoch=2, clean=2), view(1, epoch=2, clean=2), view(2, Dead))
    decision = decided(ELIGIBLE, *views)
    assert decision is not None
    assert (decision.state.leader, decision.state.reason) == (-1, NO_LIVE_ISR_MEMBER)
    assert (decision.state.isr, decision.state.eligible_leaders) == ((entry(0),), (entry(2),))
    assert decided(decision.state, *views) is None
    back = decided(decision.state, *views[:2], view(2, epoch=2))
    assert back is not None
    assert (back.state.leader, back.state.isr) == (2, (entry(2, 2),))
    lost = decided(decision.state, *views[:2], view(2, epoch=2, clean=2))
    assert lost is not None
    assert (lost.state.leader, lost.state.reason) == (-1, UNCLEAN_LAST_REPLICA)
    assert lost.state.eligible_leaders == ()


def test_eligible_leader_that_lost_data_is_dropped_while_the_partition_has_a_leader() -> None:
    decision = decided(ELIGIBLE, view(0), view(1, epoch=2, clean=2), view(2))
    assert decision is not None
    assert (decision.state.leader, decision.state.eligible_leaders) == (0, (entry(2),))
    assert (decision.state.leader_epoch, decision.state.partition_epoch) == (4, 8)
    assert decided(decision.state, view(0), view(1, epoch=2, clean=2), view(2)) is None
    assert decided(ELIGIBLE, view(0), view(1, Dead), view(2, epoch=2)) is None


def test_unclean_is_not_consulted_while_an_eligible_leader_is_live() -> None:
    decision = decided(ELIGIBLE, view(0, Dead), view(1), found_topic=topic(unclean=True))
    assert decision is not None
    assert (decision.kind, decision.state.leader) == (ElectionKind.OFFLINE, 1)


def test_controlled_shutdown_of_the_last_member_moves_to_an_eligible_leader() -> None:
    decision = decided(ELIGIBLE, view(0, leaving=True), view(1), view(2))
    assert decision is not None
    assert (decision.kind, decision.state.leader) == (ElectionKind.CONTROLLED_SHUTDOWN, 1)
    assert decision.state.eligible_leaders == (entry(2), entry(0))


@pytest.mark.parametrize("liveness", [Unregistered, None])
def test_leader_of_unknown_liveness_stays(liveness: type[BrokerEntry] | None) -> None:
    others = (view(1), view(2))
    views = others if liveness is None else (view(0, liveness), *others)
    assert decided(state(), *views) is None


def test_entry_above_the_registered_epoch_means_an_old_view() -> None:
    found = state(isr=(entry(0, 3), entry(1), entry(2)))
    assert decided(found, *ALL) is None
    assert decided(found, view(0, Dead), view(1), view(2)) is None
    assert entries_above_registration(found, dict(ALL)) == [entry(0, 3)]
    assert entries_above_registration(state(), dict(ALL)) == []
    eligible = state(isr=(entry(0),), elr=(entry(1, 3), entry(2)))
    assert entries_above_registration(eligible, dict(ALL)) == [entry(1, 3)]


def test_dead_and_unclean_followers_leave_without_a_new_leader_epoch() -> None:
    for gone in (view(1, Dead), view(1, epoch=2, clean=2)):
        decision = decided(state(partition_epoch=3), view(0), gone, view(2))
        assert decision is not None
        assert decision.kind is None
        assert decision.state.isr_ids == (0, 2)
        assert (decision.state.leader_epoch, decision.state.partition_epoch) == (0, 4)


def test_clean_bounce_of_a_follower_changes_nothing() -> None:
    assert decided(state(), view(0), view(1, epoch=2), view(2)) is None


def test_last_isr_member_with_lost_data_leaves_the_partition_offline() -> None:
    found = state(isr=(entry(0),))
    views = (view(0, epoch=2, clean=2), view(1), view(2))
    decision = decided(found, *views)
    assert decision is not None
    assert (decision.state.leader, decision.state.reason) == (-1, UNCLEAN_LAST_REPLICA)
    assert decision.state.isr == (entry(0),)
    assert decided(decision.state, *views) is None


def test_offline_partition_drops_members_that_lost_data_and_waits_for_the_others() -> None:
    found = state(isr=(entry(0), entry(1)))
    decision = decided(found, view(0, epoch=2, clean=2), view(1, Dead), view(2))
    assert decision is not None
    assert decision.state.isr == (entry(1),)
    assert decision.state.reason == NO_LIVE_ISR_MEMBER
    back = decided(decision.state, view(0, epoch=2, clean=2), view(1, epoch=2), view(2))
    assert back is not None
    assert (back.state.leader, back.state.isr) == (1, (entry(1, 2),))


UNCLEAN = topic(unclean=True)


@pytest.mark.parametrize(
    "isr, views, on_disk, leader",
    [
        # A live member of the last ISR, though another replica has more.
        ((0,), (view(0, epoch=2, clean=2), view(1)), {0: (1, 5), 1: (3, 9)}, 0),
        # Among members: the greater last epoch before the longer log.
        (
            (0, 1),
            (view(0, epoch=2, clean=2), view(1, epoch=2, clean=2)),
            {0: (2, 50), 1: (3, 9)},
            1,
        ),
        # No member is live: among the other replicas, the longer log of equal epochs.
        ((0,), (view(0, Dead), view(1), view(2)), {1: (3, 9), 2: (3, 10)}, 2),
        ((0,), (view(0, Dead), view(1), view(2)), {1: (3, 9)}, 1),
        # Ties go to the order of the replicas.
        ((0,), (view(0, Dead), view(1), view(2)), {}, 1),
    ],
)
def test_unclean_election_takes_the_most_complete_replica(
    isr: tuple[int, ...],
    views: tuple[View, ...],
    on_disk: dict[int, tuple[int, int]],
    leader: int,
) -> None:
    found = state(isr=tuple(entry(b) for b in isr))
    logs = {b: hosted(*log) for b, log in on_disk.items()}
    decision = decided(found, *views, found_topic=UNCLEAN, on_disk=logs)
    assert decision is not None
    assert decision.kind is ElectionKind.UNCLEAN
    assert decision.state.leader == leader
    assert decision.state.recovery is Recovery.UNCLEAN
    epoch = dict(views)[BrokerId(leader)].broker_epoch
    assert decision.state.isr == (entry(leader, epoch),)
    refused = decided(found, *views, found_topic=topic(), on_disk=logs)
    assert refused is not None
    assert refused.state.leader == -1


def test_unclean_election_waits_for_a_member_that_is_awaited() -> None:
    found = state(isr=(entry(0),))
    decision = decided(found, view(0, Awaited, epoch=2, clean=2), view(1), found_topic=UNCLEAN)
    assert decision is not None
    assert decision.state.leader == -1


def test_unclean_election_needs_a_live_replica() -> None:
    found = state(isr=(entry(0),))
    decision = decided(found, view(0, Dead), view(1, leaving=True), found_topic=UNCLEAN)
    assert decision is not None
    assert decision.state.leader == -1


def test_unclean_is_not_consulted_while_a_member_is_live() -> None:
    decision = decided(state(), view(0, Dead), view(1), view(2), found_topic=UNCLEAN)
    assert decision is not None
    assert decision.kind is ElectionKind.OFFLINE


def test_controlled_shutdown_moves_the_leader_and_leaves_the_isr() -> None:
    decision = decided(state(), view(0, leaving=True), view(1), view(2))
    assert decision is not None
    assert decision.kind is ElectionKind.CONTROLLED_SHUTDOWN
    assert (decision.state.leader, decision.state.isr_ids) == (1, (1, 2))


def test_controlled_shutdown_keeps_a_leader_without_successor() -> None:
    found = state(isr=(entry(0), entry(1)))
    decision = decided(found, view(0, leaving=True), view(1, leaving=True), view(2))
    assert decision is not None
    assert (decision.state.leader, decision.state.isr_ids) == (0, (0,))
    assert decided(decision.state, view(0, leaving=True), view(1, leaving=True)) is None


def test_controlled_shutdown_of_a_follower_leaves_the_isr() -> None:
    decision = decided(state(), view(0), view(1, leaving=True), view(2))
    assert decision is not None
    assert decision.kind is None
    assert decision.state.isr_ids == (0, 2)


@pytest.mark.parametrize("configured, effective", [(1, 1), (3, 3), (9, 3)])
def test_min_isr_is_capped_by_the_replicas_and_is_a_status_write(
    configured: int, effective: int
) -> None:
    decision = decided(state(min_isr=2), *ALL, found_topic=topic(min_isr=configured))
    assert decision is not None
    assert decision.state.min_insync_replicas == effective
    assert (decision.state.leader_epoch, decision.state.partition_epoch) == (0, 1)
    settled = replace(decision.state)
    assert decided(settled, *ALL, found_topic=topic(min_isr=configured)) is None


def test_min_isr_of_an_unknown_topic_stays() -> None:
    assert decided(state(min_isr=1), *ALL, found_topic=None) is None
