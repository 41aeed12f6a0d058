"""The topics of the cluster, and when their data may be deleted.

Data goes only if this store is known to have had the topic. Which topics it had, the BrokerCluster
says: the controller writes a topic into `status.deletedTopics` that it had committed, and that a
quorum list shows no more. A further quorum list must lack the topic, too. The logs of any other
topic id are strays, and stay (ADR 0037).

A topic counts as committed if it was listed when this controller was recorded; or if it was known,
then the recorded topic revision rose, and then a list showed it beside that revision. A store that
went back to before the topic lacks it in that list, or has an older record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from strandline.model import ClusterRecord, ControllerEpoch, DeletedTopic, StoredTopic, TopicId

from .effects import ReadTopics
from .store_events import StoreOutcome, TopicsRead
from .timing import ControllerTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicVerdicts:
    """What a quorum list of all topics means.

    deleted: the BrokerCluster has recorded these, their logs may go. gone: committed by this
    controller, to be recorded. returned: recorded or confirmed before, and there again.
    committed: these count as committed from now on. current: those of the list that are as new as
    what is known.
    """

    deleted: tuple[TopicId, ...] = ()
    gone: tuple[DeletedTopic, ...] = ()
    returned: tuple[TopicId, ...] = ()
    committed: tuple[TopicId, ...] = ()
    current: tuple[StoredTopic, ...] = ()


class Topics:
    """Topics that are known, committed, suspected to be gone, missing, or confirmed deleted."""

    def __init__(
        self, *, epoch: ControllerEpoch, timing: ControllerTiming, new_request_id: Callable[[], int]
    ) -> None:
        self.known: dict[TopicId, StoredTopic] = {}
        """The topics that have an effective configuration, as last read."""
        self.missing: set[TopicId] = set()
        """Topic ids of logs that a quorum list lacked: strays, or topics that were deleted."""
        self.uncommitted: set[TopicId] = set()
        """Topics for which the topic revision must rise."""
        self.record_lost = False
        """The BrokerCluster has not the record of this controller any more: time to resign."""
        self._epoch = epoch
        self._timing = timing
        self._new_request_id = new_request_id
        self._uid: str | None = None
        self._revision = 0
        self._may_delete = False
        self._raised_for: dict[TopicId, int] = {}
        """By topic the revision that rose since it was known; a list must show it once more."""
        self._committed: dict[TopicId, str] = {}
        self._recorded: frozenset[TopicId] = frozenset()
        self._suspected: set[TopicId] = set()
        self._asked: frozenset[TopicId] = frozenset()
        self._observed_since_asked: set[TopicId] = set()
        self._revision_when_asked = 0
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

    def may_be_committed(self, topic_id: TopicId) -> bool:
        """Tell whether a topic does not count as committed, and nothing is known to forbid it."""
        return self._may_delete and topic_id not in self._committed

    def load(self, cluster: ClusterRecord | None, topics: Iterable[StoredTopic]) -> None:
        """Take the first lists after the election: their topics are committed."""
        if cluster is not None and cluster.controller_epoch == self._epoch:
            self._uid, self._revision = cluster.uid, cluster.topic_revision
        self.note_cluster(cluster)
        self.known = {topic.topic_id: topic for topic in topics}
        if self._uid is not None:
            self._committed = {each: topic.topic_name for each, topic in self.known.items()}

    def note_raised(self, topic_ids: Iterable[TopicId], *, revision: int) -> None:
        """Note that the BrokerCluster has this revision since the topics were known.

        They count as committed once a list shows them beside it.
        """
        self._revision = max(self._revision, revision)
        for topic_id in topic_ids:
            self.uncommitted.discard(topic_id)
            self._raised_for[topic_id] = revision
            self.suspect([topic_id])

    def keep(self, topic: StoredTopic) -> StoredTopic | None:
        """Take note of a topic. Returns the former version."""
        former = self.known.get(topic.topic_id)
        self.known[topic.topic_id] = topic
        self.missing.discard(topic.topic_id)
        return former

    def note_observed(self, topic_id: TopicId) -> None:
        """Note that a watch showed a topic: commit it, or ask for a list if it came back."""
        self._observed_since_asked.add(topic_id)
        if topic_id in self._recorded or topic_id in self._confirmed:
            self.suspect([topic_id])
        else:
            self._commit_soon([topic_id])

    def suspect_unknown(self, on_disk: Iterable[TopicId], trashed: Iterable[TopicId] = ()) -> None:
        """Ask for proof about topics that are not known, unless a list lacked them already."""
        found = set(on_disk)
        deletable = found & self._recorded
        unknown = found.union(trashed) - self.missing
        self.suspect((unknown | deletable).difference(self.known))

    def suspect(self, topic_ids: Iterable[TopicId]) -> None:
        """Ask for proof about topics that may be gone."""
        self._suspected.update(topic_ids)

    def tick(self, now_ms: int) -> list[ReadTopics]:
        """Ask for a quorum list if a topic is suspected."""
        if not self._suspected or self._request_id is not None or now_ms < self._not_before_ms:
            return []
        self._asked, self._suspected = frozenset(self._suspected), set()
        self._observed_since_asked.clear()
        self._revision_when_asked = self._revision
        self._request_id = self._new_request_id()
        return [ReadTopics(request_id=self._request_id)]

    def on_topics_read(self, event: TopicsRead, now_ms: int) -> TopicVerdicts:
        """Judge the topics that were suspected before the list."""
        if event.request_id != self._request_id:
            return TopicVerdicts()
        self._request_id = None
        if event.outcome is not StoreOutcome.OK:
            self._failures += 1
            self._not_before_ms = now_ms + self._timing.retry.after_ms(self._failures)
            self._suspected |= self._asked
            return TopicVerdicts()
        self._failures = 0
        # What a watch showed meanwhile may be newer than the list, and would not come again.
        current = tuple(
            each for each in event.topics if each.topic_id not in self._observed_since_asked
        )
        # The record may have been read before a write whose response came first.
        may_delete = self.note_cluster(event.cluster, revision=self._revision_when_asked)
        missing = sorted(self._asked - event.topic_ids)
        for topic_id in missing:
            self.missing.add(topic_id)
            self.known.pop(topic_id, None)
        if not may_delete:
            return TopicVerdicts(current=current)
        returned = (self._recorded | self._confirmed.keys()) & event.topic_ids
        for topic_id in returned:
            self._confirmed.pop(topic_id, None)
        deleted = [topic_id for topic_id in missing if topic_id in self._recorded]
        gone = [each for each in missing if each in self._committed and each not in deleted]
        for topic_id in deleted:
            self._confirm(topic_id)
        return TopicVerdicts(
            deleted=tuple(deleted),
            gone=tuple(DeletedTopic(topic_id=e, topic_name=self._committed[e]) for e in gone),
            returned=tuple(sorted(returned)),
            committed=self._commit(event),
            current=current,
        )

    def _commit(self, event: TopicsRead) -> tuple[TopicId, ...]:
        """Commit what a list shows beside the revision that rose for it, and the rest soon."""
        committed: list[TopicId] = []
        revision = 0 if event.cluster is None else event.cluster.topic_revision
        for topic_id in self._raised_for.keys() - event.topic_ids:
            del self._raised_for[topic_id]
        for topic in event.topics:
            if self._raised_for.get(topic.topic_id, revision + 1) <= revision:
                del self._raised_for[topic.topic_id]
                self._committed[topic.topic_id] = topic.topic_name
                committed.append(topic.topic_id)
        self._commit_soon(topic.topic_id for topic in event.topics)
        return tuple(committed)

    def _commit_soon(self, topic_ids: Iterable[TopicId]) -> None:
        if self._may_delete:
            self.uncommitted.update(
                topic_id
                for topic_id in topic_ids
                if topic_id not in self._committed and topic_id not in self._raised_for
            )

    def _confirm(self, topic_id: TopicId) -> None:
        self._committed.pop(topic_id, None)
        self._confirmed[topic_id] = None
        while len(self._confirmed) > self._timing.confirmed_deletions_max:
            del self._confirmed[next(iter(self._confirmed))]

    def note_cluster(self, cluster: ClusterRecord | None, *, revision: int | None = None) -> bool:
        """Take the BrokerCluster. Returns: whether it lets this controller delete data.

        It does not if it is gone or being deleted, or if it has another record than ours: one of
        another controller, or of an earlier revision than was stored before it was read.
        """
        self._recorded = frozenset(
            each.topic_id for each in ([] if cluster is None else cluster.deleted_topics)
        )
        self._may_delete = self._lets_delete(cluster, revision)
        if not self._may_delete:
            self.uncommitted.clear()
        return self._may_delete

    def _lets_delete(self, cluster: ClusterRecord | None, revision: int | None) -> bool:
        if cluster is None:
            return False
        is_ours = (cluster.uid, cluster.controller_epoch) == (self._uid, self._epoch)
        least_revision = self._revision if revision is None else revision
        if not is_ours or cluster.topic_revision < least_revision:
            self.record_lost = True
            return False
        return not cluster.is_deleting
