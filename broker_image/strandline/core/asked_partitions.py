"""What this broker last asked a leader for: a partition costs work only when it may be another.

Each `Fetcher` has one; it touches a partition whose position or readiness may have changed, and the
next fetch looks at the touched ones alone (ADR 0067).

Invariant: a partition that is not touched would be asked for as the last fetch did, or again not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from strandline.model import TopicPartition

from .fetch_changes import FetchChanges, FetchPartition


@dataclass(slots=True)
class AskedPartitions:
    """The last fetch, and what changed since; the request id of a session's first fetch names it.

    asked holds the partitions in the order of their last change, as the leader does.
    """

    asked: dict[TopicPartition, FetchPartition] = field(default_factory=dict)
    _touched: dict[TopicPartition, None] = field(default_factory=dict)
    _session_id: int | None = None
    _session_epoch: int = 0

    def touch(self, tp: TopicPartition) -> None:
        """Have the next fetch look at a partition, after those that were touched before."""
        self._touched.pop(tp, None)
        self._touched[tp] = None

    def ask(
        self,
        request_id: int,
        *,
        wish_for: Callable[[TopicPartition], FetchPartition | None],
    ) -> FetchChanges:
        """Ask for all partitions that are ready; return what the fetch before lacked.

        Shape:   wish_for returns None for a partition that is not to be fetched now
        """
        if self._session_id is None:
            self._session_id = request_id
        else:
            self._session_epoch += 1
        changed: list[FetchPartition] = []
        forgotten: list[TopicPartition] = []
        for tp in self._touched:
            before, wish = self.asked.get(tp), wish_for(tp)
            if before == wish:
                continue
            if before is not None:
                del self.asked[tp]
            if wish is None:
                forgotten.append(tp)
            else:
                self.asked[tp] = wish
                changed.append(wish)
        self._touched.clear()
        return FetchChanges(
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            changed=tuple(changed),
            forgotten=tuple(forgotten),
        )

    def ask_in_turn(self, chosen: Iterable[FetchPartition]) -> None:
        """Ask for some of the partitions, which stay touched: the others have their turns, too."""
        self.asked = {part.tp: part for part in chosen}
