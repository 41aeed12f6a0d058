"""A round of the state task takes what changed, and an orderly stop leaves a whole state file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from strandline.core.effects import DeleteReplica, PersistedPartition
from strandline.log.state_file import BrokerState
from strandline.model import TopicPartition
from strandline.runtime.storage.accepted_states import AcceptedStates
from tests.runtime.storage.opened import OTHER, TP, Opened, persist_state, with_store
from tests.support.counted_calls import calls_of

ENTRY: PersistedPartition = persist_state(1, TP).partitions[0][1]


def lines_of_state_file(folder: Path) -> int:
    return len((folder / "broker-state").read_bytes().splitlines())


def test_a_round_costs_by_what_changed() -> None:
    counts = []
    for hosted in (100, 1_000):
        partitions = {
            TopicPartition(topic_id=TP.topic_id, partition=number): ENTRY
            for number in range(hosted)
        }
        states = AcceptedStates(BrokerState(partitions=partitions))
        states.promise(persist_state(1, TP, OTHER))
        counts.append(calls_of(states.take))
    assert counts[0] == counts[1] < 100


def test_a_replica_made_again_is_forgotten_before_it_is_known() -> None:
    states = AcceptedStates(BrokerState(partitions={TP: ENTRY, OTHER: ENTRY}))
    states.forget(TP)
    states.promise(persist_state(1, TP))
    (first, gone), (second, nothing) = states.take()
    assert (list(first.removed), dict(first.changed), gone) == ([TP], {}, [TP])
    assert set(first.whole.partitions) == {OTHER}
    assert (list(second.removed), set(second.changed), nothing) == ([], {TP}, [])
    assert set(second.whole.partitions) == {TP, OTHER}
    assert not states.are_due


def test_an_orderly_stop_leaves_a_file_that_earlier_versions_read(tmp_path: Path) -> None:
    async def stopped(one: Opened) -> None:
        await one.create(TP, OTHER)
        one.perform(DeleteReplica(tp=TP))
        for token in (2, 3):
            one.perform(persist_state(token, OTHER))
            await one.until(partial(one.persisted.__contains__, token), "state on disk")
        assert lines_of_state_file(tmp_path) > 2
        await one.store.stop({OTHER: 0})
        assert set(one.directory.read_state().partitions) == {OTHER}

    with_store(tmp_path, stopped)
    assert lines_of_state_file(tmp_path) == 2
