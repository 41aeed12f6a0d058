"""The states of one broker: each transition that the diagram in `broker_entry` draws."""

from __future__ import annotations

import pytest

from strandline.controller.active_controller import ActiveController
from strandline.controller.broker_entry import (
    Awaited,
    BrokerEntry,
    Dead,
    InSession,
    Live,
    ProbeDue,
    Unregistered,
    session_id_of,
)
from strandline.controller.brokers import Brokers, HelloVerdict
from strandline.controller.effects import CloseSession
from strandline.controller.events import HostedReplica, HostedReported, SessionOpened
from strandline.controller.notices import BrokerDead
from strandline.errors import InvariantViolation
from strandline.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    StoredBroker,
)
from tests.support.world.timings import demo_timing
from tests.support.world.values import registration, tp

ONE = BrokerId(1)
HOSTED = HostedReplica(
    tp=tp(),
    topic_name="orders",
    leader=NO_LEADER,
    leader_epoch=LeaderEpoch(0),
    partition_epoch=PartitionEpoch(0),
    accepted_leader_epoch=LeaderEpoch(0),
    accepted_partition_epoch=PartitionEpoch(0),
    last_epoch=LeaderEpoch(0),
    log_start_offset=0,
    log_end_offset=1,
)


def stored(epoch: int | None) -> StoredBroker:
    found = None if epoch is None else registration(1, epoch)
    return StoredBroker(name="c-1", resource_version="1", broker_id=ONE, registration=found)


def hello(session_id: int = 5, *, epoch: int = 1, incarnation: str | None = None) -> SessionOpened:
    return SessionOpened(
        session_id=session_id,
        broker_id=ONE,
        broker_epoch=BrokerEpoch(epoch),
        clean_since_epoch=BrokerEpoch(1),
        incarnation=incarnation or f"pod-1/{epoch}",
        hosted=(HOSTED,),
    )


def live(brokers: Brokers) -> Live:
    found = brokers.entries[ONE]
    assert isinstance(found, Live)
    return found


def brokers_in(state: type[BrokerEntry], brokers: Brokers | None = None) -> Brokers:
    brokers = brokers or Brokers()
    brokers.register(stored(None if state is Unregistered else 1), 10)
    if state in (InSession, Dead):
        brokers.open_session(hello(), 20)
    if state is Dead:
        brokers.declare_dead(live(brokers), detect_ms=30)
    assert isinstance(brokers.entries[ONE], state)
    return brokers


STATES = (Unregistered, Awaited, InSession, Dead)


@pytest.mark.parametrize("state", STATES)
def test_higher_registration_leads_to_awaited(state: type[BrokerEntry]) -> None:
    brokers = brokers_in(state)
    assert brokers.register(stored(2), 100)
    assert brokers.entries[ONE] == Awaited(registration=registration(1, 2), heard_ms=100)
    assert brokers.hosting(tp()) == {}


@pytest.mark.parametrize(
    ("state", "ended", "closed_sessions"),
    [(Unregistered, [], []), (Awaited, [1], []), (InSession, [1], [5]), (Dead, [], [])],
)
def test_higher_registration_ends_a_live_process_and_its_session(
    state: type[BrokerEntry], ended: list[int], closed_sessions: list[int]
) -> None:
    active = ActiveController(
        identity=None,
        epoch=ControllerEpoch(1),
        timing=demo_timing(),
        new_request_id=lambda: 1,
        now_ms=0,
    )
    brokers_in(state, active.brokers)
    effects = active.register_broker(stored(2), 100)
    assert [each.broker_epoch for each in effects if isinstance(each, BrokerDead)] == ended
    closed = [each.session_id for each in effects if isinstance(each, CloseSession)]
    assert closed == closed_sessions


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("epoch", [None, 0, 1])
def test_registration_that_is_not_higher_changes_no_state(
    state: type[BrokerEntry], epoch: int | None
) -> None:
    if state is Unregistered and epoch is not None:
        return
    brokers = brokers_in(state)
    before = brokers.entries[ONE]
    assert not brokers.register(stored(epoch), 100)
    assert brokers.entries[ONE] == before


