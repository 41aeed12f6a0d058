"""The simulated store: compare-and-swap, and the rules of the CRDs."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
)
from strandline_simulation.store import SimulatedStore, is_valid_status
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
UNDER_MIN_ISR = replace(
    NEXT, isr=STATE.isr[:1], eligible_leaders=STATE.isr[1:], min_insync_replicas=2
)


def test_a_valid_next_status_is_accepted() -> None:
    assert is_valid_status(None, STATE)
    assert is_valid_status(STATE, STATE)
    assert is_valid_status(STATE, NEXT)
    assert is_valid_status(STATE, UNDER_MIN_ISR)
    assert is_valid_status(STATE, replace(NEXT, controller_epoch=ControllerEpoch(1_000_004)))


def test_the_fence_of_a_lost_partition_may_leave_epochs_out() -> None:
    fence = replace(
        STATE,
        leader=NO_LEADER,
        isr=(),
        leader_epoch=LeaderEpoch(30),
        partition_epoch=PartitionEpoch(70),
        reason=STATE_LOST,
    )
    assert is_valid_status(STATE, fence)
    assert not is_valid_status(STATE, replace(fence, reason=""))
    assert not is_valid_status(fence, replace(fence, min_insync_replicas=2))


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
        replace(NEXT, partition_epoch=PartitionEpoch(9)),
        replace(NEXT, leader_epoch=LeaderEpoch(5)),
        replace(NEXT, controller_epoch=ControllerEpoch(1_000_005)),
        replace(UNDER_MIN_ISR, min_insync_replicas=1),
        replace(UNDER_MIN_ISR, eligible_leaders=STATE.isr[:1]),
        replace(UNDER_MIN_ISR, replicas=(BrokerId(1), BrokerId(3))),
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
        "partition epoch left out",
        "leader epoch left out",
        "controller epoch far above",
        "eligible leaders at min ISR",
        "member eligible",
        "eligible leader outside the replicas",
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
