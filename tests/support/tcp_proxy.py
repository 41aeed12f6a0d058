"""A TCP proxy before a server: it can swallow what its connections carry, without closing them."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

PIECE_BYTES = 1 << 16
CONNECT_LIMIT_SECONDS = 5


class TcpProxy:
    """Passes bytes between callers and one server, in a thread of its own.

    `swallow` makes the present connections half-open: both ends stay connected and hear nothing.
    `cut` does so with later ones, too, until `restore`.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._swallowed: set[socket.socket] = set()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._is_cut = False
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._ends, self._end = socket.socketpair()
        self._selector.register(self._ends, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that callers connect to."""
        return int(self._listener.getsockname()[1])

    def swallow(self) -> None:
        """Pass nothing more on the present connections."""
        with self._lock:
            self._swallowed |= set(self._peers)

    def cut(self) -> None:
        """Pass nothing on any connection, present or new."""
        with self._lock:
            self._is_cut = True
            self._swallowed |= set(self._peers)

    def restore(self) -> None:
        """Pass what new connections carry; end those that were swallowed."""
        with self._lock:
            self._is_cut = False
            ended, self._swallowed = self._swallowed, set()
            for each in ended:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the thread and all connections."""
        self._end.close()
        self._thread.join()
        for each in (*self._peers, self._listener, self._ends):
            each.close()
        self._selector.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                found = key.fileobj
                assert isinstance(found, socket.socket)
                if found is self._ends:
                    return
                with self._lock:
                    if found is self._listener:
                        self._accept()
                    else:
                        self._pass_on(found)

    def _accept(self) -> None:
        caller, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._server, CONNECT_LIMIT_SECONDS)
        except OSError:
            caller.close()
            return
        self._peers |= {caller: server, server: caller}
        for each in (caller, server):
            each.settimeout(CONNECT_LIMIT_SECONDS)
            self._selector.register(each, selectors.EVENT_READ)
        if self._is_cut:
            self._swallowed |= {caller, server}

    def _pass_on(self, source: socket.socket) -> None:
        peer = self._peers.get(source)
        if peer is None:
            return
        try:
            piece = source.recv(PIECE_BYTES)
            if piece and source not in self._swallowed:
                peer.sendall(piece)
        except OSError:
            piece = b""
        if not piece:
            self._forget(source, peer)

    def _forget(self, *ended: socket.socket) -> None:
        for each in ended:
            self._peers.pop(each, None)
            self._swallowed.discard(each)
            self._selector.unregister(each)
            each.close()


@contextmanager
def proxied(kubeconfig: Path, folder: Path) -> Iterator[tuple[TcpProxy, Path]]:
    """Provide a proxy before the API server of a kubeconfig, and a kubeconfig that uses it."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    proxy = TcpProxy(host, int(port))
    cluster["server"] = f"https://127.0.0.1:{proxy.port}"
    path = folder / f"kubeconfig-{proxy.port}"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    try:
        yield proxy, path
    finally:
        proxy.close()
