"""Make what `java_process` starts Java with, while the image is built.

    python -m strandline_analysis.class_archive FOLDER

Runs the job once over a minute of made-up samples, and lets Java write down all classes that it has
loaded by then. The image's environment must not yet name the folder.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from . import java_process
from .job import analyse, session_of
from .read_options import MINUTE_MS, Transport
from .session import LOOPBACK
from .stopwatch import Stopwatch
from .task import UP, Task

START_MS: Final = 1_790_000_040_000
INTERVAL_MS: Final = 1000
CHANGE_MS: Final = 20_000
"""Pause between two changes of each value."""
PODS: Final = 3
METRIC: Final = re.compile(r'__name__="(\w+)"')


class MadeUpPrometheus(BaseHTTPRequestHandler):
    """Answers each query with one minute of samples, the same for all metrics."""

    def do_POST(self) -> None:
        """Answer a query of the JSON API."""
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        found = METRIC.search(urllib.parse.parse_qs(form)["query"][0])
        series = [shown(found[1] if found else UP, pod) for pod in range(PODS)]
        body = json.dumps({"status": "success", "data": {"result": series}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def shown(metric: str, pod: int) -> dict[str, Any]:
    """Return one series as the JSON API shows it."""
    labels = {"__name__": metric, "pod": f"default-{pod}", "instance": f"10.0.0.{pod}:8080"}
    of_partition = {"topic": "orders", "partition": "0", "replica": str(pod)}
    times = range(START_MS, START_MS + MINUTE_MS, INTERVAL_MS)
    values = [[at / 1000, str(1 + (at - START_MS) // CHANGE_MS)] for at in times]
    return {"metric": labels | of_partition, "values": values}


def main(folder: Path) -> int:
    """Fill the folder and return the job's exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / java_process.OPTIONS).write_text("\n".join(java_process.launcher_options()) + "\n")
    # A container that is built has a name without an address.
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    server = ThreadingHTTPServer((LOOPBACK, 0), MadeUpPrometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        task = Task(
            start_ms=START_MS,
            end_ms=START_MS + MINUTE_MS,
            out=Path(scratch) / "out",
            prometheus=f"http://{LOOPBACK}:{server.server_port}",
            transport=Transport.JSON,
            coverage_min=0.0,
        )
        classes = folder / java_process.CLASSES
        java = java_process.start(folder, [f"-XX:ArchiveClassesAtExit={classes}"])
        spark = session_of(task, folder=Path(scratch))
        code = analyse(spark, task, Stopwatch())
        spark.stop()
        java_process.ended(java)
        java_process.packed(classes)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
