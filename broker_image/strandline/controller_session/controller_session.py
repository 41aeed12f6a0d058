"""The machine: keeps one session with the present holder of the controller Lease.

Driven by a shell of the runtime or of the simulator. `HolderConnection` finds, dials and probes
the holder; `ControllerSession` handles the messages of both ends: it passes them to the replicas
and to the controller of this process, drops those that are too old, and runs the controlled
shutdown. It decides nothing about replicas: a broker without a session goes on as it was.
"""

from __future__ import annotations

from typing import assert_never

from strandline.controller.store_events import ControllerEpochSeen
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Registration,
    TopicPartition,
    TrashedReplica,
)

from . import events, messages
from .controlled_shutdown import ControlledShutdown
from .effects import (
    Effect,
    RestoreReplicas,
    ShutdownEnded,
    ShutdownProgressed,
    StepController,
    StepReplicas,
)
from .events import Event
from .holder_connection import HolderConnection
from .hosting import BrokerReport, HostedReplicas, leads_replicated, waits_for_rebuild
from .metadata_cache import MetadataCache
from .timing import ControllerSessionTiming

_LiveProcesses = tuple[ControllerEpoch, frozenset[tuple[BrokerId, BrokerEpoch]]]


class ControllerSession:
    """One broker's side of the session; changed by its own methods alone."""

    def __init__(
        self,
        registration: Registration,
        *,
        replicas: HostedReplicas,
        metadata: MetadataCache,
        timing: ControllerSessionTiming,
        trashed: tuple[TrashedReplica, ...] = (),
    ) -> None:
        """Take what the trash holds as found at start; `TrashChanged` replaces it."""
        self._broker_epoch = registration.broker_epoch
        self._replicas = replicas
        self._metadata = metadata
        self._timing = timing
        self._report = BrokerReport(registration, replicas=replicas, trashed=trashed)
        self.connection = HolderConnection(self._report, timing=timing)
        self._shutdown: ControlledShutdown | None = None
        self._announced: _LiveProcesses | None = None
        self._unsent: dict[TopicPartition, ProposeIsr] = {}
        """The last proposal of each partition while no session is open.

        Once the replicas have applied the next session's full state, the session fails these
        proposals, and the leaders propose anew.
        """

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `TimePassed` is due, None if only events matter."""
        shutdown_due_ms = None if self._shutdown is None else self._shutdown.due_ms
        due = (self.connection.next_wakeup_ms, shutdown_due_ms)
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event; return the effects, in order."""
        match event:
            case events.MessageReceived():
                return self._on_message(event, now_ms)
            case events.TimePassed():
                return [*self.connection.on_time(now_ms), *self._on_shutdown_time(now_ms)]
            case events.IsrProposed(proposal=proposal):
                return self._on_proposed(proposal)
            case events.CommandPerformed():
                return self._on_command_performed(event)
            case events.HolderObserved(holder_identity=identity):
                return self.connection.on_holder_observed(identity)
            case events.HolderRead() | events.ControllerIntroduced() | events.VolumeChanged():
                return self._on_news(event, now_ms)
            case events.TrashChanged(trashed=trashed):
                self._report.note_trash(trashed)
                self.connection.report_with_next_heartbeat()
                return []
            case events.HolderLookedUp():
                return self.connection.on_holder_looked_up(event, now_ms)
            case events.StreamBroken():
                return self.connection.on_stream_broken(event)
            case events.HolderProbed():
                return self.connection.on_holder_probed(event, now_ms)
            case events.ShutdownBegun():
                epoch, timing = self._broker_epoch, self._timing
                self._shutdown = ControlledShutdown(epoch, timing, now_ms=now_ms)
                return self._on_shutdown_time(now_ms)
            case _:
                assert_never(event)

    def _on_news(
        self,
        event: events.HolderRead | events.ControllerIntroduced | events.VolumeChanged,
        now_ms: int,
    ) -> list[Effect]:
        match event:
            case events.HolderRead(holder_identity=identity):
                return self.connection.on_holder_read(identity)
            case events.ControllerIntroduced(found=found):
                return self.connection.on_introduced(found, now_ms)
            case events.VolumeChanged(is_full=is_full):
                return self.connection.on_volume_changed(now_ms, is_full=is_full)

    def _on_message(self, event: events.MessageReceived, now_ms: int) -> list[Effect]:
        """Take a message, also a late one: its epochs fence it, not its session."""
        message, is_present = event.message, self.connection.on_message(event.session_id)
        match message:
            case LeaderAndIsrReceived():
                seen = ControllerEpochSeen(controller_epoch=message.controller_epoch)
                return [StepController(event=seen), StepReplicas(event=message)]
            case StopReplicaReceived() | AlterPartitionResponseReceived():
                return [StepReplicas(event=message)]
            case messages.RestoreReplica():
                return self._on_restore(message)
            case messages.MetadataUpdate():
                return self._on_metadata(message)
            case messages.ShutdownResponse():
                return self._on_shutdown_response(message, now_ms)
            case messages.SessionRefused():
                if not is_present:
                    return []
                return self.connection.on_refused(event.session_id, now_ms)
            case _:
                assert_never(message)

    def _on_restore(self, command: messages.RestoreReplica) -> list[Effect]:
        """Have logs restored, unless the command is for another process or of an old controller."""
        is_for_us = command.broker_epoch == self._broker_epoch
        if not is_for_us or command.controller_epoch < self._replicas.controller_epoch:
            return []
        return [RestoreReplicas(request_id=command.request_id, partitions=command.partitions)]

    def _on_metadata(self, update: messages.MetadataUpdate) -> list[Effect]:
        """Tell the replicas of the live brokers, unless this controller told the same before.

        They go through all partitions that they lead for it.
        """
        if not self._metadata.apply(update):
            return []
        epoch, brokers = update.controller_epoch, update.live_brokers
        announced = epoch, frozenset((each.broker_id, each.broker_epoch) for each in brokers)
        if announced == self._announced:
            return []
        self._announced = announced
        return [StepReplicas(event=LiveBrokersChanged(controller_epoch=epoch, brokers=brokers))]

    def _on_proposed(self, proposal: ProposeIsr) -> list[Effect]:
        """Send a proposal; without a session keep it for the next one."""
        if not self.connection.is_open:
            self._unsent[proposal.tp] = proposal
            return []
        self._unsent.pop(proposal.tp, None)
        message = messages.IsrProposal(broker_epoch=self._broker_epoch, proposal=proposal)
        return self.connection.send(message)

    def _on_command_performed(self, event: events.CommandPerformed) -> list[Effect]:
        """Send the response; without a session the next hello replaces it."""
        response, epoch = event.response, self._replicas.controller_epoch
        effects = self.connection.send(
            messages.CommandResponse(response=response, highest_controller_epoch=epoch)
        )
        if isinstance(response, ReplyLeaderAndIsr):
            if response.full and response.error is ErrorCode.NONE:
                effects.extend(self._fail_unsent())
            if waits_for_rebuild(self._replicas, response):
                self.connection.report_with_next_heartbeat()
        if isinstance(response, messages.ReplyRestoreReplica):
            self.connection.report_with_next_heartbeat()
        return effects

    def _fail_unsent(self) -> list[Effect]:
        unsent, self._unsent = self._unsent, {}
        failed = (
            AlterPartitionResponseReceived(
                request_id=proposal.request_id,
                tp=tp,
                error=ErrorCode.NETWORK_EXCEPTION,
                stored=None,
            )
            for tp, proposal in unsent.items()
        )
        return [StepReplicas(event=event) for event in failed]

    def _on_shutdown_time(self, now_ms: int) -> list[Effect]:
        if self._shutdown is None:
            return []
        leads, has_session = leads_replicated(self._replicas), self.connection.is_open
        decided = self._shutdown.on_time(has_session=has_session, leads=leads, now_ms=now_ms)
        return self._continue_shutdown(decided)

    def _on_shutdown_response(
        self, response: messages.ShutdownResponse, now_ms: int
    ) -> list[Effect]:
        if self._shutdown is None:
            return []
        leads = leads_replicated(self._replicas)
        decided = self._shutdown.on_response(response, leads=leads, now_ms=now_ms)
        return self._continue_shutdown(decided)

    def _continue_shutdown(
        self, decided: messages.ShutdownRequest | ShutdownEnded | ShutdownProgressed | None
    ) -> list[Effect]:
        if isinstance(decided, messages.ShutdownRequest):
            return self.connection.send(decided)
        if isinstance(decided, ShutdownEnded):
            self._shutdown = None
        return [] if decided is None else [decided]
