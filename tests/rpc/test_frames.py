"""Frames survive the round trip, and malformed bytes are refused."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.fetch_changes import FetchPartition
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    EpochEndOffset,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from strandline.rpc.frames import (
    PARTITIONS_PER_FETCH_MAX,
    BadFrame,
    EndFrame,
    FetchFrame,
    RecordsFrame,
    decode,
    encode_end,
    encode_fetch,
    encode_records,
)

int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(0, 2**63 - 1)
epochs = st.integers(-1, 2**31 - 1).map(LeaderEpoch)
partitions = st.builds(
    TopicPartition,
    topic_id=st.uuids().map(lambda value: TopicId(str(value))),
    partition=int32,
)
fetches = st.builds(
    FetchFrame,
    request_id=st.integers(0, 2**64 - 1),
    follower=int32.map(BrokerId),
    broker_epoch=int64.map(BrokerEpoch),
    clean_since_epoch=int64.map(BrokerEpoch),
    max_wait_ms=st.integers(0, 2**32 - 1),
    without_records=st.booleans(),
    session_epoch=st.integers(0, 2**64 - 1),
    changed=st.lists(
        st.builds(
            FetchPartition,
            tp=partitions,
            fetch_offset=int64,
            leader_epoch=epochs,
            last_fetched_epoch=epochs,
            high_watermark=int64,
            log_start_offset=int64,
        ),
        max_size=5,
    ).map(tuple),
    forgotten=st.lists(partitions, max_size=5).map(tuple),
)
records = st.builds(
    RecordsFrame,
    request_id=st.integers(0, 2**64 - 1),
    tp=partitions,
    error=st.sampled_from(ErrorCode),
    high_watermark=int64,
    log_start_offset=int64,
    diverging=st.none()
    | st.builds(EpochEndOffset, leader_epoch=epochs, end_offset=st.integers(-1, 2**63 - 1)),
    records=st.binary(max_size=200),
)


def fetch_of(changed: int, forgotten: int = 0) -> FetchFrame:
    tp = TopicPartition(topic_id=TopicId(str(uuid.UUID(int=7))), partition=0)
    part = FetchPartition(
        tp=tp,
        fetch_offset=0,
        leader_epoch=LeaderEpoch(0),
        last_fetched_epoch=LeaderEpoch(-1),
        high_watermark=0,
        log_start_offset=0,
    )
    return FetchFrame(
        request_id=1,
        follower=BrokerId(1),
        broker_epoch=BrokerEpoch(1),
        clean_since_epoch=BrokerEpoch(1),
        max_wait_ms=500,
        without_records=False,
        session_epoch=0,
        changed=(part,) * changed,
        forgotten=(tp,) * forgotten,
    )


@given(fetch=fetches, responses=st.lists(records, max_size=4), end=st.integers(0, 2**64 - 1))
def test_many_frames_in_one_message_come_back_as_they_were(
    fetch: FetchFrame, responses: list[RecordsFrame], end: int
) -> None:
    parts = [encode_fetch(fetch)]
    for response in responses:
        body = memoryview(response.records)
        parts.append(encode_records(response.request_id, response, [body[:3], body[3:]]))
    parts.append(encode_end(end))
    message = b"".join(buffer for part in parts for buffer in part)
    assert list(decode(message)) == [fetch, *responses, EndFrame(request_id=end)]


@given(garbage=st.binary(max_size=300))
def test_garbage_is_refused_or_is_a_frame(garbage: bytes) -> None:
    try:
        for frame in decode(garbage):
            assert isinstance(frame, FetchFrame | RecordsFrame | EndFrame)
    except BadFrame:
        pass


@given(cut=st.integers(1, 200))
def test_a_cut_message_is_refused(cut: int) -> None:
    message = b"".join(encode_fetch(fetch_of(3)))
    with pytest.raises(BadFrame):
        list(decode(message[: max(1, len(message) - cut)]))


def test_a_fetch_may_not_name_more_partitions_than_the_bound() -> None:
    bound = PARTITIONS_PER_FETCH_MAX
    (frame,) = decode(b"".join(encode_fetch(fetch_of(bound, bound))))
    assert isinstance(frame, FetchFrame)
    assert (len(frame.changed), len(frame.forgotten)) == (bound, bound)
    for changed, forgotten in ((bound + 1, 0), (0, bound + 1)):
        over = b"".join(encode_fetch(fetch_of(changed, forgotten)))
        with pytest.raises(BadFrame, match="at most"):
            list(decode(over))


@pytest.mark.parametrize("from_the_end", [8, 16, 32, 36], ids=["start", "hw", "offset", "number"])
def test_a_negative_offset_is_refused(from_the_end: int) -> None:
    message = bytearray(b"".join(encode_fetch(fetch_of(1))))
    message[-from_the_end] |= 0x80
    with pytest.raises(BadFrame, match="negative"):
        list(decode(message))


def test_an_unknown_error_number_is_refused() -> None:
    tp = fetch_of(1).changed[0].tp
    frame = RecordsFrame(
        request_id=1,
        tp=tp,
        error=ErrorCode.NONE,
        high_watermark=0,
        log_start_offset=0,
        diverging=None,
        records=b"",
    )
    message = bytearray(b"".join(encode_records(frame.request_id, frame, [])))
    message[5 + 8 + 16 + 4 : 5 + 8 + 16 + 6] = (999).to_bytes(2, "big")
    with pytest.raises(BadFrame, match="999"):
        list(decode(message))
