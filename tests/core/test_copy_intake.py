"""A follower bounds what all leaders together send to replicas that are being added to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from strandline.core.copy_quota import BURST_SECONDS, GATHER_MS, WAIT_MAX_MS, CopyIntakeChanged
from strandline.core.effects import Effect, SendFetch
from strandline.core.events import FetchedPartition, FetchResponseReceived, Ticked
from strandline.errors import ErrorCode
from strandline.model import BrokerId, TopicId, TopicPartition

from .samples import SETTINGS, Core, batch, entries, of_type, state

RATE = 1 << 20
RESPONSE = 1 << 18
COPIES = {BrokerId(1): 1, BrokerId(2): 2, BrokerId(3): 3}
"""Leader to the partition of which broker 0 gets a replica from it."""
MEMBER = 9
"""Partition that broker 1 leads, too, and in whose ISR broker 0 is."""
FAR = 1 << 40
LARGEST = (1 << 63) - 1


def tp(partition: int) -> TopicPartition:
    return TopicPartition(topic_id=TopicId("t"), partition=partition)


@dataclass(slots=True)
class Added:
    """Broker 0 is added to partitions of several leaders; each has records without end."""

    rate: int = RATE
    core: Core = field(init=False)
    received: list[tuple[int, int, BrokerId]] = field(default_factory=list)
    """Times, bytes of copies, and leaders."""
    fetches: list[SendFetch] = field(default_factory=list)
    _out: dict[BrokerId, SendFetch] = field(default_factory=dict)
    _ends: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.core = Core(replace(SETTINGS, copy_intake_max=self.rate))
        self.core.live(0, 1, 2, 3)
        for leader, partition in COPIES.items():
            moving = state(leader, isr=entries(leader), replicas=(0, leader))
            moving = replace(moving, adding_replicas=(BrokerId(0),))
            self.take(self.core.send_state(moving, tp(partition)))
        follows = state(1, isr=entries(0, 1), replicas=(0, 1))
        self.take(self.core.send_state(follows, tp(MEMBER)))

    def take(self, effects: list[Effect]) -> None:
        """Note the fetches; the last one to each leader is out."""
        for each in of_type(effects, SendFetch):
            assert isinstance(each, SendFetch)
            self.fetches.append(each)
            self._out[each.leader] = each

    def asked(self, leader: int) -> list[int]:
        """Return the partitions that the fetch from a leader names, none without one."""
        out = self._out.get(BrokerId(leader))
        return [] if out is None else [each.tp.partition for each in out.partitions]

    def respond(self, leader: int, size: int = RESPONSE, *, committed: int = FAR) -> None:
        """Let a leader respond with a batch of each partition; a member's has no bytes here."""
        out = self._out.pop(BrokerId(leader))
        parts = []
        for each in out.partitions:
            is_copy = each.tp != tp(MEMBER)
            end = self._ends.get(each.tp, 0)
            self._ends[each.tp] = end + is_copy
            parts.append(
                FetchedPartition(
                    tp=each.tp,
                    error=ErrorCode.NONE,
                    high_watermark=committed if is_copy else 0,
                    log_start_offset=0,
                    batches=(batch(end, end + 1),) if is_copy else (),
                    record_bytes=size if is_copy else 0,
                )
            )
            if is_copy:
                self.received.append((self.core.now_ms, size, BrokerId(leader)))
        event = FetchResponseReceived(
            request_id=out.request_id, leader=BrokerId(leader), partitions=tuple(parts)
        )
        self.take(self.core.step(event))

    def run(self, until_ms: int, *, every_ms: int = 1) -> None:
        """Let every leader respond as soon as it is asked for a copy; time goes on in steps."""
        while self.core.now_ms < until_ms:
            for leader, partition in COPIES.items():
                if partition in self.asked(leader):
                    self.respond(leader)
            self.take(self.core.step(Ticked(), after_ms=every_ms))


def windows(received: list[tuple[int, int, BrokerId]], length_ms: int) -> Iterator[int]:
    for begin, _, _ in received:
        yield sum(size for at, size, _ in received if begin <= at < begin + length_ms)


