"""Faults for many minutes while a load sends as fast as it can; then the load itself judges.

`make test-long MINUTES=20` kills, pauses and cuts off brokers in pods, in turn. The load asks for
more records than the machine can take, and reads each one back at the offset that was acknowledged;
at its end the newest of them are compared with every replica's log.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from strandline_cli.kubectl import Kubernetes
from strandline_cli.running_load import look
from tests.support.cluster import Cluster
from tests.support.commands import programs, run
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name
from tests.support.observed_installation import Installation
from tests.support.pod_faults import PodFaults

MINUTES = float(os.environ.get("STRANDLINE_MIXTURE_MINUTES") or 20)
pytestmark = [pytest.mark.long, pytest.mark.timeout(MINUTES * 60 * 3 + 1_200)]

TOPIC, PARTITIONS = "flow", 24
RATE = 1_000
"""Records a second that the load asks for in each partition: the most that it offers."""
ACKED_LEAST = 500
"""Of all partitions in a second, on average over all faults, or the throughput was not full."""
CALM_SECONDS = 5
"""Of full throughput between two faults."""
LOAD_LIMIT_SECONDS = 900
"""For the end of a load: what it holds is sent, everything is read, and the newest is judged."""


class Flow:
    """The load, as the program of the project runs it in a pod."""

    def __init__(self, installation: Installation, image: str) -> None:
        self._on = Kubernetes(installation.cluster.kubeconfig, installation.namespace, programs())
        self._image = image

    def start(self) -> None:
        self._strandline(
            *("start", f"--topic={TOPIC}", f"--rate={RATE}", f"--image={self._image}"),
        )

    def summary(self) -> dict[str, Any]:
        """Return the figures so far; a load that has ended by itself fails the test at once."""
        seen = look(self._on, "load")
        if seen.exit_code is not None:
            pytest.fail(f"the load ended with exit code {seen.exit_code}: {seen.summary}")
        return seen.summary

    def wait_for_more(self, seconds: float) -> None:
        """Wait until the load has told of some more seconds, and of records in them."""
        before, begun = self.summary(), time.monotonic()

        def went_on() -> bool:
            return time.monotonic() - begun > seconds and self.summary()["acked"] > before["acked"]

        eventually(went_on, LOAD_LIMIT_SECONDS * 1000, "the load goes on")

    def stop(self) -> str:
        """End the load; fail if it or its judge found anything."""
        return self._strandline("stop")

    def _strandline(self, *words: str) -> str:
        where = (f"--kubeconfig={self._on.kubeconfig}", "-n", self._on.namespace)
        return run(
            [sys.executable, "-m", "strandline_cli", "load", *words, *where],
            env={"PATH": f"{programs()}:{os.environ['PATH']}"},
            limit_seconds=LOAD_LIMIT_SECONDS,
        )


@pytest.fixture
def installation(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """Provide brokers in pods with the topic."""
    namespace = namespace_name(request.node.name)
    cluster.create_restricted_namespace(namespace)
    made = Installation(cluster, namespace)
    try:
        made.install()
        made.stop_load()
        made.create_topic(TOPIC, PARTITIONS)
        yield made
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def test_nothing_is_lost_of_what_is_sent_as_fast_as_it_goes(installation: Installation) -> None:
    flow = Flow(installation, installation.cluster.load_images("client")["client"])
    flow.start()
    begun = time.monotonic()
    faults = PodFaults(installation, settle=lambda: flow.wait_for_more(CALM_SECONDS))
    flow.wait_for_more(CALM_SECONDS)

    def kill_and_delete() -> None:
        # A node's agent waits twice as long before each restart of one pod; a new pod begins anew.
        faults.delete_pod(faults.kill_controller())

    kinds = (kill_and_delete, faults.pause, faults.cut, faults.delete_leader)
    for fault in itertools.cycle(kinds):
        if time.monotonic() > begun + MINUTES * 60:
            break
        fault()
    seconds, before_its_end = time.monotonic() - begun, flow.summary()
    print(json.dumps(before_its_end)[:2_000], faults.written(), sep="\n")
    ended = flow.stop()
    print(ended)
    assert len(faults.log) > len(kinds)
    assert ACKED_LEAST * seconds < before_its_end["acked"] < RATE * PARTITIONS * seconds
    assert before_its_end["checked"] > 0
    assert before_its_end["failed"] == before_its_end["not_there"] == 0
    assert "lost 0, duplicated 0, out of order 0" in ended
    assert "not judged" not in ended
