"""Addresses whose large requests were refused: for a while their requests have few elements.

A request of 25,000 elements takes a tenth of a second or more of the event loop, although in turns
with other clients. A correct client sends so large a request only if nearly all of it is granted.
An address that was refused thousands of elements therefore rests: until its rest is over,
`connection` closes those of its connections that send a request of more than a few, or a large one
without records (ADR 0041).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from strandline.log_fields import fields

from .listener_settings import ListenerSettings

ELEMENT_MIN_BYTES = 7
"""A partition of a produce request without records; other elements that cost much are longer."""

_log = logging.getLogger(__name__)


class RefusedAddresses:
    """The addresses that rest, and until when on the event loop's clock."""

    def __init__(self, settings: ListenerSettings, now: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        self._rest_until: dict[str, float] = {}

    def elements_max(self, address: str) -> int:
        """Return how many elements a request from an address may have now."""
        settings = self._settings
        rests = self._rests(address)
        return settings.resting_elements_max if rests else settings.request_elements_max

    def plain_request_max_bytes(self, address: str) -> int:
        """Return how large a request without records from an address may be now."""
        settings = self._settings
        rests = self._rests(address)
        return settings.resting_request_max_bytes if rests else settings.plain_request_max_bytes

    def _rests(self, address: str) -> bool:
        return bool(self._rest_until) and self._rest_until.get(address, 0.0) > self._now()

    def malformed(self, address: str, size_bytes: int) -> None:
        """Let an address rest for a malformed frame that may have been long to decode.

        A rest does not grow: a client that tries a large request again and again is served once it
        is over.
        """
        settings = self._settings
        count = min(settings.malformed_elements, size_bytes // ELEMENT_MIN_BYTES)
        if count > settings.resting_elements_max and not self._rests(address):
            self._rest(address, count)

    def refused(self, address: str, count: int) -> None:
        """Let an address rest if a request had so many refused elements; few of them are free."""
        if count > self._settings.resting_elements_max:
            rest_ms = self._rest(address, count)
            _log.warning(
                "client address rests",
                extra=fields(peer=address, refused_count=count, rest_ms=rest_ms),
            )

    def _rest(self, address: str, count: int) -> int:
        now, rest_ms = self._now(), count * self._settings.rest_per_refusal_ms
        self._rest_until[address] = max(now + rest_ms / 1000, self._rest_until.get(address, 0.0))
        if len(self._rest_until) > self._settings.resting_addresses_max:
            self._forget(now)
        return rest_ms

    def _forget(self, now: float) -> None:
        """Forget the rests that are over, or else the one that ends first."""
        self._rest_until = {each: end for each, end in self._rest_until.items() if end > now}
        if len(self._rest_until) > self._settings.resting_addresses_max:
            del self._rest_until[min(self._rest_until, key=self._rest_until.__getitem__)]
