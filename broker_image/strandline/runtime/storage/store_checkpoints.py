"""The checkpoints of a data directory: high watermarks, recovery points, log starts, epochs.

Used by `ReplicaStore` alone: one of its tasks writes them here, and its state task writes those
that records wait for.

Most are hints that the next write replaces. Two things wait for a write. A log that was cut takes
new records once a long tail is gone (ADR 0058), and once its recovery point on disk is not above
its end, and its start neither: an unclean start does not check records below a recovery point, and
takes a log that ends below its start for one that lost its end. And segments are deleted once the
log start above them is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from strandline.errors import CheckpointMalformed, LogDirectoryFailed, LogDirectoryFull
from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.log.files import sync_folder
from strandline.log.partition_log import PartitionLog
from strandline.log.segment_cut import SegmentCut
from strandline.model import EpochStart, TopicPartition

from .log_start_file import LogStartFile
from .store_threads import StoreThreads


class StoreCheckpoints:
    """What of the logs is yet to be written to checkpoints, and who waits for it.

    on_log_start_persisted gets each log start that is on disk; make_space gets the error of a full
    volume, and returns when a further try may succeed.
    """

    def __init__(
        self,
        root: Path,
        logs: Mapping[TopicPartition, PartitionLog],
        threads: StoreThreads,
        *,
        log_starts: Mapping[TopicPartition, EpochStart],
        on_log_start_persisted: Callable[[TopicPartition, int], None],
        make_space: Callable[[LogDirectoryFull], Awaitable[None]],
    ) -> None:
        self._root = root
        self._logs = logs
        self._threads = threads
        self._make_space = make_space
        self._epochs: dict[TopicPartition, tuple[EpochStart, ...]] = {}
        self._high_watermarks: dict[TopicPartition, int] | None = None
        self._marked = set(logs)
        """Partitions that the high watermark checkpoint on disk may name."""
        self._log_starts = LogStartFile(root, log_starts, on_persisted=on_log_start_persisted)
        self._recovery_points: Mapping[TopicPartition, int] = {
            tp: log.recovery_point for tp, log in logs.items()
        }
        self._recovery_points_due = False
        self._lock = asyncio.Lock()
        self._cut: set[TopicPartition] = set()
        """Logs whose recovery point or start on disk is yet to be lowered."""
        self._cut_being_written: set[TopicPartition] = set()
        self._after_cuts: list[Callable[[], None]] = []
        self._wake = asyncio.Event()
        self._stopping = False

    @property
    def wait_for_cuts(self) -> bool:
        """Whether something on disk lies above the end of a log that was cut."""
        return bool(self._cut or self._cut_being_written)

    def set_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Have the high watermarks of all replicas written."""
        self._high_watermarks = dict(high_watermarks)
        self._wake.set()

    def set_epochs(self, tp: TopicPartition, epochs: tuple[EpochStart, ...]) -> None:
        """Have the epochs of a replica written."""
        self._epochs[tp] = epochs
        self._wake.set()

    def on_flushed(self) -> None:
        """Have the recovery points written, which moved."""
        self._recovery_points_due = True
        self._wake.set()

    def begin_log_at(self, tp: TopicPartition, offset: int) -> None:
        """Have a later log start written, and told of then."""
        self._log_starts.begin(tp, offset)
        self._wake.set()

    def log_start_on_disk(self, tp: TopicPartition) -> int:
        """Return where a restart lets a log begin at least."""
        return self._log_starts.on_disk(tp)

    def on_restarted(self, tp: TopicPartition) -> None:
        """Have the checkpoints of a log lowered that dropped all batches and begins elsewhere."""
        self._log_starts.forget(tp)
        self._have_cut_written(tp)

    def on_truncated(self, tp: TopicPartition, end: int) -> None:
        """Have a truncated log's tail cut off, and its recovery point lowered, if need be."""
        if self._recovery_points.get(tp, 0) > end or self._logs[tp].cut is not None:
            self._have_cut_written(tp)

    def _have_cut_written(self, tp: TopicPartition) -> None:
        """Have a tail cut off, the folder synced and checkpoints written, off the event loop."""
        self._cut.add(tp)
        self._wake.set()

    def after_cuts(self, fetch: Callable[[], None]) -> None:
        """Send a fetch, in order, once the cuts of logs are on disk: its records come behind them.

        A leader's records do too: a log leads only after a write of the state file.
        """
        if self.wait_for_cuts:
            self._after_cuts.append(fetch)
        else:
            fetch()

    def forget(self, tp: TopicPartition) -> None:
        """Write nothing more of a deleted replica; its former checkpoints are not removed yet."""
        self._epochs.pop(tp, None)
        if self._high_watermarks is not None:
            self._high_watermarks.pop(tp, None)
        self._log_starts.forget(tp)

    def know_any(self, tps: Iterable[TopicPartition]) -> bool:
        """Tell whether the checkpoints hold anything of logs that are about to be made."""
        return any(
            tp in self._marked or self._recovery_points.get(tp, 0) or self._log_starts.on_disk(tp)
            for tp in tps
        )

    # --- writing --------------------------------------------------------------------------

    async def run(self) -> None:
        """Write what is due until `stop`."""
        while not self._stopping:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.write_all()
            except LogDirectoryFull as error:
                # A checkpoint is left out: the next one replaces it, and a start needs none.
                # Those that fetches or deletions wait for are not left out.
                await self._make_space(error)
                if self.wait_for_cuts or self._log_starts.is_due:
                    self._wake.set()

    def stop(self) -> None:
        """Let `run` end by itself."""
        self._stopping = True
        self._wake.set()

    async def write_all(self) -> None:
        """Write all that is due."""
        while await self._write_one():
            pass

    async def _write_one(self) -> bool:
        """Write one checkpoint file; False if none is due. Those of all partitions come first."""
        if self.wait_for_cuts or self._log_starts.is_due:
            await self.write_recovery_points()
        elif self._high_watermarks is not None:
            await self._write_high_watermarks()
        elif self._recovery_points_due:
            self._recovery_points_due = False
            await self.write_recovery_points()
        elif self._epochs:
            # For people and for comparison: epochs come from batches (ADR 0011).
            tp, epochs = self._epochs.popitem()
            if (log := self._logs.get(tp)) is not None:
                await self._threads.run(_write_epochs, log.folder, epochs)
        else:
            return False
        return True

    async def _write_high_watermarks(self) -> None:
        async with self._lock:
            marks, self._high_watermarks = self._high_watermarks, None
            if marks is not None:
                self._marked.update(marks)
                await self._threads.run(HighWatermarkCheckpoint(self._root).write, marks)
                self._marked = set(marks)

    async def write_without(self, tps: Collection[TopicPartition]) -> None:
        """Write all but epochs without logs that are about to be made, whose names others had.

        A new log lies below the high watermark of a former one: a start would take it for damaged.
        """
        await self.write_recovery_points()
        async with self._lock:
            await self._threads.run(_drop_high_watermarks, self._root, tps)
            self._marked.difference_update(tps)

    async def write_recovery_points(self) -> None:
        """Write log starts and recovery points, those of logs just cut included; let fetches go."""
        async with self._lock:
            self._cut_being_written |= self._cut
            self._cut = set()
            logs = [self._logs[tp] for tp in sorted(self._cut_being_written & set(self._logs))]
            cuts = [(log.folder, log.cut) for log in logs]
            self._recovery_points = {tp: log.recovery_point for tp, log in self._logs.items()}
            points = self._recovery_points
            await self._threads.run(self._write_recovery_point_file, cuts, points)
            starts = {tp: log.log_start for tp, log in self._logs.items()}
            await self._log_starts.write(starts, self._threads.run)
            self._cut_being_written = set()
        if not self._cut:
            held, self._after_cuts = self._after_cuts, []
            for fetch in held:
                fetch()

    def _write_recovery_point_file(
        self,
        cuts: Sequence[tuple[Path, SegmentCut | None]],
        recovery_points: Mapping[TopicPartition, int],
    ) -> None:
        for folder, cut in cuts:
            if cut is not None:
                cut.run()
            with suppress(FileNotFoundError):  # it has gone to the trash meanwhile
                sync_folder(folder)
        RecoveryPointCheckpoint(self._root).write(recovery_points)


def _drop_high_watermarks(root: Path, tps: Collection[TopicPartition]) -> None:
    """Write the high watermarks that are on disk without some; none if they cannot be read."""
    checkpoint, marks = HighWatermarkCheckpoint(root), dict[TopicPartition, int]()
    with suppress(CheckpointMalformed):
        marks = checkpoint.read()
    checkpoint.write({tp: offset for tp, offset in marks.items() if tp not in tps})


def _write_epochs(folder: Path, epochs: tuple[EpochStart, ...]) -> None:
    """Write the epochs of a replica, unless its folder has gone to the trash meanwhile."""
    try:
        EpochCheckpoint(folder).write(epochs)
    except LogDirectoryFailed:
        if folder.exists():
            raise
