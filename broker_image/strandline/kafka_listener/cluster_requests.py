"""ApiVersions, Metadata, FindCoordinator and InitProducerId.

Registered in `handlers`. All of them answer at once from what the broker knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from strandline.broker_interface import MetadataSnapshot, PartitionMetadata, TopicMetadata
from strandline.errors import ErrorCode, ProtocolError
from strandline.model import NO_LEADER, BrokerId

from .addresses import NO_TOPIC_ID, broker_messages, topic_id_bytes
from .reply import Reply, RequestContext, first_error
from .schemas import API_VERSIONS, APIS, Api
from .wire import Message

TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Legal topic names; `.` and `..` are excluded besides. Source: Kafka Topic.validate."""

TRANSACTION_KEY_TYPE = 1
FIRST_VERSION_WITH_NULL_NAME = 12


def _range(api: Api) -> Message:
    return {
        "api_key": api.key,
        "min_version": api.advertised_min,
        "max_version": api.served_max,
    }


def api_versions(_context: RequestContext, _version: int, _request: Message) -> Reply:
    """Answer every API with the range advertised for it."""
    ranges = [_range(api) for api in APIS.values()]
    return Reply(body={"error_code": ErrorCode.NONE, "api_keys": ranges})


def unknown_api_versions() -> Reply:
    """Answer an ApiVersions request in a version we lack: our range for it, in version 0 form."""
    return Reply(
        body={
            "error_code": ErrorCode.UNSUPPORTED_VERSION,
            "api_keys": [_range(APIS[API_VERSIONS])],
        },
        error=ErrorCode.UNSUPPORTED_VERSION,
    )


def metadata(context: RequestContext, version: int, request: Message) -> Reply:
    """Answer brokers, controller and the topics asked for.

    No topics (null) means all of them; an empty list meant all in version 0 and means none
    since. A topic is never created by asking for it.
    """
    snapshot = context.broker.metadata(context.listener_name)
    wanted = request["topics"]
    if wanted is None or (version == 0 and not wanted):
        topics = [_known_topic(topic, snapshot) for topic in snapshot.topics]
    else:
        topics = list(_wanted_topics(wanted, snapshot, version))
    body = {
        "brokers": broker_messages(snapshot),
        "cluster_id": snapshot.cluster_id,
        "controller_id": snapshot.controller,
        "topics": topics,
    }
    return Reply(body=body, error=first_error(topic["error_code"] for topic in topics))


def _wanted_topics(
    wanted: list[Message], snapshot: MetadataSnapshot, version: int
) -> Iterable[Message]:
    """Answer each topic once, by name or, without a name, by id."""
    by_name = {topic.name: topic for topic in snapshot.topics}
    by_id = {topic_id_bytes(topic.topic_id): topic for topic in snapshot.topics}
    keys = dict.fromkeys((topic["name"], topic.get("topic_id", NO_TOPIC_ID)) for topic in wanted)
    for name, topic_id in keys:
        found = by_id.get(topic_id) if name is None else by_name.get(name)
        if found is not None:
            yield _known_topic(found, snapshot)
        elif name is None:
            unnamed = None if version >= FIRST_VERSION_WITH_NULL_NAME else ""
            yield _absent_topic(ErrorCode.UNKNOWN_TOPIC_ID, name=unnamed, topic_id=topic_id)
        elif TOPIC_NAME.fullmatch(name) and name not in {".", ".."}:
            yield _absent_topic(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, topic_id=NO_TOPIC_ID
            )
        else:
            yield _absent_topic(ErrorCode.INVALID_TOPIC_EXCEPTION, name=name, topic_id=NO_TOPIC_ID)


def _absent_topic(error: ErrorCode, *, name: str | None, topic_id: bytes) -> Message:
    return {"error_code": error, "name": name, "topic_id": topic_id, "partitions": []}


def _known_topic(topic: TopicMetadata, snapshot: MetadataSnapshot) -> Message:
    reachable = {broker_id for broker_id, _, _ in snapshot.brokers}
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic_id_bytes(topic.topic_id),
        "partitions": [_partition(partition, reachable) for partition in topic.partitions],
    }


def _partition(partition: PartitionMetadata, reachable: set[BrokerId]) -> Message:
    """Answer a partition; a leader without an address on this listener is no use to a client."""
    leader = partition.leader if partition.leader in reachable else NO_LEADER
    return {
        "error_code": ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
        "index": partition.partition,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": partition.offline,
    }


def find_coordinator(_context: RequestContext, _version: int, request: Message) -> Reply:
    """Answer that no coordinator of groups is available; refuse those of transactions.

    A client repeats its question after COORDINATOR_NOT_AVAILABLE; one that wants transactions
    shall fail at once instead. The API is advertised because librdkafka takes its presence as a
    sign that lz4 is understood.
    """
    if request["key_type"] == TRANSACTION_KEY_TYPE:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        reason = "transactions are not served"
    else:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        reason = "consumer groups are not served; assign partitions instead"
    nowhere: Message = {
        "error_code": error,
        "error_message": reason,
        "node_id": -1,
        "host": "",
        "port": -1,
    }
    if "coordinator_keys" in request:
        coordinators = [{"key": key, **nowhere} for key in request["coordinator_keys"]]
        return Reply(body={"coordinators": coordinators}, error=error)
    return Reply(body=nowhere, error=error)


def init_producer_id(context: RequestContext, _version: int, request: Message) -> Reply:
    """Hand out a new producer id with epoch 0; refuse whoever wants transactions.

    A client that lost its sequence and sends its old id gets a new one too, as in Kafka.
    """
    transactional_id = request["transactional_id"]
    if transactional_id is not None:
        refused = transactional_id and ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _producer_id(-1, refused or ErrorCode.INVALID_REQUEST)
    try:
        return _producer_id(context.broker.allocate_producer_id(), ErrorCode.NONE)
    except ProtocolError as error:
        return _producer_id(-1, error.code)


def _producer_id(producer_id: int, error: ErrorCode) -> Reply:
    epoch = 0 if error is ErrorCode.NONE else -1
    body = {"error_code": error, "producer_id": producer_id, "producer_epoch": epoch}
    return Reply(body=body, error=error)
