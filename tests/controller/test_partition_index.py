"""The table finds by its index what a walk through all its partitions would find."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from strandline.controller.broker_entry import InSession
from strandline.controller.partition_table import PartitionTable
from strandline.model import NO_LEADER, STATE_LOST, BrokerId, StoredPartition, TopicId
from tests.support.world.values import registration, replica, state, tp

BROKERS = [0, 1, 2, 3]
TOPICS = [TopicId("uid-a"), TopicId("uid-b")]
TPS = [tp(number, topic_id) for topic_id in TOPICS for number in range(3)]

lists_of_brokers = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
states = st.builds(
    state,
    leader=st.sampled_from([NO_LEADER, *BROKERS]),
    replicas=lists_of_brokers.map(tuple),
    partition_epoch=st.integers(0, 3),
    reason=st.sampled_from(["", STATE_LOST]),
)
versions = st.builds(
    StoredPartition,
    name=st.sampled_from("abcd"),
    resource_version=st.just("1"),
    tp=st.sampled_from(TPS),
    topic_name=st.just("orders"),
    assigned=lists_of_brokers.map(lambda found: tuple(map(BrokerId, found))),
    recover=st.just(False),
    state=st.none() | states,
    generation=st.integers(0, 2),
)
events = st.lists(
    st.tuples(st.sampled_from(["adopt", "adopt", "adopt", "remove", "lose"]), versions),
    max_size=20,
)


def check(table: PartitionTable) -> None:
    """Compare each question to the table with a walk through its entries."""
    stored = [each.stored for each in table.entries.values()]
    walk = sorted(stored, key=lambda each: each.tp)
    waiting = {each.name for each in walk if each.state is None or each.state.reason == STATE_LOST}
    assert table.waiting_for_all() == [each.name for each in walk if each.name in waiting]
    led = {each.name: NO_LEADER if each.state is None else each.state.leader for each in walk}
    assert table.offline_count() == list(led.values()).count(NO_LEADER)
    for topic_id in TOPICS:
        names = [each.name for each in walk if each.tp.topic_id == topic_id]
        assert table.of_topic(topic_id) == names
    hosted = {found: replica(found) for found in TPS[::2]}
    for broker_id in map(BrokerId, BROKERS):
        assert table.led_by(broker_id) == [name for name in led if led[name] == broker_id]
        of_state = {e.name for e in walk if e.state is not None and broker_id in e.state.replicas}
        assert table.with_member(broker_id) == [
            each.name for each in walk if each.name in of_state or broker_id in each.assigned
        ]
        session = InSession(
            registration=registration(broker_id),
            heard_ms=0,
            session_id=1,
            reported_ms=0,
            hosted=hosted,
        )
        strangers = {
            each.name
            for each in walk
            if each.tp in hosted and each.state is not None and each.name not in of_state
        }
        assert table.concerned_by(session) == [
            each.name for each in walk if each.name in waiting | strangers
        ]


@given(events=events)
def test_the_index_finds_what_a_walk_finds(events: list[tuple[str, StoredPartition]]) -> None:
    table = PartitionTable()
    for what, version in events:
        entry = table.entries.get(version.name)
        known = table.entry_of(version.tp)
        if what == "remove":
            table.remove(version.name)
        elif what == "lose" and entry is not None:
            entry.adopt_without_status(replace(entry.stored, state=None), 0)
        elif what == "adopt" and (known is None or known is entry):
            table.adopt(version, 0)  # of two objects of a partition one counts, and has an entry
        check(table)
