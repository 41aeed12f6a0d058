"""Incidents: those of drawn episodes equal both oracles'; by hand, what each kind is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from strandline_analysis import catalogue
from tests.analysis import duckdb_oracle
from tests.analysis.agreement import Row, assert_same, in_order
from tests.analysis.generated import START_MS
from tests.analysis.reference.incidents import Episode, incidents_of

pytestmark = pytest.mark.processes

EPISODES = 400
OF_PARTITIONS = ("ur", "umi", "stall", "leaderless", "flapping")
OF_BROKERS = ("down", "restart", "gap", "controller")
REPLICAS = {0: 6, 1: 6, 2: 4}
"""Replicas by broker; broker 3 is not known to have any."""


@pytest.fixture(autouse=True)
def small(planned_small: None) -> None:
    """Plan every query for few rows."""


def made(spark: Any, found: Sequence[Episode]) -> list[Row]:
    """Return the incidents that Spark makes of episodes."""
    from strandline_analysis.schema import struct
    from strandline_analysis.tables import incidents

    table = incidents.incidents_of(
        spark.createDataFrame(list(found), incidents.EPISODES),
        spark.createDataFrame(list(REPLICAS.items()), "broker int, replicas long"),
    )
    shape = struct(catalogue.INCIDENTS)
    assert [(f.name, f.dataType) for f in table.schema] == [(f.name, f.dataType) for f in shape]
    return in_order(table.toArrow().to_pylist())


def expected(found: Sequence[Episode]) -> list[Row]:
    return list(incidents_of(found, REPLICAS))


def drawn(seed: int) -> list[Episode]:
    """Return episodes of which some lie close together."""
    chance = random.Random(seed)
    # An incident of a controller alone, which chance rarely draws.
    found = [Episode("controller", START_MS - 120_000, START_MS - 119_000, None, None, 0)]
    at = START_MS
    for _ in range(EPISODES):
        at += chance.choice([0, 100, 5_000, 9_000, 11_000, 45_000, 120_000])
        end = at + chance.choice([0, 1_000, 20_000, 70_000, 300_000])
        broker = chance.choice([0, 1, 2, 3, None])
        if chance.random() < 0.6:
            kind = chance.choice(OF_PARTITIONS)
            topic, partition = chance.choice(["orders", "bills"]), chance.randrange(3)
            found.append(Episode(kind, at, end, topic, partition, broker))
        else:
            found.append(Episode(chance.choice(OF_BROKERS), at, end, None, None, broker))
    return found


@pytest.mark.parametrize("seed", [2, 3])
def test_incidents_of_drawn_episodes_equal_their_reference(spark: Any, seed: int) -> None:
    found = drawn(seed)
    rows = expected(found)
    assert {row["kind"] for row in rows} == {"broker", "controller", "network", "scrape", "unknown"}
    assert_same(rows, duckdb_oracle.incidents_of(found, REPLICAS))
    # The order of the episodes, and whether one comes twice, changes nothing.
    assert_same(made(spark, [*reversed(found), *found[::3]]), rows)


def test_by_hand_a_dead_broker_is_told_from_a_slow_one_and_a_cut(spark: Any) -> None:
    minute = 60_000

    def ur(at: int, partition: int, broker: int) -> Episode:
        return Episode("ur", START_MS + at, START_MS + at + 9_000, "orders", partition, broker)

    def of_broker(kind: str, at: int, broker: int) -> Episode:
        return Episode(kind, START_MS + at, START_MS + at + 3_000, None, None, broker)

    rows = made(
        spark,
        [
            # Broker 1 dies; its followers leave later than its target goes down.
            *(of_broker("down", 0, 1), ur(12_000, 0, 1), ur(12_000, 1, 1), ur(12_000, 1, 2)),
            # Broker 2 is slow in all that it has; broker 0 leaves one ISR.
            *(ur(5 * minute, n, 2) for n in range(4)),
            ur(5 * minute, 0, 0),
            # Two brokers are missing alike: neither is to blame.
            *(ur(10 * minute, 0, 0), ur(10 * minute, 1, 1)),
            # The controller lost its Lease, and a target was not reached.
            *(of_broker("controller", 15 * minute, 0), of_broker("down", 20 * minute, 2)),
        ],
    )
    told = [(r["kind"], r["root_broker"]) for r in sorted(rows, key=lambda r: int(r["start_ms"]))]
    assert told == [
        ("broker", 1),
        ("broker", 2),
        ("network", None),
        ("controller", None),
        ("scrape", 2),
    ]
    first = min(rows, key=lambda row: int(row["start_ms"]))
    assert [proof["kind"] for proof in first["evidence"]] == ["down", "ur", "ur", "ur"]
