"""The network: values go to addresses, over links that lose, repeat, delay and cut them.

A receiver listens at an address; a sender knows the address alone and learns nothing of the
fate of what it sent, but for what a real network tells it: `Refused` if nothing listens there,
`StreamEnded` at both ends of a stream that lost something or whose other end died. A link is
(source host, destination host, channel) and keeps the order of first copies; late copies come
whenever they come. What was under way when a stream broke may still arrive: the fences of the
machines must hold against that. A host always reaches itself.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple, Protocol

from .fault_counts import Anomaly, FaultCounts
from .plan import ANY_PEER, Plan
from .present_conditions import PresentConditions
from .prng import Prng, key_of
from .virtual_time import VirtualTime

LISTENER = 0
REFUSED_AFTER_MS = 1
CLOSED_AFTER_MS = 1
DEATH_HEARD_AFTER_MS = 2


class Address(NamedTuple):
    """Where values go. Port LISTENER is a host's present process, another one a certain process.

    Brokers have their ids as hosts, clients have negative hosts.
    """

    host: int
    port: int = LISTENER


class Receiver(Protocol):
    """What listens at an address."""

    def receive(self, source: Address, value: object) -> None:
        """Take a value that arrived."""


class Channel(StrEnum):
    """Kinds of traffic; each has its own links between two hosts."""

    SESSION = "session"
    FETCH = "fetch"
    PROBE = "probe"
    CLIENT = "client"


class Delivery(Enum):
    """What the network may do to a value that travels on a stream."""

    ONCE = "once"
    """It arrives once, or the stream breaks."""
    REPEATABLE = "repeatable"
    """A second copy may arrive later."""
    SKIPPABLE = "skippable"
    """Its loss breaks nothing: on a real stream it would only be late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnStream:
    """A message and the number of the stream on which it came."""

    stream: int
    message: object


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnded:
    """A stream ended, and the receiver of this value did not close it."""

    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Nothing listens where the value was sent; a host without power stays silent instead."""

    value: object


@dataclass(slots=True)
class _Link:
    prng: Prng
    last_arrival_ms: int = 0


class _Stream(NamedTuple):
    client: Address
    server: Address
    channel: Channel

    def other_end(self, end: Address) -> Address:
        return self.server if end == self.client else self.client


class Network:
    """All hosts, links and streams of one schedule."""

    def __init__(
        self,
        virtual_time: VirtualTime,
        plan: Plan,
        *,
        conditions: PresentConditions,
        fault_counts: FaultCounts,
    ) -> None:
        self._virtual_time = virtual_time
        self._fault_counts = fault_counts
        self._seed = plan.seed
        self._conditions = conditions
        self._break_detected_ms = plan.timing.break_detected_ms
        """Until both ends of a stream hear of a loss."""
        self._silence_detected_ms = plan.timing.session_timeout_ms
        """Until the other end hears of a death that the network hides."""
        self._receivers: dict[Address, Receiver] = {}
        self._silent_hosts: set[int] = set()
        self._links: dict[tuple[int, int, Channel], _Link] = {}
        self._streams: dict[int, _Stream] = {}
        self._stream_numbers = itertools.count(1)
        self._cut_until_ms: dict[tuple[int, int], int] = {}

    def register(self, address: Address, receiver: Receiver) -> None:
        """Let a receiver listen at an address."""
        self._receivers[address] = receiver

    def unregister(self, address: Address) -> None:
        """Listen no more; what arrives there is refused."""
        self._receivers.pop(address, None)

    def power_on(self, host: int) -> None:
        """Let a host refuse what nothing on it listens for."""
        self._silent_hosts.discard(host)

    def power_off(self, host: int) -> None:
        """Let a host fall silent, and everything on it end."""
        self._silent_hosts.add(host)
        self.end_process(host)

    def end_process(self, host: int) -> None:
        """Let nothing listen on a host; the other ends of its streams hear of it."""
        for address in [each for each in self._receivers if each.host == host]:
            del self._receivers[address]
        for number, stream in self._streams.items():
            if host in (stream.client.host, stream.server.host):
                other = stream.server.host if stream.client.host == host else stream.client.host
                is_hidden = host in self._silent_hosts or self.is_cut(host, other)
                self._break_after(
                    self._silence_detected_ms if is_hidden else DEATH_HEARD_AFTER_MS, number
                )

    def cut(self, source: int, destination: int, until_ms: int) -> None:
        """Lose values in one direction; ANY_PEER stands for any host."""
        key = (source, destination)
        self._cut_until_ms[key] = max(self._cut_until_ms.get(key, 0), until_ms)

    def heal(self) -> None:
        """End all cuts."""
        self._cut_until_ms.clear()

    def is_cut(self, source: int, destination: int) -> bool:
        """Tell whether values of this direction are lost now."""
        if not self._cut_until_ms or source == destination:
            return False
        now_ms, until_ms = self._virtual_time.now_ms, self._cut_until_ms
        return (
            until_ms.get((source, destination), 0) > now_ms
            or until_ms.get((source, ANY_PEER), 0) > now_ms
            or until_ms.get((ANY_PEER, destination), 0) > now_ms
        )

    def send(self, source: Address, destination: Address, value: object, channel: Channel) -> None:
        """Send a value that belongs to no stream: it arrives once, or is lost without a word."""
        self._carry(source, destination, value, channel, Delivery.ONCE)

    def open_stream(self, client: Address, server: Address, channel: Channel) -> int:
        """Return the number of a new stream; no other stream of the schedule has it."""
        number = next(self._stream_numbers)
        self._streams[number] = _Stream(client, server, channel)
        return number

    def close_stream(self, number: int, end: Address) -> None:
        """Close a stream; the other end hears of it."""
        stream = self._streams.pop(number, None)
        if stream is not None:
            other, broken = stream.other_end(end), StreamEnded(stream=number)
            self._virtual_time.after(CLOSED_AFTER_MS, self._tell, other, end, broken)

    def send_on(
        self, number: int, source: Address, message: object, delivery: Delivery = Delivery.ONCE
    ) -> None:
        """Send a message to the other end of a stream; a stream that is over takes nothing."""
        stream = self._streams.get(number)
        if stream is None:
            return
        value = OnStream(stream=number, message=message)
        arrives = self._carry(source, stream.other_end(source), value, stream.channel, delivery)
        if not arrives and delivery is not Delivery.SKIPPABLE:
            self._break_after(self._break_detected_ms, number)

    def _carry(
        self,
        source: Address,
        destination: Address,
        value: object,
        channel: Channel,
        delivery: Delivery,
    ) -> bool:
        """Draw the fate of a value; return false if it is lost."""
        link = self._link(source.host, destination.host, channel)
        conditions, prng, now_ms = self._conditions.now, link.prng, self._virtual_time.now_ms
        fate = prng.draw()
        delay_ms = prng.between(conditions.delay_min_ms, conditions.delay_max_ms)
        arguments = (self._arrive, source, destination, value)
        if source.host != destination.host:
            if fate % 1000 < conditions.loss or self.is_cut(source.host, destination.host):
                self._fault_counts[Anomaly.MESSAGE_LOST] += 1
                return False
            if (fate >> 16) % 1000 < conditions.slow:
                self._fault_counts[Anomaly.MESSAGE_SLOW] += 1
                delay_ms += prng.between(0, conditions.slow_max_ms)
            repeats = (fate >> 32) % 1000 < conditions.duplicates
            if repeats and delivery is Delivery.REPEATABLE:
                self._fault_counts[Anomaly.MESSAGE_REPEATED] += 1
                late_ms = prng.between(0, conditions.slow_max_ms)
                self._virtual_time.at(now_ms + delay_ms + late_ms, *arguments)
        arrival_ms = max(now_ms + delay_ms, link.last_arrival_ms)
        link.last_arrival_ms = arrival_ms
        self._virtual_time.at(arrival_ms, *arguments)
        return True

    def _arrive(self, source: Address, destination: Address, value: object) -> None:
        if self._tell(destination, source, value):
            return
        silent = destination.host in self._silent_hosts
        silent = silent or self.is_cut(destination.host, source.host)
        if isinstance(value, OnStream):
            self._break_after(self._break_detected_ms if silent else REFUSED_AFTER_MS, value.stream)
        elif destination.port == LISTENER and not silent:
            refused = Refused(value=value)
            self._virtual_time.after(REFUSED_AFTER_MS, self._tell, source, destination, refused)

    def _break_after(self, delay_ms: int, number: int) -> None:
        self._virtual_time.after(delay_ms, self._break, number)

    def _break(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            broken = StreamEnded(stream=number)
            self._tell(stream.client, stream.server, broken)
            self._tell(stream.server, stream.client, broken)

    def _tell(self, destination: Address, source: Address, value: object) -> bool:
        """Return false if nothing listens there."""
        receiver = self._receivers.get(destination)
        if receiver is not None:
            receiver.receive(source, value)
        return receiver is not None

    def _link(self, source: int, destination: int, channel: Channel) -> _Link:
        key = (source, destination, channel)
        if key not in self._links:
            self._links[key] = _Link(Prng(key_of(self._seed, "link", *key)))
        return self._links[key]
