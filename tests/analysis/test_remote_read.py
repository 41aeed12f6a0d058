"""The client of remote read against a server with prepared responses."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import crc32c
import pytest

from strandline_analysis import prometheus_http, remote_read
from strandline_analysis.prometheus_http import ReadFailed, Server
from strandline_analysis.read_options import Matcher, Piece
from strandline_analysis.remote_read import Series, read_series
from tests.analysis.http_server import PreparedResponse, served_by
from tests.analysis.xor_encoder import encode

START = 1_790_000_000_000
LABELS = {"__name__": "m", "pod": "default-0"}


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + uvarint(value)
    return bytes([number << 3 | 2]) + uvarint(len(value)) + value


def uvarint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def series(labels: dict[str, str], *chunks: bytes, encoding: int = 1) -> bytes:
    body = b"".join(
        field(1, field(1, name.encode()) + field(2, value.encode()))
        for name, value in labels.items()
    )
    for chunk in chunks:
        body += field(2, field(1, START) + field(2, START) + field(3, encoding) + field(4, chunk))
    return field(1, body) + field(2, 0)


def frame(message: bytes) -> bytes:
    return uvarint(len(message)) + crc32c.crc32c(message).to_bytes(4, "big") + message


def streamed(
    body: bytes, status: int = 200, kind: str = remote_read.STREAMED + "; proto=x"
) -> PreparedResponse:
    """Return a response of remote read's streamed kind."""
    return PreparedResponse(body, status, kind)


@contextmanager
def serving(*responses: PreparedResponse) -> Iterator[tuple[str, list[bytes]]]:
    """Serve the responses in this order, the last one repeatedly; yield URL and requests."""
    requests: list[bytes] = []

    def respond(request: bytes) -> PreparedResponse:
        requests.append(request)
        return responses[min(len(requests), len(responses)) - 1]

    with served_by(respond) as address:
        yield f"http://{address}", requests


