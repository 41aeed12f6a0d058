"""A client of Prometheus's JSON API, for servers that have no remote read.

Called by `read`. A range selector is asked for at the end of the range, which returns samples as
they were scraped; a range query would resample them. Stale markers are not shown, so a series that
ended looks as if its scrapes were late. Needs neither Spark nor numpy.

Source: Prometheus web/api/v1, promql/parser (left-open ranges since 3.0).
"""

from __future__ import annotations

import http.client
import json
import math
import struct
import urllib.parse
from dataclasses import dataclass
from typing import Any, Final

from .prometheus_http import ReadFailed, Retriable, Server, ask
from .read_options import Matcher, Piece
from .remote_read import NAME_LABEL

PATH: Final = "/api/v1/query"
RESPONSE_BYTES_MAX: Final = 1 << 30
PLAIN_NAN: Final = 0x7FF8_0000_0000_0001
"""The NaN that Prometheus stores for every scraped one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSeries:
    """One series: its labels and its samples within the range, in order."""

    labels: dict[str, str]
    timestamps: tuple[int, ...]
    bits: tuple[int, ...]


def read_shown(server: Server, piece: Piece) -> list[ShownSeries]:
    """Return all series of a piece that have samples in its range, without stale markers.

    Raises:  ReadFailed when Prometheus refuses, every attempt failed, or a series is a histogram
    """
    form = urllib.parse.urlencode({"query": query(piece), "time": f"{(piece.end_ms - 1) / 1000}"})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    found = ask(server, PATH, body=form.encode(), headers=headers, take=_result)
    shown = [_series(each, piece) for each in found]
    return sorted((each for each in shown if each.timestamps), key=sorted_labels)


def sorted_labels(series: ShownSeries) -> list[tuple[str, str]]:
    """Return the labels in the order by which remote read sorts series."""
    return sorted(series.labels.items())


def query(piece: Piece) -> str:
    """Return the range selector of a piece.

    It ends with the last ms of the range. Since 3.0 a selector leaves its begin out, before that it
    includes one ms more than asked for, which is cut off.
    """
    named = Matcher(label=NAME_LABEL, value=piece.metric)
    matchers = ",".join(map(str, (named, *piece.matchers)))
    return f"{{{matchers}}}[{piece.end_ms - piece.start_ms}ms]"


def _result(response: http.client.HTTPResponse) -> list[dict[str, Any]]:
    body = response.read(RESPONSE_BYTES_MAX + 1)
    if len(body) > RESPONSE_BYTES_MAX:
        said = f"a response of more than {RESPONSE_BYTES_MAX} bytes"
        raise ReadFailed(f"{said}: a smaller slice_ms or more shards make it smaller")
    try:
        found: list[dict[str, Any]] = json.loads(body)["data"]["result"]
    except ValueError as error:
        raise Retriable(f"the response is no JSON: {error}") from error
    except (KeyError, TypeError) as error:
        raise ReadFailed("the response is JSON, but not of Prometheus's query API") from error
    return found


def _series(shown: dict[str, Any], piece: Piece) -> ShownSeries:
    labels: dict[str, str] = shown["metric"]
    if "histograms" in shown:
        raise ReadFailed(f"{labels}: native histograms are not read")
    pairs = [(round(at * 1000), float(text)) for at, text in shown["values"]]
    kept = [pair for pair in pairs if piece.start_ms <= pair[0] < piece.end_ms]
    return ShownSeries(
        labels=labels,
        timestamps=tuple(at for at, _ in kept),
        bits=tuple(_bits(value) for _, value in kept),
    )


def _bits(value: float) -> int:
    if math.isnan(value):
        return PLAIN_NAN
    bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
    return bits
