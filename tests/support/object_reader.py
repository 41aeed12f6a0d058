"""Reads the objects of an API server over a connection that stays open.

Tests poll for what they wait for. Each call of kubectl costs a process, a handshake and a look at
what the server serves, a tenth of a second of a processor and more: such polls would keep the
machine busy, and what the tests wait for would come later.
"""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import Configuration
from kubernetes.config import load_kube_config
from urllib3 import PoolManager, Retry
from urllib3.exceptions import HTTPError

from tests.support.commands import COMMAND_LIMIT_SECONDS, CommandError

Manifest = dict[str, Any]

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The form of discovery that has every kind of resource in two responses."""

BAD_REQUEST = 400
NOT_FOUND = 404
"""Status of the error about an object that does not exist."""

LATER = Retry(connect=0, read=0, status=10, status_forcelist={429}, raise_on_status=False)
"""As kubectl, a read comes again when the server says so: the storage of a new kind begins late."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of object as the API server serves it."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        root = "apis" if "/" in self.api_version else "api"
        within = ["namespaces", namespace] if self.is_namespaced else []
        return "/" + "/".join(filter(None, [root, self.api_version, *within, self.plural, name]))


class ObjectReader:
    """An administrator's reads, with the arguments of `kubectl get`."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._pool: PoolManager | None = None
        self._url = ""
        self._kinds: dict[str, _Kind] = {}

    def get(self, *args: str) -> Manifest:
        """Return the object or list that `kubectl get ... -o json` prints.

        Raises: CommandError with the server's message, or if it does not respond
        """
        namespace, selector, positional = _parsed(args)
        kinds, *names = positional
        if "/" in kinds:
            kinds, _, name = kinds.partition("/")
            names = [name]
        if len(names) == 1:
            return self._read(self._kind(kinds).path(namespace, names[0]))
        items: list[Manifest] = []
        for each in kinds.split(","):
            kind = self._kind(each)
            if names:
                items += [self._read(kind.path(namespace, name)) for name in names]
            else:
                items += self._list(kind, namespace, selector)
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def close(self) -> None:
        """Close the connection; the next read opens another one."""
        if self._pool is not None:
            self._pool.clear()
            self._pool = None

    def _list(self, kind: _Kind, namespace: str, selector: str) -> Iterator[Manifest]:
        found = self._read(kind.path(namespace), labelSelector=selector)
        for item in found["items"]:
            yield {"apiVersion": kind.api_version, "kind": kind.kind, **item}

    def _kind(self, name: str) -> _Kind:
        """Return the kind of this name; look again what there is if it is not known."""
        if name not in self._kinds:
            self._kinds = {}
            for root in ("/api", "/apis"):
                for group in self._read(root, accept=AGGREGATED)["items"]:
                    self._learn(group)
        if name not in self._kinds:
            raise CommandError(["get", name], "unknown", "", "the server has no such resource type")
        return self._kinds[name]

    def _learn(self, group: Manifest) -> None:
        group_name = group["metadata"].get("name", "")
        for version in group["versions"]:
            for served in version["resources"]:
                kind = _Kind(
                    api_version="/".join(filter(None, [group_name, version["version"]])),
                    kind=served["responseKind"]["kind"],
                    plural=served["resource"],
                    is_namespaced=served["scope"] == "Namespaced",
                )
                short = served.get("shortNames", [])
                for name in (served["resource"], served["singularResource"], *short):
                    # As for kubectl, the core group comes first, and a group's preferred version.
                    self._kinds.setdefault(name, kind)
                    self._kinds.setdefault(f"{name}.{group_name}", kind)

    def _read(self, path: str, *, accept: str = "application/json", **query: str) -> Manifest:
        try:
            response = self._opened().request(
                "GET",
                self._url + path,
                fields={name: value for name, value in query.items() if value},
                headers={"Accept": accept},
                timeout=COMMAND_LIMIT_SECONDS,
                retries=LATER,
            )
            found: Manifest = response.json()
        except (HTTPError, ValueError) as error:
            raise CommandError(["get", path], type(error).__name__, "", str(error)) from error
        if response.status >= BAD_REQUEST:
            told = f"Error from server ({found['reason']}): {found['message']}"
            raise CommandError(["get", path], response.status, "", told)
        return found

    def _opened(self) -> PoolManager:
        if self._pool is None:
            found: Any = Configuration()
            load_kube_config(  # type: ignore[no-untyped-call]  # kubernetes has no types
                str(self._kubeconfig), client_configuration=found
            )
            self._url = found.host
            context = ssl.create_default_context(cafile=found.ssl_ca_cert)
            context.load_cert_chain(found.cert_file, found.key_file)
            context.sslsocket_class = ClosedIfReset
            self._pool = PoolManager(ssl_context=context)
        return self._pool


class ClosedIfReset(ssl.SSLSocket):
    """Closes itself if the connection was reset before the handshake, which Python 3.11 forgets.

    An API server that is killed resets connections that it has not accepted yet.
    """

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError:
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, "reset before the handshake") from None


def _parsed(args: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the namespace, the label selector, and the arguments without a name.

    Raises: ValueError of another option
    """
    options = {"-n": "default", "-l": ""}
    positional: list[str] = []
    rest = iter(args)
    for each in rest:
        if each in options:
            options[each] = next(rest)
        elif each.startswith("-"):
            raise ValueError(f"{each}: reads take -n and -l")
        else:
            positional.append(each)
    return options["-n"], options["-l"], positional
