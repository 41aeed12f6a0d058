"""The load without an end beside real brokers, and what `start` and `stop` make and remove."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from strandline.model import BrokerId
from strandline_checker.history import SendOutcome, read_history
from strandline_checker.judge import longest_gaps
from strandline_checker.newest import judge_newest
from strandline_cli.load_carried import PERIOD_MS
from tests.support import strandline_objects as objects
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.commands import programs
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

PARTITIONS = 3
RATE = 40
END_SECONDS = 90
RECORDS_BEHIND = 200_000
READ_AHEAD_MIB_MAX = 20
STILL_LOOKS = 10
IMAGE = "example.com/strandline-client:1"


class EndlessLoad:
    """The program that the Job runs, with its files in a folder of this machine."""

    def __init__(
        self,
        group: BrokerGroup,
        topic: str,
        folder: Path,
        *,
        history_lines: int = 1_000_000,
        goes_on: str = "",
    ) -> None:
        self.folder = folder
        with (folder / "printed").open("wb") as printed:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "strandline_cli", "load"),
                    *("--consume", "--until-stopped", "--report-seconds=0.2"),
                    f"--bootstrap={group.bootstrap()}",
                    f"--topic={topic}",
                    f"--partitions={PARTITIONS}",
                    f"--rate={RATE}",
                    f"--history={folder / 'history.jsonl'}",
                    f"--history-lines={history_lines}",
                    f"--summary={folder / 'summary.json'}",
                    f"--goes-on={goes_on}",
                ],
                stdout=printed,
                stderr=printed,
            )
        group.on_stop(self._process.kill)

    def summary(self) -> dict[str, Any]:
        """Return the newest figures."""
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return found

    def wait_acked(self, more: int) -> int:
        """Wait until so many more records are acknowledged than now; return how many are."""
        path = self.folder / "summary.json"
        wanted = more + (self.summary()["acked"] if path.exists() else 0)

        def acked() -> int:
            assert self._process.poll() is None, (self.folder / "printed").read_text()[-2000:]
            assert path.exists()
            found = int(self.summary()["acked"])
            assert found >= wanted, self.summary()
            return found

        return eventually(acked, FAULT_LIMIT_MS + 1000 * more // RATE, "acknowledgements")

    def wait_outstanding(self, least: int) -> None:
        """Wait until so many records wait for their acknowledgements."""

        def waits() -> bool:
            found = self.summary()
            assert found["outstanding"] >= least, found
            return True

        eventually(waits, FAULT_LIMIT_MS, "records that wait")

    def end(self) -> dict[str, Any]:
        """Tell it to end; return its last figures."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(END_SECONDS) == 0, (self.folder / "printed").read_text()[-2000:]
        found = self.summary()
        assert found["ended"]
        return found

    def kill(self) -> dict[str, Any]:
        """Kill it; return its last figures."""
        self._process.kill()
        self._process.wait()
        return self.summary()

    def history(self) -> list[str]:
        """Return the lines that are left of its history."""
        files = sorted(self.folder.glob("history.jsonl.*"))
        return [line for path in files for line in path.read_text().splitlines(keepends=True)]


def scan(group: BrokerGroup, topic: str) -> list[str]:
    """Return what every broker's log holds, as the judge reads it."""
    lines: list[str] = []
    for number, broker in enumerate(group.brokers):
        words = [f"--dir={broker.data_dir}", f"--topic={topic}", "--lines", f"--broker={number}"]
        done = subprocess.run(
            [sys.executable, "-m", "strandline_cli", "dump-log", *words],
            capture_output=True,
            text=True,
            check=True,
        )
        lines += done.stdout.splitlines(keepends=True)
    return lines


def every_broker(group: BrokerGroup) -> dict[int, frozenset[BrokerId]]:
    brokers = frozenset(BrokerId(number) for number in range(len(group.brokers)))
    return dict.fromkeys(range(PARTITIONS), brokers)


