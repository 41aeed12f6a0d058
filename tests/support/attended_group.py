"""Real brokers and a real operator, which makes their objects, over one real API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strandline_cli.kubectl import Kubernetes
from tests.reconcile.conftest import OperatorProcess
from tests.support import strandline_objects as objects
from tests.support.broker_group import FAULT_LIMIT_MS, FORMED_LIMIT_MS, BrokerGroup
from tests.support.commands import CommandError, programs
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually

PARTITIONS = 3
COLLECTED_LIMIT_MS = 90_000
"""The garbage collector looks for new definitions each 30 s."""
BROKERS = 3
"""As many as `strandline_objects.cluster` has."""


class AttendedGroup:
    """Running brokers of a namespace of their own, and the operator of that namespace.

    There may be more brokers than the cluster has at first; a test starts these itself.
    """

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        folder: Path,
        settings: dict[str, object] | None = None,
        *,
        brokers: int = BROKERS,
    ) -> None:
        self.plane = plane
        self.namespace = namespace
        self.operator = OperatorProcess(plane, namespace, folder)
        plane.apply([objects.cluster(namespace)])
        account = objects.broker_account(plane, namespace)
        self.group = BrokerGroup(
            folder,
            plane,
            namespace,
            brokers=brokers,
            kubeconfig=account,
            settings=settings,
            has_operator=True,
        )
        self.kubernetes = Kubernetes(plane.kubeconfig, namespace, programs())

    def start(self) -> None:
        """Start the operator, then the brokers; wait until all serve clients."""
        self.operator.start()
        self.start_brokers(BROKERS)

    def start_brokers(self, count: int) -> None:
        """Start the first brokers that do not run, as kubelets do with their pods."""
        last = f"{objects.CLUSTER}-{count - 1}"
        self.wait_for(lambda: self.operator.get("broker", last), "Brokers")
        started = [broker for broker in self.group.brokers[:count] if not broker.runs()]
        for broker in started:
            broker.start()
        for broker in started:
            self.group.wait_ready(broker)

    def replace_pods(self) -> None:
        """Give all brokers new processes, as a StatefulSet that went with its owner gets new pods.

        The ServiceAccount went, too, and tokens of the former one are void.
        """
        cluster, account = objects.CLUSTER, f"{objects.CLUSTER}-broker"
        uid = self.group.get("brokerclusters", cluster)["metadata"]["uid"]

        def is_owned() -> bool:
            metadata = self.group.get("serviceaccount", account)["metadata"]
            assert [each["uid"] for each in metadata["ownerReferences"]] == [uid]
            return "deletionTimestamp" not in metadata

        what = f"ServiceAccount {account} of the new BrokerCluster"
        self.wait_for(is_owned, what, COLLECTED_LIMIT_MS)
        self.plane.service_account_kubeconfig(self.namespace, account)
        for broker in self.group.brokers:
            broker.kill()
        self.group.start()

    def stop(self) -> None:
        """End everything."""
        self.operator.kill()
        self.group.stop()

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace as administrator."""
        return self.operator.kubectl(*args, stdin=stdin)

    def create_topic(self, name: str, **spec: Any) -> str:
        """Create a topic of three partitions, as a user does; return its id once it is Ready."""
        wanted = {"partitions": PARTITIONS, **spec}
        self.plane.apply(objects.topic(self.namespace, name, **wanted))
        self.wait_topic_ready(name)
        return self.group.topic_id(name)

    def wait_topic_ready(self, name: str, within_ms: int = FORMED_LIMIT_MS) -> None:
        """Wait until the topic's condition Ready is true and every ISR is full."""
        self.wait_for(lambda: self.condition(name)["status"] == "True", f"{name} Ready", within_ms)
        count = int(self.group.get("replicatedtopics", name)["spec"]["partitions"])
        self.group.wait_full_isr(name, count, within_ms)

    def condition(self, name: str) -> dict[str, Any]:
        """Return a topic's condition Ready; it must be about the present spec."""
        found = self.group.get("replicatedtopics", name)
        conditions = found.get("status", {}).get("conditions", [])
        ready = [each for each in conditions if each["type"] == "Ready"]
        assert ready, f"{name} has no condition Ready"
        only: dict[str, Any] = ready[0]
        return only

    def wait_for(self, condition: Any, what: str, within_ms: int = FAULT_LIMIT_MS) -> Any:
        """Return the condition's first truthy result; a missing field counts as not yet."""
        not_yet = (AssertionError, CommandError, KeyError)
        return eventually(condition, within_ms, what, retry_on=not_yet)
