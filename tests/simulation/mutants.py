"""Planted bugs: each replaces one named function for the time of a test.

The shipped code knows nothing of them. A mutant stands for a mistake that was really made, in
Kafka or in an early model of this project, or for one that a shell, a disk or a controller could
make. The simulator has to find each of them, and to name the invariant that it breaks. Together
they break every invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from strandline.controller import elections, rebuild
from strandline.controller.broker_entry import BrokerEntry, InSession, Live, registration_of
from strandline.controller.election_input import most_complete
from strandline.controller.eligible_leaders import eligible_leaders
from strandline.controller_session import effects as session_effects
from strandline.controller_session.holder_connection import (
    Holder,
    HolderConnection,
    LookingUp,
    NoHolder,
)
from strandline.core import leader as leader_module
from strandline.core.broker_context import BrokerContext
from strandline.core.effects import Effect, LogReadInfo, PersistState
from strandline.core.events import AlterPartitionResponseReceived
from strandline.core.fetcher import Fetcher, OutstandingFetch
from strandline.core.follower import FollowerReplica
from strandline.core.high_watermark import next_high_watermark
from strandline.core.isr import PendingShrink, Stable
from strandline.core.isr_proposer import IsrProposer
from strandline.core.leader import LeaderReplica
from strandline.core.live_brokers import LiveBrokers
from strandline.core.notices import Notice
from strandline.core.purgatory import DelayedProduce, Purgatory
from strandline.core.reads import ConsumerReads, find_leader
from strandline.errors import ErrorCode
from strandline.model import BrokerId, IsrEntry, PartitionState, StoredPartition, TopicPartition
from strandline_simulation.core_shell import SimulatedCoreShell
from strandline_simulation.disk import SimulatedDisk
from strandline_simulation.invariants import Invariant
from strandline_simulation.process import Process
from strandline_simulation.store import SimulatedStore


@dataclass(frozen=True)
class Mutant:
    """One mistake: `function` replaces `name` of `owner`, and breaks the invariant `breaks`.

    A directed plan in which the mistake breaks another invariant names that one itself.
    """

    title: str
    owner: type | ModuleType
    name: str
    function: Callable[..., Any] | property
    breaks: str


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant a mistake for the time of a context."""
    original = getattr(mutant.owner, mutant.name)
    setattr(mutant.owner, mutant.name, mutant.function)
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.name, original)


# --- the core -----------------------------------------------------------------------------

_ADVANCE = LeaderReplica.advance_high_watermark
_MAY_JOIN = LeaderReplica._may_join


def _watermark_over_committed_isr(self: LeaderReplica, now_ms: int) -> list[Effect]:
    """Count the committed ISR alone, without a joiner in flight and without followers outside."""
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
    """Write every status, without a comparison.

    The CRD's rule that a changed status needs a higher partitionEpoch is a second
    compare-and-swap, which hides the lack of the first one. So this leaves out both.
    """
    stored = replace(self.partitions[name], resource_version=self._next_version(), state=state)
    self.partitions[name] = stored
    return stored


def _no_response_means_not_applied(
    self: IsrProposer, event: AlterPartitionResponseReceived, now_ms: int
) -> list[Effect]:
    """Go back to the committed ISR at any response that settles nothing."""
    del now_ms
    if not isinstance(self.isr, Stable) and self.isr.in_flight.request_id == event.request_id:
        self.isr = Stable(entries=self.state.isr)
        self.context.isr_retries.cancel(self.tp)
    return []


def _any_response_is_ours(self: Fetcher, request_id: int) -> OutstandingFetch | None:
    """Take a late response for that of the outstanding fetch."""
    del request_id
    outstanding, self.outstanding = self.outstanding, None
    return outstanding


def _join_before_epoch_start(self: LeaderReplica, broker_id: BrokerId, now_ms: int) -> bool:
    """Let a follower join that has reached the inherited high watermark alone."""
    epoch_start_offset, self.epoch_start_offset = self.epoch_start_offset, 0
    try:
        return _MAY_JOIN(self, broker_id, now_ms)
    finally:
        self.epoch_start_offset = epoch_start_offset


def _any_own_entry(self: BrokerContext, entry: IsrEntry | None) -> bool:
    """Take an entry of an earlier process for one of this process."""
    return entry is not None and entry.broker_id == self.broker_id


