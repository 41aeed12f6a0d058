"""Messages on a session: which machine gets them, which are too old, which wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.store_events import ControllerEpochSeen
from strandline.controller_session.effects import (
    Effect,
    RestoreReplicas,
    SendMessage,
    ShutdownEnded,
    ShutdownOutcome,
    ShutdownProgressed,
    StepController,
    StepReplicas,
)
from strandline.controller_session.events import (
    CommandPerformed,
    HolderObserved,
    IsrProposed,
    MessageReceived,
    ShutdownBegun,
    StreamBroken,
    TimePassed,
)
from strandline.controller_session.messages import (
    CommandResponse,
    ControllerMessage,
    Heartbeat,
    IsrProposal,
    MetadataUpdate,
    ReplyRestoreReplica,
    RestoreReplica,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)
from strandline.core.effects import ReplyLeaderAndIsr, ReplyStopReplica
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.model import BrokerEpoch, BrokerId, ControllerEpoch, LiveBroker, TopicPartition

from .setups import CONTROLLER_EPOCH, EPOCH, OTHER_TP, SIGNED_BY_3, TIMING, TP, Session, proposal

STATE = LeaderAndIsrReceived(
    request_id=1, controller_epoch=CONTROLLER_EPOCH, broker_epoch=EPOCH, partitions=(), full=True
)
STOP = StopReplicaReceived(
    request_id=2, controller_epoch=CONTROLLER_EPOCH, broker_epoch=EPOCH, partitions=(TP,)
)
ANSWERED = AlterPartitionResponseReceived(request_id=3, tp=TP, error=ErrorCode.NONE, stored=None)
UPDATE = MetadataUpdate(
    controller_epoch=CONTROLLER_EPOCH,
    broker_epoch=EPOCH,
    controller_id=BrokerId(2),
    live_brokers=(),
    partitions=(),
    removed=(),
    full=True,
)
FULL = ReplyLeaderAndIsr(request_id=1, error=ErrorCode.NONE, partitions=(), full=True)


def message(message: ControllerMessage, session_id: int = 2) -> MessageReceived:
    return MessageReceived(session_id=session_id, message=message)


def failed_proposals(*pairs: tuple[int, TopicPartition]) -> list[Effect]:
    return [
        StepReplicas(
            event=AlterPartitionResponseReceived(
                request_id=request_id,
                tp=tp,
                error=ErrorCode.NETWORK_EXCEPTION,
                stored=None,
            )
        )
        for request_id, tp in pairs
    ]


# --- messages of the controller -------------------------------------------------------------

PASSED_ON: list[tuple[ControllerMessage, list[Effect]]] = [
    (
        STATE,
        [
            StepController(event=ControllerEpochSeen(controller_epoch=CONTROLLER_EPOCH)),
            StepReplicas(event=STATE),
        ],
    ),
    (STOP, [StepReplicas(event=STOP)]),
    (ANSWERED, [StepReplicas(event=ANSWERED)]),
    (
        UPDATE,
        [StepReplicas(event=LiveBrokersChanged(controller_epoch=CONTROLLER_EPOCH, brokers=()))],
    ),
]


@pytest.mark.parametrize(("sent", "effects"), PASSED_ON)
def test_messages_for_other_machines_are_passed_on(
    sent: ControllerMessage, effects: list[Effect]
) -> None:
    session = Session()
    session.open()
    assert session.step(message(sent)) == effects


@pytest.mark.parametrize(("sent", "effects"), PASSED_ON)
def test_late_message_is_passed_on_because_epochs_fence_it(
    sent: ControllerMessage, effects: list[Effect]
) -> None:
    session = Session()
    session.open()
    session.step(HolderObserved(holder_identity=SIGNED_BY_3))
    assert session.step(message(sent)) == effects


def test_metadata_of_an_older_controller_is_dropped() -> None:
    session = Session()
    session.open()
    session.step(message(UPDATE))
    older = replace(
        UPDATE, controller_epoch=ControllerEpoch(CONTROLLER_EPOCH - 1), controller_id=BrokerId(7)
    )
    assert session.step(message(older)) == []
    assert session.metadata.snapshot("INTERNAL").controller == BrokerId(2)


def test_live_brokers_are_passed_on_once_until_they_or_the_controller_change() -> None:
    session = Session()
    session.open()

    def told(update: MetadataUpdate) -> int:
        return len(session.step(message(update)))

    broker = LiveBroker(
        broker_id=BrokerId(5), broker_epoch=EPOCH, clean_since_epoch=EPOCH, endpoints=()
    )
    restarted = replace(broker, broker_epoch=BrokerEpoch(EPOCH + 1))
    later = ControllerEpoch(CONTROLLER_EPOCH + 1)
    assert [told(UPDATE), told(UPDATE)] == [1, 0]
    assert [told(replace(UPDATE, live_brokers=(broker,))) for _ in range(2)] == [1, 0]
    assert [told(replace(UPDATE, live_brokers=(restarted,))) for _ in range(2)] == [1, 0]
    assert told(replace(UPDATE, live_brokers=(restarted,), controller_epoch=later)) == 1
    assert told(UPDATE) == 0


# --- messages of the replicas ---------------------------------------------------------------


def test_proposal_is_sent_on_the_open_session() -> None:
    session = Session()
    session.open()
    sent = IsrProposal(broker_epoch=EPOCH, proposal=proposal())
    assert session.step(IsrProposed(proposal=proposal())) == [
        SendMessage(session_id=2, message=sent)
    ]


@pytest.mark.parametrize(
    "response", [FULL, ReplyStopReplica(request_id=2, error=ErrorCode.NONE, partitions=())]
)
def test_response_to_a_command_carries_the_highest_controller_epoch(
    response: ReplyLeaderAndIsr | ReplyStopReplica,
) -> None:
    session = Session()
    assert session.step(CommandPerformed(response=response)) == []
    session.open()
    session.replicas.controller_epoch = ControllerEpoch(13)
    sent = CommandResponse(response=response, highest_controller_epoch=ControllerEpoch(13))
    assert session.step(CommandPerformed(response=response)) == [
        SendMessage(session_id=2, message=sent)
    ]


def test_unsent_proposals_are_failed_after_the_next_full_state() -> None:
    session = Session()
    session.step(IsrProposed(proposal=proposal(TP, 1)))
    session.step(IsrProposed(proposal=proposal(OTHER_TP, 2)))
    session.step(IsrProposed(proposal=proposal(TP, 3)))
    session.open()
    partial = replace(FULL, full=False)
    failed = replace(FULL, error=ErrorCode.STALE_CONTROLLER_EPOCH)
    for response in (partial, failed):
        (_response,) = session.step(CommandPerformed(response=response))
    _response, *failed_ones = session.step(CommandPerformed(response=FULL))
    assert failed_ones == failed_proposals((3, TP), (2, OTHER_TP))
    (_response,) = session.step(CommandPerformed(response=FULL))


def test_proposal_that_was_sent_supersedes_the_unsent_one() -> None:
    session = Session()
    session.step(IsrProposed(proposal=proposal(TP, 1)))
    session.open()
    session.step(IsrProposed(proposal=proposal(TP, 2)))
    (_response,) = session.step(CommandPerformed(response=FULL))


def test_proposal_after_a_broken_stream_waits() -> None:
    session = Session()
    session.open()
    session.step(StreamBroken(session_id=2))
    assert session.step(IsrProposed(proposal=proposal())) == []
    assert session.step(CommandPerformed(response=FULL)) == failed_proposals((1, TP))


# --- controlled shutdown --------------------------------------------------------------------


def request(request_id: int) -> list[Effect]:
    sent = ShutdownRequest(request_id=request_id, broker_epoch=EPOCH)
    return [SendMessage(session_id=2, message=sent)]


def response(request_id: int, remaining: int) -> MessageReceived:
    return message(
        ShutdownResponse(request_id=request_id, error=ErrorCode.NONE, remaining=remaining)
    )


def test_shutdown_asks_until_everything_is_moved() -> None:
    session = Session()
    session.open()
    session.replicas.lead()
    assert session.step(ShutdownBegun()) == request(1)
    assert session.step(response(1, 4), 10) == [ShutdownProgressed(remaining=4)]
    assert session.machine.next_wakeup_ms == 110
    assert session.step(TimePassed(), 110) == request(2)
    session.replicas.follow()
    assert session.step(response(2, 0), 120) == [
        ShutdownEnded(outcome=ShutdownOutcome.ALL_MOVED, remaining=0)
    ]
    assert session.step(response(2, 0), 130) == []
    assert session.machine.next_wakeup_ms == 500


def test_shutdown_waits_until_the_last_command_is_applied() -> None:
    session = Session()
    session.open()
    session.replicas.lead()
    session.step(ShutdownBegun())
    assert session.step(response(1, 0), 10) == [ShutdownProgressed(remaining=0)]
    session.replicas.follow()
    assert session.step(TimePassed(), 110) == request(2)
    ended = ShutdownEnded(outcome=ShutdownOutcome.ALL_MOVED, remaining=0)
    assert session.step(response(2, 0), 120) == [ended]


def test_shutdown_without_session_and_leaders_ends_at_once() -> None:
    ended = ShutdownEnded(outcome=ShutdownOutcome.UNANSWERED, remaining=0)
    assert Session().step(ShutdownBegun()) == [ended]


def test_shutdown_with_leaders_waits_for_a_session() -> None:
    session = Session()
    session.replicas.lead()
    assert session.step(ShutdownBegun()) == []
    assert session.machine.next_wakeup_ms == 100
    session.open()
    assert session.step(TimePassed(), 99) == []
    assert session.step(TimePassed(), 100) == request(1)


def test_refused_session_leaves_the_shutdown_under_way() -> None:
    session = Session()
    session.replicas.lead()
    session.open()
    session.step(ShutdownBegun())
    refused = SessionRefused(error=ErrorCode.NOT_CONTROLLER, controller_epoch=CONTROLLER_EPOCH)
    session.step(message(refused), 10)
    assert session.step(TimePassed(), 3_000)[2:] == []
    assert session.machine.next_wakeup_ms == 3_100


def test_response_without_a_shutdown_changes_nothing() -> None:
    session = Session()
    session.open()
    assert session.step(response(1, 0)) == []


RESTORE = RestoreReplica(
    request_id=4, controller_epoch=CONTROLLER_EPOCH, broker_epoch=EPOCH, partitions=(TP,)
)


def test_a_restore_is_asked_of_the_store() -> None:
    session = Session()
    session.open()
    assert session.step(message(RESTORE)) == [RestoreReplicas(request_id=4, partitions=(TP,))]


@pytest.mark.parametrize(
    "stale",
    [
        replace(RESTORE, broker_epoch=BrokerEpoch(EPOCH - 1)),
        replace(RESTORE, controller_epoch=ControllerEpoch(CONTROLLER_EPOCH - 1)),
    ],
    ids=["for an earlier process", "of an earlier controller"],
)
def test_a_stale_restore_is_dropped(stale: RestoreReplica) -> None:
    session = Session()
    session.open()
    assert session.step(message(stale)) == []


def test_a_restored_log_is_reported_with_the_next_heartbeat() -> None:
    session = Session()
    session.open()
    done = ReplyRestoreReplica(
        request_id=4, error=ErrorCode.NONE, partitions=((TP, ErrorCode.NONE),)
    )
    assert len(session.step(CommandPerformed(response=done), 1)) == 1
    (beat,) = session.step(TimePassed(), TIMING.heartbeat_interval_ms)
    assert isinstance(beat, SendMessage)
    assert isinstance(beat.message, Heartbeat)
    assert beat.message.hosted == ()
