"""Counters of ISR changes cost a scrape nothing per partition, and end with the replica."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from strandline import names
from strandline.model import TopicId, TopicPartition
from strandline.runtime.observability.isr_counters import IsrCounters
from tests.support.counted_calls import calls_of

TOPIC = 'or"ders'


def tp(partition: int) -> TopicPartition:
    return TopicPartition(topic_id=TopicId("t"), partition=partition)


def led(partitions: int) -> IsrCounters:
    changes = IsrCounters()
    for number in range(partitions):
        changes.count(tp(number), TOPIC, shrank=False, expanded=False)
    return changes


def shown(changes: IsrCounters) -> dict[tuple[str, str], float]:
    """Return the counters by name and partition."""
    families = text_string_to_metric_families("".join(changes.pieces()))
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels["topic"] for sample in samples} <= {TOPIC}
    return {(sample.name, sample.labels["partition"]): sample.value for sample in samples}


def test_each_change_is_counted_for_its_partition_alone() -> None:
    changes = led(2)
    changes.count(tp(1), TOPIC, shrank=True, expanded=False)
    changes.count(tp(1), TOPIC, shrank=True, expanded=True)
    shrinks, expands = names.ISR_SHRINKS_TOTAL.name, names.ISR_EXPANDS_TOTAL.name
    assert shown(changes) == {
        (shrinks, "0"): 0,
        (shrinks, "1"): 2,
        (expands, "0"): 0,
        (expands, "1"): 1,
    }


def test_a_replica_that_is_gone_is_shown_no_more_and_counts_from_zero_when_it_is_back() -> None:
    changes = led(2)
    changes.count(tp(0), TOPIC, shrank=True, expanded=False)
    changes.forget(tp(0))
    changes.forget(tp(7))
    assert {partition for _, partition in shown(changes)} == {"1"}
    changes.count(tp(0), TOPIC, shrank=False, expanded=False)
    assert set(shown(changes).values()) == {0}


def test_a_scrape_of_many_partitions_costs_the_calls_of_one() -> None:
    one, many = (led(each) for each in (1, 450))
    assert calls_of(lambda: list(many.pieces())) == calls_of(lambda: list(one.pieces()))
