"""What `strandline status` shows of clusters with an external listener, and of brokers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from strandline_cli.status import broker_table, last_run, outside_row
from strandline_cli.volumes import GIB, VOLUME_COLUMNS, VolumeSeen
from tests.chart.analysis_cases import ANALYSIS_STATUS


def test_addresses_outside_are_listed() -> None:
    bare = {"metadata": {"name": "orders"}, "spec": {"externalListener": {"type": "NodePort"}}}
    assert outside_row(bare) == ("orders", "none yet", "not looked at yet")
    conditions = [
        {"type": "Ready", "reason": "AllBrokersReady"},
        {"type": "ExternalListener", "reason": "AllBrokersAdvertised"},
    ]
    servers = {"bootstrapServers": ["192.0.2.1:30092", "192.0.2.2:30092"]}
    seen = {**bare, "status": {"conditions": conditions, "externalListener": servers}}
    addresses = "192.0.2.1:30092,192.0.2.2:30092"
    assert outside_row(seen) == ("orders", addresses, "AllBrokersAdvertised")


def broker(number: int, **spec: str) -> dict[str, Any]:
    return {"metadata": {"name": f"demo-{number}"}, "spec": {"brokerId": number, **spec}}


def test_brokers_are_shown_with_their_racks_once_one_has_one() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    volume = VolumeSeen(
        total_bytes=2 * GIB, free_bytes=GIB, is_full=False, fills_in_seconds=float("inf")
    )
    volumes = {"demo-0": volume, "demo-1": None}
    shown = ("2.0 GiB", "50%", "not at the present rate")
    without = broker_table([broker(0), broker(1)], volumes, now)
    assert without == (
        VOLUME_COLUMNS,
        [("demo-0", *shown), ("demo-1", "not reached", "", "")],
    )
    columns, rows = broker_table([broker(0, rack="zone-b"), broker(1)], volumes, now)
    assert columns == ("BROKER", "RACK", *VOLUME_COLUMNS[1:])
    assert rows == [("demo-0", "zone-b", *shown), ("demo-1", "-", "not reached", "", "")]


def test_the_last_run_of_the_analysis_is_one_line() -> None:
    assert last_run({"metadata": {"name": "demo"}, "spec": {}}) == []
    (line,) = last_run({"status": ANALYSIS_STATUS})
    assert line == (
        "1 incident from 2026-11-25T14:00:00Z to 2026-11-25T15:00:00Z, 99% of it known; "
        "the widest: broker 1 is at the root"
    )
    quiet = {**ANALYSIS_STATUS["analysis"], "incidents": 0, "topIncidents": []}
    (line,) = last_run({"status": {"analysis": quiet}})
    assert line.startswith("0 incidents")
    assert line.endswith("known")
