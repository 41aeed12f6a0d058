"""Mixed faults for many minutes, under load and with a real operator; then the judge decides.

`make test-long MINUTES=20 SEED=1` draws faults from a seed: kills of one, two and three brokers,
pauses, an API server that freezes or dies, full disks, and `kubectl delete` of each kind of object.
After each fault every partition must take records again and every ISR must be full again.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.load import RATE, LoadProcess, settled_verdict
from tests.support.volumes import mounted_tmpfs

MINUTES = float(os.environ.get("STRANDLINE_MIXTURE_MINUTES") or 20)
SEED = int(os.environ.get("STRANDLINE_MIXTURE_SEED") or time.time_ns() % 1_000_000)

pytestmark = [pytest.mark.long, pytest.mark.timeout(MINUTES * 60 * 3 + 600)]

CLUSTER = objects.CLUSTER
TOPIC, OTHER_TOPIC = "orders", "scratch"
PARTITIONS = 3
VOLUME = "size=512m"
HEALED_LIMIT_MS = 90_000
"""Bound of the time until every ISR is full after a fault: kills, then a start of three brokers."""
ENDLESS_SECONDS = 4 * 3600
BALLAST_CHUNK = bytes(1 << 20)
LOG_LINES = 150
"""Of each log, the lines that are shown when a fault did not heal."""
LEFT_ALONE_SECONDS = 2
"""How long the cluster runs without faults between two of them."""


class Mixture:
    """The faults; each returns when its harm has ended, and is counted by its name."""

    def __init__(self, group: BrokerGroup, operator: OperatorProcess, load: LoadProcess) -> None:
        self.group = group
        self.operator = operator
        self.load = load
        self.random = random.Random(SEED)
        self.counts: Counter[str] = Counter()
        self.faults: dict[str, Callable[[], None]] = {
            "kill": lambda: self.kill(1),
            "double kill": lambda: self.kill(2),
            "kill of all": lambda: self.kill(3),
            "pause": self.pause,
            "orderly stop": self.stop,
            "frozen API server": self.freeze_api,
            "killed API server": self.kill_api,
            "killed operator": self.kill_operator,
            "full disk": lambda: self.fill(1),
            "all disks full": lambda: self.fill(3),
            **{f"delete {kind}": self._deletion(kind) for kind in self._names()},
        }

    def _names(self) -> dict[str, list[str]]:
        return {
            "partition": [f"{TOPIC}-{number}" for number in range(PARTITIONS)],
            "broker": [f"{CLUSTER}-{number}" for number in range(3)],
            "lease": [f"{CLUSTER}-controller", *(f"{CLUSTER}-broker-{n}" for n in range(3))],
            "statefulset": [f"{CLUSTER}"],
            "service": [f"{CLUSTER}-brokers", f"{CLUSTER}-bootstrap"],
            "poddisruptionbudget": [f"{CLUSTER}"],
            "configmap": self._config_maps(),
            "brokercluster": [f"{CLUSTER}"],
            "replicatedtopic": [OTHER_TOPIC],
        }

    def _config_maps(self) -> list[str]:
        names = self.operator.kubectl("get", "configmaps", "--output=name").split()
        prefix = f"configmap/{CLUSTER}-config-"
        return [name.removeprefix("configmap/") for name in names if name.startswith(prefix)]

    def wait_seconds(self, seconds: int) -> None:
        """Let the load run for some seconds: it reports once a second."""
        self.load.wait_reports(len(self.load.reports()) + seconds)

    def some_brokers(self, count: int) -> list[int]:
        return sorted(self.random.sample(range(3), count))

    def kill(self, count: int) -> None:
        """Kill brokers at once, and start them again a little later."""
        for broker in self.some_brokers(count):
            self.group.brokers[broker].kill()
        self.wait_seconds(self.random.randrange(4))
        self.group.start()

    def pause(self) -> None:
        """Freeze a broker for longer or shorter than its session lasts."""
        broker = self.group.brokers[self.some_brokers(1)[0]]
        broker.freeze()
        self.wait_seconds(self.random.randrange(1, 8))
        broker.thaw()

    def stop(self) -> None:
        """Stop a broker in order, and start it again."""
        assert self.group.brokers[self.some_brokers(1)[0]].stop() == 0
        self.group.start()

    def freeze_api(self) -> None:
        """Let the API server answer no request for a while."""
        self.group.control_plane.freeze_api()
        self.wait_seconds(self.random.randrange(2, 15))
        self.group.control_plane.thaw_api()

    def kill_api(self) -> None:
        """Kill the API server, and a broker while there is none."""
        self.group.control_plane.kill_api()
        if self.random.random() < 0.5:
            self.group.brokers[self.some_brokers(1)[0]].kill()
        self.wait_seconds(self.random.randrange(1, 6))
        self.group.control_plane.start_api()
        self.group.start()

    def kill_operator(self) -> None:
        """Kill the operator, and start it again."""
        self.operator.kill()
        self.operator.start()

    def fill(self, count: int) -> None:
        """Fill the volumes of brokers for a while."""
        ballasts = [self.group.brokers[b].data_dir / "ballast" for b in self.some_brokers(count)]
        for ballast in ballasts:
            with ballast.open("wb", buffering=0) as file:
                try:
                    while file.write(BALLAST_CHUNK) == len(BALLAST_CHUNK):
                        pass
                except OSError:
                    continue
        self.wait_seconds(self.random.randrange(2, 10))
        for ballast in ballasts:
            ballast.unlink()

    def _deletion(self, kind: str) -> Callable[[], None]:
        def delete() -> None:
            name = self.random.choice(self._names()[kind])
            self.operator.kubectl("delete", kind, name, "--wait=false", "--ignore-not-found")
            apply_objects(self.operator)

        return delete

    def run_one(self) -> None:
        """Inject one fault, each kind once before any comes again, and wait until it has healed."""
        least = min(self.counts[name] for name in self.faults)
        name = self.random.choice([n for n in self.faults if self.counts[n] == least])
        begun = time.monotonic()
        self.faults[name]()
        self.counts[name] += 1
        if not self.operator.runs():
            print("the operator ended by itself, and starts again as in a pod", flush=True)
            self.operator.start()
        for broker in self.group.brokers:
            if not broker.runs():
                # Kubernetes starts a pod's container again.
                broker.start()
        try:
            self.load.wait_for_acks(RATE // 2, within_ms=HEALED_LIMIT_MS)
            eventually(
                self._is_full, HEALED_LIMIT_MS, "full ISRs", retry_on=(AssertionError, CommandError)
            )
        except AssertionError:
            print(f"{name:<24} NOT healed\n{self._picture()}", flush=True)
            raise
        print(f"{name:<24} healed after {time.monotonic() - begun:5.1f} s", flush=True)
        self.wait_seconds(LEFT_ALONE_SECONDS)

    def _picture(self) -> str:
        """Return what there is, and the ends of all logs: their folder may be gone later."""
        kinds = "partitions,replicatedtopics,brokerclusters,brokers,leases"
        logs = [self.operator.log, *(broker.log_path() for broker in self.group.brokers)]
        ends = [f"{log}\n" + "\n".join(log.read_text().splitlines()[-LOG_LINES:]) for log in logs]
        objects_now = self.operator.kubectl("get", kinds, "--output=yaml")
        return "\n".join([objects_now, f"operator runs: {self.operator.runs()}", *ends])

    def _is_full(self) -> bool:
        for status in self.group.partitions(TOPIC, PARTITIONS):
            assert status.get("leader", -1) >= 0, status
            assert sorted(status["isr"]) == sorted(status["replicas"]), status
        return True


def apply_objects(operator: OperatorProcess) -> None:
    """Apply what a person applies: the cluster, the topic under load, and one that is deleted."""
    operator.plane.apply([objects.cluster(operator.namespace)])
    for name in (TOPIC, OTHER_TOPIC):
        spec = {"partitions": PARTITIONS, "replicationFactor": 3}
        operator.plane.apply([objects.topic(operator.namespace, name, **spec)])


@pytest.fixture
def mixture(tmp_path: Path) -> Iterator[Mixture]:
    """Provide brokers on volumes of their own, an operator, and a load, all on one API server."""
    with ExitStack() as stack:
        plane = ControlPlane.start(tmp_path / "control-plane")
        stack.callback(plane.stop)
        stack.callback(plane.thaw_api)
        objects.install_crds(plane)
        plane.kubectl("create", "namespace", "mixture")
        operator = OperatorProcess(plane, "mixture", tmp_path)
        operator.start()
        stack.callback(operator.kill)
        apply_objects(operator)
        kubeconfig = objects.broker_account(plane, "mixture")
        operator.wait_for("Brokers", lambda: operator.get("broker", f"{CLUSTER}-2"))
        group = BrokerGroup(tmp_path, plane, "mixture", kubeconfig=kubeconfig, has_operator=True)
        stack.callback(group.stop)
        for broker in group.brokers:
            broker.data_dir.parent.mkdir(exist_ok=True)
            stack.enter_context(mounted_tmpfs(broker.data_dir, VOLUME))
        group.start()
        group.wait_full_isr(TOPIC, PARTITIONS, HEALED_LIMIT_MS)
        load = LoadProcess(group, TOPIC, PARTITIONS, seconds=ENDLESS_SECONDS)
        yield Mixture(group, operator, load)


def test_nothing_acknowledged_is_lost_in_a_mixture_of_faults(mixture: Mixture) -> None:
    print(f"\n{MINUTES} minutes of faults drawn from seed {SEED}", flush=True)
    end = time.monotonic() + MINUTES * 60
    while time.monotonic() < end:
        mixture.run_one()
    history = mixture.load.stop()
    verdict = settled_verdict(mixture.group, TOPIC, PARTITIONS, history, HEALED_LIMIT_MS)
    print(f"{dict(mixture.counts)}\n{verdict}", flush=True)
    assert verdict.is_valid, verdict
    assert verdict.acked >= RATE * MINUTES * 60 / 2, verdict
    for broker in mixture.group.brokers:
        broker.check_log()
