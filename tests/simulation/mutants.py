"""Planted bugs: each replaces one named function for the time of a test.

What is shipped knows nothing of them. A mutant stands for a mistake that was really made
once, in Kafka or in an early model of this project; the simulator has to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from strandline.controller.broker_entry import BrokerView
from strandline.core.broker_context import BrokerContext
from strandline.core.effects import Effect
from strandline.core.events import AlterPartitionResponseReceived
from strandline.core.fetchers import Fetcher, OutstandingFetch
from strandline.core.isr import PendingShrink, Stable
from strandline.core.isr_proposer import IsrProposer
from strandline.core.leader import LeaderReplica
from strandline.core.live_brokers import LiveBrokers
from strandline.model import BrokerId, IsrEntry, PartitionState, StoredPartition
from strandline.simulation.store import SimulatedStore


@dataclass(frozen=True)
class Mutant:
    """One mistake: `name` of `owner` becomes `function`."""

    title: str
    owner: type
    name: str
    function: Callable[..., Any] | property


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant a mistake, and take it away again."""
    original = getattr(mutant.owner, mutant.name)
    setattr(mutant.owner, mutant.name, mutant.function)
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.name, original)


_ADVANCE = LeaderReplica.advance_high_watermark
_MAY_JOIN = LeaderReplica._may_join


def _watermark_over_committed_isr(self: LeaderReplica, now_ms: int) -> list[Effect]:
    """Count the committed ISR alone: neither a joiner in flight nor one to come holds back."""
    isr, context = self.proposer.isr, self.context
    self.proposer.isr = Stable(entries=isr.entries)
    self.context = replace(context, live=LiveBrokers())
    try:
        return _ADVANCE(self, now_ms)
    finally:
        self.proposer.isr, self.context = isr, context


def _write_without_version(
    self: SimulatedStore, name: str, resource_version: str, state: PartitionState
) -> StoredPartition:
    """Write whatever comes, over whatever is there.

    The CRD's rule that a changed status needs a higher partitionEpoch is a second
    compare-and-swap: with it in place, leaving out the first alone is no mistake that
    could be seen. So this leaves out both.
    """
    stored = replace(self.partitions[name], resource_version=self._next_version(), state=state)
    self.partitions[name] = stored
    return stored


def _no_answer_means_not_applied(
    self: IsrProposer, event: AlterPartitionResponseReceived, now_ms: int
) -> list[Effect]:
    """Go back to the committed ISR at any response that settles nothing."""
    del now_ms
    if not isinstance(self.isr, Stable) and self.isr.in_flight.request_id == event.request_id:
        self.isr = Stable(entries=self.state.isr)
        self.context.isr_retries.cancel(self.tp)
    return []


def _any_answer_is_ours(self: Fetcher, request_id: int) -> OutstandingFetch | None:
    """Take a late response for that of the outstanding fetch."""
    del request_id
    outstanding, self.outstanding = self.outstanding, None
    return outstanding


def _join_before_epoch_start(self: LeaderReplica, broker_id: BrokerId, now_ms: int) -> bool:
    """Let a follower join that has reached the inherited high watermark only."""
    epoch_start_offset, self.epoch_start_offset = self.epoch_start_offset, 0
    try:
        return _MAY_JOIN(self, broker_id, now_ms)
    finally:
        self.epoch_start_offset = epoch_start_offset


def _any_own_entry(self: BrokerContext, entry: IsrEntry | None) -> bool:
    """Take an entry of an earlier process for this one."""
    return entry is not None and entry.broker_id == self.broker_id


WATERMARK_OVER_COMMITTED_ISR = Mutant(
    "high watermark over the committed ISR only",
    LeaderReplica,
    "advance_high_watermark",
    _watermark_over_committed_isr,
)
WRITE_WITHOUT_VERSION = Mutant(
    "status write without resourceVersion check",
    SimulatedStore,
    "put_partition_status",
    _write_without_version,
)
JOIN_BEFORE_EPOCH_START = Mutant(
    "join before the epoch start", LeaderReplica, "_may_join", _join_before_epoch_start
)
NO_OWN_ENTRY_CHECK = Mutant(
    "missing own-entry check", BrokerContext, "is_own_incarnation", _any_own_entry
)
NO_ANSWER_MEANS_NOT_APPLIED = Mutant(
    "a proposal without an accepting response counts as not applied",
    IsrProposer,
    "wait_on",
    _no_answer_means_not_applied,
)
LEAVERS_STOP_COUNTING = Mutant(
    "leavers stop counting before the controller has answered",
    PendingShrink,
    "maximal_entries",
    property(lambda self: self.proposed),
)
ANSWERS_WITHOUT_REQUEST_ID = Mutant(
    "fetch responses taken without their request id",
    Fetcher,
    "take_outstanding",
    _any_answer_is_ours,
)
LOST_DATA_TRUSTED = Mutant(
    "ISR entries of lost data trusted", BrokerView, "covers", lambda *_: True
)

FOUND_SOON = (
    WATERMARK_OVER_COMMITTED_ISR,
    WRITE_WITHOUT_VERSION,
    LEAVERS_STOP_COUNTING,
    LOST_DATA_TRUSTED,
)
"""Found by random search within so few schedules that the fast tier looks for them."""

FOUND_LATE = (NO_ANSWER_MEANS_NOT_APPLIED, ANSWERS_WITHOUT_REQUEST_ID)
"""Found by random search, but by so many schedules that only the full gate looks for them."""