_READ_FOR_CONSUMER = ConsumerReads.read


def _reads_to_the_log_end(self: ConsumerReads, tp: TopicPartition, **arguments: Any) -> LogReadInfo:
    """Let consumers read as far as followers."""
    read = _READ_FOR_CONSUMER(self, tp, **arguments)
    leader = find_leader(self._partitions.get(tp), None)
    if read.error is not ErrorCode.NONE or isinstance(leader, ErrorCode):
        return read
    return replace(read, up_to_offset=leader.log.log_end_offset)


def _acknowledged_at_the_next_step(
    self: Purgatory, tp: TopicPartition, **_: int
) -> list[DelayedProduce]:
    """Complete every waiting append, whatever the high watermark is."""
    return self.take_all_produce(tp)


def _watermark_that_falls(ends: Sequence[int], *, leader_end: int, **_: object) -> int:
    """Compute the high watermark without its former value."""
    return min(ends, default=leader_end)


def _watermark_moves_under_min_isr(ends: Sequence[int], **figures: Any) -> int:
    """Move the high watermark whatever the size of the ISR is."""
    return next_high_watermark(ends, **{**figures, "min_insync_replicas": 1})


def _waiting_requests_stay(_: Purgatory, delayed: Sequence[Any]) -> list[Any]:
    """Keep requests in the purgatory after their response: each would get a second one."""
    return list(delayed)


# --- the controller and the session -------------------------------------------------------


def _first_live_replica(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]
) -> Live | None:
    """Elect a live replica, in sync or not."""
    found = (brokers.get(broker_id) for broker_id in state.replicas)
    live = [each for each in found if isinstance(each, Live)]
    return min(live, key=lambda each: not isinstance(each, InSession), default=None)


def _eligible_at_min_isr(
    state: PartitionState,
    isr: tuple[IsrEntry, ...],
    _: int,
    brokers: Mapping[BrokerId, BrokerEntry],
) -> tuple[IsrEntry, ...]:
    """Keep who left the ISR as eligible, whatever size the ISR has."""
    return eligible_leaders(state, isr, len(state.replicas) + 1, brokers)


def _every_replica_is_eligible(
    state: PartitionState,
    isr: tuple[IsrEntry, ...],
    min_insync_replicas: int,
    brokers: Mapping[BrokerId, BrokerEntry],
) -> tuple[IsrEntry, ...]:
    """Make each known replica eligible under min ISR, also one that left before."""
    if len(isr) >= min_insync_replicas:
        return ()
    members = {entry.broker_id for entry in isr}
    return tuple(
        IsrEntry(broker_id=each, broker_epoch=brokers[each].broker_epoch)
        for each in state.replicas
        if each not in members and registration_of(brokers.get(each)) is not None
    )


_CLEAN_LEADER = elections.choose_clean_leader


def _eligible_without_epoch_check(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]
) -> Live | None:
    """Elect an eligible leader, whatever its disk lost since it was in the ISR."""
    chosen = _CLEAN_LEADER(state, brokers)
    if chosen is not None or not state.eligible_leaders:
        return chosen
    eligible = tuple(entry.broker_id for entry in state.eligible_leaders)
    return _first_live_replica(replace(state, replicas=eligible), brokers)


_DIAL = HolderConnection._dial


def _never_dial_again(
    self: HolderConnection, holder: Holder, now_ms: int
) -> list[session_effects.Effect]:
    """Dial once; after that wait without end, also for a controller that introduces itself."""
    if isinstance(self.state, LookingUp) and self.state.lookup_id == 1:
        return _DIAL(self, holder, now_ms)
    self.state = NoHolder()
    return []


# --- the shell ----------------------------------------------------------------------------

_PERFORM = SimulatedCoreShell._perform


def _notices_first(self: SimulatedCoreShell, effects: Sequence[Effect]) -> None:
    """Report before the disk is written: the order of the effects is a contract."""
    _PERFORM(self, sorted(effects, key=lambda effect: not isinstance(effect, Notice)))


# --- the disk -----------------------------------------------------------------------------

_END_OF_PROCESS = SimulatedDisk.end_of_process


