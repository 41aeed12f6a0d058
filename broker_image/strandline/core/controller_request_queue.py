"""The controller's requests: in their order, fenced, and on disk before they are applied.

Called by `ControllerRequests`, which applies them. While a write of the state file is under
way, requests queue; all that queued meanwhile share the next write. A controller with an old view
could lead a broker that forgot an accepted state back to an earlier leadership.
Invariant: an accepted epoch (controller, leader and partition epoch) never falls.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from strandline.errors import ErrorCode
from strandline.model import (
    NO_TERM,
    TOPIC_DELETED,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    HostedPartition,
    LeaderEpoch,
    LeaderTerm,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
)

from .effects import Effect, PersistedPartition, PersistState
from .events import LeaderAndIsrReceived, LiveBrokersChanged, StopReplicaReceived
from .local_log import LocalLog
from .terms import term_after

ControllerRequest = LeaderAndIsrReceived | StopReplicaReceived | LiveBrokersChanged

REMOVED_REPLICAS_MAX: Final = 10_000
"""Removed replicas whose late states are refused, in one controller epoch; the oldest go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedState:
    """A state that a leader adopted from a response: it is written, the role stays."""

    tp: TopicPartition
    topic_name: str
    state: PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest:
    """A request after its epoch checks: the error of the whole, and the error of each partition.

    Shape:   partition_errors are in the order of the request's partitions
    """

    request: ControllerRequest
    error: ErrorCode = ErrorCode.NONE
    partition_errors: tuple[ErrorCode, ...] = ()


def accepted_state(topic_name: str, state: PartitionState, term: LeaderTerm) -> PersistedPartition:
    """Return what the state file keeps of a committed state and of the last leadership."""
    return PersistedPartition(
        topic_name=topic_name,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        term=term,
    )


def check_partition(accepted: PersistedPartition | None, command: PartitionCommand) -> ErrorCode:
    """Return NONE if a partition's command may be applied, or the error that refuses it.

    The accepted state is accepted again: the response to it may have been lost. Any other command
    that calls a hosted partition new comes from a lost object (ADR 0004).

    Shape:   accepted is None for a partition this broker does not host
    """
    if accepted is None:
        return ErrorCode.NONE
    state = command.state
    if accepted_state(accepted.topic_name, state, accepted.term) == accepted:
        return ErrorCode.NONE
    if command.is_new:
        return ErrorCode.TOPIC_ALREADY_EXISTS
    if state.leader_epoch < accepted.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if state.partition_epoch <= accepted.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE


