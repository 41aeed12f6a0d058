"""A lost partition gets a leader from all of its logs, and only from logs that stand still."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.broker_entry import Awaited, BrokerEntry, Dead, InSession
from strandline.controller.events import HostedReplica
from strandline.controller.rebuild import (
    choose_rebuilt_isr,
    fenced,
    is_too_low,
    known_epochs,
    stands_behind,
)
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    Registration,
    TopicId,
    TopicPartition,
)

FENCE = PartitionState(
    replicas=(BrokerId(0), BrokerId(1), BrokerId(2)),
    leader=NO_LEADER,
    leader_epoch=LeaderEpoch(5),
    partition_epoch=PartitionEpoch(9),
    isr=(),
    min_insync_replicas=2,
    controller_epoch=ControllerEpoch(3),
    reason=STATE_LOST,
)
BEHIND = HostedReplica(
    tp=TopicPartition(topic_id=TopicId("t"), partition=0),
    topic_name="orders",
    leader=NO_LEADER,
    leader_epoch=LeaderEpoch(5),
    partition_epoch=PartitionEpoch(9),
    accepted_leader_epoch=LeaderEpoch(5),
    accepted_partition_epoch=PartitionEpoch(9),
    last_epoch=LeaderEpoch(4),
    log_start_offset=0,
    log_end_offset=10,
)
EMPTY = replace(BEHIND, last_epoch=LeaderEpoch(-1), log_end_offset=0)


def log(last_epoch: int, log_end_offset: int) -> HostedReplica:
    return replace(BEHIND, last_epoch=LeaderEpoch(last_epoch), log_end_offset=log_end_offset)


def led(found: HostedReplica, epoch: int, leader: int, led_as: int) -> HostedReplica:
    """Return a log whose broker accepted a leadership last."""
    return replace(
        found,
        term_epoch=LeaderEpoch(epoch),
        led_by=BrokerId(leader),
        led_as=BrokerEpoch(led_as),
    )


def emptied(last_epoch: int, at: int) -> HostedReplica:
    return replace(log(last_epoch, at), log_start_offset=at)


def broker(number: int) -> InSession:
    return InSession(
        registration=Registration(
            broker_id=BrokerId(number),
            broker_epoch=BrokerEpoch(7 + number),
            clean_since_epoch=BrokerEpoch(1),
            endpoints=(),
            incarnation=f"pod-{number}/0",
            log_dir_id="",
            boot_id="",
        ),
        heard_ms=0,
        session_id=number,
        reported_ms=0,
    )


BROKERS: dict[BrokerId, BrokerEntry] = {BrokerId(number): broker(number) for number in range(3)}


def chosen(
    *logs: HostedReplica | None, brokers: dict[BrokerId, BrokerEntry] = BROKERS
) -> tuple[tuple[int, int], ...]:
    hosted = {BrokerId(number): found for number, found in enumerate(logs) if found is not None}
    entries = choose_rebuilt_isr(FENCE, brokers, hosted)
    return tuple((entry.broker_id, entry.broker_epoch) for entry in entries)


@pytest.mark.parametrize(
    "logs, leader",
    [
        ((log(4, 10), log(4, 12), log(4, 11)), 1),
        ((EMPTY, EMPTY, log(0, 1)), 2),
        ((log(0, 27), emptied(0, 32), log(0, 31)), 1),
        ((emptied(4, 10), emptied(-1, 10), log(4, 12)), 2),
        ((emptied(-1, 10), emptied(4, 10), emptied(4, 10)), 1),
        ((emptied(-1, 10), emptied(-1, 4), emptied(-1, 4)), 0),
    ],
    ids=[
        "longest",
        "one log left",
        "below a log start is less",
        "one began where its leader's log did, and has no record",
        "nobody has a record, and one never had one",
        "nobody ever had a record that is left",
    ],
)
def test_of_logs_that_end_in_one_epoch_the_longest_leads_alone(
    logs: tuple[HostedReplica, ...], leader: int
) -> None:
    assert chosen(*logs) == ((leader, 7 + leader),)


DIFFERENT = (log(1, 3), log(2, 3), log(1, 3))
"""The leader of epoch 2 wrote what nobody fetched; then the leader of epoch 3 committed the three
records of epoch 1, and wrote nothing."""


def test_the_leader_of_the_last_leadership_leads_whatever_epochs_the_logs_end_in() -> None:
    logs = [led(each, 2, leader=1, led_as=8) for each in DIFFERENT]
    assert chosen(*logs) == ((1, 8),)
    # One broker that accepted it is enough: it may be another one than the leader.
    logs[0] = led(logs[0], 3, leader=2, led_as=9)
    assert chosen(*logs) == ((2, 9),)


@pytest.mark.parametrize(
    ("led_by", "led_as"),
    [(2, 0), (3, 9), (-1, -1)],
    ids=["the leader lost data since", "the leader is no replica", "no leadership is known"],
)
def test_without_that_leader_logs_that_end_in_different_epochs_are_for_a_person(
    led_by: int, led_as: int
) -> None:
    logs = [led(each, 3, leader=led_by, led_as=led_as) for each in DIFFERENT]
    assert chosen(*logs) == ()
    assert chosen(*logs[:1], EMPTY, logs[2]) == ((0, 7),)
    hosted = {BrokerId(number): each for number, each in enumerate(logs)}
    given_up = choose_rebuilt_isr(FENCE, BROKERS, hosted, without=frozenset({BrokerId(1)}))
    assert [entry.broker_id for entry in given_up] == [0]


def test_a_last_leader_whose_log_was_removed_and_made_again_does_not_lead() -> None:
    moved_away = led(log(4, 10), 4, leader=1, led_as=8)
    assert chosen(moved_away, led(EMPTY, 4, leader=1, led_as=8), EMPTY) == ((1, 8),)
    assert chosen(moved_away, EMPTY, EMPTY) == ((0, 7),)
    assert chosen(moved_away, EMPTY, log(3, 10)) == (), "it does not tell which of them has all"


def test_an_earlier_leader_does_not_lead_while_a_log_with_records_knows_no_leadership() -> None:
    # It came back from a trash, and may have been led later than the one whose broker was away.
    earlier = led(log(0, 8), 0, leader=0, led_as=7)
    assert chosen(earlier, log(2, 4), log(2, 4)) == ()
    assert chosen(earlier, log(0, 9), log(0, 4)) == ((1, 8),), "one leader wrote all ends"
    assert chosen(earlier, EMPTY, EMPTY) == ((0, 7),), "they were made again behind the fence"


def test_a_partition_without_any_record_is_new() -> None:
    assert chosen(EMPTY, EMPTY, EMPTY) == ((0, 7), (1, 8), (2, 9))


@pytest.mark.parametrize(
    ("logs", "other", "leaders"),
    [
        ((log(4, 10), EMPTY, EMPTY), log(4, 11), 0),
        ((log(4, 10), EMPTY, EMPTY), log(4, 10), 1),
        ((log(4, 10), EMPTY, EMPTY), log(3, 99), 1),
        ((EMPTY, EMPTY, EMPTY), log(0, 1), 0),
        ((EMPTY, EMPTY, EMPTY), EMPTY, 3),
    ],
    ids=["longer", "the same", "of an older epoch", "the only one", "empty"],
)
def test_a_log_of_a_broker_that_is_no_replica_is_waited_for_if_it_has_most(
    logs: tuple[HostedReplica, ...], other: HostedReplica, leaders: int
) -> None:
    assert len(chosen(*logs, other)) == leaders
    hosted = {BrokerId(number): found for number, found in enumerate((*logs, other))}
    assert choose_rebuilt_isr(FENCE, BROKERS, hosted, without=frozenset({BrokerId(3)}))


def test_a_partition_whose_only_log_is_in_a_trash_is_not_new_unless_it_is_given_up() -> None:
    hosted, other = {BrokerId(number): EMPTY for number in range(3)}, frozenset({BrokerId(3)})
    assert choose_rebuilt_isr(FENCE, BROKERS, hosted, trashed=other) == ()
    given_up = choose_rebuilt_isr(FENCE, BROKERS, hosted, trashed=other, without=other)
    assert len(given_up) == 3


def test_a_log_in_a_trash_beyond_the_fence_is_waited_for_unless_it_is_given_up() -> None:
    hosted = {BrokerId(number): log(4, 10) for number in range(3)}
    other = frozenset({BrokerId(3)})
    assert choose_rebuilt_isr(FENCE, BROKERS, hosted)
    assert choose_rebuilt_isr(FENCE, BROKERS, hosted, trashed=other) == ()
    assert choose_rebuilt_isr(FENCE, BROKERS, hosted, trashed=other, without=other)
    # One that was made anew beside an older log cannot take that back.
    assert choose_rebuilt_isr(FENCE, BROKERS, hosted, trashed=frozenset({BrokerId(0)}))


@pytest.mark.parametrize(
    "missing",
    [
        None,
        replace(BEHIND, leader=BrokerId(0)),
        replace(BEHIND, partition_epoch=PartitionEpoch(8)),
        replace(BEHIND, leader_epoch=LeaderEpoch(4)),
        replace(BEHIND, leader_epoch=LeaderEpoch(-1), partition_epoch=PartitionEpoch(-1)),
    ],
    ids=["no log", "led", "older state", "older epoch", "nothing applied"],
)
def test_one_log_that_may_still_change_keeps_it_waiting(missing: HostedReplica | None) -> None:
    assert chosen(BEHIND, BEHIND, BEHIND)
    assert not chosen(BEHIND, missing, BEHIND)


@pytest.mark.parametrize(
    "absent",
    [
        Awaited(registration=broker(2).registration, heard_ms=0),
        Dead(registration=broker(2).registration, detect_ms=0),
        replace(broker(2), shutting_down=True),
    ],
    ids=["awaited", "dead", "shuts down"],
)
def test_one_absent_broker_keeps_it_waiting(absent: BrokerEntry) -> None:
    assert not chosen(BEHIND, BEHIND, BEHIND, brokers={**BROKERS, BrokerId(2): absent})


def test_a_log_that_a_person_gave_up_is_not_waited_for() -> None:
    hosted = {BrokerId(0): log(4, 10), BrokerId(1): log(4, 12)}
    brokers = {key: found for key, found in BROKERS.items() if key != 2}
    assert not choose_rebuilt_isr(FENCE, brokers, hosted)
    entries = choose_rebuilt_isr(FENCE, brokers, hosted, without=frozenset({BrokerId(2)}))
    assert [entry.broker_id for entry in entries] == [1]
    assert not choose_rebuilt_isr(FENCE, brokers, hosted, without=frozenset({BrokerId(1)}))


@pytest.mark.parametrize(
    "change, is_low",
    [
        ({}, False),
        ({"leader": BrokerId(1)}, True),
        ({"partition_epoch": PartitionEpoch(8), "accepted_partition_epoch": 8}, False),
        ({"partition_epoch": PartitionEpoch(8)}, True),
        ({"partition_epoch": PartitionEpoch(8), "accepted_partition_epoch": 12}, True),
        ({"partition_epoch": PartitionEpoch(8), "accepted_leader_epoch": LeaderEpoch(6)}, True),
        ({"partition_epoch": PartitionEpoch(8), "last_epoch": LeaderEpoch(6)}, True),
    ],
    ids=["behind", "same epochs, led", "older", "accepted", "later", "later epoch", "later record"],
)
def test_a_fence_is_above_all_that_brokers_accepted(
    change: dict[str, object], is_low: bool
) -> None:
    replica = replace(BEHIND, **change)  # type: ignore[arg-type]  # values are of the fields
    assert is_too_low(FENCE, [replica], None) is is_low
    assert is_too_low(FENCE, [BEHIND, replica], FENCE) is is_low
    raised = fenced(FENCE, known_epochs([replica], None), controller_epoch=ControllerEpoch(4))
    assert not is_too_low(raised, [replica], None)
    assert (raised.leader, raised.isr, raised.controller_epoch) == (NO_LEADER, (), 4)
    assert not stands_behind(replica, raised)


def test_a_fence_is_above_what_this_controller_announced() -> None:
    announced = replace(FENCE, leader=BrokerId(1), partition_epoch=PartitionEpoch(30))
    assert is_too_low(FENCE, [], announced)
    raised = fenced(FENCE, known_epochs([], announced), controller_epoch=ControllerEpoch(4))
    assert (raised.leader_epoch, raised.partition_epoch) == (6, 31)
