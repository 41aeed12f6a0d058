"""The page of the report: one file, for any tables, with what the tables say and nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from strandline_analysis.html_report import isr_map, leaders, rows
from strandline_analysis.html_report.markup import VOID
from strandline_analysis.html_report.page import html_report
from strandline_analysis.html_report.words import Range
from tests.analysis.test_report import AT, election, interval

WINDOW = Range(start_ms=AT, end_ms=AT + 60_000, interval_ms=1000)
NASTY = "<script>alert(1)</script>&\"'\x00\x1b\ud800 topic"


class Balanced(HTMLParser):
    """Fails if an element is not closed, or not in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.scripts += tag == "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def page_of(**tables: list[dict[str, Any]]) -> ElementTree.Element:
    """Return the page as an XML tree, checked as HTML as well."""
    text = html_report(tables, WINDOW)
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert (parser.open, parser.scripts) == ([], 1)
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def words_of(tree: ElementTree.Element) -> str:
    return " ".join("".join(tree.itertext()).split())


def test_the_same_tables_give_the_same_bytes_in_any_order() -> None:
    tables = {"elections": [election(), election(partition=1)], "isr_intervals": [interval()]}
    turned = dict(reversed(tables.items()))
    assert html_report(tables, WINDOW) == html_report(turned, WINDOW)


def test_absent_and_empty_tables_get_a_sentence() -> None:
    assert "The table elections was not made in this run." in words_of(page_of())
    nothing = words_of(page_of(elections=[], isr_intervals=[]))
    assert "No leader changed in this range." in nothing
    assert "No sample of a partition in this range." in nothing


def test_what_a_table_holds_is_never_markup() -> None:
    tree = page_of(
        elections=[election(topic=NASTY, kind=NASTY)], isr_intervals=[interval(topic=NASTY)]
    )
    assert "<script>alert(1)</script>&\"'\ufffd\ufffd\ufffd topic-0" in words_of(tree)


def test_the_page_asks_for_nothing_elsewhere() -> None:
    text = html_report({"elections": [election()], "isr_intervals": [interval()]}, WINDOW)
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=", text)
    assert {each[0] for each in re.findall(r'href="(.)', text)} == {"#"}


def test_a_table_is_cut_and_says_where_the_rest_is() -> None:
    many = [election(epoch=epoch) for epoch in range(rows.ROWS_MAX + 3)]
    tree = page_of(elections=many)
    assert len(tree.findall(".//tbody/tr")) == rows.ROWS_MAX
    assert "The first 200 of 203 rows; elections.csv has all." in words_of(tree)


def test_drawings_are_bounded_and_say_what_they_leave_out() -> None:
    partitions = range(isr_map.PARTITIONS_MAX + 1)
    flips = [
        interval(partition=partition, start_ms=AT + 20 * index, end_ms=AT + 20 * index + 10)
        for partition in partitions
        for index in range(1000)
    ]
    moves = [
        election(partition=partition, epoch=epoch)
        for partition in range(leaders.PARTITIONS_MAX + 1)
        for epoch in range(5)
    ]
    tree = page_of(isr_intervals=flips, elections=moves)
    leader_bars = tree.findall(".//section[@id='leaders']//rect")
    assert len(leader_bars) <= leaders.PARTITIONS_MAX * 6
    isr_bars = tree.findall(".//section[@id='isr']//rect")
    assert len(isr_bars) <= isr_map.PARTITIONS_MAX * isr_map.CELLS
    said = words_of(tree)
    assert "Drawn are the 40 with the most elections." in said
    assert "Drawn are the 60 with the longest absence." in said


def test_numbers_are_those_of_the_table() -> None:
    row = page_of(elections=[election(no_leader_high_ms=1_234_567)]).find(".//tbody/tr")
    assert row is not None
    assert [(cell.text or "").replace("\u202f", "") for cell in row][:4] == [
        "orders-0",
        "4",
        "1",
        "2",
    ]
    assert [cell.get("data-sort") for cell in row][6:8] == ["0", "1234567"]


def test_leaders_are_drawn_from_election_to_election() -> None:
    second = election(epoch=5, old_leader=2, new_leader=0, t_last_old_ms=AT + 5000)
    second["t_first_new_ms"] = AT + 5400
    assert leaders.stretches([election(), second], WINDOW) == [
        (AT, AT + 100, 1),
        (AT + 800, AT + 5000, 2),
        (AT + 5400, AT + 60_000, 0),
    ]


def test_a_cell_of_the_map_holds_every_broker_that_was_out_in_it() -> None:
    cell_ms = WINDOW.length_ms // isr_map.CELLS
    first = interval(start_ms=AT, end_ms=AT + cell_ms)
    second = interval(replica=2, start_ms=AT + cell_ms - 1, end_ms=AT + cell_ms + 1)
    hidden = interval(replica=3, in_isr=None, start_ms=AT + cell_ms, end_ms=AT + cell_ms + 1)
    assert dict(isr_map.cells_of([first, second, hidden], WINDOW)) == {
        0: (frozenset({1, 2}), frozenset()),
        1: (frozenset({2}), frozenset({3})),
    }


@pytest.mark.parametrize("known", [True, None])
def test_a_partition_that_was_never_out_is_counted_and_not_drawn(known: object) -> None:
    tree = page_of(isr_intervals=[interval(in_isr=known)])
    assert "In 1 of 1 partition no replica was seen out of sync." in words_of(tree)
    assert not tree.findall(".//section[@id='isr']//rect")
