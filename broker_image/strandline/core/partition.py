"""One partition on this broker: its log, and the role it plays there.

    idle      --first state---------------------->  leader or follower
    leader    --later leadership----------------->  leader (anew) or follower
    follower  --later leadership----------------->  leader or follower
    any       --log directory lost--------------->  failed, for the life of the process

A replica found on disk is idle until the first state from the controller: it neither serves
nor fetches. A role is replaced as a whole, never edited into another one.
A partition is changed by its own methods alone; `ControllerRequests` hands it states.
Invariant: a replica leads only under an epoch above every epoch that it had before, and only if its
own ISR entry names its own incarnation (ADR 0002).
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import (
    NO_EPOCH,
    NO_LEADER,
    NO_TERM,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    PartitionState,
)

from .broker_context import BrokerContext
from .effects import Effect
from .follower import FollowerReplica
from .leader import LeaderReplica
from .local_log import LocalLog
from .new_leader import become_leader
from .notices import BecameFollower, ReplicaFailed
from .terms import term_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Neither leader nor follower: no state yet, or not assigned any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The log directory is lost; nothing can be read or written."""

    reason: str


Role = LeaderReplica | FollowerReplica | Idle | Failed
IDLE = Idle()


@dataclass(slots=True, kw_only=True)
class Partition:
    """A replica on this broker.

    applied is the controller's last state that began or continued the role, None before the first
    in this process. fenced_leader_epoch is the highest leader epoch under which an earlier process
    of this broker may have written, or which this one refused to lead: a replica leads only above.
    loaded_partition_epoch is the highest partition epoch that an earlier process accepted, term the
    last leadership that any process of this broker accepted.
    """

    log: LocalLog
    context: BrokerContext
    role: Role = IDLE
    applied: PartitionState | None = None
    fenced_leader_epoch: LeaderEpoch = NO_EPOCH
    loaded_partition_epoch: PartitionEpoch = PartitionEpoch(-1)
    term: LeaderTerm = NO_TERM

    @property
    def accepted_leader_epoch(self) -> LeaderEpoch:
        """The highest leader epoch that this broker accepted, in this process or before."""
        applied = NO_EPOCH if self.state is None else self.state.leader_epoch
        return max(self.fenced_leader_epoch, applied)

    @property
    def accepted_partition_epoch(self) -> PartitionEpoch:
        """The highest partition epoch that this broker accepted, in this process or before."""
        if self.state is None:
            return self.loaded_partition_epoch
        return max(self.loaded_partition_epoch, self.state.partition_epoch)

    @property
    def state(self) -> PartitionState | None:
        """The newest committed state this replica knows, None before the first."""
        return self.role.state if isinstance(self.role, LeaderReplica) else self.applied

    def on_committed_state(
        self, state: PartitionState, now_ms: int
    ) -> tuple[ErrorCode, list[Effect]]:
        """Play the role a committed state gives this broker.

        Returns: the error for the response to the controller, and the effects. A state that
                 is not newer changes nothing and gets the same response as the first time
        """
        if isinstance(self.role, Failed):
            return ErrorCode.KAFKA_STORAGE_ERROR, []
        known = self.state
        if known is not None and state.partition_epoch <= known.partition_epoch:
            return self._error_for(known), []
        if known is not None and state.leader_epoch == known.leader_epoch:
            if state.leader != known.leader:
                # A new leader has a new leader epoch.
                return ErrorCode.INVALID_UPDATE_VERSION, []
            # The same leadership goes on: the term stays.
            effects = self._continue(state, now_ms)
            if effects is not None:
                return self._error_for(state), effects
        return self._take_role(state, now_ms)

    def fail(self, reason: str) -> list[Effect]:
        """Go offline for the life of the process."""
        self.leave_role()
        self.role = Failed(reason=reason)
        return [ReplicaFailed(tp=self.log.tp, reason=reason)]

    def leave_role(self) -> None:
        """End the present role; followers that wait on a leader have to hear of it."""
        if isinstance(self.role, LeaderReplica):
            self.role.unsettle_followers()

    def _error_for(self, state: PartitionState) -> ErrorCode:
        if self.context.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if state.leader == self.context.broker_id and not isinstance(self.role, LeaderReplica):
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    def _continue(self, state: PartitionState, now_ms: int) -> list[Effect] | None:
        """Go on in the present role under a later state; return None if that role is over."""
        me = self.context.broker_id
        names_us = self.context.is_own_incarnation(state.entry_of(me))
        if isinstance(self.role, LeaderReplica) and names_us:
            self.applied = state
            return self.role.adopt(state, now_ms)
        if isinstance(self.role, FollowerReplica) and me in state.replicas:
            self.applied = state
            self.role.adopt(state)
            return []
        return None

    def _take_role(self, state: PartitionState, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        self.leave_role()
        self.applied = state
        me = self.context.broker_id
        self.term = term_after(self.term, state)
        if me not in state.replicas:
            self.role = IDLE
            return self._error_for(state), [self._became_follower(state)]
        if state.leader != me:
            self.role = FollowerReplica(log=self.log, state=state)
            return ErrorCode.NONE, [self._became_follower(state)]
        names_us = self.context.is_own_incarnation(state.entry_of(me))
        if names_us and state.leader_epoch > self.fenced_leader_epoch:
            self.role, effects = become_leader(self.log, state, self.context, now_ms)
            return ErrorCode.NONE, effects
        # The controller chose an earlier process of this broker: wait for a later decision.
        self.fenced_leader_epoch = max(self.fenced_leader_epoch, state.leader_epoch)
        self.role = FollowerReplica(log=self.log, state=state, fenced=True)
        return self._error_for(state), [self._became_follower(state)]

    def _became_follower(self, state: PartitionState) -> BecameFollower:
        leader = NO_LEADER if state.leader == self.context.broker_id else state.leader
        return BecameFollower(
            tp=self.log.tp,
            topic_name=self.log.topic_name,
            leader=leader,
            leader_epoch=state.leader_epoch,
        )
