"""The lines of one replica in a scrape, most of them kept from one scrape to the next.

Used by `replica_metrics`. What only a committed state changes is formatted once for each state, and
the beginning of every line once for each replica: a scrape of 1,000 partitions is 15,000 lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline import names
from strandline.core.views import ReplicaGauges, RoleName
from strandline.log.partition_log import PartitionLog
from strandline.model import BrokerId, PartitionState
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
ROWS: Final = (*OFFSET_ROWS, *SIZE_ROWS, *STATE_ROWS, *SINCE_ROWS, *FOLLOWER_ROWS)
"""The rows of a replica; `ReplicaLines` adds lines in this order."""
_LABELS: Final = ROWS[0].labels
"""Of every row, beside the replica's."""
_STATES: Final = len(OFFSET_ROWS) + len(SIZE_ROWS)
_SINCE: Final = _STATES + len(STATE_ROWS)
_FOLLOWERS: Final = _SINCE + len(SINCE_ROWS)

Lines = Sequence[list[str]]
"""The lines of each row, in the order of ROWS."""


class ReplicaLines:
    """One replica, as scrapes show it; `update` comes before what is read from it."""

    def __init__(self, topic_name: str, partition: int) -> None:
        self._labels: Final = pairs(zip(_LABELS, (topic_name, str(partition)), strict=True))
        self._begin: Final = tuple(self._beginning(row) for row in (*OFFSET_ROWS, *SIZE_ROWS))
        self._state: PartitionState | None = None
        self.role = RoleName.IDLE
        self._state_lines: Sequence[str] = self._lines_of_state()
        self._since: tuple[float, float] | None = None
        self._since_lines: Sequence[str] = ()
        self._followers: dict[BrokerId, Sequence[str]] = {}

    @property
    def led(self) -> PartitionState | None:
        """The state under which this broker leads the partition, None if it does not."""
        return self._state if self.role is RoleName.LEADER else None

    def update(self, gauges: ReplicaGauges) -> None:
        """Take the role and the state; a state that stayed costs nothing."""
        if gauges.state is not self._state or gauges.role is not self.role:
            self._state, self.role = gauges.state, gauges.role
            self._state_lines = self._lines_of_state()
            self._followers.clear()

    def add(self, gauges: ReplicaGauges, log: PartitionLog | None, lines: Lines) -> None:
        """Add the lines that each replica has."""
        start, end, high, size, segments = self._begin
        lines[0].append(f"{start}{gauges.log_start_offset}\n")
        lines[1].append(f"{end}{gauges.log_end_offset}\n")
        lines[2].append(f"{high}{gauges.high_watermark}\n")
        if log is not None:
            lines[3].append(f"{size}{log.size_bytes}\n")
            lines[4].append(f"{segments}{log.segment_count}\n")
        for row, text in enumerate(self._state_lines, _STATES):
            lines[row].append(text)

    def add_leader(
        self,
        gauges: ReplicaGauges,
        since: tuple[float, float] | None,
        clock_began: float,
        lines: Lines,
    ) -> None:
        """Add the lines that a leader has beside those of its state.

        since is when this leadership began and when its ISR last changed, None if that is not
        known; clock_began is the wall time at which the clock of the core stood at 0.
        """
        if since is not None:
            if since != self._since:
                self._since = since
                self._since_lines = [
                    f"{self._beginning(row)}{number(each)}\n"
                    for row, each in zip(SINCE_ROWS, since, strict=True)
                ]
            for row, text in enumerate(self._since_lines, _SINCE):
                lines[row].append(text)
        for broker_id, follower in gauges.followers.items():
            end, caught_up = self._follower(broker_id)
            lines[_FOLLOWERS].append(f"{end}{follower.log_end_offset}\n")
            if (caught_up_ms := follower.caught_up_ms) is not None:
                seconds = clock_began + caught_up_ms / 1000
                lines[_FOLLOWERS + 1].append(f"{caught_up}{seconds:.3f}\n")

    def _follower(self, broker_id: BrokerId) -> Sequence[str]:
        if broker_id not in self._followers:
            self._followers[broker_id] = [
                self._beginning(row, str(broker_id)) for row in FOLLOWER_ROWS
            ]
        return self._followers[broker_id]

    def _lines_of_state(self) -> Sequence[str]:
        state = self._state
        begin = [self._beginning(row) for row in STATE_ROWS[:-1]]
        values = [-1 if state is None else state.leader_epoch, int(self.role is RoleName.LEADER)]
        if state is None or self.role is not RoleName.LEADER:
            return [f"{text}{value}\n" for text, value in zip(begin, values, strict=False)]
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
        return [*(f"{text}{value}\n" for text, value in zip(begin, values, strict=True)), members]

    def _beginning(self, row: Metric, replica: str = "") -> str:
        more = f',{row.labels[-1]}="{replica}"' if replica else ""
        return f"{row.name}{{{self._labels}{more}}} "
