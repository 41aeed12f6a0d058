"""Brings a topic back whose logs brokers still have: on their disks as strays, or in the trash.

It creates a ReplicatedTopic with the id of the logs; operator and controller do the rest.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from strandline.errors import ConfigError
from strandline.kube.objects import topic_id_of

from .commands import CommandFailed, Say
from .kubectl import Kubernetes, Object
from .strays import Stray, strays_left_out, strays_of

KEEP_ALL: Final = -1
"""retention.ms for ever: the default could delete at once what was brought back."""
_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person asks for: a topic's name or id; "" and None leave a choice to us."""

    topic: str
    cluster: str
    name: str
    replication_factor: int | None
    retention_ms: int
    wait_seconds: int


def undelete(kubernetes: Kubernetes, wanted: Wanted, say: Say) -> None:
    """Create the topic and wait until it is Ready.

    Raises:  ConfigError if there is no such topic, or it may not be created: nothing is changed;
             CommandFailed if it is not Ready in time, with its reason
    """
    cluster = kubernetes.get("brokercluster", wanted.cluster)
    topic = topic_to_create(cluster, kubernetes.get("replicatedtopics")["items"], wanted)
    name, spec = topic["metadata"]["name"], topic["spec"]
    kubernetes.kubectl("create", "-f", "-", stdin=json.dumps(topic))
    retention = "for ever" if wanted.retention_ms == KEEP_ALL else f"{wanted.retention_ms} ms"
    say(
        f"created ReplicatedTopic {name} with topic id {spec['topicId']}, {spec['partitions']} "
        f"partitions and {spec['replicationFactor']} replicas"
    )
    say(f"its records are kept {retention}; its other settings are those of the cluster")
    try:
        kubernetes.wait_ready(f"replicatedtopic/{name}", wanted.wait_seconds)
    except CommandFailed as error:
        found = kubernetes.get("replicatedtopic", name)
        raise CommandFailed(f"{name} is not ready yet: {_why(found)}") from error
    say(f"topic {spec['topicName']} is back")


def topic_to_create(cluster: Object, topics: list[Object], wanted: Wanted) -> Object:
    """Return the ReplicatedTopic that adopts the wanted logs.

    Shape:   cluster is the BrokerCluster, topics are all ReplicatedTopics of the namespace
    Raises:  ConfigError if there are no such logs, or several, or the topic may not be created
    """
    stray = _chosen(cluster, wanted)
    topic = _topic_of(stray, wanted, _factor(cluster, stray, wanted))
    _refuse_taken(topic, topics)
    return topic


def _chosen(cluster: Object, wanted: Wanted) -> Stray:
    strays = strays_of(cluster)
    found = [each for each in strays if wanted.topic in {each.topic_id, each.topic_name}]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(map(str, found))
        raise ConfigError(
            f"{len(found)} topics were called {wanted.topic}: give the id of one: {listed}"
        )
    more = strays_left_out(cluster)
    also = f" and {more} more" if more else ""
    listed = (", ".join(map(str, strays)) or "nothing") + also
    raise ConfigError(
        f"no broker of cluster {wanted.cluster} has logs of a deleted topic {wanted.topic}: "
        "nothing changed. A topic just deleted takes a few seconds. These could come back: "
        f"{listed}"
    )


def _factor(cluster: Object, stray: Stray, wanted: Wanted) -> int:
    """Return the number of replicas: that of the logs of a partition, unless a person says it."""
    least = max((len(brokers) for brokers in stray.replicas.values()), default=1)
    brokers, ready = cluster["spec"]["replicas"], cluster.get("status", {}).get("readyBrokers", 0)
    if wanted.replication_factor is not None:
        if not least <= wanted.replication_factor <= brokers:
            raise ConfigError(
                f"--replication-factor must be between {least}, the brokers that have logs of one "
                f"partition, and {brokers}, not {wanted.replication_factor}: nothing changed"
            )
        return wanted.replication_factor
    if ready < brokers:
        raise ConfigError(
            f"{ready} of {brokers} brokers are ready, and the others may have logs of "
            f"{stray.topic_name}, too: wait for them, or give the --replication-factor that it had"
        )
    return least


def _topic_of(stray: Stray, wanted: Wanted, factor: int) -> Object:
    name = wanted.name or stray.topic_name.lower().replace("_", "-")
    if not _OBJECT_NAME.fullmatch(name):
        raise ConfigError(f"no object can be called {name}: give a name with --name")
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "ReplicatedTopic",
        "metadata": {"name": name},
        "spec": {
            "clusterRef": wanted.cluster,
            "topicName": stray.topic_name or name,
            "topicId": stray.topic_id,
            "partitions": stray.partitions,
            "replicationFactor": factor,
            "config": {"retentionMs": wanted.retention_ms},
        },
    }


def _refuse_taken(topic: Object, others: list[Object]) -> None:
    """Raise ConfigError if another ReplicatedTopic has the topic's id, name or object name."""
    name, spec = topic["metadata"]["name"], topic["spec"]
    for other in others:
        other_name, other_spec = other["metadata"]["name"], other["spec"]
        if topic_id_of(other) == spec["topicId"]:
            # The logs are listed until the topic has all of its Partitions.
            raise ConfigError(f"ReplicatedTopic {other_name} brings them back: {_why(other)}")
        if other_name == name:
            raise ConfigError(
                f"ReplicatedTopic {name} exists: delete it, or give a name with --name"
            )
        topic_name = other_spec.get("topicName", other_name)
        if (other_spec["clusterRef"], topic_name) == (spec["clusterRef"], spec["topicName"]):
            raise ConfigError(
                f"ReplicatedTopic {other_name} has the topic name {topic_name}: delete it first; "
                "its own logs go to the trash"
            )


def _why(topic: Object) -> str:
    for condition in topic.get("status", {}).get("conditions", ()):
        if condition["type"] == "Ready":
            return f"{condition['reason']}: {condition['message']}"
    return "no operator has looked at it"
