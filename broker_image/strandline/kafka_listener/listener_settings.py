"""Every bound of a listener, with its default and the reason for it.

Made by `runtime` and passed in whole. The first group is the configuration of
the broker; the second are bounds that follow from how the listener works.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.config.network import KafkaListenerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Bounds of one listener; sizes are bytes, times milliseconds."""

    request_max_bytes: int = 104_857_600
    """Greatest frame accepted; a longer one closes the connection. `socket.request.max.bytes`."""

    connections_max: int = 2_000
    """Connections beyond this are closed at once. `max.connections`."""

    connection_idle_max_ms: int = 600_000
    """A connection without any traffic for so long is closed. `connections.max.idle.ms`."""

    requests_in_flight_max: int = 100
    """Unanswered requests of one connection; the socket is not read beyond it."""

    append_memory_max_bytes: int = 67_108_864
    """Bytes of unanswered requests of all connections together; sockets are not read beyond it.
    A single frame is let in whatever its size when nothing else is held.
    `queued.max.request.bytes`."""

    fetch_max_bytes: int = 57_671_680
    """A client's `fetch.max.bytes` is cut to this. `fetch.max.bytes`."""

    wait_max_ms: int = 300_000
    """Longest time a produce or fetch may wait, whatever the client asks for."""

    connection_memory_max_bytes: int = 33_554_432
    """Bytes of unanswered requests of one connection: half of what all may have together, and
    more than the five produce requests of usual size that clients keep in flight."""

    receive_timeout_ms: int = 30_000
    """A frame begun must be complete within this, so that a stalled one cannot hold memory."""

    request_elements_max: int = 100_000
    """Array elements in one request: six bytes of frame make an object of some hundred."""

    write_buffer_high_bytes: int = 1_048_576
    """Unsent response bytes beyond which a connection takes no further request."""

    receive_buffer_bytes: int = 32_768
    """Staging buffer of a connection; larger frames are received where they stay."""

    listen_backlog: int = 128
    """Connections the kernel keeps until they are accepted."""

    client_names_max: int = 32
    """Distinct client names in metrics; later ones are counted as `other`."""

    @classmethod
    def from_config(cls, config: KafkaListenerConfig) -> ListenerSettings:
        """Return the bounds that the broker's configuration asks for."""
        return cls(
            request_max_bytes=config.request_max_bytes,
            connections_max=config.connections_max,
            connection_idle_max_ms=config.connection_idle_max_ms,
            requests_in_flight_max=config.requests_in_flight_max,
            append_memory_max_bytes=config.append_memory_max_bytes,
            fetch_max_bytes=config.fetch_max_bytes,
            wait_max_ms=config.wait_max_ms,
        )
