"""The operator's probes and watches while the API server is away, or silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline_operator import operator_config
from tests.reconcile.conftest import OperatorProcess
from tests.support import strandline_objects as objects
from tests.support.tcp_proxy import proxied

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

ROOM_MS = 20_000
"""For a busy machine, and for a watch that had just begun."""


def wait_until_ready(operator: OperatorProcess) -> None:
    operator.wait_for("readiness", lambda: operator.probe("/ready") == (200, "ok"))


def test_an_operator_without_the_api_server_is_alive_and_not_ready(
    operator: OperatorProcess,
) -> None:
    wait_until_ready(operator)
    operator.plane.stop_api()
    try:
        watch = f"/apis/strandline.dev/v1alpha1/namespaces/{operator.namespace}/replicatedtopics"
        operator.wait_for(
            "the watch's sentence",
            lambda: f"watch {watch}: down for " in operator.probe("/ready")[1],
            operator_config.WATCH_DOWN_MAX_MS + ROOM_MS,
        )
        assert operator.probe("/ready")[0] == 503
        assert operator.probe("/live") == (200, "ok")
    finally:
        operator.plane.start_api()
    wait_until_ready(operator)


@pytest.mark.long
def test_watches_whose_connections_fell_silent_are_opened_again(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    wait_until_ready(operator)
    operator.stop()
    with proxied(operator.kubeconfig, tmp_path) as (proxy, kubeconfig):
        operator.use_kubeconfig(kubeconfig)
        operator.start()
        wait_until_ready(operator)
        proxy.swallow()
        operator.plane.apply(objects.topic(operator.namespace, "orders", clusterRef="default"))
        operator.wait_for(
            "the topic that no watch showed",
            lambda: operator.get("partitions.strandline.dev", "orders-0"),
            operator_config.WATCH_SILENT_MAX_SECONDS * 1000 + ROOM_MS,
        )
        operator.stop()
