"""The store call of one partition: each transition that the diagram in `partition_entry` draws."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.backoff import Backoff
from strandline.controller.events import IsrChangeRequested
from strandline.controller.partition_entry import (
    InDoubt,
    NoCall,
    PartitionEntry,
    ReadInFlight,
    StoreCall,
    Superseded,
    WriteInFlight,
)
from strandline.controller.partition_table import PartitionTable
from strandline.controller.rebuild import KnownEpochs
from strandline.controller.write_notices import StatusWrite
from strandline.errors import InvariantViolation
from strandline.model import (
    STATE_LOST,
    BrokerEpoch,
    BrokerId,
    ElectionKind,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    StoredPartition,
    TopicId,
)
from tests.support.world.values import state, tp

RETRY = Backoff(first_ms=50, max_ms=2_000)
BEFORE, AFTER = state(), state(leader=1, leader_epoch=1, partition_epoch=1)
WRITE = StatusWrite(
    before=BEFORE,
    after=AFTER,
    kind=ElectionKind.OFFLINE,
    requester=None,
    refusal="",
    since_ms=0,
)


def stored(found: PartitionState | None = BEFORE, *, topic: str = "uid-orders") -> StoredPartition:
    return StoredPartition(
        name="orders-0",
        resource_version="1",
        tp=tp(0, TopicId(topic)),
        topic_name="orders",
        assigned=(BrokerId(0), BrokerId(1), BrokerId(2)),
        recover=False,
        state=found,
    )


def at(call: StoreCall, *, failures: int = 0) -> PartitionEntry:
    return PartitionEntry(stored=stored(), first_seen_ms=0, call=call, failures=failures)


def request(broker_id: int = 0) -> IsrChangeRequested:
    return IsrChangeRequested(
        session_id=1,
        request_id=1,
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(1),
        tp=tp(),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(),
    )


UNKNOWN = KnownEpochs()
WRITING = WriteInFlight(request_id=7, write=WRITE)
READING = ReadInFlight(request_id=7, write=WRITE, accepted=UNKNOWN)
OPEN = (
    WRITING,
    READING,
    ReadInFlight(request_id=7, write=None, accepted=UNKNOWN),
    Superseded(request_id=7),
)


@pytest.mark.parametrize("call", OPEN, ids=lambda call: type(call).__name__)
def test_second_call_of_a_partition_is_refused(call: StoreCall) -> None:
    entry = at(call)
    assert entry.open_request_id == 7
    with pytest.raises(InvariantViolation, match="one store call"):
        entry.begin_read(8, UNKNOWN)
    with pytest.raises(InvariantViolation, match="one store call"):
        entry.begin_write(8, WRITE)
    assert entry.call == call


@pytest.mark.parametrize(
    ("call", "reading"),
    [
        (NoCall(), ReadInFlight(request_id=8, write=None, accepted=UNKNOWN)),
        (InDoubt(write=None), ReadInFlight(request_id=8, write=None, accepted=UNKNOWN)),
        (InDoubt(write=WRITE), ReadInFlight(request_id=8, write=WRITE, accepted=UNKNOWN)),
    ],
)
def test_read_keeps_the_write_in_doubt(call: StoreCall, reading: ReadInFlight) -> None:
    entry = at(call)
    assert entry.open_request_id is None
    entry.begin_read(8, UNKNOWN)
    assert entry.call == reading


@pytest.mark.parametrize(
    ("call", "found", "proved", "failures"),
    [
        (WRITING, AFTER, True, 0),
        (READING, AFTER, True, 0),
        (READING, BEFORE, False, 2),
        (READING, None, False, 2),
        (ReadInFlight(request_id=7, write=None, accepted=UNKNOWN), AFTER, False, 2),
    ],
)
def test_read_proves_the_write_that_it_shows(
    call: StoreCall, found: PartitionState | None, *, proved: bool, failures: int
) -> None:
    entry = at(call, failures=2)
    finished = entry.end_call(stored(found))
    assert finished is not None
    assert finished.written == (WRITE if proved else None)
    assert (entry.call, entry.failures) == (NoCall(), failures)


@pytest.mark.parametrize("call", [WRITING, READING])
def test_a_doubt_during_a_call_outlives_its_response(call: StoreCall) -> None:
    entry = at(call)
    entry.doubt_status()
    finished = entry.end_call(stored(AFTER))
    assert finished is not None
    assert (finished.written, entry.call) == (WRITE, InDoubt(write=None))


def test_a_doubt_without_a_call_leads_to_a_read() -> None:
    entry = at(NoCall())
    entry.doubt_status()
    assert entry.call == InDoubt(write=None)


@pytest.mark.parametrize(
    ("call", "failures", "write", "not_before_ms"),
    [
        (WRITING, 0, WRITE, 0),  # after the first failed write the read comes at once
        (WRITING, 1, WRITE, 1_100),
        (READING, 0, WRITE, 1_050),
        (ReadInFlight(request_id=7, write=None, accepted=UNKNOWN), 2, None, 1_200),
        (Superseded(request_id=7), 0, None, 1_050),
    ],
)
def test_failed_call_leaves_its_write_in_doubt(
    call: StoreCall, failures: int, write: StatusWrite | None, not_before_ms: int
) -> None:
    entry = at(call, failures=failures)
    entry.fail_call(1_000, RETRY)
    assert (entry.call, entry.not_before_ms) == (InDoubt(write=write), not_before_ms)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (WRITING, ElectionKind.OFFLINE),
        (READING, ElectionKind.OFFLINE),
        (InDoubt(write=WRITE), ElectionKind.OFFLINE),
        (InDoubt(write=None), None),
        (NoCall(), None),
        (Superseded(request_id=7), None),
    ],
)
def test_watch_event_shows_the_result_of_a_write_without_response(
    call: StoreCall, kind: ElectionKind | None
) -> None:
    assert at(call).kind_of(AFTER) is kind
    assert at(call).kind_of(BEFORE) is None


def test_read_counts_for_the_requests_that_wait_and_a_write_does_not() -> None:
    for call, read_since in ((READING, True), (WRITING, False)):
        entry = at(call)
        entry.add_request(request(1))
        entry.add_request(request(0))
        entry.end_call(stored(AFTER))
        assert {each.read_since for each in entry.requests.values()} == {read_since}
        assert [each.broker_id for each in entry.take_requests()] == [0, 1]
        assert entry.requests == {}


def test_older_object_is_ignored_and_a_lost_state_is_settled_by_its_own_write() -> None:
    entry = at(NoCall())
    assert entry.adopt(stored(AFTER))
    assert not entry.adopt(stored(BEFORE))
    assert not entry.adopt(stored(None))
    entry.mark_state_lost()
    assert entry.adopt(stored(replace(AFTER, partition_epoch=PartitionEpoch(2))))
    assert entry.state_lost
    lost = replace(AFTER, partition_epoch=PartitionEpoch(3), reason=STATE_LOST)
    assert entry.adopt(stored(lost))
    assert not entry.state_lost


def test_response_about_a_replaced_object_proves_nothing_of_the_present_one() -> None:
    table = PartitionTable()
    table.adopt(stored(), 0)
    former = table.entries["orders-0"]
    former.add_request(request())
    former.begin_read(7, UNKNOWN)
    table.adopt(stored(None, topic="uid-again"), 5)
    entry = table.entries["orders-0"]
    assert (entry.call, entry.first_seen_ms) == (Superseded(request_id=7), 5)
    assert list(entry.requests) == [0]
    assert entry.end_call(stored(AFTER)) is None
    assert (entry.call, entry.stored.state) == (InDoubt(write=None), None)
    assert table.entry_of(tp()) is None


def test_object_replaced_while_no_call_is_open_is_decided_about_at_once() -> None:
    assert at(InDoubt(write=WRITE)).replaced_by(stored(None, topic="uid-again"), 5).call == NoCall()


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "is_lost"),
    [(0, 1, False), (0, 2, True), (1, 1, True), (-1, -1, False)],
)
def test_read_below_what_brokers_had_accepted_before_shows_a_store_that_went_back(
    leader_epoch: int, partition_epoch: int, is_lost: bool
) -> None:
    entry = at(NoCall())
    entry.adopt(stored(state(partition_epoch=5)))
    accepted = KnownEpochs(
        leader_epoch=LeaderEpoch(leader_epoch), partition_epoch=PartitionEpoch(partition_epoch)
    )
    entry.begin_read(8, accepted)
    entry.end_call(stored(state(partition_epoch=1)))
    assert entry.state_lost == is_lost
    # A read that began before a newer watch event is merely late.
    assert entry.stored.state == state(partition_epoch=1 if is_lost else 5)
