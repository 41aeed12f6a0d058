"""A folder of Prometheus blocks as a source of samples: a snapshot, or what promtool made.

Called by `read` and `task`. Blocks may overlap, as the head's beside compacted ones or late
samples' do; their series are merged, and `columns` lets the first sample of a timestamp count.

Invariant: a piece holds at any time one series of each block, whatever the number of samples.
"""

from __future__ import annotations

import heapq
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from .read_options import Matcher, Piece, told
from .remote_read import Series
from .tsdb_block import FACTS, ULID, Block, BlockSeries, OpenBlock, Span, block_of
from .tsdb_files import BlockRefused
from .tsdb_index import Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A folder and its blocks, by their begin."""

    folder: Path
    blocks: tuple[Block, ...]
    """At least one."""

    @property
    def start_ms(self) -> int:
        """Return the begin of the first block."""
        return min(block.start_ms for block in self.blocks)

    @property
    def end_ms(self) -> int:
        """Return the end of the last block, exclusive."""
        return max(block.end_ms for block in self.blocks)

    def meeting(self, *, start_ms: int, end_ms: int) -> list[Block]:
        """Return the blocks with a part of [start_ms, end_ms)."""
        return [each for each in self.blocks if each.start_ms < end_ms and start_ms < each.end_ms]

    def check_range(self, *, start_ms: int, end_ms: int) -> None:
        """Refuse a range of which no block holds a part.

        Raises:  BlockRefused
        """
        if not self.meeting(start_ms=start_ms, end_ms=end_ms):
            wanted = f"{told(start_ms)} to {told(end_ms)}"
            held = f"{told(self.start_ms)} to {told(self.end_ms)}"
            raise BlockRefused(f"{self.folder} holds nothing of {wanted}; its blocks hold {held}")

    def check_files(self, *, start_ms: int, end_ms: int) -> None:
        """Open all blocks of a range once.

        Raises:  BlockRefused if an index is damaged, or a file is missing or of another format
        """
        for block in self.meeting(start_ms=start_ms, end_ms=end_ms):
            OpenBlock(block).close()


def snapshot_in(folder: Path) -> Snapshot:
    """Return the blocks in a folder; what is not named like one is left alone.

    Raises:  BlockRefused if there is no folder, no block in it, or one without its facts
    """
    if not folder.is_dir():
        raise BlockRefused(f"{folder} is no folder of blocks: there is no such folder")
    if (folder / FACTS).exists():
        raise BlockRefused(f"{folder} is itself a block: name the folder in which it is")
    named = [each for each in folder.iterdir() if ULID.fullmatch(each.name) and each.is_dir()]
    if not named:
        raise BlockRefused(f"{folder} holds no block: folders of blocks are named by ULIDs")
    blocks = sorted(map(block_of, named), key=lambda block: (block.start_ms, block.folder.name))
    return Snapshot(folder=folder, blocks=tuple(blocks))


class OpenSnapshot:
    """Reads pieces one after the other; a block is opened when a piece needs it first."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._open: dict[Block, OpenBlock] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Return itself; blocks stay open until the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all blocks."""
        self._stack.close()

    def series(self, piece: Piece) -> Iterator[Series]:
        """Yield the series of a piece that have chunks in its range, by labels.

        Raises:  BlockRefused
        """
        ranged = {"start_ms": piece.start_ms, "end_ms": piece.end_ms}
        wanted = _wanted(piece.matchers)
        in_order = [
            ((sorted(each.labels.items()), each) for each in found)
            for block in self._snapshot.meeting(**ranged)
            for found in [self._block(block).series(piece.metric, wanted=wanted, **ranged)]
        ]
        merged = heapq.merge(*in_order, key=operator.itemgetter(0))
        for _, group in itertools.groupby(merged, key=operator.itemgetter(0)):
            yield _joined(each for _, each in group)

    def _block(self, block: Block) -> OpenBlock:
        if block not in self._open:
            self._open[block] = OpenBlock(block)
            self._stack.callback(self._open[block].close)
        return self._open[block]


def _joined(of_blocks: Iterable[BlockSeries]) -> Series:
    """Return one series of what blocks hold of it, at least one."""
    labels: dict[str, str] = {}
    chunks: list[bytes] = []
    deleted: dict[int, tuple[Span, ...]] = {}
    for each in of_blocks:
        labels = each.labels
        if each.deleted:
            places = range(len(chunks), len(chunks) + len(each.chunks))
            deleted |= dict.fromkeys(places, each.deleted)
        chunks += each.chunks
    return Series(labels, chunks, deleted)


def _wanted(matchers: Sequence[Matcher]) -> Callable[[Labels], bool]:
    """Return whether labels meet all conditions; a label that is missing is empty."""
    patterns = {each.value: re.compile(each.value) for each in matchers if each.is_pattern}

    def wanted(labels: Labels) -> bool:
        for each in matchers:
            value = labels.get(each.label, "")
            if each.is_pattern:
                if patterns[each.value].fullmatch(value) is None:
                    return False
            elif value != each.value:
                return False
        return True

    return wanted
