"""Programs as subprocesses: each call has a bound, and a failure holds what the program wrote."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from strandline.errors import StrandlineError

CALL_SECONDS = 60.0
"""Bound of one call; a healthy API server responds in a fraction of a second."""
BUILD_SECONDS = 3600.0
"""Bound of one build: the first installation on a machine compiles Kubernetes."""
_OWN_CLOCK = re.compile(r"^\[ *[0-9.]+s\] ")

Say = Callable[[str], None]
"""Prints a line for a person."""


class RunFailed(StrandlineError):
    """A demo or a bench cannot go on; the message tells a person what to do."""


class CommandFailed(StrandlineError):
    """A program ended with an error or not in time; the message holds what it wrote."""


class NotRecovered(StrandlineError):
    """A cluster did not come back from a fault in time; names the fault and what is missing."""


def run(
    command: Sequence[str],
    *,
    stdin: str = "",
    limit_seconds: float = CALL_SECONDS,
    path: Path | None = None,
) -> str:
    """Run a program and return what it printed, else CommandFailed; path goes first in PATH."""
    environment = dict(os.environ)
    if path is not None:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    shown = " ".join(command[:6])
    try:
        done = subprocess.run(
            command,
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{shown}: not done within {limit_seconds:g} s") from error
    except FileNotFoundError as error:
        raise CommandFailed(f"{command[0]}: no such program") from error
    if done.returncode != 0:
        raise CommandFailed(f"{shown}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def start(command: Sequence[str], *, apart: bool = False) -> subprocess.Popen[str]:
    """Start a program whose output, errors included, the caller reads line by line.

    A program that is apart does not get the Ctrl-C of a terminal.
    """
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0 if apart else None,
    )


def script(program: Path, *args: str, say: Say) -> list[str]:
    """Run one of our scripts, show its lines as they come, and return them, else RunFailed."""
    lines: list[str] = []
    with start([str(program), *args]) as process:
        for line in process.stdout or ():
            lines.append(line.rstrip("\n"))
            # Our scripts print their own seconds; one clock on a screen is enough.
            say(f"  {_OWN_CLOCK.sub('', lines[-1])}")
    if process.returncode != 0:
        raise RunFailed(f"{program.name} failed with status {process.returncode}")
    return lines
