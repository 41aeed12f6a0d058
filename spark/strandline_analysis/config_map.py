"""The write of one ConfigMap by a pod's own account, with Python's library alone.

Called by `job`; needs no Spark. Server-side apply of one key without force: a key that somebody
else has written is left to them. The chart makes the ConfigMap, so that the right to patch this one
is enough (ADR 0066).
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts the account of a pod."""
KEY: Final = "summary.json"
FIELD_MANAGER: Final = "strandline-analysis"
TIMEOUT_SECONDS: Final = 10
ATTEMPTS: Final = 3
BACK_OFF_SECONDS: Final = 1.0
"""Pause before the second attempt; doubles before the third."""
SAID_BYTES_MAX: Final = 2_000
FORBIDDEN, NOT_FOUND, CONFLICT = 403, 404, 409
TOO_MANY_REQUESTS: Final = 429
SERVER_ERROR: Final = 500
ADVICE: Final = {
    FORBIDDEN: "it is not there, or the account may not patch it: the chart's analysis.summaryOf "
    "makes the ConfigMap and gives the right",
    NOT_FOUND: "the namespace is not there",
    CONFLICT: f"somebody else wrote its key {KEY}: remove the key, and the next run writes it",
}


class NotInPod(ValueError):
    """The process has no account of a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a pod is given to reach its API server."""

    url: str
    namespace: str
    folder: Path
    """Holds the files token, which Kubernetes renews, and ca.crt."""


def pod_account(folder: Path | None = None, environment: Mapping[str, str] = os.environ) -> Account:
    """Return the account of this pod; folder is where it lies, ACCOUNT without one.

    Raises:  NotInPod
    """
    folder = folder or ACCOUNT
    try:
        host, port = (environment[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        namespace = (folder / "namespace").read_text().strip()
    except (KeyError, OSError) as error:
        sentence = f"a summary is written from a pod with an account; missing here: {error}"
        raise NotInPod(sentence) from error
    shown = f"[{host}]" if ":" in host else host
    return Account(url=f"https://{shown}:{port}", namespace=namespace, folder=folder)


def write(account: Account, name: str, text: str) -> str:
    """Put a text into a ConfigMap of the account's namespace.

    Returns: why it is not there, "" if it is
    """
    why = ""
    for attempt in range(ATTEMPTS):
        try:
            _apply(account, name, text)
        except urllib.error.HTTPError as error:
            with error:
                why = _said(error)
            if error.code != TOO_MANY_REQUESTS and error.code < SERVER_ERROR:
                break
        except (OSError, http.client.HTTPException) as error:
            why = str(error)
        else:
            return ""
        if attempt + 1 < ATTEMPTS:
            time.sleep(BACK_OFF_SECONDS * 2**attempt)
    return f"ConfigMap {account.namespace}/{name} has no new summary: {why}"


def _apply(account: Account, name: str, text: str) -> None:
    path = f"/api/v1/namespaces/{account.namespace}/configmaps/{name}"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {KEY: text},
    }
    request = urllib.request.Request(  # noqa: S310 - https alone
        f"{account.url}{path}?fieldManager={FIELD_MANAGER}",
        data=json.dumps(body).encode(),
        headers={
            "Content-Type": "application/apply-patch+yaml",
            "Authorization": f"Bearer {(account.folder / 'token').read_text().strip()}",
        },
        method="PATCH",
    )
    context = ssl.create_default_context(cafile=account.folder / "ca.crt")
    # Not by a proxy of the environment: the API server is the pod's own.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
        response.read()


def _said(error: urllib.error.HTTPError) -> str:
    """Return the code, what the API server says, and what a person can do."""
    said = error.read(SAID_BYTES_MAX).decode(errors="replace")
    try:
        said = json.loads(said)["message"]
    except (ValueError, KeyError, TypeError):
        said = error.reason
    advice = ADVICE.get(error.code)
    return f"{error.code} {said}; {advice}" if advice else f"{error.code} {said}"
