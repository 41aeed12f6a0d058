"""Commands about messages between brokers, and about requests of clients."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from strandline.core.events import (
    DelayedFetchReceived,
    DeleteRecordsReceived,
    FollowerFetchReceived,
    ProduceReceived,
    RecordsHandle,
    RequestCancelled,
    RetentionReached,
    SequenceCheck,
)
from strandline.core.fetch_changes import FetchPartition
from strandline.errors import ErrorCode
from strandline.model import NO_EPOCH, Acks, BatchSpan, BrokerEpoch, LeaderEpoch
from tests.support.world.values import tp

from .language import ScenarioError
from .story import Story

ROUNDS_MAX = 20
ANY_FETCH = FetchPartition(
    tp=tp(),
    fetch_offset=0,
    leader_epoch=LeaderEpoch(0),
    last_fetched_epoch=LeaderEpoch(0),
    high_watermark=-1,
    log_start_offset=0,
)


class AcksWord(Enum):
    """Acknowledgements as a client's configuration spells them."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


_ACKS = {AcksWord.ALL: Acks.ALL, AcksWord.LEADER: Acks.LEADER, AcksWord.NONE: Acks.NONE}


class RoomWord(Enum):
    """What a follower's volume has room for."""

    RECORDS = "records"
    NONE = "none"


def fetch(story: Story, *, broker: int, room: RoomWord = RoomWord.RECORDS) -> None:
    """Deliver the fetch that a follower has sent; room=none is one of a full volume."""
    _expect(story, broker, "sent no fetch", broker in story.world.replication.fetches)
    story.world.replication.deliver_fetch(broker, without_records=room is RoomWord.NONE)


def refetch(
    story: Story,
    *,
    broker: int,
    fetch_offset: int,
    leader_epoch: int,
    last_fetched_epoch: int,
    broker_epoch: int | None = None,
    clean_since_epoch: int | None = None,
) -> None:
    """Deliver a fetch that no core made, for instance of an earlier process of a follower."""
    follower = story.broker(broker)
    event = FollowerFetchReceived(
        request_id=story.next_id(),
        follower=follower.broker_id,
        broker_epoch=BrokerEpoch(broker_epoch or follower.broker_epoch),
        clean_since_epoch=BrokerEpoch(clean_since_epoch or follower.clean_since_epoch),
        max_wait_ms=0,
        partitions=(
            replace(
                ANY_FETCH,
                fetch_offset=fetch_offset,
                leader_epoch=LeaderEpoch(leader_epoch),
                last_fetched_epoch=LeaderEpoch(last_fetched_epoch),
            ),
        ),
    )
    story.step(story.world.state().leader, event)


def reply(story: Story, *, broker: int, batches: int | None = None) -> None:
    """Deliver the oldest response to a follower, or only its first batches."""
    waiting = story.world.replication.responses.get(broker)
    _expect(story, broker, "waits for no response", bool(waiting))
    story.world.replication.deliver_response(broker, batches=batches)


def sync(story: Story, *, brokers: tuple[int, ...]) -> None:
    """Deliver fetches and responses of these followers until every fetch waits at its leader."""
    replication = story.world.replication
    for _ in range(ROUNDS_MAX):
        moved = False
        for each in brokers:
            while replication.responses.get(each):
                replication.deliver_response(each)
                moved = True
            if each in replication.fetches:
                replication.deliver_fetch(each)
                moved = True
        if not moved:
            return
    raise ScenarioError("replication does not come to rest")


def lose_fetch(story: Story, *, broker: int) -> None:
    """Break the stream of a follower: its fetch failed."""
    _expect(story, broker, "sent no fetch", broker in story.world.replication.fetches)
    story.world.replication.lose_fetch(broker)


def produce(
    story: Story,
    *,
    broker: int,
    records: tuple[str, ...],
    acks: AcksWord = AcksWord.ALL,
    timeout_ms: int = 30_000,
    duplicate_at: int | None = None,
) -> None:
    """Send a batch of named records to a broker; duplicate_at= is where it was appended before."""
    request_id, required = story.next_id(), _ACKS[acks]
    story.world.replication.produced[request_id] = (list(records), required)
    sequence: SequenceCheck = ErrorCode.NONE
    if duplicate_at is not None:
        sequence = BatchSpan(
            base_offset=duplicate_at,
            next_offset=duplicate_at + len(records),
            leader_epoch=LeaderEpoch(0),
        )
    event = ProduceReceived(
        request_id=request_id,
        tp=tp(),
        acks=required,
        record_count=len(records),
        records=RecordsHandle([(NO_EPOCH, name) for name in records]),
        timeout_ms=timeout_ms,
        sequence=sequence,
    )
    story.step(broker, event)


def delete_records(story: Story, *, broker: int, offset: int, timeout_ms: int = 30_000) -> None:
    """Ask a broker to delete the records below an offset; -1 means all that consumers see."""
    event = DeleteRecordsReceived(
        request_id=story.next_id(), tp=tp(), offset=offset, timeout_ms=timeout_ms
    )
    story.step(broker, event)


def retention(story: Story, *, broker: int, offset: int) -> None:
    """Let a broker find that retention keeps no segment below an offset."""
    story.step(broker, RetentionReached(tp=tp(), offset=offset))


def wait(story: Story, *, broker: int, seen: int, max_wait_ms: int = 500) -> None:
    """Let a consumer wait until the high watermark passes the one it has seen."""
    event = DelayedFetchReceived(
        request_id=story.next_id(), watches=((tp(), seen),), max_wait_ms=max_wait_ms
    )
    story.step(broker, event)


def hang_up(story: Story, *, broker: int, request: int) -> None:
    """Close the connection of the client that waits for a request's response."""
    story.step(broker, RequestCancelled(request_id=request))


def _expect(story: Story, broker: int, otherwise: str, found: bool) -> None:
    story.broker(broker)
    if not found:
        raise ScenarioError(f"broker {broker} {otherwise}")
