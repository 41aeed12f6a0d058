"""Conversions between the API server's dicts and our values; strict in what they accept.

Imports model and errors alone. A dict that lacks a promised field or holds another type
raises `ObjectMalformed` with the object's name and the field: no epoch is ever guessed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from strandline.errors import ObjectMalformed
from strandline.model import (
    NO_EPOCH,
    NO_LEADER,
    UNLIMITED,
    AdvertisedAddress,
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
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
    TopicPartition,
    TopicSettings,
)

Object = dict[str, Any]

API_VERSION: Final = "strandline.dev/v1alpha1"
CONTROLLER_EPOCH_ANNOTATION: Final = "strandline.dev/controller-epoch"
_EPOCH_TEXT: Final = re.compile("[0-9]{1,10}")
_DIGEST_LENGTH: Final = 16
_EPOCH_MAX: Final = (1 << 31) - 1
"""The greatest controller epoch that a Partition may have."""
CLUSTER_LABEL: Final = "strandline.dev/cluster"
"""On every object the operator makes for a cluster: the name of the BrokerCluster."""
DEFAULT_CLUSTER: Final = "default"
"""The cluster of a topic that names none."""


class Fields:
    """Typed access to one dict of an object; errors name its path and the field."""

    def __init__(self, values: object, path: str) -> None:
        if not isinstance(values, dict):
            raise ObjectMalformed(f"{path}: must be an object")
        self._values = values
        self._path = path

    def malformed(self, field: str, wanted: str) -> ObjectMalformed:
        """Return the error that names the field and what it must hold."""
        return ObjectMalformed(
            f"{self._path}.{field}: must be {wanted}, is {self._values.get(field)!r}"
        )

    def has(self, field: str) -> bool:
        """Tell whether a field is present and not null."""
        return self._values.get(field) is not None

    def integer(self, field: str, *, minimum: int = 0) -> int:
        """Return an integer of at least minimum."""
        value = self._values.get(field)
        if type(value) is int and value >= minimum:
            return value
        raise self.malformed(field, f"an integer of at least {minimum}")

    def integer_or(self, field: str, default: int, *, minimum: int) -> int:
        """Return an integer, the default if absent."""
        return self.integer(field, minimum=minimum) if self.has(field) else default

    def text(self, field: str) -> str:
        """Return a text that is not empty."""
        value = self._values.get(field)
        if isinstance(value, str) and value:
            return value
        raise self.malformed(field, "a text")

    def optional_text(self, field: str) -> str:
        """Return a text, "" if absent."""
        value = self._values.get(field)
        if value is None or isinstance(value, str):
            return value or ""
        raise self.malformed(field, "a text")

    def flag(self, field: str) -> bool:
        """Return a boolean, False if absent."""
        value = self._values.get(field)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.malformed(field, "true or false")

    def integers(self, field: str) -> tuple[int, ...]:
        """Return a list of integers that are not negative."""
        value = self._values.get(field)
        if isinstance(value, list) and all(type(item) is int and item >= 0 for item in value):
            return tuple(value)
        raise self.malformed(field, "a list of integers")

    def numbers(self, field: str) -> tuple[tuple[str, int | float], ...]:
        """Return a mapping of texts to numbers as pairs in order, none if it is absent."""
        value = self._values.get(field)
        if value is None:
            return ()
        if isinstance(value, dict) and all(type(each) in (int, float) for each in value.values()):
            return tuple(sorted(value.items()))
        raise self.malformed(field, "a mapping to numbers")

    def fields(self, field: str) -> Fields:
        """Return typed access to an object within."""
        return Fields(self._values.get(field), f"{self._path}.{field}")

    def status(self) -> Fields | None:
        """Return the status, None if none was ever written; an empty status counts as none."""
        status = self.fields("status") if self.has("status") else None
        return status if self._values.get("status") else None

    def items(self, field: str) -> list[Fields]:
        """Return typed access to each item of a list."""
        value = self._values.get(field)
        if not isinstance(value, list):
            raise self.malformed(field, "a list")
        return [Fields(item, f"{self._path}.{field}[{at}]") for at, item in enumerate(value)]

    def items_or_none(self, field: str) -> list[Fields]:
        """Return the items of a list, none if it is absent."""
        return self.items(field) if self.has(field) else []


def format_micro_time(microseconds_since_epoch: int) -> str:
    """Return a MicroTime: always six fractional digits and Z.

    isoformat() drops the digits when they are zero, and released API servers refuse a
    MicroTime without them: about one renewal in a million would fail.
    """
    seconds, microseconds = divmod(microseconds_since_epoch, 1_000_000)
    whole = datetime.fromtimestamp(seconds, tz=UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{microseconds:06d}Z"


def partition_from_object(value: Object) -> StoredPartition:
    """Read a Partition object."""
    root, metadata = opened(value, "Partition")
    spec, status = root.fields("spec"), root.status()
    return StoredPartition(
        name=metadata.text("name"),
        resource_version=metadata.text("resourceVersion"),
        tp=TopicPartition(
            topic_id=TopicId(spec.text("topicId")), partition=spec.integer("partition")
        ),
        topic_name=spec.text("topicName"),
        assigned=_broker_ids(spec, "replicas"),
        recover=spec.flag("recover"),
        rebuild_without=frozenset(_broker_ids(spec, "rebuildWithout"))
        if spec.has("rebuildWithout")
        else frozenset(),
        elect_preferred_in=LeaderEpoch(spec.integer_or("electPreferredIn", NO_EPOCH, minimum=0)),
        generation=metadata.integer_or("generation", 0, minimum=0),
        state=_partition_state(status) if status else None,
    )


def _partition_state(status: Fields) -> PartitionState:
    """Read Partition.status; check the model's rules, because any client may have written it."""
    isr = _entries(status, "isr")
    ids = [entry.broker_id for entry in isr]
    leader = BrokerId(status.integer("leader", minimum=NO_LEADER))
    if leader not in {NO_LEADER, *ids}:
        raise status.malformed("leader", "-1 or a member of isr")
    if not ids and leader != NO_LEADER:
        raise status.malformed("isr", "not empty while there is a leader")
    min_insync_replicas = status.integer("minInsyncReplicas", minimum=1)
    # A status of an earlier version has no elr.
    eligible = _entries(status, "elr") if status.has("elr") else ()
    if eligible and len(ids) >= min_insync_replicas:
        raise status.malformed("elr", "empty unless isr has fewer members than minInsyncReplicas")
    if any(entry.broker_id in ids for entry in eligible):
        raise status.malformed("elr", "a list without members of isr")
    replicas = _broker_ids(status, "replicas")
    adding, removing = (
        _broker_ids(status, field) if status.has(field) else ()
        for field in ("addingReplicas", "removingReplicas")
    )
    for field, moving in (("addingReplicas", adding), ("removingReplicas", removing)):
        if moving and not set(moving) < set(replicas):
            raise status.malformed(field, "a part of replicas")
    recovery = status.text("recovery")
    if recovery not in {word.value for word in Recovery}:
        raise status.malformed("recovery", "Clean or Unclean")
    return PartitionState(
        replicas=replicas,
        leader=leader,
        leader_epoch=LeaderEpoch(status.integer("leaderEpoch")),
        partition_epoch=PartitionEpoch(status.integer("partitionEpoch")),
        isr=isr,
        min_insync_replicas=min_insync_replicas,
        controller_epoch=ControllerEpoch(status.integer("controllerEpoch")),
        recovery=Recovery(recovery),
        reason=status.optional_text("reason"),
        eligible_leaders=eligible,
        adding_replicas=adding,
        removing_replicas=removing,
    )


