"""Brokers that stop and start: cleanly, one by one or all at once, and after they lost a tail."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.log.checkpoint import HighWatermarkCheckpoint
from strandline.model import TopicId, TopicPartition
from tests.processes.conftest import MakeGroup
from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.broker_process import BrokerProgram
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.eventually import eventually
from tests.support.load import RATE, LoadProcess, acked_history, judge_settled

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

PARTITIONS = 3
CUT_BYTES = 100
CHECKPOINT_LIMIT_MS = 30_000
LONG_TERM: dict[str, object] = {
    "controller.lease.duration.seconds": 3_600,
    "controller.lease.renew.deadline.ms": 50_000,
}
"""Nobody waits in this test until such a Lease runs out."""
SOON_MS = 30_000
SHUTDOWN_PROGRESS = "controlled shutdown goes on"


def another_boot(broker: BrokerProgram) -> None:
    broker.boot(int(broker.boot_id_path.read_text().removeprefix("boot-")) + 1)


def cut_last_segment(folder: Path) -> None:
    """Cut the end off a log, as a loss of power does."""
    last = max(folder.glob("*.log"))
    with last.open("r+b") as segment:
        segment.truncate(last.stat().st_size - CUT_BYTES)


def test_brokers_stopped_one_by_one_hand_their_leaders_over(group: BrokerGroup) -> None:
    group.create_topic("rolled", partitions=PARTITIONS)
    group.wait_full_isr("rolled", PARTITIONS)
    load = LoadProcess(group, "rolled", PARTITIONS)
    for number, broker in enumerate(group.brokers):
        assert broker.stop() == 0
        assert broker.last_line("stopped") is not None
        assert broker.last_line("controller lease not released in time") is None
        assert number not in group.leaders("rolled", PARTITIONS)
        another_boot(broker)
        group.start()
        assert broker.wait_for("registered")["evidence"] == "CleanShutdown"
        group.wait_full_isr("rolled", PARTITIONS)
    load.wait_for_acks(RATE)
    verdict = load.judged()
    assert max(verdict.gaps_ms.values()) < 5_000


def test_all_brokers_stopped_at_once_end_soon_and_lose_nothing(group: BrokerGroup) -> None:
    """No broker is left to take leaders over, so a shutdown does not wait up to its bound."""
    group.create_topic("stopped", partitions=PARTITIONS)
    group.wait_full_isr("stopped", PARTITIONS)
    before = SentRecords(producer_of(group.bootstrap()), "stopped", prefix="before")
    before.send(100)
    before.settle()
    for broker in group.brokers:
        broker.terminate()
    assert [broker.exit_status() for broker in group.brokers] == [0, 0, 0]
    for broker in group.brokers:
        progress = [line for line in broker.lines() if line["message"] == SHUTDOWN_PROGRESS]
        assert len(progress) <= group.partition_count(), "a line of progress without progress"
        assert broker.last_line("controlled shutdown incomplete") is None
        another_boot(broker)
    group.start()
    for broker in group.brokers:
        assert broker.wait_for("registered")["evidence"] == "CleanShutdown"
    group.wait_full_isr("stopped", PARTITIONS)
    after = SentRecords(producer_of(group.bootstrap()), "stopped", prefix="after")
    after.send(100)
    after.settle()
    history = acked_history(before.offsets, after.offsets)
    judge_settled(group, "stopped", 1, history)


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_lease_of_a_process_that_a_later_one_replaced_is_not_waited_for(
    make_group: MakeGroup, brokers: int
) -> None:
    """All are killed and start again: no other broker may have probed the former holder."""
    group = make_group(brokers=brokers, **LONG_TERM)
    before = group.get("brokerclusters", objects.CLUSTER)["status"]["controller"]
    for broker in group.brokers:
        broker.kill()
    group.start()

    def is_taken() -> bool:
        now = group.get("brokerclusters", objects.CLUSTER)["status"]["controller"]
        return bool(now["epoch"] > before["epoch"])

    assert eventually(is_taken, SOON_MS, "a controller of the new processes")


def test_a_reboot_of_all_machines_is_clean_where_every_record_was_fsynced(
    group: BrokerGroup,
) -> None:
    # Brokers of which no earlier test has asked an append without an fsync.
    for broker in group.brokers:
        broker.kill()
    group.start()
    group.create_topic("fsynced", flush_messages=1)
    group.wait_full_isr("fsynced")
    before = SentRecords(producer_of(group.bootstrap()), "fsynced")
    before.send(100)
    before.settle()
    for broker in group.brokers:
        broker.kill()
        another_boot(broker)
    group.start()
    for broker in group.brokers:
        assert broker.wait_for("registered")["evidence"] == "Flushed"
    group.wait_full_isr("fsynced")
    # One partition that is not fsynced ends it, for the whole broker.
    group.create_topic("unsynced")
    group.wait_full_isr("unsynced")
    after = SentRecords(producer_of(group.bootstrap()), "unsynced")
    after.send(10)
    after.settle()
    judge_settled(group, "fsynced", 1, acked_history(before.offsets))
    leader = group.brokers[group.wait_leader("unsynced")]
    leader.kill()
    another_boot(leader)
    leader.start()
    assert leader.wait_for("registered")["evidence"] == "NoProof"


@pytest.mark.parametrize(
    ("checkpointed", "evidence"),
    [(True, "LogsDamaged"), (False, "NoProof")],
    ids=["noticed", "unnoticed"],
)
def test_a_follower_that_lost_its_tail_leaves_the_isr_and_fetches_it_again(
    group: BrokerGroup, checkpointed: bool, evidence: str
) -> None:
    """A high watermark on disk above the log's end proves the loss; a new boot id suggests it."""
    topic = f"cut-follower-{evidence.lower()}"
    topic_id = group.create_topic(topic)
    tp = TopicPartition(topic_id=TopicId(topic_id), partition=0)
    group.wait_full_isr(topic)
    sent = SentRecords(producer_of(group.bootstrap()), topic)
    sent.send(300)
    sent.settle()
    leader = group.wait_leader(topic)
    follower = next(broker for broker in range(3) if broker not in (leader, group.controller()))
    before = group.partition(topic)
    victim = group.brokers[follower]
    checkpoint = HighWatermarkCheckpoint(victim.data_dir)
    eventually(lambda: checkpoint.read().get(tp) == 300, CHECKPOINT_LIMIT_MS, "a checkpoint of 300")
    victim.kill()
    if not checkpointed:
        checkpoint.write({other: end for other, end in checkpoint.read().items() if other != tp})
    cut_last_segment(group.log_folder(follower, topic_id))
    another_boot(victim)
    group.start()
    line = victim.wait_for("registered")
    assert line["evidence"] == evidence
    assert line["clean_since_epoch"] == line["broker_epoch"]
    group.wait_full_isr(topic)
    after = group.partition(topic)
    assert (after["leader"], after["leaderEpoch"]) == (before["leader"], before["leaderEpoch"])
    assert after["partitionEpoch"] >= before["partitionEpoch"] + 2
    judge_settled(group, topic, 1, acked_history(sent.offsets))


