"""The dashboard has only fields, kinds of panels and units that Grafana's published schema knows.

Grafana drops a misspelt field without a word. The reader of the schema drops it as well, so that
what it makes of the dashboard lacks the field.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins, runtime
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as schema
from grafana_foundation_sdk.models import units

from tests.support import dashboard

Json = dict[str, Any]
ROW = "row"
UNITS = {value for value in vars(units).values() if isinstance(value, str)}


@pytest.fixture(scope="module", autouse=True)
def _plugins() -> None:
    """Make the kinds of panels and queries known to the reader."""
    plugins.register_default_plugins()


def dropped(given: Any, read: Any, path: str = "") -> list[str]:
    """Return the paths of what was given and is not there any more, or otherwise."""
    if isinstance(given, dict) and isinstance(read, dict):
        return [
            each
            for key, value in given.items()
            for each in dropped(value, read.get(key), f"{path}.{key}")
        ]
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        pairs = enumerate(zip(given, read, strict=True))
        return [each for i, pair in pairs for each in dropped(*pair, f"{path}[{i}]")]
    return [] if given == read else [path]


def offences(given: Json) -> list[str]:
    """Return what Grafana's schema does not know of a dashboard."""
    read = schema.Dashboard.from_json(copy.deepcopy(given))
    found = dropped(given, json.loads(json.dumps(read, cls=JSONEncoder)))
    for panel in given["panels"]:
        kind = panel["type"]
        if kind != ROW and runtime.panelcfg_config(kind) is None:
            found.append(f"panel {kind}")
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
        if unit is not None and unit not in UNITS:
            found.append(f"unit {unit}")
    for variable in given["templating"]["list"]:
        schema.VariableType(variable["type"])
    return found


def test_the_schema_knows_all_of_the_dashboard() -> None:
    assert offences(dashboard.dashboard()) == []


def graph(given: Json) -> Json:
    found: Json = next(each for each in given["panels"] if each["type"] == "timeseries")
    return found


def in_a_query(given: Json) -> None:
    graph(given)["targets"][0]["legendFromat"] = "x"


def in_a_panel(given: Json) -> None:
    graph(given)["fieldConfigs"] = {}


def in_the_options_of_a_graph(given: Json) -> None:
    graph(given)["fieldConfig"]["defaults"]["custom"] = {"lineWidths": 1}


def in_a_variable(given: Json) -> None:
    given["templating"]["list"][1]["includeAl"] = True


def in_the_kind_of_a_panel(given: Json) -> None:
    graph(given)["type"] = "timeserie"


def in_a_unit(given: Json) -> None:
    graph(given)["fieldConfig"]["defaults"]["unit"] = "second"


@pytest.mark.parametrize(
    "misspell",
    [
        in_a_query,
        in_a_panel,
        in_the_options_of_a_graph,
        in_a_variable,
        in_the_kind_of_a_panel,
        in_a_unit,
    ],
)
def test_a_misspelt_word_is_found(misspell: Callable[[Json], None]) -> None:
    given = dashboard.dashboard()
    misspell(given)
    assert len(offences(given)) == 1


def test_a_kind_of_variable_that_is_not_there_is_refused() -> None:
    given = dashboard.dashboard()
    given["templating"]["list"][1]["type"] = "qery"
    with pytest.raises(ValueError, match="qery"):
        offences(given)
