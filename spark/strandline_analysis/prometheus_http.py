"""Requests to Prometheus over HTTP: token, certificates, retries, and sentences for what fails.

Called by `remote_read` and `json_api`. A request is repeated as a whole, so what it reads must not
have been used before its end. The token goes to the given address alone: no redirect is followed.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from .read_options import ATTEMPTS, TIMEOUT_SECONDS, ReadOptions

BACK_OFF_SECONDS: Final = 0.5
"""Pause before the second attempt; doubles before each further one."""
BACK_OFF_SECONDS_MAX: Final = 15.0
SAID_BYTES_MAX: Final = 500
"""How much of a refusal is repeated in its sentence."""
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, UNPROCESSABLE = 401, 403, 404, 422
TOO_MANY_REQUESTS: Final = 429
SERVER_ERROR: Final = 500
ADVICE: Final = {
    UNAUTHORIZED: "it wants a token: name its file in the option bearer_token_file",
    FORBIDDEN: "the token of bearer_token_file, or its lack, allows no reading",
    NOT_FOUND: "the path of the option url is wrong, or this server has no such API",
    UNPROCESSABLE: "if it is for too many samples, a smaller slice_ms or more shards help",
}

Result = TypeVar("Result")


class ReadFailed(Exception):
    """Prometheus refused the request, or its response is not what this client reads."""


class Retriable(Exception):
    """This attempt failed; the same request may succeed next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One Prometheus and how to reach it. Fields are those of ReadOptions."""

    url: str
    attempts: int = ATTEMPTS
    timeout_seconds: int = TIMEOUT_SECONDS
    bearer_token_file: str = ""
    ca_file: str = ""


def server_of(options: ReadOptions) -> Server:
    """Return the server that a read asks."""
    return Server(
        url=options.url,
        attempts=options.attempts,
        timeout_seconds=options.timeout_seconds,
        bearer_token_file=options.bearer_token_file,
        ca_file=options.ca_file,
    )


def ask(
    server: Server,
    path: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    take: Callable[[http.client.HTTPResponse], Result],
) -> Result:
    """Return what `take` makes of the response; repeat the request after an interruption.

    Raises:  ReadFailed when Prometheus refuses or every attempt failed
    """
    url = server.url.rstrip("/") + path
    attempt = 1
    while True:
        try:
            return _attempt(server, url, body=body, headers=headers, take=take)
        except (Retriable, OSError, http.client.HTTPException) as error:
            if attempt == server.attempts:
                raise ReadFailed(f"{url}: {_said(error)} ({attempt} attempts)") from error
        time.sleep(min(BACK_OFF_SECONDS * 2 ** (attempt - 1), BACK_OFF_SECONDS_MAX))
        attempt += 1


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect as the error that it is for a POST with a token."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


def _attempt(
    server: Server,
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    take: Callable[[http.client.HTTPResponse], Result],
) -> Result:
    given = {**headers, **_authorization(server)}
    request = urllib.request.Request(url, data=body, headers=given, method="POST")  # noqa: S310
    secured = [_certificates(server)] if url.startswith("https:") else []
    opener = urllib.request.build_opener(_NoRedirect, *secured)
    try:
        with opener.open(request, timeout=server.timeout_seconds) as response:
            return take(response)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(SAID_BYTES_MAX).decode(errors="replace").strip()
            moved = error.headers.get("Location")
        if moved:
            raise ReadFailed(f"{url}: {error.code}, it moved: set url to {moved}") from error
        message = f"{url}: {error.code} {said}"
        if error.code == TOO_MANY_REQUESTS or error.code >= SERVER_ERROR:
            raise Retriable(message) from error
        advice = ADVICE.get(error.code)
        raise ReadFailed(f"{message}; {advice}" if advice else message) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            said = error.reason.verify_message
            advice = "name the certificate of its CA in the option ca_file"
            raise ReadFailed(f"{url}: its certificate is refused ({said}); {advice}") from error
        raise


def _authorization(server: Server) -> dict[str, str]:
    """Return the header with the token, which may have been renewed since the last request."""
    if not server.bearer_token_file:
        return {}
    try:
        token = Path(server.bearer_token_file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ReadFailed(f"option bearer_token_file: {error}") from error
    if not token or any(character.isspace() for character in token):
        raise ReadFailed(f"option bearer_token_file: {server.bearer_token_file} holds no one token")
    return {"Authorization": f"Bearer {token}"}


def _certificates(server: Server) -> urllib.request.HTTPSHandler:
    try:
        context = ssl.create_default_context(cafile=server.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        said = f"{server.ca_file} holds no certificate that can be read ({error})"
        raise ReadFailed(f"option ca_file: {said}") from error
    return urllib.request.HTTPSHandler(context=context)


def _said(error: Exception) -> str:
    if not isinstance(error, urllib.error.URLError):
        return str(error)
    return f"{error.reason}; the option url names a Prometheus that this machine reaches"
