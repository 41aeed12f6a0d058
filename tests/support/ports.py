"""Ports of this machine for processes that tests start."""

from __future__ import annotations

import itertools
import os
import random
import socket

WORKERS_MAX = 4
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS_MAX
PORTS = range(20_000 + WORKER, 32_000, WORKERS_MAX)
"""Below the kernel's range for outgoing connections, so that a port is free after a restart.

Each worker of pytest-xdist has its own, because a port is taken some time after it was chosen. The
ports below are those of control planes.
"""


_next_port = itertools.cycle(random.sample(PORTS, len(PORTS))).__next__


def free_port() -> int:
    """Return a port that no process listens on, and that was not chosen for a long time."""
    for _ in PORTS:
        port = _next_port()
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port")
