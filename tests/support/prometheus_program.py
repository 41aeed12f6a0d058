"""A Prometheus process on loopback, with blocks from promtool or with targets to scrape."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.commands import REPOSITORY, run
from tests.support.eventually import eventually
from tests.support.ports import free_port

ANALYSIS_SCRIPT = REPOSITORY / "hack" / "analysis"
PREPARE_LIMIT_SECONDS = 900
"""Bound of one download, and of a build of PySpark, which takes 4 s if the cache has it."""
READY_WITHIN_MS = 60_000
STOP_SECONDS = 20
ANSWER_SECONDS = 60


def prepared_programs() -> Path:
    """Return the folder of prometheus and promtool, which the first use fills."""
    printed = run([str(ANALYSIS_SCRIPT), "prometheus"], limit_seconds=PREPARE_LIMIT_SECONDS)
    return Path(printed.splitlines()[-1])


class PrometheusProgram:
    """One process with its own folder and port."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._data.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def load(self, openmetrics: str) -> None:
        """Make blocks of these samples; call this before `start`."""
        text = self._folder / "samples.txt"
        text.write_text(openmetrics)
        self.load_file(text)

    def load_file(self, text: Path) -> None:
        """Make blocks of a file of samples; call this before `start`."""
        make = ["tsdb", "create-blocks-from", "openmetrics", str(text), str(self._data)]
        run([str(self._programs / "promtool"), *make])

    def start(self, targets: Sequence[str] = (), *, labels: dict[str, str] | None = None) -> None:
        """Start it, scraping these targets each second, and wait until it is ready."""
        static = [{"targets": list(targets), "labels": labels or {}}]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "strandline", "static_configs": static}],
        }
        self.start_with(config)

    def start_with(self, config: dict[str, Any]) -> None:
        """Start it with a configuration, and wait until it is ready."""
        path = self._folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        log = (self._folder / "log").open("wb")
        command = [
            str(self._programs / "prometheus"),
            f"--config.file={path}",
            f"--storage.tsdb.path={self._data}",
            # Tests load samples of any age.
            "--storage.tsdb.retention.time=100y",
            # Tests make snapshots and delete series; it listens on loopback alone.
            "--web.enable-admin-api",
            f"--web.listen-address={address}",
        ]
        with log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(
            lambda: self._get("/-/ready") is not None,
            within_ms=READY_WITHIN_MS,
            what=f"Prometheus is ready (log: {self._folder / 'log'})",
            retry_on=(OSError,),
        )

    def query(self, expression: str, *, at_ms: int | None = None) -> list[dict[str, Any]]:
        """Return the result of an instant query."""
        given = {"query": expression} | ({"time": str(at_ms / 1000)} if at_ms else {})
        response = json.loads(self._get("/api/v1/query?" + urllib.parse.urlencode(given)))
        result: list[dict[str, Any]] = response["data"]["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules with health and present alerts."""
        groups = json.loads(self._get("/api/v1/rules"))["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def delete(self, selector: str, *, start_ms: int, end_ms: int) -> None:
        """Delete samples, including those at both ends."""
        given = {"match[]": selector, "start": start_ms / 1000, "end": end_ms / 1000}
        self._post("/api/v1/admin/tsdb/delete_series?" + urllib.parse.urlencode(given))

    def snapshot(self) -> Path:
        """Return a folder with its blocks, and with one of what it has scraped since the last."""
        made = json.loads(self._post("/api/v1/admin/tsdb/snapshot"))
        return self._data / "snapshots" / str(made["data"]["name"])

    def stop(self) -> None:
        """End it with SIGTERM."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _get(self, path: str) -> bytes:
        return self._answer(urllib.request.Request(self.url + path))

    def _post(self, path: str) -> bytes:
        return self._answer(urllib.request.Request(self.url + path, method="POST"))

    def _answer(self, request: urllib.request.Request) -> bytes:
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
                body: bytes = response.read()
        except urllib.error.HTTPError as error:
            # The error holds an open response; its garbage collection would fail a later test.
            error.close()
            raise
        return body
