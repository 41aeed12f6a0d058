"""Faults of brokers in pods, each written down with the times at which it began and was over.

Every fault waits until all replicas are in sync again, and then long enough for the rarest scrapes
to show it, so that two faults are not taken for one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tests.support.commands import CommandError
from tests.support.eventually import eventually
from tests.support.observed_installation import (
    ANALYSIS_NODE,
    BROKERS,
    SETTLED_WITHIN_MS,
    Installation,
    now_ms,
)
from tests.support.slow_disk import slow_disk

BYTES_PER_SECOND = 500
"""Of a slow disk: less than one fsync writes, so that each takes many seconds."""
LASTS_MS = 8_000
"""How long a cut and a pause go on after others lead: several scrapes at 1 s."""
SLOW_LASTS_MS = 20_000
"""How long a replica with a slow disk stays out of sync: longer than a scrape interval of 15 s."""
SLOW_WITHIN_MS = 90_000
"""Time until a follower with a slow disk has left the ISR; the lag time is 10 s."""
ROLLED_WITHIN_MS = 300_000


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One line of the log of faults."""

    name: str
    broker: int | None
    """None if it was all of them, one after the other."""
    at_ms: int
    healed_ms: int
    """When every replica was in sync again."""
    lost_leader: bool
    """Whether a partition lost its leader to it."""

    @property
    def told(self) -> dict[str, Any]:
        """Return the fault as the chart's analysis.faults takes it."""
        given = {"name": self.name, "atMs": self.at_ms}
        return given if self.broker is None else {**given, "brokerId": self.broker}


class PodFaults:
    """Breaks an installation, and keeps the log of it."""

    def __init__(self, installation: Installation, *, settle: Callable[[], None]) -> None:
        self._on = installation
        self._settle = settle
        self.log: list[Fault] = []

    def written(self) -> str:
        """Return the log as JSON."""
        return json.dumps([asdict(fault) for fault in self.log], indent=2)

    def cut(self) -> None:
        """Pull the cable of a leader's node, on which neither the API server nor a scraper is."""
        broker = self._leader(besides_nodes=("control", ANALYSIS_NODE))
        node, cluster = self._node_of(broker), self._on.cluster

        @contextmanager
        def cable_out() -> Iterator[None]:
            cluster.node("cut", node)
            try:
                yield
            finally:
                cluster.node("heal", node)

        self._while_gone("cut", broker, cable_out())

    def pause(self) -> None:
        """Stop a leader's process for a while."""
        broker = self._leader()

        @contextmanager
        def stopped() -> Iterator[None]:
            self._on.signal(broker, "SIGSTOP")
            try:
                yield
            finally:
                self._on.signal(broker, "SIGCONT")

        self._while_gone("pause", broker, stopped())

    def delete_leader(self) -> None:
        """Delete a leader's pod, as `make demo` does."""
        self.delete_pod(self._leader())

    def delete_pod(self, broker: int) -> None:
        """Delete a broker's pod, and wait for the next one of its name."""
        led, at_ms, before = self._led_by(broker), now_ms(), self._pods()
        self._on.delete_pod(broker)
        self._wait_moved(broker, "deleted pod")
        eventually(
            lambda: self._pods() - before, SETTLED_WITHIN_MS, "next pod", retry_on=(CommandError,)
        )
        self._note("delete the pod", broker, at_ms, lost_leader=led > 0)

    def kill_controller(self) -> int:
        """Kill the controller's process, as `make demo` does; return which broker that was."""
        broker, at_ms = self._on.controller(), now_ms()
        led = self._led_by(broker)
        self._on.signal(broker, "SIGKILL")
        self._wait_moved(broker, "killed controller")
        self._note("kill the controller", broker, at_ms, lost_leader=led > 0)
        return broker

    def slow_disk(self) -> None:
        """Let the disk of the broker that leads least be slow until it has left every ISR."""
        broker = min(range(BROKERS), key=lambda each: (self._led_by(each), each))
        at_ms, pod = now_ms(), f"default-{broker}"

        def out() -> bool:
            return all(
                broker not in s["isr"] or s["leader"] == broker for s in self._on.partitions()
            )

        bounded = slow_disk(
            self._on.cluster, self._on.namespace, pod, bytes_per_second=BYTES_PER_SECOND
        )
        with bounded:
            mistaken = (CommandError,)
            eventually(out, SLOW_WITHIN_MS, f"broker {broker} leaves ISRs", retry_on=mistaken)
            self._on.wait_scrapes(after_ms=now_ms() + SLOW_LASTS_MS)
        self._note("slow disk", broker, at_ms, lost_leader=False)

    def rolling_restart(self) -> None:
        """Change a setting for which every broker begins anew, one after the other."""
        before, at_ms = self._pods(), now_ms()
        patch = json.dumps({"spec": {"config": {"replicaLagTimeMaxMs": 11_000}}})
        self._on.cluster.kubectl(
            *("patch", "brokercluster/default", "-n", self._on.namespace),
            *("--type=merge", f"--patch={patch}"),
        )
        eventually(
            lambda: not self._pods() & before and self._on.in_sync(),
            ROLLED_WITHIN_MS,
            "every broker has begun anew",
            retry_on=(CommandError,),
        )
        self._note("rolling restart", None, at_ms, lost_leader=True)

    def _while_gone(self, name: str, broker: int, gone: AbstractContextManager[None]) -> None:
        at_ms = now_ms()
        with gone:
            self._wait_moved(broker, name)
            since_ms = now_ms()
            eventually(lambda: now_ms() > since_ms + LASTS_MS, 2 * LASTS_MS, f"{name} lasts")
        self._note(name, broker, at_ms, lost_leader=True)

    def _wait_moved(self, broker: int, what: str) -> None:
        def moved() -> bool:
            return all(state["leader"] not in {broker, -1} for state in self._on.partitions())

        eventually(moved, SETTLED_WITHIN_MS, f"others lead: {what}", retry_on=(CommandError,))

    def _note(self, name: str, broker: int | None, at_ms: int, *, lost_leader: bool) -> None:
        mistaken = (CommandError,)
        eventually(self._on.in_sync, SETTLED_WITHIN_MS, f"in sync: {name}", retry_on=mistaken)
        self.log.append(
            Fault(
                name=name, broker=broker, at_ms=at_ms, healed_ms=now_ms(), lost_leader=lost_leader
            )
        )
        print(self.log[-1], flush=True)
        self._settle()

    def _led_by(self, broker: int) -> int:
        return sum(state["leader"] == broker for state in self._on.partitions())

    def _leader(self, *, besides_nodes: tuple[str, ...] = ()) -> int:
        """Return a leader on none of these nodes, and not the controller if there is another."""
        controller = self._on.controller()
        leaders = {int(state["leader"]) for state in self._on.partitions()}
        fit = [each for each in leaders if self._node_of(each) not in besides_nodes]
        return min(fit, key=lambda each: (each == controller, each))

    def _node_of(self, broker: int) -> str:
        pod = self._on.cluster.get(f"pod/default-{broker}", "-n", self._on.namespace)
        return str(pod["spec"]["nodeName"])

    def _pods(self) -> set[str]:
        found = (
            self._on.cluster.get(f"pod/default-{broker}", "-n", self._on.namespace)
            for broker in range(BROKERS)
        )
        return {pod["metadata"]["uid"] for pod in found}
