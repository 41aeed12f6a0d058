"""Sequence numbers of idempotent producers: new, duplicate, out of order, forgotten, truncated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import ErrorCode
from strandline.log.producer_state import ProducerState
from strandline.log.record_batch import SEQUENCE_MASK, BatchHeader, parse_header
from strandline.model import BatchSpan
from tests.log.support.batches import batch, stamped

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


def header(
    sequence: int, *, records: int = 1, offset: int = 0, producer: int = 9, epoch: int = 0
) -> BatchHeader:
    source = batch(
        [b"v"] * records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )
    return parse_header(stamped(source, base_offset=offset, leader_epoch=0))


def fed(headers: Sequence[BatchHeader]) -> ProducerState:
    state = ProducerState()
    for each in headers:
        state.record(each)
    return state


def test_next_sequence_is_new_and_the_same_again_is_a_duplicate_with_its_offsets() -> None:
    state = fed([header(0, records=3, offset=100), header(3, records=2, offset=103)])
    assert state.check(header(5)) is ErrorCode.NONE
    duplicate = state.check(header(0, records=3))
    assert isinstance(duplicate, BatchSpan)
    assert (duplicate.base_offset, duplicate.next_offset) == (100, 103)


@pytest.mark.parametrize(
    "sequence,records",
    [(6, 1), (4, 1), (0, 2), (0, 5), (3, 1)],
    ids=["gap", "inside", "shorter retry", "longer retry", "part of the last"],
)
def test_a_sequence_neither_next_nor_a_repeat_is_out_of_order(sequence: int, records: int) -> None:
    state = fed([header(0, records=3), header(3, records=2, offset=3)])
    assert state.check(header(sequence, records=records)) is OUT_OF_ORDER


def test_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerState().check(header(77)) is ErrorCode.NONE


def test_batch_without_producer_is_never_checked_or_remembered() -> None:
    plain = parse_header(batch([b"v"]))
    state = fed([plain, plain])
    assert state.check(plain) is ErrorCode.NONE
    assert len(state._producers) == 0


def test_five_batches_are_remembered_and_an_older_one_is_no_duplicate() -> None:
    state = fed([header(n, offset=n) for n in range(6)])
    assert state.check(header(0)) is OUT_OF_ORDER
    for n in range(1, 6):
        assert isinstance(state.check(header(n)), BatchSpan)


def test_lower_producer_epoch_is_fenced() -> None:
    state = fed([header(0, epoch=2)])
    assert state.check(header(1, epoch=1)) is OLD_EPOCH
    assert state.check(header(0, epoch=1)) is OLD_EPOCH
    assert state.check(header(1, epoch=2)) is ErrorCode.NONE


def test_higher_producer_epoch_must_begin_at_zero_and_forgets_the_old_batches() -> None:
    state = fed([header(0), header(1, offset=1)])
    assert state.check(header(2, epoch=1)) is OUT_OF_ORDER
    assert state.check(header(0, epoch=1)) is ErrorCode.NONE
    state.record(header(0, epoch=1, offset=2))
    duplicate = state.check(header(0, epoch=1))
    assert isinstance(duplicate, BatchSpan)
    assert duplicate.base_offset == 2


def test_sequence_wraps_to_zero() -> None:
    state = fed([header(SEQUENCE_MASK, offset=4)])
    assert state.check(header(0)) is ErrorCode.NONE
    assert state.check(header(1)) is OUT_OF_ORDER
    straddling = header(SEQUENCE_MASK - 1, records=4, producer=10)
    assert straddling.last_sequence == 1
    state.record(straddling)
    assert state.check(header(2, producer=10)) is ErrorCode.NONE
    assert isinstance(state.check(straddling), BatchSpan)


def test_least_recently_writing_producer_is_forgotten_first() -> None:
    state = ProducerState(producers_max=2)
    for producer in (1, 2, 1, 3):
        state.record(header(0 if producer != 1 else len(state._producers), producer=producer))
    assert len(state._producers) == 2
    assert state.check(header(50, producer=2)) is ErrorCode.NONE, "a forgotten producer is new"
    assert state.check(header(50, producer=1)) is OUT_OF_ORDER


def test_truncation_makes_the_lost_batch_new_again() -> None:
    state = fed([header(0, offset=0), header(1, offset=1)])
    assert state.truncate_to(1)
    assert state.check(header(1)) is ErrorCode.NONE
    assert isinstance(state.check(header(0)), BatchSpan)


def test_truncation_that_needs_forgotten_batches_says_so() -> None:
    assert not fed([header(n, offset=n) for n in range(9)]).truncate_to(4)
    older_epoch = [header(0, offset=0), header(1, offset=1), header(0, offset=2, epoch=1)]
    assert not fed(older_epoch).truncate_to(2)


def test_a_copy_goes_its_own_way() -> None:
    state = fed([header(0, offset=0)])
    same = state.copy()
    state.record(header(1, offset=1))
    assert isinstance(state.check(header(1)), BatchSpan)
    assert same.check(header(1)) is ErrorCode.NONE


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans()), min_size=1, max_size=40
    ),
    st.data(),
)
def test_state_after_a_truncation_is_that_of_the_shorter_log(
    steps: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    log: list[BatchHeader] = []
    epochs = dict.fromkeys(range(3), 0)
    sequences = dict.fromkeys(range(3), 0)
    offset = 0
    for producer, records, bump in steps:
        if bump:
            epochs[producer] += 1
            sequences[producer] = 0
        log.append(
            header(
                sequences[producer],
                records=records,
                offset=offset,
                producer=producer,
                epoch=epochs[producer],
            )
        )
        sequences[producer] += records
        offset += records
    state = fed(log)
    keep = data.draw(st.integers(0, len(log)))
    end = log[keep].base_offset if keep < len(log) else offset
    complete = state.truncate_to(end)
    shorter = fed(log[:keep])
    stored = ProducerState.from_bytes(shorter.to_bytes())
    for one in (stored, shorter.copy(), *([state] if complete else [])):
        assert list(one._producers) == list(shorter._producers) or one is state
        assert len(one._producers) == len(shorter._producers)
        for probe in log:
            assert one.check(probe) == shorter.check(probe)
