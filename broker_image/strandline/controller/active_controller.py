"""The active controller: the parts that decide, and the objects they decide about.

`Controller` makes one when it has loaded the cluster, and drops it when it resigns: no state
survives a resignation. `broker_events.py` and `object_events.py` handle its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from strandline.errors import ErrorCode
from strandline.model import BrokerId, ControllerEpoch, HolderIdentity, StoredBroker

from .applied_configs import AppliedConfigs
from .broker_entry import InSession, Live, RegisteredBroker, session_id_of
from .brokers import Brokers
from .cluster_status import ClusterStatus
from .context import ControllerContext
from .effects import CloseSession, ControllerEffect, LoadCluster, ReadBroker, SessionEffect
from .events import BrokerResponseReceived, ControllerEvent, HeartbeatReceived, Ticked
from .liveness import Liveness
from .moves import Moves
from .notices import BrokerDead
from .partition_reconciler import PartitionReconciler
from .partition_table import PartitionTable
from .propagation import Propagator
from .restores import Restores
from .shutdowns import Shutdowns
from .store_events import (
    ClusterLoaded,
    PartitionObserved,
    PartitionResponseReceived,
    StoreOutcome,
)
from .timing import ControllerTiming
from .topics import Topics

_PARTITION_EVENTS = (PartitionObserved, PartitionResponseReceived)


class ActiveController:
    """State and parts of a controller between its election and its resignation."""

    def __init__(
        self,
        *,
        identity: HolderIdentity | None,
        epoch: ControllerEpoch,
        timing: ControllerTiming,
        new_request_id: Callable[[], int],
        now_ms: int,
    ) -> None:
        self.epoch = epoch
        self.higher_epoch: ControllerEpoch | None = None
        """Set when a stored object or a broker shows an epoch above ours: time to resign."""
        self.brokers = Brokers()
        self.table = PartitionTable()
        self.topics = Topics(epoch=epoch, timing=timing, new_request_id=new_request_id)
        context = ControllerContext(
            identity=identity,
            epoch=epoch,
            timing=timing,
            new_request_id=new_request_id,
            brokers=self.brokers,
            table=self.table,
            topics=self.topics,
        )
        self.liveness = Liveness(context)
        self.propagator = Propagator(context, now_ms=now_ms)
        self.restores = Restores(context)
        self.moves = Moves(context)
        self.reconciler = PartitionReconciler(
            context,
            sent_state_of=self.propagator.state_of,
            restores=self.restores,
            moves=self.moves,
        )
        self.reload = _ClusterReload(context)
        self.shutdowns = Shutdowns(context, self.reconciler)
        self.cluster_status = ClusterStatus(context)
        self.applied_configs = AppliedConfigs(context)
        self._new_request_id = new_request_id
        self._broker_reads: dict[int, BrokerId] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the first of the parts has something to do."""
        due = (
            self.liveness.next_wakeup_ms,
            self.reconciler.next_wakeup_ms,
            self.propagator.next_wakeup_ms,
            self.reload.next_wakeup_ms,
            self.topics.next_wakeup_ms,
            self.shutdowns.next_wakeup_ms,
            self.cluster_status.next_wakeup_ms,
            self.applied_configs.next_wakeup_ms,
        )
        return min((ms for ms in due if ms is not None), default=None)

    def announce(self, event: ControllerEvent, now_ms: int) -> list[ControllerEffect]:
        """Send the changes that wait before an event that may lead to other messages."""
        if not self.propagator.has_waiting or _only_announces(event):
            return []
        return self.propagator.flush(now_ms)

    def advance(self, event: ControllerEvent, now_ms: int) -> list[ControllerEffect]:
        """Do what is due and what the last event made possible.

        What an answer of the store changed waits for the answers that are yet to come, but not
        behind another message to a broker.
        """
        effects: list[ControllerEffect] = [*self.reload.tick(now_ms)]
        if not (self._more_may_come(event) and self.propagator.may_wait(now_ms)):
            effects.extend(self.propagator.flush(now_ms))
        effects.extend(self.liveness.tick(now_ms))
        effects.extend(self.cluster_status.tick(now_ms))
        effects.extend(self.applied_configs.tick(now_ms))
        effects.extend(self.topics.tick(now_ms))
        for name in self.moves.take_ready():
            self.reconciler.queue(name, now_ms)
        decided = [*self.reconciler.run(now_ms), *self.shutdowns.tick(now_ms)]
        if self.propagator.has_waiting and any(isinstance(d, SessionEffect) for d in decided):
            effects.extend(self.propagator.flush(now_ms))
        return effects + decided

    def _more_may_come(self, event: ControllerEvent) -> bool:
        """Tell whether answers about other partitions are yet to come, and this is one of many."""
        shown = event.partition if isinstance(event, _PARTITION_EVENTS) else None
        entry = None if shown is None else self.table.entries.get(shown.name)
        own = 0 if entry is None or entry.open_request_id is None else 1
        return _only_announces(event) and self.reconciler.calls_out > own

    def resign(self) -> list[ControllerEffect]:
        """Respond to all open requests, and end the sessions."""
        effects: list[ControllerEffect] = [*self.reconciler.resign(), *self.shutdowns.resign()]
        for session in self.brokers.sessions():
            effects.extend(self.close(session.session_id, ErrorCode.NOT_CONTROLLER))
        return effects

    def close(self, session_id: int | None, error: ErrorCode) -> list[ControllerEffect]:
        """End a session, if there is one."""
        if session_id is None:
            return []
        epoch = self.epoch if self.higher_epoch is None else self.higher_epoch
        return [CloseSession(session_id=session_id, error=error, controller_epoch=epoch)]

    def see_epoch(self, epoch: ControllerEpoch) -> None:
        """Remember an epoch above ours."""
        if epoch > max(self.epoch, self.higher_epoch or self.epoch):
            self.higher_epoch = epoch

    def register_broker(self, stored: StoredBroker, now_ms: int) -> list[ControllerEffect]:
        """Take note of a Broker. A higher broker epoch ends the former one (KIP-380)."""
        former = self.brokers.entries.get(stored.broker_id)
        if not self.brokers.register(stored, now_ms):
            if isinstance(former, RegisteredBroker) and former.is_gone != self.brokers.is_gone(
                stored.broker_id
            ):
                for name in self.table.waiting_for_all():
                    self.reconciler.queue(name, now_ms)
            return []
        effects: list[ControllerEffect] = []
        if isinstance(former, Live):
            effects.append(
                BrokerDead(
                    broker_id=stored.broker_id,
                    broker_epoch=former.broker_epoch,
                    reason="higher broker epoch registered",
                    detect_ms=0,
                )
            )
            self.shutdowns.cancel(stored.broker_id)
            effects.extend(self.close(session_id_of(former), ErrorCode.STALE_BROKER_EPOCH))
        self.queue_partitions_of(stored.broker_id, now_ms)
        return effects

    def reports_changed(self, session: InSession, now_ms: int) -> None:
        """Ask about topics that a broker has logs of and that are not known: they may be stray."""
        self.topics.suspect_unknown(
            (tp.topic_id for tp in session.hosted), (tp.topic_id for tp in session.trashed)
        )
        self.cluster_status.strays_may_have_changed(now_ms)
        for name in self.table.concerned_by(session):
            self.reconciler.queue(name, now_ms)

    def queue_partitions_of(self, broker_id: BrokerId, now_ms: int) -> list[str]:
        """Reconcile all partitions of a broker, first those that it leads. Returns their names."""
        led = self.table.led_by(broker_id)
        for name in led:
            self.reconciler.queue_first(name, now_ms)
        names = self.table.with_member(broker_id)
        for name in names:
            self.reconciler.queue(name, now_ms)
        return names

    def read_brokers(self, broker_ids: Iterable[BrokerId]) -> list[ControllerEffect]:
        """Read these Brokers by quorum, unless such a read is out."""
        wanted = set(broker_ids) - set(self._broker_reads.values())
        return [self.read_broker(broker_id) for broker_id in sorted(wanted)]

    def read_broker(self, broker_id: BrokerId) -> ReadBroker:
        """Begin a quorum read of a Broker now."""
        request_id = self._new_request_id()
        self._broker_reads[request_id] = broker_id
        return ReadBroker(request_id=request_id, broker_id=broker_id)

    def broker_of_read(self, request_id: int) -> BrokerId | None:
        """Return the broker of a read; a second response finds None."""
        return self._broker_reads.pop(request_id, None)


