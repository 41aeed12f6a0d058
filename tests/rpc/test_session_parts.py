"""Hellos and full states of a whole cluster pass; half a message is never handed on."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import pytest

from strandline.config.network import GrpcConfig
from strandline.controller.effects import SendFullState
from strandline.controller.events import SessionOpened
from strandline.controller.store_events import ControllerEpochSeen
from strandline.controller_session.messages import Hello, MetadataUpdate
from strandline.core.events import LeaderAndIsrReceived
from strandline.model import TopicId, TopicPartition
from strandline.rpc.session_parts import PartJoiner, parts_of
from strandline_api.v1 import controller_pb2 as pb

from .test_sessions import COMMAND, CONTROLLER_EPOCH, EPOCH, HOSTED, LIVE, ONE, Ends, run

PARTITIONS_MAX = 10_000
"""The partitions of the largest cluster that is meant to work."""
LONGEST_NAME = "t" * 249
TPS = [
    TopicPartition(topic_id=TopicId(str(uuid.UUID(int=number))), partition=number)
    for number in range(PARTITIONS_MAX)
]
SMALL = replace(GrpcConfig(), frame_max_bytes=4096, session_message_max_bytes=1 << 20)


def test_hello_and_full_state_of_the_largest_cluster_pass() -> None:
    async def scenario(ends: Ends) -> None:
        client = await ends.start()
        hosted = tuple(replace(HOSTED, tp=tp) for tp in TPS)
        client.send(
            Hello(
                broker_id=ONE,
                broker_epoch=EPOCH,
                clean_since_epoch=EPOCH,
                incarnation="uid/nonce",
                highest_controller_epoch=CONTROLLER_EPOCH,
                hosted=hosted,
            )
        )
        assert isinstance(await ends.events.get(), ControllerEpochSeen)
        opened = await ends.events.get()
        assert isinstance(opened, SessionOpened)
        assert opened.hosted == hosted
        commands = tuple(replace(COMMAND, tp=tp, topic_name=LONGEST_NAME) for tp in TPS)
        ends.server.perform(
            SendFullState(
                session_id=opened.session_id,
                broker_id=ONE,
                broker_epoch=EPOCH,
                controller_epoch=CONTROLLER_EPOCH,
                request_id=1,
                brokers=(LIVE,),
                partitions=commands,
                metadata=commands,
            )
        )
        metadata = await ends.messages.get()
        assert isinstance(metadata, MetadataUpdate)
        assert metadata.partitions == commands
        command = await ends.messages.get()
        assert isinstance(command, LeaderAndIsrReceived)
        assert command.partitions == commands
        await client.close()

    run(scenario)


def message(size: int) -> pb.BrokerMessage:
    return pb.BrokerMessage(hello=pb.Hello(incarnation="x" * size))


@pytest.mark.parametrize("size", [1, 4_000, 4_096, 10_000, 500_000])
def test_message_is_the_same_after_its_parts_are_joined(size: int) -> None:
    parts = list(parts_of(message(size), SMALL) or ())
    assert all(part.ByteSize() <= SMALL.frame_max_bytes + 16 for part in parts)
    joiner = PartJoiner(pb.BrokerMessage, SMALL)
    *before, last = [joiner.take(part) for part in parts]
    assert before == [None] * (len(parts) - 1)
    assert last == message(size)


def test_message_above_the_bound_is_refused_by_both_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert parts_of(message(SMALL.session_message_max_bytes), SMALL) is None
    assert "session message too large" in caplog.messages
    joiner = PartJoiner(pb.BrokerMessage, SMALL)
    part = pb.BrokerMessage(part=pb.Part(content=b"x" * SMALL.session_message_max_bytes))
    assert joiner.take(part) is None
    with pytest.raises(ValueError, match=r"grpc\.session\.message\.max\.bytes=1048576"):
        joiner.take(part)


def test_interrupted_or_meaningless_parts_are_refused() -> None:
    part = pb.BrokerMessage(part=pb.Part(content=b"\xff\xff"))
    joiner = PartJoiner(pb.BrokerMessage, SMALL)
    joiner.take(part)
    with pytest.raises(ValueError, match="hello between two parts"):
        joiner.take(message(1))
    part.part.is_last = True
    with pytest.raises(ValueError, match="no message"):
        PartJoiner(pb.BrokerMessage, SMALL).take(part)
    within = pb.Part(content=part.SerializeToString(), is_last=True)
    with pytest.raises(ValueError, match="a part within parts"):
        PartJoiner(pb.BrokerMessage, SMALL).take(pb.BrokerMessage(part=within))


def test_session_ends_with_a_hello_above_the_bound() -> None:
    async def scenario(ends: Ends) -> None:
        client = await ends.start()
        client._settings = SMALL
        hello = Hello(
            broker_id=ONE,
            broker_epoch=EPOCH,
            clean_since_epoch=EPOCH,
            incarnation="x" * SMALL.session_message_max_bytes,
            highest_controller_epoch=CONTROLLER_EPOCH,
            hosted=(),
        )
        client.send(hello)
        async with asyncio.timeout(10):
            await ends.broken.wait()

    run(scenario)
