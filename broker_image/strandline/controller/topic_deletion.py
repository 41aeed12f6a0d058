"""When data may be deleted: only after a quorum list showed no topic with that uid.

Absence from a watch, a cache or a full state deletes nothing; such an absence only asks.
A uid is never used again, so what is once gone stays gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from strandline.model import TopicId

from .effects import ReadTopics
from .store_events import Outcome, TopicsRead
from .timing import ControllerTiming


class TopicDeletion:
    """Topics that somebody missed, and those confirmed to be gone."""

    def __init__(self, *, timing: ControllerTiming, new_request_id: Callable[[], int]) -> None:
        self._timing = timing
        self._new_request_id = new_request_id
        self._suspected: set[TopicId] = set()
        self._asked: frozenset[TopicId] = frozenset()
        self._request_id: int | None = None
        self._failures = 0
        self._not_before_ms = 0
        self._gone: dict[TopicId, None] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next list may be asked for."""
        waiting = bool(self._suspected) and self._request_id is None
        return self._not_before_ms if waiting else None

    def is_gone(self, topic_id: TopicId) -> bool:
        """Tell whether a topic is known to be gone; late watch events of it are ignored."""
        return topic_id in self._gone

    def suspect(self, topic_ids: Iterable[TopicId]) -> None:
        """Somebody has data of a topic that is not known here."""
        self._suspected.update(topic_ids)

    def tick(self, now_ms: int) -> list[ReadTopics]:
        """Ask for a quorum list if something is suspected."""
        if not self._suspected or self._request_id is not None or now_ms < self._not_before_ms:
            return []
        self._asked, self._suspected = frozenset(self._suspected), set()
        self._request_id = self._new_request_id()
        return [ReadTopics(request_id=self._request_id)]

    def answered(self, event: TopicsRead, now_ms: int) -> list[TopicId]:
        """Return the topics that were suspected before the list was asked for and are not in it."""
        if event.request_id != self._request_id:
            return []
        self._request_id = None
        if event.outcome is not Outcome.OK:
            self._failures += 1
            self._not_before_ms = now_ms + self._timing.retry_after_ms(self._failures)
            self._suspected |= self._asked
            return []
        self._failures = 0
        gone = sorted(self._asked - event.topic_ids)
        for topic_id in gone:
            self._gone[topic_id] = None
        while len(self._gone) > self._timing.gone_topics_max:
            del self._gone[next(iter(self._gone))]
        return gone
