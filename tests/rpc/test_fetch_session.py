"""From the changes that a session sends, the leader rebuilds each whole fetch of the follower."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.asked_partitions import AskedPartitions
from strandline.core.events import FollowerFetchReceived
from strandline.core.fetch_changes import FetchPartition
from strandline.model import BrokerEpoch, BrokerId, LeaderEpoch, TopicId, TopicPartition
from strandline.rpc.fetch_session import FollowerFetchSession, LeaderFetchSession
from strandline.rpc.frames import PARTITIONS_PER_FETCH_MAX, BadFrame, FetchFrame

TOPIC = TopicId(str(uuid.UUID(int=7)))


def part(number: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(
        tp=TopicPartition(topic_id=TOPIC, partition=number),
        fetch_offset=offset,
        leader_epoch=LeaderEpoch(0),
        last_fetched_epoch=LeaderEpoch(-1),
        high_watermark=0,
        log_start_offset=0,
    )


def fetch_with(*parts: FetchPartition, request_id: int = 1) -> FollowerFetchReceived:
    return FollowerFetchReceived(
        request_id=request_id,
        follower=BrokerId(1),
        broker_epoch=BrokerEpoch(1),
        clean_since_epoch=BrokerEpoch(1),
        max_wait_ms=500,
        partitions=parts,
    )


def whole_fetch(count: int) -> FollowerFetchReceived:
    """Return a fetch of `count` partitions."""
    return fetch_with(*(part(number) for number in range(count)))


def epoch(session_epoch: int, frame: FetchFrame) -> FetchFrame:
    return replace(frame, session_epoch=session_epoch)


fetches = st.lists(
    st.dictionaries(st.integers(0, 5), st.integers(0, 3), max_size=6), min_size=1, max_size=8
)


@given(fetches=fetches)
def test_the_leader_sees_every_fetch_whole(fetches: list[dict[int, int]]) -> None:
    follower, leader = FollowerFetchSession(), LeaderFetchSession(session_id=1)
    for request_id, wanted in enumerate(fetches):
        sent = fetch_with(*(part(n, o) for n, o in wanted.items()), request_id=request_id)
        sent = replace(sent, without_records=request_id % 2 == 1)
        seen = leader.fetch_of(follower.frame_of(sent))
        assert set(seen.partitions) == set(sent.partitions)
        assert len(seen.partitions) == len(sent.partitions)
        assert replace(seen, partitions=(), changes=None) == replace(sent, partitions=())


@given(fetches=fetches, lost=st.sets(st.integers(0, 7)))
def test_what_the_core_tells_of_changes_goes_out_as_the_difference_does(
    fetches: list[dict[int, int]], lost: set[int]
) -> None:
    """A fetch may not reach the stream; then the next one is compared as a whole."""
    asked, told, compared = AskedPartitions(), FollowerFetchSession(), FollowerFetchSession()
    leader = LeaderFetchSession(session_id=1)
    for request_id, wanted in enumerate(fetches):
        wishes = {part(n).tp: part(n, offset) for n, offset in wanted.items()}
        for tp in [*asked.asked, *wishes]:
            asked.touch(tp)
        changes = asked.ask(request_id, wish_for=wishes.get)
        fetch = fetch_with(*asked.asked.values(), request_id=request_id)
        if request_id in lost:
            continue
        frame, whole = told.frame_of(replace(fetch, changes=changes)), compared.frame_of(fetch)
        assert set(frame.changed) == set(whole.changed)
        assert set(frame.forgotten) == set(whole.forgotten)
        assert set(leader.fetch_of(frame).partitions) == set(wishes.values())


def test_an_unchanged_partition_is_not_sent_again() -> None:
    session = FollowerFetchSession()
    first = session.frame_of(fetch_with(part(0), part(1), part(2)))
    assert (len(first.changed), first.forgotten) == (3, ())
    same = session.frame_of(fetch_with(part(0), part(1), part(2)))
    assert (same.changed, same.forgotten) == ((), ())
    moved = session.frame_of(fetch_with(part(0), part(1, offset=5)))
    assert (moved.changed, moved.forgotten) == ((part(1, offset=5),), (part(2).tp,))


def test_a_changed_partition_is_read_last() -> None:
    """The follower moves partitions that got records to the back, and so does the leader."""
    follower, leader = FollowerFetchSession(), LeaderFetchSession(session_id=1)
    leader.fetch_of(follower.frame_of(fetch_with(part(0), part(1), part(2))))
    sent = fetch_with(part(1), part(2), part(0, offset=9))
    assert leader.fetch_of(follower.frame_of(sent)).partitions == sent.partitions


@pytest.mark.parametrize("wrong", [0, 2], ids=["repeated", "skipped"])
def test_a_frame_that_does_not_continue_the_session_is_refused(wrong: int) -> None:
    follower, leader = FollowerFetchSession(), LeaderFetchSession(session_id=1)
    leader.fetch_of(follower.frame_of(whole_fetch(1)))
    with pytest.raises(BadFrame, match=f"session epoch {wrong} instead of 1"):
        leader.fetch_of(epoch(wrong, follower.frame_of(whole_fetch(1))))


def test_a_partition_that_was_never_fetched_cannot_be_forgotten() -> None:
    frame = replace(FollowerFetchSession().frame_of(whole_fetch(1)), forgotten=(part(8).tp,))
    with pytest.raises(BadFrame, match="never asked for"):
        LeaderFetchSession(session_id=1).fetch_of(frame)


def test_a_session_may_not_grow_beyond_the_bound() -> None:
    follower, leader = FollowerFetchSession(), LeaderFetchSession(session_id=1)
    full = whole_fetch(PARTITIONS_PER_FETCH_MAX)
    assert leader.fetch_of(follower.frame_of(full)).partitions == full.partitions
    with pytest.raises(BadFrame, match="at most"):
        leader.fetch_of(
            replace(
                follower.frame_of(full),
                changed=(part(PARTITIONS_PER_FETCH_MAX),),
            )
        )
