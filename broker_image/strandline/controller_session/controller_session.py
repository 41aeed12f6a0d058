"""The machine: keeps one session with the present holder of the controller Lease.

Driven by a shell of the runtime or of the simulator. It decides nothing about replicas: a
broker without a session goes on as it was. Invariant: at most one session, one lookup and one
probe are out at a time, and what belongs to an earlier one changes no state here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from strandline.controller.death_probes import DeathEvidence, judge_probe
from strandline.controller.store_events import ControllerEpochSeen, HolderDied
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.model import (
    GRPC_LISTENER,
    HolderIdentity,
    Registration,
)

from .controlled_shutdown import ControlledShutdown
from .effects import (
    CloseStream,
    DialHolder,
    Effect,
    FindHolder,
    HolderDead,
    HolderUnknown,
    ProbeHolder,
    SendMessage,
    ShutdownEnded,
    StepController,
    StepReplicas,
)
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
from .hosting import HostedReplicas, hello_of, hosted_by, leads_any
from .messages import (
    BrokerMessage,
    CommandResponse,
    Heartbeat,
    IsrProposal,
    MetadataUpdate,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)
from .metadata_cache import MetadataCache
from .states import Holder, LookingUp, NoHolder, Open, Probing, Redialling, SessionState
from .timing import ControllerSessionTiming
from .unsent_proposals import UnsentProposals


class ControllerSession:
    """One broker's side of the session; fields are changed by its own methods only."""

    def __init__(
        self,
        registration: Registration,
        *,
        replicas: HostedReplicas,
        metadata: MetadataCache,
        timing: ControllerSessionTiming,
    ) -> None:
        self._registration = registration
        self._replicas = replicas
        self._metadata = metadata
        self._timing = timing
        self._holder_identity = ""
        self._state: SessionState = NoHolder()
        self._shutdown: ControlledShutdown | None = None
        self._unsent = UnsentProposals()
        self._pause_ms = timing.redial_ms
        self._last_id = 0

    @property
    def state(self) -> SessionState:
        """What the session is doing; for tests and for the simulator's end."""
        return self._state

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `TimePassed` is due, None if only events matter."""
        due = [] if self._shutdown is None else [self._shutdown.due_ms]
        match self._state:
            case Open(heartbeat_due_ms=due_ms) | Redialling(due_ms=due_ms):
                due.append(due_ms)
            case Probing(due_ms=int(due_ms)):
                due.append(due_ms)
            case _:
                pass
        return min(due, default=None)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event, return what is to be done."""
        match event:
            case MessageReceived():
                return self._on_message(event, now_ms)
            case TimePassed():
                return [*self._on_time(now_ms), *self._on_shutdown_time(now_ms)]
            case IsrProposed(proposal=proposal):
                return self._on_proposed(proposal)
            case CommandPerformed():
                return self._on_command_performed(event)
            case HolderObserved(holder_identity=identity):
                return self._on_holder_observed(identity)
            case HolderLookedUp():
                return self._on_holder_looked_up(event, now_ms)
            case StreamBroken():
                return self._on_stream_broken(event)
            case HolderProbed():
                return self._on_holder_probed(event, now_ms)
            case ShutdownBegun():
                self._shutdown = ControlledShutdown(self._timing, now_ms=now_ms)
                return self._on_shutdown_time(now_ms)
            case _:
                assert_never(event)

    # --- the holder of the Lease ----------------------------------------------------------

    def _on_holder_observed(self, identity: str) -> list[Effect]:
        """Follow the Lease: another holder ends whatever was under way with the former one."""
        if identity == self._holder_identity:
            return []
        self._holder_identity = identity
        self._pause_ms = self._timing.redial_ms
        effects: list[Effect] = []
        if isinstance(self._state, Open):
            effects.append(CloseStream(session_id=self._state.session_id))
        return [*effects, *self._look_up()]

    def _look_up(self) -> list[Effect]:
        holder = HolderIdentity.parse(self._holder_identity)
        if holder is None:
            self._state = NoHolder()
            unknown = HolderUnknown(holder_identity=self._holder_identity)
            return [unknown] if self._holder_identity else []
        self._state = LookingUp(lookup_id=self._next_id())
        return [FindHolder(lookup_id=self._state.lookup_id, broker_id=holder.broker_id)]

    def _on_holder_looked_up(self, event: HolderLookedUp, now_ms: int) -> list[Effect]:
        """Dial the holder if the process that signed the Lease is the one registered."""
        state, identity = self._state, HolderIdentity.parse(self._holder_identity)
        if not isinstance(state, LookingUp) or event.lookup_id != state.lookup_id:
            return []
        found = event.registration
        endpoint = None if found is None else found.endpoint(GRPC_LISTENER)
        if (
            identity is None
            or found is None
            or endpoint is None
            or found.incarnation != identity.incarnation
        ):
            return self._redial(now_ms)
        session_id = self._next_id()
        self._state = Open(
            session_id=session_id,
            holder=Holder(identity=identity, endpoint=endpoint),
            heartbeat_due_ms=now_ms + self._timing.heartbeat_interval_ms,
            report_due_ms=now_ms + self._timing.hosted_report_interval_ms,
        )
        dial = DialHolder(session_id=session_id, broker_id=identity.broker_id, endpoint=endpoint)
        return [dial, *self._send(hello_of(self._registration, self._replicas))]

    def _redial(self, now_ms: int) -> list[Effect]:
        """Look the holder up again after a pause, and after a longer one the next time."""
        self._state = Redialling(due_ms=now_ms + self._pause_ms)
        self._pause_ms = min(2 * self._pause_ms, self._timing.redial_max_ms)
        return []

    # --- the stream -----------------------------------------------------------------------

    def _on_stream_broken(self, event: StreamBroken) -> list[Effect]:
        """Look whether the holder is dead: a broken stream alone proves nothing."""
        state = self._state
        if not isinstance(state, Open) or state.session_id != event.session_id:
            return []
        return self._probe(state.holder, refusals=0)

    def _probe(self, holder: Holder, *, refusals: int) -> list[Effect]:
        probe_id = self._next_id()
        self._state = Probing(holder=holder, probe_id=probe_id, refusals=refusals, due_ms=None)
        return [
            ProbeHolder(
                probe_id=probe_id,
                broker_id=holder.identity.broker_id,
                incarnation=holder.identity.incarnation,
                endpoint=holder.endpoint,
                deadline_ms=self._timing.probe_deadline_ms,
            )
        ]

    def _on_holder_probed(self, event: HolderProbed, now_ms: int) -> list[Effect]:
        state = self._state
        if not isinstance(state, Probing) or event.probe_id != state.probe_id:
            return []
        evidence = judge_probe(
            event.verdict,
            refusals_before=state.refusals,
            refused_probes_dead=self._timing.refused_probes_dead,
        )
        if evidence is DeathEvidence.NOT_YET:
            due_ms = now_ms + self._timing.probe_interval_ms
            self._state = replace(state, refusals=state.refusals + 1, due_ms=due_ms)
            return []
        self._redial(now_ms)
        if evidence is DeathEvidence.NONE:
            return []
        identity = str(state.holder.identity)
        died = HolderDied(holder_identity=identity)
        return [HolderDead(holder_identity=identity), StepController(event=died)]

    def _on_time(self, now_ms: int) -> list[Effect]:
        match self._state:
            case Open() as state if state.heartbeat_due_ms <= now_ms:
                return self._beat(state, now_ms)
            case Redialling(due_ms=due_ms) if due_ms <= now_ms:
                return self._look_up()
            case Probing(due_ms=int(due_ms)) as state if due_ms <= now_ms:
                return self._probe(state.holder, refusals=state.refusals)
            case _:
                return []

    def _beat(self, state: Open, now_ms: int) -> list[Effect]:
        state.heartbeat_due_ms = now_ms + self._timing.heartbeat_interval_ms
        hosted = None
        if state.report_due_ms <= now_ms:
            state.report_due_ms = now_ms + self._timing.hosted_report_interval_ms
            hosted = hosted_by(self._replicas)
        return self._send(Heartbeat(broker_epoch=self._registration.broker_epoch, hosted=hosted))

    # --- what the controller says ---------------------------------------------------------

    def _on_message(self, event: MessageReceived, now_ms: int) -> list[Effect]:
        """Take a message, also a late one: epochs fence it, not the session it came on."""
        state, message = self._state, event.message
        is_present = isinstance(state, Open) and state.session_id == event.session_id
        if is_present:
            self._pause_ms = self._timing.redial_ms
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
                self._redial(now_ms)
                return [CloseStream(session_id=event.session_id)]
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
        """Send a proposal; without a session it waits for one."""
        if not isinstance(self._state, Open):
            self._unsent.keep(proposal)
            return []
        self._unsent.forget(proposal.tp)
        epoch = self._registration.broker_epoch
        return self._send(IsrProposal(broker_epoch=epoch, proposal=proposal))

    def _on_command_performed(self, event: CommandPerformed) -> list[Effect]:
        """Send the response; without a session the next hello says it all."""
        response = event.response
        epoch = self._replicas.controller_epoch
        effects = self._send(CommandResponse(response=response, highest_controller_epoch=epoch))
        is_full = isinstance(response, ReplyLeaderAndIsr) and response.full
        if is_full and response.error is ErrorCode.NONE:
            effects.extend(self._unsent.give_up())
        return effects

    # --- controlled shutdown --------------------------------------------------------------

    def _on_shutdown_time(self, now_ms: int) -> list[Effect]:
        """Send the next request, or give the one in flight up."""
        shutdown = self._shutdown
        if shutdown is None or now_ms < shutdown.due_ms:
            return []
        if shutdown.is_in_flight or not isinstance(self._state, Open):
            return self._judge_shutdown(shutdown, None, now_ms)
        epoch = self._registration.broker_epoch
        request_id = shutdown.begin_request(now_ms)
        return self._send(ShutdownRequest(request_id=request_id, broker_epoch=epoch))

    def _on_shutdown_response(self, message: ShutdownResponse, now_ms: int) -> list[Effect]:
        shutdown = self._shutdown
        if shutdown is None or not shutdown.awaits(message.request_id):
            return []
        remaining = message.remaining if message.error is ErrorCode.NONE else None
        return self._judge_shutdown(shutdown, remaining, now_ms)

    def _judge_shutdown(
        self, shutdown: ControlledShutdown, remaining: int | None, now_ms: int
    ) -> list[Effect]:
        judged = shutdown.judge(remaining, leads=leads_any(self._replicas), now_ms=now_ms)
        if isinstance(judged, ShutdownEnded):
            self._shutdown = None
        return [] if judged is None else [judged]

    # --- sending --------------------------------------------------------------------------

    def _send(self, message: BrokerMessage) -> list[Effect]:
        state = self._state
        if not isinstance(state, Open):
            return []
        return [SendMessage(session_id=state.session_id, message=message)]

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
