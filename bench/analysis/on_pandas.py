"""What people write without such an analysis: requests for the raw samples as JSON, and pandas.

It finds when each replica was in the ISR of the leader with the highest epoch, without errors of
edges and without reasons.
"""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import requests

from .asked import METRIC_NAMES, Asked, Found, Work

LIMIT_SECONDS: Final = 600
SCRAPE: Final = ["pod", "topic", "partition", "ts"]
REPLICA: Final = ["topic", "partition", "replica"]


def prometheus(asked: Asked) -> Work:
    """Read from Prometheus, with a request for each of two metrics."""

    def work() -> Found:
        members, epochs = (_samples(metric, asked) for metric in METRIC_NAMES[:2])
        told = members.merge(epochs[[*SCRAPE, "value"]], on=SCRAPE, suffixes=("", "_epoch"))
        told = told.sort_values([*REPLICA, "ts", "value_epoch"])
        latest = told.drop_duplicates([*REPLICA, "ts"], keep="last")
        states = latest[[*REPLICA, "value"]]
        run = (states != states.shift()).any(axis=1).cumsum().rename("run")
        intervals = latest.groupby([*REPLICA, "value", run])["ts"].agg(["min", "max"])
        rows = intervals.reset_index().itertuples(index=False, name=None)
        return list(rows), len(members) + len(epochs)

    return work


def _samples(metric: str, asked: Asked) -> Any:
    seconds = (asked.end_ms - asked.start_ms) // 1000
    query = {"query": f"{metric}[{seconds}s]", "time": str((asked.end_ms - 1) / 1000)}
    url = f"{asked.url}/api/v1/query"
    found = requests.get(url, query, timeout=LIMIT_SECONDS).json()["data"]["result"]
    rows = [
        {**series["metric"], "ts": at, "value": float(value)}
        for series in found
        for at, value in series["values"]
    ]
    return pd.DataFrame(rows)
