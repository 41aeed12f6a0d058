"""What it costs to commit many partitions' states: one object for each, or one for many of them.

`python -m bench.committed_objects` is the prototype of ADR 0071: no broker knows such objects. A
real API server keeps `--partitions` states, in Partition objects under the chart's rules and in
objects that hold 10, 50 or 100 of them, under the same schema and the rules that compare a state
with the one before. Every round gives each partition another leader, as after a death; the ways
alternate. A round ends with the last answer; the CPU is that of etcd and the API server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml

from strandline.config.kubernetes import KubernetesConfig
from strandline.kube.api import ApiClient, Resource
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane

from .compare.used import Usage, pids_of
from .report import host_info

NAMESPACE: Final = "bench"
IN_FLIGHT: Final = 16
SIZES: Final = (1, 10, 50, 100)
TOPIC_ID: Final = "00000000-0000-4000-8000-000000000001"
PARTITIONS: Final = Resource(group=objects.GROUP, version=objects.VERSION, plural="partitions")
SETS: Final = Resource(group=objects.GROUP, version=objects.VERSION, plural="partitionsets")
RULES: Final = (
    "self.leaderEpoch >= oldSelf.leaderEpoch && self.leaderEpoch <= oldSelf.leaderEpoch + 1",
    "self.controllerEpoch >= oldSelf.controllerEpoch",
    "self == oldSelf || self.partitionEpoch == oldSelf.partitionEpoch + 1",
    "self.leader == oldSelf.leader || self.leaderEpoch != oldSelf.leaderEpoch",
)
"""Of the chart's rules of Partition those that compare two states, but for a lost state."""


