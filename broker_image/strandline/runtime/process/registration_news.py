"""What a running broker and its Broker object tell each other beside the registration.

`lifecycle` makes both values. The service tells `RegistrationNews`, which `registration_watch`
writes into the object; from the object it tells `WantedAddress`, which the service follows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from strandline.model import EXTERNAL_LISTENER, AdvertisedAddress, Endpoint, Registration


@dataclass(slots=True, kw_only=True)
class RegistrationNews:
    """What a registration says beside the start: a full volume, the address outside, settings.

    Its methods change it, and the registration follows.
    """

    is_full: bool = False
    config_digest: str = ""
    config_refused: str = ""
    external: Endpoint | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def tell(self, *, is_full: bool) -> None:
        """Take what the volume is now."""
        if is_full != self.is_full:
            self.is_full = is_full
            self._changed.set()

    def advertise(self, external: Endpoint | None) -> None:
        """Take the address at which clients outside are served now, None for none."""
        if external != self.external:
            self.external = external
            self._changed.set()

    def works_with(self, digest: str, refused: str) -> None:
        """Take the digest of the settings in effect, and why others are refused, "" if none is."""
        if (digest, refused) != (self.config_digest, self.config_refused):
            self.config_digest, self.config_refused = digest, refused
            self._changed.set()

    async def change(self) -> None:
        """Wait for news, or return if there were some since the last call."""
        await self._changed.wait()
        self._changed.clear()

    def added_to(self, registration: Registration) -> Registration:
        """Return a registration with these news instead of its own."""
        inside = (each for each in registration.endpoints if each.listener != EXTERNAL_LISTENER)
        outside = () if self.external is None else (self.external,)
        return replace(
            registration,
            volume_full=self.is_full,
            endpoints=(*inside, *outside),
            config_digest=self.config_digest,
            config_refused=self.config_refused,
        )


@dataclass(slots=True, kw_only=True)
class WantedAddress:
    """What the Broker object wants this broker to advertise outside, None for nothing."""

    address: AdvertisedAddress | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def tell(self, address: AdvertisedAddress | None) -> None:
        """Take what the object says now."""
        if address != self.address:
            self.address = address
            self._changed.set()

    def take(self) -> AdvertisedAddress | None:
        """Return what the object says now; `change` waits for another."""
        self._changed.clear()
        return self.address

    async def change(self) -> None:
        """Wait until the address changes, or return if it did since it was taken."""
        await self._changed.wait()
