"""What a broker reports to the controller about its replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller_session.hosting import hosted_by, leads_replicated, waits_for_rebuild
from strandline.core.effects import ReplyLeaderAndIsr
from strandline.core.views import RoleName
from strandline.errors import ErrorCode
from strandline.model import NO_EPOCH, BrokerId, EpochStart, LeaderEpoch

from .setups import OTHER_TP, TP, FixedReplicas, view


def test_each_replica_is_reported_with_the_epoch_of_its_last_record() -> None:
    first, second = hosted_by(FixedReplicas((view(), replace(view(OTHER_TP), epochs=()))))
    assert first.last_epoch == 3
    assert second.last_epoch == NO_EPOCH
    assert (first.leader_epoch, first.partition_epoch, first.log_end_offset) == (4, 7, 99)
    assert (first.term_epoch, first.led_by, first.led_as) == (3, 2, 6)


@pytest.mark.parametrize(
    ("epochs", "end", "last"),
    [("3@0 5@99", 100, 5), ("3@0 5@100", 100, 3), ("5@0", 0, NO_EPOCH), ("5@100", 100, 5)],
    ids=["written", "a leadership without records", "empty since ever", "emptied"],
)
def test_an_epoch_that_begins_at_the_end_has_no_last_record(
    epochs: str, end: int, last: int
) -> None:
    pairs = (each.split("@") for each in epochs.split())
    starts = tuple(
        EpochStart(leader_epoch=LeaderEpoch(int(epoch)), start_offset=int(offset))
        for epoch, offset in pairs
    )
    (only,) = hosted_by(FixedReplicas((replace(view(), epochs=starts, log_end_offset=end),)))
    assert only.last_epoch == last


@pytest.mark.parametrize(
    ("roles", "leads"),
    [
        ([], False),
        ([RoleName.FOLLOWER], False),
        ([RoleName.FOLLOWER, RoleName.LEADER], True),
    ],
)
def test_one_leader_is_enough_to_lead(roles: list[RoleName], leads: bool) -> None:
    assert leads_replicated(FixedReplicas(tuple(view(role=role) for role in roles))) is leads


def test_a_partition_without_other_replicas_does_not_count_as_led() -> None:
    alone = replace(view(role=RoleName.LEADER), replicas=(BrokerId(1),))
    assert not leads_replicated(FixedReplicas((alone,)))


@pytest.mark.parametrize(
    ("leader", "error", "waits"),
    [
        (0, ErrorCode.NONE, False),
        (0, ErrorCode.STALE_BROKER_EPOCH, False),
        (-1, ErrorCode.NONE, True),
        (0, ErrorCode.FENCED_LEADER_EPOCH, True),
        (0, ErrorCode.INVALID_UPDATE_VERSION, True),
        (0, ErrorCode.TOPIC_ALREADY_EXISTS, True),
    ],
)
def test_a_report_is_due_after_a_command_that_leaves_no_leader_or_is_too_old(
    leader: int, error: ErrorCode, waits: bool
) -> None:
    replicas = FixedReplicas((replace(view(), leader=BrokerId(leader)),))
    partitions = ((OTHER_TP, ErrorCode.NONE), (TP, error))
    response = ReplyLeaderAndIsr(request_id=1, error=ErrorCode.NONE, partitions=partitions)
    assert waits_for_rebuild(replicas, response) is waits
