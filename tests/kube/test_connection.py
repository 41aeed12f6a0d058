"""How the HTTP connections to the API server are made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from strandline.config.kubernetes import KubernetesConfig
from strandline.kube.connection import Connection

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
users: [{{name: me, user: {{}}}}]
"""


def test_proxies_of_the_environment_are_not_asked_for_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look for them, aiohttp reads the environment and the file netrc for each request."""
    kubeconfig = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # nothing listens at port 1

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="here")

    async def scenario() -> str:
        application = web.Application()
        application.router.add_get("/version", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        kubeconfig.write_text(KUBECONFIG.format(port=runner.addresses[0][1]))
        connection = await Connection.open(KubernetesConfig())
        try:
            limits = aiohttp.ClientTimeout(total=30)
            async with await connection.send("GET", "/version", limits=limits) as response:
                return await response.text()
        finally:
            await connection.close()
            await runner.cleanup()

    assert asyncio.run(scenario()) == "here"
