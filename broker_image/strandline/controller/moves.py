"""Which partitions move, so that few copy their records at once; and the logs that moves leave.

`partition_reconciler` asks before a move begins, and at rest for logs of removed replicas. Nothing
here is remembered beyond a controller: stored states and reports say it all (ADR 0057).
"""

from __future__ import annotations

from strandline.model import (
    TOPIC_DELETED,
    BrokerId,
    PartitionState,
    StoredPartition,
    TopicId,
    TopicPartition,
)

from .broker_entry import InSession
from .context import ControllerContext
from .effects import ControllerEffect, SendStopReplica
from .notices import ReplicaRemoved
from .reassignment import is_copying


class Moves:
    """The moves of one controller epoch, as far as stored states show them."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._replicas: dict[str, frozenset[BrokerId]] = {}
        self._removed: dict[str, frozenset[BrokerId]] = {}
        """Replicas of earlier states: their brokers may have the log, whatever they reported."""
        self._moving: set[str] = set()
        self._waiting: dict[str, None] = {}
        self._stopped: dict[TopicPartition, set[BrokerId]] = {}
        """Who was told to delete a log, and refuses former states of the partition since."""
        self._granted: set[str] = set()
        """Partitions that may begin, and whose first write is not known to be stored."""

    def note(self, name: str, state: PartitionState) -> None:
        """Take note of a newer state of a partition."""
        replicas = frozenset(state.replicas)
        before = self._replicas.get(name, replicas) | self._removed.get(name, frozenset())
        self._replicas[name], self._removed[name] = replicas, before - replicas
        self._granted.discard(name)
        if state.adding_replicas:
            self._moving.add(name)
        else:
            self._moving.discard(name)

    def forget(self, name: str) -> None:
        """Forget a partition whose object is gone."""
        self._replicas.pop(name, None)
        self._removed.pop(name, None)
        self._moving.discard(name)
        self.take_back(name)

    def take_back(self, name: str) -> None:
        """Give the place of a partition back before it is decided about anew."""
        self._granted.discard(name)
        self._waiting.pop(name, None)

    def may_begin(self, name: str) -> bool:
        """Tell whether one more partition may copy; one that may not waits for its turn."""
        if self._free_places() > 0:
            self._granted.add(name)
            return True
        self._waiting[name] = None
        return False

    def take_ready(self) -> list[str]:
        """Return partitions that waited, as many as may begin now."""
        if not self._waiting:
            return []
        ready = list(self._waiting)[: max(0, self._free_places())]
        for name in ready:
            del self._waiting[name]
        return ready

    def stopped_on(self, broker_id: BrokerId, topic_id: TopicId) -> set[TopicPartition]:
        """Return the partitions of a topic whose logs a broker was told to delete."""
        return {
            tp
            for tp, brokers in self._stopped.items()
            if tp.topic_id == topic_id and broker_id in brokers
        }

    def _free_places(self) -> int:
        copying = len(self._granted)
        for name in self._moving - self._granted:
            entry = self._context.table.entries.get(name)
            state = None if entry is None else entry.stored.state
            if state is not None and is_copying(state, self._context.brokers.entries):
                copying += 1
        return self._context.timing.moves_at_once_max - copying

    def stop_removed(self, stored: StoredPartition) -> list[ControllerEffect]:
        """Delete the logs of brokers that the stored state does not name as replicas.

        While the partition has no leader, or is under min ISR, such a log may be of use to a
        person. A broker that the spec names is about to be added: it may keep what it has.
        """
        state, effects = stored.state, list[ControllerEffect]()
        if state is None or stored.tp.topic_id not in self._context.topics.known:
            return effects
        if state.reason or state.leader < 0 or len(state.isr) < state.min_insync_replicas:
            return effects
        if state.partition_epoch == TOPIC_DELETED:
            # Such a command has no partition epoch to be refused by. A first state removes nobody.
            return effects
        kept = {*state.replicas, *stored.assigned}
        suspected = self._removed.pop(stored.name, frozenset())
        for session in self._context.brokers.sessions():
            replica = session.hosted.get(stored.tp)
            if session.broker_id in kept or (
                replica is None and session.broker_id not in suspected
            ):
                continue
            if replica is None or replica.accepted_partition_epoch <= state.partition_epoch:
                effects += self._stop(session, stored, state)
        return effects

    def _stop(
        self, session: InSession, stored: StoredPartition, state: PartitionState
    ) -> list[ControllerEffect]:
        request_id = self._context.new_request_id()
        self._context.brokers.begin_stop(session, [stored.tp], request_id)
        self._stopped.setdefault(stored.tp, set()).add(session.broker_id)
        return [
            SendStopReplica(
                session_id=session.session_id,
                request_id=request_id,
                broker_id=session.broker_id,
                broker_epoch=session.broker_epoch,
                controller_epoch=self._context.epoch,
                partitions=(stored.tp,),
                removed_at=state.partition_epoch,
            ),
            ReplicaRemoved(broker_id=session.broker_id, tp=stored.tp, topic_name=stored.topic_name),
        ]
