"""A refused connection and another incarnation prove a death; silence does not."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import grpc.aio

from strandline.controller.events import ProbeVerdict
from strandline.model import BrokerId, ControllerEpoch
from strandline.rpc.probes import peer_service, probe
from tests.support.world.values import registration

DEADLINE_MS = 2_000


def verdict_of(address: str, incarnation: str, *, deadline_ms: int = DEADLINE_MS) -> ProbeVerdict:
    return asyncio.run(
        probe(
            address,
            broker_id=BrokerId(1),
            incarnation=incarnation,
            deadline_ms=deadline_ms,
        )
    )


async def probe_of_a_broker(incarnation: str) -> ProbeVerdict:
    server = grpc.aio.server()
    own = replace(registration(1), incarnation="uid/one")
    server.add_generic_rpc_handlers((peer_service(own, lambda: ControllerEpoch(7)),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    verdict = await probe(
        f"127.0.0.1:{port}",
        broker_id=BrokerId(1),
        incarnation=incarnation,
        deadline_ms=DEADLINE_MS,
    )
    await server.stop(None)
    return verdict


def test_the_probed_process_responds() -> None:
    assert asyncio.run(probe_of_a_broker("uid/one")) is ProbeVerdict.ANSWERED


def test_another_process_on_the_address_is_another_incarnation() -> None:
    assert asyncio.run(probe_of_a_broker("uid/two")) is ProbeVerdict.OTHER_INCARNATION


def test_a_closed_port_is_refused() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound, not listening: a connection is refused
        port = reserved.getsockname()[1]
        assert verdict_of(f"127.0.0.1:{port}", "uid/one") is ProbeVerdict.REFUSED


def test_a_process_that_accepts_and_stays_silent_is_no_evidence() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        verdict = verdict_of(f"127.0.0.1:{port}", "uid/one", deadline_ms=300)
        assert verdict is ProbeVerdict.NO_ANSWER
