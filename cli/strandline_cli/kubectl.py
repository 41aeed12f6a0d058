"""kubectl and helm as subprocesses, with a kubeconfig file of our own.

Called by the demo, the bench and the tests on real pods. No call reads or changes the user's
current context: every call names the file and the namespace.
"""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .commands import CALL_SECONDS, CommandFailed, run, start

Object = dict[str, Any]
BODY_BYTES_MAX = 64 << 20
"""Bound of one response, or of one line of a watch."""
KILLED_STATUS = 137
"""What kubectl exec ends with if its command was killed with -9."""


class Kubernetes:
    """One cluster and one namespace in it; programs is the folder of kubectl and helm, or PATH.

    context is one of the kubeconfig's, "" for its current one.
    """

    def __init__(
        self, kubeconfig: Path, namespace: str, programs: Path | None = None, context: str = ""
    ) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._programs = programs
        self._context = context

    def in_namespace(self, namespace: str) -> Kubernetes:
        """Return the same cluster with another namespace."""
        return Kubernetes(self.kubeconfig, namespace, self._programs, self._context)

    def command(self, program: str, *args: str) -> list[str]:
        """Return a command line of kubectl or helm for this cluster and namespace."""
        found = program if self._programs is None else str(self._programs / program)
        option = "--kube-context" if program == "helm" else "--context"
        chosen = [f"{option}={self._context}"] if self._context else []
        where = [f"--kubeconfig={self.kubeconfig}", *chosen, f"--namespace={self.namespace}"]
        return [found, *where, *args]

    def kubectl(self, *args: str, stdin: str = "", limit_seconds: float = CALL_SECONDS) -> str:
        """Run kubectl; CommandFailed with its message."""
        return run(self.command("kubectl", *args), stdin=stdin, limit_seconds=limit_seconds)

    def helm(self, *args: str, limit_seconds: float = CALL_SECONDS) -> str:
        """Run helm; CommandFailed with its message."""
        return run(self.command("helm", *args), limit_seconds=limit_seconds, path=self._programs)

    def get(self, *args: str) -> Object:
        """Return the output of `kubectl get ... -o json`."""
        found: Object = json.loads(self.kubectl("get", *args, "-o", "json"))
        return found

    def apply(self, *manifests: Object) -> None:
        """Apply objects in the order given."""
        listed = {"apiVersion": "v1", "kind": "List", "items": manifests}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def wait_ready(self, found: str, limit_seconds: int) -> None:
        """Wait until an object, given as kind/name, says that it is Ready; else CommandFailed."""
        wait = ("wait", found, "--for=condition=Ready", f"--timeout={limit_seconds}s")
        self.kubectl(*wait, limit_seconds=limit_seconds + 10)

    def exec(
        self, pod: str, *command: str, container: str = "", limit_seconds: float = CALL_SECONDS
    ) -> str:
        """Run a command in a pod and return what it printed."""
        chosen = ["-c", container] if container else []
        return self.kubectl("exec", pod, *chosen, "--", *command, limit_seconds=limit_seconds)

    def exec_end(self, pod: str, *command: str, container: str) -> None:
        """Run a command that ends its own container, which may kill it before it ends itself."""
        try:
            self.exec(pod, *command, container=container)
        except CommandFailed as error:
            if f"status {KILLED_STATUS}" not in str(error):
                raise


class ApiProxy:
    """`kubectl proxy` on a socket file that only this user can open: cheap, frequent reads.

    Ctrl-C does not reach the program: what uses it may still read when a person ends a view.
    """

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="strandline-")
        self._socket = Path(self._folder.name) / "api"
        self._process = start(
            kubernetes.command("kubectl", "proxy", f"--unix-socket={self._socket}"),
            apart=True,
        )
        said = "" if self._process.stdout is None else self._process.stdout.readline()
        if not said.startswith("Starting to serve"):
            self.close()
            raise CommandFailed(f"kubectl proxy: {said.strip()}")

    def get(self, path: str, *, limit_seconds: float) -> str:
        """Return the body of a response; OSError without one in time, CommandFailed if not 200."""
        with self._response(path, limit_seconds) as response:
            body = response.read(BODY_BYTES_MAX + 1)
        if len(body) > BODY_BYTES_MAX:
            raise CommandFailed(f"GET {path}: more than {BODY_BYTES_MAX} bytes")
        return body.decode()

    def lines(self, path: str, *, limit_seconds: float) -> Iterator[str]:
        """Yield the lines of a response as they come, until it ends.

        Raises:  OSError if no line comes in time, CommandFailed if the response is not 200 or
                 a line has more than BODY_BYTES_MAX bytes
        """
        with self._response(path, limit_seconds) as response:
            while line := response.readline(BODY_BYTES_MAX):
                if not line.endswith(b"\n"):
                    raise CommandFailed(f"GET {path}: a line of {len(line)} bytes without an end")
                yield line.decode()

    @contextmanager
    def _response(self, path: str, limit_seconds: float) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(limit_seconds)
        try:
            connection.sock.connect(str(self._socket))
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise CommandFailed(f"GET {path}: status {response.status}")
            yield response
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def close(self) -> None:
        """End the program and remove the socket."""
        self._process.terminate()
        self._process.communicate(timeout=CALL_SECONDS)
        self._folder.cleanup()
