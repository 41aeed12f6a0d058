"""Partitions of a cluster and the wishes in their specs: read, named, and written.

Every write is a compare-and-swap on the objects as read. Whoever loses a race reads again and
decides anew, a bounded number of times.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.errors import ConfigError
from strandline.model import BrokerId

from .commands import CommandFailed
from .kubectl import Kubernetes, Object
from .recover import kubeconfig_of
from .watch import cluster_of

WRITES_IN_A_CALL_MAX: Final = 100
"""Objects that one call of kubectl writes."""
CONFLICTS_MAX: Final = 5
"""Times that a decision is made anew because somebody else wrote meanwhile."""
BEFORE_NOTE: Final = "strandline.dev/replicas-before"
"""Annotation: the replicas before a move, in their order, which no status has any more."""
_REFUSED: Final = "Error from server"
_LOST_RACES: Final = ("(Conflict)", "(NotFound)")

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A Partition's wanted and present replicas; present and isr are empty without a status."""

    found: Object

    @property
    def label(self) -> str:
        """The name that people use, as in orders/0."""
        spec = self.found["spec"]
        return f"{spec['topicName']}/{spec['partition']}"

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.found["metadata"]["name"])

    @property
    def wanted(self) -> Replicas:
        """The replicas in the spec."""
        return tuple(self.found["spec"]["replicas"])

    @property
    def present(self) -> Replicas:
        """The replicas in the status; while the partition moves, former and new ones."""
        return self._listed("replicas")

    @property
    def isr(self) -> Replicas:
        """The replicas in sync."""
        return self._listed("isr")

    @property
    def adding(self) -> Replicas:
        """Those that were no replicas before the present move."""
        return self._listed("addingReplicas")

    @property
    def removing(self) -> Replicas:
        """Those that will be no replicas after the present move."""
        return self._listed("removingReplicas")

    @property
    def leader(self) -> int:
        """The leader, -1 without one."""
        return int(self.found.get("status", {}).get("leader", -1))

    @property
    def leader_epoch(self) -> int:
        """The leader epoch, -1 without a status."""
        return int(self.found.get("status", {}).get("leaderEpoch", -1))

    @property
    def reason(self) -> str:
        """Why it has no leader, "" if it has one or nobody told."""
        return str(self.found.get("status", {}).get("reason", ""))

    @property
    def moves(self) -> bool:
        """Whether the status has not followed the spec yet."""
        return self.wanted != self.present or bool(self.adding or self.removing)

    @property
    def before(self) -> Replicas:
        """The replicas without those of the present move, in their former order if it is known."""
        original = tuple(each for each in self.present if each not in self.adding)
        noted = self.found["metadata"].get("annotations", {}).get(BEFORE_NOTE, "")
        ordered = tuple(each for word in noted.split(",") for each in original if str(each) == word)
        return ordered if self.moves and set(ordered) == set(original) else original

    def with_replicas(self, wanted: Replicas) -> Object:
        """Return the object with other replicas in its spec, and a note of those before."""
        metadata, spec = self.found["metadata"], self.found["spec"]
        notes = metadata.get("annotations", {}) | {BEFORE_NOTE: ",".join(map(str, self.before))}
        return self.found | {
            "metadata": metadata | {"annotations": notes},
            "spec": spec | {"replicas": list(wanted)},
        }

    def _listed(self, field: str) -> Replicas:
        return tuple(self.found.get("status", {}).get(field, ()))


