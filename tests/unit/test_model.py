"""The rule of `covers`: which broker epochs of an ISR entry a start stands for."""

from __future__ import annotations

import pytest

from strandline.model import BrokerEpoch, BrokerId, IsrEntry, covers


@pytest.mark.parametrize(
    ("entry_epoch", "covered"), [(1, False), (2, True), (3, True), (5, True), (6, False)]
)
def test_entry_is_in_sync_from_clean_since_to_the_present_epoch(
    entry_epoch: int, *, covered: bool
) -> None:
    entry = IsrEntry(broker_id=BrokerId(0), broker_epoch=BrokerEpoch(entry_epoch))
    found = covers(entry, clean_since_epoch=BrokerEpoch(2), broker_epoch=BrokerEpoch(5))
    assert found is covered
