"""How Prometheus is asked: the token, certificates, refusals and what their sentences say."""

from __future__ import annotations

import http.client
from dataclasses import replace
from email.message import Message
from pathlib import Path

import pytest

from strandline_analysis import prometheus_http
from strandline_analysis.prometheus_http import ReadFailed, Server, ask, server_of
from strandline_analysis.read_options import read_options
from tests.analysis.http_server import PreparedResponse, self_signed, served_by


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pause between attempts; their number stays."""
    monkeypatch.setattr(prometheus_http, "BACK_OFF_SECONDS", 0.001)


def read(server: Server) -> bytes:
    def take(response: http.client.HTTPResponse) -> bytes:
        return response.read()

    return ask(server, "/x", body=b"asked", headers={"Accept": "text/plain"}, take=take)


def test_options_reach_the_server() -> None:
    given = {
        "url": "https://p",
        "metrics": "m",
        "start_ms": "0",
        "end_ms": "1",
        "attempts": "3",
        "timeout_seconds": "7",
        "bearer_token_file": "/token",
        "ca_file": "/ca.pem",
    }
    assert server_of(read_options(given)) == Server(
        url="https://p",
        attempts=3,
        timeout_seconds=7,
        bearer_token_file="/token",
        ca_file="/ca.pem",
    )


def test_a_token_is_read_before_each_request(tmp_path: Path) -> None:
    token, seen = tmp_path / "token", list[Message]()
    with served_by(PreparedResponse, seen=seen) as address:
        server = Server(url=f"http://{address}/", bearer_token_file=str(token))
        for content in ("first\n", "second"):
            token.write_text(content)
            assert read(server) == b"asked"
        read(replace(server, bearer_token_file=""))
    sent = [headers["Authorization"] for headers in seen]
    assert sent == ["Bearer first", "Bearer second", None]


@pytest.mark.parametrize("content", ["", "  \n", "two tokens", "a\nb", "é"])
def test_a_file_without_one_token_is_named(tmp_path: Path, content: str) -> None:
    token = tmp_path / "token"
    token.write_text(content)
    server = Server(url="http://127.0.0.1:9", bearer_token_file=str(token))
    with pytest.raises(ReadFailed, match="option bearer_token_file: "):
        read(server)
    with pytest.raises(ReadFailed, match=r"option bearer_token_file: .*none"):
        read(replace(server, bearer_token_file=str(tmp_path / "none")))


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "name its file in the option bearer_token_file"),
        (403, "allows no reading"),
        (404, "the path of the option url is wrong"),
        (422, "a smaller slice_ms or more shards"),
    ],
)
def test_a_refusal_says_what_to_do_and_is_not_repeated(status: int, advice: str) -> None:
    seen = list[Message]()
    refused = PreparedResponse(b"because", status)
    with (
        served_by(lambda _: refused, seen=seen) as address,
        pytest.raises(ReadFailed, match=rf"/x: {status} because; .*{advice}"),
    ):
        read(Server(url=f"http://{address}"))
    assert len(seen) == 1


def test_a_redirect_is_named_and_gets_no_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    seen = list[Message]()
    with served_by(lambda _: PreparedResponse(b""), seen=seen) as elsewhere:
        moved = PreparedResponse(b"", 302, location=f"http://{elsewhere}/y")
        with (
            served_by(lambda _: moved) as address,
            pytest.raises(ReadFailed, match=f"302, it moved: set url to http://{elsewhere}/y"),
        ):
            read(Server(url=f"http://{address}", bearer_token_file=str(token)))
    assert seen == []


def test_a_dead_server_is_asked_a_bounded_number_of_times() -> None:
    with pytest.raises(ReadFailed, match=r"refused.*\(2 attempts\)"):
        read(Server(url="http://127.0.0.1:9", attempts=2))


def test_a_certificate_is_checked_against_the_ca_that_is_named(tmp_path: Path) -> None:
    certificate, strange = self_signed(tmp_path / "a"), self_signed(tmp_path / "b")
    with served_by(PreparedResponse, certificate=certificate) as address:
        server = Server(url=f"https://{address}", ca_file=str(certificate))
        assert read(server) == b"asked"
        for other in ("", str(strange)):
            with pytest.raises(ReadFailed, match=r"certificate is refused .*in the option ca_file"):
                read(replace(server, ca_file=other))


def test_a_ca_file_without_certificates_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "none.pem"):
        server = Server(url="https://127.0.0.1:9", ca_file=str(tmp_path / name))
        with pytest.raises(ReadFailed, match=rf"option ca_file: .*{name}"):
            read(server)
