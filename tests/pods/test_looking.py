"""What a person sees of real pods: `strandline watch`, `describe`, `report` and `load`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline import names
from strandline_cli.commands import CommandFailed
from strandline_cli.release import BROKERS
from strandline_cli.running_load import LoadSeen, look
from strandline_cli.under_load import delete_pod, kill_broker
from strandline_operator.resources import DATA_PATH
from tests.support.cluster import Cluster
from tests.support.commands import programs
from tests.support.eventually import eventually
from tests.support.installed import Installed, release_of

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
REFUSED = 2
"""Exit code of a broker that a mere restart does not help."""


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Installed]:
    """Provide a release with a topic."""
    with release_of(cluster, "looking") as made:
        made.create_topic(TOPIC)
        yield made


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


def test_a_load_whose_pod_is_deleted_goes_on_with_its_figures(installed: Installed) -> None:
    kubernetes, name = installed.kubernetes, "replaced"
    where = (f"--topic={TOPIC}", f"--name={name}", f"--image={installed.images['client']}")
    printed(installed, "load", "start", *where)

    def acked_more_than(count: int) -> LoadSeen:
        found = look(kubernetes, name)
        assert found.summary["acked"] > count, found
        return found

    before = eventually(lambda: acked_more_than(500), LIMIT_MS, "acknowledgements")
    kubernetes.kubectl("delete", "pod", before.pod, "--wait=false")
    count = before.summary["acked"] + 500
    mistaken = (AssertionError, CommandFailed)
    after = eventually(lambda: acked_more_than(count), LIMIT_MS, "more", retry_on=mistaken)
    assert after.pod != before.pod
    assert after.summary["pods"] == before.summary["pods"] + 1 == 2
    assert after.summary["started_wall_ms"] == before.summary["started_wall_ms"]
    assert after.summary["not_there"] == after.summary["failed"] == 0
    ended = printed(installed, "load", "stop", f"--name={name}")
    assert "pod 2 of this load" in ended


def test_a_load_that_is_stopped_while_its_pod_is_replaced_keeps_its_figures(
    installed: Installed,
) -> None:
    kubernetes, name = installed.kubernetes, "drained"
    where = (f"--topic={TOPIC}", f"--name={name}", f"--image={installed.images['client']}")
    printed(installed, "load", "start", *where)

    def is_carried() -> LoadSeen:
        found = look(kubernetes, name)
        assert found.summary["acked"] > 500, found
        return found

    before = eventually(is_carried, LIMIT_MS, "acknowledgements")
    kubernetes.kubectl("delete", "pod", before.pod)
    ended = printed(installed, "load", "stop", f"--name={name}")
    assert "pod 2 of this load" in ended
    assert "lost 0, duplicated 0, out of order 0" in ended


def test_a_crash_loop_is_told_with_the_last_words_of_the_container(installed: Installed) -> None:
    kubernetes, name = installed.kubernetes, "default-2"
    damage = ("sh", "-c", f"echo damaged > {DATA_PATH}/meta.json")
    kubernetes.exec(name, *damage, container="broker")
    kill_broker(kubernetes, 2)

    def last_words() -> str:
        status = kubernetes.get("pod", name)["status"]["containerStatuses"][0]
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        ended = status["lastState"]["terminated"]
        assert ended["exitCode"] == REFUSED
        return str(json.loads(ended["message"].splitlines()[-1])["cause"])

    mistaken = (AssertionError, KeyError)
    cause = eventually(last_words, LIMIT_MS, "a crash loop", retry_on=mistaken)
    assert cause.startswith(f"{DATA_PATH}/meta.json: not the promised form")
    told = re.compile(rf"pod {name}: CrashLoopBackOff: exit code {REFUSED}: .*{re.escape(cause)}")

    def is_told() -> bool:
        conditions = kubernetes.get("brokercluster", "default")["status"]["conditions"]
        ready = next(each for each in conditions if each["type"] == "Ready")
        assert told.search(ready["message"]), ready
        return True

    eventually(is_told, LIMIT_MS, "the cause in the condition Ready")
    assert told.search(printed(installed, "status"))
