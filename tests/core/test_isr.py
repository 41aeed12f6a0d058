"""The ISR with a proposal in flight."""

from __future__ import annotations

from strandline.core.isr import (
    InFlight,
    PendingExpand,
    PendingShrink,
    Stable,
    maximal_isr,
    not_applied,
)

from .samples import entries, entry, ids

IN_FLIGHT = InFlight(request_id=1, retry_at_ms=2)


def test_joiner_counts_before_it_is_accepted() -> None:
    pending = PendingExpand(entries=entries(0, 1), joiner=entry(2), in_flight=IN_FLIGHT)
    assert pending.isr == ids(0, 1)
    assert maximal_isr(pending) == ids(0, 1, 2)
    assert pending.proposed == entries(0, 1, 2)


def test_leaver_counts_until_it_is_gone() -> None:
    pending = PendingShrink(entries=entries(0, 1, 2), leavers=ids(1), in_flight=IN_FLIGHT)
    assert pending.isr == maximal_isr(pending) == ids(0, 1, 2)
    assert pending.proposed == entries(0, 2)


def test_stable_isr_counts_itself() -> None:
    stable = Stable(entries=entries(0, 2))
    assert stable.isr == maximal_isr(stable) == ids(0, 2)


def test_members_of_a_proposal_that_were_not_applied() -> None:
    expand = PendingExpand(entries=entries(0), joiner=entry(2), in_flight=IN_FLIGHT)
    assert not_applied(expand, entries(0, 2)) == ids()
    assert not_applied(expand, entries(0)) == ids(2)
    shrink = PendingShrink(entries=entries(0, 1, 2), leavers=ids(1, 2), in_flight=IN_FLIGHT)
    assert not_applied(shrink, entries(0)) == ids()
    assert not_applied(shrink, entries(0, 2)) == ids(2)
