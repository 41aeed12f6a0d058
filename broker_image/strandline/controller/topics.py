"""The topics of the cluster, and when their data may be deleted.

Data may go only after a quorum list showed no topic with that uid. A topic missing in a watch or a
list of usable topics only causes that quorum list. Kubernetes never uses a uid again, so a deleted
topic stays deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from strandline.model import StoredTopic, TopicId

from .effects import ReadTopics
from .store_events import StoreOutcome, TopicsRead
from .timing import ControllerTiming


class Topics:
    """Topics that are known, that may be deleted, and whose deletion is confirmed."""

    def __init__(self, *, timing: ControllerTiming, new_request_id: Callable[[], int]) -> None:
        self.known: dict[TopicId, StoredTopic] = {}
        """The topics that have an effective configuration, as last read."""
        self._timing = timing
        self._new_request_id = new_request_id
        self._suspected: set[TopicId] = set()
        self._asked: frozenset[TopicId] = frozenset()
        self._request_id: int | None = None
        self._failures = 0
        self._not_before_ms = 0
        self._confirmed: dict[TopicId, None] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next list may begin."""
        waiting = bool(self._suspected) and self._request_id is None
        return self._not_before_ms if waiting else None

    def is_confirmed(self, topic_id: TopicId) -> bool:
        """Tell whether a topic's deletion is confirmed: its late watch events mean nothing."""
        return topic_id in self._confirmed

    def keep(self, topic: StoredTopic) -> StoredTopic | None:
        """Take note of a topic. Returns the former version."""
        former = self.known.get(topic.topic_id)
        self.known[topic.topic_id] = topic
        return former

    def suspect_unknown(self, topic_ids: Iterable[TopicId]) -> None:
        """Ask for proof about those of these topics that are not known."""
        self.suspect(set(topic_ids).difference(self.known))

    def suspect(self, topic_ids: Iterable[TopicId]) -> None:
        """Ask for proof about topics that may be gone."""
        self._suspected.update(topic_ids)

    def tick(self, now_ms: int) -> list[ReadTopics]:
        """Ask for a quorum list if a topic is suspected."""
        if not self._suspected or self._request_id is not None or now_ms < self._not_before_ms:
            return []
        self._asked, self._suspected = frozenset(self._suspected), set()
        self._request_id = self._new_request_id()
        return [ReadTopics(request_id=self._request_id)]

    def on_topics_read(self, event: TopicsRead, now_ms: int) -> list[TopicId]:
        """Forget and return the topics that were suspected before the list, and are not in it."""
        if event.request_id != self._request_id:
            return []
        self._request_id = None
        if event.outcome is not StoreOutcome.OK:
            self._failures += 1
            self._not_before_ms = now_ms + self._timing.retry.after_ms(self._failures)
            self._suspected |= self._asked
            return []
        self._failures = 0
        confirmed = sorted(self._asked - event.topic_ids)
        for topic_id in confirmed:
            self._confirmed[topic_id] = None
            self.known.pop(topic_id, None)
        while len(self._confirmed) > self._timing.confirmed_deletions_max:
            del self._confirmed[next(iter(self._confirmed))]
        return confirmed