def _page_cache_dies_with_the_process(
    self: SimulatedDisk, reached_disk: Callable[[], bool]
) -> None:
    """Lose half of the unflushed records at the end of a process, without a loss of power."""
    _END_OF_PROCESS(self, reached_disk)
    for log in self.logs.values():
        log.lose_tail(500)


def _state_file_keeps_first_epochs(self: SimulatedDisk, effect: PersistState) -> None:
    """Write each partition to the state file once."""
    self.state_writes.remove(effect)
    self.controller_epoch = max(self.controller_epoch, effect.controller_epoch)
    for tp, entry in effect.partitions:
        self.persisted.setdefault(tp, entry)


_read_stored = Process._read_stored


def _read_stored_without_marker(self: Process) -> None:
    """Take the marker for used up as soon as a process has begun."""
    self._disk.marker_epoch = None
    _read_stored(self)


WATERMARK_OVER_COMMITTED_ISR = Mutant(
    "high watermark over the committed ISR only",
    LeaderReplica,
    "advance_high_watermark",
    _watermark_over_committed_isr,
    Invariant.ISR_IS_COMPLETE,
)
WRITE_WITHOUT_VERSION = Mutant(
    "status write without resourceVersion check",
    SimulatedStore,
    "put_partition_status",
    _write_without_version,
    Invariant.EPOCHS_NEVER_FALL,
)
JOIN_BEFORE_EPOCH_START = Mutant(
    "join before the epoch start",
    LeaderReplica,
    "_may_join",
    _join_before_epoch_start,
    Invariant.ISR_IS_COMPLETE,
)
NO_OWN_ENTRY_CHECK = Mutant(
    "missing own-entry check",
    BrokerContext,
    "is_own_incarnation",
    _any_own_entry,
    Invariant.ONE_LEADER_PER_EPOCH,
)
NO_ANSWER_MEANS_NOT_APPLIED = Mutant(
    "a proposal without an accepting response counts as not applied",
    IsrProposer,
    "wait_on",
    _no_response_means_not_applied,
    Invariant.MAXIMAL_ISR_COVERS,
)
LEAVERS_STOP_COUNTING = Mutant(
    "leavers stop counting before the controller has answered",
    PendingShrink,
    "maximal_entries",
    property(lambda self: self.proposed),
    Invariant.MAXIMAL_ISR_COVERS,
)
ANSWERS_WITHOUT_REQUEST_ID = Mutant(
    "fetch responses taken without their request id",
    Fetcher,
    "take_outstanding",
    _any_response_is_ours,
    Invariant.EVERYTHING_HEALS,
)
LOST_DATA_TRUSTED = Mutant(
    "ISR entries of lost data trusted",
    elections,
    "covers",
    lambda *_, **__: True,
    Invariant.LEADER_IN_ISR,
)

