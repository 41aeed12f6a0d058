"""How a broker finds the holder of the Lease, dials it, and proves it dead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.controller.effects import Introduction
from strandline.controller.events import HostedReplica, ProbeVerdict
from strandline.controller.store_events import HolderDied
from strandline.controller_session.effects import (
    CloseStream,
    DialHolder,
    Effect,
    FindHolder,
    HolderDead,
    HolderUnknown,
    ProbeHolder,
    ReadHolder,
    SendMessage,
    StepController,
)
from strandline.controller_session.events import (
    ControllerIntroduced,
    Event,
    HolderLookedUp,
    HolderObserved,
    HolderProbed,
    HolderRead,
    MessageReceived,
    StreamBroken,
    TimePassed,
    TrashChanged,
    VolumeChanged,
)
from strandline.controller_session.holder_connection import (
    ConnectionState,
    Holder,
    LookingUp,
    NoHolder,
    Open,
    Probing,
    Redialling,
    due_of,
    holder_of,
)
from strandline.controller_session.messages import Heartbeat, Hello, SessionRefused
from strandline.errors import ErrorCode
from strandline.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    HolderIdentity,
    LeaderEpoch,
    PartitionEpoch,
    Registration,
    TrashedReplica,
)

from .setups import (
    CONTROLLER_EPOCH,
    ENDPOINT,
    EPOCH,
    KAFKA_ENDPOINT,
    ME,
    SIGNED,
    SIGNED_BY_3,
    TIMING,
    TP,
    Session,
    registration,
    view,
)

HOSTED = HostedReplica(
    tp=TP,
    topic_name="orders",
    leader=NO_LEADER,
    leader_epoch=LeaderEpoch(4),
    partition_epoch=PartitionEpoch(7),
    accepted_leader_epoch=LeaderEpoch(4),
    accepted_partition_epoch=PartitionEpoch(7),
    log_start_offset=0,
    log_end_offset=99,
    last_epoch=LeaderEpoch(3),
    term_epoch=LeaderEpoch(3),
    led_by=BrokerId(2),
    led_as=BrokerEpoch(6),
)
REFUSED = SessionRefused(error=ErrorCode.NOT_CONTROLLER, controller_epoch=CONTROLLER_EPOCH)


def looking_up() -> Session:
    session = Session()
    session.step(HolderObserved(holder_identity=SIGNED))
    return session


def opened() -> Session:
    session = Session()
    session.open()
    return session


def probing() -> Session:
    session = opened()
    session.step(StreamBroken(session_id=2))
    return session


def awaiting_probe() -> Session:
    session = probing()
    session.step(HolderProbed(probe_id=3, verdict=ProbeVerdict.REFUSED))
    return session


def redialling() -> Session:
    session = looking_up()
    session.step(HolderLookedUp(lookup_id=1, registration=None))
    return session


def heartbeat(*hosted: HostedReplica) -> list[Effect]:
    message = Heartbeat(broker_epoch=EPOCH, hosted=hosted or None)
    return [SendMessage(session_id=2, message=message)]


# --- the holder of the Lease ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "effects"),
    [
        ("", []),
        (SIGNED, [FindHolder(lookup_id=1, broker_id=BrokerId(2))]),
        ("not-a-broker", [HolderUnknown(holder_identity="not-a-broker")]),
        ("broker-x/uid/a", [HolderUnknown(holder_identity="broker-x/uid/a")]),
        ("broker-2", [HolderUnknown(holder_identity="broker-2")]),
    ],
)
def test_only_a_holder_that_is_a_broker_is_looked_up(identity: str, effects: list[Effect]) -> None:
    session = Session()
    assert session.step(HolderObserved(holder_identity=identity)) == effects
    assert session.step(HolderObserved(holder_identity=identity)) == []


def test_found_holder_is_dialled_and_greeted() -> None:
    session = looking_up()
    session.replicas.shown = (view(),)
    found = registration(endpoints=(KAFKA_ENDPOINT, ENDPOINT))
    assert session.step(HolderLookedUp(lookup_id=1, registration=found)) == [
        DialHolder(session_id=2, broker_id=BrokerId(2), endpoint=ENDPOINT),
        SendMessage(
            session_id=2,
            message=Hello(
                broker_id=ME,
                broker_epoch=EPOCH,
                clean_since_epoch=BrokerEpoch(3),
                incarnation="uid/me",
                highest_controller_epoch=CONTROLLER_EPOCH,
                hosted=(HOSTED,),
            ),
        ),
    ]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(None, id="not registered or not readable"),
        pytest.param(registration(incarnation="uid/b"), id="other incarnation"),
        pytest.param(registration(endpoints=(KAFKA_ENDPOINT,)), id="no gRPC listener"),
    ],
)
def test_holder_that_cannot_be_dialled_is_looked_up_again(found: Registration | None) -> None:
    session = looking_up()
    assert session.step(HolderLookedUp(lookup_id=1, registration=found)) == []
    assert session.machine.next_wakeup_ms == TIMING.redial_ms
    assert session.step(TimePassed(), TIMING.redial_ms - 1) == []
    again = FindHolder(lookup_id=2, broker_id=BrokerId(2))
    assert session.step(TimePassed(), TIMING.redial_ms) == [ReadHolder(), again]


def test_pauses_double_up_to_a_bound() -> None:
    session = looking_up()
    pauses = []
    for lookup_id in range(1, 5):
        session.step(HolderLookedUp(lookup_id=lookup_id, registration=None))
        due_ms = session.machine.next_wakeup_ms
        assert due_ms is not None
        pauses.append(due_ms - session.now_ms)
        session.step(TimePassed(), due_ms)
    assert pauses == [50, 100, 150, 150]


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(HolderObserved(holder_identity=SIGNED_BY_3), id="another holder"),
        pytest.param(MessageReceived(session_id=2, message=REFUSED), id="a refusal"),
    ],
)
def test_message_of_the_holder_makes_the_pause_short_again(event: Event) -> None:
    session = looking_up()
    session.step(HolderLookedUp(lookup_id=1, registration=None))
    session.step(TimePassed(), 50)
    session.step(HolderLookedUp(lookup_id=2, registration=None))
    session.step(TimePassed(), 150)
    if isinstance(event, MessageReceived):
        session.step(HolderLookedUp(lookup_id=3, registration=registration()))
        event = MessageReceived(session_id=4, message=event.message)
        assert session.step(event) == [CloseStream(session_id=4)]
    else:
        session.step(event)
        session.step(HolderLookedUp(lookup_id=4, registration=None))
    assert session.machine.connection.state == Redialling(due_ms=150 + TIMING.redial_ms)


@pytest.mark.parametrize(
    ("before", "closes"),
    [(Session, 0), (looking_up, 0), (redialling, 0), (opened, 1), (probing, 0)],
)
def test_another_holder_is_followed_from_every_state(
    before: Callable[[], Session], closes: int
) -> None:
    session = before()
    *closed, find = session.step(HolderObserved(holder_identity=SIGNED_BY_3))
    assert closed == [CloseStream(session_id=2)] * closes
    assert isinstance(find, FindHolder)
    assert find.broker_id == BrokerId(3)


@pytest.mark.parametrize("before", [looking_up, redialling, opened, probing, awaiting_probe])
def test_released_lease_ends_the_search_in_every_state(before: Callable[[], Session]) -> None:
    session = before()
    session.step(HolderObserved(holder_identity=""))
    assert session.machine.connection.state == NoHolder()
    assert session.machine.next_wakeup_ms is None


def introduced(
    signed: str = SIGNED_BY_3, *, controller_epoch: int = CONTROLLER_EPOCH
) -> ControllerIntroduced:
    found = Introduction(
        holder_identity=signed,
        controller_epoch=ControllerEpoch(controller_epoch),
        endpoint=ENDPOINT,
    )
    return ControllerIntroduced(found=found)


@pytest.mark.parametrize("before", [Session, looking_up, redialling, probing, awaiting_probe])
def test_controller_that_introduces_itself_is_dialled_without_a_lookup(
    before: Callable[[], Session],
) -> None:
    session = before()
    dial, hello = session.step(introduced())
    assert isinstance(dial, DialHolder)
    assert (dial.broker_id, dial.endpoint) == (BrokerId(3), ENDPOINT)
    assert isinstance(hello, SendMessage)
    assert isinstance(hello.message, Hello)
    # The Lease that names the same holder later, and a late lookup, change nothing.
    assert session.step(HolderObserved(holder_identity=SIGNED_BY_3)) == []
    assert session.step(HolderLookedUp(lookup_id=1, registration=registration())) == []


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(introduced(controller_epoch=CONTROLLER_EPOCH - 1), id="lower epoch"),
        pytest.param(introduced("not-a-broker"), id="no broker"),
    ],
)
@pytest.mark.parametrize("before", [redialling, opened])
def test_introduction_of_a_former_controller_or_of_no_broker_is_ignored(
    before: Callable[[], Session], event: Event
) -> None:
    session = before()
    state = session.machine.connection.state
    assert session.step(event) == []
    assert session.machine.connection.state == state


def test_open_session_ends_for_a_controller_of_a_higher_epoch_only() -> None:
    session = opened()
    assert session.step(introduced()) == []
    assert session.step(introduced(SIGNED, controller_epoch=CONTROLLER_EPOCH + 1)) == []
    closed, dial, _ = session.step(introduced(controller_epoch=CONTROLLER_EPOCH + 1))
    assert closed == CloseStream(session_id=2)
    assert isinstance(dial, DialHolder)


def test_read_of_the_lease_shows_another_holder_unless_a_session_is_open() -> None:
    session = redialling()
    (find,) = session.step(HolderRead(holder_identity=SIGNED_BY_3))
    assert isinstance(find, FindHolder)
    assert find.broker_id == BrokerId(3)
    assert opened().step(HolderRead(holder_identity=SIGNED_BY_3)) == []


# --- events of an earlier attempt -----------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "late"),
    [
        (Session, HolderLookedUp(lookup_id=1, registration=registration())),
        (looking_up, HolderLookedUp(lookup_id=0, registration=registration())),
        (opened, HolderLookedUp(lookup_id=1, registration=registration())),
        (opened, StreamBroken(session_id=1)),
        (redialling, StreamBroken(session_id=2)),
        (probing, StreamBroken(session_id=2)),
        (probing, HolderProbed(probe_id=2, verdict=ProbeVerdict.OTHER_INCARNATION)),
        (opened, HolderProbed(probe_id=3, verdict=ProbeVerdict.OTHER_INCARNATION)),
        (opened, MessageReceived(session_id=1, message=REFUSED)),
        (probing, MessageReceived(session_id=2, message=REFUSED)),
    ],
)
def test_event_of_an_earlier_attempt_changes_nothing(
    before: Callable[[], Session], late: Event
) -> None:
    session = before()
    state = session.machine.connection.state
    assert session.step(late) == []
    assert session.machine.connection.state == state


def test_lookup_of_the_former_holder_dials_no_broker() -> None:
    session = looking_up()
    session.step(HolderObserved(holder_identity=SIGNED_BY_3))
    assert session.step(HolderLookedUp(lookup_id=1, registration=registration())) == []
    assert session.machine.connection.state == LookingUp(lookup_id=2)


# --- the open session -----------------------------------------------------------------------


def test_heartbeats_are_sent_and_carry_what_is_hosted_now_and_then() -> None:
    session = opened()
    session.replicas.shown = (view(),)
    assert session.step(TimePassed(), 499) == []
    assert session.step(TimePassed(), 500) == heartbeat()
    assert session.step(TimePassed(), 1_000) == heartbeat()
    assert session.step(TimePassed(), 1_500) == heartbeat(HOSTED)
    assert session.step(TimePassed(), 2_000) == heartbeat()
    assert session.step(TimePassed(), 2_700) == heartbeat(HOSTED)


def test_a_change_of_the_volume_is_told_at_once_and_by_every_heartbeat_and_to_the_next_holder() -> (
    None
):
    session = opened()
    (told,) = session.step(VolumeChanged(is_full=True), 100)
    (repeated,) = session.step(TimePassed(), 600)
    for effect in (told, repeated):
        assert isinstance(effect, SendMessage)
        assert effect.message == Heartbeat(broker_epoch=EPOCH, hosted=None, is_full=True)
    assert session.step(VolumeChanged(is_full=False)) == heartbeat()
    session.step(VolumeChanged(is_full=True))
    session.step(HolderObserved(holder_identity="broker-3/uid/three"))
    assert session.step(VolumeChanged(is_full=True)) == [], "no session is open"
    (find,) = session.step(HolderObserved(holder_identity=SIGNED))
    assert isinstance(find, FindHolder)
    effects = session.step(
        HolderLookedUp(lookup_id=find.lookup_id, registration=registration(find.broker_id))
    )
    messages = [each.message for each in effects if isinstance(each, SendMessage)]
    assert [type(message) for message in messages] == [Hello, Heartbeat]
    assert messages[1] == Heartbeat(broker_epoch=EPOCH, hosted=None, is_full=True)


def test_refused_session_is_closed_and_the_holder_dialled_again_without_a_probe() -> None:
    session = opened()
    refused = MessageReceived(session_id=2, message=REFUSED)
    assert session.step(refused) == [CloseStream(session_id=2)]
    assert session.step(TimePassed(), TIMING.redial_ms) == [
        ReadHolder(),
        FindHolder(lookup_id=3, broker_id=BrokerId(2)),
    ]


# --- whether the holder is dead -------------------------------------------------------------


def probe_of(probe_id: int) -> ProbeHolder:
    return ProbeHolder(
        probe_id=probe_id,
        broker_id=BrokerId(2),
        incarnation="uid/a",
        endpoint=ENDPOINT,
        deadline_ms=400,
    )


DEAD = [
    HolderDead(holder_identity=SIGNED),
    StepController(event=HolderDied(holder_identity=SIGNED)),
]


def test_broken_stream_alone_proves_nothing() -> None:
    session = opened()
    assert session.step(StreamBroken(session_id=2)) == [probe_of(3)]
    assert session.machine.next_wakeup_ms is None


@pytest.mark.parametrize("verdict", [ProbeVerdict.ANSWERED, ProbeVerdict.NO_ANSWER])
def test_response_and_silence_prove_nothing(verdict: ProbeVerdict) -> None:
    session = probing()
    assert session.step(HolderProbed(probe_id=3, verdict=verdict)) == []
    assert session.machine.connection.state == Redialling(due_ms=TIMING.redial_ms)


def test_other_incarnation_proves_death_at_once() -> None:
    session = probing()
    probed = HolderProbed(probe_id=3, verdict=ProbeVerdict.OTHER_INCARNATION)
    assert session.step(probed) == DEAD
    assert session.machine.connection.state == Redialling(due_ms=TIMING.redial_ms)


def test_three_refused_probes_prove_death_and_two_do_not() -> None:
    session = probing()
    for probe_id, at_ms in ((3, 0), (4, 30)):
        refused = HolderProbed(probe_id=probe_id, verdict=ProbeVerdict.REFUSED)
        assert session.step(refused, at_ms) == []
        assert session.step(TimePassed(), at_ms + 29) == []
        assert session.step(TimePassed(), at_ms + 30) == [probe_of(probe_id + 1)]
    last = HolderProbed(probe_id=5, verdict=ProbeVerdict.REFUSED)
    assert session.step(last) == DEAD


def test_response_between_refusals_starts_the_count_anew() -> None:
    session = awaiting_probe()
    session.step(TimePassed(), 30)
    session.step(HolderProbed(probe_id=4, verdict=ProbeVerdict.ANSWERED))
    session.step(TimePassed(), 80)
    session.step(HolderLookedUp(lookup_id=5, registration=registration()))
    session.step(StreamBroken(session_id=6))
    assert session.step(HolderProbed(probe_id=7, verdict=ProbeVerdict.REFUSED)) == []
    state = session.machine.connection.state
    assert isinstance(state, Probing)
    assert state.refusals == 1


# --- the states ---------------------------------------------------------------------------

HOLDER = Holder(
    identity=HolderIdentity(broker_id=BrokerId(2), incarnation="uid/a"), endpoint=ENDPOINT
)


@pytest.mark.parametrize(
    ("signed", "found", "holder"),
    [
        (SIGNED, registration(), HOLDER),
        (SIGNED, registration(endpoints=(KAFKA_ENDPOINT, ENDPOINT)), HOLDER),
        (SIGNED, registration(endpoints=(KAFKA_ENDPOINT,)), None),
        (SIGNED, registration(incarnation="uid/b"), None),
        (SIGNED, None, None),
        ("", registration(), None),
        ("someone", registration(), None),
    ],
)
def test_holder_is_the_process_that_signed_and_is_registered(
    signed: str, found: Registration | None, holder: Holder | None
) -> None:
    assert holder_of(signed, found) == holder


@pytest.mark.parametrize(
    ("state", "due_ms"),
    [
        (NoHolder(), None),
        (LookingUp(lookup_id=1), None),
        (Redialling(due_ms=7), 7),
        (Open(session_id=1, holder=HOLDER, due_ms=5, report_due_ms=3), 5),
        (Probing(holder=HOLDER, probe_id=1, refusals=0, due_ms=None), None),
        (Probing(holder=HOLDER, probe_id=1, refusals=1, due_ms=9), 9),
    ],
)
def test_due_time_of_each_state(state: ConnectionState, due_ms: int | None) -> None:
    assert due_of(state) == due_ms


def test_what_the_trash_holds_is_told_with_the_next_heartbeat_and_in_the_next_hello() -> None:
    trashed = (TrashedReplica(tp=TP, topic_name="orders", deleted_at_ms=5),)
    session = opened()
    assert session.step(TrashChanged(trashed=trashed), 1) == []
    (sent,) = session.step(TimePassed(), TIMING.heartbeat_interval_ms)
    assert sent == SendMessage(
        session_id=2, message=Heartbeat(broker_epoch=EPOCH, hosted=(), trashed=trashed)
    )
    session.step(HolderObserved(holder_identity=""))
    session.step(HolderObserved(holder_identity=SIGNED))
    _, hello = session.step(HolderLookedUp(lookup_id=3, registration=registration(BrokerId(2))))
    assert isinstance(hello, SendMessage)
    assert isinstance(hello.message, Hello)
    assert hello.message.trashed == trashed
