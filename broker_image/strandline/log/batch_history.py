"""What a log knows of its batches besides their bytes: leader epochs, and the last of producers.

Changed by `PartitionLog`, which notes here every batch that it appends or finds; read by its base.

Invariant: the epochs are those of all batches in the segments. A log that begins within a segment
shows them from its start on; a summary needs them all, because it may outlive a log start that
never came to disk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from strandline.core.events import SequenceCheck
from strandline.model import NO_EPOCH, EpochStart, LeaderEpoch

from .log_flush import ProducerRebuild
from .producer_state import ProducerState
from .record_batch import BatchHeader
from .segment import Segment
from .segment_summary import SegmentSummary


class BatchHistory:
    """Epochs and producers of one log.

    rebuild is set while the producer state is to be made anew after a cut.
    """

    __slots__ = ("_epochs", "_producers", "_since_cut", "rebuild")

    def __init__(self) -> None:
        self._epochs: list[EpochStart] = []
        self._producers = ProducerState()
        self._since_cut: list[BatchHeader] = []
        """Batches noted while the producer state is made anew."""
        self.rebuild: ProducerRebuild | None = None

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch, -1 if there was none."""
        return self._epochs[-1].leader_epoch if self._epochs else -1

    def epochs_from(self, offset: int) -> tuple[EpochStart, ...]:
        """Return the epochs from an offset on; the one that it lies in begins there."""
        known = self._known_from(offset)
        if known and known[0].start_offset < offset:
            known[0] = known[0]._replace(start_offset=offset)
        return tuple(known)

    def forget_epochs_below(self, offset: int) -> None:
        """Forget the epochs of deleted segments; a producer outlives its batches."""
        self._epochs = self._known_from(offset)

    def _known_from(self, offset: int) -> list[EpochStart]:
        count = bisect_right(self._epochs, offset, key=lambda entry: entry.start_offset)
        return self._epochs[max(0, count - 1) :]

    def adopt_epoch_below(self, start: EpochStart) -> None:
        """Take the last epoch of an empty log from where it begins: the batches are deleted."""
        if start.leader_epoch != NO_EPOCH and start.start_offset > 0 and not self._epochs:
            self._epochs = [start._replace(start_offset=start.start_offset - 1)]

    def check_sequence(self, header: BatchHeader) -> SequenceCheck:
        """Tell whether a client's batch is new, a retry or out of order; `rebuild` is not set."""
        return self._producers.check(header)

    def summarise(self, segment: Segment) -> SegmentSummary | None:
        """Return the summary of the last segment; None while producers are made anew."""
        unknown = self.rebuild is not None
        return None if unknown else segment.summarise(self._epochs, self._producers)

    def adopt(self, summary: SegmentSummary) -> None:
        """Take what a summary says of the batches that a load does not walk."""
        for epoch in summary.epochs:
            if epoch.leader_epoch > self.last_epoch:
                self._epochs.append(epoch)
        self._producers = summary.producers

    def note(self, header: BatchHeader) -> None:
        """Take a batch that is now in the log, at its end."""
        if self.rebuild is not None:
            self._since_cut.append(header)
        if header.leader_epoch > self.last_epoch:
            self._epochs.append(
                EpochStart(
                    leader_epoch=LeaderEpoch(header.leader_epoch), start_offset=header.base_offset
                )
            )
        self._producers.record(header)

    def cut_at(self, end: int, producers_up_to: Callable[[int], ProducerRebuild]) -> None:
        """Forget the batches from the new end on; set `rebuild` if older ones may be needed."""
        self._epochs = [entry for entry in self._epochs if entry.start_offset < end]
        if not self._producers.truncate_to(end) or self.rebuild is not None:
            self.rebuild = producers_up_to(end)
        self._since_cut.clear()

    def end_rebuild(self, rebuild: ProducerRebuild, producers: ProducerState) -> None:
        """Take the producer state that a rebuild made, unless the log was cut again."""
        if self.rebuild is rebuild:
            for header in self._since_cut:
                producers.record(header)
            self._producers, self.rebuild = producers, None
            self._since_cut.clear()

    def clear(self) -> None:
        """Forget everything: the log was emptied."""
        self._epochs.clear()
        self._producers.clear()
        self.rebuild = None
        self._since_cut.clear()
