"""The parts of the simulated world: store, disk, network, and the start of a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.core.effects import PersistState
from strandline.errors import InvariantViolation
from strandline.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
)
from strandline.simulation.disk import RecordLog, SimulatedDisk, new_batch
from strandline.simulation.fault_counts import Anomaly, FaultCounts
from strandline.simulation.network import Network
from strandline.simulation.plan import ANY_PEER, Conditions, Fault, FaultKind
from strandline.simulation.store import SimulatedStore, is_valid_status
from strandline.simulation.virtual_time import VirtualTime
from strandline.simulation.world import World
from tests.simulation.directed import JOIN_BELOW_EPOCH_START

STATE = PartitionState(
    replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(3),
    partition_epoch=PartitionEpoch(7),
    isr=tuple(
        IsrEntry(broker_id=BrokerId(number), broker_epoch=BrokerEpoch(1)) for number in (1, 2)
    ),
    min_insync_replicas=1,
    controller_epoch=ControllerEpoch(4),
)
NEXT = replace(STATE, partition_epoch=PartitionEpoch(8))


# --- the store --------------------------------------------------------------------------


def test_a_valid_next_status_is_accepted() -> None:
    assert is_valid_status(None, STATE)
    assert is_valid_status(STATE, STATE)
    assert is_valid_status(STATE, NEXT)


@pytest.mark.parametrize(
    "refused",
    [
        replace(NEXT, leader_epoch=LeaderEpoch(2)),
        replace(NEXT, controller_epoch=ControllerEpoch(3)),
        replace(STATE, min_insync_replicas=2),
        replace(NEXT, leader=BrokerId(2)),
        replace(NEXT, leader=BrokerId(3), leader_epoch=LeaderEpoch(4)),
        replace(NEXT, isr=()),
        replace(NEXT, isr=(STATE.isr[0], STATE.isr[0])),
        replace(NEXT, replicas=(BrokerId(1), BrokerId(3))),
    ],
    ids=[
        "leader epoch falls",
        "controller epoch falls",
        "partition epoch stays",
        "leader changes alone",
        "leader outside the ISR",
        "ISR without leader",
        "member twice",
        "ISR outside the replicas",
    ],
)
def test_a_status_that_breaks_a_rule_is_refused(refused: PartitionState) -> None:
    assert not is_valid_status(STATE, refused)


def test_a_write_needs_the_version_that_was_read() -> None:
    store = SimulatedStore(JOIN_BELOW_EPOCH_START)
    found = store.partitions["topic-0"]
    assert store.put_partition_status("topic-0", found.resource_version, STATE) is not None
    assert store.put_partition_status("topic-0", found.resource_version, NEXT) is None
    assert store.put_lease(replace(store.lease, resource_version="0")) is None


def test_the_controller_epoch_rises_or_stays_with_its_holder() -> None:
    store = SimulatedStore(JOIN_BELOW_EPOCH_START)
    taken = replace(store.record, holder_identity="a", controller_epoch=ControllerEpoch(1))
    assert store.put_record(taken) is not None
    assert store.put_record(replace(store.record, holder_identity="b")) is None
    assert store.put_record(replace(store.record, broker_id=NO_LEADER)) is not None


# --- the disk ---------------------------------------------------------------------------


def _log() -> RecordLog:
    log = RecordLog()
    log.append(new_batch(0, LeaderEpoch(0), (1, 2)))
    log.append(new_batch(2, LeaderEpoch(0), (3,)))
    log.append(new_batch(3, LeaderEpoch(2), (4, 5)))
    return log


def test_a_log_reads_whole_batches_and_knows_its_epochs() -> None:
    log = _log()
    batches = log.read(from_offset=2, up_to_offset=5, batches_max=9)
    assert [batch.values for batch in batches] == [(3,), (4, 5)]
    assert log.read(from_offset=2, up_to_offset=4, batches_max=9)[-1].values == (3,)
    epochs = [(start.leader_epoch, start.start_offset) for start in log.epochs]
    assert epochs == [(0, 0), (2, 3)]


def test_a_log_is_cut_between_batches_only() -> None:
    log = _log()
    log.truncate_to(3)
    assert log.values == [1, 2, 3]
    with pytest.raises(InvariantViolation, match="between batches"):
        log.truncate_to(1)


def test_an_append_must_continue_the_log() -> None:
    with pytest.raises(InvariantViolation, match="log end"):
        _log().append(new_batch(9, LeaderEpoch(2), (6,)))


def test_power_loss_keeps_what_was_flushed() -> None:
    log = _log()
    log.flushed = 3
    log.lose_tail(0)
    assert log.values == [1, 2, 3]


def test_a_lost_process_leaves_a_state_write_done_or_not() -> None:
    effect = PersistState(token=1, controller_epoch=ControllerEpoch(5), partitions=())
    for reached, epoch in ((True, 5), (False, 0)):
        disk = SimulatedDisk(log_dir_id="dir", state_writes=[effect])
        answers = iter((reached, False))
        disk.end_of_process(lambda answers=answers: next(answers))  # type: ignore[misc]  # bound
        assert (disk.controller_epoch, disk.state_writes) == (epoch, [])


# --- the network ------------------------------------------------------------------------


def test_a_cut_loses_one_direction_and_ends() -> None:
    virtual_time = VirtualTime()
    network = Network(virtual_time, seed=1, conditions=Conditions(), fault_counts=FaultCounts())
    heard: list[str] = []
    network.cut(1, 2, until_ms=10)
    assert not network.send(1, 2, "x", heard.append, "lost")
    assert network.send(2, 1, "x", heard.append, "back")
    assert network.send(1, 1, "x", heard.append, "self")
    virtual_time.at(10, lambda: network.send(1, 2, "x", heard.append, "later"))
    while virtual_time.run_next():
        pass
    assert sorted(heard) == ["back", "later", "self"]


def test_a_broker_can_be_cut_off_from_all_others() -> None:
    network = Network(VirtualTime(), seed=1, conditions=Conditions(), fault_counts=FaultCounts())
    network.cut(ANY_PEER, 2, until_ms=10)
    assert not network.send(1, 2, "x", list)
    assert network.send(2, 1, "x", list)
    assert network.round_trip_ms(2, 1) is None, "the answer would come the cut way"
    assert network.round_trip_ms(3, 1) is not None


def test_first_copies_keep_their_order_and_late_ones_do_not() -> None:
    virtual_time = VirtualTime()
    conditions = Conditions(delay_max_ms=20, duplicates=500, slow=100, slow_max_ms=200)
    fault_counts = FaultCounts()
    network = Network(virtual_time, seed=1, conditions=conditions, fault_counts=fault_counts)
    heard: list[int] = []
    for number in range(100):
        network.send(1, 2, "x", heard.append, number, repeatable=True)
    while virtual_time.run_next():
        pass
    firsts = list(dict.fromkeys(heard))
    assert sorted(firsts) == list(range(100))
    assert len(heard) == 100 + fault_counts[Anomaly.MESSAGE_REPEATED] > 100


# --- machines ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "is_another_boot"),
    [
        (FaultKind.POWER_LOSS, True),
        (FaultKind.WIPE, True),
        (FaultKind.STOP, True),
        (FaultKind.CRASH, False),
        (FaultKind.PAUSE, False),
    ],
    ids=lambda value: value.value if isinstance(value, FaultKind) else f"another boot: {value}",
)
def test_what_loses_data_boots_the_host(kind: FaultKind, is_another_boot: bool) -> None:
    fault = Fault(at_ms=1_500, kind=kind, target="2", for_ms=100)
    world = World(replace(JOIN_BELOW_EPOCH_START, faults=(fault,)))

    def boot_id_at(ms: int) -> str:
        while world.virtual_time.now_ms < ms:
            world.virtual_time.run_next()
        registration = world.store.brokers[BrokerId(2)].registration
        assert registration is not None
        return registration.boot_id

    before = boot_id_at(1_400)
    assert (boot_id_at(3_000) != before) is is_another_boot
    assert world.fault_counts[kind] == 1
