"""`strandline report` of real objects: whole as an administrator, in part with few rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.commands import programs

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

TOPIC = "reported"
PASSWORD = "correct-horse"


def pod(name: str, **labels: str) -> dict[str, Any]:
    """Return a pod that no node runs, with a password in a variable."""
    container = {
        "name": "broker",
        "image": "example.com/broker",
        "env": [{"name": "PASSWORD", "value": PASSWORD}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container]},
    }


@pytest.fixture
def reported(group: BrokerGroup) -> BrokerGroup:
    """Provide brokers, a topic, a pod of ours, a stranger's pod, and a Secret."""
    group.create_topic(TOPIC)
    group.wait_full_isr(TOPIC)
    plane, namespace = group.control_plane, group.namespace
    for each in (pod("ours", **{"strandline.dev/cluster": objects.CLUSTER}), pod("stranger")):
        each["metadata"]["namespace"] = namespace
        plane.apply(each)
    metadata = {"name": "kept", "namespace": namespace}
    plane.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "stringData": {"p": PASSWORD},
        }
    )
    return group


def reader_of(group: BrokerGroup) -> Path:
    """Make a ServiceAccount that may read our kinds alone; return its kubeconfig."""
    plane, namespace = group.control_plane, group.namespace
    metadata = {"name": "reader", "namespace": namespace}
    kinds = ["brokerclusters", "brokers", "partitions", "replicatedtopics"]
    rule = {"apiGroups": ["strandline.dev"], "resources": kinds, "verbs": ["get", "list"]}
    api = "rbac.authorization.k8s.io"
    plane.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": f"{api}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": api, "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", **metadata}],
            },
        ]
    )
    return plane.service_account_kubeconfig(namespace, "reader")


def report(
    group: BrokerGroup, kubeconfig: Path, folder: Path
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run the program; return what it printed, and the files of its bundle."""
    path = folder / "bundle.tar.gz"
    where = [f"--kubeconfig={kubeconfig}", "-n", group.namespace, f"--out={path}"]
    done = subprocess.run(
        [sys.executable, "-m", "strandline_cli", "report", *where],
        env={**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert path.stat().st_mode & 0o077 == 0
    with tarfile.open(path) as archive:
        files = ((each.name, archive.extractfile(each)) for each in archive)
        return done, {name: file.read().decode() for name, file in files if file is not None}


def test_a_bundle_has_the_objects_and_no_secret(reported: BrokerGroup, tmp_path: Path) -> None:
    done, files = report(reported, reported.control_plane.kubeconfig, tmp_path)
    assert files["bundle/index.txt"] + f"written to {tmp_path}/bundle.tar.gz: " in done.stdout
    names = {
        kind: [
            each["metadata"]["name"] for each in json.loads(files[f"bundle/objects/{kind}.json"])
        ]
        for kind in ("partitions.strandline.dev", "brokers.strandline.dev", "pods", "leases")
    }
    assert names == {
        "partitions.strandline.dev": [f"{TOPIC}-0"],
        "brokers.strandline.dev": [f"{objects.CLUSTER}-{number}" for number in range(3)],
        "pods": ["ours"],
        "leases": [f"{objects.CLUSTER}-controller"],
    }
    assert "serverVersion" in files["bundle/versions.txt"]
    assert PASSWORD not in "".join(files.values())
    # No node runs here, so a log is empty and metrics cannot be had, and the index says so.
    index = files["bundle/index.txt"]
    assert "logs/ours.broker.log: 0 bytes" in index
    assert f"metrics/{objects.CLUSTER}-0.txt: not to be had: " in index


def test_with_few_rights_the_rest_is_a_line_of_the_index(
    reported: BrokerGroup, tmp_path: Path
) -> None:
    _, files = report(reported, reader_of(reported), tmp_path)
    assert f"{TOPIC}-0" in files["bundle/objects/partitions.strandline.dev.json"]
    assert "bundle/objects/pods.json" not in files
    index = files["bundle/index.txt"]
    assert "objects/pods.json: not to be had: " in index
    assert "\nlogs: not to be had: " in index
    assert "is forbidden" in index
