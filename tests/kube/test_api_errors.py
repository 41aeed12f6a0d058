"""The error that each response of the API server becomes, and the URL path of an object."""

from __future__ import annotations

import json

import pytest

from strandline.errors import (
    CoordinationError,
    StoreConflict,
    StoreForbidden,
    StoreNotFound,
    StoreRefused,
    StoreUnavailable,
    WatchExpired,
)
from strandline.kube import api
from strandline.kube.api import Resource, is_before


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, StoreUnavailable),
        (400, StoreRefused),
        (401, StoreForbidden),
        (403, StoreForbidden),
        (404, StoreNotFound),
        (405, StoreRefused),
        (408, StoreUnavailable),
        (409, StoreConflict),
        (410, WatchExpired),
        (413, StoreRefused),
        (422, StoreRefused),
        (429, StoreUnavailable),
        (500, StoreUnavailable),
        (503, StoreUnavailable),
        (504, StoreUnavailable),
    ],
)
def test_every_status_code_becomes_one_error(status: int, kind: type[CoordinationError]) -> None:
    body = json.dumps({"kind": "Status", "message": "the sentence"})
    error = api._error("get /x", status, body)
    assert type(error) is kind
    assert str(error) == f"get /x: {status} the sentence"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"no": "message"}', b"\xff", b"null"])
def test_a_response_that_is_no_status_is_quoted(body: bytes) -> None:
    assert str(api._error("get /x", 502, body)).startswith("get /x: 502 ")


def test_a_long_response_is_cut() -> None:
    assert len(str(api._error("get /x", 502, "x" * 100_000))) < 3_000


@pytest.mark.parametrize(
    ("resource", "name", "path"),
    [
        (Resource(group="", version="v1", plural="pods"), "", "/api/v1/namespaces/n/pods"),
        (
            Resource(group="g.dev", version="v1", plural="things"),
            "a/../b",
            "/apis/g.dev/v1/namespaces/n/things/a%2F..%2Fb/status",
        ),
    ],
)
def test_an_object_has_one_path(resource: Resource, name: str, path: str) -> None:
    assert resource.path("n", name, "status" if name else "") == path


def test_an_object_outside_namespaces_has_one_address() -> None:
    nodes = Resource(group="", version="v1", plural="nodes")
    assert nodes.path("", "x", "status") == "/api/v1/nodes/x/status"


@pytest.mark.parametrize(
    ("version", "other", "expected"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("9", "", False),
        ("9", "later", False),
    ],
)
def test_only_versions_that_are_numbers_have_an_order(
    version: str, other: str, expected: bool
) -> None:
    assert is_before(version, other) is expected
