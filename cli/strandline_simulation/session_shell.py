"""Performs the effects of a broker's controller session: lookups, streams and probes.

The deciding is `strandline.controller_session`, the same as in a real broker (ADR 0019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from strandline import component_settings
from strandline.config.replication import ControllerConfig, ReplicationConfig
from strandline.config.timing import TimingConfig
from strandline.controller.events import ProbeVerdict
from strandline.controller.store_events import StoreOutcome
from strandline.controller_session import effects as done
from strandline.controller_session.controller_session import ControllerSession
from strandline.controller_session.events import (
    Event,
    HolderLookedUp,
    HolderProbed,
    MessageReceived,
    StreamBroken,
    TimePassed,
)
from strandline.controller_session.messages import (
    BrokerMessage,
    ControllerMessage,
    Heartbeat,
    IsrProposal,
)
from strandline.controller_session.timing import ControllerSessionTiming
from strandline.model import StoredBroker

from .driver import SimulatedDriver
from .environment import SimulatedEnvironment
from .network import Address, Channel, Delivery
from .plan import Timing
from .probes import Prober
from .process_port import ProcessPort


def session_timing(timing: Timing) -> ControllerSessionTiming:
    """Return the session's figures for a plan: the configuration's, with the plan's times."""
    shipped = component_settings.controller_session(
        TimingConfig(), ControllerConfig(), ReplicationConfig()
    )
    return replace(
        shipped,
        heartbeat_interval_ms=timing.heartbeat_ms,
        hosted_report_interval_ms=timing.hosted_report_ms,
        probe_deadline_ms=min(shipped.probe_deadline_ms, timing.session_timeout_ms),
        shutdown_response_max_ms=400,
        shutdown_retry_ms=100,
        shutdown_stalled_ms=800,
    )


def delivery_of(message: BrokerMessage) -> Delivery:
    """Return what the network may do to a message of a broker."""
    match message:
        case Heartbeat():
            return Delivery.SKIPPABLE
        case IsrProposal():
            return Delivery.REPEATABLE
        case _:
            return Delivery.ONCE


class SimulatedSessionShell:
    """The broker's end of its session streams; on_shutdown_ended is the process's."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        port: ProcessPort,
        *,
        session: ControllerSession,
        prober: Prober,
        on_shutdown_ended: Callable[[], None],
    ) -> None:
        self._environment = environment
        self._port = port
        self._prober = prober
        self._on_shutdown_ended = on_shutdown_ended
        self._streams: dict[int, int] = {}
        """By session id; a closed one stays, so that late messages find their session."""
        self._session_ids: dict[int, int] = {}
        self._driver: SimulatedDriver[Event, done.Effect] = SimulatedDriver(
            session,
            virtual_time=environment.virtual_time,
            queue=port.queue,
            deliver=port.deliver,
            perform=self._perform,
            tick=TimePassed(),
        )

    def step(self, event: Event) -> None:
        """Step the session."""
        self._environment.trace.record(self._port.broker_id, event)
        self._driver.step(event)

    # --- streams --------------------------------------------------------------------------

    def on_message(self, stream: int, message: ControllerMessage) -> None:
        """Take a message of a controller, also a late one."""
        session_id = self._session_ids[stream]
        # Not into the trace: the machines that the message is for show it there.
        self._driver.step(MessageReceived(session_id=session_id, message=message))

    def on_stream_broken(self, stream: int) -> None:
        """Take note that a stream ended."""
        session_id = self._session_ids.get(stream)
        if session_id is not None:
            self._port.step_session(StreamBroken(session_id=session_id))

    # --- effects --------------------------------------------------------------------------

    def _perform(self, effects: Sequence[done.Effect]) -> None:
        port, network = self._port, self._environment.network
        for effect in effects:
            match effect:
                case done.SendMessage():
                    stream, message = self._streams[effect.session_id], effect.message
                    network.send_on(stream, port.address, message, delivery_of(message))
                case done.StepReplicas():
                    port.step_core(effect.event)
                case done.StepController():
                    port.step_controller(effect.event)
                case done.FindHolder():
                    self._find_holder(effect)
                case done.DialHolder():
                    stream = network.open_stream(
                        port.address, Address(effect.broker_id), Channel.SESSION
                    )
                    self._streams[effect.session_id] = stream
                    self._session_ids[stream] = effect.session_id
                case done.CloseStream():
                    network.close_stream(self._streams[effect.session_id], port.address)
                case done.ProbeHolder():
                    self._probe(effect)
                case done.ShutdownEnded():
                    self._on_shutdown_ended()
                case done.ShutdownProgressed() | done.HolderUnknown() | done.HolderDead():
                    pass

    def _find_holder(self, effect: done.FindHolder) -> None:
        store = self._environment.api.store

        def on_found(outcome: StoreOutcome, found: StoredBroker | None) -> None:
            readable = outcome is StoreOutcome.OK and found is not None
            self._port.step_session(
                HolderLookedUp(
                    lookup_id=effect.lookup_id,
                    registration=found.registration if readable and found else None,
                )
            )

        self._environment.api.call(self._port, lambda: store.brokers[effect.broker_id], on_found)

    def _probe(self, effect: done.ProbeHolder) -> None:
        def on_verdict(verdict: ProbeVerdict) -> None:
            self._port.step_session(HolderProbed(probe_id=effect.probe_id, verdict=verdict))

        self._prober.probe(effect.broker_id, effect.incarnation, effect.deadline_ms, on_verdict)
