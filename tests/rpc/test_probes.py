"""A refused connection and another incarnation prove a death; silence does not."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import grpc.aio

from strandline.controller.effects import Introduction
from strandline.controller.events import ProbeVerdict
from strandline.model import GRPC_LISTENER, BrokerId, ControllerEpoch, Endpoint
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


async def probe_of_a_broker(
    incarnation: str, introduction: Introduction | None = None
) -> tuple[ProbeVerdict, list[Introduction]]:
    server = grpc.aio.server()
    own = replace(registration(1), incarnation="uid/one")
    taken: list[Introduction] = []
    server.add_generic_rpc_handlers((peer_service(own, lambda: ControllerEpoch(7), taken.append),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    verdict = await probe(
        f"127.0.0.1:{port}",
        broker_id=BrokerId(1),
        incarnation=incarnation,
        deadline_ms=DEADLINE_MS,
        introduction=introduction,
    )
    await server.stop(None)
    return verdict, taken


def test_the_probed_process_responds() -> None:
    assert asyncio.run(probe_of_a_broker("uid/one")) == (ProbeVerdict.ANSWERED, [])


def test_another_process_on_the_address_is_another_incarnation() -> None:
    assert asyncio.run(probe_of_a_broker("uid/two")) == (ProbeVerdict.OTHER_INCARNATION, [])


def test_a_controller_introduces_itself_to_the_process_that_it_means_and_to_no_other() -> None:
    me = Introduction(
        holder_identity="broker-2/uid/a",
        controller_epoch=ControllerEpoch(9),
        endpoint=Endpoint(listener=GRPC_LISTENER, host="10.0.0.2", port=9090),
    )
    assert asyncio.run(probe_of_a_broker("uid/one", me)) == (ProbeVerdict.ANSWERED, [me])
    assert asyncio.run(probe_of_a_broker("uid/two", me)) == (ProbeVerdict.OTHER_INCARNATION, [])


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
