"""The options of a read: each wrong one gets a sentence; the pieces of a read cover it once."""

from __future__ import annotations

import itertools
import re
from dataclasses import MISSING, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_analysis.read_options import (
    PIECES_MAX,
    Matcher,
    OptionInvalid,
    Piece,
    ReadOptions,
    Reduction,
    Transport,
    accepted_values,
    dealt,
    pieces,
    read_options,
    shard_matchers,
)
from tests.support.commands import REPOSITORY

GIVEN = {"url": "http://prometheus:9090/", "metrics": "a,b", "start_ms": "1000", "end_ms": "9000"}


def test_options_are_read_from_text_with_their_defaults() -> None:
    options = read_options(GIVEN)
    assert (options.url, options.metrics) == ("http://prometheus:9090", ("a", "b"))
    assert (options.start_ms, options.end_ms) == (1000, 9000)
    assert (options.transport, options.reduction) == (Transport.REMOTE_READ, Reduction.RUNS)
    assert (options.shards, options.slice_ms, options.gap_ms) == (1, 7_200_000, 0.0)


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("url", "prometheus:9090", "http://HOST:PORT"),
        ("url", "http://", "http://HOST:PORT"),
        ("url", "http://prometheus?x=1", "http://HOST:PORT"),
        ("url", "http://prometheus:99999", "http://HOST:PORT"),
        ("url", "http://person@prometheus", "http://HOST:PORT"),
        ("url", "http://two hosts", "http://HOST:PORT"),
        ("metrics", "", "at least one name of a metric"),
        ("metrics", "a,b c", "at least one name of a metric"),
        ("start_ms", "yesterday", "ms since 1970, from 0 to 253402300800000"),
        ("start_ms", "-1", "ms since 1970, from 0 to"),
        ("end_ms", "1e9", "ms since 1970, from 0 to"),
        ("end_ms", "1000", "a time after start_ms, which is 1000"),
        ("end_ms", "253402300800001", "ms since 1970, from 0 to"),
        ("gap_ms", "nan", "ms from 0 to 86400000"),
        ("gap_ms", "-1", "ms from 0 to 86400000"),
        ("gap_ms", "inf", "ms from 0 to 86400000"),
        ("transport", "grpc", "remote_read or json"),
        ("reduction", "hours", "runs or minutes"),
        ("slice_ms", "59999", "whole minutes in ms, from 60000 to 2678400000"),
        ("slice_ms", "60001", "whole minutes in ms, from 60000 to 2678400000"),
        ("slice_ms", "2678460000", "whole minutes in ms, from 60000 to 2678400000"),
        ("shards", "0", "a whole number from 1 to 10"),
        ("shards", "11", "a whole number from 1 to 10"),
        ("shard_label", "a-b", "the name of a label"),
        ("concurrent_reads", "0", "a whole number from 1 to 64"),
        ("attempts", "21", "a whole number from 1 to 20"),
        ("timeout_seconds", "0.5", "a whole number from 1 to 3600"),
        ("path", "x", "nothing; known: attempts, "),
    ],
)
def test_a_wrong_option_is_named_with_what_it_accepts(
    option: str, value: str, accepted: str
) -> None:
    with pytest.raises(OptionInvalid) as refused:
        read_options({**GIVEN, option: value})
    assert str(refused.value).startswith(f"option {option} is {value!r}; it accepts {accepted}")


OF_BLOCKS = {**{name: each for name, each in GIVEN.items() if name != "url"}, "blocks": "/b"}


def test_blocks_stand_in_place_of_a_url() -> None:
    options = read_options(OF_BLOCKS)
    assert (options.url, options.blocks) == ("", "/b")
    instead = "option url is missing; .* at most, or the option blocks in its place"
    with pytest.raises(OptionInvalid, match=instead):
        read_options({name: each for name, each in GIVEN.items() if name != "url"})
    with pytest.raises(OptionInvalid, match="option blocks is ''; it accepts the path of a folder"):
        read_options({**OF_BLOCKS, "blocks": ""})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("url", "http://prometheus:9090"),
        ("transport", "json"),
        ("attempts", "3"),
        ("timeout_seconds", "3"),
        ("bearer_token_file", "x"),
        ("ca_file", "x"),
    ],
)
def test_options_of_requests_are_refused_beside_blocks(option: str, value: str) -> None:
    said = f"option {option} is '{value}'; it accepts nothing beside blocks: samples come from"
    with pytest.raises(OptionInvalid, match=re.escape(said)):
        read_options({**OF_BLOCKS, option: value})