def _entries(status: Fields, members: str) -> tuple[IsrEntry, ...]:
    """Read the ids of `members` and their epochs, two lists of one length."""
    ids, epochs = _broker_ids(status, members), status.integers(f"{members}BrokerEpochs")
    if len(epochs) != len(ids):
        raise status.malformed(f"{members}BrokerEpochs", f"as long as {members} ({len(ids)})")
    return tuple(
        IsrEntry(broker_id=broker_id, broker_epoch=BrokerEpoch(epoch))
        for broker_id, epoch in zip(ids, epochs, strict=True)
    )


def partition_status(state: PartitionState, *, changed_at: str) -> Object:
    """Return Partition.status; changed_at is an RFC 3339 time. Only a move has its two lists."""
    moving = {"addingReplicas": state.adding_replicas, "removingReplicas": state.removing_replicas}
    return {
        "replicas": list(state.replicas),
        "leader": state.leader,
        "leaderEpoch": state.leader_epoch,
        "partitionEpoch": state.partition_epoch,
        "isr": [entry.broker_id for entry in state.isr],
        "isrBrokerEpochs": [entry.broker_epoch for entry in state.isr],
        "elr": [entry.broker_id for entry in state.eligible_leaders],
        "elrBrokerEpochs": [entry.broker_epoch for entry in state.eligible_leaders],
        "minInsyncReplicas": state.min_insync_replicas,
        "controllerEpoch": state.controller_epoch,
        "recovery": state.recovery.value,
        "reason": state.reason,
        "changedAt": changed_at,
    } | {field: list(brokers) for field, brokers in moving.items() if brokers}


