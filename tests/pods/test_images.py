"""The demo reports at once which images the nodes cannot get."""

from __future__ import annotations

import re

import pytest

from strandline_cli.kubectl import Kubernetes
from strandline_cli.pod_diagnostics import LABEL, ImagesMissing, check_images
from tests.support.cluster import Cluster
from tests.support.commands import programs

pytestmark = pytest.mark.pods

NOBODYS = "localhost/nobody/has-this:1"


def test_an_image_that_no_node_gets_is_told_and_those_there_are_not(
    cluster: Cluster, pods_namespace: str
) -> None:
    images = cluster.load_images("broker")
    kubernetes = Kubernetes(cluster.kubeconfig, pods_namespace, programs())
    said: list[str] = []
    assert check_images(kubernetes, images, said.append) == images
    assert said == []
    with pytest.raises(ImagesMissing) as told:
        check_images(kubernetes, {**images, "missing": NOBODYS}, said.append)
    assert re.search(rf"{NOBODYS}: (ErrImagePull|ImagePullBackOff): ", str(told.value))
    assert images["broker"] not in str(told.value)
    (line,) = said
    assert line.startswith(f"  {NOBODYS}: ")
    assert kubernetes.get("pods,serviceaccounts", "-l", LABEL)["items"] == []
