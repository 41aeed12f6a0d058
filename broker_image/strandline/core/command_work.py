"""Obeys the controller: roles change, replicas come and go, answers are sent.

The hands of `Replicas` for everything the controller sends; `commands` decides in which
order and whether, `partition` what a role change means.
"""

from __future__ import annotations

from typing import assert_never

from strandline.errors import ErrorCode
from strandline.model import ControllerEpoch, PartitionCommand, TopicPartition

from .commands import Command, Commands, Judged
from .effects import (
    AnswerLeaderAndIsr,
    AnswerStopReplica,
    CreateReplica,
    DeleteReplica,
    Effect,
    Fenced,
)
from .events import (
    AlterPartitionAnswered,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    LogDirectoryLost,
    ReplicaLoaded,
    StatePersisted,
    StopReplicaReceived,
)
from .fetchers import Fetchers
from .follower import FollowerReplica
from .leader import LeaderReplica
from .local_log import LocalLog
from .partition import Partition
from .surroundings import Surroundings

_FENCES = {
    ErrorCode.STALE_BROKER_EPOCH: "broker_epoch",
    ErrorCode.STALE_CONTROLLER_EPOCH: "controller_epoch",
    ErrorCode.FENCED_LEADER_EPOCH: "leader_epoch",
}


class CommandWork:
    """Performs commands on the partitions it shares with `Replicas`."""

    def __init__(
        self,
        around: Surroundings,
        partitions: dict[TopicPartition, Partition],
        fetchers: Fetchers,
        *,
        controller_epoch: ControllerEpoch,
    ) -> None:
        self._around = around
        self._partitions = partitions
        self._fetchers = fetchers
        self._commands = Commands(
            broker_id=around.broker_id,
            broker_epoch=around.broker_epoch,
            controller_epoch=controller_epoch,
            waiting_max=around.settings.commands_waiting_max,
        )
        self.storage_lost = False

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch that was accepted."""
        return self._commands.controller_epoch

    def on_replica_loaded(self, event: ReplicaLoaded) -> None:
        """Hold a replica found on disk; it is neither leader nor follower yet."""
        log = LocalLog.loaded(event.hosted)
        floor = self._commands.load(event.hosted, log)
        self._partitions[log.tp] = Partition(log=log, around=self._around, led_epoch_floor=floor)

    def on_command(self, command: Command, now_ms: int) -> list[Effect]:
        """Queue a command and go on as far as the state file allows."""
        if self.storage_lost:
            return _refuse(command, ErrorCode.KAFKA_STORAGE_ERROR)
        if self._commands.is_full and not isinstance(command, LiveBrokersChanged):
            return _refuse(command, ErrorCode.REQUEST_TIMED_OUT)
        self._commands.submit(command)
        return self._go_on(now_ms)

    def on_state_persisted(self, event: StatePersisted, now_ms: int) -> list[Effect]:
        """Obey what was waiting for the disk."""
        effects: list[Effect] = []
        for judged in self._commands.on_persisted(event.token):
            effects += self._obey(judged, now_ms)
        return effects + self._go_on(now_ms)

    def on_alter_partition_answered(
        self, event: AlterPartitionAnswered, now_ms: int
    ) -> list[Effect]:
        """Hand an answer to the leader that asked; what it adopts is written, too."""
        partition = self._partitions.get(event.tp)
        if partition is None or not isinstance(partition.role, LeaderReplica):
            return []
        leader = partition.role
        before = leader.state.partition_epoch
        effects = leader.on_alter_partition_answered(event, now_ms)
        if leader.state.partition_epoch == before:
            return effects
        self._commands.remember(event.tp, partition.log.topic_name, leader.state)
        return effects + self._go_on(now_ms)

    def on_log_directory_lost(self, event: LogDirectoryLost) -> list[Effect]:
        """Take every replica offline, for the life of the process."""
        self.storage_lost = True
        effects: list[Effect] = []
        for tp, partition in sorted(self._partitions.items()):
            self._fetchers.forget(tp)
            effects += partition.fail(event.reason)
        for command in self._commands.abandon():
            effects += _refuse(command, ErrorCode.KAFKA_STORAGE_ERROR)
        return effects

    def _go_on(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        while True:
            writes, ready = self._commands.begin()
            effects += writes
            if not ready:
                return effects
            for judged in ready:
                effects += self._obey(judged, now_ms)

    def _obey(self, judged: Judged, now_ms: int) -> list[Effect]:
        if judged.error is not ErrorCode.NONE:
            name = type(judged.command).__name__
            fenced = Fenced(fence=_FENCES[judged.error], detail=name)
            return [fenced, *_refuse(judged.command, judged.error)]
        match judged.command:
            case LeaderAndIsrReceived() as command:
                return self._take_roles(command, judged.verdicts, now_ms)
            case StopReplicaReceived() as command:
                return self._delete(command)
            case LiveBrokersChanged() as command:
                return self._announce(command, now_ms)
            case _:
                assert_never(judged.command)

    def _take_roles(
        self, command: LeaderAndIsrReceived, verdicts: tuple[ErrorCode, ...], now_ms: int
    ) -> list[Effect]:
        effects: list[Effect] = []
        answers: list[tuple[TopicPartition, ErrorCode]] = []
        for each, verdict in zip(command.partitions, verdicts, strict=True):
            answer = verdict
            if verdict is ErrorCode.NONE:
                answer, role_effects = self._take_role(each, now_ms)
                effects += role_effects
            if answer in _FENCES:
                detail = type(command).__name__
                effects.append(Fenced(fence=_FENCES[answer], detail=detail))
            answers.append((each.tp, answer))
        effects.append(
            AnswerLeaderAndIsr(
                request_id=command.request_id,
                error=ErrorCode.NONE,
                partitions=tuple(answers),
                full=command.full,
            )
        )
        return effects

    def _take_role(self, command: PartitionCommand, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        partition = self._partitions.get(command.tp)
        effects: list[Effect] = []
        if partition is None:
            log = LocalLog.empty(command.tp, command.topic_name, command.settings)
            partition = self._partitions[command.tp] = Partition(log=log, around=self._around)
            effects.append(_create(command))
        elif partition.log.settings != command.settings:
            partition.log.settings = command.settings
            effects.append(_create(command))
        role_before = partition.role
        answer, role_effects = partition.obey(command.state, now_ms)
        if partition.role is not role_before:
            if isinstance(partition.role, FollowerReplica):
                self._fetchers.follow(command.tp, partition.role)
            else:
                self._fetchers.forget(command.tp)
        return answer, effects + role_effects

    def _delete(self, command: StopReplicaReceived) -> list[Effect]:
        effects: list[Effect] = []
        for tp in command.partitions:
            self._fetchers.forget(tp)
            self._partitions.pop(tp, None)
            # Also for a replica unknown here: its folder may be left from a former life.
            effects.append(DeleteReplica(tp=tp))
        effects.append(
            AnswerStopReplica(
                request_id=command.request_id,
                error=ErrorCode.NONE,
                partitions=tuple((tp, ErrorCode.NONE) for tp in command.partitions),
            )
        )
        return effects

    def _announce(self, command: LiveBrokersChanged, now_ms: int) -> list[Effect]:
        """Take who is live: a fenced follower stops holding back, a live one may join."""
        self._around.live = {broker.broker_id: broker for broker in command.brokers}
        effects: list[Effect] = []
        for _, partition in sorted(self._partitions.items()):
            if isinstance(partition.role, LeaderReplica):
                effects += partition.role.propose_joiner(now_ms)
                effects += partition.role.advance_high_watermark(now_ms)
        return effects


def _create(command: PartitionCommand) -> CreateReplica:
    return CreateReplica(tp=command.tp, topic_name=command.topic_name, settings=command.settings)


def _refuse(command: Command, error: ErrorCode) -> list[Effect]:
    match command:
        case LeaderAndIsrReceived():
            return [
                AnswerLeaderAndIsr(
                    request_id=command.request_id,
                    error=error,
                    partitions=tuple((each.tp, error) for each in command.partitions),
                    full=command.full,
                )
            ]
        case StopReplicaReceived():
            return [
                AnswerStopReplica(
                    request_id=command.request_id,
                    error=error,
                    partitions=tuple((tp, error) for tp in command.partitions),
                )
            ]
        case LiveBrokersChanged():
            return []
        case _:
            assert_never(command)