def read(url: str) -> list[Series]:
    return read_series(Server(url=url), Piece(metric="m", start_ms=START, end_ms=START + 10_000))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pause between attempts; their number stays."""
    monkeypatch.setattr(prometheus_http, "BACK_OFF_SECONDS", 0.001)


CHUNK = encode([(START + 1000 * index, index) for index in range(5)])
GOOD = streamed(frame(series(LABELS, CHUNK)))


def test_series_are_read_with_their_labels_and_samples() -> None:
    with serving(GOOD) as (url, requests):
        (found,) = read(url)
    assert found.labels == LABELS
    assert list(found.samples(start_ms=START, end_ms=START + 10_000)) == [
        (START + 1000 * index, index) for index in range(5)
    ]
    assert len(requests) == 1


def test_ranges_are_half_open_though_chunks_are_not_cut() -> None:
    found = Series(dict(LABELS), [CHUNK])
    assert list(found.samples(start_ms=START + 1000, end_ms=START + 3000)) == [
        (START + 1000, 1),
        (START + 2000, 2),
    ]


def test_the_request_leaves_the_end_out() -> None:
    sent = remote_read.request(Piece(metric="m", start_ms=5, end_ms=9))
    query = dict(remote_read.fields(sent))[1]
    assert isinstance(query, bytes)
    parts = dict(remote_read.fields(query))
    assert (parts[1], parts[2]) == (5, 8)
    matcher = parts[3]
    assert isinstance(matcher, bytes)
    assert dict(remote_read.fields(matcher)) == {1: 0, 2: b"__name__", 3: b"m"}


def test_overlapping_chunks_give_each_timestamp_once() -> None:
    later = encode([(START + 1000 * index, 100 + index) for index in range(3, 8)])
    found = Series(dict(LABELS), [CHUNK, later])
    timestamps = [at for at, _ in found.samples(start_ms=START, end_ms=START + 10_000)]
    assert timestamps == [START + 1000 * index for index in range(8)]


def test_a_series_split_over_frames_is_whole_again() -> None:
    later = encode([(START + 5000, 9)])
    other = {**LABELS, "pod": "default-1"}
    body = frame(series(LABELS, CHUNK)) + frame(series(LABELS, later)) + frame(series(other, CHUNK))
    with serving(streamed(body)) as (url, _):
        first, second = read(url)
    assert (first.labels, second.labels) == (LABELS, other)
    assert len(first.chunks) == 2


def test_a_response_with_a_wrong_checksum_is_requested_again() -> None:
    broken = bytearray(GOOD.body)
    broken[-1] ^= 1
    with serving(streamed(bytes(broken)), GOOD) as (url, requests):
        assert len(read(url)) == 1
    assert len(requests) == 2


def test_matchers_follow_the_name() -> None:
    only = Matcher(label="partition", value=".*[05]", is_pattern=True)
    sent = remote_read.request(Piece(metric="m", start_ms=5, end_ms=9, matchers=(only,)))
    query = dict(remote_read.fields(sent))[1]
    assert isinstance(query, bytes)
    found = [value for number, value in remote_read.fields(query) if number == 3]
    assert [dict(remote_read.fields(each)) for each in found if isinstance(each, bytes)] == [
        {1: 0, 2: b"__name__", 3: b"m"},
        {1: 2, 2: b"partition", 3: b".*[05]"},
    ]


def test_a_response_beyond_the_bound_says_how_to_make_it_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_read, "RESPONSE_BYTES_MAX", 10)
    with serving(GOOD) as (url, _), pytest.raises(ReadFailed, match="smaller slice_ms or more"):
        read(url)


def test_chunks_that_interleave_lose_no_sample() -> None:
    even = encode([(START + 1000 * index, index) for index in range(0, 8, 2)])
    odd = encode([(START + 1000 * index, index) for index in range(1, 8, 2)])
    found = Series(dict(LABELS), [even, odd])
    samples = list(found.samples(start_ms=START, end_ms=START + 10_000))
    assert samples == [(START + 1000 * index, index) for index in range(8)]


@pytest.mark.parametrize("kept", [1, 3, 20])
def test_a_response_cut_short_is_requested_again(kept: int) -> None:
    with serving(streamed(GOOD.body[:-kept]), GOOD) as (url, requests):
        assert len(read(url)) == 1
    assert len(requests) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_gets_the_request_again(status: int) -> None:
    with serving(streamed(b"busy", status), GOOD) as (url, requests):
        assert len(read(url)) == 1
    assert len(requests) == 2


def test_attempts_are_bounded() -> None:
    with (
        serving(streamed(b"busy", 503)) as (url, requests),
        pytest.raises(ReadFailed, match="503"),
    ):
        read(url)
    assert len(requests) == Server(url=url).attempts


def test_a_refused_request_is_not_repeated_and_names_its_cause() -> None:
    with (
        serving(streamed(b"no such thing", 400)) as (url, requests),
        pytest.raises(ReadFailed, match="400 no such thing"),
    ):
        read(url)
    assert len(requests) == 1


def test_a_response_of_plain_samples_is_refused() -> None:
    with (
        serving(streamed(b"", kind="application/x-protobuf")) as (url, _),
        pytest.raises(ReadFailed, match="not application/x-streamed-protobuf"),
    ):
        read(url)


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        (0, "none"),
        (2, "histogram"),
        (3, "float histogram"),
        (4, "XOR2"),
        (9, "without a name here"),
    ],
)
def test_other_chunk_encodings_are_refused_by_name_not_misread(encoding: int, name: str) -> None:
    with (
        serving(streamed(frame(series(LABELS, CHUNK, encoding=encoding)))) as (url, _),
        pytest.raises(ReadFailed, match=rf"pod.*chunk encoding {encoding} \({name}\)"),
    ):
        read(url)


def test_a_frame_beyond_the_bound_is_refused() -> None:
    huge = io.BytesIO(uvarint(remote_read.FRAME_BYTES_MAX + 1) + b"\0" * 8)
    with pytest.raises(ReadFailed, match="at most"):
        list(remote_read.frames(huge))


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 121, 500])
def test_literals_hold_a_whole_request(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    assert literals(remote_read.compressed(data)) == data


def literals(packed: bytes) -> bytes:
    """Decompress a snappy block that consists of short literals."""
    length = shift = position = 0
    while True:
        byte = packed[position]
        length |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            break
    out = b""
    while position < len(packed):
        assert packed[position] & 3 == 0
        size = (packed[position] >> 2) + 1
        out += packed[position + 1 : position + 1 + size]
        position += 1 + size
    assert len(out) == length
    return out
