"""A real broker process that a test starts, freezes and kills, and whose log lines it reads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strandline.model import joined_address
from tests.support.eventually import eventually

REGISTER_LIMIT_MS = 60_000
EXIT_LIMIT_SECONDS = 20
LINES_SHOWN = 10
"""How many of the last log lines the message of a failed wait shows."""


class BrokerProgram:
    """One `python -m strandline.runtime.main` with a folder of its own on this machine."""

    def __init__(
        self,
        folder: Path,
        *,
        kubeconfig: Path,
        namespace: str,
        cluster: str,
        broker_id: int = 0,
        internal_port: int = 0,
        external_port: int = 0,
        settings: dict[str, object] | None = None,
        entry: str = "strandline.runtime.main",
        address: str = "127.0.0.1",
    ) -> None:
        self.folder = folder
        self.address = address
        self._entry = entry
        self.calls_file = folder / "loop-disk-calls.jsonl"
        """Written only by the entry `tests.support.loop_disk_calls`."""
        self.data_dir = folder / "data"
        self.boot_id_path = folder / "boot-id"
        self.config_path = folder / "broker.yaml"
        self.internal_port = internal_port
        self.external_port = external_port
        self.started_at = 0.0
        self._runs = 0
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.boot(1)
        self.configure(settings or {})
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "CLUSTER_NAME": cluster,
            "POD_NAME": f"{cluster}-{broker_id}",
            "POD_UID": "00000000-0000-4000-8000-000000000001",
            "POD_IP": address,
            "NODE_IP": address,
            "NAMESPACE": namespace,
            "GRPC_PORT": "0",
            "INTERNAL_PORT": str(internal_port),
            "EXTERNAL_PORT": str(external_port),
            "HTTP_PORT": "0",
            "LOOP_DISK_CALLS": str(self.calls_file),
        }

    def boot(self, number: int) -> None:
        """Change the boot id that the broker reads, as a reboot of the machine does."""
        self.boot_id_path.write_text(f"boot-{number}\n")

    def configure(self, settings: dict[str, object]) -> None:
        """Write the configuration file."""
        values: dict[str, object] = {
            "timing": "demo",
            "boot.id.path": str(self.boot_id_path),
            **settings,
        }
        self.config_path.write_text(json.dumps(values))

    def use_kubeconfig(self, kubeconfig: Path) -> None:
        """Use another identity at the API server from the next start on."""
        self._environment["KUBECONFIG"] = str(kubeconfig)

    def use_variables(self, variables: Mapping[str, str]) -> None:
        """Give these environment variables to each process from the next start on."""
        self._environment.update(variables)

    def environment(self, *, data_dir: Path | None = None) -> dict[str, str]:
        """Return the environment of a process: its identity, ports and paths."""
        return {**self._environment, "DATA_DIR": str(data_dir or self.data_dir)}

    def start(self, *, data_dir: Path | None = None) -> None:
        """Start a process with an empty log file."""
        self._check_end()
        self._runs += 1
        self.started_at = time.monotonic()
        with self.log_path().open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._entry, f"--config={self.config_path}"],
                env=self.environment(data_dir=data_dir),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def log_path(self) -> Path:
        """Return the log of the newest process."""
        return self.folder / f"log-{self._runs}.jsonl"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return the running or ended process."""
        assert self._process is not None, "start() comes first"
        return self._process

    def runs(self) -> bool:
        """Tell whether a process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def lines(self) -> list[dict[str, Any]]:
        """Return the log lines of the present process; text that is not JSON has `text`."""
        found: list[dict[str, Any]] = []
        for line in self.log_path().read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"message": "not JSON", "text": line})
        return found

    def check_log(self) -> None:
        """Fail if a run of this broker wrote a malformed log line, met a bug, or crashed."""
        self._check_end()
        for run in range(1, self._runs + 1):
            for line in (self.folder / f"log-{run}.jsonl").read_text().splitlines():
                assert line.startswith("{"), line
                assert "unhandled in event loop" not in line, line

    def _check_end(self) -> None:
        """Fail if the last process died of a signal that no test sends (SIGSEGV, SIGABRT)."""
        status = None if self._process is None else self._process.poll()
        assert status is None or status >= 0 or status == -signal.SIGKILL, status

    def last_line(self, message: str) -> dict[str, Any] | None:
        """Return the last log line with this message, None if there is none."""
        matching = [line for line in self.lines() if line["message"] == message]
        return matching[-1] if matching else None

    def wait_for(self, message: str, within_ms: int = REGISTER_LIMIT_MS) -> dict[str, Any]:
        """Wait for a log line; fail at once if the process has ended without it."""

        def look() -> dict[str, Any]:
            line = self.last_line(message)
            if line is None and not self.runs():
                ended = self.process.poll()
                raise RuntimeError(f"ended with {ended} before {message!r}: {self.lines()}")
            assert line is not None, self.lines()[-LINES_SHOWN:]
            return line

        return eventually(look, within_ms, f"log line {message!r} of {self.folder.name}")

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of an HTTP response."""
        port = self.wait_for("http listening")["port"]
        try:
            with urllib.request.urlopen(
                f"http://{joined_address(self.address, port)}{path}", timeout=5
            ) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.wait(EXIT_LIMIT_SECONDS)

    def freeze(self) -> None:
        """Stop it with SIGSTOP: its connections stay open, and it responds to no request."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue a frozen process; do nothing to one that runs or has ended."""
        if self.runs():
            self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to end with SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """End it with SIGTERM and return its exit status."""
        self.terminate()
        return self.exit_status()

    def exit_status(self) -> int:
        """Wait for the end and return the exit status."""
        return self.process.wait(EXIT_LIMIT_SECONDS)

    def clean_up(self) -> None:
        """End the process if it still runs."""
        if self.runs():
            self.kill()