def broker_from_object(value: Object) -> StoredBroker:
    """Read a Broker object."""
    root, metadata = opened(value, "Broker")
    spec, status = root.fields("spec"), root.status()
    broker_id = BrokerId(spec.integer("brokerId"))
    return StoredBroker(
        name=metadata.text("name"),
        resource_version=metadata.text("resourceVersion"),
        broker_id=broker_id,
        registration=_registration(broker_id, spec, status) if status else None,
        external=_external(spec.fields("external")) if spec.has("external") else None,
        settings=spec.numbers("config"),
    )


def _external(address: Fields) -> AdvertisedAddress:
    return AdvertisedAddress(
        host=address.optional_text("host"), port=address.integer("port", minimum=1)
    )


def _registration(broker_id: BrokerId, spec: Fields, status: Fields) -> Registration:
    clean_since = status.integer("cleanSinceEpoch", minimum=1)
    broker_epoch = status.integer("brokerEpoch", minimum=clean_since)
    return Registration(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(broker_epoch),
        clean_since_epoch=BrokerEpoch(clean_since),
        incarnation=status.text("incarnation"),
        endpoints=tuple(
            Endpoint(
                listener=item.text("name"),
                host=item.text("host"),
                port=item.integer("port", minimum=1),
            )
            for item in status.items("listeners")
        ),
        log_dir_id=status.text("logDirId"),
        boot_id=status.optional_text("bootId"),
        software_version=status.optional_text("softwareVersion"),
        protocol_version=status.integer("protocolVersion", minimum=1),
        volume_full=status.flag("volumeFull"),
        config_digest=status.optional_text("configDigest"),
        config_refused=status.optional_text("configRefused"),
        reading_logs=status.optional_text("readingLogs"),
        is_removed=spec.flag("removed"),
        rack=spec.optional_text("rack"),
    )


def broker_status(registration: Registration) -> Object:
    """Return Broker.status without empty texts, which its schema refuses, and without a no."""
    return {
        "brokerEpoch": registration.broker_epoch,
        "cleanSinceEpoch": registration.clean_since_epoch,
        "incarnation": registration.incarnation,
        "listeners": [
            {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port}
            for endpoint in registration.endpoints
        ],
        "logDirId": registration.log_dir_id,
        "protocolVersion": registration.protocol_version,
    } | _not_empty(
        volumeFull=registration.volume_full,
        bootId=registration.boot_id,
        softwareVersion=registration.software_version,
        configDigest=registration.config_digest,
        configRefused=registration.config_refused,
        readingLogs=registration.reading_logs,
    )


def topic_from_object(value: Object) -> StoredTopic | None:
    """Read a ReplicatedTopic.

    Returns: None until the operator has written status.effectiveConfig, which it does
             before it creates the topic's Partitions
    """
    root, metadata = opened(value, "ReplicatedTopic")
    spec, status = root.fields("spec"), root.status()
    if status is None or not status.has("effectiveConfig"):
        return None
    effective = status.fields("effectiveConfig")
    name = metadata.text("name")
    return StoredTopic(
        name=name,
        resource_version=metadata.text("resourceVersion"),
        topic_id=topic_id_of(value),
        topic_name=spec.optional_text("topicName") or name,
        partition_count=spec.integer_or("partitions", 0, minimum=0),
        min_insync_replicas=effective.integer("minInsyncReplicas", minimum=1),
        unclean_leader_election=spec.flag("uncleanLeaderElection"),
        settings=_settings(effective),
        config_digest=effective_digest(value["status"]["effectiveConfig"]),
        applied=applied_config(value["status"]),
    )


def applied_config(status: Object) -> AppliedConfig:
    """Read ReplicatedTopic.status.appliedConfig; the initial one if it is absent."""
    if status.get("appliedConfig") is None:
        return AppliedConfig()
    applied = Fields(status["appliedConfig"], "ReplicatedTopic.status.appliedConfig")
    return AppliedConfig(digest=applied.text("digest"), brokers=_broker_ids(applied, "brokers"))


def applied_config_status(applied: AppliedConfig) -> Object:
    """Return ReplicatedTopic.status.appliedConfig."""
    return {"digest": applied.digest, "brokers": list(applied.brokers)}


def effective_digest(effective: Object) -> str:
    """Return the digest of ReplicatedTopic.status.effectiveConfig: of what reaches brokers.

    A field that this version does not know does not count.
    """
    found = Fields(effective, "effectiveConfig")
    least = found.integer("minInsyncReplicas", minimum=1)
    counted = {"min_insync_replicas": least, **asdict(_settings(found))}
    canonical = json.dumps(counted, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_LENGTH]


def _settings(effective: Fields) -> TopicSettings:
    return TopicSettings(
        max_message_bytes=effective.integer("maxMessageBytes"),
        segment_bytes=effective.integer("segmentBytes", minimum=1),
        flush_messages=effective.integer("flushMessages", minimum=1),
        **_retention(effective),
    )


