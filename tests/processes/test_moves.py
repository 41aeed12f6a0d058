"""Partitions that move between five real brokers under load, whatever happens to the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.conftest import MakeGroup
from tests.support import strandline_objects as objects
from tests.support.api_proxy import ApiProxy, Write
from tests.support.broker_group import FAULT_LIMIT_MS, FORMED_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.load import RATE, LoadProcess, acked_history, judge_settled

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

BROKERS = 5
RECORDS_BEFORE = 5_000


def folders(group: BrokerGroup, topic_id: str, number: int = 0) -> list[int]:
    """Return the brokers that have a log of a partition, the trash left out."""
    return [n for n in range(BROKERS) if group.log_folder(n, topic_id, number).exists()]


def trashed(group: BrokerGroup, topic_id: str, number: int = 0) -> list[int]:
    """Return the brokers that have a deleted log of a partition."""
    pattern = f"trash/{topic_id}-{number}.*"
    return [n for n in range(BROKERS) if list(group.brokers[n].data_dir.glob(pattern))]


def filled(group: BrokerGroup, topic: str, replicas: list[int]) -> tuple[str, SentRecords]:
    """Create a topic of one partition with records; return its id and what was acknowledged."""
    topic_id = group.create_topic(topic, assignments=[replicas])
    group.wait_full_isr(topic)
    sent = SentRecords(producer_of(group.bootstrap()), topic, prefix="before")
    sent.send(RECORDS_BEFORE)
    sent.settle()
    return topic_id, sent


def test_a_partition_moves_under_load_and_its_old_logs_go_to_the_trash(
    make_group: MakeGroup,
) -> None:
    group = make_group(brokers=BROKERS)
    topic_id = group.create_topic("moved", assignments=[[0, 1, 2]])
    group.wait_full_isr("moved")
    before = group.partition("moved")
    load = LoadProcess(group, "moved")
    group.move("moved", 3, 4, 1)
    moved = group.wait_moved("moved", 3, 4, 1)
    assert moved["leader"] in (3, 4, 1)
    assert moved["leaderEpoch"] == before["leaderEpoch"] + 1, "clients wait once"
    eventually(lambda: folders(group, topic_id) == [1, 3, 4], FAULT_LIMIT_MS, "old logs gone")
    assert trashed(group, topic_id) == [0, 2]
    load.wait_for_acks(RATE)
    group.move("moved", 0, 3)
    group.wait_moved("moved", 0, 3)
    group.move("moved", 0, 3, 2, 4)
    group.wait_moved("moved", 0, 3, 2, 4)
    load.wait_for_acks(RATE)
    verdict = load.judged()
    assert verdict.acked >= 2 * RATE


STEPS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "begun": lambda status: "addingReplicas" in status,
    "joined": lambda status: bool({3, 4} & set(status["isr"])),
    "finished": lambda status: status["replicas"] == [3, 4],
}


@pytest.fixture
def behind_proxy(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[tuple[BrokerGroup, ApiProxy]]:
    """Provide running brokers, and the proxy through which they reach the API server."""
    proxy = ApiProxy(objects.broker_account(control_plane, namespace), tmp_path)
    proxy.start()
    group = BrokerGroup(
        tmp_path, control_plane, namespace, brokers=BROKERS, kubeconfig=proxy.kubeconfig
    )
    try:
        group.start()
        yield group, proxy
    finally:
        group.stop()
        proxy.stop()


@pytest.mark.parametrize("step", STEPS)
def test_a_move_goes_on_when_the_controller_is_killed_at_a_step(
    step: str, behind_proxy: tuple[BrokerGroup, ApiProxy]
) -> None:
    group, proxy = behind_proxy
    topic_id, before = filled(group, "taken-over", [0, 1, 2])
    after = SentRecords(producer_of(group.bootstrap()), "taken-over", prefix="after")
    killed: list[int] = []

    def kill_at_the_step(write: Write) -> None:
        """Kill the controller before it hears that its write is stored."""
        is_status = write.plural == "partitions" and write.path.endswith("/status")
        if is_status and not killed and STEPS[step](group.partition("taken-over")):
            killed.append(group.controller())
            group.brokers[killed[0]].kill()

    proxy.after = kill_at_the_step
    group.move("taken-over", 3, 4)
    eventually(lambda: killed, FAULT_LIMIT_MS, f"a write of the step {step}")
    (controller,) = killed
    after.send(100)
    group.wait_controller(other_than=controller)
    group.start()
    group.wait_moved("taken-over", 3, 4, within_ms=2 * FORMED_LIMIT_MS)
    after.settle()
    eventually(lambda: folders(group, topic_id) == [3, 4], FORMED_LIMIT_MS, "old logs gone")
    judge_settled(group, "taken-over", 1, acked_history(before.offsets, after.offsets))
    sent = {**before.offsets, **after.offsets}
    assert read_all(group.bootstrap(), "taken-over", len(sent)) == sent


def test_a_move_is_cancelled_and_a_partition_without_a_leader_does_not_move(
    make_group: MakeGroup,
) -> None:
    group = make_group(brokers=BROKERS)
    topic_id, sent = filled(group, "cancelled", [0, 1, 2])
    # A broker that is away holds the move up, so that there is something to cancel.
    group.brokers[4].kill()
    group.move("cancelled", 3, 4, 0)
    with pytest.raises(CommandError, match=r"spec\.replicas names a broker twice"):
        group.move("cancelled", 3, 3)
    status = group.partition("cancelled")
    assert status["replicas"] == [0, 1, 2], "a broker that is added must be there"
    group.move("cancelled", 3, 1, 0)
    group.wait_partition("cancelled", "begin", lambda found: 3 in found["replicas"])
    group.move("cancelled", 0, 1, 2)
    group.wait_moved("cancelled", 0, 1, 2)
    eventually(lambda: folders(group, topic_id) == [0, 1, 2], FAULT_LIMIT_MS, "no log is left")
    judge_settled(group, "cancelled", 1, acked_history(sent.offsets))


def test_a_lost_partition_that_had_moved_waits_for_the_brokers_it_moved_to(
    make_group: MakeGroup,
) -> None:
    group = make_group(brokers=BROKERS, **{"partition.audit.interval.ms": 500})
    topic_id, sent = filled(group, "lost", [0, 1, 2])
    group.move("lost", 3, 4)
    group.wait_moved("lost", 3, 4)
    away = [3, 4]
    for number in away:
        group.brokers[number].kill()
    group.control_plane.kubectl("delete", "partition", "lost-0", "-n", group.namespace)
    # The operator does not know where it was, and places it as a new one.
    group.create_partitions("lost", topic_id, 1, assignments=[[0, 1, 2]], recover=True)
    # A later partition begins meanwhile: the controller works, and has had their reports.
    group.create_topic("later", assignments=[[0, 1, 2]])
    group.wait_full_isr("later")
    assert group.partition("lost").get("leader", -1) == -1
    group.start()
    group.wait_moved("lost", 0, 1, 2, within_ms=2 * FORMED_LIMIT_MS)
    judge_settled(group, "lost", 1, acked_history(sent.offsets))


def test_a_preferred_leader_leads_again_when_a_person_asks(make_group: MakeGroup) -> None:
    group = make_group()
    group.create_topic("preferred", assignments=[[0, 1, 2]])
    group.wait_full_isr("preferred")
    load = LoadProcess(group, "preferred")
    group.brokers[0].kill()
    group.wait_leader("preferred", other_than=0)
    group.start()
    group.wait_full_isr("preferred")
    asked_in = group.partition("preferred")["leaderEpoch"]
    patch = f'{{"spec":{{"electPreferredIn":{asked_in}}}}}'
    group.control_plane.kubectl(
        *("patch", "partition", "preferred-0", "-n", group.namespace, "--type=merge", "-p", patch)
    )
    found = group.wait_partition("preferred", "first leader", lambda status: status["leader"] == 0)
    assert found["leaderEpoch"] == asked_in + 1
    load.wait_for_acks(RATE)
    load.judged()
