"""The bytes that copies get, and when: a quota over time that the tests give."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from strandline.core.copy_quota import (
    BURST_SECONDS,
    GATHER_MS,
    TURN_KEPT_MS,
    WAIT_MAX_MS,
    CopyQuota,
)
from strandline.model import BrokerId

RATE = 1 << 20
RESPONSE = 1 << 20
BATCH = 16_384
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def drained(rate: int = RATE) -> CopyQuota:
    """Return a quota whose bucket was emptied at time 0."""
    quota = CopyQuota(rate=rate)
    quota.note_copied(ONE, quota.allowed_bytes(ONE, 0))
    return quota


@dataclass(slots=True, kw_only=True)
class Copier:
    """A follower that always lacks records, in whole batches; early ones fetch each `every_ms`.

    It does what a follower, its leader's core and the transport do together.
    """

    broker: BrokerId
    every_ms: int = WAIT_MAX_MS
    at_ms: int = 0
    fetches: int = 0
    copied: list[tuple[int, int]] = field(default_factory=list)

    def fetch(self, quota: CopyQuota) -> None:
        self.fetches += 1
        allowed = quota.allowed_bytes(self.broker, self.at_ms)
        if allowed == 0:
            quota.note_refused(self.broker, self.at_ms)
        else:
            size = max(BATCH, min(allowed, RESPONSE) // BATCH * BATCH)
            quota.note_copied(self.broker, size)
            self.copied.append((self.at_ms, size))
        wait_ms = min(quota.wait_ms(self.broker, self.at_ms), self.every_ms)
        self.at_ms += max(1, wait_ms)

    @property
    def total(self) -> int:
        return sum(size for _, size in self.copied)


def run(quota: CopyQuota, *copiers: Copier, until_ms: int) -> None:
    """Let each copier fetch at its times."""
    while (next_one := min(copiers, key=lambda each: each.at_ms)).at_ms < until_ms:
        next_one.fetch(quota)


def windows(copied: list[tuple[int, int]], length_ms: int) -> Iterator[int]:
    """Yield the bytes of every window that begins with a response."""
    for begin, _ in copied:
        yield sum(size for at, size in copied if begin <= at < begin + length_ms)


def test_in_any_time_copies_get_the_rate_a_burst_and_one_batch_at_most() -> None:
    quota = CopyQuota(rate=RATE)
    copiers = [Copier(broker=ONE), Copier(broker=TWO, every_ms=7), Copier(broker=THREE)]
    run(quota, *copiers, until_ms=20_000)
    everything = sorted(each for copier in copiers for each in copier.copied)
    for length_ms in (1, 500, 1_000, 5_000, 20_000):
        bound = RATE * length_ms // 1_000 + RATE * BURST_SECONDS + BATCH
        assert max(windows(everything, length_ms)) <= bound
    assert sum(size for _, size in everything) >= 0.95 * RATE * 20, "the rate is used"


@pytest.mark.parametrize("seed", range(20))
def test_no_copier_starves_however_often_the_others_fetch(seed: int) -> None:
    drawn = random.Random(seed)
    quota = CopyQuota(rate=RATE)
    copiers = [
        Copier(
            broker=BrokerId(number),
            every_ms=drawn.choice([1, 7, 100, 500, 1_000]),
            at_ms=drawn.randrange(100),
        )
        for number in range(drawn.randrange(2, 6))
    ]
    run(quota, *copiers, until_ms=60_000)
    fair = sum(copier.total for copier in copiers) / len(copiers)
    assert min(copier.total for copier in copiers) >= fair / 10
    assert sum(copier.total for copier in copiers) >= 0.9 * RATE * 60


def test_a_copy_that_waits_comes_back_at_most_ten_times_a_second() -> None:
    copier = Copier(broker=ONE)
    run(drained(), copier, until_ms=10_000)
    waits = copier.fetches - len(copier.copied)
    assert waits <= 10_000 / GATHER_MS


def test_a_batch_that_is_larger_than_the_bucket_goes_and_is_paid_off() -> None:
    rate = 1 << 16
    quota = drained(rate)
    assert quota.allowed_bytes(ONE, 100) > 0
    quota.note_copied(ONE, 4 * rate)
    assert quota.allowed_bytes(ONE, 3_900) == 0
    assert quota.wait_ms(ONE, 3_900) <= 2 * GATHER_MS
    assert quota.allowed_bytes(ONE, 4_100) > 0


def test_no_wait_is_longer_than_its_bound() -> None:
    quota = drained()
    quota.note_copied(ONE, 1_000 * RATE)
    assert quota.wait_ms(ONE, 0) == WAIT_MAX_MS


def test_a_changed_rate_counts_from_now_on() -> None:
    quota = drained()
    quota.note_copied(ONE, 10 * RATE)
    assert quota.allowed_bytes(ONE, 1_000) == 0
    quota.change_rate(100 * RATE)
    assert quota.allowed_bytes(ONE, 1_200) > 0
    quota.change_rate(RATE)
    assert quota.allowed_bytes(ONE, 60_000) == RATE * BURST_SECONDS


def test_who_was_refused_first_is_first_and_a_lost_turn_holds_nobody_up() -> None:
    quota = drained()
    quota.note_refused(TWO, 0)
    assert quota.allowed_bytes(ONE, 400) == 0
    assert quota.wait_ms(ONE, 400) > 0
    assert quota.allowed_bytes(TWO, 400) > 0
    quota.note_copied(TWO, BATCH)
    assert quota.allowed_bytes(ONE, 400) > 0

    quota = drained()
    quota.note_refused(TWO, TURN_KEPT_MS)
    assert quota.allowed_bytes(ONE, 2 * TURN_KEPT_MS - 1) == RATE // 2, "the upper half is open"
    assert quota.allowed_bytes(ONE, 2 * TURN_KEPT_MS) == RATE


def test_the_largest_rate_is_no_bound() -> None:
    quota = CopyQuota(rate=(1 << 63) - 1)
    for _ in range(100):
        assert quota.allowed_bytes(ONE, 0) > RESPONSE
        quota.note_copied(ONE, RESPONSE)
    assert quota.wait_ms(ONE, 0) == 0
