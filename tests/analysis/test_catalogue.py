"""The catalogue of tables: what each row of it must say."""

from __future__ import annotations

import pytest

from strandline_analysis import catalogue
from strandline_analysis.catalogue import TABLES, Column, Table

OF_EPISODES = {"incidents"}
"""Begins and ends with rows of other tables, of which each has its own errors."""
PLAIN = {"string", "integer", "long", "double", "boolean"}


def test_every_analysis_has_a_table_and_every_name_is_its_own() -> None:
    assert {table.analysis for table in TABLES.values()} == set(range(1, 13))
    assert all(table.name == name for name, table in TABLES.items())
    made = [value for value in vars(catalogue).values() if isinstance(value, Table)]
    assert sorted(table.name for table in made) == sorted(TABLES)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_table_has_a_question_and_its_columns_types_and_units(table: Table) -> None:
    assert table.asks
    assert len(set(table.names)) == len(table.columns)
    for column in [*table.columns, *(c for fields in catalogue.RECORDS.values() for c in fields)]:
        kind = column.kind.removeprefix("array<").removesuffix(">")
        assert kind in PLAIN | set(catalogue.RECORDS), column
        assert column.unit
        if column.name.endswith("_ms"):
            assert column.unit.split(" ")[0] in {"ms", "ms;", "ms,"}, column


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_edges_carry_their_error_and_durations_their_bounds(table: Table) -> None:
    names = set(table.names)
    for edge in ("at", "start", "end"):
        if f"{edge}_ms" in names and table.name not in OF_EPISODES:
            assert f"{edge}_err_ms" in names
    if {"start_err_ms", "end_err_ms"} <= names:
        assert {"duration_low_ms", "duration_high_ms"} <= names
    for bound in names:
        if bound.endswith("_low_ms"):
            assert bound.replace("_low_ms", "_high_ms") in names


def test_a_line_without_a_unit_is_refused() -> None:
    assert catalogue.columns("at_ms long ms") == (Column(name="at_ms", kind="long", unit="ms"),)
    with pytest.raises(ValueError, match="unpack"):
        catalogue.columns("at_ms long")
