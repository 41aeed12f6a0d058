"""What a broker reports to the controller about its replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller_session.hosting import hosted_by, leads_any
from strandline.core.views import RoleName
from strandline.model import NO_EPOCH

from .setups import OTHER_TP, FixedReplicas, view


def test_each_replica_is_reported_with_the_epoch_of_its_last_record() -> None:
    first, second = hosted_by(FixedReplicas((view(), replace(view(OTHER_TP), epochs=()))))
    assert first.last_epoch == 3
    assert second.last_epoch == NO_EPOCH
    assert (first.leader_epoch, first.partition_epoch, first.log_end_offset) == (4, 7, 99)


@pytest.mark.parametrize(
    ("roles", "leads"),
    [
        ([], False),
        ([RoleName.FOLLOWER], False),
        ([RoleName.FOLLOWER, RoleName.LEADER], True),
    ],
)
def test_one_leader_is_enough_to_lead(roles: list[RoleName], leads: bool) -> None:
    assert leads_any(FixedReplicas(tuple(view(role=role) for role in roles))) is leads
