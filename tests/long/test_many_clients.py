"""A broker's memory beside 2,000 idle connections, 200 slow readers and 40 consumers of 5 GiB.

The full size of `tests/processes/test_hostile_clients.py`. The consumers begin at 40 places of one
log of 5 GiB, and each reads up to where the next one began.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.processes.test_hostile_clients import (
    CATCHING_UP,
    LIMIT_MS,
    MIB,
    SLOW,
    VALUE_BYTES,
    catch_up,
    fill,
    peak_rss_mib,
    stall,
)
from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

IDLE = 2_000
LOG_BYTES = 5 << 30
RECORDS = LOG_BYTES // VALUE_BYTES
CONNECTIONS_MAX = 2_500
OPEN_FILES = 10_000
"""More than the connections of this process, or of the broker, which inherits it."""
RSS_MAX_MIB = 380
"""110 for the broker itself, 128 for large responses, 80 for the connections' buffers, and 62 for
small responses and what the interpreter keeps."""


@pytest.fixture
def group(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[BrokerGroup]:
    """Provide a broker that takes more connections than it does by default."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
    made = BrokerGroup(
        tmp_path,
        control_plane,
        namespace,
        brokers=1,
        kubeconfig=objects.broker_account(control_plane, namespace),
        settings={"max.connections": CONNECTIONS_MAX},
    )
    made.start()
    yield made
    made.stop()
    made.brokers[0].check_log()


def test_memory_stays_under_its_bound_beside_thousands_of_clients_and_a_log_of_gigabytes(
    group: BrokerGroup,
) -> None:
    for topic in ("bulk", "tail"):
        group.create_topic(
            topic, min_insync_replicas=1, assignments=[[0]], config={"segmentBytes": 128 * MIB}
        )
        group.wait_partition(topic, "a leader", lambda status: status["leader"] == 0)
    broker, port = group.brokers[0], group.brokers[0].internal_port
    fill(group.bootstrap(), "bulk", RECORDS)
    starts = [RECORDS * number // CATCHING_UP for number in range(CATCHING_UP + 1)]
    with ExitStack() as opened, ThreadPoolExecutor(CATCHING_UP) as pool:
        for _ in range(IDLE):
            opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        for _ in range(SLOW):
            opened.enter_context(stall(port))
        reading = [pool.submit(catch_up, port, start, end) for start, end in pairwise(starts)]
        sent = SentRecords(producer_of(group.bootstrap()), "tail")
        sent.send(200)
        sent.settle()
        assert read_all(group.bootstrap(), "tail", 200) == sent.offsets
        assert sum(each.result() for each in reading) >= RECORDS * VALUE_BYTES
    peak = peak_rss_mib(broker)
    print(f"peak of the broker's memory: {peak} MiB")
    assert peak < RSS_MAX_MIB
    eventually(lambda: "strandline_requests_total" in broker.get("/metrics")[1], LIMIT_MS, "lives")
