"""Ports of this machine for processes that tests start."""

from __future__ import annotations

import random
import socket

PORTS = range(20_000, 32_000)
"""Below the kernel's range for outgoing connections, so that a port is free after a restart."""


def free_port() -> int:
    """Return a port that no process listens on."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port")
