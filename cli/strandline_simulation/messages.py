"""What clients and probes say to brokers, and brokers to them.

Frozen values that the network carries. Requests of clients carry an id that the response
repeats; a broker answers a MetadataRequest with what it knows of the cluster, which may be old.
Streams carry the messages of `controller_session`, and two events of the core.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.controller.effects import Introduction
from strandline.errors import ErrorCode
from strandline.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A broker asks which process listens at an address, and may introduce the controller."""

    probe_id: int
    incarnation: str
    introduction: Introduction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResponse:
    """The process that listens there."""

    probe_id: int
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """A producer's batch with acks=all."""

    request_id: int
    tp: TopicPartition
    values: tuple[int, ...]
    max_wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeRequest:
    """A consumer reads from a position; max_wait_ms > 0 lets the broker wait for more."""

    request_id: int
    tp: TopicPartition
    position: int
    max_wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    """A client deletes the older records: keep_count of those that consumers see stay."""

    request_id: int
    tp: TopicPartition
    keep_count: int
    max_wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResponse:
    """What became of a batch or a deletion, or where the consumer reads on."""

    request_id: int
    error: ErrorCode
    next_position: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """A client asks a broker who leads."""
