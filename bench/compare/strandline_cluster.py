"""Three Strandline brokers over an etcd and an API server of their own, as the tests start them.

Settings are the defaults of a broker, not those of the demo; deleted logs do not stay in the trash,
since a bench of many gigabytes has no room for them. Memory is allocated as in the broker's image.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from pathlib import Path
from typing import Final

from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.control_plane import ControlPlane

from .cluster import Cluster
from .used import pids_of

NAMESPACE: Final = "bench"
SETTINGS: Final[dict[str, object]] = {"timing": "safe", "log.trash.retention.ms": 0}
SEGMENT_BYTES: Final = 1 << 30
"""Kafka's default."""
IMAGE: Final = Path(__file__).parents[2] / "broker_image" / "Dockerfile"


class StrandlineCluster(Cluster):
    """Strandline's brokers; the objects that its operator would make are made here."""

    name = "Strandline"

    def __init__(self, folder: Path) -> None:
        """Start the control plane below this folder; no broker runs yet."""
        self._plane = ControlPlane.start(folder / "control-plane")
        objects.install_crds(self._plane)
        self._plane.kubectl("create", "namespace", NAMESPACE)
        self._group = BrokerGroup(
            folder,
            self._plane,
            NAMESPACE,
            kubeconfig=objects.broker_account(self._plane, NAMESPACE),
            settings=SETTINGS,
        )
        for broker in self._group.brokers:
            broker.use_variables(malloc_settings())

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers; a restart keeps them."""
        return self._group.bootstrap()

    def pids(self) -> list[int]:
        """Return the processes of the brokers that run."""
        return [each.process.pid for each in self._group.brokers if each.runs()]

    def pids_beside(self) -> list[int]:
        """Return etcd, the API server and the controller manager, found by their folder."""
        return pids_of(self._plane.folder)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic of three replicas and min ISR 2 and wait until every ISR is full."""
        self._group.create_topic(
            name, partitions=partitions, config={"segmentBytes": SEGMENT_BYTES}
        )
        self.wait_full(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete a topic; the garbage collection takes its Partitions, brokers their logs."""
        namespace = f"--namespace={NAMESPACE}"
        self._plane.kubectl("delete", "replicatedtopic", name, namespace, "--wait=true")

    def controller(self) -> int:
        """Return the recorded controller."""
        return self._group.controller()

    def kill(self, broker: int) -> None:
        """End a broker with SIGKILL."""
        self._group.brokers[broker].kill()

    def start(self) -> None:
        """Start every broker that does not run."""
        for broker in self._group.brokers:
            if not broker.runs():
                broker.start()

    def stop(self) -> None:
        """End the brokers and the control plane."""
        self._group.stop()
        self._plane.stop()

    def scrape(self) -> int:
        """Scrape each broker as Prometheus does and return the bytes of all responses."""
        found = [broker.get("/metrics") for broker in self._group.brokers]
        if any(status != HTTPStatus.OK for status, _ in found):
            raise ConnectionError(f"scrapes got {[status for status, _ in found]}")
        return sum(len(text) for _, text in found)


def malloc_settings() -> dict[str, str]:
    """Return how the image has the C library allocate memory."""
    return dict(re.findall(r"\b(MALLOC_\w+)=(\d+)", IMAGE.read_text()))
