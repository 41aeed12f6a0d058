"""Logs that brokers must take back from their trash: those of partitions that are to be rebuilt.

`partition_reconciler` asks about a partition with the reason StateLost. A broker with a log of it in
the trash gets RestoreReplica once for each report that names the log so: a failed restore is
repeated after the next report. Until it has the log on disk, `propagation` sends it no state of the
partition, for the broker would make an empty replica (ADR 0037).
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
        self._asked: dict[int, dict[TopicPartition, int]] = {}
        """By session: the time of the report that led to the last RestoreReplica."""

    def ask(self, tp: TopicPartition, state: PartitionState) -> list[ControllerEffect]:
        """Ask the replicas' brokers for logs in their trash that a report since then named."""
        effects: list[ControllerEffect] = []
        sessions = self._context.brokers.sessions()
        self._asked = {each.session_id: self._asked.get(each.session_id, {}) for each in sessions}
        for session in sessions:
            asked = self._asked[session.session_id]
            is_told_since = asked.get(tp, -1) < session.reported_ms
            if session.broker_id in state.replicas and session.must_restore(tp) and is_told_since:
                asked[tp] = session.reported_ms
                effects.append(self._restore(session, tp))
                effects.append(RestoreAsked(broker_id=session.broker_id, tp=tp))
        return effects

    def _restore(self, session: InSession, tp: TopicPartition) -> SendRestoreReplica:
        return SendRestoreReplica(
            session_id=session.session_id,
            request_id=self._context.new_request_id(),
            broker_id=session.broker_id,
            broker_epoch=session.broker_epoch,
            controller_epoch=self._context.epoch,
            partitions=(tp,),
        )

    def on_response(self, event: BrokerResponseReceived) -> list[ControllerEffect]:
        """Tell of restores that failed."""
        asked = self._asked.get(event.session_id, {})
        return [
            RestoreFailed(broker_id=event.broker_id, tp=tp, error=error)
            for tp, error in event.partitions
            if tp in asked and error is not ErrorCode.NONE
        ]
