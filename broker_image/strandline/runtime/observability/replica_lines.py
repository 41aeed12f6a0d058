"""The lines of one replica in a scrape, kept from one scrape to the next until they change.

Used by `replica_metrics`. A scrape of 1,000 partitions is 13,500 lines. Those of followers alone
are made each time, as every fetch moves a time; their beginnings are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from strandline import names
from strandline.core.progress import FollowerProgress
from strandline.core.views import ReplicaGauges, RoleName
from strandline.model import BrokerId, PartitionState, TopicPartition
from strandline.names import Metric

from .exposition import number, pairs

STATE_ROWS: Final = (
    names.PARTITION_LEADER_EPOCH,
    names.PARTITION_IS_LEADER,
    names.PARTITION_REPLICAS,
    names.PARTITION_ISR_SIZE,
    names.PARTITION_ELIGIBLE_LEADERS,
    names.PARTITION_MIN_INSYNC_REPLICAS,
    names.PARTITION_PARTITION_EPOCH,
    names.PARTITION_ISR_MEMBER,
)
"""Only a state changes them; a follower has the first two."""
OFFSET_ROWS: Final = (
    names.PARTITION_LOG_START_OFFSET,
    names.PARTITION_LOG_END_OFFSET,
    names.PARTITION_HIGH_WATERMARK,
)
SIZE_ROWS: Final = (names.PARTITION_LOG_SIZE_BYTES, names.PARTITION_LOG_SEGMENTS)
SINCE_ROWS: Final = (
    names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS,
    names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS,
)
FOLLOWER_ROWS: Final = (
    names.REPLICA_LOG_END_OFFSET,
    names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS,
)
KEPT_ROWS: Final = (*OFFSET_ROWS, *SIZE_ROWS, *STATE_ROWS, *SINCE_ROWS)
ROWS: Final = (*KEPT_ROWS, *FOLLOWER_ROWS)
"""The rows of a replica, in the order in which they are shown."""
_LABELS: Final = ROWS[0].labels
"""Of every row, beside the replica's."""


class TimeTexts(dict[int, str]):
    """Times of the core's clock, in ms, as the wall's end of a line; made on first use.

    began is the wall time in seconds at which the core's clock stood at 0.
    """

    def __init__(self, began: float) -> None:
        super().__init__()
        self._began: Final = began

    def __missing__(self, time_ms: int) -> str:
        text = self[time_ms] = f"{self._began + time_ms / 1000:.3f}\n"
        return text


COUNTED_ROWS: Final = (
    names.BROKER_LEADERS,
    names.BROKER_LEADERS_FOR_OTHERS,
    names.BROKER_UNDER_REPLICATED_PARTITIONS,
    names.BROKER_UNDER_MIN_ISR_PARTITIONS,
    names.BROKER_AT_MIN_ISR_PARTITIONS,
    names.BROKER_OFFLINE_REPLICAS,
)
"""How many of a broker's replicas are so."""


SeenReplica = tuple[
    TopicPartition, ReplicaGauges, int | None, int | None, tuple[float, float] | None
]
"""What the kept lines of a replica show; equal as long as these need not change.

After its gauges the bytes and segments of its log, None without a log; then when its leadership
began and when its ISR last changed, None if that is not known, and on a follower. Not a named
tuple: one is made for every replica at every scrape, and a plain one costs a tenth.
"""


