"""/metrics of real brokers: each broker exports every row of `ALL_METRICS` that it must."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from strandline import names
from strandline.names import ALL_METRICS, PARTITION_IS_LEADER, Exporter, Metric, MetricKind
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

SUFFIX = {MetricKind.COUNTER: "", MetricKind.GAUGE: "", MetricKind.HISTOGRAM: "_count"}
RISES = (
    names.PRODUCED_RECORDS_TOTAL,
    names.PRODUCED_BYTES_TOTAL,
    names.FETCHED_BYTES_TOTAL,
    names.REPLICATION_BYTES_TOTAL,
    names.REQUESTS_TOTAL,
    names.REQUEST_SECONDS,
    names.EVENT_LOOP_LAG_SECONDS,
    names.LOG_FLUSH_SECONDS,
    names.UNCLEAN_STARTS_TOTAL,
    names.CONTROLLER_EVENT_SECONDS,
    names.LEADER_ELECTIONS_TOTAL,
    names.FAILOVER_SECONDS,
    names.LEASE_RENEW_SECONDS,
    names.LEASE_TRANSITIONS_TOTAL,
    names.KUBERNETES_REQUESTS_TOTAL,
    names.KUBERNETES_REQUEST_SECONDS,
)
"""These rise with ordinary events: a flushed topic, a consumer, a machine that boots."""


def families(group: BrokerGroup, broker: int) -> dict[str, str]:
    """Return the types of all metric families that a broker shows, by full name."""
    _, text = group.brokers[broker].get("/metrics")
    found = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = family.type
    return found


def samples(group: BrokerGroup, broker: int) -> set[str]:
    _, text = group.brokers[broker].get("/metrics")
    return {s.name for family in text_string_to_metric_families(text) for s in family.samples}


def rows_of(exporter: Exporter) -> tuple[Metric, ...]:
    return tuple(metric for metric in ALL_METRICS if metric.exporter is exporter)


def missing(rows: tuple[Metric, ...], found: dict[str, str]) -> list[str]:
    return [row.name for row in rows if found.get(row.name) != row.kind.value]


def test_every_row_of_the_list_is_exported(group: BrokerGroup) -> None:
    topic = "measured"
    group.create_topic(topic)
    group.wait_full_isr(topic)
    sent = SentRecords(producer_of(group.bootstrap()), topic)
    sent.send(10)
    sent.settle()
    read_all(group.bootstrap(), topic, 10)
    leader, controller = group.wait_leader(topic), group.controller()
    lacking = {
        exporter.name: missing(rows_of(exporter), families(group, broker))
        for exporter, broker in (
            (Exporter.BROKER, leader),
            (Exporter.REPLICA, (leader + 1) % 3),
            (Exporter.LEADER, leader),
            (Exporter.CONTROLLER, controller),
        )
    }
    brokers = set(Exporter) - {Exporter.OPERATOR}
    assert lacking == {exporter.name: [] for exporter in brokers}, lacking


def test_rows_without_labels_or_of_a_partition_have_values(group: BrokerGroup) -> None:
    topic = "valued"
    group.create_topic(topic)
    group.wait_full_isr(topic)
    leader = group.wait_leader(topic)
    shown = samples(group, leader)
    unlabelled = [
        row.name + SUFFIX[row.kind]
        for row in rows_of(Exporter.BROKER)
        if not row.labels and row.name + SUFFIX[row.kind] not in shown
    ]
    assert unlabelled == []
    gauges = [
        row.name
        for exporter in (Exporter.REPLICA, Exporter.LEADER)
        for row in rows_of(exporter)
        if row.kind is MetricKind.GAUGE and row.name not in shown
    ]
    assert gauges == []
    follower = next(broker for broker in range(3) if broker != leader)
    _, text = group.brokers[follower].get("/metrics")
    line = next(
        line
        for line in text.splitlines()
        if line.startswith(PARTITION_IS_LEADER.name) and f'topic="{topic}"' in line
    )
    assert float(line.rsplit(maxsplit=1)[1]) == 0


def values_of(group: BrokerGroup, row: Metric) -> float:
    """Return the sum of all samples of a row, over all brokers."""
    texts = [broker.get("/metrics")[1] for broker in group.brokers]
    shown = (family for text in texts for family in text_string_to_metric_families(text))
    wanted = row.name + SUFFIX[row.kind]
    return sum(
        sample.value for family in shown for sample in family.samples if sample.name == wanted
    )


def test_every_counter_of_ordinary_events_rises(group: BrokerGroup) -> None:
    # A broker that is killed before it has registered for the first time may have lost nothing.
    group.create_topic("there-before")
    group.wait_full_isr("there-before")
    # The restart comes first, because a process that ends takes its counters with it.
    rebooted = group.brokers[next(broker for broker in range(3) if broker != group.controller())]
    rebooted.kill()
    rebooted.boot(2)
    group.start()
    topic = "counted"
    group.create_topic(topic, flush_messages=1)
    group.wait_full_isr(topic)
    sent = SentRecords(producer_of(group.bootstrap()), topic)
    sent.send(10)
    sent.settle()
    read_all(group.bootstrap(), topic, 10)

    def all_rose() -> bool:
        assert [row.name for row in RISES if values_of(group, row) == 0] == []
        return True

    eventually(all_rose, FAULT_LIMIT_MS, "counters that rose")
