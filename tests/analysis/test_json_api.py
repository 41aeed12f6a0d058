"""The client of the JSON API against a server with prepared responses."""

from __future__ import annotations

import json
import struct
import urllib.parse
from typing import Any

import pytest

from strandline_analysis import prometheus_http
from strandline_analysis.json_api import ShownSeries, query, read_shown
from strandline_analysis.prometheus_http import ReadFailed, Server
from strandline_analysis.read_options import Matcher, Piece
from tests.analysis.http_server import PreparedResponse, served_by

PIECE = Piece(
    metric="m",
    start_ms=1_790_000_000_000,
    end_ms=1_790_000_003_000,
    matchers=(Matcher(label="partition", value=".*[05]", is_pattern=True),),
)
KIND = "application/json"


def bits(value: float) -> int:
    found: int = struct.unpack(">Q", struct.pack(">d", value))[0]
    return found


def read(*bodies: bytes) -> tuple[list[ShownSeries], list[bytes]]:
    """Read from a server that responds with these bodies, one after the other."""
    requests: list[bytes] = []

    def respond(request: bytes) -> PreparedResponse:
        requests.append(request)
        return PreparedResponse(bodies[min(len(requests), len(bodies)) - 1], kind=KIND)

    with served_by(respond) as address:
        return read_shown(Server(url=f"http://{address}", attempts=2), PIECE), requests


def matrix(*series: dict[str, Any]) -> bytes:
    data = {"resultType": "matrix", "result": series}
    return json.dumps({"status": "success", "data": data}).encode()


def shown(pod: str, *values: tuple[float, str]) -> dict[str, Any]:
    return {"metric": {"__name__": "m", "pod": pod}, "values": values}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_http, "BACK_OFF_SECONDS", 0.001)


def test_the_selector_ends_with_the_last_ms_of_the_range() -> None:
    _, (request,) = read(matrix())
    form = urllib.parse.parse_qs(request.decode())
    assert form == {"query": [query(PIECE)], "time": ["1790000002.999"]}
    assert query(PIECE) == '{__name__="m",partition=~".*[05]"}[3000ms]'


def test_series_are_ordered_cut_and_exact() -> None:
    values = [(1790000000 - 0.001, "7"), (1790000000, "NaN"), (1790000001.001, "-0")]
    more = [(1790000002.999, "+Inf"), (1790000003, "8")]
    found, _ = read(matrix(shown("b", *values, *more), shown("a", (1790000001, "1e-320"))))
    first, second = found
    assert (first.labels["pod"], first.timestamps) == ("a", (1_790_000_001_000,))
    assert first.bits == (bits(1e-320),)
    assert second.timestamps == (1_790_000_000_000, 1_790_000_001_001, 1_790_000_002_999)
    assert second.bits == (0x7FF8_0000_0000_0001, bits(-0.0), bits(float("inf")))


def test_a_series_without_samples_in_the_range_is_left_out() -> None:
    found, _ = read(matrix(shown("a", (1789999999.999, "7"))))
    assert found == []


def test_native_histograms_are_refused_by_name() -> None:
    histogram = {"metric": {"__name__": "m"}, "histograms": []}
    with pytest.raises(ReadFailed, match=r"'__name__': 'm'.*native histograms are not read"):
        read(matrix(histogram))


@pytest.mark.parametrize("broken", [b"", b'{"data": {', b"\xff\xff"])
def test_a_response_that_is_no_json_is_requested_again(broken: bytes) -> None:
    found, requests = read(broken, matrix(shown("a", (1790000001, "1"))))
    assert (len(found), len(requests)) == (1, 2)


def test_another_api_is_refused() -> None:
    with pytest.raises(ReadFailed, match="not of Prometheus's query API"):
        read(b'{"data": []}')
