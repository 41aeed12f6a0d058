"""Faults for brokers in pods; `under_load` injects them and waits until they are over."""

from __future__ import annotations

from strandline.errors import StrandlineError

from .commands import CommandFailed
from .kubectl import Kubernetes


class NotRecovered(StrandlineError):
    """A cluster did not come back from a fault in time; names the fault and what is missing."""


def delete_pod(kubernetes: Kubernetes, broker: int) -> None:
    """Delete a broker's pod as `kubectl delete pod` does: it may hand its leaders over."""
    kubernetes.kubectl("delete", "pod", f"default-{broker}", "--wait=false")


def kill_broker(kubernetes: Kubernetes, broker: int) -> None:
    """Kill a broker's process with -9 from within its pod; process 1 is tini."""
    try:
        kubernetes.exec(
            f"default-{broker}",
            *("sh", "-c", "kill -9 $(cat /proc/1/task/1/children)"),
            container="broker",
        )
    except CommandFailed as error:
        # The shell may go down with the container before it has ended by itself.
        if "137" not in str(error):
            raise
