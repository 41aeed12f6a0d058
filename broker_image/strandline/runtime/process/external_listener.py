"""The port for clients outside of the cluster: open while the Broker object names an address.

Made by `broker_service`. The operator writes and changes the address while the broker runs; the
broker says in its registration what it advertises, and only while the port is open (ADR 0045). So
the controller announces no address at which nobody would answer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from strandline.config.broker import BrokerConfig
from strandline.errors import ConfigError
from strandline.kafka_listener.server import KafkaListener
from strandline.kube.waiting import Pauses, WaitingReport
from strandline.log_fields import fields
from strandline.model import EXTERNAL_LISTENER, AdvertisedAddress, Endpoint, joined_address

from .registration_news import RegistrationNews, WantedAddress

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class ExternalListener:
    """Opens, advertises, withdraws and closes the port as the wanted address comes and goes."""

    config: BrokerConfig
    wanted: WantedAddress
    news: RegistrationNews
    open_port: Callable[[], Awaitable[KafkaListener]]
    """Opens the port; ConfigError if it is taken."""
    _open: KafkaListener | None = field(default=None, init=False)

    async def run(self) -> None:
        """Follow the wanted address for ever."""
        while True:
            endpoint = self._endpoint(self.wanted.take())
            if endpoint != self.news.external:
                _log.info("address outside", extra=fields(address=_text(endpoint)))
            if endpoint is None:
                self.news.advertise(None)
                await self.close()
            else:
                await self._ensure_open()
                self.news.advertise(endpoint)
            await self.wanted.change()

    async def close(self) -> None:
        """Cut the clients outside, if the port is open."""
        opened, self._open = self._open, None
        if opened is not None:
            await opened.close()

    def _endpoint(self, address: AdvertisedAddress | None) -> Endpoint | None:
        """Return what to advertise: the given host, else that of the pod's node."""
        if address is None:
            return None
        host = address.host or self.config.identity.node_ip
        if not host:
            # A pod that an earlier operator made has no NODE_IP; its successor will.
            _log.warning("no address outside: neither the Broker nor NODE_IP names a host")
            return None
        return Endpoint(listener=EXTERNAL_LISTENER, host=host, port=address.port)

    async def _ensure_open(self) -> None:
        """Open the port if it is closed; wait while another process holds it."""
        kubernetes = self.config.kubernetes
        pauses, report = Pauses(kubernetes), WaitingReport(kubernetes)
        while self._open is None:
            try:
                self._open = await self.open_port()
            except ConfigError as error:
                report.waiting_for("port for clients outside", error)
                await pauses.pause()


def _text(endpoint: Endpoint | None) -> str:
    return "none" if endpoint is None else joined_address(endpoint.host, endpoint.port)
