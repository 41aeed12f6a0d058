"""The log of a broker's container, followed to its end, and what it tells of that end."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from strandline_cli.kubectl import Kubernetes
from tests.support.eventually import eventually

FOLLOWS_LIMIT_MS = 30_000
END_SECONDS = 60


class FollowedLog:
    """The log of a container, complete as soon as the container has ended."""

    def __init__(self, process: subprocess.Popen[bytes], file: IO[bytes]) -> None:
        self._process = process
        self._file = file

    def so_far(self) -> str:
        """Return what was written so far."""
        self._file.seek(0)
        return self._file.read().decode()

    def whole(self) -> str:
        """Wait for the end of the container and return its log."""
        self._process.wait(END_SECONDS)
        return self.so_far()


@contextmanager
def followed(kubernetes: Kubernetes, broker: int) -> Iterator[FollowedLog]:
    """Follow the log of a broker's present container from its beginning.

    It goes to a file: a pipe that nobody reads would hold kubectl up, and a log goes with its pod.
    """
    command = ("logs", "--follow", f"default-{broker}", "--container=broker")
    with tempfile.TemporaryFile() as written, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            kubernetes.command("kubectl", *command), stdout=written, stderr=errors
        )
        try:
            # A file of its own position: kubectl goes on where it last wrote.
            with open(f"/proc/self/fd/{written.fileno()}", "rb") as readable:
                log = FollowedLog(process, readable)
                eventually(log.so_far, FOLLOWS_LIMIT_MS, f"the log of broker {broker}")
                yield log
        finally:
            process.kill()
            process.wait()


def handed_over(log: str, topic: str) -> list[str]:
    """Return the partitions of a topic that a broker led when it began to stop.

    log holds the lines of its container from start to end. Each of these partitions must have
    got another leader, of a later leader epoch, while the broker still ran.

    Raises:  AssertionError if the broker did not stop by itself, or still led a partition then
    """
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in log.splitlines() if line.startswith("{")
    ]
    messages = [line["message"] for line in lines]
    assert "stopping" in messages, messages[-5:]
    assert messages[-1] == "stopped", messages[-5:]
    led: dict[str, int] = {}
    at_stop: dict[str, int] = {}
    for line in lines:
        if line["message"] == "stopping":
            at_stop = dict(led)
        if line.get("topic_name") != topic:
            continue
        if line["message"] == "became leader":
            led[line["partition"]] = line["leader_epoch"]
        if line["message"] == "became follower":
            before = led.pop(line["partition"], None)
            if line["partition"] in at_stop and before is not None:
                assert line["leader"] not in (-1, line["broker_id"]), line
                assert line["leader_epoch"] > before, line
    assert not led, f"it led {led} to its end"
    return sorted(at_stop)