def test_the_longest_gap_is_what_the_producer_felt_when_a_leader_died(
    group: BrokerGroup, tmp_path: Path
) -> None:
    group.create_topic("felt", partitions=PARTITIONS)
    group.wait_full_isr("felt", PARTITIONS)
    load = EndlessLoad(group, "felt", tmp_path)
    load.wait_acked(300)
    leader = group.wait_leader("felt")
    # Frozen first, so that it has records when it dies that it never acknowledges.
    group.brokers[leader].freeze()
    load.wait_outstanding(RATE // 2)
    group.brokers[leader].kill()
    group.wait_leader("felt", other_than=leader)
    load.wait_acked(300)
    group.start()
    group.wait_full_isr("felt", PARTITIONS)
    summary = load.end()
    # Each line of the history was written beside the figures, and its gaps are added up anew.
    history = read_history(load.history())
    exact = longest_gaps(history.sends.values())
    assert {int(n): gap["ms"] for n, gap in summary["gaps"].items()} == pytest.approx(exact, abs=1)
    outcomes = [each.outcome for each in history.sends.values()]
    assert summary["acked"] == outcomes.count(SendOutcome.ACKED) > 600
    assert summary["failed"] == 0
    assert 0 < summary["retried"] <= summary["sent"]
    # Everything acknowledged was read and lay at its offset, and is in every log.
    assert summary["checked"] == summary["acked"]
    assert (summary["not_there"], summary["again"], summary["unread"]) == (0, 0, {})
    verdict = judge_newest(load.history(), scan(group, "felt"), every_broker(group))
    assert verdict.is_valid, verdict.findings
    assert verdict.acked == summary["acked"]


def test_a_load_keeps_its_newest_history_which_can_be_judged(
    group: BrokerGroup, tmp_path: Path
) -> None:
    group.create_topic("newest", partitions=PARTITIONS)
    group.wait_full_isr("newest", PARTITIONS)
    load = EndlessLoad(group, "newest", tmp_path, history_lines=600)
    load.wait_acked(1_000)
    summary = load.end()
    kept = load.history()
    assert 300 <= len(kept) <= 600
    assert summary["checked"] == summary["acked"] >= 1_000
    scanned = scan(group, "newest")
    verdict = judge_newest(kept, scanned, every_broker(group))
    assert verdict.is_valid, verdict.findings
    assert 0 < verdict.acked < summary["acked"]
    # The same part with a record missing on one broker: the judge does look.
    last = [line for line in scanned if line.startswith('["record", 1, 0,')][-1]
    scanned.remove(last)
    assert judge_newest(kept, scanned, every_broker(group)).lost == 1


def test_a_second_load_begins_at_the_end_of_a_topic_and_bears_records_of_others(
    group: BrokerGroup, tmp_path: Path
) -> None:
    group.create_topic("shared", partitions=PARTITIONS)
    group.wait_full_isr("shared", PARTITIONS)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = EndlessLoad(group, "shared", tmp_path / "first")
    before = first.wait_acked(100)
    second = EndlessLoad(group, "shared", tmp_path / "second")
    second.wait_acked(200)
    ended = second.end()
    first.end()
    assert ended["checked"] == ended["acked"]
    assert ended["not_there"] == 0
    begun = [line for line in second.history() if line.startswith('["read"')]
    assert len(begun) == ended["read"] > ended["acked"]
    assert min(json.loads(line)[3] for line in begun) >= before // PARTITIONS // 2
    verdict = judge_newest(second.history(), scan(group, "shared"), every_broker(group))
    assert verdict.is_valid, verdict.findings


def test_a_load_whose_process_is_replaced_goes_on_with_its_figures(
    group: BrokerGroup, tmp_path: Path
) -> None:
    group.create_topic("replaced", partitions=PARTITIONS)
    group.wait_full_isr("replaced", PARTITIONS)
    for name in ("told to end", "killed", "last", "another"):
        (tmp_path / name).mkdir()

    def begin(name: str, load_id: str = "mine") -> EndlessLoad:
        return EndlessLoad(group, "replaced", tmp_path / name, goes_on=load_id)

    first = begin("told to end")
    first.wait_acked(300)
    told = first.end()
    second = begin("killed")
    # Longer than figures are kept back, so that the killed process leaves some of its own.
    second.wait_acked(told["acked"] + 8 * RATE * PARTITIONS)
    killed = second.kill()
    third = begin("last")
    third.wait_acked(killed["acked"] + 4 * RATE * PARTITIONS)
    ended = third.end()
    assert (told["pods"], killed["pods"], ended["pods"]) == (1, 2, 3)
    assert told["started_wall_ms"] == killed["started_wall_ms"] == ended["started_wall_ms"]
    assert told["acked"] < killed["acked"] < ended["acked"]
    assert ended["seconds"] > killed["seconds"] > told["seconds"]
    assert ended["sent"] == ended["acked"] + ended["unknown"]
    assert (ended["failed"], ended["not_there"], ended["outstanding"]) == (0, 0, 0)
    assert ended["checked"] > killed["acked"]
    # The killed process had figures in the topic that were at most PERIOD_MS and a report old.
    lost = killed["sent"] - (ended["sent"] - len(sends_of(third)))
    assert 0 <= lost <= RATE * PARTITIONS * (PERIOD_MS / 1000 + 2)
    verdict = judge_newest(third.history(), scan(group, "replaced"), every_broker(group))
    assert verdict.is_valid, verdict.findings
    stranger = begin("another", "yours")
    stranger.wait_acked(RATE)
    assert stranger.end()["pods"] == 1


def sends_of(load: EndlessLoad) -> list[str]:
    """Return the lines of a load's history that tell of a send."""
    return [line for line in load.history() if line.startswith('["sent"')]


READ_AHEAD = """
import io, sys
from strandline_cli.load_consumer import LoadConsumer
consumer = LoadConsumer(sys.argv[1], sys.argv[2], partitions=1, name="reader")
print("begins", flush=True)
while not consumer.read:
    consumer.take(io.StringIO(), wait_seconds=0.1)
print("has read", flush=True)
sys.stdin.read()
"""


def resident_mib(process: subprocess.Popen[str]) -> int:
    """Return the memory of a process, in MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


def test_a_consumer_that_is_far_behind_holds_little_of_what_it_has_to_read(
    group: BrokerGroup,
) -> None:
    """Its pod has 256 MiB for all; by default the library takes 43 of them for each partition."""
    group.create_topic("behind")
    group.wait_full_isr("behind")
    producer = Producer({"bootstrap.servers": group.bootstrap(), "linger.ms": 20})
    for number in range(RECORDS_BEHIND):
        producer.produce("behind", b"load-0-%06d" % number, partition=0)
        if number % 10_000 == 0:
            producer.flush()
    assert producer.flush(60) == 0
    with subprocess.Popen(
        [sys.executable, "-c", READ_AHEAD, group.bootstrap(), "behind"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        group.on_stop(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        before = resident_mib(process)
        assert process.stdout.readline() == "has read\n"
        seen = [before]

        def is_still() -> bool:
            seen.append(resident_mib(process))
            assert len(seen) > STILL_LOOKS
            assert seen[-1] == seen[-STILL_LOOKS] > before, seen
            return True

        eventually(is_still, FAULT_LIMIT_MS, "no more that is read ahead")
        process.kill()
    assert seen[-1] - before <= READ_AHEAD_MIB_MAX, seen


# --- start and stop -----------------------------------------------------------------------


def strandline(group: BrokerGroup, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `strandline load` against the group's namespace."""
    where = [f"--kubeconfig={group.control_plane.kubeconfig}", "-n", group.namespace]
    return subprocess.run(
        [sys.executable, "-m", "strandline_cli", "load", *words, *where],
        env={**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def make_ready(group: BrokerGroup, topic: str) -> None:
    """Say of a new topic what an operator would that has seen it."""
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "AllPartitionsReady",
        "message": "all partitions are ready",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    objects.patch_status(
        group.control_plane,
        group.namespace,
        f"replicatedtopics/{topic}",
        {"observedGeneration": 1, "conditions": [condition]},
    )


def labelled(group: BrokerGroup, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = group.control_plane.get(
        kind, "-n", group.namespace, "-l", "strandline.dev/load"
    )["items"]
    return found


def test_start_makes_a_restricted_pod_and_stop_removes_what_start_made_alone(
    group: BrokerGroup,
) -> None:
    """No node runs here, so the pod stays Pending, and `start` says so."""
    plane = group.control_plane
    plane.kubectl(
        *("label", "namespace", group.namespace, "--overwrite"),
        "pod-security.kubernetes.io/enforce=restricted",
    )
    group.create_topic("theirs")
    make_ready(group, "theirs")
    done = strandline(
        group, "start", "--topic=theirs", f"--image={IMAGE}", "--wait-seconds=5", "--name=busy"
    )
    assert done.returncode == 1
    assert "made job busy: 20 records a second and partition" in done.stdout
    assert "the load's pod is not ready within 5 s" in done.stderr
    assert "`strandline load stop --name busy` removes what was made" in done.stderr
    (pod,) = labelled(group, "pods")
    assert pod["spec"]["containers"][0]["image"] == IMAGE
    again = strandline(group, "start", "--topic=theirs", f"--image={IMAGE}", "--name=busy")
    assert "--name busy: a load of this name is there, stop it first" in again.stderr
    ended = strandline(group, "stop", "--name=busy")
    assert ended.returncode == 1
    assert "what it saw is not known: load busy has no figures yet" in ended.stdout
    assert "removed job.batch/busy" in ended.stdout
    assert group.get("replicatedtopics", "theirs")["spec"]["partitions"] == 1


def test_stop_removes_a_topic_that_start_made(group: BrokerGroup) -> None:
    done = strandline(group, "start", f"--image={IMAGE}", "--wait-seconds=1", "--name=own")
    assert done.returncode == 1, done.stdout
    assert "no operator has looked at it" in done.stderr
    (topic,) = labelled(group, "replicatedtopics")
    name = topic["metadata"]["name"]
    assert f"made topic {name}" in done.stdout
    assert topic["spec"]["replicationFactor"] == 3
    ended = strandline(group, "stop", "--name=own", "--now")
    assert ended.returncode == 0, ended.stderr
    assert f"removed replicatedtopic.strandline.dev/{name}" in ended.stdout
    assert not labelled(group, "replicatedtopics")
    assert "nothing was there" in strandline(group, "stop", "--name=own", "--now").stdout


def test_what_is_not_there_is_named(group: BrokerGroup) -> None:
    done = strandline(group, "report", "--name=nobody")
    assert done.returncode == 1
    assert f"--name nobody: namespace {group.namespace} has " in done.stderr
    done = strandline(group, "start", "--topic=nowhere", f"--image={IMAGE}")
    assert "--topic nowhere: cluster demo has the topics: " in done.stderr
    done = strandline(group, "start", "--cluster=other", f"--image={IMAGE}")
    assert "--cluster other: namespace " in done.stderr