@pytest.mark.parametrize(
    ("state", "epoch", "is_sent_as_live"),
    [(Unregistered, -1, False), (Awaited, 1, True), (InSession, 1, True), (Dead, 1, False)],
)
def test_elections_and_brokers_see_the_state(
    state: type[BrokerEntry], epoch: int, *, is_sent_as_live: bool
) -> None:
    brokers = brokers_in(state)
    assert brokers.entries[ONE].broker_epoch == epoch
    assert isinstance(brokers.entries[ONE], Live) is is_sent_as_live
    assert bool(brokers.live()) is is_sent_as_live


@pytest.mark.parametrize(("state", "replaced"), [(Awaited, None), (InSession, 5), (Dead, None)])
def test_hello_leads_to_in_session(state: type[BrokerEntry], replaced: int | None) -> None:
    brokers = brokers_in(state)
    assert session_id_of(brokers.entries[ONE]) == replaced
    session = brokers.open_session(hello(6), 100)
    assert brokers.entries[ONE] == session
    assert (session.session_id, session.heard_ms) == (6, 100)
    assert brokers.in_session(ONE, 6) == session
    assert brokers.in_session(ONE, 5) is None
    assert brokers.hosting(tp()) == {ONE: HOSTED}


def test_hello_of_an_unregistered_broker_opens_no_session() -> None:
    with pytest.raises(InvariantViolation, match="registered broker"):
        brokers_in(Unregistered).open_session(hello(), 100)


@pytest.mark.parametrize(
    ("state", "opened", "verdict"),
    [
        (Awaited, hello(), HelloVerdict.ACCEPTED),
        (Dead, hello(), HelloVerdict.ACCEPTED),
        (Awaited, hello(epoch=0), HelloVerdict.STALE),
        (Awaited, hello(epoch=2), HelloVerdict.VIEW_IS_OLD),
        (Awaited, hello(incarnation="pod-1/other"), HelloVerdict.VIEW_IS_OLD),
        (Unregistered, hello(), HelloVerdict.VIEW_IS_OLD),
    ],
)
def test_hello_is_judged_by_the_registration(
    state: type[BrokerEntry], opened: SessionOpened, verdict: HelloVerdict
) -> None:
    assert brokers_in(state).judge_hello(opened) is verdict


def test_broken_stream_leads_to_awaited_with_a_probe_due() -> None:
    brokers = brokers_in(InSession)
    brokers.break_session(brokers.sessions()[0], 100)
    assert brokers.entries[ONE] == Awaited(
        registration=registration(1),
        heard_ms=100,
        suspicion=ProbeDue(suspected_ms=100, due_ms=100),
    )
    assert brokers.sessions() == []


def test_leaving_broker_stays_so_over_a_new_session_and_not_over_its_death() -> None:
    brokers = brokers_in(InSession)
    brokers.begin_shutdown(brokers.sessions()[0])
    brokers.break_session(brokers.sessions()[0], 100)
    brokers.open_session(hello(6), 110)
    assert live(brokers).shutting_down
    assert brokers.live() == ()
    brokers.declare_dead(live(brokers), detect_ms=1)
    brokers.open_session(hello(7), 120)
    assert not live(brokers).shutting_down


def test_sign_of_life_ends_a_suspicion_and_a_hosted_report_does_not() -> None:
    brokers = brokers_in(InSession)
    suspicion = ProbeDue(suspected_ms=20, due_ms=30)
    brokers.suspect(live(brokers), suspicion)
    report = HostedReported(session_id=1, broker_id=ONE, hosted=())
    session = brokers.report_hosted(brokers.sessions()[0], report, 40)
    assert (session.suspicion, session.heard_ms, dict(session.hosted)) == (suspicion, 40, {})
    brokers.hear(live(brokers), 50)
    assert (live(brokers).suspicion, live(brokers).heard_ms) == (None, 50)