def _retention(effective: Fields) -> dict[str, int]:
    """Read what an operator wrote of retention; an earlier operator knows none: delete nothing."""
    keep = TopicSettings()
    return {
        "retention_ms": effective.integer_or("retentionMs", keep.retention_ms, minimum=UNLIMITED),
        "retention_bytes": effective.integer_or(
            "retentionBytes", keep.retention_bytes, minimum=UNLIMITED
        ),
        "segment_ms": effective.integer_or("segmentMs", keep.segment_ms, minimum=1),
        "file_delete_delay_ms": effective.integer_or(
            "fileDeleteDelayMs", keep.file_delete_delay_ms, minimum=0
        ),
    }


def topic_id_of(value: Object) -> TopicId:
    """Return the id of a ReplicatedTopic: that of the logs it adopts, else its uid (ADR 0038)."""
    adopted = (value.get("spec") or {}).get("topicId")
    if isinstance(adopted, str) and adopted:
        return TopicId(adopted)
    return TopicId(value["metadata"]["uid"])


def topic_cluster(value: Object) -> str:
    """Return the name of the cluster that a ReplicatedTopic belongs to."""
    reference = (value.get("spec") or {}).get("clusterRef")
    return reference if isinstance(reference, str) and reference else DEFAULT_CLUSTER


def controller_record_from_object(value: Object) -> ControllerRecord:
    """Read BrokerCluster.status.controller: no holder and epoch 0 before the first controller."""
    root, metadata = opened(value, "BrokerCluster")
    status = root.status()
    if status is None or not status.has("controller"):
        return ControllerRecord(
            resource_version=metadata.text("resourceVersion"),
            holder_identity="",
            broker_id=NO_LEADER,
            controller_epoch=ControllerEpoch(0),
        )
    controller = status.fields("controller")
    return ControllerRecord(
        resource_version=metadata.text("resourceVersion"),
        holder_identity=controller.text("holderIdentity"),
        broker_id=BrokerId(controller.integer("brokerId")),
        controller_epoch=ControllerEpoch(controller.integer("epoch")),
    )


def controller_status(record: ControllerRecord) -> Object:
    """Return BrokerCluster.status.controller."""
    return {
        "holderIdentity": record.holder_identity,
        "brokerId": record.broker_id,
        "epoch": record.controller_epoch,
    }


def lease_from_object(value: Object) -> LeaseRecord:
    """Read a Lease; the operator creates it without a spec, so every field may be absent.

    An annotation that is no controller epoch counts as absent: the controller record and the
    Partitions hold the floor of the next epoch, too (ADR 0003).
    """
    root, metadata = opened(value, "Lease")
    spec = root.fields("spec") if root.has("spec") else Fields({}, "Lease.spec")
    return LeaseRecord(
        name=metadata.text("name"),
        resource_version=metadata.text("resourceVersion"),
        holder_identity=spec.optional_text("holderIdentity"),
        lease_duration_seconds=spec.integer("leaseDurationSeconds", minimum=1)
        if spec.has("leaseDurationSeconds")
        else 1,
        acquire_time=spec.optional_text("acquireTime"),
        renew_time=spec.optional_text("renewTime"),
        lease_transitions=spec.integer("leaseTransitions") if spec.has("leaseTransitions") else 0,
        controller_epoch=_annotated_epoch(metadata),
    )


def _annotated_epoch(metadata: Fields) -> ControllerEpoch:
    if not metadata.has("annotations"):
        return ControllerEpoch(0)
    written = metadata.fields("annotations").optional_text(CONTROLLER_EPOCH_ANNOTATION)
    is_usable = _EPOCH_TEXT.fullmatch(written) is not None and int(written) <= _EPOCH_MAX
    return ControllerEpoch(int(written) if is_usable else 0)


def lease_spec(record: LeaseRecord) -> Object:
    """Return the spec of a Lease; the holder of a released Lease is ""."""
    spec: Object = {
        "leaseDurationSeconds": record.lease_duration_seconds,
        "leaseTransitions": record.lease_transitions,
        "holderIdentity": record.holder_identity,
    }
    return spec | _not_empty(acquireTime=record.acquire_time, renewTime=record.renew_time)


def opened(value: Object, kind: str) -> tuple[Fields, Fields]:
    """Return typed access to an object and its metadata; errors name kind and name."""
    metadata = value.get("metadata")
    name = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
    root = Fields(value, f"{kind} {name}")
    return root, root.fields("metadata")


def _not_empty(**values: str | bool) -> Object:
    return {field: value for field, value in values.items() if value}


def _broker_ids(fields: Fields, field: str) -> tuple[BrokerId, ...]:
    ids = fields.integers(field)
    if len(set(ids)) != len(ids):
        raise fields.malformed(field, "a list of distinct broker ids")
    return tuple(BrokerId(item) for item in ids)
