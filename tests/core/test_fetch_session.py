"""A leader that remembers fetches does exactly what one does that looks at every partition."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from strandline.core.effects import Effect, PersistLogStart, ProposeIsr
from strandline.core.events import (
    AlterPartitionResponseReceived,
    DeleteRecordsReceived,
    Event,
    FollowerFetchReceived,
    LiveBrokersChanged,
    LogStartPersisted,
    RequestCancelled,
    RetentionReached,
    StopReplicaReceived,
    Ticked,
)
from strandline.core.fetch_changes import FetchChanges, FetchPartition
from strandline.core.views import PartitionView
from strandline.errors import ErrorCode
from strandline.model import (
    Acks,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    TopicId,
    TopicPartition,
)

from .samples import (
    Core,
    alive,
    command,
    entries,
    entry,
    fetched,
    leader_and_isr,
    of_type,
    produced,
    state,
)

TPS = tuple(TopicPartition(topic_id=TopicId("t"), partition=number) for number in range(4))
SEEDS = 60
EVENTS = 250


@dataclass
class Follower:
    """What a follower asked for last, and of which session that was."""

    broker_id: int
    broker_epoch: int = 1
    session_id: int = 0
    session_epoch: int = -1
    wanted: dict[TopicPartition, FetchPartition] = field(default_factory=dict)


def caught_up(core: Core) -> list[list[int | None]]:
    """Return what a scrape shows of followers."""
    found = (core.replicas.gauges(tp) for tp in TPS)
    return [[each.caught_up_ms for each in gauges.followers.values()] for gauges in found if gauges]


class Pair:
    """Two leaders that get the same events; one is never told what changed in a fetch."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.remembers, self.looks = Core(), Core()
        self.states: dict[TopicPartition, PartitionState] = {tp: state(min_isr=2) for tp in TPS}
        self.followers = [Follower(1), Follower(2)]
        self.proposals: list[ProposeIsr] = []
        self.last_fetch: FollowerFetchReceived | None = None
        self.request_id = 0
        self.step(leader_and_isr(*(command(self.states[tp], tp=tp) for tp in TPS)))

    def step(self, event: Event, after_ms: int = 0) -> None:
        whole = replace(event, changes=None) if isinstance(event, FollowerFetchReceived) else event
        effects = self.remembers.step(event, after_ms=after_ms)
        assert effects == self.looks.step(whole, after_ms=after_ms), event
        assert self.remembers.replicas.views() == self.looks.replicas.views(), event
        assert caught_up(self.remembers) == caught_up(self.looks), event
        wakeups = (each.replicas.next_wakeup_ms for each in (self.remembers, self.looks))
        assert len(set(wakeups)) == 1, event
        self._answer(effects)

    def _answer(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ProposeIsr):
                self.proposals.append(effect)
            elif isinstance(effect, PersistLogStart):
                self.step(LogStartPersisted(tp=effect.tp, offset=effect.offset))

    def new_id(self) -> int:
        self.request_id += 1
        return self.request_id

    def view(self, tp: TopicPartition) -> PartitionView | None:
        return self.remembers.replicas.view(tp)

    # --- what happens -------------------------------------------------------------------

    def fetch(self) -> None:
        draw, follower = self.draw, self.draw.choice(self.followers)
        chance = draw.random()
        if chance < 0.03:
            follower.broker_epoch = draw.choice((1, 2))
        if 0.02 < chance < 0.06 or follower.session_epoch < 0:
            follower.session_id, follower.session_epoch = self.new_id(), -1
            follower.wanted = {tp: self.position(tp, None) for tp in TPS}
            changed, forgotten = tuple(follower.wanted.values()), tuple[TopicPartition, ...]()
        else:
            changed, forgotten = self.changes(follower)
        follower.session_epoch += 1
        self.last_fetch = FollowerFetchReceived(
            request_id=self.new_id(),
            follower=BrokerId(follower.broker_id),
            broker_epoch=BrokerEpoch(follower.broker_epoch),
            clean_since_epoch=BrokerEpoch(draw.choice((1, follower.broker_epoch))),
            max_wait_ms=draw.choice((0, 500, 500, 500)),
            partitions=tuple(follower.wanted.values()),
            changes=FetchChanges(
                session_id=follower.session_id,
                session_epoch=follower.session_epoch,
                changed=changed,
                forgotten=forgotten,
            ),
            without_records=draw.random() < 0.2,
            copies_after_ms=draw.choice((0, 0, 0, 50)),
        )
        self.step(self.last_fetch, draw.choice((0, 1, 20)))

    def changes(
        self, follower: Follower
    ) -> tuple[tuple[FetchPartition, ...], tuple[TopicPartition, ...]]:
        changed: list[FetchPartition] = []
        forgotten: list[TopicPartition] = []
        for tp in TPS:
            chance = self.draw.random()
            if chance < 0.05 and follower.wanted.pop(tp, None) is not None:
                forgotten.append(tp)
            elif chance < 0.5:
                position = self.position(tp, follower.wanted.pop(tp, None))
                follower.wanted[tp] = position
                changed.append(position)
        return tuple(changed), tuple(forgotten)

    def position(self, tp: TopicPartition, before: FetchPartition | None) -> FetchPartition:
        """Return where a follower is: mostly at the end, with all the news."""
        found, draw = self.view(tp), self.draw
        end = 0 if found is None else found.log_end_offset
        start = 0 if found is None else found.log_start_offset
        epoch = -1 if found is None else found.leader_epoch
        newest = found.epochs[-1].leader_epoch if found is not None and found.epochs else -1
        rare = draw.random()
        if rare < 0.1 and before is not None:
            return before
        return FetchPartition(
            tp=tp,
            fetch_offset=max(0, end - (rare < 0.25) + (rare > 0.97)),
            leader_epoch=LeaderEpoch(max(0, epoch - (rare > 0.95))),
            last_fetched_epoch=LeaderEpoch(newest),
            high_watermark=0 if found is None else max(0, found.high_watermark - (rare > 0.9)),
            log_start_offset=start if rare < 0.8 else 0,
        )

    def lose_fetch(self) -> None:
        """Let a fetch get lost with its stream."""
        follower = self.draw.choice(self.followers)
        self.changes(follower)
        follower.session_epoch += 1

    def fetch_again(self) -> None:
        """Deliver the last fetch a second time, as a network may."""
        if self.last_fetch is not None:
            self.step(replace(self.last_fetch, request_id=self.new_id()))

    def produce(self) -> None:
        acks = self.draw.choice((Acks.ALL, Acks.ALL, Acks.LEADER))
        self.step(produced(self.new_id(), acks=acks, tp=self.draw.choice(TPS)))

    def pass_time(self) -> None:
        self.step(Ticked(), self.draw.choice((1, 100, 500, 800)))

    def cancel(self) -> None:
        self.step(RequestCancelled(request_id=self.request_id))

    def announce(self) -> None:
        draw = self.draw
        epoch = draw.choice((1, 1, 1, 2))
        brokers = alive(0) + alive(*draw.choice(((1, 2), (1, 2), (1,), ())), epoch=epoch)
        self.step(LiveBrokersChanged(controller_epoch=ControllerEpoch(1), brokers=brokers))

    def begin_later(self) -> None:
        tp = self.draw.choice(TPS)
        found = self.view(tp)
        if found is None:
            return
        offset = self.draw.randint(0, found.high_watermark)
        if self.draw.random() < 0.5:
            self.step(RetentionReached(tp=tp, offset=offset))
        else:
            request = DeleteRecordsReceived(
                request_id=self.new_id(), tp=tp, offset=offset, timeout_ms=300
            )
            self.step(request)

    def accept_proposal(self) -> None:
        if not self.proposals:
            return
        proposal = self.proposals.pop(self.draw.randrange(len(self.proposals)))
        known = self.states[proposal.tp]
        if known.partition_epoch == proposal.partition_epoch and self.draw.random() < 0.8:
            isr = proposal.isr if self.draw.random() < 0.8 else known.isr
            self.states[proposal.tp] = replace(
                known, isr=isr, partition_epoch=PartitionEpoch(known.partition_epoch + 1)
            )
        answer = AlterPartitionResponseReceived(
            request_id=proposal.request_id,
            tp=proposal.tp,
            error=ErrorCode.NONE,
            stored=self.states[proposal.tp],
        )
        self.step(answer)

    def command(self) -> None:
        """Commit another state, of the same leadership or of a later one."""
        draw, tp = self.draw, self.draw.choice(TPS)
        known = self.states[tp]
        later = draw.random() < 0.3
        members = draw.choice(((0, 1, 2), (0, 1), (0,), (0, 2)))
        leader = draw.choice((0, 0, 0, 1)) if later else known.leader
        isr = known.isr if draw.random() < 0.5 else entries(*members)
        if leader == 1 and all(each.broker_id != 1 for each in isr):
            isr = (*isr, entry(1))
        replicas = draw.choice(((0, 1, 2), (0, 1, 2), (0, 1), (1, 2)))
        self.states[tp] = replace(
            known,
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(known.leader_epoch + later),
            partition_epoch=PartitionEpoch(known.partition_epoch + 1),
            isr=isr,
            replicas=tuple(BrokerId(each) for each in replicas),
            adding_replicas=(BrokerId(2),) if draw.random() < 0.2 else (),
        )
        self.step(leader_and_isr(command(self.states[tp], tp=tp), request_id=self.new_id()))

    def stop_replica(self) -> None:
        tp = self.draw.choice(TPS)
        event = StopReplicaReceived(
            request_id=self.new_id(),
            controller_epoch=ControllerEpoch(1),
            broker_epoch=BrokerEpoch(1),
            partitions=(tp,),
        )
        self.step(event)


