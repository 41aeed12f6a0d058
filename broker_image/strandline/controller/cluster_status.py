"""What the controller tells in `BrokerCluster.status`: deleted topics, strays, the topic revision.

Each write is a compare-and-swap on the BrokerCluster as last read, one call at a time; a conflict
and an unknown outcome have one cure: a quorum read, then a new decision. What waits is counted per
topic, so no queue grows. `topics` decides what is recorded, `strays` what is stray (ADR 0037).
"""

from __future__ import annotations

from dataclasses import replace

from strandline.model import ClusterRecord, DeletedTopic, StrayTopic, TopicId

from .context import ControllerContext
from .effects import ControllerEffect, ReadClusterRecord, WriteClusterRecord
from .notices import StrayFound
from .store_events import ClusterRecordResponseReceived, StoreOutcome
from .strays import find_strays, shorten
from .topics import TopicVerdicts


class ClusterStatus:
    """The BrokerCluster of one controller epoch, and what must be written there."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._record: ClusterRecord | None = None
        self._gone: dict[TopicId, DeletedTopic] = {}
        self._returned: set[TopicId] = set()
        self._committing: frozenset[TopicId] = frozenset()
        """The topics for which the write that is out raises the revision."""
        self._strays: list[StrayTopic] = []
        self._strays_due_ms: int | None = None
        self._request_id: int | None = None
        self._failures = 0
        self._not_before_ms = 0

    @property
    def stray_counts(self) -> tuple[int, int]:
        """How many topics are stray, on disk and in the trash alone."""
        in_trash = sum(1 for stray in self._strays if stray.in_trash)
        return len(self._strays) - in_trash, in_trash

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next call may begin."""
        if self._request_id is not None:
            return None
        if self._gone or self._returned or self._context.topics.uncommitted:
            return self._not_before_ms
        if self._strays_due_ms is None:
            return None
        return max(self._not_before_ms, self._strays_due_ms)

    def load(self, record: ClusterRecord | None, now_ms: int) -> None:
        """Take the BrokerCluster that was read after the election."""
        self._record = record
        self._strays = [] if record is None else list(record.strays)
        self.strays_may_have_changed(now_ms)

    def strays_may_have_changed(self, now_ms: int) -> None:
        """Look for strays at the end of the period that begins with the first change."""
        if self._strays_due_ms is None:
            self._strays_due_ms = now_ms + self._context.timing.strays_period_ms

    def take(self, verdicts: TopicVerdicts) -> None:
        """Write soon what a list of all topics showed."""
        self._gone.update((each.topic_id, each) for each in verdicts.gone)
        self._returned.update(verdicts.returned)

    def tick(self, now_ms: int) -> list[ControllerEffect]:
        """Begin the call that is due: read the BrokerCluster, or write what must change."""
        due_ms = self.next_wakeup_ms
        if due_ms is None or now_ms < due_ms:
            return []
        if self._record is None:
            self._request_id = self._context.new_request_id()
            return [ReadClusterRecord(request_id=self._request_id)]
        effects = self._look_for_strays(self._record, now_ms)
        wanted = self._wanted(self._record)
        if wanted == self._record:
            self._settle(self._record, frozenset())
            return effects
        self._request_id = self._context.new_request_id()
        self._committing = frozenset(self._context.topics.uncommitted)
        return [*effects, WriteClusterRecord(request_id=self._request_id, record=wanted)]

    def _look_for_strays(self, record: ClusterRecord, now_ms: int) -> list[ControllerEffect]:
        """Find the strays if it is time. Returns: what tells of those that are new on disk."""
        if self._strays_due_ms is None or now_ms < self._strays_due_ms:
            return []
        self._strays_due_ms = None
        told = {stray.topic_id for stray in self._strays if not stray.in_trash}
        self._strays = find_strays(self._context, record.strays)
        return [
            StrayFound(
                topic_id=stray.topic_id,
                topic_name=stray.topic_name,
                partition_count=stray.partition_count,
            )
            for stray in self._strays
            if not stray.in_trash
            and stray.topic_id not in told
            and stray.topic_id not in self._context.topics.known
        ]

    def _wanted(self, record: ClusterRecord) -> ClusterRecord:
        """Return the record that must be stored, equal to the present one if it may stay."""
        timing = self._context.timing
        recorded = {each.topic_id for each in record.deleted_topics}
        # At most half of them at once: each stays until the list after its record was judged.
        new = [each for each in self._gone.values() if each.topic_id not in recorded]
        kept = [each for each in record.deleted_topics if each.topic_id not in self._returned]
        deleted = (kept + new[: timing.deleted_topics_max // 2])[-timing.deleted_topics_max :]
        strays = shorten(
            self._strays, topics_max=timing.strays_max, rows_max=timing.stray_partitions_max
        )
        return replace(
            record,
            topic_revision=record.topic_revision + (1 if self._context.topics.uncommitted else 0),
            deleted_topics=tuple(deleted),
            strays=tuple(strays),
            strays_total=len(self._strays),
        )

    def on_response(self, event: ClusterRecordResponseReceived, now_ms: int) -> None:
        """Take the BrokerCluster as read or written; repeat a call that failed, later."""
        if event.request_id != self._request_id:
            return
        self._request_id = None
        committing, self._committing = self._committing, frozenset()
        was_write, self._record = self._record is not None, None
        if event.outcome is not StoreOutcome.OK or event.record is None:
            self._failures += 1
            self.strays_may_have_changed(now_ms)
            self._not_before_ms = now_ms + self._context.timing.retry.after_ms(self._failures)
            return
        self._record = event.record
        self._failures = 0 if was_write else self._failures
        if self._context.topics.note_cluster(event.record):
            self._settle(event.record, committing)
        else:
            self._gone.clear()

    def _settle(self, record: ClusterRecord, committing: frozenset[TopicId]) -> None:
        """Take what is stored: lists must lack the recorded topics once more."""
        topics = self._context.topics
        topics.note_raised(committing, revision=record.topic_revision)
        recorded = {each.topic_id for each in record.deleted_topics}
        self._returned &= recorded
        topics.suspect(recorded & self._gone.keys())
        for topic_id in recorded & self._gone.keys():
            del self._gone[topic_id]
