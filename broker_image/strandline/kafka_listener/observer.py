"""What a listener reports about its work: the hooks that metrics hang on.

Called by `connection`; implemented by `runtime`, which exports metrics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol

from strandline.errors import ErrorCode

OTHER_CLIENTS = "other"
UNKNOWN_CLIENT = "unknown"
CLIENT_NAME_MAX_CHARACTERS = 64
"""Longer names are cut: a name serves for log lines and metrics only."""
NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


class ListenerObserver(Protocol):
    """Facts of a listener, each reported once when it happens; must not raise or block."""

    def response_sent(
        self,
        api: str,
        error: ErrorCode,
        *,
        local_seconds: float,
        remote_seconds: float,
        send_seconds: float,
    ) -> None:
        """Note a response that was sent.

        error is the first one in the response. local is decoding and handling, remote the wait
        for replication or data, send the wait for earlier responses and for the socket.
        """

    def request_unsupported(self, api: str, client: str) -> None:
        """Note a request for an API or version that is not served."""


@dataclass(slots=True, kw_only=True)
class ClientNames:
    """Names of clients as metric labels: plain characters, and a bounded number of them."""

    names_max: int
    _known: set[str] = field(default_factory=set)

    def label(self, name: str) -> str:
        """Return the metric label for a client's name of itself."""
        plain = NOT_PLAIN.sub("_", name[:CLIENT_NAME_MAX_CHARACTERS])
        if not plain:
            return UNKNOWN_CLIENT
        if len(self._known) < self.names_max:
            self._known.add(plain)
        return plain if plain in self._known else OTHER_CLIENTS
