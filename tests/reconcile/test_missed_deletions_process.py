"""Deletions that no watch shows, because they happened while the watch was being opened anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import strandline_objects as objects
from tests.support.api_proxy import ApiProxy

from .conftest import OperatorProcess

pytestmark = pytest.mark.processes

NAME = "orders"


@pytest.fixture
def proxy(operator: OperatorProcess, tmp_path: Path) -> Iterator[ApiProxy]:
    """Let the operator reach the API server through a proxy."""
    operator.kill()
    made = ApiProxy(operator.kubeconfig, tmp_path)
    made.start()
    operator.use_kubeconfig(made.kubeconfig)
    operator.start()
    yield made
    operator.kill()
    made.stop()


def uid(operator: OperatorProcess, partition: str) -> str:
    """Return the uid of a Partition, "" if there is none."""
    found = operator.get("partition", partition)
    return "" if found is None else str(found["metadata"]["uid"])


def test_an_object_deleted_before_its_kind_is_listed_anew_comes_back(
    operator: OperatorProcess, proxy: ApiProxy
) -> None:
    spec = {"partitions": 2, "replicationFactor": 3}
    manifests = [objects.cluster(operator.namespace)]
    manifests.append(objects.topic(operator.namespace, NAME, **spec))
    operator.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    partition = f"{NAME}-1"
    operator.wait_for("Partitions", lambda: operator.get("partition", partition))
    before = uid(operator, partition)

    proxy.hides_changes = True
    operator.kubectl("delete", "partition", partition)
    proxy.expire_watches()

    operator.wait_for("Partition back", lambda: uid(operator, partition) not in {"", before})
