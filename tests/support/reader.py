"""A person who types the commands of a page, as they stand there, on a real cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from strandline_cli.images import write_values
from tests.support.cluster import Cluster
from tests.support.commands import REPOSITORY, programs

COMMAND_SECONDS = 320
"""Bound of one command; the longest one that a page gives waits five minutes."""
KILLED = 137
WATCH = "--watch"
IMAGE = re.compile(r"<repository>/strandline-(\w+):([\w.]+)")
"""An image of a page, by its name and its version."""
VERSION = "0.1.0"
"""The version whose images the pages' commands name."""


class Reader:
    """A person who types a page's commands into one shell, in a folder that looks like a clone.

    seconds holds how long each command took, in order. images has references by name and version.
    """

    def __init__(self, folder: Path, cluster: Cluster, images: dict[str, str]) -> None:
        for name in ("helm", "examples"):
            (folder / name).symlink_to(REPOSITORY / name)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(cluster.kubeconfig.read_text())
        self.folder = folder
        self.images: dict[tuple[str, str], str] = {}
        self.seconds: list[tuple[str, float]] = []
        self.takes(images)
        tools = f"{programs()}:{Path(sys.executable).parent}"
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{tools}:{os.environ['PATH']}",
        }

    def takes(self, images: dict[str, str], version: str = VERSION) -> None:
        """Take these images as those of a version, and as what `make push` wrote last."""
        write_values(self.folder, images)
        self.images |= {(name, version): reference for name, reference in images.items()}

    def meant(self, text: str) -> str:
        """Return what a page's text means here: its images are those that were built."""
        return IMAGE.sub(lambda match: self.images[match[1], match[2]], text)

    def types(self, line: str) -> str:
        """Run a command and return what it printed; a command that watches is ended.

        Raises:  AssertionError with what it printed if it failed
        """
        line = self.meant(line)
        print(f"$ {line}", flush=True)
        if WATCH in line or line.endswith(" -w"):
            return self._watches(line)
        begin = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        self.seconds.append((line, time.monotonic() - begin))
        expected = {0, KILLED} if "kill -9" in line else {0}
        assert done.returncode in expected, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _watches(self, line: str) -> str:
        """Return the first line of a command that never ends."""
        with subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            printed = process.stdout.readline() if process.stdout is not None else ""
            process.terminate()
        return printed
