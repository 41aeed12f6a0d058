"""Two processes of one test never get the same port."""

from __future__ import annotations

import socket

from tests.support.ports import PORTS, free_port

MANY = len(PORTS) // 4


def test_ports_chosen_one_after_the_other_are_different() -> None:
    # Brokers open their ports with SO_REUSEPORT: two of them would share one without an error.
    chosen = [free_port() for _ in range(MANY)]
    assert len(set(chosen)) == MANY


def test_a_port_that_is_taken_is_not_chosen() -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", free_port()))
        chosen = {free_port() for _ in PORTS}
        assert taken.getsockname()[1] not in chosen
        assert len(chosen) > MANY
