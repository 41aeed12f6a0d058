"""Every bound of a listener, with its default and the reason for it.

`runtime` makes and passes it. The bounds of the broker's configuration are inherited; the others
follow from how the listener works.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.config.network import KafkaListenerConfig

RESPONSE_PART_OF_ALL = 64
"""A response to a consumer may always have this part of the memory of all, 2 MiB by default, which
the kernel takes mostly even for a client that does not read."""
RESPONSE_PART_OF_FREE = 16
"""A response may have this part of the memory that is free, if that is more: 8 MiB by default."""


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

    requests_at_once_max: int = 32
    """Requests of one connection that are handled in one step of the event loop: a buffer holds
    thousands of small ones."""

    resting_elements_max: int = 100
    """Array elements and tagged fields in a request from an address that rests. So many refused
    ones in a request are free."""

    resting_request_max_bytes: int = 65_536
    """Bytes of a request without records from an address that rests: 100 long names fit."""

    rest_per_refusal_ms: int = 10
    """Rest of an address for each refused element of a request: 25,000 of them take up to 0.5 s of
    the event loop, a five-hundredth of the rest."""

    resting_addresses_max: int = 1_000
    """Addresses that rest; beyond it the rest that ends first is forgotten."""

    malformed_elements: int = 1_000
    """Refused elements for which a malformed request counts at most."""

    response_timeout_ms: int = 20_000
    """Time for a client to take a response that others wait for: its connection is closed then."""

    write_buffer_high_bytes: int = 65_536
    """Unsent response bytes beyond which a connection takes no further request. A response up to
    this size is not counted: 2,000 connections that read nothing hold 256 MiB of them at most."""

    receive_buffer_bytes: int = 32_768
    """Staging buffer of a connection; larger frames get a buffer of their own."""

    listen_backlog: int = 128
    """Connections the kernel keeps until they are accepted."""

    client_names_max: int = 32
    """Distinct client names in metrics; later ones are counted as `other`."""

    def fetch_response_max_bytes(self, used_bytes: int) -> int:
        """Return the most bytes of one response to a consumer: less while responses hold more.

        Shape:   used_bytes is what the responses hold that clients have not taken
        """
        free_bytes = self.response_memory_max_bytes - used_bytes
        return min(
            self.fetch_max_bytes,
            max(
                self.response_memory_max_bytes // RESPONSE_PART_OF_ALL,
                free_bytes // RESPONSE_PART_OF_FREE,
            ),
        )

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
            response_memory_max_bytes=config.response_memory_max_bytes,
            fetch_max_bytes=config.fetch_max_bytes,
            wait_max_ms=config.wait_max_ms,
        )