class ReplicaLines:
    """One replica, as scrapes show it; `update` comes before what is read from it.

    counts tells for each of COUNTED_ROWS whether the replica is one of these.
    """

    def __init__(self, topic_name: str, partition: int, broker_id: BrokerId) -> None:
        self._labels: Final = pairs(zip(_LABELS, (topic_name, str(partition)), strict=True))
        self._begin: Final = [self._beginning(row) for row in (*OFFSET_ROWS, *SIZE_ROWS)]
        self._broker_id: Final = broker_id
        self._state: PartitionState | None = None
        self._role: RoleName | None = None
        self._state_lines: Sequence[str] = ()
        self._since: tuple[float, float] | None = None
        self._since_lines = self._lines_of_since()
        self._followers: dict[BrokerId, Sequence[str]] = {}
        self.counts: Sequence[bool] = ()

    def update(self, seen: SeenReplica) -> None:
        """Make those lines and counts anew of which anything changed."""
        _, gauges, _, _, since = seen
        if gauges.state is not self._state or gauges.role is not self._role:
            self._state, self._role = gauges.state, gauges.role
            self._state_lines = self._lines_of_state()
            self.counts = self._counts()
            self._followers.clear()
        if since != self._since:
            self._since = since
            self._since_lines = self._lines_of_since()

    def lines(self, seen: SeenReplica) -> Sequence[str]:
        """Return a text for each of KEPT_ROWS, "" for a row without lines; after `update`."""
        _, gauges, *sizes, _ = seen
        offsets = (gauges.log_start_offset, gauges.log_end_offset, gauges.high_watermark)
        return (
            *(
                "" if each is None else f"{begin}{each}\n"
                for begin, each in zip(self._begin, (*offsets, *sizes), strict=True)
            ),
            *self._state_lines,
            *self._since_lines,
        )

    def add_followers(
        self,
        followers: Mapping[BrokerId, FollowerProgress],
        times: Mapping[int, str],
        ends: list[str],
        caught_up: list[str],
    ) -> None:
        """Add the lines of a leader's followers to those of each of FOLLOWER_ROWS.

        times has the text of each time of the core's clock.
        """
        for broker_id, follower in followers.items():
            begin = self._followers.get(broker_id) or self._follower(broker_id)
            ends.append(f"{begin[0]}{follower.log_end_offset}\n")
            if (caught_up_ms := follower.caught_up_ms) is not None:
                caught_up.append(begin[1] + times[caught_up_ms])

    def _follower(self, broker_id: BrokerId) -> Sequence[str]:
        begin = [self._beginning(row, str(broker_id)) for row in FOLLOWER_ROWS]
        self._followers[broker_id] = begin
        return begin

    def _lines_of_since(self) -> Sequence[str]:
        """Return a text for each of SINCE_ROWS."""
        if self._since is None:
            return [""] * len(SINCE_ROWS)
        return [
            f"{self._beginning(row)}{number(each)}\n"
            for row, each in zip(SINCE_ROWS, self._since, strict=True)
        ]

    def _lines_of_state(self) -> Sequence[str]:
        """Return a text for each of STATE_ROWS."""
        state, leads = self._state, self._role is RoleName.LEADER
        values = [-1 if state is None else state.leader_epoch, int(leads)]
        members = ""
        if state is not None and leads:
            values += (
                len(state.original_replicas),
                len(state.isr),
                len(state.eligible_leaders),
                state.least_in_sync,
                state.partition_epoch,
            )
            members = "".join(
                f"{self._beginning(STATE_ROWS[-1], str(each))}{int(each in state.isr_ids)}\n"
                for each in state.replicas
            )
        lines = [
            f"{self._beginning(row)}{value}\n"
            for row, value in zip(STATE_ROWS[:-1], values, strict=False)
        ]
        return [*lines, *[""] * (len(STATE_ROWS) - 1 - len(lines)), members]

    def _counts(self) -> Sequence[bool]:
        state, failed = self._state, self._role is RoleName.FAILED
        if state is None or self._role is not RoleName.LEADER:
            return (*[False] * (len(COUNTED_ROWS) - 1), failed)
        # A replica that is being added is not missing.
        original, isr = state.original_replicas, len(state.isr)
        return (
            True,
            original[0] != self._broker_id,
            isr < len(original),
            isr < state.least_in_sync,
            isr == state.least_in_sync,
            failed,
        )

    def _beginning(self, row: Metric, replica: str = "") -> str:
        more = f',{row.labels[-1]}="{replica}"' if replica else ""
        return f"{row.name}{{{self._labels}{more}}} "
