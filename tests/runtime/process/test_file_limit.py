"""The limit of open files: raised at the start, and told of where it is too low."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.runtime.process.file_limit import FILES_MAX
from tests.runtime.conftest import MakeBroker

LOOK = (
    "import json, resource, sys\n"
    "from strandline.runtime.process.file_limit import raise_file_limit\n"
    "told = raise_file_limit()\n"
    "print(json.dumps([told, *resource.getrlimit(resource.RLIMIT_NOFILE)]))"
)


def with_limits(soft: int, hard: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("soft", "hard"), [(256, 1024), (1024, 1024)])
def test_the_soft_limit_becomes_the_hard_one(soft: int, hard: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        preexec_fn=with_limits(soft, hard),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == [hard, hard, hard]


@pytest.mark.processes
def test_a_broker_tells_of_a_limit_that_its_replicas_and_clients_may_exceed(
    prepared: str, make_broker: MakeBroker
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = min(hard, FILES_MAX)
    broker = make_broker(**{"max.connections": 1_000_000, "log.open.segments.max": limit})
    broker.start()
    broker.wait_for("registered")
    told = broker.last_line("too few open files allowed")
    assert told is not None
    assert (told["limit"], told["partitions"]) == (limit, 0)
    assert told["needed"] > 1_000_000 + limit
    limits = (Path("/proc") / str(broker.process.pid) / "limits").read_text()
    (line,) = (each for each in limits.splitlines() if each.startswith("Max open files"))
    assert line.split()[3] == str(limit)


@pytest.mark.processes
def test_a_broker_with_room_for_its_files_says_nothing(
    prepared: str, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    broker.start()
    broker.wait_for("registered")
    assert broker.last_line("too few open files allowed") is None
