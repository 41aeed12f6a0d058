"""Brokers take settings over while they run, say so in their objects, and keep them at a restart.

The tests write into the Broker objects, as the operator does.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from strandline.config.declaration import INT64_MAX
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

INTERVAL, FILL = "log.retention.check.interval.ms", "log.dir.fill.max"
TRASH = "log.trash.retention.bytes"
SEGMENT_BYTES = 16_384
SMALL = {"segmentBytes": SEGMENT_BYTES, "retentionBytes": SEGMENT_BYTES, "fileDeleteDelayMs": 0}
RECORDS = 30
VALUE = b"v" * 4_000


def want(group: BrokerGroup, broker: int, settings: dict[str, float] | None) -> None:
    """Write into a Broker object which settings the running broker shall have."""
    patch = [{"op": "add", "path": "/spec/config", "value": settings or {}}]
    group.control_plane.kubectl(
        *("patch", "-n", group.namespace, "brokers.strandline.dev", f"demo-{broker}"),
        *("--type=json", "-p", json.dumps(patch)),
    )


def told(group: BrokerGroup, broker: int) -> dict[str, Any]:
    """Return what a broker says of itself."""
    return dict(group.get("brokers.strandline.dev", f"demo-{broker}")["status"])


def wait_told(group: BrokerGroup, broker: int, *, other_than: str) -> dict[str, Any]:
    """Wait until a broker works with other settings; return what it says of itself."""

    def another() -> dict[str, Any]:
        found = told(group, broker)
        assert found["configDigest"] != other_than, found
        return found

    return eventually(another, FAULT_LIMIT_MS, "another digest")


def test_a_setting_has_its_effect_in_a_running_broker_and_its_digest_in_the_object(
    group: BrokerGroup,
) -> None:
    topic_id = group.create_topic("small", config=SMALL)
    group.wait_full_isr("small")
    sent = SentRecords(producer_of(group.bootstrap()), "small")
    for number in range(RECORDS):
        sent.send_value(b"%d-" % number + VALUE)
        sent.settle()
    leader = group.wait_leader("small")
    folder = group.log_folder(leader, topic_id)
    # By default a broker looks for old segments every five minutes.
    assert int(min(folder.glob("*.log")).stem) == 0
    before = told(group, leader)
    want(group, leader, {INTERVAL: 200})
    after = wait_told(group, leader, other_than=before["configDigest"])

    def shrunk() -> bool:
        return int(min(folder.glob("*.log")).stem) > 0

    eventually(shrunk, FAULT_LIMIT_MS, "old segments deleted")
    same = ("brokerEpoch", "incarnation")
    assert [after[field] for field in same] == [before[field] for field in same]
    assert group.brokers[leader].wait_for("settings taken")["settings"] == {INTERVAL: 200}

    want(group, leader, None)
    assert wait_told(group, leader, other_than=after["configDigest"]) == before


def test_a_bad_value_is_refused_by_name_and_range_and_the_former_one_stays(
    group: BrokerGroup,
) -> None:
    first = told(group, 1)
    want(group, 1, {FILL: 0.99})
    good = wait_told(group, 1, other_than=first["configDigest"])
    want(group, 1, {FILL: 7})
    why = "log.dir.fill.max: 7.0 is not accepted; give a fraction from 0.1 to 1.0"

    def refused() -> bool:
        return told(group, 1).get("configRefused") == why

    eventually(refused, FAULT_LIMIT_MS, "refusal in the object")
    assert told(group, 1)["configDigest"] == good["configDigest"]
    said = group.brokers[1].wait_for("settings refused, those from before stay")
    assert said["cause"] == why
    want(group, 1, None)
    assert wait_told(group, 1, other_than=good["configDigest"]) == first


def test_a_restarted_broker_begins_with_the_settings_of_its_object(group: BrokerGroup) -> None:
    first = told(group, 2)
    want(group, 2, {FILL: 0.98, TRASH: INT64_MAX})
    before = wait_told(group, 2, other_than=first["configDigest"])
    group.brokers[2].kill()
    group.start()
    after = told(group, 2)
    taken = group.brokers[2].wait_for("settings taken")["settings"]
    assert taken == {FILL: 0.98, TRASH: INT64_MAX}, "the API server rounds no number"
    assert after["brokerEpoch"] > before["brokerEpoch"]
    assert after["configDigest"] == before["configDigest"]
