"""What a person sees of real pods: `strandline watch`, `describe`, `report` and `load`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline import names
from strandline_cli.release import BROKERS
from strandline_cli.under_load import delete_pod
from strandline_operator.resources import DATA_PATH
from tests.support.cluster import Cluster
from tests.support.commands import programs
from tests.support.eventually import eventually
from tests.support.installed import Installed

pytestmark = pytest.mark.pods

TOPIC = "looked-at"
LIMIT_MS = 60_000
LIMIT_SECONDS = 60
END = names.PARTITION_LOG_END_OFFSET.name
SIZE = (
    "import os, sys; found = os.statvfs(sys.argv[1]); "
    "blocks = found.f_blocks - found.f_bfree + found.f_bavail; "
    "print(f'{blocks * found.f_frsize / 2**30:.1f}')"
)
"""Prints what a file system holds at most without the part that is kept for root, in GiB."""


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Installed]:
    """Provide a release with a topic."""
    images = cluster.load_images("broker", "operator", "client")
    namespace = f"looking-{uuid.uuid4().hex[:8]}"
    cluster.create_restricted_namespace(namespace)
    made = Installed(cluster, namespace, images)
    made.create_topic(TOPIC)
    yield made
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def strandline(installed: Installed, *words: str) -> subprocess.Popen[str]:
    """Run the program as a person does, with its output in a pipe."""
    kubernetes = installed.kubernetes
    where = (f"--kubeconfig={kubernetes.kubeconfig}", "-n", kubernetes.namespace)
    return subprocess.Popen(
        [sys.executable, "-m", "strandline_cli", *words, *where],
        env={**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def printed(installed: Installed, *words: str) -> str:
    with strandline(installed, *words) as process:
        text, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 0, text
    return text


class Lines:
    """The lines of a running program, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.text = ""
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.text += line

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until a line with this pattern came."""

        def look() -> re.Match[str]:
            found = re.search(pattern, self.text)
            assert found is not None, self.text
            return found

        return eventually(look, LIMIT_MS, pattern)

    def wait_for_more(self, pattern: str, least: int) -> None:
        """Wait until the number in the newest line with this pattern is larger."""
        eventually(lambda: int(re.findall(pattern, self.text)[-1]) > least, LIMIT_MS, pattern)

    def close(self) -> None:
        """Wait for the end of the output."""
        self._thread.join(LIMIT_SECONDS)


def test_a_watch_tells_what_a_deleted_pod_changes(installed: Installed) -> None:
    found = installed.kubernetes.get("partitions", f"{TOPIC}-0")["status"]
    leader = int(found["leader"])
    name = re.escape(f"{TOPIC}-0")
    with strandline(installed, "watch") as process:
        lines = Lines(process)
        # Offsets come through the API server's proxy of pods.
        lines.wait_for(rf"{name} +{leader} +\d+ .*(0/0 +){{{BROKERS}}}")
        delete_pod(installed.kubernetes, leader)
        lines.wait_for(rf"{name}: leader {leader} -> \d, epoch")
        lines.wait_for(rf"{name}: {leader} left the ISR, now")
        lines.wait_for(rf"broker {leader} responds again")
        lines.wait_for(rf"{name}: {leader} joined the ISR, now")
        process.terminate()
        process.wait(LIMIT_SECONDS)
        lines.close()


def test_the_page_of_a_broker_shows_its_pod_and_its_volume(installed: Installed) -> None:
    kubernetes, name = installed.kubernetes, "default-0"
    kubernetes.kubectl(
        "wait", f"pod/{name}", "--for=condition=Ready", f"--timeout={LIMIT_SECONDS}s"
    )
    size = kubernetes.exec(name, "python", "-c", SIZE, DATA_PATH, container="broker").strip()
    page = printed(installed, "describe", "broker", name)
    assert installed.node_of(0) in page
    assert re.search(rf"^{name} +{size} GiB +\d+% ", page, re.MULTILINE), page


def test_a_bundle_has_logs_and_metrics_of_every_broker(
    installed: Installed, tmp_path: Path
) -> None:
    path = tmp_path / "bundle.tar.gz"
    index = printed(installed, "report", f"--out={path}")
    assert "not to be had" not in index
    with tarfile.open(path) as bundle:
        for broker in range(BROKERS):
            log = bundle.extractfile(f"bundle/logs/default-{broker}.broker.log")
            assert log is not None
            assert "became follower" in log.read().decode()
            metrics = bundle.extractfile(f"bundle/metrics/default-{broker}.txt")
            assert metrics is not None
            assert f'{END}{{topic="{TOPIC}",partition="0"}}' in metrics.read().decode()
    assert "logs/strandline-operator-" in index


def test_a_load_in_a_pod_is_followed_until_ctrl_c(installed: Installed) -> None:
    image = f"--image={installed.images['client']}"
    printed(installed, "load", "start", f"--topic={TOPIC}", image)
    with strandline(installed, "load", "report", "--follow") as process:
        lines = Lines(process)
        first = int(lines.wait_for(r" acked ([1-9]\d*), .* not there 0, longest gap")[1])
        lines.wait_for_more(r" acked (\d+), ", first)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 0
        lines.close()
    ended = printed(installed, "load", "stop")
    assert "removed job.batch/load" in ended
    assert f"replicatedtopic.strandline.dev/{TOPIC}" not in ended
