"""An HTTP server in a thread of its own, for tests of what the analysis and Prometheus read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class PreparedResponse:
    """A response: body, status, content type."""

    body: bytes
    status: int = 200
    kind: str = "text/plain; version=0.0.4"


@contextmanager
def served_by(respond: Callable[[bytes], PreparedResponse]) -> Iterator[str]:
    """Serve on a free port of loopback; `respond` gets the body of each request.

    Yields host:port.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(respond(b""))

        def do_POST(self) -> None:
            self._send(respond(self.rfile.read(int(self.headers["Content-Length"]))))

        def _send(self, response: PreparedResponse) -> None:
            self.send_response(response.status)
            self.send_header("Content-Type", response.kind)
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
