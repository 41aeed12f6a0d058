"""What was accepted for a log goes to the trash with it, and may be missing there."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.core.effects import PersistedPartition
from strandline.log.partition_folder import ACCEPTED_FILE, leave_accepted, left_accepted
from strandline.model import (
    NO_TERM,
    BrokerEpoch,
    BrokerId,
    IsrEntry,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
)

TERM = LeaderTerm(leader_epoch=LeaderEpoch(6), led_by=BrokerId(2), led_as=BrokerEpoch(4))


@pytest.mark.parametrize("term", [TERM, NO_TERM])
def test_epochs_and_leadership_are_found_again_and_the_isr_is_not(
    tmp_path: Path, term: LeaderTerm
) -> None:
    accepted = PersistedPartition(
        topic_name="orders",
        leader_epoch=LeaderEpoch(7),
        partition_epoch=PartitionEpoch(9),
        isr=(IsrEntry(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(4)),),
        term=term,
    )
    leave_accepted(tmp_path, accepted)
    found = left_accepted(tmp_path, topic_name="orders")
    assert found is not None
    assert (found.leader_epoch, found.partition_epoch, found.term) == (7, 9, term)
    assert (found.topic_name, found.isr) == ("orders", ())


@pytest.mark.parametrize(
    "left",
    [
        None,
        b"",
        b"7",
        b"1 2 3 4 x\n",
        b"1 2 3 4 5",
        b"1 2 3 4 5\n6",
        b"1 2147483648 3 4 5\n",
        b"1 2 3 4 5\n" * 20,
    ],
)
def test_what_a_crash_left_of_it_counts_as_nothing(tmp_path: Path, left: bytes | None) -> None:
    if left is not None:
        (tmp_path / ACCEPTED_FILE).write_bytes(left)
    assert left_accepted(tmp_path, topic_name="orders") is None
