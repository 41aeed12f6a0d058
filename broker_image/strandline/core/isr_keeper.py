"""A leader's conversation with the controller about its ISR.

Owned by `LeaderReplica`, which decides whom to ask for; this decides when a question may
be asked, how long it stands, and what settles it.

    stable   --propose---------------------------->  pending
    pending  --higher partition epoch------------->  stable (accepted, refused or overtaken)
    pending  --any other answer, or none---------->  pending, sent again
    any      --another leader or epoch stored----->  superseded: asks nothing, stays as it is

Invariant: at most one proposal is in flight, and only a committed state ends it: a refused
request may have been applied by another controller (ADR 0006).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.errors import ErrorCode
from strandline.model import BrokerId, IsrEntry, PartitionState, TopicPartition

from .effects import Effect, IsrProposalRefused, ProposeIsr
from .events import AlterPartitionAnswered
from .isr import (
    Flight,
    IsrState,
    Pending,
    PendingExpand,
    PendingShrink,
    Stable,
    not_applied,
    sent_again,
)
from .surroundings import Surroundings


@dataclass(slots=True, kw_only=True)
class IsrKeeper:
    """The committed state of a partition and what its leader asks to change in it.

    state is the newest committed state of this leadership that the leader has seen.
    """

    tp: TopicPartition
    around: Surroundings
    state: PartitionState
    isr: IsrState
    refused_until_ms: dict[BrokerId, int] = field(default_factory=dict)
    superseded: bool = False

    @property
    def may_propose(self) -> bool:
        """Whether a question may be asked now: one at a time, and only while in office."""
        return isinstance(self.isr, Stable) and not self.superseded

    def may_ask_for(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Tell whether the back-off after a refusal is over for a broker."""
        return now_ms >= self.refused_until_ms.get(broker_id, now_ms)

    def entry_of(self, broker_id: BrokerId) -> IsrEntry | None:
        """Return the entry of a member of the maximal ISR, None if it is none."""
        for entry in self.isr.maximal_entries:
            if entry.broker_id == broker_id:
                return entry
        return None

    def propose_joiner(self, joiner: IsrEntry, now_ms: int) -> list[Effect]:
        """Ask for one more member; from now on it holds the high watermark back."""
        if not self.may_propose:
            return []
        return self._send(
            PendingExpand(entries=self.isr.entries, joiner=joiner, flight=self._flight(now_ms))
        )

    def propose_leavers(self, leavers: frozenset[BrokerId], now_ms: int) -> list[Effect]:
        """Ask for fewer members; all of them in one request."""
        asked = frozenset(broker for broker in leavers if self.may_ask_for(broker, now_ms))
        if not asked or not self.may_propose:
            return []
        return self._send(
            PendingShrink(entries=self.isr.entries, leavers=asked, flight=self._flight(now_ms))
        )

    def resend_due(self, now_ms: int) -> list[Effect]:
        """Send the proposal again, unchanged, if its answer is overdue."""
        if isinstance(self.isr, Stable) or self.superseded or now_ms < self.isr.flight.retry_at_ms:
            return []
        return self._send(sent_again(self.isr, self._flight(now_ms)))

    def is_later_state(self, stored: PartitionState | None) -> bool:
        """Tell whether an answer carries a later committed state of this leadership.

        A later leadership is not ours to adopt: it comes as a command, and until then the
        maximal ISR stays as it is.
        """
        if stored is None or stored.partition_epoch <= self.state.partition_epoch:
            return False
        if self._is_ours(stored):
            return True
        self.superseded = True
        return False

    def wait_on(self, event: AlterPartitionAnswered, now_ms: int) -> list[Effect]:
        """Take an answer that settles nothing: ask the same again after a pause."""
        if isinstance(self.isr, Stable) or self.isr.flight.request_id != event.request_id:
            return []
        retry_at_ms = now_ms + self.around.settings.isr_request_backoff_ms
        flight = Flight(request_id=event.request_id, retry_at_ms=retry_at_ms)
        self.isr = sent_again(self.isr, flight)
        self.around.retry_at_ms[self.tp] = retry_at_ms
        if event.stored is None or event.error is ErrorCode.NONE:
            return []
        return [IsrProposalRefused(tp=self.tp, error=event.error)]

    def adopt(
        self,
        state: PartitionState,
        now_ms: int,
        *,
        error: ErrorCode = ErrorCode.INVALID_UPDATE_VERSION,
    ) -> list[Effect]:
        """Take a later committed state of this leadership; it settles what is in flight.

        A broker for which was asked in vain is asked for again only after a back-off.
        """
        pending, self.state, self.isr = self.isr, state, Stable(entries=state.isr)
        self.around.retry_at_ms.pop(self.tp, None)
        in_vain = frozenset() if isinstance(pending, Stable) else not_applied(pending, state.isr)
        until = now_ms + self.around.settings.isr_refusal_backoff_ms
        self.refused_until_ms.update(dict.fromkeys(in_vain, until))
        return [IsrProposalRefused(tp=self.tp, error=error)] if in_vain else []

    def _is_ours(self, stored: PartitionState) -> bool:
        return (
            stored.leader == self.around.broker_id
            and stored.leader_epoch == self.state.leader_epoch
            and self.around.is_present_self(stored.entry_of(self.around.broker_id))
        )

    def _flight(self, now_ms: int) -> Flight:
        return Flight(
            request_id=self.around.next_request_id(),
            retry_at_ms=now_ms + self.around.settings.isr_request_timeout_ms,
        )

    def _send(self, pending: Pending) -> list[Effect]:
        self.isr = pending
        self.around.retry_at_ms[self.tp] = pending.flight.retry_at_ms
        return [
            ProposeIsr(
                request_id=pending.flight.request_id,
                tp=self.tp,
                leader_epoch=self.state.leader_epoch,
                partition_epoch=self.state.partition_epoch,
                isr=pending.proposed,
            )
        ]
