"""The page of the report: one file, for any tables, with what the tables say and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from strandline_analysis.html_report import curves, incidents, isr_map, leaders, rows
from strandline_analysis.html_report.axes import PowersOfTen, Upward
from strandline_analysis.html_report.markup import VOID
from strandline_analysis.html_report.page import html_report
from strandline_analysis.html_report.words import Range
from tests.analysis.test_report import AT, election, incident, interval

QUANTILES = "failover_quantiles"
"""A table that only adds to a part of the page."""
WINDOW = Range(start_ms=AT, end_ms=AT + 60_000, interval_ms=1000)
NASTY = "<script>alert(1)</script>&\"'\x00\x1b\ud800 topic"


def scrape(at: int, **changes: Any) -> dict[str, Any]:
    row = {"incident": f"{AT}-broker-1", "topic": "orders", "partition": 0, "leader": 2}
    return {**row, "at_ms": AT + at, "at_err_ms": 0, "leo": 500 + at, "hw": 500, **changes}


def setting(setting_ms: int, shrinks: int) -> dict[str, Any]:
    bounds = {
        f"{what}_{bound}{unit}": 10 * shrinks
        for what, unit in (("expands", ""), ("ur", "_ms"), ("umi", "_ms"))
        for bound in ("low", "high")
    }
    counts = {"shrinks_low": shrinks, "shrinks_high": shrinks + 1}
    return {"setting_ms": setting_ms, **counts, **bounds, "extra_hw_stall_ms": setting_ms // 2}


def day(**changes: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "day_ms": AT - AT % 86_400_000,
        "partitions": 3,
        "total_ms": 180_000,
        "known_ms": 180_000,
        "coverage": 1.0,
        "covered": True,
        "availability": 0.999,
        "produce_availability": 0.99,
        "ur_ratio": 0.2,
        "durability_risk": 0.0,
        "failover_p99_ms": 700.0,
        "error_budget_left": 0.25,
        **changes,
    }


def quantiles(**changes: Any) -> dict[str, Any]:
    names = ("p50_low_ms", "p50_high_ms", "p99_low_ms", "p99_high_ms", "max_low_ms", "max_high_ms")
    return {"kind": "broker_failure", "elections": 1, **dict.fromkeys(names, 7.0), **changes}


EVERY = {
    "incidents": [incident()],
    "isr_intervals": [interval()],
    "elections": [election()],
    "incident_curves": [scrape(at) for at in range(0, 20_000, 1000)],
    "failover_quantiles": [quantiles()],
    "slo": [day()],
    "lagtime_whatif": [setting(5_000, 4), setting(30_000, 1)],
}
"""One row, or some, of each table that the page shows."""


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
    tables = EVERY | {"elections": [election(), election(partition=1)]}
    turned = dict(reversed(tables.items()))
    assert html_report(tables, WINDOW) == html_report(turned, WINDOW)


def test_absent_and_empty_tables_get_a_sentence() -> None:
    assert "The table elections was not made in this run." in words_of(page_of())
    nothing = words_of(page_of(elections=[], isr_intervals=[]))
    assert "No leader changed in this range." in nothing
    assert "No sample of a partition in this range." in nothing
    every = words_of(page_of(**{name: [] for name in EVERY}))
    for says in (
        "The samples show no incident in this range.",
        "No partition had samples around an incident.",
        "No election was seen from begin to end.",
        "No topic was seen in this range.",
        "No setting could be replayed.",
    ):
        assert says in every
    absent = words_of(page_of())
    assert all(f"The table {name} was not made" in absent for name in EVERY if name != QUANTILES)


def test_what_a_table_holds_is_never_markup() -> None:
    proof = {"at_ms": AT, "kind": NASTY, "broker": 1, "topic": NASTY, "partition": 0}
    tree = page_of(
        incidents=[incident(kind=NASTY, evidence=[proof])],
        elections=[election(topic=NASTY, kind=NASTY)],
        isr_intervals=[interval(topic=NASTY)],
        incident_curves=[scrape(0, topic=NASTY), scrape(1000, topic=NASTY)],
        failover_quantiles=[quantiles(kind=NASTY)],
        slo=[day(topic=NASTY)],
    )
    assert "<script>alert(1)</script>&\"'\ufffd\ufffd\ufffd topic-0" in words_of(tree)


def test_the_page_asks_for_nothing_elsewhere() -> None:
    text = html_report(EVERY, WINDOW)
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


def test_what_the_samples_lack_stands_on_top_of_the_page() -> None:
    lacks = ("http://here has samples of 1 of 3 brokers", "clocks of <brokers> differ")
    page = html_report({}, replace(WINDOW, cluster="blue", known=0.25, findings=lacks))
    assert '<p class="lead">Cluster blue, ' in page
    assert "scraped every 1.0 s; 25.0% of the partitions' time is known.</p>" in page
    assert "<li>http://here has samples of 1 of 3 brokers.</li>" in page
    assert "<li>Clocks of &lt;brokers&gt; differ.</li>" in page
    assert page.index("Clocks of") < page.index('id="incidents"')
    assert 'class="findings"' not in html_report({}, WINDOW)


def test_the_page_opens_with_the_incidents() -> None:
    tree = page_of(**EVERY)
    first = tree.find(".//main/section")
    assert first is not None
    assert first.get("id") == "incidents"
    (item,) = first.findall("ol/li")
    assert "".join(item.itertext()).startswith("broker: ")
    assert "broker 1 is at the root, confidence 0.75" in "".join(item.itertext())
    bars = [each for each in first.iter("rect") if "incident" in (each.get("class") or "")]
    assert [each.get("class") for each in bars] == ["incident b1"]
    # One line for each moment of evidence.
    assert sum(each.get("class") == "sign" for each in first.iter("line")) == 4


def test_incidents_without_a_root_and_many_of_them_are_told() -> None:
    many = [
        incident(id=str(number), start_ms=AT + number, kind="network", root_broker=None)
        for number in range(incidents.SENTENCES_MAX + 1)
    ]
    tree = page_of(incidents=many)
    assert len(tree.findall(".//section[@id='incidents']/ol/li")) == incidents.SENTENCES_MAX
    assert "51 incidents, the oldest first. The first 50 are told here" in words_of(tree)


def test_curves_end_where_the_leader_changes_or_scrapes_lack() -> None:
    scrapes = [scrape(at) for at in (0, 1000, 2000, 9000, 10_000)]
    scrapes += [scrape(at, leader=0) for at in (11_000, 12_000)]
    stretches = curves.unbroken(scrapes, gap_ms=2500)
    assert [[row["at_ms"] - AT for row in each] for each in stretches] == [
        [0, 1000, 2000],
        [9000, 10_000],
        [11_000, 12_000],
    ]
    tree = page_of(incidents=[incident()], incident_curves=scrapes)
    # Log end, high watermark and lag.
    assert len(tree.findall(".//section[@id='curves']//polyline")) == 3 * len(stretches)


def test_a_long_curve_keeps_its_greatest_lags() -> None:
    scrapes = [scrape(1000 * number, leo=500) for number in range(5 * curves.POINTS_MAX)]
    scrapes[777]["leo"] = 90_000
    thin = curves.thinned(scrapes)
    assert len(thin) <= curves.POINTS_MAX
    assert max(row["leo"] for row in thin) == 90_000


def test_times_without_a_leader_are_drawn_between_their_bounds() -> None:
    rows = [election(no_leader_low_ms=100, no_leader_high_ms=1000), election(kind="unclean")]
    tree = page_of(elections=rows, failover_quantiles=[quantiles()])
    section = tree.find(".//section[@id='failovers']")
    assert section is not None
    scale = PowersOfTen.over([1000, 700])
    lines = [each for each in section.iter("line") if each.get("class") == "range"]
    ends = [(float(each.get("x1") or 0), float(each.get("x2") or 0)) for each in lines]
    assert ends[0] == pytest.approx((scale.x(100), scale.x(1000)), abs=0.01)
    assert len(lines) == 2
    assert "broker_failure" in words_of(section)


def test_an_overdrawn_budget_comes_first_and_is_marked() -> None:
    spent = day(topic="late", error_budget_left=-3.0)
    unknown = day(topic="blind", error_budget_left=None, availability=None, covered=False)
    tree = page_of(slo=[unknown, day(), spent])
    section = tree.find(".//section[@id='slo']")
    assert section is not None
    names = [row[0].text for row in section.findall(".//tbody/tr")]
    assert names == ["late", "orders", "blind"]
    bars = [each.get("class") for each in section.iter("rect")]
    assert bars == ["out0", "out2", "out0", "b0", "out0", "unknown"]
    assert "1 error budget of 3 overdrawn." in words_of(section)


def test_the_what_if_curve_marks_the_setting_in_force_and_has_its_caveat() -> None:
    tree = page_of(lagtime_whatif=EVERY["lagtime_whatif"])
    section = tree.find(".//section[@id='whatif']")
    assert section is not None
    assert [each.text for each in section.iter("text") if each.get("class") == "tick now"] == [
        "30 s",
        "30 s",
    ]
    said = words_of(section)
    assert "With replica.lag.time.max.ms = 5 s: 3 shrinks more (4 to 5 shrinks)" in said
    assert "producers would have waited less or more" in said


def test_axes_have_round_numbers() -> None:
    assert Upward(least=0, most=97, top=0, bottom=100).ticks() == [0, 50]
    assert Upward(least=0, most=1, top=0, bottom=100).ticks() == [0, 0.5, 1.0]
    assert PowersOfTen.over([3, 450]).ticks() == [1, 10, 100, 1000]
    assert PowersOfTen.over([]).ticks() == [1, 10]
