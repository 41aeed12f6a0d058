"""Topics deleted and created again under the same name, and Partitions deleted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.errors import ConfigError
from strandline_cli.kubectl import Kubernetes
from strandline_cli.recover import recover
from tests.support import strandline_objects as objects
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.commands import programs
from tests.support.eventually import eventually
from tests.support.load import scan_log

GARBAGE_LIMIT_MS = 90_000
"""The garbage collector learns of a new kind at a sync each 30 s, and may then have to work."""

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


def folders(group: BrokerGroup, topic_id: str) -> list[Path]:
    found = [group.log_folder(broker, topic_id) for broker in range(3)]
    return [folder for folder in found if folder.exists()]


def wait_no_partition(group: BrokerGroup, topic: str) -> None:
    def gone() -> bool:
        listed = group.control_plane.kubectl("get", "partitions", "-n", group.namespace)
        assert f"{topic}-0" not in listed
        return True

    eventually(gone, GARBAGE_LIMIT_MS, "the garbage collector")


def written(group: BrokerGroup, topic: str, count: int) -> SentRecords:
    sent = SentRecords(producer_of(group.bootstrap()), topic)
    sent.send(count)
    sent.settle()
    return sent


def test_a_topic_created_again_is_empty_and_the_old_data_is_gone(group: BrokerGroup) -> None:
    old = group.create_topic("again")
    group.wait_full_isr("again")
    written(group, "again", 50)
    assert len(folders(group, old)) == 3
    group.control_plane.kubectl("delete", "replicatedtopic", "again", "-n", group.namespace)
    wait_no_partition(group, "again")
    eventually(lambda: not folders(group, old), FAULT_LIMIT_MS, "folders of the old topic gone")

    new = group.create_topic("again")
    assert new != old
    group.wait_full_isr("again")
    sent = written(group, "again", 20)
    assert sorted(sent.offsets.values()) == list(range(20))
    assert read_all(group.bootstrap(), "again", 20) == sent.offsets
    assert not folders(group, old)


def test_a_broker_that_was_down_during_a_deletion_deletes_when_it_is_back(
    group: BrokerGroup,
) -> None:
    old = group.create_topic("slept")
    group.wait_full_isr("slept")
    written(group, "slept", 10)
    sleeper = next(broker for broker in range(3) if broker != group.controller())
    group.brokers[sleeper].kill()
    group.control_plane.kubectl("delete", "replicatedtopic", "slept", "-n", group.namespace)
    wait_no_partition(group, "slept")
    left = [group.log_folder(sleeper, old)]
    eventually(lambda: folders(group, old) == left, FAULT_LIMIT_MS, "the others' folders gone")
    group.start()
    eventually(lambda: not folders(group, old), FAULT_LIMIT_MS, "the sleeper's folder gone")


def test_a_deleted_topic_comes_back_from_the_trash_with_every_record(group: BrokerGroup) -> None:
    topic_id = group.create_topic("back")
    group.wait_full_isr("back")
    sent = written(group, "back", 40)
    group.control_plane.kubectl("delete", "replicatedtopic", "back", "-n", group.namespace)
    wait_no_partition(group, "back")
    eventually(lambda: not folders(group, topic_id), FAULT_LIMIT_MS, "logs in the trash")

    def told() -> bool:
        status = group.get("brokerclusters", "demo")["status"]
        assert topic_id in [each["topicId"] for each in status["deletedTopics"]]
        strays = {each["topicId"]: each for each in status["strays"]}
        assert topic_id in strays, status
        stray = strays[topic_id]
        assert stray["inTrash"], stray
        return bool(stray["replicas"] == [{"partition": 0, "brokers": [0, 1, 2]}])

    eventually(told, FAULT_LIMIT_MS, "the stray in status")
    group.create_topic("back", topicId=topic_id)
    group.wait_full_isr("back")
    assert read_all(group.bootstrap(), "back", 40) == sent.offsets
    sent.send(10)
    sent.settle()
    assert read_all(group.bootstrap(), "back", 50) == sent.offsets


@pytest.mark.parametrize("recover", [False, True])
def test_a_partition_object_lost_by_hand_deletes_nothing_and_is_not_taken_for_new(
    group: BrokerGroup, recover: bool
) -> None:
    topic = f"lost-{recover}".lower()
    topic_id = group.create_topic(topic)
    group.wait_full_isr(topic)
    sent = written(group, topic, 30)
    away = next(broker for broker in range(3) if broker != group.controller())
    group.brokers[away].kill()
    group.wait_partition(topic, "an ISR without it", lambda status: len(status["isr"]) == 2)
    sent.send(10)
    sent.settle()
    group.control_plane.kubectl("delete", "partition", f"{topic}-0", "-n", group.namespace)
    group.create_partitions(topic, topic_id, 1, recover=recover)
    status = group.wait_partition(topic, "a reason", lambda status: status["reason"] != "")
    assert (status["leader"], status["reason"]) == (-1, "StateLost")
    assert len(folders(group, topic_id)) == 3
    for broker, folder in enumerate(folders(group, topic_id)):
        if broker != away:
            found = {record.value.encode(): record.offset for record in scan_log(folder, broker, 0)}
            assert found == sent.offsets
    group.start()
    group.wait_full_isr(topic)
    sent.send(10)
    sent.settle()
    assert read_all(group.bootstrap(), topic, 50) == sent.offsets


def test_a_second_object_of_a_partition_has_no_effect_whatever_its_status(
    group: BrokerGroup,
) -> None:
    topic_id = group.create_topic("twice")
    group.wait_full_isr("twice")
    sent = written(group, "twice", 30)
    status = group.partition("twice")
    follower = next(broker for broker in status["replicas"] if broker != status["leader"])
    copy = objects.partition(group.namespace, topic_id=topic_id, topic_name="copy", number=0)
    group.control_plane.apply([copy])
    status.update(leader=follower, leaderEpoch=99, partitionEpoch=99, isr=[follower])
    status["isrBrokerEpochs"] = status["isrBrokerEpochs"][:1]
    objects.patch_status(group.control_plane, group.namespace, "partitions/copy-0", status)
    controller = group.brokers[group.controller()]
    eventually(
        lambda: controller.last_line("partition object without effect"), FAULT_LIMIT_MS, "a line"
    )
    group.brokers[group.wait_leader("twice")].kill()
    group.wait_partition("twice", "an ISR without it", lambda status: len(status["isr"]) == 2)
    sent.send(10)
    sent.settle()
    assert read_all(group.bootstrap(), "twice", 40) == sent.offsets
    group.control_plane.kubectl("delete", "partition", "copy-0", "-n", group.namespace)
    group.start()
    group.wait_full_isr("twice")
    assert group.partition("twice")["leaderEpoch"] < 10


def test_a_lost_partition_goes_on_without_a_broker_that_a_person_gives_up(
    group: BrokerGroup,
) -> None:
    topic_id = group.create_topic("given-up")
    group.wait_full_isr("given-up")
    sent = written(group, "given-up", 30)
    gone = next(broker for broker in range(3) if broker != group.controller())
    group.brokers[gone].kill()
    group.wait_partition("given-up", "an ISR without it", lambda status: len(status["isr"]) == 2)
    control_plane = group.control_plane
    kubernetes = Kubernetes(control_plane.kubeconfig, group.namespace, programs())
    with pytest.raises(ConfigError, match="is not StateLost"):
        recover(kubernetes, "given-up-0", [gone])
    control_plane.kubectl("delete", "partition", "given-up-0", "-n", group.namespace)
    group.create_partitions("given-up", topic_id, 1, recover=True)
    group.wait_partition("given-up", "a reason", lambda status: status["reason"] == "StateLost")
    for wrong in ([7], [0, 1, 2]):
        with pytest.raises(
            ConfigError, match=r"some of the brokers \[0, 1, 2\], and not all of the replicas"
        ):
            recover(kubernetes, "given-up-0", wrong)
    said = recover(kubernetes, "given-up-0", [gone])
    assert f"records that only brokers [{gone}] had are lost" in said
    status = group.wait_partition("given-up", "a leader", lambda status: status["leader"] >= 0)
    assert status["recovery"] == "Unclean"
    assert read_all(group.bootstrap(), "given-up", 30) == sent.offsets
    group.start()
    group.wait_full_isr("given-up")
