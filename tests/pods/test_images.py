"""The demo reports which images the nodes cannot pull, before it installs anything."""

from __future__ import annotations

import re

import pytest

from strandline_cli.kubectl import Kubernetes
from strandline_cli.pod_diagnostics import LABEL, ImagesMissing, check_images
from tests.support.cluster import Cluster
from tests.support.commands import programs

pytestmark = pytest.mark.pods

UNKNOWN_IMAGE = "localhost/no-such/image:1"


def test_an_image_that_no_node_can_pull_is_reported_and_present_ones_are_not(
    cluster: Cluster, pods_namespace: str
) -> None:
    images = cluster.load_images("broker")
    kubernetes = Kubernetes(cluster.kubeconfig, pods_namespace, programs())
    reported: list[str] = []
    assert check_images(kubernetes, images, reported.append) == images
    assert reported == []
    with pytest.raises(ImagesMissing) as refusal:
        check_images(kubernetes, {**images, "missing": UNKNOWN_IMAGE}, reported.append)
    assert re.search(rf"{UNKNOWN_IMAGE}: (ErrImagePull|ImagePullBackOff): ", str(refusal.value))
    assert images["broker"] not in str(refusal.value)
    (line,) = reported
    assert line.startswith(f"  {UNKNOWN_IMAGE}: ")
    assert kubernetes.get("pods,serviceaccounts", "-l", LABEL)["items"] == []
