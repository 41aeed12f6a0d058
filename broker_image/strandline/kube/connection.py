"""Where the API server is and who we are to it: in a cluster, or through KUBECONFIG.

Uses the configuration and transport of the official client; called by `kube.api` alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from kubernetes.aio import config as client_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException
from yaml import YAMLError

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import ConfigError, StoreUnavailable

READ_BUFFER_BYTES = 4 << 20
"""A watch can read lines of twice this length; etcd holds no object above 1.5 MiB."""


# The official client does not annotate these; typed as Any they may be called.
_config: Any = client_config


@contextmanager
def unavailable(what: str, *unusable: type[Exception]) -> Iterator[None]:
    """Turn errors of a connection, and of a response that is unusable, into StoreUnavailable."""
    errors = (TimeoutError, aiohttp.ClientError, OSError, ConfigException)
    broken: tuple[type[Exception], ...] = (*errors, *unusable)
    try:
        yield
    except broken as error:
        raise StoreUnavailable(f"{what}: {str(error) or type(error).__name__}") from error


class _CutConnection(ResponseHandler):
    """Closes at once what is given up: a watch, a cancelled request.

    In an orderly close, TLS waits for the API server, which may send events meanwhile or be silent;
    an event loop that ends before leaves the transport open.
    """

    def close(self) -> None:
        """Close without the farewell of TLS."""
        self.abort()


class _RestClient(RESTClientObject):
    def _create_connector(self) -> aiohttp.TCPConnector:
        connector: Any = super()._create_connector()
        # aiohttp has no public way to choose how a single connection is closed.
        connector._factory = partial(_CutConnection, loop=asyncio.get_running_loop())  # noqa: SLF001
        return cast("aiohttp.TCPConnector", connector)


class Connection:
    """An authenticated HTTP connection pool to one API server."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._rest: Any = _RestClient(configuration)

    @classmethod
    async def open(cls, settings: KubernetesConfig) -> Connection:
        """Find the API server: KUBECONFIG if set, else the pod's ServiceAccount.

        Nothing is sent yet, so this succeeds while the API server is away.

        Raises:  ConfigError if neither says where the API server is
        """
        configuration = Configuration()
        configuration.connection_pool_maxsize = settings.connections_max
        configuration.retries = None
        # Proxies are for the world outside, and to look for them costs each request a look at the
        # environment and at netrc, a file; the kubeconfig's `proxy-url` still holds.
        configuration.client_session_kwargs = {
            "read_bufsize": READ_BUFFER_BYTES,
            "trust_env": False,
        }
        kubeconfig = os.environ.get("KUBECONFIG")
        try:
            if kubeconfig:
                await _config.load_kube_config(
                    config_file=kubeconfig, client_configuration=configuration, persist_config=False
                )
            else:
                _config.load_incluster_config(client_configuration=configuration)
            return cls(configuration)
        except (ConfigException, OSError, YAMLError) as error:
            where = f"KUBECONFIG {kubeconfig}" if kubeconfig else "ServiceAccount of the pod"
            raise ConfigError(f"{where}: {error}") from error

    async def close(self) -> None:
        """Close all connections."""
        await self._rest.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send one request; return the response, its body unread. StoreUnavailable if none came."""
        with unavailable(f"{method} {path}"):
            headers = {"Accept": "application/json", "Content-Type": content_type}
            headers.update(await self._authorization())
            raw = await self._rest.request(
                method,
                f"{self._configuration.host}{path}",
                headers=headers,
                body=body,
                _request_timeout=limits,
            )
            response: aiohttp.ClientResponse = raw.response
            return response

    async def _authorization(self) -> dict[str, str]:
        """Return the header that says who we are; the token is read again every minute."""
        settings = await self._configuration.auth_settings()
        token = settings.get("BearerToken")
        return {"Authorization": token["value"]} if token and token["value"] else {}
