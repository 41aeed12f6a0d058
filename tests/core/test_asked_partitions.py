"""Each fetch asks for exactly what is followed and ready, though it looks at what changed alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from strandline.core.effects import SendFetch
from strandline.core.events import FetchedPartition, FetchResponseReceived
from strandline.core.fetch_changes import FetchPartition
from strandline.core.fetchers import Fetchers
from strandline.core.follower import FollowerReplica
from strandline.errors import ErrorCode
from strandline.model import BrokerId, TopicId, TopicPartition, TopicSettings

from .samples import SETTINGS, batch, context, log, state

LEADER = BrokerId(1)
TPS = tuple(TopicPartition(topic_id=TopicId("t"), partition=number) for number in range(5))
EVENTS = 400


class Broker:
    """A follower of one leader: what it follows, and its last fetch; only so many fit in one."""

    def __init__(self, seed: int, *, partitions_max: int) -> None:
        self.draw = random.Random(seed)
        settings = replace(SETTINGS, fetch_partitions_max=partitions_max)
        self.partitions_max = partitions_max
        self.work = Fetchers(context(settings=settings))
        self.now_ms = 0
        self.replicas: dict[TopicPartition, FollowerReplica] = {}
        self.known: dict[TopicPartition, FetchPartition] = {}
        self.last: SendFetch | None = None

    def plan(self) -> None:
        for effect in self.work.plan(self.now_ms):
            assert isinstance(effect, SendFetch)
            self.judge(effect)
            self.last = effect

    def judge(self, fetch: SendFetch) -> None:
        delayed = self.work._by_leader[LEADER].delayed
        ready = {
            tp: each.fetch()
            for tp, each in self.replicas.items()
            if tp not in delayed and not each.log.waits_for_disk
        }
        asked = {part.tp: part for part in fetch.partitions}
        assert len(asked) == len(fetch.partitions)
        if len(ready) <= self.partitions_max:
            assert asked == ready
        else:
            assert asked.items() <= ready.items()
            assert len(asked) == self.partitions_max
        before = None if self.last is None else self.last.changes
        if fetch.changes is not None and before is not None and fetch.changes.follows(before):
            for tp in fetch.changes.forgotten:
                del self.known[tp]
            for part in fetch.changes.changed:
                assert self.known.pop(part.tp, None) != part
                self.known[part.tp] = part
            assert tuple(self.known.values()) == fetch.partitions
        self.known = {part.tp: part for part in fetch.partitions}

    # --- what happens -------------------------------------------------------------------

    def follow(self) -> None:
        tp = self.draw.choice(TPS)
        known = self.replicas.get(tp)
        le = 0 if known is None else known.leader_epoch + 1
        made = FollowerReplica(
            log=log(tp=tp) if known is None else known.log, state=state(leader=LEADER, le=le)
        )
        self.replicas[tp] = made
        self.work.follow(tp, made)

    def forget(self) -> None:
        tp = self.draw.choice(TPS)
        self.replicas.pop(tp, None)
        self.work.forget(tp)

    def respond(self) -> None:
        if self.last is None:
            return
        news = self.draw.sample(self.last.partitions, k=min(2, len(self.last.partitions)))
        late = self.draw.random() < 0.1
        event = FetchResponseReceived(
            request_id=self.last.request_id - late,
            leader=LEADER,
            partitions=tuple(map(self.fetched, news)),
        )
        self.work.on_fetch_response(event, self.now_ms)
        for tp, each in list(self.replicas.items()):
            if each.fenced:
                del self.replicas[tp]

    def fetched(self, part: FetchPartition) -> FetchedPartition:
        draw, end = self.draw, part.fetch_offset
        error = draw.choice(
            (ErrorCode.NONE,) * 6
            + (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
            + (ErrorCode.OFFSET_OUT_OF_RANGE,)
        )
        brings = error is ErrorCode.NONE and draw.random() < 0.6
        return FetchedPartition(
            tp=part.tp,
            error=error,
            high_watermark=end + draw.randint(0, 1),
            log_start_offset=draw.choice((0, 0, 0, end + 1)) if error else 0,
            batches=(batch(end, end + 1, epoch=part.leader_epoch),) if brings else (),
        )

    def flush(self) -> None:
        for tp, each in self.replicas.items():
            if self.draw.random() < 0.5:
                each.log.on_flushed(each.log.log_end_offset)
                self.work.note_flushed(tp)

    def change_settings(self) -> None:
        for tp, each in self.replicas.items():
            flush_messages = self.draw.choice((1, TopicSettings().flush_messages))
            if each.log.adopt_settings(TopicSettings(flush_messages=flush_messages)):
                self.work.note_settings(tp)

    def hold_back(self) -> None:
        """Let a partition wait, as a copy does whose bytes are used up."""
        if self.replicas:
            tp = self.draw.choice(sorted(self.replicas))
            self.work._by_leader[LEADER].delay(tp, self.now_ms + 50)

    def fail(self) -> None:
        if self.last is not None:
            self.work.on_fetch_failed(LEADER, self.last.request_id, self.now_ms)

    def pass_time(self) -> None:
        self.now_ms += self.draw.choice((1, 100, 2_000))


HAPPENINGS: list[tuple[int, Callable[[Broker], None]]] = [
    (10, Broker.follow),
    (8, Broker.forget),
    (40, Broker.respond),
    (10, Broker.flush),
    (3, Broker.change_settings),
    (3, Broker.hold_back),
    (3, Broker.fail),
    (10, Broker.pass_time),
]


@pytest.mark.parametrize("partitions_max", [3, 5])
def test_a_fetch_asks_for_all_that_is_ready_and_tells_what_changed(partitions_max: int) -> None:
    weights = [weight for weight, _ in HAPPENINGS]
    for seed in range(15):
        broker = Broker(seed, partitions_max=partitions_max)
        for _, happen in broker.draw.choices(HAPPENINGS, weights=weights, k=EVENTS):
            happen(broker)
            broker.plan()
        assert broker.last is not None
        assert broker.last.request_id > EVENTS // 10