HAPPENINGS: list[tuple[int, Callable[[Pair], None]]] = [
    (50, Pair.fetch),
    (1, Pair.lose_fetch),
    (2, Pair.fetch_again),
    (20, Pair.produce),
    (10, Pair.pass_time),
    (2, Pair.cancel),
    (3, Pair.announce),
    (3, Pair.begin_later),
    (6, Pair.accept_proposal),
    (3, Pair.command),
    (1, Pair.stop_replica),
]


@pytest.mark.parametrize("first_seed", range(0, SEEDS, 10))
def test_what_is_remembered_changes_no_decision(first_seed: int) -> None:
    weights = [weight for weight, _ in HAPPENINGS]
    for seed in range(first_seed, first_seed + 10):
        pair = Pair(seed)
        for _, happen in pair.draw.choices(HAPPENINGS, weights=weights, k=EVENTS):
            happen(pair)


def test_a_follower_that_ran_full_while_nothing_changed_does_not_join_behind_the_end() -> None:
    core, settled = Core(), position_of(TPS[0])
    core.step(leader_and_isr(command(state(), tp=TPS[0])))
    core.step(told(0, settled))
    core.live(0, 1)
    core.step(replace(told(1), partitions=(settled,), without_records=True))
    core.step(leader_and_isr(command(state(isr=entries(0, 1), pe=1), tp=TPS[0])))
    core.step(produced(9, tp=TPS[0]))
    assert of_type(core.live(0, 1, 2), ProposeIsr) == []


def position_of(tp: TopicPartition) -> FetchPartition:
    return FetchPartition(
        tp=tp,
        fetch_offset=0,
        leader_epoch=LeaderEpoch(0),
        last_fetched_epoch=LeaderEpoch(0),
        high_watermark=0,
        log_start_offset=0,
    )


def told(session_epoch: int, *changed: FetchPartition) -> FollowerFetchReceived:
    """Return a fetch of broker 2 that tells its changes."""
    changes = FetchChanges(session_id=1, session_epoch=session_epoch, changed=changed, forgotten=())
    return replace(fetched(2, *changed, request_id=session_epoch), changes=changes)
