"""Every bound of a listener, with its default and the reason for it.

Made by `runtime` and passed in whole. What the broker's configuration says is inherited; the rest
follows from how the listener works.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.config.network import KafkaListenerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings(KafkaListenerConfig):
    """Bounds of one listener; sizes are bytes, times milliseconds."""

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
