"""Propagation: sends every committed change to the brokers, also another process's.

The propagator collects changes and sends them together, so that one command carries all partitions
that changed together: those of one step, and while store calls are out also those of the answers
that follow within `announcement_wait_ms`. Else a broker's death would cost each session two
messages for each of its partitions, and the session's broker as many writes of its state file.
Order of a flush: live brokers, LeaderAndIsr to the replicas, metadata to all brokers (KAFKA-4443: a
new follower must know the address of its leader). LeaderAndIsr goes out at each partition epoch;
metadata that differs in the ISR alone is coalesced, and that of a new topic waits for the whole of
it.
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
from .coalesced_metadata import CoalescedMetadata
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
from .new_partitions import NewPartitions


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
        self._coalesced = CoalescedMetadata(timing=context.timing, now_ms=now_ms)
        self._new = NewPartitions(wait_ms=context.timing.new_topic_wait_ms)
        self._due_ms: int | None = None
        """When changes that wait for others are sent at the latest, None without any."""
        self._live: tuple[LiveBroker, ...] = ()
        self._unconfirmed_new: dict[tuple[int, TopicPartition], int] = {}
        """By session: new partitions without a response, and the request that names them new."""

    @property
    def next_wakeup_ms(self) -> int | None:
        """When changes that wait leave, or when coalesced metadata is checked next."""
        due = (self._due_ms, self._coalesced.next_wakeup_ms, self._new.next_wakeup_ms)
        return min((ms for ms in due if ms is not None), default=None)

    @property
    def has_waiting(self) -> bool:
        """Whether a changed partition is yet to be sent."""
        return self._due_ms is not None

    def may_wait(self, now_ms: int) -> bool:
        """Tell whether all changes may wait for others that are about to come."""
        return self.next_wakeup_ms is None or now_ms < self.next_wakeup_ms

    def make_way(self, stored: StoredPartition, now_ms: int) -> list[ControllerEffect]:
        """Send what waits before a newer state of one of these partitions: each epoch goes out."""
        waiting = self._commands[stored.tp].state if stored.tp in self._changed else None
        if waiting is None or stored.state is None:
            return []
        return self.flush(now_ms) if _is_newer(stored.state, waiting) else []

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
        if before is not None and not _is_newer(state, before.state):
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
        if self._due_ms is None:
            self._due_ms = now_ms + self._timing.announcement_wait_ms
        if before is None:
            is_new, count = kind is ElectionKind.NEW, topic.partition_count if topic else 0
            self._at_once |= self._new.learn(stored.tp, count, is_new=is_new, now_ms=now_ms)
        elif stored.tp in self._new:
            return
        elif before.state.leader_epoch != state.leader_epoch:
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
            self._new.forget(tp)
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
            metadata=tuple(each for each in commands if each.tp not in self._new),
        )

    def stop_replicas(
        self, session: InSession, tps: Sequence[TopicPartition]
    ) -> list[ControllerEffect]:
        """Make a broker delete the logs of topics whose deletion is confirmed."""
        if not tps:
            return []
        request_id = self._new_request_id()
        self._brokers.begin_stop(session, tps, request_id)
        return [
            SendStopReplica(
                session_id=session.session_id,
                request_id=request_id,
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
        """Send all changes, and coalesced metadata that is due."""
        sessions, live = self._brokers.sessions(), self._brokers.live()
        effects: list[ControllerEffect] = []
        if live != self._live:
            self._live = live
            for session in sessions:
                effects.extend(self._metadata(session, ()))
        changed = [self._commands[tp] for tp in sorted(self._changed)]
        for session in sessions:
            effects.extend(self._leader_and_isr(session, _taken_by(session, changed)))
        self._at_once |= self._new.take_due(now_ms)
        self._coalesced.discard(self._at_once)
        urgent = self._at_once | self._coalesced.take_due(now_ms)
        if urgent or self._removed:
            commands = self._known(sorted(urgent))
            for session in sessions:
                effects.extend(self._metadata(session, commands))
        for command in self._known(self._changed):
            self._commands[command.tp] = command
        self._changed, self._at_once, self._removed = set(), set(), set()
        self._due_ms = None
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


def _is_newer(state: PartitionState, before: PartitionState) -> bool:
    """Tell whether a state was committed after another one of its partition."""
    return state.partition_epoch > before.partition_epoch
