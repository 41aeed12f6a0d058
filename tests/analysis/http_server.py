"""An HTTP server in a thread of its own, for tests of what the analysis and Prometheus read."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.commands import run


@dataclass(frozen=True, slots=True)
class PreparedResponse:
    """A response: body, status, content type, and where something moved."""

    body: bytes
    status: int = 200
    kind: str = "text/plain; version=0.0.4"
    location: str = ""


@contextmanager
def served_by(
    respond: Callable[[bytes], PreparedResponse],
    *,
    seen: list[Message] | None = None,
    certificate: Path | None = None,
) -> Iterator[str]:
    """Serve on a free port of loopback; `respond` gets the body of each request.

    The headers of each request are added to `seen`. A certificate, in a file with its key, makes it
    https.

    Yields host:port.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(respond(b""))

        def do_POST(self) -> None:
            self._send(respond(self.rfile.read(int(self.headers["Content-Length"]))))

        do_PATCH = do_POST  # noqa: N815 - the library's name

        def _send(self, response: PreparedResponse) -> None:
            if seen is not None:
                seen.append(self.headers)
            self.send_response(response.status)
            self.send_header("Content-Type", response.kind)
            if response.location:
                self.send_header("Location", response.location)
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            # Without it the thread of a failed test would turn forever on the closed socket.
            server.shutdown()
            thread.join()


def self_signed(folder: Path) -> Path:
    """Make a certificate for loopback with its key, in one file."""
    folder.mkdir()
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made = ["-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2"]
    named = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    run([*request, *made, *named])
    certificate.write_text(certificate.read_text() + key.read_text())
    return certificate