def rack_of(broker: Object) -> str:
    """Return the rack that the operator wrote into a Broker, "" without one."""
    return str(broker["spec"].get("rack", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFound:
    """A cluster's partitions by label, its brokers by id, its topics' replicas by topic name."""

    name: str
    partitions: Mapping[str, Assignment]
    brokers: Mapping[int, Object]
    factors: Mapping[str, int]

    @property
    def racks(self) -> dict[BrokerId, str]:
        """The racks of the brokers that have one, as the operator wrote them."""
        found = {BrokerId(one): rack_of(each) for one, each in self.brokers.items()}
        return {one: rack for one, rack in found.items() if rack}

    def broker_amiss(self, number: int) -> str:
        """Return why a broker cannot take a replica or lead now, as far as its object tells."""
        if number not in self.brokers:
            return f"there is no broker {number}"
        status = self.brokers[number].get("status", {})
        if not status:
            return f"broker {number} never registered"
        return f"the volume of broker {number} is full" if status.get("volumeFull") else ""

    def chosen(self, words: Sequence[str]) -> list[Assignment]:
        """Return the partitions of TOPIC or TOPIC/PARTITION, each once, in order.

        Raises:  ConfigError names the word that is no partition, and what there is
        """
        chosen: dict[str, Assignment] = {}
        for word in words:
            topic, slash, _ = word.partition("/")
            of_topic = {
                label: each
                for label, each in self.partitions.items()
                if each.found["spec"]["topicName"] == topic
            }
            found = {word: of_topic[word]} if slash and word in of_topic else of_topic
            if not found or (slash and word not in of_topic):
                raise ConfigError(f"{word}: {self._what_there_is(topic, len(of_topic))}")
            chosen |= found
        return list(chosen.values())

    def _what_there_is(self, topic: str, partitions: int) -> str:
        if partitions:
            return f"topic {topic} has partitions 0 to {partitions - 1}"
        topics = sorted({label.rpartition("/")[0] for label in self.partitions})
        there = f"has the topics {', '.join(topics)}" if topics else "has no partitions"
        return f"cluster {self.name} {there}"


class Assignments:
    """Reads and writes the assignments of one cluster, "" for the only one of the namespace."""

    def __init__(self, kubernetes: Kubernetes, cluster: str = "") -> None:
        """Take a cluster; ConfigError if it is not there, or there is more than one to choose."""
        self.kubernetes = kubernetes
        self.cluster = cluster_of(kubernetes, cluster)

    def read(self) -> ClusterFound:
        """Return all partitions, brokers and topics of the cluster as they are now."""
        labelled = ("-l", f"strandline.dev/cluster={self.cluster}")
        partitions = self.kubernetes.get("partitions", *labelled)["items"]
        brokers = self.kubernetes.get("brokers", *labelled)["items"]
        topics = self.kubernetes.get("replicatedtopics")["items"]
        return found_cluster(self.cluster, partitions, brokers, topics)

    def change(self, decide: Callable[[ClusterFound], Sequence[Object]]) -> ClusterFound:
        """Write what is decided on the present objects; return these as they were read.

        Raises:  what decide raises, before anything is written by this attempt; CommandFailed if
                 the API server refuses a write, or others always came first
        """
        for _ in range(CONFLICTS_MAX):
            found = self.read()
            changed = decide(found)
            if self._write(changed):
                return found
        raise CommandFailed(
            f"somebody else wrote the same partitions {CONFLICTS_MAX} times meanwhile: try again"
        )

    def _write(self, changed: Sequence[Object]) -> bool:
        """Replace objects that are as they were read; tell whether all were."""
        all_written = True
        for first in range(0, len(changed), WRITES_IN_A_CALL_MAX):
            items = changed[first : first + WRITES_IN_A_CALL_MAX]
            listed = {"apiVersion": "v1", "kind": "List", "items": items}
            try:
                self.kubernetes.kubectl("replace", "-f", "-", stdin=json.dumps(listed))
            except CommandFailed as error:
                if not is_lost_race(str(error)):
                    raise
                all_written = False
        return all_written


def assignments_of(options: argparse.Namespace) -> Assignments:
    """Return the assignments of the cluster that the options of `add_place` name."""
    kubeconfig = kubeconfig_of(options.kubeconfig, dict(os.environ))
    kubernetes = Kubernetes(kubeconfig, options.namespace, context=options.context)
    return Assignments(kubernetes, options.cluster)


def found_cluster(
    name: str, partitions: Sequence[Object], brokers: Sequence[Object], topics: Sequence[Object]
) -> ClusterFound:
    """Return a cluster from its objects; topics may be those of the whole namespace."""
    ordered = sorted(partitions, key=lambda p: (p["spec"]["topicName"], p["spec"]["partition"]))
    listed = [Assignment(found=each) for each in ordered]
    return ClusterFound(
        name=name,
        partitions={each.label: each for each in listed},
        brokers={each["spec"]["brokerId"]: each for each in brokers},
        factors={
            each["spec"].get("topicName", each["metadata"]["name"]): each["spec"][
                "replicationFactor"
            ]
            for each in topics
            if each["spec"]["clusterRef"] == name
        },
    )


def is_lost_race(said: str) -> bool:
    """Tell whether kubectl's message has refusals, and all because somebody else was first."""
    refusals = [line for line in said.splitlines() if _REFUSED in line]
    return bool(refusals) and all(
        any(reason in line for reason in _LOST_RACES) for line in refusals
    )


def ids(brokers: Sequence[int]) -> str:
    """Return ids as people write them, as in 0,2."""
    return ",".join(map(str, brokers)) or "-"
