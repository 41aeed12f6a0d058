"""Requests that wait for an offset or for their deadline.

A request enters once and leaves once: completed, expired or cancelled. It is known by identity, not
by its fields. Nothing here decides what the response is. Clients' requests are bounded in number;
each follower has at most one waiting fetch.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, TypeVar, assert_never, get_args

from strandline.errors import InvariantViolation
from strandline.model import BrokerEpoch, BrokerId, TopicPartition

from .fetch_session import FetchSession

Operation = Literal["produce", "delete_records", "fetch", "follower_fetch"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DelayedProduce:
    """An append; a high watermark at required_offset commits it.

    waits_for_disk: it has acks=1, and a durable end at required_offset completes it.
    """

    request_id: int
    tp: TopicPartition
    base_offset: int
    required_offset: int
    deadline_ms: int
    waits_for_disk: bool = False

    operation: Literal["produce"] = "produce"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DelayedDeleteRecords:
    """A deletion; a low watermark at offset completes it."""

    request_id: int
    tp: TopicPartition
    offset: int
    deadline_ms: int

    operation: Literal["delete_records"] = "delete_records"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DelayedFetch:
    """A consumer that saw all committed records; watches holds the high watermarks it saw."""

    request_id: int
    watches: tuple[tuple[TopicPartition, int], ...]
    deadline_ms: int

    operation: Literal["fetch"] = "fetch"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DelayedFollowerFetch:
    """A follower at our log end in every partition it fetches, or without room for records.

    watched holds the partitions whose news end the wait.
    """

    request_id: int
    follower: BrokerId
    broker_epoch: BrokerEpoch
    session: FetchSession
    watched: AbstractSet[TopicPartition]
    without_records: bool
    deadline_ms: int

    operation: Literal["follower_fetch"] = "follower_fetch"


DelayedOperation = DelayedProduce | DelayedDeleteRecords | DelayedFetch | DelayedFollowerFetch
Waiter = TypeVar("Waiter", DelayedProduce, DelayedDeleteRecords, DelayedFetch, DelayedFollowerFetch)
Index = TypeVar("Index")
Key = TypeVar("Key")
Value = TypeVar("Value")


def _discard(index: dict[Index, dict[Key, Value]], where: Index, key: Key) -> None:
    """Remove a key from an index that keeps no empty entries."""
    keys = index.get(where)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del index[where]


class Purgatory:
    """Waiting requests by what they wait for, and by deadline."""

    def __init__(self, *, requests_max: int) -> None:
        self._requests_max = requests_max
        self._waiting: dict[DelayedOperation, None] = {}
        self._by_request: dict[int, dict[DelayedOperation, None]] = {}
        self._produce: dict[TopicPartition, dict[DelayedProduce, None]] = {}
        self._deletions: dict[TopicPartition, dict[DelayedDeleteRecords, None]] = {}
        self._fetch: dict[TopicPartition, dict[DelayedFetch, int]] = {}
        self._follower: dict[BrokerId, DelayedFollowerFetch] = {}
        self._deadlines: list[tuple[int, int, DelayedOperation]] = []
        self._sequence = 0

    @property
    def is_full(self) -> bool:
        """Whether no further request of a client may wait."""
        return len(self._waiting) - len(self._follower) >= self._requests_max

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a request that still waits."""
        while self._deadlines and self._deadlines[0][2] not in self._waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def sizes(self) -> dict[Operation, int]:
        """Return how many requests wait, by operation."""
        sizes: dict[Operation, int] = dict.fromkeys(get_args(Operation), 0)
        for waiting in self._waiting:
            sizes[waiting.operation] += 1
        return sizes

    def add(self, delayed: DelayedOperation) -> None:
        """Let a request wait; the caller has taken out a follower's former fetch."""
        if isinstance(delayed, DelayedFollowerFetch) and delayed.follower in self._follower:
            raise InvariantViolation("one fetch of a follower waits", follower=delayed.follower)
        self._waiting[delayed] = None
        self._by_request.setdefault(delayed.request_id, {})[delayed] = None
        match delayed:
            case DelayedProduce():
                self._produce.setdefault(delayed.tp, {})[delayed] = None
            case DelayedDeleteRecords():
                self._deletions.setdefault(delayed.tp, {})[delayed] = None
            case DelayedFetch():
                for tp, seen in delayed.watches:
                    self._fetch.setdefault(tp, {})[delayed] = seen
            case DelayedFollowerFetch():
                self._follower[delayed.follower] = delayed
            case _:
                assert_never(delayed)
        self._sequence += 1
        # Completed requests leave their deadlines behind: drop these before they are the most.
        if len(self._deadlines) > 2 * len(self._waiting) + 64:
            self._deadlines = [each for each in self._deadlines if each[2] in self._waiting]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (delayed.deadline_ms, self._sequence, delayed))

    def take_produce(
        self, tp: TopicPartition, *, high_watermark: int, durable_end: int
    ) -> list[DelayedProduce]:
        """Take the appends of a partition that its high watermark or its disk completes."""
        waiting = self._produce.get(tp, {})
        return self._take(
            each
            for each in waiting
            if each.required_offset <= (durable_end if each.waits_for_disk else high_watermark)
        )

    def take_all_produce(self, tp: TopicPartition) -> list[DelayedProduce]:
        """Take all appends of a partition: this broker leads it no longer."""
        return self._take(self._produce.get(tp, {}))

    def take_deletions(
        self, tp: TopicPartition, *, low_watermark: int
    ) -> list[DelayedDeleteRecords]:
        """Take the deletions of a partition that a low watermark completes."""
        waiting = self._deletions.get(tp, {})
        return self._take(each for each in waiting if each.offset <= low_watermark)

    def take_all_deletions(self, tp: TopicPartition) -> list[DelayedDeleteRecords]:
        """Take all deletions of a partition: this broker leads it no longer."""
        return self._take(self._deletions.get(tp, {}))

    def take_fetches(self, tp: TopicPartition, *, high_watermark: int) -> list[DelayedFetch]:
        """Take the consumers that have not seen a partition's records below its HW."""
        waiting = self._fetch.get(tp, {}).items()
        return self._take(each for each, seen in waiting if seen < high_watermark)

    def take_all_fetches(self, tp: TopicPartition) -> list[DelayedFetch]:
        """Take all consumers that wait on a partition: its leadership changed."""
        return self._take(self._fetch.get(tp, {}))

    def waiting_follower(self, follower: BrokerId) -> DelayedFollowerFetch | None:
        """Return the waiting fetch of a follower, None without one."""
        return self._follower.get(follower)

    def take_follower_fetches(
        self, touched: Iterable[TopicPartition]
    ) -> list[DelayedFollowerFetch]:
        """Take the followers that wait for any of these partitions."""
        changed = list(touched)
        return self._take(
            waiting
            for _, waiting in sorted(self._follower.items())
            if not waiting.watched.isdisjoint(changed)
        )

    def cancel(self, request_id: int) -> None:
        """Forget a request whose client is gone."""
        for delayed in list(self._by_request.get(request_id, ())):
            self.take(delayed)

    def expire(self, now_ms: int) -> list[DelayedOperation]:
        """Take the requests whose time is over, earliest deadline first."""
        expired: list[DelayedOperation] = []
        while (deadline_ms := self.next_deadline_ms) is not None and deadline_ms <= now_ms:
            delayed = self._deadlines[0][2]
            self.take(delayed)
            expired.append(delayed)
        return expired

    def _take(self, delayed: Iterable[Waiter]) -> list[Waiter]:
        taken = list(delayed)
        for each in taken:
            self.take(each)
        return taken

    def take(self, delayed: DelayedOperation) -> None:
        """Take one request out."""
        del self._waiting[delayed]
        _discard(self._by_request, delayed.request_id, delayed)
        match delayed:
            case DelayedProduce():
                _discard(self._produce, delayed.tp, delayed)
            case DelayedDeleteRecords():
                _discard(self._deletions, delayed.tp, delayed)
            case DelayedFetch():
                for tp, _ in delayed.watches:
                    _discard(self._fetch, tp, delayed)
            case DelayedFollowerFetch():
                del self._follower[delayed.follower]
            case _:
                assert_never(delayed)
