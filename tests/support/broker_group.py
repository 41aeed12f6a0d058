"""Three real brokers on this machine over a real API server.

The group creates the objects that the operator would create, so no fault of the operator can
fail these tests; a test with an operator of its own says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from strandline.model import joined_address
from tests.support import strandline_objects as objects
from tests.support.broker_process import BrokerProgram
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.ports import free_port

FORMED_LIMIT_MS = 60_000
FAULT_LIMIT_MS = 15_000
"""Bound of the time until clients are served again after a fault, on a slow machine too."""
NEVER_FLUSHED = (1 << 63) - 1
"""Kafka's flush.messages by default."""


class BrokerGroup:
    """Brokers 0 to 2 of one BrokerCluster in one namespace."""

    def __init__(
        self,
        folder: Path,
        control_plane: ControlPlane,
        namespace: str,
        *,
        brokers: int = 3,
        kubeconfig: Path | None = None,
        settings: dict[str, object] | None = None,
        has_operator: bool = False,
        entry: str = "strandline.runtime.main",
        address: str = "127.0.0.1",
    ) -> None:
        self.folder = folder
        self.control_plane = control_plane
        self.namespace = namespace
        self._at_stop: list[Callable[[], None]] = []
        if not has_operator:
            control_plane.apply(
                [
                    objects.cluster(namespace),
                    objects.controller_lease(namespace),
                    *(objects.broker(namespace, number) for number in range(brokers)),
                ]
            )
        self.brokers = [
            BrokerProgram(
                folder / f"broker-{number}",
                kubeconfig=kubeconfig or control_plane.kubeconfig,
                namespace=namespace,
                cluster=objects.CLUSTER,
                broker_id=number,
                internal_port=free_port(),
                external_port=free_port(),
                settings=settings,
                entry=entry,
                address=address,
            )
            for number in range(brokers)
        ]

    def start(self) -> None:
        """Start every broker that does not run and wait until each is ready for clients."""
        started = [broker for broker in self.brokers if not broker.runs()]
        for broker in started:
            broker.start()
        for broker in started:
            self.wait_ready(broker)

    def wait_ready(self, broker: BrokerProgram) -> None:
        """Wait until a broker serves clients."""
        broker.wait_for("kafka listener open", FORMED_LIMIT_MS)

    def on_stop(self, action: Callable[[], None]) -> None:
        """Register an action that `stop` runs before it ends the brokers."""
        self._at_stop.append(action)

    def stop(self) -> None:
        """Run the registered actions, then end the brokers that still run."""
        for action in self._at_stop:
            action()
        for broker in self.brokers:
            broker.clean_up()

    # --- objects ---------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        min_insync_replicas: int = 2,
        flush_messages: int = NEVER_FLUSHED,
        assignments: Sequence[Sequence[int]] = (),
        config: Mapping[str, int] = MappingProxyType({}),
        **spec: Any,
    ) -> str:
        """Create a topic and its Partitions as the operator would; return the topic id.

        config is added to its effective configuration. With topicId= the topic adopts logs.
        """
        plane, namespace = self.control_plane, self.namespace
        plane.apply(objects.topic(namespace, name, partitions=partitions, **spec))
        uid = self.topic_id(name)
        topic_id = str(spec.get("topicId", uid))
        effective = {
            "minInsyncReplicas": min_insync_replicas,
            "segmentBytes": 1 << 20,
            "maxMessageBytes": 1_048_588,
            "flushMessages": flush_messages,
            **config,
        }
        objects.patch_status(
            plane,
            namespace,
            f"replicatedtopics/{name}",
            {
                "topicId": topic_id,
                "partitionsInitialised": partitions,
                "effectiveConfig": effective,
            },
        )
        self.create_partitions(
            name,
            topic_id,
            partitions,
            assignments=assignments,
            recover=topic_id != uid,
            owner_uid=uid,
        )
        return topic_id

    def create_partitions(
        self,
        name: str,
        topic_id: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] = (),
        recover: bool = False,
        owner_uid: str = "",
    ) -> None:
        """Create the Partitions of a topic, with the topic as their owner."""
        brokers = len(self.brokers)
        rotated = [[(n + i) % brokers for i in range(brokers)] for n in range(count)]
        manifests = []
        for number, replicas in enumerate(assignments or rotated):
            manifest = objects.partition(
                self.namespace, topic_id=topic_id, topic_name=name, number=number
            )
            manifest["metadata"]["ownerReferences"] = [objects.owner(name, owner_uid or topic_id)]
            manifest["spec"].update(replicas=list(replicas), recover=recover)
            manifests.append(manifest)
        self.control_plane.apply(manifests)

    def move(self, topic: str, *replicas: int, number: int = 0) -> None:
        """Write the replicas that a partition shall have into its spec."""
        patch = json.dumps({"spec": {"replicas": replicas}})
        name = f"{topic}-{number}"
        self.control_plane.kubectl(
            *("patch", "partition", name, "-n", self.namespace, "--type=merge", "-p", patch)
        )

    def wait_moved(
        self, topic: str, *replicas: int, number: int = 0, within_ms: int = FORMED_LIMIT_MS
    ) -> dict[str, Any]:
        """Wait until a partition has these replicas, all in sync, and no others; return it."""

        def moved() -> dict[str, Any]:
            status = self.partition(topic, number)
            assert status["replicas"] == list(replicas), status
            assert "addingReplicas" not in status, status
            assert sorted(status["isr"]) == sorted(replicas), status
            return status

        return eventually(moved, within_ms, f"{topic}-{number} on {replicas}")

    def topic_id(self, name: str) -> str:
        """Return the uid of a topic object."""
        return str(self.get("replicatedtopics", name)["metadata"]["uid"])

    def get(self, plural: str, name: str) -> dict[str, Any]:
        """Return an object of the group's namespace."""
        return self.control_plane.get(plural, name, "-n", self.namespace)

    def partition(self, topic: str, number: int = 0) -> dict[str, Any]:
        """Return the status of a Partition, empty if no controller has written one."""
        found: dict[str, Any] = self.get("partitions", f"{topic}-{number}").get("status", {})
        return found

    def partitions(self, topic: str, count: int) -> list[dict[str, Any]]:
        """Return the statuses of a topic's Partitions, from one list."""
        found = self.control_plane.get("partitions", "-n", self.namespace)["items"]
        by_name = {item["metadata"]["name"]: item.get("status", {}) for item in found}
        return [by_name.get(f"{topic}-{number}", {}) for number in range(count)]

    def partition_count(self) -> int:
        """Return the number of Partitions of all topics."""
        return len(self.control_plane.get("partitions", "-n", self.namespace)["items"])

    def leaders(self, topic: str, count: int) -> list[int]:
        """Return the leaders of a topic's partitions, -1 for none."""
        return [int(status.get("leader", -1)) for status in self.partitions(topic, count)]

    def wait_full_isr(self, topic: str, count: int = 1, within_ms: int = FORMED_LIMIT_MS) -> None:
        """Wait until every partition has a leader and all its replicas in the ISR."""

        def full() -> bool:
            statuses = self.partitions(topic, count)
            for status in statuses:
                assert status.get("leader", -1) >= 0, statuses
                assert sorted(status["isr"]) == sorted(status["replicas"]), statuses
            return True

        eventually(full, within_ms, f"full ISR of {topic}")

    def wait_partition(
        self, topic: str, what: str, wanted: Callable[[dict[str, Any]], bool], number: int = 0
    ) -> dict[str, Any]:
        """Wait until a partition's status is as wanted, and return it."""

        def look() -> dict[str, Any]:
            status = self.partition(topic, number)
            assert status, "no status"
            assert wanted(status), status
            return status

        return eventually(look, FAULT_LIMIT_MS, f"{what} of {topic}-{number}")

    def wait_leader(
        self, topic: str, number: int = 0, *, other_than: int = -1, within_ms: int = FAULT_LIMIT_MS
    ) -> int:
        """Wait until a partition has a leader that is not the given one, and return it."""

        def leader() -> int | None:
            found = int(self.partition(topic, number).get("leader", -1))
            return found + 1 if found not in (-1, other_than) else None

        found = eventually(leader, within_ms, f"leader of {topic}-{number}")
        assert found is not None
        return found - 1

    def controller(self) -> int:
        """Return the id of the recorded controller."""
        found = self.get("brokerclusters", objects.CLUSTER)
        return int(found["status"]["controller"]["brokerId"])

    def wait_controller(self, *, other_than: int) -> int:
        """Wait until another broker is the recorded controller, and return its id."""

        def other() -> bool:
            found = self.controller()
            assert found != other_than, found
            return True

        eventually(other, FAULT_LIMIT_MS, f"a controller other than {other_than}")
        return self.controller()

    # --- brokers ---------------------------------------------------------------------------

    def bootstrap(self) -> str:
        """Return the addresses of all brokers for clients; a restart keeps them."""
        return ",".join(
            joined_address(broker.address, broker.internal_port) for broker in self.brokers
        )

    def log_folder(self, broker: int, topic_id: str, number: int = 0) -> Path:
        """Return where a broker keeps its replica of a partition."""
        return self.brokers[broker].data_dir / f"{topic_id}-{number}"