def test_what_all_leaders_send_keeps_to_the_rate_a_burst_and_one_response_of_each() -> None:
    work = Added()
    work.run(20_000)
    for length_ms in (1, 500, 1_000, 5_000, 20_000):
        overdraft = len(COPIES) * RESPONSE
        bound = RATE * length_ms // 1_000 + RATE * BURST_SECONDS + overdraft
        assert max(windows(work.received, length_ms)) <= bound
    assert sum(size for _, size, _ in work.received) >= 0.9 * RATE * 20, "the rate is used"


def test_no_leaders_copies_starve_and_fetches_do_not_spin() -> None:
    work = Added()
    work.run(60_000)
    by_leader = dict.fromkeys(COPIES, 0)
    for _, size, leader in work.received:
        by_leader[leader] += size
    assert min(by_leader.values()) >= sum(by_leader.values()) / len(COPIES) / 10
    without = len(work.fetches) - len(work.received)
    assert without <= len(COPIES) * 60_000 / GATHER_MS


def used_up(size: int = 2 * RATE) -> Added:
    """Return the broker when leader 1 has sent more than a second's worth."""
    work = Added()
    work.respond(1, size)
    return work


def test_a_copy_is_left_out_while_the_rate_is_used_up_and_a_member_is_not() -> None:
    work = used_up()
    assert work.asked(1) == [MEMBER]
    work.respond(2)
    assert work.asked(2) == [], "a leader of copies alone is not asked at all"
    assert work.core.replicas.next_wakeup_ms is not None
    work.core.now_ms = 4_000
    work.run(4_500, every_ms=100)
    assert {leader for at, _, leader in work.received if at >= 4_000} == set(COPIES)


def test_a_held_copy_does_not_end_the_fetch_of_the_others() -> None:
    work = used_up(5 * RATE)
    sent = len(work.fetches)
    for _ in range(3):
        work.take(work.core.step(Ticked(), after_ms=WAIT_MAX_MS))
    assert len(work.fetches) == sent
    assert work.asked(1) == [MEMBER]


def test_the_leader_whose_copies_were_left_out_first_is_first() -> None:
    work = used_up()
    work.respond(2)
    for _ in range(15):
        work.take(work.core.step(Ticked(), after_ms=100))
    assert work.asked(1) == [MEMBER, 1]
    assert work.asked(2) == [], "half of the bucket is kept for the first"


def test_who_has_all_that_is_committed_is_no_copy() -> None:
    """It may have joined the ISR, and this broker hears of it later: commits wait for it."""
    work = Added()
    work.respond(1, 2 * RATE, committed=1)
    assert 1 in work.asked(1)
    work.respond(1, RESPONSE, committed=1)
    assert 1 in work.asked(1), "with all of it, and more"


def test_a_changed_rate_counts_from_the_next_try() -> None:
    work = used_up()
    work.take(work.core.step(CopyIntakeChanged(rate=100 * RATE)))
    work.run(1_200, every_ms=50)
    assert sum(1 for at, _, leader in work.received if leader == 1 and at > 0) > 1


@pytest.mark.parametrize("leader", [1, 2, 3])
def test_the_largest_rate_is_no_bound(leader: int) -> None:
    work = Added(rate=LARGEST)
    for _ in range(100):
        work.respond(leader, RATE)
        assert COPIES[BrokerId(leader)] in work.asked(leader)


def test_a_response_that_comes_too_late_counts() -> None:
    """The leader sent it, and this broker received it, although the next fetch superseded it."""
    work = Added()
    late = FetchedPartition(
        tp=tp(3),
        error=ErrorCode.NONE,
        high_watermark=FAR,
        log_start_offset=0,
        record_bytes=2 * RATE,
    )
    event = FetchResponseReceived(request_id=0, leader=BrokerId(3), partitions=(late,))
    work.core.step(event)
    work.respond(2)
    assert work.asked(2) == []
