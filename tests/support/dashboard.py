"""The dashboard's queries, with its variables filled in as Grafana fills them in.

Source:  Grafana's documentation of the Prometheus data source, "Using $__rate_interval".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.support.strandline_objects import CHART

PANEL_PIXELS = 800
"""Grafana asks for about one point for each pixel of a panel."""
WORD = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query, and the panel or variable that asks it."""

    asked_by: str
    expression: str
    legend: str = ""


def dashboard() -> dict[str, Any]:
    """Return the chart's dashboard."""
    found: dict[str, Any] = json.loads((CHART / "dashboards" / "strandline.json").read_text())
    return found


def panel_queries() -> list[Query]:
    """Return the queries of all panels."""
    return [
        Query(
            asked_by=panel["title"],
            expression=target["expr"],
            legend=target["legendFormat"],
        )
        for panel in dashboard()["panels"]
        for target in panel.get("targets", [])
    ]


def variable_queries() -> list[Query]:
    """Return the series that the variables take their values from."""
    return [
        Query(
            asked_by=variable["name"],
            expression=re.sub(r"^label_values\((.*), \w+\)$", r"\1", variable["query"]["query"]),
        )
        for variable in dashboard()["templating"]["list"]
        if variable["type"] == "query"
    ]


def rate_interval_seconds(*, scrape_seconds: float, range_seconds: float) -> float:
    """Return $__rate_interval: max($__interval + scrape interval, 4 * scrape interval)."""
    interval = max(range_seconds / PANEL_PIXELS, scrape_seconds)
    return max(interval + scrape_seconds, 4 * scrape_seconds)


def filled_in(
    expression: str, *, namespace: str, cluster: str, scrape_seconds: float, range_seconds: float
) -> str:
    """Return a query as Grafana sends it, with all topics chosen.

    Raises:  KeyError if it has another variable
    """
    rate = rate_interval_seconds(scrape_seconds=scrape_seconds, range_seconds=range_seconds)
    values = {
        "namespace": namespace,
        "cluster": cluster,
        "topic": ".*",
        "__rate_interval": f"{round(rate * 1000)}ms",
    }
    return WORD.sub(lambda word: values[word[1]], expression)
