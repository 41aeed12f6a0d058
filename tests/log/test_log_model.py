"""A log against a plain list of batches: any order of appends, truncations, crashes and reads.

A loss of power may cut or change any byte that was not flushed; the log must then be a prefix of
the list.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.log.batch_scan import CUT_MARK
from strandline.log.producer_state import ProducerState
from strandline.log.record_batch import parse_header, read_client_batch, read_fetched
from strandline.log.segment import LogLimits, SegmentPool
from strandline.model import EpochStart, LeaderEpoch, TopicSettings
from tests.log.support.batches import batch, stamped
from tests.log.support.logs import Workshop, bring_to_disk, complete_producers, content

EPOCH_FIELD = range(12, 16)
PRODUCER = 11


@dataclass(frozen=True)
class Batch:
    """One batch of the model."""

    base: int
    end: int
    epoch: int
    data: bytes


class LogMachine(RuleBasedStateMachine):
    """Rules make the same change to the log and to the list; invariants compare them."""

    def __init__(self) -> None:
        super().__init__()
        root = Path(tempfile.mkdtemp(prefix="strandline-log-"))
        self.workshop = Workshop(
            root,
            TopicSettings(segment_bytes=500),
            LogLimits(
                index_interval_bytes=80,
                index_size_max_bytes=64,
                unflushed_segments_max=2,
                cut_at_once_bytes_max=200,
            ),
            SegmentPool(open_segments_max=2),
        )
        self.log = self.workshop.create()
        self.model: list[Batch] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.sequence = 0

    def teardown(self) -> None:
        self.log.close()
        self.workshop.pool.close()
        shutil.rmtree(self.workshop.root)

    # --- rules ----------------------------------------------------------------------------

    def _make(self, records: int, size: int) -> bytes:
        source = batch(
            [b"v" * size] * records,
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=self.sequence,
        )
        self.sequence += records
        return source

    def _add(self, source: bytes, records: int) -> bytes:
        data = stamped(source, base_offset=self.end, leader_epoch=self.epoch)
        self.model.append(Batch(base=self.end, end=self.end + records, epoch=self.epoch, data=data))
        self.end += records
        return data

    @rule(records=st.integers(1, 4), size=st.integers(0, 150), new_epoch=st.booleans())
    def append_as_leader(self, records: int, size: int, new_epoch: bool) -> None:
        self.epoch += new_epoch
        source = self._make(records, size)
        self.log.append_as_leader(
            read_client_batch(source), base_offset=self.end, leader_epoch=LeaderEpoch(self.epoch)
        )
        self._add(source, records)
        assert self.log.log_end_offset == self.end

    @rule(
        shapes=st.lists(
            st.tuples(st.integers(1, 3), st.integers(0, 100), st.booleans()), max_size=12
        )
    )
    def append_as_follower(self, shapes: list[tuple[int, int, bool]]) -> None:
        fetched = b""
        for records, size, new_epoch in shapes:
            self.epoch += new_epoch
            fetched += self._add(self._make(records, size), records)
        self.log.append_as_follower(read_fetched(memoryview(fetched)), batch_count=len(shapes))

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule()
    def flush_with_summaries(self) -> None:
        bring_to_disk(self.log)
        assert self.log.recovery_point == self.end

    @rule(data=st.data())
    def flush_while_the_log_is_cut(self, data: st.DataObject) -> None:
        """Cut the log between begin and end of a flush: it is void, with its summaries."""
        begun = self.log.begin_flush()
        self.truncate(data)
        if begun is not None:
            begun.run()
            self.log.end_flush(begun)
        assert self.log.recovery_point <= self.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(self.start, self.end + 2))
        self._keep([each for each in self.model if each.end <= target])
        reached = self.log.truncate_to(target)
        complete_producers(self.log)
        if not self.model:
            self.end = self.start
        assert reached == self.end
        assert self.log.recovery_point <= self.end

    @rule()
    def cut_the_tail_off(self) -> None:
        if self.log.cut is not None:
            self.log.cut.run()

    def _keep(self, kept: list[Batch]) -> None:
        self.model = kept
        self.end = kept[-1].end if kept else self.start

    @rule(offset=st.integers(0, 50))
    def restart(self, offset: int) -> None:
        self.log.restart_at(offset)
        self.model, self.start, self.end = [], offset, offset

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self._reopen(clean=True)

    @rule(torn=st.integers(0, 90))
    def killed(self, torn: int) -> None:
        """Kill the process: the page cache survives, but the last write may be torn."""
        self.log._segments.release_all()
        beginning = stamped(batch([b"t" * 40]), base_offset=self.end, leader_epoch=self.epoch)[
            :torn
        ]
        with self._files()[-1].open("ab") as file:
            file.write(beginning)
        self._reopen(clean=True)
        assert not self.log.validation.damaged

    @rule(
        damage=st.sampled_from(["nothing", "missing", "short", "flipped", "long"]),
        kind=st.sampled_from(["index", "summary"]),
    )
    def small_files_break(self, damage: str, kind: str) -> None:
        self.log.close()
        for path in self.workshop.folder.glob(f"*.{kind}"):
            old = path.read_bytes()
            new = {
                "nothing": old,
                "short": old[: len(old) // 2 + 1],
                "flipped": bytes(b ^ 0x55 for b in old),
                "long": old + b"\x00" * 8,
            }.get(damage)
            path.unlink() if new is None else path.write_bytes(new)
        self._reopen(clean=True)

    @precondition(lambda self: self._exposed())
    @rule(data=st.data(), flip=st.booleans())
    def power_lost(self, data: st.DataObject, flip: bool) -> None:
        """Cut the unflushed bytes at some byte, or change one of them."""
        recovery_point = self.log.recovery_point
        self.log._segments.release_all()
        position = data.draw(st.integers(0, sum(len(each.data) for each in self._exposed()) - 1))
        index = len(self.model) - len(self._exposed())
        while position >= len(self.model[index].data):
            position -= len(self.model[index].data)
            index += 1
        path, in_file = self._place_of(index)
        if not flip:
            with path.open("r+b") as file:
                file.truncate(in_file + position)
        elif position not in EPOCH_FIELD:
            raw = bytearray(path.read_bytes())
            raw[in_file + position] ^= data.draw(st.integers(1, 255))
            path.write_bytes(raw)
        else:
            index = len(self.model)
        self._keep(self.model[:index])
        self._reopen(clean=False, recovery_point=recovery_point)
        if flip and index < len(self.model):
            assert self.log.validation.damaged

    def _exposed(self) -> list[Batch]:
        return [each for each in self.model if each.base >= self.log.recovery_point]

    def _files(self) -> list[Path]:
        return sorted(self.workshop.folder.glob("*.log"))

    def _place_of(self, index: int) -> tuple[Path, int]:
        base = self.model[index].base
        path = [file for file in self._files() if int(file.stem) <= base][-1]
        before = [e for e in self.model[:index] if e.base >= int(path.stem)]
        return path, sum(len(each.data) for each in before)

    def _reopen(self, *, clean: bool, recovery_point: int | None = None) -> None:
        point = self.log.recovery_point if recovery_point is None else recovery_point
        self.log = self.workshop.open(clean=clean, recovery_point=point)

    # --- invariants -----------------------------------------------------------------------

    @invariant()
    def offsets_and_bytes_agree(self) -> None:
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.end
        everything = b"".join(each.data for each in self.model)
        assert self.log.size_bytes == len(everything)
        assert content(self.log) == everything
        files = b"".join(path.read_bytes() for path in self._files())
        if self.log.cut is not None:
            files, mark, _ = files.partition(CUT_MARK)
            assert mark
        assert files == everything

    @invariant()
    def epochs_agree(self) -> None:
        expected: list[EpochStart] = []
        for each in self.model:
            if not expected or expected[-1].leader_epoch != each.epoch:
                expected.append(
                    EpochStart(leader_epoch=LeaderEpoch(each.epoch), start_offset=each.base)
                )
        assert self.log.epochs == tuple(expected)

    @invariant()
    def producers_agree(self) -> None:
        fresh = ProducerState()
        for each in self.model:
            fresh.record(parse_header(each.data))
        for each in self.model[-8:]:
            header = parse_header(each.data)
            assert self.log.check_sequence(header) == fresh.check(header)

    @rule(data=st.data(), max_bytes=st.integers(0, 1500))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        start = data.draw(st.integers(self.start, self.end))
        up_to = data.draw(st.integers(self.start, self.end + 1))
        expected = b""
        for each in self.model:
            if each.end <= start or start >= up_to:
                continue
            if each.end > up_to or (expected and len(expected) + len(each.data) > max_bytes):
                break
            expected += each.data
        parts = self.log.read(from_offset=start, up_to_offset=up_to, max_bytes=max_bytes)
        assert b"".join(parts) == expected


LogMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True
)
TestLogAgainstAList = LogMachine.TestCase