def main() -> None:
    """Print the figures of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=667, help="that change in a round")
    parser.add_argument("--rounds", type=int, default=5, help="of each way")
    arguments = parser.parse_args()
    print(host_info())
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as made:
        plane = ControlPlane.start(Path(made) / "control-plane")
        try:
            objects.install_crds(plane)
            plane.kubectl("create", "namespace", NAMESPACE)
            _install_sets(plane, Path(made))
            asyncio.run(_measure(plane, arguments.partitions, arguments.rounds))
        finally:
            plane.stop()


def _install_sets(plane: ControlPlane, folder: Path) -> None:
    """Make the kind that holds the states of many partitions, from the schema of Partition."""
    crds = objects.rendered(objects.CRDS_CHART)
    crd = next(each for each in crds if each["metadata"]["name"].startswith("partitions."))
    version = crd["spec"]["versions"][0]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    item = {
        **status,
        "required": ["partition", *status["required"]],
        "properties": {"partition": {"type": "integer"}, **status["properties"]},
        "x-kubernetes-validations": [
            *status["x-kubernetes-validations"],
            *({"rule": rule, "message": "a rule of states"} for rule in RULES),
        ],
    }
    states = {
        "type": "array",
        "maxItems": max(SIZES),
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["partition"],
    }
    schema = {
        "type": "object",
        "properties": {"status": {"type": "object", "properties": {"states": states}}},
    }
    names = {"kind": "PartitionSet", "plural": "partitionsets", "singular": "partitionset"}
    crd["metadata"] = {"name": f"partitionsets.{objects.GROUP}"}
    crd["spec"] = {
        "group": objects.GROUP,
        "scope": "Namespaced",
        "names": {**names, "listKind": "PartitionSetList"},
        "versions": [
            {
                "name": objects.VERSION,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }
        ],
    }
    path = folder / "partitionsets.yaml"
    path.write_text(yaml.safe_dump(crd))
    plane.kubectl("apply", "-f", str(path))


def _state(number: int, round_number: int) -> dict[str, Any]:
    """Return the state of a partition that has had so many leaders."""
    return {
        "replicas": [0, 1, 2],
        "leader": (number + round_number) % 3,
        "leaderEpoch": round_number,
        "partitionEpoch": round_number,
        "isr": [0, 1, 2],
        "isrBrokerEpochs": [101, 102, 103],
        "elr": [],
        "elrBrokerEpochs": [],
        "minInsyncReplicas": 2,
        "controllerEpoch": 1,
        "recovery": "Clean",
        "reason": "",
        "changedAt": "2026-01-01T00:00:00.000000Z",
    }


class _Way:
    """Objects that hold the states of `size` partitions each, and their versions as last read."""

    def __init__(self, api: ApiClient, size: int, partitions: int) -> None:
        self._api = api
        self._size = size
        self._groups = [
            range(first, min(first + size, partitions)) for first in range(0, partitions, size)
        ]
        self._versions: dict[int, str] = {}

    async def create(self) -> None:
        for each in range(len(self._groups)):
            body = {**self._body(each), **self._spec(each)}
            made = await self._api.create(self._resource, NAMESPACE, body)
            self._versions[each] = made["metadata"]["resourceVersion"]

    async def write(self, round_number: int) -> None:
        """Write every state, as many objects at once as a controller has calls in flight."""
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def put(each: int) -> None:
            async with slots:
                states = [_state(number, round_number) for number in self._groups[each]]
                named = [
                    {"partition": number, **state}
                    for number, state in zip(self._groups[each], states, strict=True)
                ]
                status = states[0] if self._size == 1 else {"states": named}
                body = {**self._body(each), "status": status}
                body["metadata"]["resourceVersion"] = self._versions[each]
                done = await self._api.put(self._resource, NAMESPACE, body, subresource="status")
                self._versions[each] = done["metadata"]["resourceVersion"]

        await asyncio.gather(*(put(each) for each in range(len(self._groups))))

    @property
    def _resource(self) -> Resource:
        return PARTITIONS if self._size == 1 else SETS

    def _body(self, each: int) -> dict[str, Any]:
        kind = "Partition" if self._size == 1 else "PartitionSet"
        name = f"many-{each}" if self._size == 1 else f"many-{self._size}-{each}"
        return {
            "apiVersion": f"{objects.GROUP}/{objects.VERSION}",
            "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
        }

    def _spec(self, each: int) -> dict[str, Any]:
        if self._size > 1:
            return {}
        named = {"topicId": TOPIC_ID, "topicName": "many", "partition": each}
        return {"spec": {**named, "replicas": [0, 1, 2]}}


async def _measure(plane: ControlPlane, partitions: int, rounds: int) -> None:
    os.environ["KUBECONFIG"] = str(plane.kubeconfig)
    api = await ApiClient.open(KubernetesConfig(), field_manager="bench")
    try:
        ways = {size: _Way(api, size, partitions) for size in SIZES}
        for way in ways.values():
            await way.create()
            await way.write(0)
        found: dict[int, list[tuple[float, float, float]]] = {size: [] for size in SIZES}
        for number in range(1, rounds + 1):
            for size in SIZES if number % 2 else reversed(SIZES):
                found[size].append(await _timed(plane, ways[size], number))
    finally:
        await api.close()
    print(f"{partitions} partitions, medians of {rounds} rounds, {IN_FLIGHT} calls in flight")
    print(f"{'in one object':>14} {'seconds':>8} {'servers CPU s':>14} {'client CPU s':>13}")
    for size, values in found.items():
        wall, servers, client = (median(each) for each in zip(*values, strict=True))
        print(f"{size:>14} {wall:>8.2f} {servers:>14.2f} {client:>13.2f}")
    print(f"load {os.getloadavg()[0]:.2f}")


async def _timed(plane: ControlPlane, way: _Way, number: int) -> tuple[float, float, float]:
    usage, client = Usage(), time.process_time()
    await way.write(number)
    used = usage.since(brokers=pids_of(plane.folder), known=())
    return used.seconds, used.brokers, time.process_time() - client


if __name__ == "__main__":
    main()
