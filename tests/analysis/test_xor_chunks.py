"""The decoder of many XOR chunks returns, bit for bit, what the decoder of one chunk does."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from strandline_analysis.xor_chunk import STALE_BITS, ChunkMalformed, decode
from tests.analysis.xor_encoder import Sample, encode

pytestmark = pytest.mark.processes

START = 1_790_000_000_000
WORD = 1 << 64
WIDTHS = (14, 17, 20)
SAMPLES_MAX = 240

# Encoding and the decoder of one chunk are slow in Python; the timeout of each test stays.
unhurried = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

Decoder = Callable[[Sequence[bytes]], list[list[Sample]]]
"""Gives the samples of each chunk."""


def bits_of(value: float) -> int:
    bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
    return bits


STRANGE = (
    STALE_BITS,
    0x7FF8_0000_0000_0001,  # Prometheus's own NaN
    0xFFF8_0000_0000_0000,  # a negative one
    0x7FF0_0000_0000_0001,  # a signalling one
    0x7FFF_FFFF_FFFF_FFFF,
    bits_of(0.0),
    bits_of(-0.0),
    bits_of(float("inf")),
    bits_of(float("-inf")),
    1,  # the least subnormal number
    WORD - 1,
)
_EDGES = [(1 << (width - 1)) + beyond for width in WIDTHS for beyond in (-1, 0, 1)]
_LARGE = (1 << 40, (1 << 63) - 1)
CHANGES = (0, 1, -1, *_EDGES, *(-edge for edge in _EDGES), *_LARGE, *(-each - 1 for each in _LARGE))
"""Deltas of deltas at the edge of each width."""


@pytest.fixture(scope="module")
def decoded(packages: str) -> Decoder:
    """Return the decoder of many chunks, with Python's numbers."""
    assert packages
    from strandline_analysis.xor_chunks import decode_chunks

    def by_chunk(chunks: Sequence[bytes]) -> list[list[Sample]]:
        found = decode_chunks(chunks)
        pairs = list(zip(found.timestamps.tolist(), found.bits.tolist(), strict=True))
        split, at = [], 0
        for count in found.counts.tolist():
            split.append(pairs[at : at + count])
            at += count
        assert at == len(pairs)
        return split

    return by_chunk


def one_by_one(chunks: Sequence[bytes]) -> list[list[Sample]]:
    return [list(decode(chunk)) for chunk in chunks]


def outcome(decoder: Decoder, chunks: Sequence[bytes]) -> Any:
    """Return the samples, or the sentence of the refusal."""
    try:
        return decoder(chunks)
    except ChunkMalformed as error:
        return str(error)


def history(chance: random.Random) -> list[Sample]:
    """Return a series of one kind: steady, stepping, counting with resets, or anything."""
    kind = chance.choice(["steady", "step", "counter", "strange", "anything", "pace"])
    at, value, pace = START, bits_of(float(chance.randrange(100))), 1000
    counter = 0
    samples = []
    for _ in range(chance.randint(1, SAMPLES_MAX)):
        if kind == "step" and chance.random() < 0.05:
            value = bits_of(float(chance.randrange(2)))
        elif kind == "counter":
            counter = 0 if chance.random() < 0.02 else counter + chance.randrange(1000)
            value = bits_of(float(counter))
        elif kind == "strange":
            value = chance.choice(STRANGE)
        elif kind == "anything":
            value = chance.getrandbits(64)
        elif kind == "pace":
            pace += chance.choice(CHANGES)
        at += pace + (chance.choice([0, 0, 1, -2, 9000]) if kind != "steady" else 0)
        samples.append((wrapped(at), value))
    return samples


def wrapped(value: int) -> int:
    value %= WORD
    return value - WORD if value >> 63 else value


@unhurried
@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 12))
def test_many_histories_give_the_samples_of_each(decoded: Decoder, seed: int, count: int) -> None:
    chance = random.Random(seed)
    made = [history(chance) for _ in range(count)]
    chunks = [encode(samples) for samples in made]
    assert decoded(chunks) == one_by_one(chunks) == made


samples_drawn = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(CHANGES), st.integers(-(1 << 63), (1 << 63) - 1)),
        st.one_of(st.sampled_from(STRANGE), st.integers(0, WORD - 1)),
    ),
    max_size=30,
)


@unhurried
@given(st.lists(samples_drawn, max_size=5))
@example([])
@example([[], [(0, 5)], []])
def test_drawn_chunks_give_the_samples_of_each(
    decoded: Decoder, drawn: list[list[tuple[int, int]]]
) -> None:
    chunks = []
    for steps in drawn:
        at, samples = START, []
        for step, bits in steps:
            at = wrapped(at + step)
            samples.append((at, bits))
        chunks.append(encode(samples))
    assert decoded(chunks) == one_by_one(chunks)


@unhurried
@given(seed=st.integers(0, 1 << 32), flips=st.integers(0, 3), cut=st.booleans())
def test_damaged_chunks_are_read_or_refused_alike(
    decoded: Decoder, seed: int, flips: int, cut: bool
) -> None:
    chance = random.Random(seed)
    chunks = [encode(history(chance)) for _ in range(4)]
    harmed = bytearray(chunks[2])
    for _ in range(flips):
        harmed[chance.randrange(len(harmed))] ^= 1 << chance.randrange(8)
    chunks[2] = bytes(harmed[: chance.randrange(len(harmed))] if cut else harmed)
    assert outcome(decoded, chunks) == outcome(one_by_one, chunks)


@pytest.mark.parametrize("count", [1, 2, 119, 120, 121, 239, 240])
def test_counts_around_those_that_prometheus_writes(decoded: Decoder, count: int) -> None:
    samples = [(START + 1000 * index, bits_of(float(index))) for index in range(count)]
    others = [encode(samples[:1]), encode([*samples, (START + 10_000_000, STALE_BITS)])]
    assert decoded([others[0], encode(samples), others[1]]) == one_by_one(
        [others[0], encode(samples), others[1]]
    )
    assert decoded([encode(samples)]) == [samples]


@pytest.mark.parametrize("change", CHANGES)
def test_deltas_of_deltas_at_the_edge_of_each_width(decoded: Decoder, change: int) -> None:
    third = wrapped(START + 2000 + change)
    samples = [(START, 1), (START + 1000, 1), (third, 1), (wrapped(third + 1000 + change), 2)]
    assert decoded([encode(samples)]) == one_by_one([encode(samples)]) == [samples]


def test_more_chunks_than_go_in_lockstep_keep_their_order(decoded: Decoder) -> None:
    from strandline_analysis.xor_chunks import BATCH_CHUNKS_MAX

    made = [
        [(START + index + 1000 * step, index) for step in range(1 + index % 3)]
        for index in range(BATCH_CHUNKS_MAX + 10)
    ]
    assert decoded([encode(samples) for samples in made]) == made


def test_a_chunk_that_counts_more_than_it_holds_is_refused(decoded: Decoder) -> None:
    good = encode([(START, 1), (START + 1000, 2)])
    for chunk in (b"", b"\0", b"\xff\xff", b"\xff\xff" + good[2:], b"\xff\xff" + b"\xff" * 40):
        for chunks in ([chunk], [good, chunk], [chunk, good]):
            said = outcome(one_by_one, chunks)
            assert isinstance(said, str)
            assert outcome(decoded, chunks) == said
