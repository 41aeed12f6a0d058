"""Bounds of the Kafka listener and of gRPC; how often metrics and waits are reported."""

from __future__ import annotations

from dataclasses import dataclass

from .declaration import INT64_MAX, integer

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaListenerConfig:
    """The port where clients speak Kafka's protocol."""

    request_max_bytes: int = integer("socket.request.max.bytes", 100 * _MIB, (1024, (1 << 31) - 1))
    """A larger request closes the connection before memory is taken. Kafka's key and default."""

    connections_max: int = integer("max.connections", 2_000, (1, 1_000_000))
    """Client connections at once; further ones are closed at once. Kafka's key; its default
    has no bound."""

    connection_idle_max_ms: int = integer("connections.max.idle.ms", 600_000, (1_000, 86_400_000))
    """A connection idle for this long is closed. Kafka's key and default."""

    requests_in_flight_max: int = integer("connection.requests.in.flight.max", 100, (1, 100_000))
    """Unanswered requests of one connection; at this number the broker stops reading its socket."""

    request_memory_max_bytes: int = integer("queued.max.request.bytes", 64 * _MIB, (_MIB, 1 << 40))
    """Bytes of requests being received on all connections together; a request beyond it waits in
    its socket. A request's bytes are free once its records are in the log. Kafka's key; its
    default has no bound."""

    acks_waiting_max: int = integer("acks.waiting.max", 20_000, (1, 10_000_000))
    """Partitions, over all connections, whose acknowledgement produce requests await; at this
    number the broker reads no further produce request. Each takes about 2 KiB of memory."""

    response_memory_max_bytes: int = integer(
        "queued.max.response.bytes", 128 * _MIB, (8 * _MIB, 1 << 40)
    )
    """Bytes of responses that clients have not taken yet, over all connections. A fetch that would
    exceed it waits, in the order of coming, and reads nothing meanwhile; one response takes at most
    a 16th of what is free, or a 64th of all. Responses up to 64 KiB are not counted: a connection
    has two of them at most."""

    fetch_max_bytes: int = integer("fetch.max.bytes", 55 * _MIB, (1024, (1 << 31) - 1))
    """Bytes of one answer to a consumer, at most a 16th of what queued.max.response.bytes leaves
    free, or a 64th of all. Kafka's key and default."""

    wait_max_ms: int = integer("request.wait.max.ms", 300_000, (1, 3_600_000))
    """Longest time a produce or fetch may wait, even if the client asks for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcConfig:
    """Streams between brokers."""

    frame_max_bytes: int = integer("grpc.frame.max.bytes", _MIB, (4096, 64 * _MIB))
    """Protocol frames are gathered into one message up to this size: gRPC in Python costs
    per message, not per byte. A larger batch travels alone."""

    message_max_bytes: int = integer("grpc.message.max.bytes", 4 * _MIB, (_MIB, (1 << 31) - 1))
    """gRPC's limit for one message in both directions."""

    queue_max_bytes: int = integer("grpc.queue.max.bytes", 64 * _MIB, (_MIB, INT64_MAX))
    """Bytes queued on one replication stream: beyond them the stream ends, so that a peer that
    reads nothing cannot fill our memory. A peer has one fetch outstanding, far smaller."""

    session_queue_max: int = integer("grpc.session.queue.max", 10_000, (10, INT64_MAX))
    """Control messages queued on one session; beyond them the session ends, and the next one
    starts with the full state."""

    session_message_max_bytes: int = integer(
        "grpc.session.message.max.bytes", 64 * _MIB, (_MIB, (1 << 31) - 1)
    )
    """A larger message of a session, in parts up to grpc.frame.max.bytes, ends the session. A hello
    takes about 80 bytes for each replica, a full state up to 500 for each partition of the cluster:
    10,000 partitions need 5 MiB."""

    keepalive_time_ms: int = integer("grpc.keepalive.time.ms", 10_000, (100, 3_600_000))
    """Silence after which gRPC pings a connection: a lost node sends no FIN. Long, because
    session heartbeats notice a lost node sooner; the ping only frees its connection."""

    keepalive_timeout_ms: int = integer("grpc.keepalive.timeout.ms", 5_000, (100, 3_600_000))
    """A ping unanswered for this long closes the connection."""

    reconnect_backoff_ms: int = integer("reconnect.backoff.ms", 100, (1, 600_000))
    """First pause before a peer is dialled again; doubles. Kafka's key; 100 instead of 50,
    because in gRPC the pause is also the time limit of an attempt to connect."""

    reconnect_backoff_max_ms: int = integer("reconnect.backoff.max.ms", 500, (1, 600_000))
    """Largest pause before a peer is dialled again. Kafka's key; 500 instead of 1,000, so that
    a follower returns well within a short replica.lag.time.max.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilityConfig:
    """Metrics and probes."""

    partition_detail_max: int = integer("metrics.partition.detail.max", 2_000, (0, 1_000_000))
    """Partitions with series of their own; the others appear in the sums of the broker."""

    loop_lag_interval_ms: int = integer("metrics.loop.lag.interval.ms", 500, (10, 60_000))
    """Interval at which the delay of the event loop is measured."""
