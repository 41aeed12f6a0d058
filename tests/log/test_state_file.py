"""The journal of the state file: what a change costs, and what a killed writer leaves behind."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.effects import PersistedPartition
from strandline.errors import CheckpointMalformed
from strandline.log import state_file
from strandline.log.state_file import BrokerState, StateChange, StateFile, state_from
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from tests.support.counted_calls import calls_of

TOPIC_ID = TopicId("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")
States = Mapping[TopicPartition, PersistedPartition]


def tp(number: int) -> TopicPartition:
    return TopicPartition(topic_id=TOPIC_ID, partition=number)


def accepted(epoch: int) -> PersistedPartition:
    return PersistedPartition(
        topic_name="orders",
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=PartitionEpoch(epoch),
        isr=(IsrEntry(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)),),
    )


class Written:
    """A state file, and all states that it has held; `change` is durable when it returns."""

    def __init__(self, path: Path, *, partitions: int = 2) -> None:
        self.path = path
        self.file = StateFile(path)
        self.states = [BrokerState()]
        self.change({tp(number): accepted(0) for number in range(partitions)})

    @property
    def state(self) -> BrokerState:
        return self.states[-1]

    def change(self, changed: States, *removed: TopicPartition) -> None:
        kept = {each: s for each, s in self.state.partitions.items() if each not in removed}
        whole = BrokerState(
            controller_epoch=ControllerEpoch(self.state.controller_epoch + 1),
            partitions={**kept, **changed},
        )
        self.states.append(whole)
        self.file.append(StateChange(removed=removed, changed=changed, whole=whole))

    def read(self) -> BrokerState:
        return state_from(self.path.read_bytes(), self.path)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Return a file with a journal of two changes."""
    written = Written(tmp_path / "broker-state")
    written.change({tp(1): accepted(1)})
    written.change({tp(2): accepted(2)}, tp(0))
    assert written.file.has_journal
    return written


def test_a_change_costs_by_what_changed_whatever_else_is_hosted(tmp_path: Path) -> None:
    counts, sizes = [], []
    for partitions in (100, 1_000):
        written = Written(tmp_path / str(partitions), partitions=partitions)
        whole = BrokerState(
            controller_epoch=ControllerEpoch(1),
            partitions={**written.state.partitions, tp(0): accepted(1)},
        )
        change = StateChange(changed={tp(0): accepted(1)}, whole=whole)
        before = written.path.stat().st_size
        counts.append(calls_of(partial(written.file.append, change)))
        sizes.append(written.path.stat().st_size - before)
        assert written.read() == whole
    assert counts[0] == counts[1]
    assert sizes[0] - 1 <= sizes[1] <= sizes[0] < 1_000


numbers = st.integers(0, 5).map(tp)
changes = st.lists(
    st.tuples(st.dictionaries(numbers, st.integers(0, 9).map(accepted)), st.sets(numbers)),
    max_size=8,
)


@given(changes=changes, journal_bytes=st.integers(0, 2_000))
def test_a_state_comes_back_with_all_its_changes(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[dict[TopicPartition, PersistedPartition], set[TopicPartition]]],
    journal_bytes: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for sync in ("os.fsync", "os.fdatasync"):
            patch.setattr(sync, lambda _: None)  # what is read back is in the page cache
        patch.setattr(state_file, "STATE_JOURNAL_BYTES", journal_bytes)
        written = Written(tmp_path_factory.mktemp("data") / "broker-state")
        for changed, removed in changes:
            written.change(changed, *removed)
            assert written.read() == written.state


def test_a_file_that_was_cut_anywhere_in_its_journal_holds_an_earlier_state(
    written: Written,
) -> None:
    content = written.path.read_bytes()
    whole_ends = content.index(b"\n", content.index(b"\n") + 1)
    found = [state_from(content[:end], written.path) for end in range(whole_ends, len(content))]
    held = [written.states.index(each) for each in found]
    assert held == sorted(held)
    assert set(held) == {1, 2}
    assert written.read() == written.states[3]


def test_the_end_of_a_change_that_the_disk_has_not_is_left_out(written: Written) -> None:
    content = written.path.read_bytes()
    last_begins = content.rindex(b"\n", 0, len(content) - 1) + 1
    for kept in range(last_begins, len(content)):
        torn = content[:kept] + bytes(len(content) - kept)
        assert state_from(torn, written.path) == written.states[2]


def test_one_changed_byte_anywhere_in_a_file_with_a_journal_is_noticed(written: Written) -> None:
    content = written.path.read_bytes()
    for at in range(len(content)):
        damaged = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        with pytest.raises(CheckpointMalformed):
            state_from(damaged, written.path)


def test_damage_before_a_torn_end_is_noticed(written: Written) -> None:
    content = written.path.read_bytes()
    at = content.index(b'"removed"')
    damaged = content[:at] + b"\0" + content[at + 1 : -5]
    with pytest.raises(CheckpointMalformed, match="change 1 of the journal"):
        state_from(damaged, written.path)


def test_the_first_change_of_a_process_drops_the_torn_end_of_the_one_before(
    written: Written,
) -> None:
    written.path.write_bytes(written.path.read_bytes()[:-5])
    assert written.read() == written.states[2]
    written.file = StateFile(written.path)
    written.states.append(written.states[2])
    written.change({tp(3): accepted(3)})
    assert written.read() == written.state
    assert not written.file.has_journal


def test_a_journal_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "STATE_JOURNAL_BYTES", 1_000)
    written = Written(tmp_path / "broker-state")
    whole_bytes, journals = written.path.stat().st_size, []
    for epoch in range(1, 100):
        written.change({tp(0): accepted(epoch)})
        journals.append(written.path.stat().st_size - whole_bytes)
    assert written.read() == written.state
    assert 500 < max(journals) < 1_100
    assert min(journals) < 100


def fails(number: int) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise OSError(number, "failed")

    return fail


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_after_a_change_that_failed_the_file_is_written_whole(
    written: Written, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"os.{call}", fails(errno.ENOSPC))
        with pytest.raises(OSError, match="failed"):
            written.change({tp(1): accepted(4)})
    assert written.read() in written.states[-2:]
    written.change({tp(1): accepted(5)})
    assert written.read() == written.state
    assert not written.file.has_journal


def test_a_change_is_on_disk_before_it_counts(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fdatasync", lambda _: synced.append(written.path.stat().st_size))
    written.change({tp(1): accepted(6)})
    assert synced == [written.path.stat().st_size]
