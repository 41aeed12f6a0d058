"""Logs that brokers must take back from their trash: those of partitions that are to be rebuilt.

`partition_reconciler` asks about a partition with the reason StateLost. A broker with a log of it
in the trash gets RestoreReplica once for each report that names the log so: a failed restore is
repeated after the next report. Until it has the log on disk, `propagation` sends it no state of
the partition, for the broker would make an empty replica (ADR 0037).
"""

from __future__ import annotations

from strandline.errors import ErrorCode
from strandline.model import PartitionState, TopicPartition

from .broker_entry import InSession
from .context import ControllerContext
from .effects import ControllerEffect, SendRestoreReplica
from .events import BrokerResponseReceived
from .notices import RestoreAsked, RestoreFailed


class Restores:
    """Which restores this controller asked for, by session; a session's end forgets them."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._asked: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        """By session: the last request, and the time of the report that led to it."""

    def ask(self, tp: TopicPartition, state: PartitionState) -> list[ControllerEffect]:
        """Ask the replicas' brokers for logs in their trash that a report since then named."""
        effects: list[ControllerEffect] = []
        sessions = self._context.brokers.sessions()
        self._asked = {each.session_id: self._asked.get(each.session_id, {}) for each in sessions}
        for session in sessions:
            if session.broker_id in state.replicas and session.must_restore(tp):
                effects += self._ask(session, tp)
        return effects

    def _ask(self, session: InSession, tp: TopicPartition) -> list[ControllerEffect]:
        asked = self._asked[session.session_id]
        _, reported_ms = asked.get(tp, (-1, -1))
        if session.reported_ms <= reported_ms:
            return []
        request_id = self._context.new_request_id()
        asked[tp] = (request_id, session.reported_ms)
        restore = SendRestoreReplica(
            session_id=session.session_id,
            request_id=request_id,
            broker_id=session.broker_id,
            broker_epoch=session.broker_epoch,
            controller_epoch=self._context.epoch,
            partitions=(tp,),
        )
        return [restore, RestoreAsked(broker_id=session.broker_id, tp=tp)]

    def on_response(self, event: BrokerResponseReceived) -> list[ControllerEffect]:
        """Tell of restores that failed."""
        asked = self._asked.get(event.session_id, {})
        return [
            RestoreFailed(broker_id=event.broker_id, tp=tp, error=error)
            for tp, error in event.partitions
            if error is not ErrorCode.NONE and asked.get(tp, (-1, -1))[0] == event.request_id
        ]
