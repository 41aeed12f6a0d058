"""docs/tables.md and its pictures are what the code of the report makes of the example's rows."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.pictures import example
from bench.pictures.drawn import PICTURES, svg_of
from bench.pictures.page import example_of, page_of
from bench.pictures.words import READ, UNKNOWN
from strandline_analysis.catalogue import TABLES

SIZE_MAX = 300_000
"""Bytes of all pictures: the page is read in a browser, and a repository keeps them for ever."""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def tables() -> example.Tables:
    return example.kept()


def test_every_table_has_a_picture_its_words_and_rows(tables: example.Tables) -> None:
    assert set(PICTURES) == set(READ) == set(UNKNOWN) == set(tables) == set(TABLES)
    for name, table in TABLES.items():
        assert {tuple(row) for row in tables[name]} == {table.names}
        named = {field for _, field, _, _ in Formatter().parse(READ[name]) if field}
        assert named <= set(table.names)
        assert len(named) >= 3


@pytest.mark.parametrize("name", sorted(TABLES))
def test_drawing_again_gives_the_same_bytes(name: str, tables: example.Tables) -> None:
    kept = example.PICTURES / f"{name}.svg"
    assert kept.read_text(encoding="utf-8") == svg_of(name, tables), "python -m bench.pictures"


def test_the_page_is_the_one_of_the_rows(tables: example.Tables) -> None:
    assert example.PAGE.read_text(encoding="utf-8") == page_of(tables), "python -m bench.pictures"


def test_the_page_asks_the_question_of_each_table_and_shows_every_column() -> None:
    page = example.PAGE.read_text(encoding="utf-8")
    parts = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(parts) == list(TABLES)
    for name, table in TABLES.items():
        assert table.asks in parts[name]
        assert f"(pictures/{name}.svg)" in parts[name]
        assert "*Unknown:*" in parts[name]
        for column in table.columns:
            assert re.search(rf"^\| {column.name} \| .+ \| ", parts[name], re.MULTILINE)


def test_pictures_stand_alone_and_are_small() -> None:
    files = sorted(example.PICTURES.glob("*.svg"))
    assert [file.stem for file in files] == sorted(TABLES)
    assert sum(file.stat().st_size for file in files) < SIZE_MAX
    for file in files:
        root = ElementTree.fromstring(file.read_text(encoding="utf-8"))
        assert root.tag == f"{SVG}svg"
        # Something is drawn besides the paper and the key.
        drawn = root.findall(f"./{SVG}g")[-1]
        shapes = [each for each in drawn.iter() if each.tag.removeprefix(SVG) in DRAWN]
        assert shapes, file.name
        colours = root.findtext(f"{SVG}style") or ""
        looks = {look for each in root.iter() for look in (each.get("class") or "").split()}
        for look in looks - {"chart", "leader", "incident", "none"}:
            assert f".{look}" in colours, (file.name, look)
        assert "prefers-color-scheme: dark" in colours
        assert "http" not in file.read_text(encoding="utf-8").replace(SVG.strip("{}"), "")


DRAWN = {"rect", "polyline", "circle", "polygon"}


@pytest.mark.long
def test_the_rows_are_those_that_the_analysis_makes(
    spark: Any, planned_small: None, tmp_path: Path
) -> None:
    made = example.made(spark, tmp_path, lambda _: None)
    assert example.text_of(made) == example.KEPT.read_text(encoding="utf-8")


def test_an_example_holds_what_it_is_to_show(tables: example.Tables) -> None:
    assert example_of("isr_intervals", tables)["in_isr"] is False
    assert example_of("lagtime_whatif", tables)["setting_ms"] == 5_000
