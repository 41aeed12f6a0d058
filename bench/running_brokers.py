"""Broker processes over a real API server, without nodes: what the parts of the bench start.

These parts measure the work of one broker: its topics have one replica, because replication would
only add the noise of more processes. The folder is removed at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.control_plane import ControlPlane

NAMESPACE = "bench"


@contextmanager
def running_brokers(folder: Path | None, count: int) -> Iterator[BrokerGroup]:
    """Provide a group of so many brokers, with their files below a folder on this machine."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=folder) as made:
        plane = ControlPlane.start(Path(made) / "control-plane")
        try:
            objects.install_crds(plane)
            plane.kubectl("create", "namespace", NAMESPACE)
            group = BrokerGroup(
                Path(made),
                plane,
                NAMESPACE,
                brokers=count,
                kubeconfig=objects.broker_account(plane, NAMESPACE),
            )
            try:
                group.start()
                yield group
            finally:
                group.stop()
        finally:
            plane.stop()


def create_topic(
    group: BrokerGroup, name: str, *, broker: int, partitions: int, segment_bytes: int
) -> None:
    """Create a topic whose partitions have one replica, on a broker."""
    group.create_topic(
        name,
        partitions=partitions,
        min_insync_replicas=1,
        assignments=[[broker]] * partitions,
        config={"segmentBytes": segment_bytes},
    )
    group.wait_full_isr(name, partitions)