READS_TO_THE_LOG_END = Mutant(
    "consumers read up to the log end",
    ConsumerReads,
    "read",
    _reads_to_the_log_end,
    Invariant.READS_ARE_COMMITTED,
)
ACKNOWLEDGED_AT_ONCE = Mutant(
    "acks=all acknowledged before the high watermark",
    Purgatory,
    "take_produce",
    _acknowledged_at_the_next_step,
    Invariant.ACKNOWLEDGED_IS_COMMITTED,
)
WATERMARK_FALLS = Mutant(
    "a high watermark that may fall",
    leader_module,
    "next_high_watermark",
    _watermark_that_falls,
    Invariant.CORE_HOLDS,
)
WATERMARK_MOVES_UNDER_MIN_ISR = Mutant(
    "a high watermark that moves under min ISR",
    leader_module,
    "next_high_watermark",
    _watermark_moves_under_min_isr,
    Invariant.ELIGIBLE_ARE_COMPLETE,
)
ELIGIBLE_AT_MIN_ISR = Mutant(
    "eligible leaders kept at min ISR",
    elections,
    "eligible_leaders",
    _eligible_at_min_isr,
    Invariant.ELIGIBLE_UNDER_MIN_ISR,
)
EVERY_REPLICA_IS_ELIGIBLE = Mutant(
    "eligible although it left above min ISR",
    elections,
    "eligible_leaders",
    _every_replica_is_eligible,
    Invariant.ELIGIBLE_ARE_COMPLETE,
)
ELIGIBLE_WITHOUT_EPOCH_CHECK = Mutant(
    "eligible leaders elected without a check of their epoch",
    elections,
    "choose_clean_leader",
    _eligible_without_epoch_check,
    Invariant.ISR_IS_COMPLETE,
)
WAITING_REQUESTS_STAY = Mutant(
    "requests wait on after their response",
    Purgatory,
    "_take",
    _waiting_requests_stay,
    Invariant.NOTHING_ELSE_RAISES,
)
LEADER_OUTSIDE_ISR = Mutant(
    "a leader elected outside the ISR",
    elections,
    "choose_leader",
    _first_live_replica,
    Invariant.LEADER_IN_ISR,
)
NEVER_DIAL_AGAIN = Mutant(
    "a session that is not dialled again",
    HolderConnection,
    "_dial",
    _never_dial_again,
    Invariant.EVERYTHING_HEALS,
)
PAGE_CACHE_LOST = Mutant(
    "a page cache that dies with its process",
    SimulatedDisk,
    "end_of_process",
    _page_cache_dies_with_the_process,
    Invariant.ACKNOWLEDGED_SURVIVES,
)
STATE_FILE_KEEPS_FIRST_EPOCHS = Mutant(
    "a state file that keeps the first epochs",
    SimulatedDisk,
    "write_state",
    _state_file_keeps_first_epochs,
    Invariant.CORE_HOLDS,
)
EVERY_START_IS_UNCLEAN = Mutant(
    "every start taken for one that lost data",
    SimulatedDisk,
    "has_lost_logs",
    lambda _: True,
    Invariant.OFFLINE_NEEDS_LOSS,
)
MARKER_GONE_BEFORE_REGISTRATION = Mutant(
    "a start that dies before it is registered uses up the clean-shutdown marker",
    Process,
    "_read_stored",
    _read_stored_without_marker,
    Invariant.OFFLINE_NEEDS_LOSS,
)
FLUSHED_PROVES_NOTHING = Mutant(
    "a start that takes a reboot for a loss, whatever was flushed",
    SimulatedDisk,
    "flushed_epoch",
    property(lambda _: None, lambda *_: None),
    Invariant.OFFLINE_NEEDS_LOSS,
)
FLUSHED_CLAIMED_ALWAYS = Mutant(
    "a broker that says it has flushed what it has not",
    SimulatedDisk,
    "flushed_epoch",
    property(lambda disk: disk.meta_epoch, lambda *_: None),
    Invariant.ISR_IS_COMPLETE,
)

NOTICES_FIRST = Mutant(
    "a shell that reports before it performs",
    SimulatedCoreShell,
    "_perform",
    _notices_first,
    Invariant.WATERMARK_WITHIN_LOG,
)

FOLLOWER_DECIDES_LOG_START = Mutant(
    "a follower that decides where its log begins",
    FollowerReplica,
    "_follow_start",
    lambda self, _: self.log.advance_start(self.log.high_watermark, reason="leader"),
    Invariant.LOG_START_IS_COMMITTED,
)

LATEST_LOG_LEADS = Mutant(
    "a lost partition that is led by the log that ends in the latest epoch",
    rebuild,
    "last_leader",
    lambda present, _: most_complete(present),
    Invariant.ISR_IS_COMPLETE,
)

FOUND_BY_SEARCH = (
    FOLLOWER_DECIDES_LOG_START,
    NOTICES_FIRST,
    WATERMARK_OVER_COMMITTED_ISR,
    WRITE_WITHOUT_VERSION,
    LEAVERS_STOP_COUNTING,
    LOST_DATA_TRUSTED,
    ANSWERS_WITHOUT_REQUEST_ID,
    READS_TO_THE_LOG_END,
    ACKNOWLEDGED_AT_ONCE,
    WATERMARK_FALLS,
    WATERMARK_MOVES_UNDER_MIN_ISR,
    ELIGIBLE_AT_MIN_ISR,
    EVERY_REPLICA_IS_ELIGIBLE,
    WAITING_REQUESTS_STAY,
    STATE_FILE_KEEPS_FIRST_EPOCHS,
)
"""Random search finds these, too; directed plans find the others."""
