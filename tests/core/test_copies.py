"""A leader tells records for a replica that is being added from all others (ADR 0061)."""

from __future__ import annotations

from dataclasses import replace

from strandline.core.effects import Effect, LogReadInfo, ReplyFetch
from strandline.core.events import FollowerFetchReceived, Ticked
from strandline.core.fetch_changes import FetchPartition
from strandline.model import BrokerId, PartitionState

from .samples import (
    OTHER_TP,
    TP,
    Core,
    entries,
    fetch,
    fetched,
    ids,
    of_type,
    produced,
    state,
)

RECORDS = 10
WAIT_MS = 200


def moving(*, adding: int = 3) -> PartitionState:
    """Return the state of a partition to which a broker is added."""
    committed = state(isr=entries(0, 1), replicas=(3, 0, 1, 2))
    return replace(committed, adding_replicas=(BrokerId(adding),))


def leading() -> Core:
    """Return broker 0 that leads two partitions with records; broker 3 is added to the first."""
    core = Core()
    core.live(0, 1, 2, 3)
    core.send_state(moving())
    core.send_state(state(isr=entries(0, 1), replicas=(0, 1, 2, 3)), OTHER_TP)
    core.step(produced(1, count=RECORDS))
    # Member 1 has all but the last record: a copy of fewer is not in sync.
    core.step(fetched(1, fetch(RECORDS - 1, last=0), max_wait_ms=0))
    return core


def ask(
    follower: int, *fetches: FetchPartition, copies_after_ms: int = WAIT_MS, request_id: int = 7
) -> FollowerFetchReceived:
    asked = fetched(follower, *fetches, request_id=request_id)
    return replace(asked, copies_after_ms=copies_after_ms)


def parts(effects: list[Effect]) -> list[LogReadInfo] | None:
    """Return what was responded, None without a response."""
    replies = of_type(effects, ReplyFetch)
    if not replies:
        return None
    (reply,) = replies
    assert isinstance(reply, ReplyFetch)
    return list(reply.partitions)


def test_records_for_an_added_replica_are_a_copy_and_no_others() -> None:
    core = leading()
    (to_added,) = parts(core.step(ask(3, fetch(0), copies_after_ms=0))) or []
    (to_returning,) = parts(core.step(ask(2, fetch(0), copies_after_ms=0))) or []
    (to_member,) = parts(core.step(ask(1, fetch(RECORDS - 1, last=0), copies_after_ms=0))) or []
    found = (to_added.is_copy, to_returning.is_copy, to_member.is_copy)
    assert found == (True, False, False)


def test_a_copy_that_has_to_wait_gets_its_response_when_it_may_go_on() -> None:
    core = leading()
    assert parts(core.step(ask(3, fetch(0)))) is None
    assert core.replicas.next_wakeup_ms == core.now_ms + WAIT_MS
    assert parts(core.step(produced(2))) is None, "more records are no reason to respond"
    assert parts(core.step(Ticked(), after_ms=WAIT_MS - 1)) is None
    (read,) = parts(core.step(Ticked(), after_ms=1)) or []
    assert (read.from_offset, read.up_to_offset, read.is_copy) == (0, RECORDS + 1, True)


def test_a_fetch_never_waits_longer_than_its_follower_said() -> None:
    core = leading()
    assert parts(core.step(ask(3, fetch(0), copies_after_ms=60_000))) is None
    assert core.replicas.next_wakeup_ms == core.now_ms + 500


def test_other_partitions_of_the_same_fetch_do_not_wait_for_a_copy() -> None:
    core = leading()
    assert parts(core.step(ask(3, fetch(0), fetch(0, tp=OTHER_TP)))) is None
    found = parts(core.step(produced(2, tp=OTHER_TP))) or []
    assert {read.tp: read.is_copy for read in found} == {TP: True, OTHER_TP: False}
    found = parts(core.step(ask(3, fetch(0), fetch(0, tp=OTHER_TP), request_id=8))) or []
    assert {read.tp: read.is_copy for read in found} == {TP: True, OTHER_TP: False}


def test_followers_that_are_not_added_never_wait() -> None:
    core = leading()
    for follower, offset in ((2, 0), (1, RECORDS - 1)):
        (read,) = parts(core.step(ask(follower, fetch(offset)))) or []
        assert read.up_to_offset == RECORDS


def test_a_waiting_copy_counts_what_its_follower_has_and_a_joiner_is_no_copy() -> None:
    core = leading()
    # The high watermark is RECORDS - 1: this fetch asks the controller to take broker 3 in, and
    # from then on each commit waits for it.
    (read,) = parts(core.step(ask(3, fetch(RECORDS - 1, last=0)))) or []
    assert not read.is_copy
    view = core.replicas.view(TP)
    assert view is not None
    assert view.maximal_isr == ids(0, 1, 3)


def test_a_fetch_below_the_log_start_is_refused_at_once() -> None:
    core = leading()
    (read,) = parts(core.step(ask(3, fetch(RECORDS + 5)))) or []
    assert not read.is_copy
    assert read.from_offset == read.up_to_offset
