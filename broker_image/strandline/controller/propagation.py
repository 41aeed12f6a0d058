"""Propagation: sends every committed change to the brokers, also another process's.

The propagator collects changes during a step and sends them at its end, so that one command carries
all partitions that changed together. Order of a flush: live brokers, LeaderAndIsr to the replicas,
metadata to all brokers (KAFKA-4443: a new follower must know the address of its leader).
LeaderAndIsr goes out at each partition epoch; metadata that differs in the ISR alone is coalesced.
Invariant: no session receives a lower partition epoch after a higher one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from strandline.errors import ErrorCode
from strandline.model import (
    BrokerId,
    ElectionKind,
    LiveBroker,
    PartitionCommand,
    PartitionState,
    StoredPartition,
    StoredTopic,
    TopicId,
    TopicPartition,
    TopicSettings,
)

from .broker_entry import InSession
from .context import ControllerContext
from .effects import (
    ControllerEffect,
    SendFullState,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from .elections import is_to_be_rebuilt
from .events import BrokerResponseReceived
from .isr_entries import is_candidate
from .timing import ControllerTiming


class Propagator:
    """Sends the commands of one controller epoch to the sessions of the brokers."""

    def __init__(self, context: ControllerContext, *, now_ms: int) -> None:
        self._brokers = context.brokers
        self._topics = context.topics
        self._timing = context.timing
        self._epoch = context.epoch
        self._new_request_id = context.new_request_id
        self._commands: dict[TopicPartition, PartitionCommand] = {}
        self._changed: set[TopicPartition] = set()
        self._at_once: set[TopicPartition] = set()
        self._removed: set[TopicPartition] = set()
        self._coalesced = _CoalescedMetadata(timing=context.timing, now_ms=now_ms)
        self._live: tuple[LiveBroker, ...] = ()
        self._unconfirmed_new: dict[tuple[int, TopicPartition], int] = {}
        """By session: new partitions without a response, and the request that names them new."""

    @property
    def next_wakeup_ms(self) -> int | None:
        """When coalesced metadata is checked next."""
        return self._coalesced.next_wakeup_ms

    def state_of(self, tp: TopicPartition) -> PartitionState | None:
        """Return the last state that was sent or waits for the flush."""
        command = self._commands.get(tp)
        return None if command is None else command.state

    def replicas_of_topic(self, topic_id: TopicId) -> dict[TopicPartition, frozenset[BrokerId]]:
        """Return the sent partitions of a topic, each with its replicas."""
        return {
            tp: frozenset(command.state.replicas)
            for tp, command in self._commands.items()
            if tp.topic_id == topic_id
        }

    def partition_changed(
        self, stored: StoredPartition, now_ms: int, *, kind: ElectionKind | None
    ) -> None:
        """Send the state of a partition if it is newer than the last one that was sent.

        kind is the election by which this controller made the state: of a NEW partition no broker
        may have data.
        """
        state, before = stored.state, self._commands.get(stored.tp)
        if state is None:
            return
        if before is not None and before.state.partition_epoch >= state.partition_epoch:
            return
        self._removed.discard(stored.tp)
        topic = self._topics.known.get(stored.tp.topic_id)
        self._commands[stored.tp] = PartitionCommand(
            tp=stored.tp,
            topic_name=stored.topic_name,
            state=state,
            settings=TopicSettings() if topic is None else topic.settings,
            is_new=kind is ElectionKind.NEW,
        )
        self._changed.add(stored.tp)
        if before is None or before.state.leader_epoch != state.leader_epoch:
            self._at_once.add(stored.tp)
        elif stored.tp not in self._at_once:
            self._coalesced.add(stored.tp, now_ms)

    def settings_changed(self, topic: StoredTopic) -> None:
        """Send the partitions of a topic again with its new settings."""
        for tp, command in self._commands.items():
            if tp.topic_id == topic.topic_id and command.settings != topic.settings:
                self._commands[tp] = replace(command, settings=topic.settings, is_new=False)
                self._changed.add(tp)

    def forget(self, tp: TopicPartition) -> None:
        """Remove a partition from the metadata: its topic was deleted."""
        if self._commands.pop(tp, None) is not None:
            self._removed.add(tp)
        self._changed.discard(tp)
        self._at_once.discard(tp)
        self._coalesced.discard([tp])

    def resend(self, session: InSession, tps: Sequence[TopicPartition]) -> list[ControllerEffect]:
        """Send these partitions again to a broker that lacks their state."""
        commands = self._known(tp for tp in tps if tp in self._commands)
        return list(self._leader_and_isr(session, _taken_by(session, commands)))

    def full_state(self, session: InSession) -> SendFullState:
        """Open a session: the partitions the broker hosts, and all metadata."""
        commands = tuple(self._known(sorted(self._commands)))
        taken = tuple(_taken_by(session, commands))
        self._brokers.told(session, [command.tp for command in taken])
        return SendFullState(
            session_id=session.session_id,
            request_id=self._new_request_id(),
            broker_id=session.broker_id,
            broker_epoch=session.broker_epoch,
            controller_epoch=self._epoch,
            brokers=self._brokers.live(),
            partitions=taken,
            metadata=commands,
        )

    def stop_replicas(
        self, session: InSession, tps: Sequence[TopicPartition]
    ) -> list[ControllerEffect]:
        """Make a broker delete the logs of topics whose deletion is confirmed."""
        if not tps:
            return []
        return [
            SendStopReplica(
                session_id=session.session_id,
                request_id=self._new_request_id(),
                broker_id=session.broker_id,
                broker_epoch=session.broker_epoch,
                controller_epoch=self._epoch,
                partitions=tuple(sorted(tps)),
            )
        ]

    def refused_as_known(self, event: BrokerResponseReceived) -> list[TopicPartition]:
        """Return the new partitions that a broker refused because it has them on disk.

        A copy of a later request may overtake the first one, or the first one may come again on
        the broker's next session. The broker then has the log that our own request made. So a
        refusal counts on its own session only, and only before the broker obeyed any request.
        """
        refused = []
        for tp, error in event.partitions:
            key = (event.session_id, tp)
            is_first = self._unconfirmed_new.get(key) == event.request_id
            if error is ErrorCode.NONE or is_first:
                self._unconfirmed_new.pop(key, None)
            if error is ErrorCode.TOPIC_ALREADY_EXISTS and is_first:
                refused.append(tp)
        return sorted(refused)

    def flush(self, now_ms: int) -> list[ControllerEffect]:
        """Send the changes of the step, and coalesced metadata that is due."""
        sessions, live = self._brokers.sessions(), self._brokers.live()
        effects: list[ControllerEffect] = []
        if live != self._live:
            self._live = live
            for session in sessions:
                effects.extend(self._metadata(session, ()))
        changed = [self._commands[tp] for tp in sorted(self._changed)]
        for session in sessions:
            effects.extend(self._leader_and_isr(session, _taken_by(session, changed)))
        self._coalesced.discard(self._at_once)
        urgent = self._at_once | self._coalesced.take_due(now_ms)
        if urgent or self._removed:
            commands = self._known(sorted(urgent))
            for session in sessions:
                effects.extend(self._metadata(session, commands))
        for command in self._known(self._changed):
            self._commands[command.tp] = command
        self._changed, self._at_once, self._removed = set(), set(), set()
        return effects

    def _leader_and_isr(
        self, session: InSession, commands: Sequence[PartitionCommand]
    ) -> Iterator[ControllerEffect]:
        self._brokers.told(session, [command.tp for command in commands])
        for part in _parts(commands, self._timing.command_partitions_max):
            request_id = self._new_request_id()
            for command in part:
                if command.is_new:
                    self._unconfirmed_new[session.session_id, command.tp] = request_id
            while len(self._unconfirmed_new) > self._timing.new_partitions_unconfirmed_max:
                self._unconfirmed_new.pop(next(iter(self._unconfirmed_new)))
            yield SendLeaderAndIsr(
                session_id=session.session_id,
                request_id=request_id,
                broker_id=session.broker_id,
                broker_epoch=session.broker_epoch,
                controller_epoch=self._epoch,
                partitions=tuple(part),
            )

    def _metadata(
        self, session: InSession, commands: Sequence[PartitionCommand]
    ) -> Iterator[ControllerEffect]:
        removed = tuple(sorted(self._removed))
        for part in _parts(commands, self._timing.command_partitions_max) or [()]:
            yield SendUpdateMetadata(
                session_id=session.session_id,
                broker_id=session.broker_id,
                broker_epoch=session.broker_epoch,
                controller_epoch=self._epoch,
                brokers=self._live,
                partitions=tuple(part),
                removed=removed,
            )

    def _known(self, tps: Iterable[TopicPartition]) -> list[PartitionCommand]:
        """Return commands, not marked as new, for brokers that may have received them before."""
        commands = (self._commands[tp] for tp in tps)
        return [replace(each, is_new=False) if each.is_new else each for each in commands]


class _CoalescedMetadata:
    """Partitions that changed in the ISR alone, and wait until they are sent together.

    Source: Kafka's isr-change-propagation: the period of looking at the changes, the quiet time
    after which they leave, and their longest wait.
    """

    def __init__(self, *, timing: ControllerTiming, now_ms: int) -> None:
        self._timing = timing
        self._partitions: set[TopicPartition] = set()
        self._changed_ms = 0
        self._sent_ms = now_ms
        self._look_ms = 0

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `take_due` looks at the partitions next."""
        return self._look_ms if self._partitions else None

    def add(self, tp: TopicPartition, now_ms: int) -> None:
        """Let a changed partition wait."""
        if not self._partitions:
            self._look_ms = now_ms + self._timing.metadata_period_ms
        self._partitions.add(tp)
        self._changed_ms = now_ms

    def discard(self, tps: Iterable[TopicPartition]) -> None:
        """Forget partitions that are sent at once, or that are gone."""
        self._partitions.difference_update(tps)

    def take_due(self, now_ms: int) -> set[TopicPartition]:
        """Take the partitions if they were quiet, or waited, for long enough."""
        if not self._partitions or now_ms < self._look_ms:
            return set()
        quiet = now_ms - self._changed_ms > self._timing.metadata_quiet_ms
        late = now_ms - self._sent_ms > self._timing.metadata_delay_max_ms
        if not quiet and not late:
            self._look_ms = now_ms + self._timing.metadata_period_ms
            return set()
        due, self._partitions, self._sent_ms = self._partitions, set(), now_ms
        return due


def _taken_by(session: InSession, commands: Iterable[PartitionCommand]) -> list[PartitionCommand]:
    """Return the commands for the replicas of a broker.

    A log that must come from its trash first is left out: the broker would make an empty one. So is
    a state of before the log was removed, in which the broker could lead (ADR 0057).
    """
    return [
        each
        for each in commands
        if session.broker_id in each.state.replicas
        and not (session.must_restore(each.tp) and is_to_be_rebuilt(each.state))
        and not (each.tp in session.removed_logs and is_candidate(session.broker_id, each.state))
    ]


def _parts(commands: Sequence[PartitionCommand], size: int) -> list[Sequence[PartitionCommand]]:
    return [commands[start : start + size] for start in range(0, len(commands), size)]
