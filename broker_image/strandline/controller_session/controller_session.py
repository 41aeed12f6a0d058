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
from strandline.model import Registration

from .controlled_shutdown import ControlledShutdown
from .effects import Effect, ShutdownEnded, ShutdownProgressed, StepController, StepReplicas
from .events import (
    CommandPerformed,
    Event,
    HolderLookedUp,
    HolderObserved,
    HolderProbed,
    IsrProposed,
    MessageReceived,
    ShutdownBegun,
    StreamBroken,
    TimePassed,
)
from .holder_connection import HolderConnection
from .hosting import HostedReplicas, leads_any
from .messages import (
    CommandResponse,
    IsrProposal,
    MetadataUpdate,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)
from .metadata_cache import MetadataCache
from .states import ConnectionState
from .timing import ControllerSessionTiming
from .unsent_proposals import UnsentProposals


class ControllerSession:
    """One broker's side of the session; changed by its own methods alone."""

    def __init__(
        self,
        registration: Registration,
        *,
        replicas: HostedReplicas,
        metadata: MetadataCache,
        timing: ControllerSessionTiming,
    ) -> None:
        self._broker_epoch = registration.broker_epoch
        self._replicas = replicas
        self._metadata = metadata
        self._timing = timing
        self._connection = HolderConnection(registration, replicas=replicas, timing=timing)
        self._shutdown: ControlledShutdown | None = None
        self._unsent = UnsentProposals()

    @property
    def state(self) -> ConnectionState:
        """The state of the connection; for tests and for the end of a simulation."""
        return self._connection.state

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `TimePassed` is due, None if only events matter."""
        shutdown_due_ms = None if self._shutdown is None else self._shutdown.due_ms
        due = (self._connection.next_wakeup_ms, shutdown_due_ms)
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event; return the effects, in order."""
        match event:
            case MessageReceived():
                return self._on_message(event, now_ms)
            case TimePassed():
                return [*self._connection.on_time(now_ms), *self._on_shutdown_time(now_ms)]
            case IsrProposed(proposal=proposal):
                return self._on_proposed(proposal)
            case CommandPerformed():
                return self._on_command_performed(event)
            case HolderObserved(holder_identity=identity):
                return self._connection.on_holder_observed(identity)
            case HolderLookedUp():
                return self._connection.on_holder_looked_up(event, now_ms)
            case StreamBroken():
                return self._connection.on_stream_broken(event)
            case HolderProbed():
                return self._connection.on_holder_probed(event, now_ms)
            case ShutdownBegun():
                epoch, timing = self._broker_epoch, self._timing
                self._shutdown = ControlledShutdown(epoch, timing, now_ms=now_ms)
                return self._on_shutdown_time(now_ms)
            case _:
                assert_never(event)

    # --- what the controller says ---------------------------------------------------------

    def _on_message(self, event: MessageReceived, now_ms: int) -> list[Effect]:
        """Take a message, also a late one: its epochs fence it, not its session."""
        message, is_present = event.message, self._connection.is_present(event.session_id)
        if is_present:
            self._connection.on_response()
        match message:
            case LeaderAndIsrReceived():
                seen = ControllerEpochSeen(controller_epoch=message.controller_epoch)
                return [StepController(event=seen), StepReplicas(event=message)]
            case StopReplicaReceived() | AlterPartitionResponseReceived():
                return [StepReplicas(event=message)]
            case MetadataUpdate():
                return self._on_metadata(message)
            case ShutdownResponse():
                return self._on_shutdown_response(message, now_ms)
            case SessionRefused():
                if not is_present:
                    return []
                return self._connection.on_refused(event.session_id, now_ms)
            case _:
                assert_never(message)

    def _on_metadata(self, update: MetadataUpdate) -> list[Effect]:
        if not self._metadata.apply(update):
            return []
        changed = LiveBrokersChanged(
            controller_epoch=update.controller_epoch, brokers=update.live_brokers
        )
        return [StepReplicas(event=changed)]

    # --- what the replicas say ------------------------------------------------------------

    def _on_proposed(self, proposal: ProposeIsr) -> list[Effect]:
        """Send a proposal; without a session keep it for the next one."""
        if not self._connection.is_open:
            self._unsent.keep(proposal)
            return []
        self._unsent.forget(proposal.tp)
        message = IsrProposal(broker_epoch=self._broker_epoch, proposal=proposal)
        return self._connection.send(message)

    def _on_command_performed(self, event: CommandPerformed) -> list[Effect]:
        """Send the response; without a session the next hello replaces it."""
        response = event.response
        epoch = self._replicas.controller_epoch
        message = CommandResponse(response=response, highest_controller_epoch=epoch)
        effects = self._connection.send(message)
        is_full = isinstance(response, ReplyLeaderAndIsr) and response.full
        if is_full and response.error is ErrorCode.NONE:
            effects.extend(self._unsent.give_up())
        return effects

    # --- controlled shutdown --------------------------------------------------------------

    def _on_shutdown_time(self, now_ms: int) -> list[Effect]:
        if self._shutdown is None:
            return []
        leads, has_session = leads_any(self._replicas), self._connection.is_open
        return self._continue_shutdown(
            self._shutdown.on_time(has_session=has_session, leads=leads, now_ms=now_ms)
        )

    def _on_shutdown_response(self, response: ShutdownResponse, now_ms: int) -> list[Effect]:
        if self._shutdown is None:
            return []
        leads = leads_any(self._replicas)
        return self._continue_shutdown(
            self._shutdown.on_response(response, leads=leads, now_ms=now_ms)
        )

    def _continue_shutdown(
        self, decided: ShutdownRequest | ShutdownEnded | ShutdownProgressed | None
    ) -> list[Effect]:
        if decided is None:
            return []
        if isinstance(decided, ShutdownRequest):
            return self._connection.send(decided)
        if isinstance(decided, ShutdownEnded):
            self._shutdown = None
        return [decided]
