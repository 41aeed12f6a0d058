"""Spark's settings for a driver in a Job's pod and executors in pods of the same image.

Called by `session`; needs no Spark. The chart says how many executors and how large, in a file;
Kubernetes says which pod this is, by environment. Every object that Spark makes is a pod that
belongs to the driver's pod, so that Kubernetes deletes what an ended driver left: no Service, no
ConfigMap and no volume claim is made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MASTER: Final = "k8s://https://kubernetes.default.svc"
DRIVER_PORT: Final = 7078
"""Executors ask the driver for tasks at it; the chart's NetworkPolicy names it too."""
BLOCK_PORT: Final = 7079
"""Driver and executors fetch tables from each other at it; as above."""


class ExecutorsInvalid(ValueError):
    """The file about executors cannot be read, or the process is in no pod that could have any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors:
    """What the chart says of executors."""

    count: int
    cores: int
    cpu_request: str
    memory_mib: int
    """Java's heap."""
    overhead_mib: int
    """Memory of a pod beside the heap: Java itself, Python and Arrow."""
    image: str
    pull_policy: str
    template: str
    """File with the pod that Spark completes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPod:
    """The pod of this process."""

    name: str
    namespace: str
    address: str


def read_executors(path: Path) -> Executors:
    """Return what a file of the chart says.

    Raises:  ExecutorsInvalid
    """
    try:
        return Executors(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ExecutorsInvalid(f"{path} does not describe executors: {error}") from error


def driver_pod(environment: Mapping[str, str] = os.environ) -> DriverPod:
    """Return the pod that the chart's environment names.

    Raises:  ExecutorsInvalid
    """
    try:
        return DriverPod(
            name=environment["POD_NAME"],
            namespace=environment["POD_NAMESPACE"],
            address=environment["POD_IP"],
        )
    except KeyError as error:
        sentence = f"executors need a driver in a pod of the chart; {error.args[0]} is not set"
        raise ExecutorsInvalid(sentence) from error


def settings(executors: Executors, pod: DriverPod) -> dict[str, str]:
    """Return the settings of Spark beside those of every session."""
    return {
        "spark.driver.host": pod.address,
        "spark.driver.bindAddress": pod.address,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_PORT),
        "spark.blockManager.port": str(BLOCK_PORT),
        # Whoever reaches the driver's port could run code in it. Spark draws a secret for each run.
        "spark.authenticate": "true",
        "spark.executor.instances": str(executors.count),
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": f"{executors.memory_mib}m",
        "spark.executor.memoryOverhead": f"{executors.overhead_mib}m",
        "spark.kubernetes.namespace": pod.namespace,
        # Executors belong to this pod and go with it.
        "spark.kubernetes.driver.pod.name": pod.name,
        "spark.kubernetes.executor.podNamePrefix": pod.name,
        "spark.kubernetes.executor.podTemplateFile": executors.template,
        "spark.kubernetes.executor.container.image": executors.image,
        "spark.kubernetes.container.image.pullPolicy": executors.pull_policy,
        "spark.kubernetes.executor.request.cores": executors.cpu_request,
        # Executors need no file of the driver's, and an object less is one less to leave behind.
        "spark.kubernetes.executor.disableConfigMap": "true",
        # There is none, and with these Spark would ask for the right to delete them.
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    }