def test_an_unclean_last_isr_member_leads_only_where_the_topic_allows_it(
    group: BrokerGroup,
) -> None:
    topic = "cut-last"
    topic_id = group.create_topic(topic, min_insync_replicas=1)
    group.wait_full_isr(topic)
    sent = SentRecords(producer_of(group.bootstrap()), topic)
    sent.send(100)
    sent.settle()
    leader = group.wait_leader(topic)
    for follower in {0, 1, 2} - {leader}:
        group.brokers[follower].kill()
    group.wait_partition(topic, "a last ISR member", lambda status: status["isr"] == [leader])
    sent.send(100)
    sent.settle()
    last = group.brokers[leader]
    last.kill()
    cut_last_segment(group.log_folder(leader, topic_id))
    another_boot(last)
    last.start()
    offline = group.wait_partition(
        topic, "no leader", lambda status: status["reason"] == "UncleanLastReplica"
    )
    assert (offline["leader"], offline["isr"]) == (-1, [leader])
    group.start()
    assert group.partition(topic)["leader"] == -1

    allow = objects.topic(group.namespace, topic, partitions=1, uncleanLeaderElection=True)
    group.control_plane.apply(allow)
    led = group.wait_partition(topic, "an unclean leader", lambda status: status["leader"] >= 0)
    assert (led["leader"], led["recovery"], led["reason"]) == (leader, "Unclean", "")
    assert led["leaderEpoch"] > offline["leaderEpoch"]
    group.wait_full_isr(topic)
    after = SentRecords(producer_of(group.bootstrap()), topic, prefix="after")
    after.send(50)
    after.settle()
    kept = {value: offset for value, offset in sent.offsets.items() if offset < 100}
    found = read_all(group.bootstrap(), topic, len(kept) + 50)
    assert kept.items() <= found.items()
    assert after.offsets.items() <= found.items()
