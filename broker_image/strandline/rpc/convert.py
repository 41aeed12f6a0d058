"""Protobuf messages of a session <-> values of `controller_session.messages`, for both ends.

A value has the fields of its message, under the same names; the pairs below say which fields are
not copied as they are. Raises ValueError on messages, enum values and ids that the schema allows
and we do not.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from strandline.controller.effects import Introduction
from strandline.controller.events import HostedReplica
from strandline.controller_session.messages import (
    CommandResponse,
    Heartbeat,
    Hello,
    IsrProposal,
    MetadataUpdate,
    RestoreReplica,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)
from strandline.core.effects import ProposeIsr, ReplyStopReplica
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.model import (
    Endpoint,
    IsrEntry,
    LiveBroker,
    PartitionCommand,
    PartitionState,
    Recovery,
    TopicPartition,
    TopicSettings,
    TrashedReplica,
)
from strandline_api.v1 import controller_pb2 as pb


class Part(NamedTuple):
    """How to convert what a field holds."""

    to_wire: Callable[[Any], Any]
    from_wire: Callable[[Any], Any]


class Pair:
    """A value and its message; parts are the fields that are not copied as they are."""

    def __init__(self, value: type, message: type[Message], **parts: Part | Pair) -> None:
        self.value = value
        self.message = message
        self._copied = tuple(name for name in _field_names(value) if name not in parts)
        self._parts = tuple(parts.items())

    def to_wire(self, value: Any) -> Any:
        """Return the message of a value."""
        fields = {name: getattr(value, name) for name in self._copied}
        for name, part in self._parts:
            fields[name] = part.to_wire(getattr(value, name))
        return self.message(**fields)

    def from_wire(self, wire: Any) -> Any:
        """Return the value of a message."""
        fields = {name: getattr(wire, name) for name in self._copied}
        for name, part in self._parts:
            fields[name] = part.from_wire(getattr(wire, name))
        return self.value(**fields)


def _field_names(value: Any) -> tuple[str, ...]:
    """Return the names of the fields of a named tuple or a dataclass."""
    if issubclass(value, tuple):
        return tuple(value._fields)
    return tuple(field.name for field in dataclasses.fields(value))


class _Heartbeat(Pair):
    """A heartbeat without a report of hosted replicas differs from one with an empty report."""

    def to_wire(self, value: Heartbeat) -> Any:
        wire = super().to_wire(value)
        wire.carries_hosted = value.hosted is not None
        return wire

    def from_wire(self, wire: pb.Heartbeat) -> Any:
        heartbeat = super().from_wire(wire)
        return heartbeat if wire.carries_hosted else replace(heartbeat, hosted=None)


class _AlterPartitionAnswer(Pair):
    """A response may be without a stored state."""

    def from_wire(self, wire: pb.AlterPartitionAnswer) -> Any:
        response = super().from_wire(wire)
        return response if wire.HasField("stored") else replace(response, stored=None)


class _Settings(Pair):
    """A setting that the sender does not know has its default, which deletes nothing; 0 would."""

    def from_wire(self, wire: pb.TopicSettings) -> Any:
        message: Message = wire
        default = TopicSettings()
        optional = (each.name for each in message.DESCRIPTOR.fields if each.has_presence)
        absent = {name: getattr(default, name) for name in optional if not message.HasField(name)}
        return replace(super().from_wire(wire), **absent)


class _Around(Pair):
    """A value that holds another; the message has the fields of both side by side."""

    def __init__(self, value: type, name: str, inner: Pair) -> None:
        super().__init__(value, inner.message, **{name: inner})
        self._name = name
        self._inner = inner

    def to_wire(self, value: Any) -> Any:
        wire = self._inner.to_wire(getattr(value, self._name))
        for name in self._copied:
            setattr(wire, name, getattr(value, name))
        return wire

    def from_wire(self, wire: Any) -> Any:
        own = {name: getattr(wire, name) for name in self._copied}
        return self.value(**own, **{self._name: self._inner.from_wire(wire)})


class Union:
    """An outer message, of which one field is set, and the pairs of what that field may hold."""

    def __init__(self, outer: type[Message], *pairs: Pair) -> None:
        self.outer = outer
        names = {field.message_type: field.name for field in outer.DESCRIPTOR.fields}
        self._names = {pair.value: names[pair.message.DESCRIPTOR] for pair in pairs}
        self._pairs = {names[pair.message.DESCRIPTOR]: pair for pair in pairs}

    def encode(self, value: object) -> Any:
        """Return the outer message of a value."""
        name = self._names[type(value)]
        return self.outer(**{name: self._pairs[name].to_wire(value)})

    def decode(self, outer: Any) -> Any:
        """Return the value in an outer message; ValueError if it is unknown or malformed."""
        name = outer.WhichOneof("message")
        if name not in self._pairs:
            raise ValueError(f"unknown message {name}")
        return self._pairs[name].from_wire(getattr(outer, name))


def _each(part: Part | Pair) -> Part:
    """Return the part of a tuple, None for an empty one."""
    return Part(
        lambda values: [part.to_wire(value) for value in values or ()],
        lambda wires: tuple([part.from_wire(wire) for wire in wires]),
    )


def _checked_partition(number: int) -> int:
    if number < 0:
        raise ValueError(f"partition {number} is negative")
    return number


_RECOVERIES: Final = {Recovery.CLEAN: pb.RECOVERY_CLEAN, Recovery.UNCLEAN: pb.RECOVERY_UNCLEAN}


def _recovery(wire: int) -> Recovery:
    for recovery, number in _RECOVERIES.items():
        if number == wire:
            return recovery
    raise ValueError(f"recovery {wire} is unknown")


_ERROR: Final = Part(int, ErrorCode)
_TP: Final = Pair(
    TopicPartition,
    pb.TopicPartition,
    topic_id=Part(str, lambda written: str(uuid.UUID(written))),
    partition=Part(int, _checked_partition),
)
_TPS: Final = _each(_TP)
_IDS: Final = Part(tuple, tuple)
_ISR: Final = _each(Pair(IsrEntry, pb.IsrEntry))
_STATE: Final = Pair(
    PartitionState,
    pb.PartitionState,
    replicas=_IDS,
    adding_replicas=_IDS,
    removing_replicas=_IDS,
    isr=_ISR,
    eligible_leaders=_ISR,
    recovery=Part(_RECOVERIES.__getitem__, _recovery),
)
_SETTINGS: Final = _Settings(TopicSettings, pb.TopicSettings)
_COMMANDS: Final = _each(
    Pair(PartitionCommand, pb.PartitionCommand, tp=_TP, state=_STATE, settings=_SETTINGS)
)
_ENDPOINT: Final = Pair(Endpoint, pb.Endpoint)
_LIVE_BROKERS: Final = _each(Pair(LiveBroker, pb.LiveBroker, endpoints=_each(_ENDPOINT)))
_HOSTED: Final = _each(Pair(HostedReplica, pb.Hosted, tp=_TP))
_TRASHED: Final = _each(Pair(TrashedReplica, pb.Trashed, tp=_TP))
_PARTITION_ERROR: Final = Part(
    lambda result: pb.PartitionError(tp=_TP.to_wire(result[0]), error=result[1]),
    lambda wire: (_TP.from_wire(wire.tp), ErrorCode(wire.error)),
)
_PROPOSAL: Final = Pair(ProposeIsr, pb.AlterPartition, tp=_TP, isr=_ISR)
# A message does not tell which command it responds to.
_RESPONSE: Final = Pair(
    ReplyStopReplica, pb.CommandAnswer, error=_ERROR, partitions=_each(_PARTITION_ERROR)
)

INTRODUCTION: Final = Pair(Introduction, pb.Introduction, endpoint=_ENDPOINT)
"""Who the active controller is, as its probes say."""

BROKER_MESSAGE: Final = Union(
    pb.BrokerMessage,
    _Heartbeat(Heartbeat, pb.Heartbeat, hosted=_HOSTED, trashed=_TRASHED),
    _Around(IsrProposal, "proposal", _PROPOSAL),
    _Around(CommandResponse, "response", _RESPONSE),
    Pair(Hello, pb.Hello, hosted=_HOSTED, trashed=_TRASHED),
    Pair(ShutdownRequest, pb.ControlledShutdown),
)
"""What a broker says to the controller: `controller_session.messages.BrokerMessage`."""

CONTROLLER_MESSAGE: Final = Union(
    pb.ControllerMessage,
    Pair(LeaderAndIsrReceived, pb.LeaderAndIsr, partitions=_COMMANDS),
    Pair(StopReplicaReceived, pb.StopReplica, partitions=_TPS),
    Pair(RestoreReplica, pb.RestoreReplica, partitions=_TPS),
    Pair(
        MetadataUpdate,
        pb.UpdateMetadata,
        live_brokers=_LIVE_BROKERS,
        partitions=_COMMANDS,
        removed=_TPS,
    ),
    _AlterPartitionAnswer(
        AlterPartitionResponseReceived,
        pb.AlterPartitionAnswer,
        tp=_TP,
        error=_ERROR,
        stored=Part(lambda state: state and _STATE.to_wire(state), _STATE.from_wire),
    ),
    Pair(ShutdownResponse, pb.ControlledShutdownAnswer, error=_ERROR),
    Pair(SessionRefused, pb.SessionRefused, error=_ERROR),
)
"""What the controller says to a broker: `controller_session.messages.ControllerMessage`."""