class ControllerRequestQueue:
    """Requests that wait for the state file, and the states accepted so far."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        controller_epoch: ControllerEpoch,
        waiting_max: int,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting_max = waiting_max
        self._waiting: deque[ControllerRequest | AdoptedState] = deque()
        self._under_way: list[CheckedRequest] | None = None
        self._token = 0
        self._accepted: dict[TopicPartition, PersistedPartition] = {}
        self._removed_at: dict[TopicPartition, PartitionEpoch] = {}
        """Of replicas that are gone: a late state of this controller epoch must not revive them."""
        self.controller_epoch = controller_epoch

    @property
    def is_full(self) -> bool:
        """Whether no further request may wait."""
        return len(self._waiting) >= self._waiting_max

    def load(self, hosted: HostedPartition, log: LocalLog) -> LeaderEpoch:
        """Take what the state file says of a replica found on disk; return its leader epoch.

        An epoch in the log counts as accepted: a log is only written under an accepted epoch.
        """
        leader_epoch = max(hosted.leader_epoch, log.epochs.newest)
        self._accepted[hosted.tp] = PersistedPartition(
            topic_name=hosted.topic_name,
            leader_epoch=leader_epoch,
            partition_epoch=hosted.partition_epoch,
            isr=hosted.isr,
            term=hosted.term,
        )
        return leader_epoch

    def submit(self, request: ControllerRequest) -> None:
        """Queue a request; an announcement of live brokers replaces a waiting one."""
        if isinstance(request, LiveBrokersChanged):
            kept = [each for each in self._waiting if not isinstance(each, LiveBrokersChanged)]
            self._waiting = deque(kept)
        self._waiting.append(request)

    def submit_adopted(self, tp: TopicPartition, topic_name: str, state: PartitionState) -> None:
        """Queue a state that a leader adopted from a response, for the state file."""
        self._waiting.append(AdoptedState(tp=tp, topic_name=topic_name, state=state))

    def begin(self) -> tuple[list[Effect], list[CheckedRequest]]:
        """Check waiting requests; return the write, or the requests that need none.

        Nothing is checked while a write is under way, so requests keep their order.
        """
        if self._under_way is not None or not self._waiting:
            return [], []
        epoch_before, written = self.controller_epoch, dict[TopicPartition, PersistedPartition]()
        checked = self._check_waiting(written)
        if not written and self.controller_epoch == epoch_before:
            return [], checked
        self._token += 1
        self._under_way = checked
        persist = PersistState(
            token=self._token,
            controller_epoch=self.controller_epoch,
            partitions=tuple(sorted(written.items())),
        )
        return [persist], []

    def on_persisted(self, token: int) -> list[CheckedRequest]:
        """Return the requests whose accepted states are on disk now."""
        if self._under_way is None or token < self._token:
            return []
        ready, self._under_way = self._under_way, None
        return ready

    def abandon(self) -> list[ControllerRequest]:
        """Return all requests that will never be applied: the state file is lost."""
        under_way = [checked.request for checked in self._under_way or ()]
        waiting = [each for each in self._waiting if not isinstance(each, AdoptedState)]
        self._under_way = None
        self._waiting.clear()
        return [*under_way, *waiting]

    def _check_waiting(
        self, written: dict[TopicPartition, PersistedPartition]
    ) -> list[CheckedRequest]:
        checked: list[CheckedRequest] = []
        while self._waiting:
            each = self._waiting.popleft()
            if isinstance(each, AdoptedState):
                if each.tp in self._accepted:
                    self._accept(each.tp, each.topic_name, each.state, written)
                continue
            checked.append(self._check(each, written))
            if isinstance(each, StopReplicaReceived):
                # A request behind a deletion must not share its write: the deletion removes the
                # partition from the state file.
                break
        return checked

    def _check(
        self, request: ControllerRequest, written: dict[TopicPartition, PersistedPartition]
    ) -> CheckedRequest:
        error = self._fence(request)
        if error is not ErrorCode.NONE:
            return CheckedRequest(request=request, error=error)
        if request.controller_epoch > self.controller_epoch:
            self.controller_epoch = request.controller_epoch
            # Whatever an earlier controller sent is fenced from now on.
            self._removed_at.clear()
        partition_errors: list[ErrorCode] = []
        if isinstance(request, LeaderAndIsrReceived):
            for each in request.partitions:
                accepted = self._accepted.get(each.tp)
                if accepted is None and self._broker_id not in each.state.replicas:
                    partition_errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    continue
                removed_at = self._removed_at.get(each.tp)
                if removed_at is not None and each.state.partition_epoch <= removed_at:
                    partition_errors.append(ErrorCode.INVALID_UPDATE_VERSION)
                    continue
                partition_error = check_partition(accepted, each)
                if partition_error is ErrorCode.NONE:
                    self._accept(each.tp, each.topic_name, each.state, written)
                partition_errors.append(partition_error)
        elif isinstance(request, StopReplicaReceived):
            # `written` keeps a replica made by a request before: its folder comes with its state.
            partition_errors = [self._remove(tp, request.removed_at) for tp in request.partitions]
        return CheckedRequest(request=request, partition_errors=tuple(partition_errors))

    def _remove(self, tp: TopicPartition, removed_at: PartitionEpoch) -> ErrorCode:
        """Forget a replica, unless a state after its removal was accepted (ADR 0057)."""
        accepted = self._accepted.get(tp)
        if removed_at == TOPIC_DELETED:
            self._removed_at.pop(tp, None)
        else:
            if accepted is not None and accepted.partition_epoch > removed_at:
                return ErrorCode.INVALID_UPDATE_VERSION
            self._removed_at[tp] = max(removed_at, self._removed_at.get(tp, removed_at))
            while len(self._removed_at) > REMOVED_REPLICAS_MAX:
                del self._removed_at[next(iter(self._removed_at))]
        self._accepted.pop(tp, None)
        return ErrorCode.NONE

    def _fence(self, request: ControllerRequest) -> ErrorCode:
        if (
            not isinstance(request, LiveBrokersChanged)
            and request.broker_epoch != self._broker_epoch
        ):
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _accept(
        self,
        tp: TopicPartition,
        topic_name: str,
        state: PartitionState,
        written: dict[TopicPartition, PersistedPartition],
    ) -> None:
        before = self._accepted.get(tp)
        if before is None or before.partition_epoch < state.partition_epoch:
            known = NO_TERM if before is None else before.term
            term = term_after(known, state)
            self._accepted[tp] = written[tp] = accepted_state(topic_name, state, term)
