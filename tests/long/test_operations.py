"""The commands of docs/operations.md, as they stand there: the life of a cluster, under load.

It prints what each command printed and how long each part of the page took; the page's figures are
those of such a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strandline_cli import release
from strandline_cli.kubectl import Kubernetes
from strandline_cli.release import BROKERS
from tests.support.cluster import Cluster
from tests.support.commands import REPOSITORY, programs
from tests.support.documented import under
from tests.support.eventually import eventually
from tests.support.reader import VERSION, Reader

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

PAGE = "docs/operations.md"
NEXT = "0.2.0"
"""The version that the page upgrades to; here it is a second name of the same images."""
CLASS = "sized"
"""A storage class whose volumes are as large as they say, and grow."""
RECORDS = [str(number) for number in range(1, 101)]
LOOK_MS = 60_000
LISTED_MS = 120_000


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """Provide a reader on a cluster without definitions, and remove what a failed walk left."""
    kubernetes = Kubernetes(cluster.kubeconfig, release.RELEASE, programs())
    ours = (*release.DEFINITIONS, *release.POLICY, *release.ROLES)
    cluster.kubectl("delete", "--ignore-not-found", *ours)
    images = cluster.load_images("broker", "operator", "client")
    tag_of_the_brokers(cluster, images)
    yield Reader(tmp_path, cluster, images)
    release.remove(kubernetes)
    cluster.kubectl("delete", "--ignore-not-found", *ours)


def tag_of_the_brokers(cluster: Cluster, images: dict[str, str]) -> None:
    """Give the clients' image the tag of the brokers', as images have that are pushed together."""
    beside = images["broker"].replace("strandline-broker", "strandline-client")
    for node in cluster.nodes():
        cluster.tag_image(node, images["client"], beside)
    images["client"] = beside


def test_the_life_of_a_cluster_as_the_page_tells_it(reader: Reader, cluster: Cluster) -> None:
    kubernetes = Kubernetes(cluster.kubeconfig, release.RELEASE, programs())
    text = (REPOSITORY / PAGE).read_text()
    put_file(reader, text, "cluster.yaml")
    walk(reader, "Install")
    assert walk(reader, "Connect")[-2].split() == RECORDS

    before = pods_of(kubernetes)
    walk(reader, "Break")
    after = pods_of(kubernetes)
    assert after["default-1"] != before["default-1"]
    assert after["default-0"] == before["default-0"]
    listed, status, watched, broker, load, bundle = walk(reader, "Look")
    assert all("orders" in said for said in (listed, status, watched))
    assert "Broker 1 of cluster default" in broker
    assert "load load on cluster default" in load
    assert "logs/default-0.broker.log" in bundle

    walk(reader, "Change a setting of running brokers")
    assert pods_of(kubernetes) == after
    walk(reader, "Change a setting that needs a restart")
    rolled = pods_of(kubernetes)
    assert not set(rolled.values()) & set(after.values())
    walk(reader, "Grow volumes")
    assert pods_of(kubernetes) == rolled
    spread = walk(reader, "Add and remove brokers")[2]
    for number in (3, 4):
        assert re.search(rf"[\[,]{number}[,\]]", spread), "replicas on the new brokers"
    # The last pod may still be on its way out.
    eventually(lambda: pods_of(kubernetes) == rolled, LOOK_MS, "the three brokers as they were")

    newer = tagged(reader, cluster)
    reader.takes({**newer, "broker": reader.images["broker", VERSION]})
    reader.images["broker", NEXT] = newer["broker"]
    put_file(reader, text, "versions.yaml")
    walk(reader, "Upgrade the operator")
    assert pods_of(kubernetes) == rolled
    walk(reader, "Upgrade the brokers")
    assert images_of(kubernetes) == {newer["broker"]}
    walk(reader, "Roll back")
    assert images_of(kubernetes) == {reader.images["broker", VERSION]}

    heading = "Delete a topic and bring it back"
    deleted, *back = under(PAGE, heading)
    begin(reader, heading)
    reader.types(deleted)
    for line in back:
        eventually(partial(reader.types, line), LISTED_MS, line)
    shown = partial(reader.types, back[-1])
    eventually(lambda: shown().split() == RECORDS, LOOK_MS, "every record")

    verdict = walk(reader, "Uninstall")[0]
    print(verdict)
    assert "removed job.batch/load" in verdict
    for part, seconds in took(reader):
        print(f"{seconds:7.1f} s  {part}")


def walk(reader: Reader, heading: str) -> list[str]:
    """Type the commands under a heading, and return what they printed."""
    begin(reader, heading)
    said = [reader.types(line) for line in under(PAGE, heading) if "make push" not in line]
    print(*said, sep="\n")
    return said


def begin(reader: Reader, heading: str) -> None:
    """Let the commands that follow count for a heading."""
    reader.seconds.append((f"## {heading}", 0.0))


def took(reader: Reader) -> list[tuple[str, float]]:
    """Return how long the commands of each heading took together."""
    found: dict[str, float] = {}
    heading = ""
    for line, seconds in reader.seconds:
        heading = line if line.startswith("## ") else heading
        found[heading] = found.get(heading, 0.0) + seconds
    return list(found.items())


def put_file(reader: Reader, text: str, name: str) -> None:
    """Write a file whose text the page gives, with what it means here."""
    match = re.search(rf"^```yaml\n# {re.escape(name)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert match is not None, name
    meant = reader.meant(match[1]).replace("<class>", CLASS)
    (reader.folder / name).write_text(meant)


def tagged(reader: Reader, cluster: Cluster) -> dict[str, str]:
    """Give the images of broker and operator second names, which stand for another release."""
    newer = {name: f"{reader.images[name, VERSION]}-operations" for name in ("broker", "operator")}
    for node in cluster.nodes():
        for name, reference in newer.items():
            cluster.tag_image(node, reader.images[name, VERSION], reference)
    return newer


def broker_pods(kubernetes: Kubernetes) -> list[dict[str, Any]]:
    """Return the brokers' pods."""
    found = kubernetes.get("pods", "-l", "app.kubernetes.io/component=broker")["items"]
    assert len(found) == BROKERS
    return list(found)


def pods_of(kubernetes: Kubernetes) -> dict[str, str]:
    """Return the ids of the brokers' pods by name."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in broker_pods(kubernetes)}


def images_of(kubernetes: Kubernetes) -> set[str]:
    """Return the images of the brokers' pods."""
    return {each["spec"]["containers"][0]["image"] for each in broker_pods(kubernetes)}