@pytest.mark.parametrize("option", sorted(GIVEN))
def test_a_missing_option_is_named(option: str) -> None:
    given = {name: value for name, value in GIVEN.items() if name != option}
    with pytest.raises(OptionInvalid, match=f"option {option} is missing; it accepts"):
        read_options(given)


def test_a_read_of_too_many_pieces_is_refused_before_they_are_made() -> None:
    most = {**GIVEN, "metrics": "a", "start_ms": "1", "slice_ms": "60000"}
    options = read_options({**most, "end_ms": str(PIECES_MAX * 60_000)})
    assert len(pieces(options)) == PIECES_MAX
    sentence = (
        "option slice_ms is '60000'; it accepts longer slices: a read has at most "
        f"{PIECES_MAX} pieces, this one {PIECES_MAX + 1}"
    )
    with pytest.raises(OptionInvalid, match=re.escape(sentence)):
        read_options({**most, "end_ms": str(PIECES_MAX * 60_000 + 1)})


# Thousands of pieces take long on a machine with other work.
@settings(deadline=None)
@given(
    start_ms=st.integers(0, 10_000_000),
    length=st.integers(1, 1_000_000),
    slice_minutes=st.integers(1, 20),
    shards=st.integers(1, 10),
    hands=st.integers(1, 64),
)
def test_pieces_cover_metrics_range_and_shards_once(
    start_ms: int, length: int, slice_minutes: int, shards: int, hands: int
) -> None:
    ranged = {"start_ms": str(start_ms), "end_ms": str(start_ms + length)}
    slice_ms = slice_minutes * 60_000
    options = read_options({**GIVEN, **ranged, "slice_ms": str(slice_ms), "shards": str(shards)})
    found = pieces(options)
    tasks = dealt(found, hands=hands)
    assert len(tasks) == min(hands, len(found))
    assert all(tasks)
    assert sorted(map(repr, found)) == sorted(repr(piece) for task in tasks for piece in task)
    for metric in options.metrics:
        for shard in range(shards):
            matchers = shard_matchers(options, shard)
            mine = [p for p in found if p.metric == metric and p.matchers == matchers]
            assert [mine[0].start_ms, mine[-1].end_ms] == [start_ms, start_ms + length]
            assert all(a.end_ms == b.start_ms for a, b in itertools.pairwise(mine))
            assert all(piece.start_ms < piece.end_ms for piece in mine)
            assert all(piece.end_ms % slice_ms == 0 for piece in mine[:-1])


@given(st.text(max_size=6), st.integers(2, 10))
def test_a_value_of_the_label_belongs_to_one_shard(value: str, shards: int) -> None:
    options = read_options({**GIVEN, "shards": str(shards)})
    holding = [
        shard
        for shard in range(shards)
        for matcher in shard_matchers(options, shard)
        if re.fullmatch(matcher.value, value)
    ]
    assert len(holding) == 1
    assert holding == [int(value[-1]) % shards if value[-1:] in set("0123456789") else 0]


def test_filters_hold_for_every_piece_beside_its_shard() -> None:
    only = Matcher(label="pod", value="default-1")
    options = read_options({**GIVEN, "shards": "2"})
    assert all(piece.matchers[0] == only for piece in pieces(options, (only,)))
    assert pieces(read_options(GIVEN), (only,))[0] == Piece(
        metric="a", start_ms=1000, end_ms=9000, matchers=(only,)
    )


def test_a_matcher_is_written_as_promql_does() -> None:
    assert str(Matcher(label="topic", value='a"\\\n')) == 'topic="a\\"\\\\\\n"'
    assert str(Matcher(label="p", value="1|2", is_pattern=True)) == 'p=~"1|2"'


def test_the_page_has_every_option_with_its_default_and_what_it_accepts() -> None:
    defaults = {each.name: each.default for each in fields(ReadOptions)}
    rows = [
        f"| `{name}` | {'refused' if defaults[name] is MISSING else defaults[name]} | {accepted} |"
        for name, accepted in accepted_values().items()
    ]
    page = (REPOSITORY / "docs" / "analysis.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows
