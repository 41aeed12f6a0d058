"""The states that the controller committed, as a watch of the Partitions saw them."""

from __future__ import annotations

import itertools
import json
import subprocess
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster
from tests.support.commands import programs

STOP_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A time out of the ISR: the first state without the replica, and the next one with it."""

    replica: int
    left: dict[str, Any]
    back: dict[str, Any]

    @property
    def left_ms(self) -> int:
        """When the first state without the replica was committed."""
        return changed_ms(self.left)

    @property
    def back_ms(self) -> int:
        """When the first state with the replica again was committed."""
        return changed_ms(self.back)

    def shown_by(self, partition_epoch: int) -> bool:
        """Tell whether a leader that works with this version of the partition lacks the replica."""
        return bool(self.left["partitionEpoch"] <= partition_epoch < self.back["partitionEpoch"])


@dataclass
class CommittedStates:
    """Every state of a partition that a watch saw."""

    states: list[dict[str, Any]] = field(default_factory=list)

    def elections(self) -> dict[int, tuple[int, int, int]]:
        """Return (old leader, new leader, time in ms) of each election, by leader epoch."""
        found = {}
        for before, after in itertools.pairwise(self.states):
            if after["leader"] >= 0 and after["leaderEpoch"] > before["leaderEpoch"]:
                epoch = after["leaderEpoch"]
                found[epoch] = (before["leader"], after["leader"], changed_ms(after))
        return found

    def unclean_epochs(self) -> set[int]:
        """Return the leader epochs whose leader was outside the ISR before."""
        return {
            after["leaderEpoch"]
            for before, after in itertools.pairwise(self.states)
            if after["leader"] >= 0
            and after["leaderEpoch"] > before["leaderEpoch"]
            and after["leader"] not in before["isr"]
        }

    def absences(self) -> list[Absence]:
        """Return every absence from the ISR that has ended, replica by replica, in order."""
        found = []
        for replica in sorted(self.states[0]["replicas"]):
            left = None
            for state in self.states:
                inside = replica in state["isr"]
                if not inside and left is None:
                    left = state
                if inside and left is not None:
                    found.append(Absence(replica=replica, left=left, back=state))
                    left = None
            assert left is None, f"{replica} has not come back: {left}"
        return found


class PartitionWatch:
    """Follows the Partitions of a namespace from its construction on."""

    def __init__(self, cluster: Cluster, namespace: str, output: Path) -> None:
        command = [
            *(str(programs() / "kubectl"), f"--kubeconfig={cluster.kubeconfig}", "get"),
            *("partitions", "-n", namespace, "--watch", "--output-watch-events", "-o", "json"),
        ]
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file)

    def stop(self) -> dict[int, CommittedStates]:
        """End the watch and return what it saw, by partition number."""
        self._process.terminate()
        self._process.wait(STOP_SECONDS)
        found: dict[int, CommittedStates] = {}
        decoder = json.JSONDecoder()
        text = self._output.read_text()
        position = 0
        while position < len(text.rstrip()):
            event, end = decoder.raw_decode(text, position)
            position = end + len(text[end:]) - len(text[end:].lstrip())
            status = event["object"].get("status")
            if status:
                number = event["object"]["spec"]["partition"]
                found.setdefault(number, CommittedStates()).states.append(status)
        return found


def changed_ms(state: dict[str, Any]) -> int:
    """Return when the controller committed a state."""
    return round(datetime.fromisoformat(state["changedAt"]).timestamp() * 1000)
