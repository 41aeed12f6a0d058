"""The controller's commands: in their order, fenced, and on disk before they are obeyed.

Called by `command_work`, which does the obeying. While a write of the state file is under way
commands queue; all that queued meanwhile share the next write. A broker that forgot what it
was told could be led back to an earlier leadership by a controller with an old view.
Invariant: what was promised to disk (controller epoch, leader and partition epochs) never
falls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    HostedPartition,
    IsrEntry,
    LeaderEpoch,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
)

from .effects import Effect, PersistedPartition, PersistState
from .events import LeaderAndIsrReceived, LiveBrokersChanged, StopReplicaReceived
from .local_log import LocalLog

Command = LeaderAndIsrReceived | StopReplicaReceived | LiveBrokersChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The last this broker was told about a partition, as it stands in the state file."""

    topic_name: str
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A state that a leader learned from an answer: to be written, nothing is to be obeyed."""

    tp: TopicPartition
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A command and what the fences say: to all of it, and to each partition in its order."""

    command: Command
    error: ErrorCode = ErrorCode.NONE
    verdicts: tuple[ErrorCode, ...] = ()


def told_by(command: PartitionCommand) -> Told:
    """Return what the state file keeps of a command."""
    return told_of(command.topic_name, command.state)


def told_of(topic_name: str, state: PartitionState) -> Told:
    """Return what the state file keeps of a committed state."""
    return Told(
        topic_name=topic_name,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
    )


def judge(told: Told | None, command: PartitionCommand) -> ErrorCode:
    """Return NONE if a partition's command may be obeyed, or what stands against it.

    The very decision that stands in the state file is accepted again: its answer may have
    been lost. Anything else that calls itself new over a log that exists is a lost
    object, not a new partition (ADR 0004).

    Shape:   told is None for a partition this broker does not host
    """
    if told is None:
        return ErrorCode.NONE
    state = command.state
    is_repeated = (state.leader_epoch, state.partition_epoch, state.isr) == (
        told.leader_epoch,
        told.partition_epoch,
        told.isr,
    )
    if is_repeated:
        return ErrorCode.NONE
    if command.is_new:
        return ErrorCode.TOPIC_ALREADY_EXISTS
    if state.leader_epoch < told.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if state.partition_epoch <= told.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE


class Commands:
    """Commands that wait for the state file, and what was promised to it so far."""

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
        self._waiting: deque[Command | Adopted] = deque()
        self._under_way: list[Judged] | None = None
        self._token = 0
        self._told: dict[TopicPartition, Told] = {}
        self.controller_epoch = controller_epoch

    @property
    def is_full(self) -> bool:
        """Whether no further command may wait."""
        return len(self._waiting) >= self._waiting_max

    def load(self, hosted: HostedPartition, log: LocalLog) -> LeaderEpoch:
        """Take what the state file says of a replica found on disk; return its leader epoch.

        An epoch in the log counts as told: a log is only written under an epoch that was.
        """
        leader_epoch = max(hosted.leader_epoch, log.epochs.newest)
        self._told[hosted.tp] = Told(
            topic_name=hosted.topic_name,
            leader_epoch=leader_epoch,
            partition_epoch=hosted.partition_epoch,
            isr=hosted.isr,
        )
        return leader_epoch

    def submit(self, command: Command) -> None:
        """Queue a command; of waiting announcements of live brokers only the last counts."""
        if isinstance(command, LiveBrokersChanged):
            kept = [each for each in self._waiting if not isinstance(each, LiveBrokersChanged)]
            self._waiting = deque(kept)
        self._waiting.append(command)

    def remember(self, tp: TopicPartition, topic_name: str, state: PartitionState) -> None:
        """Have a state written that came as an answer, not as a command."""
        self._waiting.append(Adopted(tp=tp, told=told_of(topic_name, state)))

    def begin(self) -> tuple[list[Effect], list[Judged]]:
        """Judge what waits; return what to write and what may be obeyed at once.

        Nothing is judged while a write is under way, so commands keep their order.
        """
        if self._under_way is not None or not self._waiting:
            return [], []
        epoch_before, written = self.controller_epoch, dict[TopicPartition, Told]()
        judged = self._judge_waiting(written)
        if not written and self.controller_epoch == epoch_before:
            return [], judged
        self._token += 1
        self._under_way = judged
        return [self._persist(written)], []

    def on_persisted(self, token: int) -> list[Judged]:
        """Return the commands whose promises are on disk now."""
        if self._under_way is None or token < self._token:
            return []
        ready, self._under_way = self._under_way, None
        return ready

    def abandon(self) -> list[Command]:
        """Return all commands that will never be obeyed: the state file is lost."""
        under_way = [judged.command for judged in self._under_way or ()]
        waiting = [each for each in self._waiting if not isinstance(each, Adopted)]
        self._under_way = None
        self._waiting.clear()
        return [*under_way, *waiting]

    def _judge_waiting(self, written: dict[TopicPartition, Told]) -> list[Judged]:
        judged: list[Judged] = []
        while self._waiting:
            each = self._waiting.popleft()
            if isinstance(each, Adopted):
                if each.tp in self._told:
                    self._promise(each.tp, each.told, written)
                continue
            judged.append(self._judge(each, written))
            if isinstance(each, StopReplicaReceived):
                # What comes behind a deletion must not share its write: the deletion
                # takes the partition out of the state file again.
                break
        return judged

    def _judge(self, command: Command, written: dict[TopicPartition, Told]) -> Judged:
        error = self._fence(command)
        if error is not ErrorCode.NONE:
            return Judged(command=command, error=error)
        self.controller_epoch = max(self.controller_epoch, command.controller_epoch)
        verdicts: list[ErrorCode] = []
        if isinstance(command, LeaderAndIsrReceived):
            for each in command.partitions:
                told = self._told.get(each.tp)
                if told is None and self._broker_id not in each.state.replicas:
                    verdicts.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    continue
                verdict = judge(told, each)
                if verdict is ErrorCode.NONE:
                    self._promise(each.tp, told_by(each), written)
                verdicts.append(verdict)
        elif isinstance(command, StopReplicaReceived):
            for tp in command.partitions:
                self._told.pop(tp, None)
                written.pop(tp, None)
        return Judged(command=command, verdicts=tuple(verdicts))

    def _fence(self, command: Command) -> ErrorCode:
        if (
            not isinstance(command, LiveBrokersChanged)
            and command.broker_epoch != self._broker_epoch
        ):
            return ErrorCode.STALE_BROKER_EPOCH
        if command.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _promise(self, tp: TopicPartition, told: Told, written: dict[TopicPartition, Told]) -> None:
        before = self._told.get(tp)
        if before is None or before.partition_epoch < told.partition_epoch:
            self._told[tp] = written[tp] = told

    def _persist(self, written: dict[TopicPartition, Told]) -> PersistState:
        return PersistState(
            token=self._token,
            controller_epoch=self.controller_epoch,
            partitions=_persisted(sorted(written.items())),
        )


def _persisted(
    written: Iterable[tuple[TopicPartition, Told]],
) -> tuple[PersistedPartition, ...]:
    return tuple(
        PersistedPartition(
            tp=tp,
            topic_name=told.topic_name,
            leader_epoch=told.leader_epoch,
            partition_epoch=told.partition_epoch,
            isr=told.isr,
        )
        for tp, told in written
    )
