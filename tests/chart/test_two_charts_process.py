"""Helm on a real API server: the chart of the definitions, and what it takes over."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline_cli import release
from strandline_cli.kubectl import Kubernetes
from tests.support import strandline_objects as objects
from tests.support.commands import REPOSITORY, CommandError, programs
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name
from tests.support.strandline_objects import CHART, CRDS_CHART

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

OWNER = "meta.helm.sh/release-name"


def by_the_demo(kubernetes: Kubernetes) -> None:
    release.install_definitions(REPOSITORY, kubernetes)


def by_a_person(kubernetes: Kubernetes) -> None:
    chart = (release.DEFINITIONS_RELEASE, str(CRDS_CHART))
    kubernetes.helm("upgrade", "--install", *chart, "--take-ownership")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Provide a control plane of this file alone, because definitions belong to all namespaces."""
    started = ControlPlane.start(tmp_path_factory.mktemp("two-charts") / "state")
    yield started
    started.stop()


@pytest.fixture
def kubernetes(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubernetes]:
    """Provide a fresh namespace on a control plane without our definitions."""
    namespace = namespace_name(request.node.name)
    plane.kubectl("create", "namespace", namespace)
    found = Kubernetes(plane.kubeconfig, namespace, programs())
    yield found
    plane.kubectl("delete", "--ignore-not-found", *release.POLICY, *release.ROLES)
    if plane.kubectl("get", "--ignore-not-found", *release.DEFINITIONS):
        # A kind that nobody has listed has no storage yet. Its deletion then fails ("storage is
        # (re)initializing"), and may wait for the API server's resync, 5 minutes later.
        plane.kubectl("get", ",".join(release.KINDS), "--all-namespaces")
        plane.kubectl("delete", *release.DEFINITIONS)
    plane.kubectl("delete", "namespace", namespace, "--wait=false")


def single_chart(folder: Path) -> Path:
    """Make a chart that is called strandline and brings the definitions, as the former one did."""
    former = folder / "strandline"
    shutil.copytree(CRDS_CHART, former)
    about = former / "Chart.yaml"
    about.write_text(about.read_text().replace("name: strandline-crds", "name: strandline"))
    return former


def owners(kubernetes: Kubernetes) -> set[str]:
    found = [kubernetes.get(each)["metadata"] for each in (*release.DEFINITIONS, *release.POLICY)]
    return {each["annotations"][OWNER] for each in found}


def uids(kubernetes: Kubernetes) -> list[str]:
    return [kubernetes.get(each)["metadata"]["uid"] for each in release.DEFINITIONS]


def test_the_demo_installs_the_definitions_first_and_again(kubernetes: Kubernetes) -> None:
    release.install_definitions(REPOSITORY, kubernetes)
    first = uids(kubernetes)
    kubernetes.apply(objects.topic(kubernetes.namespace, "orders"))
    release.install_definitions(REPOSITORY, kubernetes)
    assert uids(kubernetes) == first
    assert owners(kubernetes) == {release.DEFINITIONS_RELEASE}


@pytest.mark.parametrize("keep", ["true", "false"])
@pytest.mark.parametrize("take_over", [by_the_demo, by_a_person])
def test_topics_outlive_the_upgrade_from_the_single_chart(
    kubernetes: Kubernetes, tmp_path: Path, take_over: Callable[[Kubernetes], None], keep: str
) -> None:
    single = str(single_chart(tmp_path))
    kubernetes.helm("install", release.RELEASE, single, f"--set=keep={keep}")
    assert owners(kubernetes) == {release.RELEASE}
    kubernetes.kubectl("wait", "--for=condition=Established", *release.DEFINITIONS)
    kubernetes.apply(objects.topic(kubernetes.namespace, "orders"))
    before = kubernetes.get("rtopic", "orders")["metadata"]["uid"]

    take_over(kubernetes)
    images = release.image_values({"broker": "b:v1", "operator": "o:v1"}, "broker", "operator")
    kubernetes.helm("upgrade", release.RELEASE, str(CHART), *(f"--set={each}" for each in images))

    assert owners(kubernetes) == {release.DEFINITIONS_RELEASE}
    assert kubernetes.get("rtopic", "orders")["metadata"]["uid"] == before


def test_an_editor_creates_a_topic_and_a_viewer_reads_it(
    plane: ControlPlane, kubernetes: Kubernetes
) -> None:
    release.install_definitions(REPOSITORY, kubernetes)
    namespace = kubernetes.namespace
    people = {role: f"{role}@example.com" for role in ("view", "edit", "admin")}
    for role, person in people.items():
        binding = ("create", "rolebinding", role, f"--clusterrole={role}", f"--user={person}")
        plane.kubectl(*binding, "-n", namespace)

    def may(role: str, verb: str, what: str) -> bool:
        asked = ("auth", "can-i", verb, f"{what}.strandline.dev", "-n", namespace)
        try:
            return plane.kubectl(*asked, f"--as={people[role]}").strip() == "yes"
        except CommandError:
            return False

    # The controller that aggregates ClusterRoles works behind the install.
    eventually(lambda: may("edit", "create", "replicatedtopics"), 30_000, "edit")
    eventually(lambda: may("view", "list", "partitions"), 30_000, "view")
    eventually(lambda: may("admin", "patch", "partitions"), 30_000, "admin")
    assert not may("view", "create", "replicatedtopics")
    assert not may("edit", "patch", "partitions")
    assert not may("admin", "create", "partitions")
    topic = json.dumps(objects.topic(namespace, "orders"))
    plane.kubectl("create", f"--as={people['edit']}", "-f", "-", stdin=topic)
    plane.kubectl("get", f"--as={people['view']}", "-n", namespace, "rtopic", "orders")


def test_removed_definitions_take_their_policy_and_roles_with_them(kubernetes: Kubernetes) -> None:
    release.install_definitions(REPOSITORY, kubernetes)
    release.remove_definitions(kubernetes)
    for each in (*release.DEFINITIONS, *release.POLICY, *release.ROLES):
        assert kubernetes.kubectl("get", each, "--ignore-not-found") == ""
