"""The decoder of XOR chunks, on chunks by hand, by an encoder, and cut short."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline_analysis.xor_chunk import STALE_BITS, ChunkMalformed, decode, number
from tests.analysis.xor_encoder import encode

ONE = struct.unpack(">Q", struct.pack(">d", 1.0))[0]
PLAIN_NAN = 0x7FF8_0000_0000_0001
START = 1_790_000_000_000
WORD = 1 << 64


def test_a_chunk_written_by_hand_is_read_bit_by_bit() -> None:
    bits = (
        "0000000000000011"  # three samples
        "1101000000001111"  # the varint of 1000: zigzag 2000 = 0b1111_1010000
         f"{ONE:064b}"
         "00001010"  # the second comes 10 ms later,
         "0"  # unchanged
         "10" + f"{5:014b}"  # the third 15 ms later
        + "11" + f"{2:05b}" + f"{62 & 63:06b}" + f"{(ONE ^ 0):064b}"[2:]  # to 0.0
    )  # fmt: skip
    bits += "0" * (-len(bits) % 8)
    chunk = int(bits, 2).to_bytes(len(bits) // 8, "big")
    assert list(decode(chunk)) == [(1000, ONE), (1010, ONE), (1025, 0)]


def test_a_chunk_without_samples_is_empty() -> None:
    assert list(decode(b"\0\0")) == []


@pytest.mark.parametrize("timestamp", [0, 1, -1, START, -START, (1 << 63) - 1, -(1 << 63)])
@pytest.mark.parametrize("bits", [0, ONE, STALE_BITS, PLAIN_NAN, WORD - 1])
def test_one_sample_of_any_value_is_read(timestamp: int, bits: int) -> None:
    assert list(decode(encode([(timestamp, bits)]))) == [(timestamp, bits)]


@pytest.mark.parametrize("width", [14, 17, 20])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("sign", [-1, 1])
def test_changes_of_pace_at_the_edge_of_each_width(width: int, beyond: int, sign: int) -> None:
    pace = 1 << 21
    change = sign * ((1 << (width - 1)) + beyond)
    samples = [(START, ONE), (START + pace, ONE), (START + 2 * pace + change, ONE)]
    assert list(decode(encode(samples))) == samples


def test_a_change_of_pace_of_64_bits() -> None:
    samples = [(0, ONE), (1 << 40, ONE), ((1 << 40) + 1, ONE), ((1 << 41) + 5, ONE)]
    assert list(decode(encode(samples))) == samples


def test_all_64_bits_of_a_value_can_change() -> None:
    samples = [(START, 0), (START + 1, WORD - 1), (START + 2, 0), (START + 3, 1)]
    assert list(decode(encode(samples))) == samples


def test_a_window_is_used_again() -> None:
    values = [0xFF00, 0xF000, 0x0F00, 0xFF00]
    samples = [(START + index, bits) for index, bits in enumerate(values)]
    assert list(decode(encode(samples))) == samples


def test_a_stale_marker_keeps_its_bits_and_is_not_any_nan() -> None:
    samples = [(START, ONE), (START + 1000, STALE_BITS), (START + 2000, PLAIN_NAN)]
    assert list(decode(encode(samples))) == samples
    assert math.isnan(number(STALE_BITS))
    assert math.isnan(number(PLAIN_NAN))
    assert number(ONE) == 1.0


@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(1, 20_000), st.integers(1, 1 << 33)),
            st.one_of(
                st.sampled_from([0, ONE, STALE_BITS, PLAIN_NAN, WORD - 1]),
                st.integers(0, 500).map(lambda n: struct.unpack(">Q", struct.pack(">d", n))[0]),
                st.integers(0, WORD - 1),
            ),
        ),
        min_size=1,
        max_size=130,
    )
)
@example([(1000, ONE)] * 120)
def test_a_decoded_chunk_has_the_encoded_samples(steps: list[tuple[int, int]]) -> None:
    samples = []
    timestamp = START
    for step, bits in steps:
        timestamp += step
        samples.append((timestamp, bits))
    assert list(decode(encode(samples))) == samples


@pytest.mark.parametrize("kept", [0, 1, 2, 5, 11, 20])
def test_a_chunk_cut_short_is_refused(kept: int) -> None:
    chunk = encode([(START + 1000 * index, ONE + index) for index in range(20)])
    with pytest.raises(ChunkMalformed):
        list(decode(chunk[:kept]))


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(ChunkMalformed, match="without end"):
        list(decode(b"\0\1" + b"\xff" * 20))


def test_a_window_used_before_there_is_one_is_refused() -> None:
    first = encode([(START, ONE)])[2:]
    with pytest.raises(ChunkMalformed, match="window"):
        list(decode(b"\0\2" + first + b"\x01" + b"\x80" + b"\0" * 20))


def test_a_window_wider_than_a_value_is_refused() -> None:
    first = encode([(START, ONE)])[2:]
    window = int("11" + f"{31:05b}" + f"{63:06b}" + "0" * 83, 2).to_bytes(12, "big")
    with pytest.raises(ChunkMalformed, match="window"):
        list(decode(b"\0\2" + first + b"\x01" + window))
