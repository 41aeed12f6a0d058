"""The connection with the process that holds the controller Lease; used by `ControllerSession`.

`HolderConnection` finds the holder, keeps one stream to it with heartbeats, probes it when the
stream breaks, and dials again. It knows no messages beyond hello and heartbeat. Invariant: at most
one stream, one lookup and one probe are out at a time, and a response to an earlier one changes
nothing.

    NoHolder --Lease names a broker--> LookingUp --registration matches--> Open
       ^                                  |  ^                             |  |
       |                              no match  pause over          refused|  |stream broke
       |                                  v  |                             v  v
    Lease released                     Redialling <------verdict------- Probing
                                          ^-------------------------------'

A Lease that changes hands leads from every state to LookingUp (or NoHolder). Each redialling reads
the Lease, too. A controller that introduces itself is dialled at once, from every state but Open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from strandline.backoff import Backoff
from strandline.controller.death_probes import proves_death
from strandline.controller.effects import Introduction
from strandline.controller.events import ProbeVerdict
from strandline.controller.store_events import HolderDied
from strandline.model import GRPC_LISTENER, Endpoint, HolderIdentity, Registration

from . import effects
from .effects import Effect
from .events import HolderLookedUp, HolderProbed, StreamBroken
from .hosting import BrokerReport
from .messages import BrokerMessage
from .timing import ControllerSessionTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that signed the controller Lease, and where it listens."""

    identity: HolderIdentity
    endpoint: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class NoHolder:
    """The Lease is unseen, released, or its holder is no broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookingUp:
    """A read of the holder's registration is out."""

    lookup_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Redialling:
    """A pause before the holder is looked up again."""

    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A stream is open; the heartbeat at due_ms has a hosted report from report_due_ms on."""

    session_id: int
    holder: Holder
    due_ms: int
    report_due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """The stream broke, and probes look for the holder; due_ms is None while one is out."""

    holder: Holder
    probe_id: int
    refusals: int
    due_ms: int | None


ConnectionState = NoHolder | LookingUp | Redialling | Open | Probing


def due_of(state: ConnectionState) -> int | None:
    """Return when `on_time` is due in a state, None if the state waits for an event alone."""
    return None if isinstance(state, NoHolder | LookingUp) else state.due_ms


def holder_of(signed: str, found: Registration | None) -> Holder | None:
    """Return the holder, None unless the registered process signed the Lease."""
    identity = HolderIdentity.parse(signed)
    if identity is None or found is None or found.incarnation != identity.incarnation:
        return None
    endpoint = found.endpoint(GRPC_LISTENER)
    return None if endpoint is None else Holder(identity=identity, endpoint=endpoint)


class HolderConnection:
    """The way to the present holder; changed by its own methods alone."""

    def __init__(self, report: BrokerReport, *, timing: ControllerSessionTiming) -> None:
        self._report = report
        self._timing = timing
        self._holder_identity = ""
        self.state: ConnectionState = NoHolder()
        self._redial_pauses = Backoff(first_ms=timing.redial_ms, max_ms=timing.redial_max_ms)
        self._redials = 0
        self._last_id = 0

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `on_time` is due, None if only events matter."""
        return due_of(self.state)

    @property
    def is_open(self) -> bool:
        """Tell whether a session is open, so that `send` sends."""
        return isinstance(self.state, Open)

    def send(self, message: BrokerMessage) -> list[Effect]:
        """Send on the open session; without one drop the message."""
        state = self.state
        if not isinstance(state, Open):
            return []
        return [effects.SendMessage(session_id=state.session_id, message=message)]

    def on_volume_changed(self, now_ms: int, *, is_full: bool) -> list[Effect]:
        """Say so with a heartbeat at once; every later one repeats it."""
        self._report.note_volume(is_full=is_full)
        return self._beat(self.state, now_ms) if isinstance(self.state, Open) else []

    def on_holder_observed(self, identity: str) -> list[Effect]:
        """Follow the Lease: a new holder ends lookup, stream and probe of the former one."""
        if identity == self._holder_identity:
            return []
        self._holder_identity = identity
        self._redials = 0
        if isinstance(self.state, Open):
            return [effects.CloseStream(session_id=self.state.session_id), *self._look_up()]
        return self._look_up()

    def on_holder_read(self, identity: str) -> list[Effect]:
        """Follow a read of the Lease, unless a session is open: the read may be older."""
        return [] if self.is_open else self.on_holder_observed(identity)

    def on_introduced(self, found: Introduction, now_ms: int) -> list[Effect]:
        """Dial the controller that says it has no session with this broker (ADR 0028).

        An open session ends only for a controller of a higher epoch than this broker has obeyed.
        """
        state, obeyed = self.state, self._report.controller_epoch
        identity = HolderIdentity.parse(found.holder_identity)
        if identity is None or found.controller_epoch < obeyed:
            return []
        closing: list[Effect] = []
        if isinstance(state, Open):
            if state.holder.identity == identity or found.controller_epoch == obeyed:
                return []
            closing.append(effects.CloseStream(session_id=state.session_id))
        self._holder_identity = found.holder_identity
        self._redials = 0
        return closing + self._dial(Holder(identity=identity, endpoint=found.endpoint), now_ms)

    def _look_up(self) -> list[Effect]:
        identity = HolderIdentity.parse(self._holder_identity)
        if identity is None:
            self.state = NoHolder()
            unknown = effects.HolderUnknown(holder_identity=self._holder_identity)
            return [unknown] if self._holder_identity else []
        self.state = LookingUp(lookup_id=self._next_id())
        return [effects.FindHolder(lookup_id=self.state.lookup_id, broker_id=identity.broker_id)]

    def on_holder_looked_up(self, event: HolderLookedUp, now_ms: int) -> list[Effect]:
        """Dial the holder if the registered process is the one that signed the Lease."""
        state = self.state
        if not isinstance(state, LookingUp) or event.lookup_id != state.lookup_id:
            return []
        holder = holder_of(self._holder_identity, event.registration)
        if holder is None:
            self._redial(now_ms)
            return []
        return self._dial(holder, now_ms)

    def _dial(self, holder: Holder, now_ms: int) -> list[Effect]:
        """Open a stream, and say hello."""
        self.state = opened = Open(
            session_id=self._next_id(),
            holder=holder,
            due_ms=now_ms + self._timing.heartbeat_interval_ms,
            report_due_ms=now_ms + self._timing.hosted_report_interval_ms,
        )
        dial = effects.DialHolder(
            session_id=opened.session_id,
            broker_id=holder.identity.broker_id,
            endpoint=holder.endpoint,
        )
        hello = self.send(self._report.hello())
        return [dial, *hello, *(self._beat(opened, now_ms) if self._report.is_full else [])]

    def _redial(self, now_ms: int) -> None:
        """Look the holder up again after a pause, which grows each time."""
        self._redials += 1
        self.state = Redialling(due_ms=now_ms + self._redial_pauses.after_ms(self._redials))

    def on_message(self, session_id: int) -> bool:
        """Tell whether a message came on the open session: the next pause is short then."""
        is_present = isinstance(self.state, Open) and self.state.session_id == session_id
        if is_present:
            self._redials = 0
        return is_present

    def on_refused(self, session_id: int, now_ms: int) -> list[Effect]:
        """Close the open session, and dial again: its record may come later."""
        self._redial(now_ms)
        return [effects.CloseStream(session_id=session_id)]

    def on_stream_broken(self, event: StreamBroken) -> list[Effect]:
        """Probe the holder: a broken stream alone proves nothing."""
        state = self.state
        if not isinstance(state, Open) or state.session_id != event.session_id:
            return []
        return self._probe(state.holder, refusals=0)

    def _probe(self, holder: Holder, *, refusals: int) -> list[Effect]:
        probe_id = self._next_id()
        self.state = Probing(holder=holder, probe_id=probe_id, refusals=refusals, due_ms=None)
        return [
            effects.ProbeHolder(
                probe_id=probe_id,
                broker_id=holder.identity.broker_id,
                incarnation=holder.identity.incarnation,
                endpoint=holder.endpoint,
                deadline_ms=self._timing.probe_deadline_ms,
            )
        ]

    def on_holder_probed(self, event: HolderProbed, now_ms: int) -> list[Effect]:
        """Judge a probe; report a proven death to the controller of this process."""
        state = self.state
        if not isinstance(state, Probing) or event.probe_id != state.probe_id:
            return []
        is_dead = proves_death(
            event.verdict,
            refusals_before=state.refusals,
            refused_probes_dead=self._timing.refused_probes_dead,
        )
        if event.verdict is ProbeVerdict.REFUSED and not is_dead:
            due_ms = now_ms + self._timing.probe_interval_ms
            self.state = replace(state, refusals=state.refusals + 1, due_ms=due_ms)
            return []
        self._redial(now_ms)
        if not is_dead:
            return []
        identity = str(state.holder.identity)
        died = HolderDied(holder_identity=identity)
        return [effects.HolderDead(holder_identity=identity), effects.StepController(event=died)]

    def on_time(self, now_ms: int) -> list[Effect]:
        """Do what is due: a heartbeat, a lookup or a probe."""
        state, due_ms = self.state, due_of(self.state)
        if due_ms is None or now_ms < due_ms:
            return []
        if isinstance(state, Open):
            return self._beat(state, now_ms)
        if isinstance(state, Probing):
            return self._probe(state.holder, refusals=state.refusals)
        # The watch of the Lease may be broken without an error.
        return [effects.ReadHolder(), *self._look_up()]

    def report_with_next_heartbeat(self) -> None:
        """Let the next heartbeat carry a hosted report."""
        if isinstance(self.state, Open):
            self.state = replace(
                self.state, report_due_ms=min(self.state.due_ms, self.state.report_due_ms)
            )

    def _beat(self, state: Open, now_ms: int) -> list[Effect]:
        heartbeat = self._report.heartbeat()
        if state.report_due_ms <= now_ms:
            heartbeat = self._report.full_heartbeat()
            state = replace(state, report_due_ms=now_ms + self._timing.hosted_report_interval_ms)
        self.state = replace(state, due_ms=now_ms + self._timing.heartbeat_interval_ms)
        return self.send(heartbeat)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
