"""A leader's ISR proposals to the controller.

`LeaderReplica` decides which brokers join and leave; `IsrProposer` decides when a proposal is sent,
when it is sent again, and what settles it. Changed by its own methods alone.

    stable   --propose---------------------------->  pending
    pending  --higher partition epoch------------->  stable (accepted, refused or overtaken)
    pending  --any other response, or none-------->  pending, sent again
    any      --another leader or epoch stored----->  superseded: proposes nothing more

Invariant: at most one proposal is in flight, and only a committed state ends it: a refused
request may have been applied by another controller (ADR 0006).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from strandline.errors import ErrorCode
from strandline.model import BrokerId, IsrEntry, PartitionState, TopicPartition

from .broker_context import BrokerContext
from .effects import Effect, ProposeIsr
from .events import AlterPartitionResponseReceived
from .isr import InFlight, IsrState, Pending, PendingExpand, PendingShrink, Stable, not_applied
from .notices import IsrProposalRefused


@dataclass(slots=True, kw_only=True)
class IsrProposer:
    """The committed state of a partition, and the ISR change its leader proposes.

    state is the newest committed state of this leadership that the leader has seen.
    """

    tp: TopicPartition
    context: BrokerContext
    state: PartitionState
    isr: IsrState
    refused_until_ms: dict[BrokerId, int] = field(default_factory=dict)
    superseded: bool = False

    @property
    def may_propose(self) -> bool:
        """Whether a proposal may be sent now: one at a time, and only while not superseded."""
        return isinstance(self.isr, Stable) and not self.superseded

    def may_propose_again(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Tell whether the back-off after a refusal is over for a broker."""
        return now_ms >= self.refused_until_ms.get(broker_id, now_ms)

    def entry_of(self, broker_id: BrokerId) -> IsrEntry | None:
        """Return a broker's entry in the maximal ISR, None without one."""
        for entry in self.isr.maximal_entries:
            if entry.broker_id == broker_id:
                return entry
        return None

    def propose_joiner(self, joiner: IsrEntry, now_ms: int) -> list[Effect]:
        """Propose one more member; from now on it holds the high watermark back."""
        if not self.may_propose:
            return []
        in_flight = self._in_flight(now_ms)
        return self._send(
            PendingExpand(entries=self.isr.entries, joiner=joiner, in_flight=in_flight)
        )

    def propose_leavers(self, leavers: frozenset[BrokerId], now_ms: int) -> list[Effect]:
        """Propose that members leave; all of them in one proposal."""
        proposed = frozenset(broker for broker in leavers if self.may_propose_again(broker, now_ms))
        if not proposed or not self.may_propose:
            return []
        in_flight = self._in_flight(now_ms)
        return self._send(
            PendingShrink(entries=self.isr.entries, leavers=proposed, in_flight=in_flight)
        )

    def resend_due(self, now_ms: int) -> list[Effect]:
        """Send the proposal again, unchanged, if its response is overdue."""
        if self.superseded or isinstance(self.isr, Stable):
            return []
        if now_ms < self.isr.in_flight.retry_at_ms:
            return []
        return self._send(replace(self.isr, in_flight=self._in_flight(now_ms)))

    def is_later_state(self, stored: PartitionState | None) -> bool:
        """Tell whether a response carries a later committed state of this leadership.

        A later leadership ends all proposals. It comes as a request, and until then the maximal ISR
        stays as it is.
        """
        if stored is None or stored.partition_epoch <= self.state.partition_epoch:
            return False
        is_ours = (
            stored.leader == self.context.broker_id
            and stored.leader_epoch == self.state.leader_epoch
            and self.context.is_own_incarnation(stored.entry_of(self.context.broker_id))
        )
        self.superseded = self.superseded or not is_ours
        return is_ours

    def wait_on(self, event: AlterPartitionResponseReceived, now_ms: int) -> list[Effect]:
        """Take a response that settles nothing: send the proposal again after a pause."""
        if isinstance(self.isr, Stable) or self.isr.in_flight.request_id != event.request_id:
            return []
        retry_at_ms = now_ms + self.context.settings.isr_request_backoff_ms
        in_flight = InFlight(request_id=event.request_id, retry_at_ms=retry_at_ms)
        self.isr = replace(self.isr, in_flight=in_flight)
        self.context.isr_retries.schedule(self.tp, retry_at_ms)
        if event.stored is None or event.error is ErrorCode.NONE:
            return []
        return [IsrProposalRefused(tp=self.tp, error=event.error)]

    def adopt(self, state: PartitionState, now_ms: int, *, error: ErrorCode) -> list[Effect]:
        """Take a later committed state of this leadership; it settles what is in flight.

        A broker whose proposed change was refused is proposed again only after a back-off.
        """
        pending, self.state, self.isr = self.isr, state, Stable(entries=state.isr)
        self.context.isr_retries.cancel(self.tp)
        refused = frozenset() if isinstance(pending, Stable) else not_applied(pending, state.isr)
        until = now_ms + self.context.settings.isr_refusal_backoff_ms
        self.refused_until_ms.update(dict.fromkeys(refused, until))
        return [IsrProposalRefused(tp=self.tp, error=error)] if refused else []

    def _in_flight(self, now_ms: int) -> InFlight:
        return InFlight(
            request_id=self.context.next_request_id(),
            retry_at_ms=now_ms + self.context.settings.isr_request_timeout_ms,
        )

    def _send(self, pending: Pending) -> list[Effect]:
        self.isr = pending
        self.context.isr_retries.schedule(self.tp, pending.in_flight.retry_at_ms)
        return [
            ProposeIsr(
                request_id=pending.in_flight.request_id,
                tp=self.tp,
                leader_epoch=self.state.leader_epoch,
                partition_epoch=self.state.partition_epoch,
                isr=pending.proposed,
            )
        ]
