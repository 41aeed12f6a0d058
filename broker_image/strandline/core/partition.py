"""One partition on this broker: its log, and the role it plays there.

    idle      --command-------------------------->  leader or follower
    leader    --later leadership----------------->  leader (anew) or follower
    follower  --later leadership----------------->  leader or follower
    any       --log directory lost--------------->  failed, for the life of the process

Idle is what a replica found on disk is until the controller has spoken: it answers nobody
and asks nobody. A role is replaced as a whole, never edited into another one.
Invariant: a replica leads only under an epoch above every epoch it was ever told before,
and only if its own ISR entry is its present process (ADR 0002).
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import NO_EPOCH, NO_LEADER, LeaderEpoch, PartitionState

from .effects import BecameFollower, Effect, ReplicaFailed
from .follower import FollowerReplica
from .leader import LeaderReplica, become_leader
from .local_log import LocalLog
from .surroundings import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Neither leader nor follower: not told yet, or not assigned any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The log directory is lost; nothing can be read or written."""

    reason: str


Role = LeaderReplica | FollowerReplica | Idle | Failed
IDLE = Idle()


@dataclass(slots=True, kw_only=True)
class Partition:
    """A replica on this broker.

    told is the last state that was obeyed, None before the first in this process;
    led_epoch_floor is the highest leader epoch under which an earlier process of this
    broker may have written, or which this one refused to lead.
    """

    log: LocalLog
    around: Surroundings
    role: Role = IDLE
    told: PartitionState | None = None
    led_epoch_floor: LeaderEpoch = NO_EPOCH

    @property
    def state(self) -> PartitionState | None:
        """The newest committed state this replica knows, None before the first."""
        return self.role.state if isinstance(self.role, LeaderReplica) else self.told

    def obey(self, state: PartitionState, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        """Play the role a committed state gives this broker.

        Returns: what the controller is answered, and the effects. A state that is not
                 newer changes nothing and is answered as it was the first time
        """
        if isinstance(self.role, Failed):
            return ErrorCode.KAFKA_STORAGE_ERROR, []
        known = self.state
        if known is not None and state.partition_epoch <= known.partition_epoch:
            return self._answer(known), []
        if known is not None and state.leader_epoch == known.leader_epoch:
            if state.leader != known.leader:
                # The leader changes with its epoch or not at all.
                return ErrorCode.INVALID_UPDATE_VERSION, []
            effects = self._continue(state, now_ms)
            if effects is not None:
                return self._answer(state), effects
        return self._take_role(state, now_ms)

    def fail(self, reason: str) -> list[Effect]:
        """Go offline for the life of the process."""
        self.role = Failed(reason=reason)
        return [ReplicaFailed(tp=self.log.tp, reason=reason)]

    def _answer(self, state: PartitionState) -> ErrorCode:
        if self.around.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused = state.leader == self.around.broker_id and not isinstance(self.role, LeaderReplica)
        return ErrorCode.STALE_BROKER_EPOCH if refused else ErrorCode.NONE

    def _continue(self, state: PartitionState, now_ms: int) -> list[Effect] | None:
        """Go on in the present role under a later state; return None if that role is over."""
        me = self.around.broker_id
        if isinstance(self.role, LeaderReplica) and self.around.is_present_self(state.entry_of(me)):
            self.told = state
            return self.role.adopt(state, now_ms)
        if isinstance(self.role, FollowerReplica) and me in state.replicas:
            self.told = self.role.state = state
            return []
        return None

    def _take_role(self, state: PartitionState, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        self.told = state
        me = self.around.broker_id
        if me not in state.replicas:
            self.role = IDLE
            return self._answer(state), [self._became_follower(state)]
        if state.leader != me:
            self.role = FollowerReplica(log=self.log, state=state)
            return ErrorCode.NONE, [self._became_follower(state)]
        may_lead = state.leader_epoch > self.led_epoch_floor and self.around.is_present_self(
            state.entry_of(me)
        )
        if may_lead:
            self.role, effects = become_leader(self.log, state, self.around, now_ms)
            return ErrorCode.NONE, effects
        # Leadership given to an earlier process of this broker: wait for a later decision.
        self.led_epoch_floor = max(self.led_epoch_floor, state.leader_epoch)
        self.role = FollowerReplica(log=self.log, state=state, parked=True)
        return self._answer(state), [self._became_follower(state)]

    def _became_follower(self, state: PartitionState) -> BecameFollower:
        leader = NO_LEADER if state.leader == self.around.broker_id else state.leader
        return BecameFollower(
            tp=self.log.tp,
            topic_name=self.log.topic_name,
            leader=leader,
            leader_epoch=state.leader_epoch,
        )
