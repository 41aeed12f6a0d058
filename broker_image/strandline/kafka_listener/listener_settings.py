"""Every bound of a listener, with its default and the reason for it.

`runtime` makes and passes it. The bounds of the broker's configuration are inherited; the others
follow from how the listener works.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.config.network import KafkaListenerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings(KafkaListenerConfig):
    """Bounds of one listener; sizes are bytes, times milliseconds."""

    plain_request_max_bytes: int = 4_194_304
    """Bytes of a request without records, which is any but Produce: 10,000 topics with the longest
    names, one partition each, fit."""

    receive_timeout_ms: int = 30_000
    """Time for a frame to become complete, so that a stalled frame cannot hold memory."""

    request_elements_max: int = 25_000
    """Array elements and tagged fields in one request: a few bytes of a frame make an object of
    some hundred bytes. 10,000 topics of one partition each are 20,000 elements."""

    write_buffer_high_bytes: int = 1_048_576
    """Unsent response bytes beyond which a connection takes no further request."""

    receive_buffer_bytes: int = 32_768
    """Staging buffer of a connection; larger frames get a buffer of their own."""

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
            request_memory_max_bytes=config.request_memory_max_bytes,
            acks_waiting_max=config.acks_waiting_max,
            fetch_max_bytes=config.fetch_max_bytes,
            wait_max_ms=config.wait_max_ms,
        )
