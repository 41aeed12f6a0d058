"""`strandline watch` beside real brokers: elections, a dead broker, an API server that is away."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from strandline_cli.end_asked import EndAsked
from strandline_cli.kubectl import ApiProxy, Kubernetes
from strandline_cli.watch import ReadMetrics, WatchWishes, watch
from tests.processes.conftest import MakeGroup
from tests.support import strandline_objects as objects
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.commands import programs
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

TOPIC = "watched"
LIMIT_SECONDS = 60


def metrics_of(group: BrokerGroup) -> ReadMetrics:
    """Return a reader of the brokers of this machine, which the API server has no pods of."""

    def read(_: ApiProxy, pod: str) -> str:
        number = int(pod.rpartition("-")[2])
        if not group.brokers[number].runs():
            raise OSError("connection refused")
        status, text = group.brokers[number].get("/metrics")
        assert status == 200
        return text

    return read


class Printed:
    """What a watch has printed so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.text = ""

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until a line with this pattern is printed."""

        def look() -> re.Match[str]:
            self.text += self._capsys.readouterr().out
            found = re.search(pattern, self.text)
            assert found is not None, self.text
            return found

        return eventually(look, FAULT_LIMIT_MS, pattern)


@contextmanager
def watching(group: BrokerGroup, printed: Printed) -> Iterator[None]:
    """Watch a group in a thread until the block ends."""
    end = EndAsked()
    kubernetes = Kubernetes(group.control_plane.kubeconfig, group.namespace, programs())
    wishes = WatchWishes(cluster="", topic="", seconds=LIMIT_SECONDS)
    reader = metrics_of(group)
    thread = threading.Thread(
        target=lambda: watch(kubernetes, wishes, end, read_metrics=reader), daemon=True
    )
    thread.start()
    try:
        printed.wait_for("controller: broker")
        yield
    finally:
        end.ask()
        thread.join(LIMIT_SECONDS)
    assert not thread.is_alive()
    printed.wait_for("watched ")


def test_a_leaders_death_and_an_api_server_that_was_away_are_told_in_order(
    make_group: MakeGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group()
    group.create_topic(TOPIC)
    group.wait_full_isr(TOPIC)
    printed = Printed(capsys)
    leader = group.wait_leader(TOPIC)
    name = re.escape(f"{TOPIC}-0")
    with watching(group, printed):
        head = printed.wait_for(rf"{name} +{leader} +\d+ +\S+ +(0/0 +){{3}}-\n")
        assert "0 HW/LEO" in printed.text[: head.start()]
        group.brokers[leader].kill()
        printed.wait_for(rf"broker {leader} does not respond \(connection refused\)")
        new = int(printed.wait_for(rf"{name}: leader {leader} -> (\d), epoch")[1])
        printed.wait_for(rf"{name}: {leader} left the ISR, now")
        group.control_plane.kill_api()
        printed.wait_for(r"the API server does not respond \(.+\); brokers go on meanwhile")
        group.control_plane.start_api()
        printed.wait_for(r"the API server responds again, after \d+\.\d s")
        group.start()
        printed.wait_for(rf"broker {leader} responds again")
        # The watch that broke with the API server was made anew: changes still come.
        printed.wait_for(rf"{name}: {leader} joined the ISR, now")
    assert new != leader
    assert re.search(r"watched 1 partitions for \d+\.\d s: 1 elections, \d+ ISR", printed.text)
    assert "the API server was away once" in printed.text


def command(group: BrokerGroup, *options: str) -> list[str]:
    where = [f"--kubeconfig={group.control_plane.kubeconfig}", "-n", group.namespace]
    return [sys.executable, "-m", "strandline_cli", "watch", *where, *options]


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}"}


def look(group: BrokerGroup, *options: str) -> subprocess.CompletedProcess[str]:
    words = command(group, *options)
    return subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)


def test_the_program_ends_on_ctrl_c_with_a_summary(group: BrokerGroup) -> None:
    group.create_topic(TOPIC)
    group.wait_full_isr(TOPIC)
    with subprocess.Popen(
        command(group),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        lines: list[str] = []
        try:
            for line in process.stdout or ():
                lines.append(line)
                if line.startswith("controller: "):
                    process.send_signal(signal.SIGINT)
        except BaseException:
            # One that does not end would outlive the limit of this test.
            process.kill()
            raise
    assert process.returncode == 0, lines
    assert any(re.match(rf"{TOPIC}-0 +\d +\d+ ", line) for line in lines), lines
    assert any(line.startswith("watched 1 partitions for ") for line in lines), lines


def test_one_look_names_a_cluster_that_is_not_there(group: BrokerGroup) -> None:
    once = look(group, "--once")
    assert once.stdout.startswith("PARTITION"), once.stderr
    done = look(group, "--once", "--cluster", "other")
    assert done.returncode == 1
    assert done.stderr == (
        f"strandline watch: --cluster other: namespace {group.namespace} has {objects.CLUSTER}\n"
    )
