"""Run the scripts and programs that tests need, with a time limit; failures show the output."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CLUSTER_SCRIPTS = REPOSITORY / "hack" / "cluster"
IMAGES_SCRIPT = REPOSITORY / "hack" / "images"

COMMAND_LIMIT_SECONDS = 60
"""Bound of one kubectl or helm call; without a fault it takes less than a second."""


class CommandError(AssertionError):
    """A command failed or ran out of time; the message holds its output."""

    def __init__(self, command: Sequence[str], status: int | str, output: str, error: str) -> None:
        super().__init__(
            f"{' '.join(command)}: status {status}\n{error.strip()}\n{output[-4000:].strip()}"
        )
        self.status = status
        self.output = output
        self.error = error


def programs() -> Path:
    """Return the folder of kubectl, helm and the cluster's own programs."""
    cache = os.environ.get("STRANDLINE_CACHE") or Path.home() / ".cache" / "strandline"
    settings = (CLUSTER_SCRIPTS / "lib.sh").read_text().splitlines()
    version = next(line for line in settings if line.startswith("KUBE_VERSION="))
    return Path(cache) / f"kube-{version.partition('=')[2]}" / "bin"


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    limit_seconds: int = COMMAND_LIMIT_SECONDS,
) -> str:
    """Run a command to its end and return its standard output.

    Raises: CommandError if its status is not 0 or it does not end in time
    """
    try:
        done = subprocess.run(
            command,
            input=stdin if stdin is not None else "",
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        late = f"not within {limit_seconds} s"
        raise CommandError(command, late, _text(error.stdout), _text(error.stderr)) from error
    if done.returncode != 0:
        raise CommandError(command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def kubectl(
    kubeconfig: Path,
    *args: str,
    stdin: str | None = None,
    limit_seconds: int = COMMAND_LIMIT_SECONDS,
) -> str:
    """Run the kubectl that belongs to this cluster's version.

    Raises: CommandError with kubectl's message
    """
    command = [str(programs() / "kubectl"), f"--kubeconfig={kubeconfig}", *args]
    return run(command, stdin=stdin, limit_seconds=limit_seconds)


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