class _ClusterReload:
    """When the cluster is loaded again, after a lost watch: one load at a time."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._due_ms: int | None = None
        self._request_id: int | None = None

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next load may begin."""
        return self._due_ms if self._request_id is None else None

    def ask(self, now_ms: int) -> None:
        """Load the cluster again, with a load that begins from now on."""
        self._due_ms = now_ms

    def tick(self, now_ms: int) -> list[LoadCluster]:
        """Begin the load that is due."""
        if self._due_ms is None or self._due_ms > now_ms or self._request_id is not None:
            return []
        self._due_ms, self._request_id = None, self._context.new_request_id()
        return [LoadCluster(request_id=self._request_id)]

    def on_cluster_loaded(self, event: ClusterLoaded, now_ms: int) -> bool:
        """Tell whether this load is the one that was out; repeat it later if it failed."""
        if event.request_id != self._request_id:
            return False
        self._request_id = None
        if event.outcome is StoreOutcome.OK:
            return True
        self._due_ms = now_ms + self._context.timing.lease.retry_period_ms
        return False


def _only_announces(event: ControllerEvent) -> bool:
    """Tell whether an event leads to no message that must come behind announcements.

    Such are those that come in numbers after a broker's death: answers that show one Partition
    each, and responses to the commands that went out. Decisions may lead to others in each step.
    """
    if isinstance(event, _PARTITION_EVENTS):
        return event.partition is not None
    return isinstance(event, Ticked | HeartbeatReceived | BrokerResponseReceived)
