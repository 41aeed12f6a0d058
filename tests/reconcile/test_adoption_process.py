"""Adoption on a real API server: an id in use is refused until nothing has it any more."""

from __future__ import annotations

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders, names, ready, reason, topic
from tests.support.commands import CommandError

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

GARBAGE_LIMIT_MS = 90_000
PARTITIONS = "partitions.strandline.dev"


def test_a_topic_id_in_use_is_adopted_once_its_topic_is_gone(operator: OperatorProcess) -> None:
    apply_orders(operator)
    topic_id = (operator.get("rtopic", "orders") or {})["metadata"]["uid"]
    before = names(operator, PARTITIONS)
    operator.kubectl("apply", "-f", "-", stdin=topic("later", topicId=topic_id))
    operator.wait_for("the refusal", lambda: reason(operator, "later") == "TopicIdInUse")
    sentence = f"ReplicatedTopic orders has the topic id {topic_id} already"
    assert ready(operator, "later")["message"] == sentence
    assert names(operator, PARTITIONS) == before
    events = [event["reason"] for event in operator.list("events")]
    assert events.count("TopicIdInUse") == 1

    operator.kubectl("delete", "rtopic", "orders")
    operator.wait_for(
        "the adoption", lambda: reason(operator, "later") == "WaitingForBrokers", GARBAGE_LIMIT_MS
    )
    found = operator.list(PARTITIONS)
    assert [item["metadata"]["name"] for item in found] == ["later-0", "later-1", "later-2"]
    assert {item["spec"]["topicId"] for item in found} == {topic_id}
    assert all(item["spec"]["recover"] for item in found)
    assert (operator.get("rtopic", "later") or {})["status"]["topicId"] == topic_id


def test_a_topic_id_is_given_once_and_never_later(operator: OperatorProcess) -> None:
    apply_orders(operator)
    patch = '{"spec":{"topicId":"01234567-89ab-cdef-0123-456789abcdef"}}'
    with pytest.raises(CommandError, match=r"spec\.topicId cannot be changed, added or removed"):
        operator.kubectl("patch", "rtopic", "orders", "--type=merge", "-p", patch)
    with pytest.raises(CommandError, match=r"spec\.topicId"):
        operator.kubectl("apply", "-f", "-", stdin=topic("later", topicId="orders"))
