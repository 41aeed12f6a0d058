"""Dicts to values and back: every field survives, and incomplete objects are refused."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import ObjectMalformed
from strandline.kube import objects
from strandline.model import (
    NO_LEADER,
    AppliedConfig,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerRecord,
    Endpoint,
    IsrEntry,
    LeaderEpoch,
    LeaseRecord,
    PartitionEpoch,
    PartitionState,
    Recovery,
    Registration,
)

NOW = "2026-01-02T03:04:05.000006Z"
METADATA = {"name": "orders-0", "resourceVersion": "12", "uid": "uid-1"}

epochs = st.integers(0, 1 << 53)
words = st.text("abcXYZ-./ 0", max_size=12)
broker_ids = st.lists(st.integers(0, 9_999).map(BrokerId), max_size=5, unique=True)


@st.composite
def partition_states(draw: st.DrawFn) -> PartitionState:
    isr = tuple(
        IsrEntry(broker_id=broker_id, broker_epoch=BrokerEpoch(draw(epochs)))
        for broker_id in draw(broker_ids)
    )
    eligible = tuple(
        IsrEntry(broker_id=broker_id, broker_epoch=BrokerEpoch(draw(epochs)))
        for broker_id in draw(broker_ids)
        if broker_id not in {entry.broker_id for entry in isr}
    )
    leaders = [NO_LEADER, *(entry.broker_id for entry in isr)]
    replicas = tuple(draw(broker_ids))
    moving = len(replicas) and draw(st.integers(0, len(replicas) - 1))
    return PartitionState(
        replicas=replicas,
        adding_replicas=replicas[:moving],
        removing_replicas=replicas[len(replicas) - moving :],
        leader=draw(st.sampled_from(leaders)),
        leader_epoch=LeaderEpoch(draw(epochs)),
        partition_epoch=PartitionEpoch(draw(epochs)),
        isr=isr,
        min_insync_replicas=draw(st.integers(len(isr) + 1 if eligible else 1, 9)),
        controller_epoch=ControllerEpoch(draw(epochs)),
        recovery=draw(st.sampled_from(Recovery)),
        reason=draw(words),
        eligible_leaders=eligible,
    )


@st.composite
def registrations(draw: st.DrawFn) -> Registration:
    clean_since = draw(st.integers(1, 1 << 40))
    endpoints = st.builds(
        Endpoint,
        listener=st.sampled_from(["GRPC", "INTERNAL", "EXTERNAL"]),
        host=st.just("10.0.0.1"),
        port=st.integers(1, 65_535),
    )
    return Registration(
        broker_id=BrokerId(draw(st.integers(0, 9_999))),
        broker_epoch=BrokerEpoch(clean_since + draw(st.integers(0, 9))),
        clean_since_epoch=BrokerEpoch(clean_since),
        volume_full=draw(st.booleans()),
        config_digest=draw(words),
        config_refused=draw(words),
        reading_logs=draw(words),
        incarnation="pod/" + draw(words),
        endpoints=tuple(draw(st.lists(endpoints, max_size=3))),
        log_dir_id="directory",
        boot_id=draw(words),
        software_version=draw(words),
        protocol_version=draw(st.integers(1, 9)),
    )


def partition(status: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = {
        "topicId": "uid-t",
        "topicName": "orders",
        "partition": 0,
        "replicas": [0, 1, 2],
        "recover": True,
    }
    return {"metadata": METADATA, "spec": spec} | ({} if status is None else {"status": status})


STATUS = {
    "replicas": [0, 1, 2],
    "leader": 0,
    "leaderEpoch": 3,
    "partitionEpoch": 5,
    "isr": [1, 0],
    "isrBrokerEpochs": [9, 4],
    "elr": [2, 3],
    "elrBrokerEpochs": [8, 8],
    "minInsyncReplicas": 3,
    "controllerEpoch": 1,
    "recovery": "Clean",
    "reason": "",
    "changedAt": NOW,
}


@given(state=partition_states())
def test_a_partition_state_comes_back_as_it_was_written(state: PartitionState) -> None:
    stored = objects.partition_from_object(
        partition(objects.partition_status(state, changed_at=NOW))
    )
    assert stored.state == state


def test_a_partition_without_status_has_no_state() -> None:
    stored = objects.partition_from_object(partition())
    assert (stored.name, stored.resource_version, stored.state) == ("orders-0", "12", None)
    assert stored.assigned == (0, 1, 2)
    assert stored.recover
    assert objects.partition_from_object(partition({})).state is None
    assert objects.partition_from_object(partition(STATUS)).state is not None


def test_a_partition_status_of_an_earlier_version_has_no_eligible_leaders() -> None:
    earlier = {key: value for key, value in STATUS.items() if not key.startswith("elr")}
    state = objects.partition_from_object(partition(earlier)).state
    assert state is not None
    assert (state.isr_ids, state.eligible_leaders) == ((1, 0), ())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[(field, None) for field in STATUS if field not in {"elr", "reason", "changedAt"}],
        ("leaderEpoch", "3"),
        ("leaderEpoch", True),
        ("leaderEpoch", -1),
        ("leaderEpoch", 3.0),
        ("leader", 2),
        ("leader", -2),
        ("isr", [0, 0]),
        ("isr", "01"),
        ("isr", [0, "1"]),
        ("isr", []),
        ("isrBrokerEpochs", [9]),
        ("isrBrokerEpochs", [9, -4]),
        ("elr", [2, 2]),
        ("elr", [0, 3]),
        ("elr", [2]),
        ("elrBrokerEpochs", [1]),
        ("minInsyncReplicas", 2),
        ("replicas", [0, 0]),
        ("minInsyncReplicas", 0),
        ("recovery", "Dirty"),
        ("reason", 3),
    ],
)
def test_a_partition_status_that_breaks_its_rules_is_refused(field: str, value: object) -> None:
    with pytest.raises(ObjectMalformed, match=r"Partition orders-0\.status\."):
        objects.partition_from_object(partition({**STATUS, field: value}))


@pytest.mark.parametrize("field", ["topicId", "topicName", "partition", "replicas"])
def test_a_partition_without_a_field_of_its_spec_is_refused(field: str) -> None:
    broken = copy.deepcopy(partition(STATUS))
    del broken["spec"][field]
    with pytest.raises(ObjectMalformed, match=rf"Partition orders-0\.spec\.{field}"):
        objects.partition_from_object(broken)


@pytest.mark.parametrize("broken", [{}, {"metadata": None}, {"metadata": METADATA, "spec": []}])
def test_a_dict_that_is_no_object_is_refused(broken: dict[str, Any]) -> None:
    for read in (
        objects.partition_from_object,
        objects.broker_from_object,
        objects.topic_from_object,
    ):
        with pytest.raises(ObjectMalformed):
            read(broken)


@given(registration=registrations())
def test_a_registration_comes_back_as_it_was_written(registration: Registration) -> None:
    stored = objects.broker_from_object(
        {
            "metadata": METADATA,
            "spec": {"brokerId": registration.broker_id},
            "status": objects.broker_status(registration),
        }
    )
    assert stored.registration == registration


@given(registration=registrations())
def test_the_operator_says_in_the_spec_where_a_broker_is_and_the_broker_says_nothing(
    registration: Registration,
) -> None:
    placed = replace(registration, rack="zone-a", is_removed=True)
    status = objects.broker_status(placed)
    assert status == objects.broker_status(registration)
    spec = {"brokerId": registration.broker_id, "rack": "zone-a", "removed": True}
    stored = objects.broker_from_object(
        {"metadata": METADATA, "spec": spec, "status": {**status, "rack": "of another version"}}
    )
    assert stored.registration == placed


def test_clean_since_above_the_broker_epoch_is_refused() -> None:
    status = {
        "brokerEpoch": 3,
        "cleanSinceEpoch": 4,
        "incarnation": "x",
        "listeners": [],
        "logDirId": "x",
        "protocolVersion": 1,
    }
    broker = {"metadata": METADATA, "spec": {"brokerId": 0}, "status": status}
    with pytest.raises(ObjectMalformed, match="brokerEpoch: must be an integer of at least 4"):
        objects.broker_from_object(broker)


def topic(status: dict[str, Any] | None, **spec: object) -> dict[str, Any]:
    return {"metadata": METADATA, "spec": spec} | ({} if status is None else {"status": status})


EFFECTIVE = {
    "minInsyncReplicas": 2,
    "segmentBytes": 1024,
    "maxMessageBytes": 512,
    "flushMessages": 1,
}


def test_a_topic_without_effective_configuration_is_not_usable_yet() -> None:
    assert objects.topic_from_object(topic(None)) is None
    assert objects.topic_from_object(topic({"topicId": "x"})) is None


def test_a_topic_whose_operator_knew_no_retention_deletes_nothing() -> None:
    earlier = objects.topic_from_object(topic({"effectiveConfig": EFFECTIVE}))
    assert earlier is not None
    assert (earlier.settings.retention_ms, earlier.settings.retention_bytes) == (-1, -1)
    written = {"retentionMs": 5, "retentionBytes": 6, "segmentMs": 7, "fileDeleteDelayMs": 8}
    present = objects.topic_from_object(topic({"effectiveConfig": EFFECTIVE | written}))
    assert present is not None
    settings = present.settings
    assert (settings.retention_ms, settings.retention_bytes) == (5, 6)
    assert (settings.segment_ms, settings.file_delete_delay_ms) == (7, 8)


def test_a_topic_says_who_applied_its_settings_beside_the_digest_of_the_present_ones() -> None:
    without = objects.topic_from_object(topic({"effectiveConfig": EFFECTIVE}))
    assert without is not None
    assert without.applied == AppliedConfig()
    assert without.config_digest == objects.effective_digest(EFFECTIVE)
    told = AppliedConfig(digest=without.config_digest, brokers=(BrokerId(0), BrokerId(2)))
    status = {"effectiveConfig": EFFECTIVE, "appliedConfig": objects.applied_config_status(told)}
    found = objects.topic_from_object(topic(status))
    assert found is not None
    assert found.applied == told


def test_a_topic_is_named_by_its_spec_or_its_object() -> None:
    plain = objects.topic_from_object(topic({"effectiveConfig": EFFECTIVE}))
    assert plain is not None
    assert (plain.topic_name, plain.topic_id) == ("orders-0", "uid-1")
    assert not plain.unclean_leader_election
    assert plain.settings.segment_bytes == 1024
    named = objects.topic_from_object(
        topic({"effectiveConfig": EFFECTIVE}, topicName="Orders", uncleanLeaderElection=True)
    )
    assert named is not None
    assert named.topic_name == "Orders"
    assert named.unclean_leader_election


@pytest.mark.parametrize(("spec", "topic_id"), [({}, "uid-1"), ({"topicId": "adopted"}, "adopted")])
def test_the_id_of_a_topic_is_that_of_the_logs_it_adopts_or_its_uid(
    spec: dict[str, Any], topic_id: str
) -> None:
    written = topic({"effectiveConfig": EFFECTIVE}, **spec)
    found = objects.topic_from_object(written)
    assert found is not None
    assert found.topic_id == objects.topic_id_of(written) == topic_id


@pytest.mark.parametrize("field", EFFECTIVE)
def test_half_an_effective_configuration_is_refused(field: str) -> None:
    effective = {key: value for key, value in EFFECTIVE.items() if key != field}
    with pytest.raises(ObjectMalformed, match=field):
        objects.topic_from_object(topic({"effectiveConfig": effective}))


@pytest.mark.parametrize(
    ("spec", "cluster"),
    [
        ({}, "default"),
        ({"clusterRef": "demo"}, "demo"),
        ({"clusterRef": ""}, "default"),
    ],
)
def test_the_cluster_of_a_topic(spec: dict[str, Any], cluster: str) -> None:
    assert objects.topic_cluster({"spec": spec}) == cluster


def lease(**spec: object) -> dict[str, Any]:
    return {"metadata": METADATA, "spec": spec}


def test_an_empty_lease_is_free() -> None:
    record = objects.lease_from_object({"metadata": METADATA})
    assert (record.holder_identity, record.lease_transitions) == ("", 0)
    assert record.controller_epoch == 0


LEASE_EPOCHS = st.integers(0, (1 << 31) - 1)


@given(
    holder=words,
    duration=st.integers(1, 99),
    transitions=st.integers(0, 99),
    epoch=LEASE_EPOCHS,
)
def test_a_lease_comes_back_as_it_was_written(
    holder: str, duration: int, transitions: int, epoch: int
) -> None:
    record = LeaseRecord(
        name="orders-0",
        resource_version="12",
        holder_identity=holder,
        lease_duration_seconds=duration,
        acquire_time=NOW,
        renew_time=NOW,
        lease_transitions=transitions,
        controller_epoch=ControllerEpoch(epoch),
    )
    annotations = {objects.CONTROLLER_EPOCH_ANNOTATION: str(epoch)}
    written = {
        "metadata": {**METADATA, "annotations": annotations},
        "spec": objects.lease_spec(record),
    }
    assert objects.lease_from_object(written) == record


@pytest.mark.parametrize("epoch", ["x", "-1", "1.5", "²", "2147483648", "9" * 30, ""])
def test_an_odd_controller_epoch_of_a_lease_counts_as_absent(epoch: str) -> None:
    annotations = {objects.CONTROLLER_EPOCH_ANNOTATION: epoch}
    found = objects.lease_from_object({"metadata": {**METADATA, "annotations": annotations}})
    assert found.controller_epoch == 0


def test_the_greatest_controller_epoch_of_a_lease_is_taken() -> None:
    annotations = {objects.CONTROLLER_EPOCH_ANNOTATION: "2147483647"}
    found = objects.lease_from_object({"metadata": {**METADATA, "annotations": annotations}})
    assert found.controller_epoch == 2147483647


def test_a_controller_record_comes_back_as_it_was_written() -> None:
    record = ControllerRecord(
        resource_version="12",
        holder_identity="broker-1/x",
        broker_id=BrokerId(1),
        controller_epoch=ControllerEpoch(7),
    )
    status = {"controller": objects.controller_status(record)}
    found: dict[str, Any] = {"metadata": METADATA, "status": status}
    assert objects.controller_record_from_object(found) == record
    initial = objects.controller_record_from_object({"metadata": METADATA})
    assert (initial.holder_identity, initial.controller_epoch) == ("", 0)
    assert initial.resource_version == "12"
    found["status"]["controller"]["epoch"] = None
    with pytest.raises(ObjectMalformed, match="epoch"):
        objects.controller_record_from_object(found)


@given(st.integers(0, 4_102_444_800_000_000))
def test_a_micro_time_always_has_six_digits(microseconds: int) -> None:
    text = objects.format_micro_time(microseconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)


def test_a_micro_time_at_a_whole_second_keeps_its_digits() -> None:
    assert objects.format_micro_time(1_000_000) == "1970-01-01T00:00:01.000000Z"
