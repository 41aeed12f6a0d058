"""Messages that the schema of a session allows and no broker or controller sends."""

from __future__ import annotations

import uuid

import pytest

from strandline.model import UNLIMITED, TopicSettings
from strandline.rpc.convert import BROKER_MESSAGE, CONTROLLER_MESSAGE
from strandline_api.v1 import controller_pb2 as pb

TP = pb.TopicPartition(topic_id=str(uuid.UUID(int=5)), partition=3)

COMMITTED = pb.PartitionState(recovery=pb.RECOVERY_CLEAN)
UNKNOWN_RECOVERY = pb.PartitionState.FromString(bytes([8 << 3, 7]))
"""Field 8, recovery, with a number that no version defines."""


def stop(tp: pb.TopicPartition) -> pb.ControllerMessage:
    return pb.ControllerMessage(stop_replica=pb.StopReplica(partitions=[tp]))


def alter_response(stored: pb.PartitionState) -> pb.ControllerMessage:
    message = pb.AlterPartitionAnswer(tp=TP, stored=stored)
    return pb.ControllerMessage(alter_partition_answer=message)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (pb.ControllerMessage(), "unknown message None"),
        (stop(pb.TopicPartition(topic_id=TP.topic_id, partition=-1)), "partition -1 is negative"),
        (stop(pb.TopicPartition(topic_id="orders")), "UUID"),
        (alter_response(UNKNOWN_RECOVERY), "recovery 7 is unknown"),
        (pb.ControllerMessage(refused=pb.SessionRefused(error=12_345)), "12345"),
    ],
)
def test_a_message_without_a_known_meaning_is_refused(
    message: pb.ControllerMessage, cause: str
) -> None:
    with pytest.raises(ValueError, match=cause):
        CONTROLLER_MESSAGE.decode(message)


def test_an_empty_report_of_hosted_replicas_is_not_an_absent_one() -> None:
    absent = pb.BrokerMessage(heartbeat=pb.Heartbeat(broker_epoch=9))
    empty = pb.BrokerMessage(heartbeat=pb.Heartbeat(broker_epoch=9, carries_hosted=True))
    assert BROKER_MESSAGE.decode(absent).hosted is None
    assert BROKER_MESSAGE.decode(empty).hosted == ()
    assert BROKER_MESSAGE.encode(BROKER_MESSAGE.decode(absent)) == absent
    assert BROKER_MESSAGE.encode(BROKER_MESSAGE.decode(empty)) == empty


def test_a_controller_that_knows_no_retention_deletes_nothing() -> None:
    """An absent number reads as 0 in protobuf, and a retention of 0 ms would delete everything."""
    settings = pb.TopicSettings(max_message_bytes=1, segment_bytes=2, flush_messages=3)
    command = pb.PartitionCommand(tp=TP, state=COMMITTED, settings=settings)
    decoded = CONTROLLER_MESSAGE.decode(
        pb.ControllerMessage(leader_and_isr=pb.LeaderAndIsr(partitions=[command]))
    )
    assert decoded.partitions[0].settings == TopicSettings(
        max_message_bytes=1, segment_bytes=2, flush_messages=3
    )


def test_a_retention_of_zero_is_one() -> None:
    command = pb.PartitionCommand(
        tp=TP, state=COMMITTED, settings=pb.TopicSettings(retention_ms=0, file_delete_delay_ms=0)
    )
    message = pb.ControllerMessage(leader_and_isr=pb.LeaderAndIsr(partitions=[command]))
    settings = CONTROLLER_MESSAGE.decode(message).partitions[0].settings
    assert (settings.retention_ms, settings.file_delete_delay_ms) == (0, 0)
    assert settings.retention_bytes == UNLIMITED
