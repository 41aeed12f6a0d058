"""The decoder of many XOR chunks beside the decoder of one: `python -m bench.chunk_decoders`.

One process, the same chunks for both, which alternate; of each kind of series the median ratio of
their CPU times is shown. Times are CPU seconds, so other programs disturb them less.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from strandline_analysis.xor_chunk import decode
from tests.analysis.xor_encoder import encode

from .histories import packages
from .report import host_info

CHUNKS: Final = 2000
SAMPLES: Final = 120
"""Prometheus begins a new chunk at about this number."""
START_MS: Final = 1_790_000_000_000
INTERVAL_MS: Final = 5000
KINDS: Final = ("step", "counter", "anything")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both decoders on every kind of series and print the ratios."""
    parser = argparse.ArgumentParser(prog="bench.chunk_decoders")
    parser.add_argument("--runs", type=int, default=5, help="alternations of both (5)")
    parser.add_argument("--chunks", type=int, default=CHUNKS, help=f"chunks of a kind ({CHUNKS})")
    given = parser.parse_args(arguments)
    packages.importable()
    from strandline_analysis.xor_chunks import decode_chunks  # noqa: PLC0415 - after its packages

    def one_by_one(chunks: Sequence[bytes]) -> object:
        return [pair for chunk in chunks for pair in decode(chunk)]

    print(host_info())
    print(f"{given.chunks} chunks of {SAMPLES} samples, median of {given.runs}; M samples/s")
    print(f"{'series':>10} {'bits/sample':>12} {'one':>8} {'many':>8} {'ratio':>8}")
    for kind in KINDS:
        chunks = [chunk(kind, random.Random(seed)) for seed in range(given.chunks)]
        total = given.chunks * SAMPLES
        one, many = [], []
        for _ in range(given.runs):
            one.append(cpu_seconds(one_by_one, chunks))
            many.append(cpu_seconds(decode_chunks, chunks))
        ratio = median(slow / quick for slow, quick in zip(one, many, strict=True))
        width = 8 * sum(map(len, chunks)) / total
        rates = [total / median(times) / 1e6 for times in (one, many)]
        print(f"{kind:>10} {width:12.1f} {rates[0]:8.2f} {rates[1]:8.2f} {ratio:8.1f}")
    return 0


def cpu_seconds(decoder: Callable[[Sequence[bytes]], object], chunks: Sequence[bytes]) -> float:
    """Return the CPU time of one decoding of all chunks."""
    begin = time.process_time()
    decoder(chunks)
    return time.process_time() - begin


def chunk(kind: str, chance: random.Random) -> bytes:
    """Return a chunk of one kind: a state that steps, a counter, or any values at all."""
    at, number = START_MS, float(chance.randrange(1 << 20))
    samples = []
    for _ in range(SAMPLES):
        at += INTERVAL_MS + chance.choice((0, 0, 0, 1, -1, 2))
        if kind == "step" and chance.random() < 0.01:
            number = float(chance.randrange(2))
        elif kind == "counter":
            number += chance.randrange(500)
        elif kind == "anything":
            number = chance.uniform(-1e9, 1e9)
        bits: int = struct.unpack(">Q", struct.pack(">d", number))[0]
        samples.append((at, bits))
    return encode(samples)


if __name__ == "__main__":
    sys.exit(main())
