"""The invariants, judged over values and a stand-in for a replica, without any process."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from strandline.core.notices import BecameFollower, BecameLeader, HighWatermarkAdvanced
from strandline.core.views import PartitionView
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
)
from strandline_simulation.disk import RecordLog, SimulatedDisk, new_batch
from strandline_simulation.invariants import Invariant, InvariantBroken, Invariants
from strandline_simulation.store import TOPIC, SimulatedStore
from tests.simulation.directed import JOIN_BELOW_EPOCH_START

TP = TopicPartition(topic_id=TOPIC, partition=0)
ENTRIES = tuple(
    IsrEntry(broker_id=BrokerId(number), broker_epoch=BrokerEpoch(1)) for number in (1, 2)
)
STATE = PartitionState(
    replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(0),
    partition_epoch=PartitionEpoch(0),
    isr=ENTRIES,
    min_insync_replicas=2,
    controller_epoch=ControllerEpoch(1),
)
FORMER = (IsrEntry(broker_id=BrokerId(3), broker_epoch=BrokerEpoch(1)),)


@dataclass(frozen=True)
class Pictured:
    """A replica without a view, because the invariants of this file look at disks alone."""

    broker_id: BrokerId = BrokerId(1)
    incarnation: str = "pod-1.1"
    alive: bool = True

    def view(self, tp: TopicPartition) -> PartitionView | None:
        del tp
        return None


def became_leader(epoch: LeaderEpoch) -> BecameLeader:
    return BecameLeader(tp=TP, topic_name="topic", leader_epoch=epoch, start_offset=0, isr=ENTRIES)


class Lab:
    """Broker 1 leads, brokers 1 and 2 have three acknowledged records, broker 3 has none.

    Or other records, of which other logs are left, and perhaps not the process that led.
    """

    def __init__(
        self,
        records: tuple[int, ...] = (7, 8, 9),
        logs: tuple[int, ...] = (1, 2),
        *,
        alive: bool = True,
    ) -> None:
        store = SimulatedStore(JOIN_BELOW_EPOCH_START)
        self.before = store.partitions["topic-0"]
        self.disks = {broker_id: SimulatedDisk(log_dir_id="x") for broker_id in store.brokers}
        self.invariants = Invariants(store, self.disks)
        for broker_id in (1, 2):
            log = self.disks[BrokerId(broker_id)].logs[TP] = RecordLog()
            log.append(new_batch(0, LeaderEpoch(0), records))
        leader = Pictured(alive=alive)
        self.invariants.on_notice(leader, became_leader(LeaderEpoch(0)))
        self.invariants.on_notice(leader, HighWatermarkAdvanced(tp=TP, high_watermark=len(records)))
        self.invariants.on_acknowledged(leader, TP, 0, records)
        for broker_id in {1, 2} - {*logs}:
            del self.disks[BrokerId(broker_id)].logs[TP]

    def lose(self, broker_id: int) -> None:
        self.disks[BrokerId(broker_id)].wipe("y")
        self.invariants.on_data_lost(BrokerId(broker_id), wiped=True)

    def elect(self, leader: int) -> None:
        state = replace(STATE, leader=BrokerId(leader), leader_epoch=LeaderEpoch(1))
        self.invariants.on_status_written(BrokerId(0), replace(self.before, state=None), state)


def broken_by(lab: Lab) -> str:
    """Return which invariant an election of broker 2 breaks."""
    with pytest.raises(InvariantBroken) as raised:
        lab.elect(2)
    return raised.value.invariant


def test_records_survive_while_some_disk_has_them() -> None:
    lab = Lab()
    lab.lose(1)
    with pytest.raises(InvariantBroken, match="offset=0") as raised:
        lab.lose(2)
    assert raised.value.invariant == Invariant.ACKNOWLEDGED_SURVIVES


def test_an_election_finds_a_record_missing_on_a_disk_that_admits_no_loss() -> None:
    lab = Lab()
    lab.elect(2)
    lab.disks[BrokerId(2)].logs[TP].truncate_to(0)
    assert broken_by(lab) == Invariant.ACKNOWLEDGED_SURVIVES


def test_an_election_excuses_a_member_whose_loss_is_not_known_yet() -> None:
    lab = Lab()
    lab.disks[BrokerId(2)].meta_epoch = BrokerEpoch(1)
    lab.lose(2)
    lab.elect(1)


@pytest.mark.parametrize(
    ("state", "invariant"),
    [
        (replace(STATE, leader=BrokerId(3)), Invariant.LEADER_IN_ISR),
        (replace(STATE, replicas=(BrokerId(1), BrokerId(3))), Invariant.LEADER_IN_ISR),
        (replace(STATE, eligible_leaders=FORMER), Invariant.ELIGIBLE_UNDER_MIN_ISR),
        (STATE, Invariant.EPOCHS_NEVER_FALL),
    ],
    ids=[
        "leader outside the ISR",
        "ISR outside the replicas",
        "eligible at min ISR",
        "epoch stays",
    ],
)
def test_a_refused_write_names_what_it_would_have_broken(
    state: PartitionState, invariant: str
) -> None:
    lab = Lab()
    with pytest.raises(InvariantBroken) as raised:
        lab.invariants.on_status_refused(replace(lab.before, state=STATE), state)
    assert raised.value.invariant == invariant


def begin_anew(lab: Lab) -> None:
    """Let broker 2 lead in epoch 0, as broker 1 did of an object that is lost."""
    anew = replace(STATE, leader=BrokerId(2), isr=(ENTRIES[1],))
    lab.invariants.on_status_written(BrokerId(0), replace(lab.before, state=None), anew)
    leader = Pictured(broker_id=BrokerId(2), incarnation="pod-2.1")
    lab.invariants.on_notice(leader, became_leader(LeaderEpoch(0)))


def test_a_partition_that_left_nothing_behind_begins_with_epoch_0_again() -> None:
    begin_anew(Lab(records=(), logs=(), alive=False))


@pytest.mark.parametrize(
    "lab",
    [
        Lab(records=(), logs=(), alive=True),
        Lab(records=(), logs=(1,), alive=False),
        Lab(records=(7, 8, 9), logs=(2,), alive=False),
    ],
    ids=["process", "log", "records"],
)
def test_an_epoch_has_two_leaders_if_anything_of_the_first_is_left(lab: Lab) -> None:
    with pytest.raises(InvariantBroken) as raised:
        begin_anew(lab)
    assert raised.value.invariant == Invariant.ONE_LEADER_PER_EPOCH


def lead_again(lab: Lab) -> None:
    """Let broker 2 lead in epoch 1 after a fence, as broker 1 did before its disk was wiped."""
    first = Pictured(incarnation="pod-1.2", alive=False)
    lab.invariants.on_notice(first, became_leader(LeaderEpoch(1)))
    lab.lose(1)
    fence = replace(STATE, leader=NO_LEADER, isr=(), reason=STATE_LOST)
    elected = replace(
        STATE,
        leader=BrokerId(2),
        isr=(ENTRIES[1],),
        leader_epoch=LeaderEpoch(1),
        partition_epoch=PartitionEpoch(1),
    )
    lab.invariants.on_status_written(BrokerId(0), replace(lab.before, state=None), fence)
    lab.invariants.on_status_written(BrokerId(0), replace(lab.before, state=fence), elected)
    leader = Pictured(broker_id=BrokerId(2), incarnation="pod-2.1")
    lab.invariants.on_notice(leader, became_leader(LeaderEpoch(1)))


def test_an_epoch_that_only_a_wiped_disk_knew_may_be_led_again() -> None:
    lead_again(Lab())


def test_an_epoch_that_another_broker_knows_has_one_leader() -> None:
    lab = Lab()
    follows = BecameFollower(
        tp=TP, topic_name="topic", leader=BrokerId(1), leader_epoch=LeaderEpoch(1)
    )
    lab.disks[BrokerId(3)].create_log(TP)
    lab.invariants.on_notice(Pictured(broker_id=BrokerId(3)), follows)
    with pytest.raises(InvariantBroken) as raised:
        lead_again(lab)
    assert raised.value.invariant == Invariant.ONE_LEADER_PER_EPOCH
