"""The options of the data source `prometheus`, and how a read is split into pieces.

Called by `read`. Options arrive as text; each is judged here, before anything is read, and a wrong
one is answered with a sentence that has its name and what it accepts. Needs no Spark.

Invariant: the pieces of a read do not overlap, and together they cover its metrics, range and
series.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
TIME_MS_MAX: Final = 253_402_300_800_000
"""The begin of the year 10000."""
SLICE_MS_MAX: Final = 31 * 24 * HOUR_MS
GAP_MS_MAX: Final = float(24 * HOUR_MS)
SHARDS_MAX: Final = 10
"""Shards are made of the last digits of a label."""
PIECES_MAX: Final = 100_000
"""A year of 20 metrics in slices of two hours has 87,600 pieces; the driver holds them all."""
READS_MAX: Final = 64
ATTEMPTS: Final = 5
ATTEMPTS_MAX: Final = 20
TIMEOUT_SECONDS: Final = 60
TIMEOUT_SECONDS_MAX: Final = 3600
METRIC_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class OptionInvalid(ValueError):
    """An option is missing, unknown, or has a value that is not accepted."""

    def __init__(self, option: str, *, given: str | None, accepted: str) -> None:
        said = "is missing" if given is None else f"is {given!r}"
        super().__init__(f"option {option} {said}; it accepts {accepted}")


class Transport(StrEnum):
    """How samples come from Prometheus."""

    REMOTE_READ = "remote_read"
    """Compressed chunks; the only way that shows stale markers."""
    JSON = "json"
    """The JSON API, for servers without remote read. It hides stale markers."""


class Reduction(StrEnum):
    """What the reader makes of the samples."""

    RUNS = "runs"
    """Equal samples in a row become one; see gap_ms."""
    MINUTES = "minutes"
    """One row for each series and minute: for values that rarely stay the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What one read asks for. Each field is an option of the same name."""

    url: str = ""
    """Prometheus, as http or https, with the path it is served under."""
    blocks: str = ""
    """A folder of blocks, which are read in place of a Prometheus."""
    metrics: tuple[str, ...]
    """Names of metrics, separated by commas."""
    start_ms: int
    """First moment of the range, in ms since 1970."""
    end_ms: int
    """End of the range, exclusive."""
    gap_ms: float = 0.0
    """Longest distance of two samples of one run; 0 leaves every sample by itself."""
    transport: Transport = Transport.REMOTE_READ
    reduction: Reduction = Reduction.RUNS
    slice_ms: int = 2 * HOUR_MS
    """Length of a slice of time, a whole number of minutes. Prometheus's blocks begin at multiples
    of two hours, so the default cuts no chunk in two."""
    shards: int = 1
    """Shards of a metric's series, by the last digit of shard_label."""
    shard_label: str = "partition"
    concurrent_reads: int = 8
    """Tasks of this read; each sends one request at a time. Prometheus itself answers ten at once
    unless told otherwise."""
    attempts: int = ATTEMPTS
    """Requests for one piece until the read fails."""
    timeout_seconds: int = TIMEOUT_SECONDS
    """Longest silence of Prometheus within one request."""
    bearer_token_file: str = ""
    """File with a token, read before each request. The token itself would be seen in plans."""
    ca_file: str = ""
    """File with the certificates that https is checked against, instead of the system's."""

    @property
    def minutes(self) -> bool:
        """Tell whether rows are minutes."""
        return self.reduction is Reduction.MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """One condition on a label."""

    label: str
    value: str
    is_pattern: bool = False

    def __str__(self) -> str:
        """Return it as PromQL writes it."""
        quoted = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.label}{"=~" if self.is_pattern else "="}"{quoted}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one request reads: series of a metric in [start_ms, end_ms)."""

    metric: str
    start_ms: int
    end_ms: int
    matchers: tuple[Matcher, ...] = ()


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the options that a read was given, as text.

    Raises:  OptionInvalid for the first wrong one
    """
    _judge_source(given)
    for name in sorted(set(given) - set(_PARSERS)):
        raise OptionInvalid(name, given=given[name], accepted=f"nothing; known: {_known()}")
    for name in sorted(_REQUIRED - set(given)):
        raise OptionInvalid(name, given=None, accepted=_PARSERS[name][1])
    values: dict[str, Any] = {}
    for name, text in given.items():
        parse, accepted = _PARSERS[name]
        try:
            values[name] = parse(text.strip())
        except ValueError:
            raise OptionInvalid(name, given=text, accepted=accepted) from None
    options = ReadOptions(**values)
    if options.end_ms <= options.start_ms:
        after = f"a time after start_ms, which is {options.start_ms}"
        raise OptionInvalid("end_ms", given=given["end_ms"], accepted=after)
    _judge_pieces(options)
    return options


def accepted_values() -> dict[str, str]:
    """Return what each option accepts."""
    return {name: accepted for name, (_, accepted) in _PARSERS.items()}


def pieces(options: ReadOptions, matchers: tuple[Matcher, ...] = ()) -> list[Piece]:
    """Return the pieces of a read: one for each metric, slice of time and shard of series.

    Slices end at multiples of slice_ms.
    """
    slices = []
    start_ms = options.start_ms
    while start_ms < options.end_ms:
        end_ms = min(start_ms - start_ms % options.slice_ms + options.slice_ms, options.end_ms)
        slices.append((start_ms, end_ms))
        start_ms = end_ms
    return [
        Piece(
            metric=metric,
            start_ms=start_ms,
            end_ms=end_ms,
            matchers=(*matchers, *shard_matchers(options, shard)),
        )
        for metric in options.metrics
        for start_ms, end_ms in slices
        for shard in range(options.shards)
    ]


def shard_matchers(options: ReadOptions, shard: int) -> tuple[Matcher, ...]:
    """Return the condition on the series of one shard.

    A value belongs to the shard of its last digit, any other value and none to the first shard.
    So the shards are complete whatever values there are, without asking for them first.
    """
    if options.shards == 1:
        return ()
    digits = "".join(str(digit) for digit in range(shard, SHARDS_MAX, options.shards))
    others = "|.*[^0-9]|" if shard == 0 else ""
    pattern = f"(?s:.*[{digits}]{others})"
    return (Matcher(label=options.shard_label, value=pattern, is_pattern=True),)


def dealt(found: list[Piece], *, hands: int) -> list[tuple[Piece, ...]]:
    """Deal the pieces to at most this many tasks, neighbours in time to different ones."""
    return [tuple(found[hand::hands]) for hand in range(min(hands, len(found)))]


def _judge_source(given: Mapping[str, str]) -> None:
    """Refuse a read from nowhere, from two places, or of files with options of requests."""
    if "blocks" not in given:
        if "url" not in given:
            instead = f"{_PARSERS['url'][1]}, or the option blocks in its place"
            raise OptionInvalid("url", given=None, accepted=instead)
        return
    for name in sorted({"url", *_OF_REQUESTS} & set(given)):
        said = "nothing beside blocks: samples come from files, and no server is asked"
        raise OptionInvalid(name, given=given[name], accepted=said)


def _judge_pieces(options: ReadOptions) -> None:
    slices = (options.end_ms - 1) // options.slice_ms - options.start_ms // options.slice_ms + 1
    count = len(options.metrics) * slices * options.shards
    if count > PIECES_MAX:
        longer = f"longer slices: a read has at most {PIECES_MAX} pieces, this one {count}"
        raise OptionInvalid("slice_ms", given=str(options.slice_ms), accepted=longer)


def _known() -> str:
    return ", ".join(sorted(_PARSERS))


def _url(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    # The port is judged when it is asked for.
    reached = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    if not reached or parts.query or parts.fragment or "@" in parts.netloc or " " in text:
        raise ValueError(text)
    return text.rstrip("/")


def _metrics(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or not all(METRIC_NAME.fullmatch(name) for name in names):
        raise ValueError(text)
    return names


def _folder(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def _label(text: str) -> str:
    if not LABEL_NAME.fullmatch(text):
        raise ValueError(text)
    return text


def _slice(text: str) -> int:
    value = _whole(MINUTE_MS, SLICE_MS_MAX)[0](text)
    if value % MINUTE_MS:
        raise ValueError(text)
    return value


def _gap(text: str) -> float:
    value = float(text)
    # Also refuses NaN, which compares with nothing.
    if not 0 <= value <= GAP_MS_MAX:
        raise ValueError(text)
    return value


def _whole(least: int, most: int) -> tuple[Callable[[str], int], str]:
    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError(text)
        return value

    return parse, f"a whole number from {least} to {most}"


def _choice(kinds: type[StrEnum]) -> tuple[Callable[[str], StrEnum], str]:
    return kinds, " or ".join(kinds)


_TIME: Final = (_whole(0, TIME_MS_MAX)[0], f"ms since 1970, from 0 to {TIME_MS_MAX}")
_PARSERS: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "url": (_url, "http://HOST:PORT or https://HOST:PORT, with a path at most"),
    "blocks": (_folder, "the path of a folder of blocks, in place of url"),
    "metrics": (_metrics, "at least one name of a metric; several are separated by commas"),
    "start_ms": _TIME,
    "end_ms": _TIME,
    "gap_ms": (_gap, f"ms from 0 to {GAP_MS_MAX:.0f}"),
    "transport": _choice(Transport),
    "reduction": _choice(Reduction),
    "slice_ms": (_slice, f"whole minutes in ms, from {MINUTE_MS} to {SLICE_MS_MAX}"),
    "shards": _whole(1, SHARDS_MAX),
    "shard_label": (_label, "the name of a label"),
    "concurrent_reads": _whole(1, READS_MAX),
    "attempts": _whole(1, ATTEMPTS_MAX),
    "timeout_seconds": _whole(1, TIMEOUT_SECONDS_MAX),
    "bearer_token_file": (str, "the path of a file with a token"),
    "ca_file": (str, "the path of a file with certificates in PEM"),
}
"""By option: what makes its value of a text, or raises ValueError; and what it accepts."""
_REQUIRED: Final = {"metrics", "start_ms", "end_ms"}
_OF_REQUESTS: Final = {
    "transport",
    "attempts",
    "timeout_seconds",
    "bearer_token_file",
    "ca_file",
}


def told(time_ms: int) -> str:
    """Return a time as refusals name it, and as options take it."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
