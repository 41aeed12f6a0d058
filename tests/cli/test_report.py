"""The bundle of `strandline report`: its bounds, its index, and what it leaves out."""

from __future__ import annotations

import io
import tarfile

import pytest

from strandline_cli import report
from strandline_cli.commands import CommandFailed
from strandline_cli.report import HIDDEN, LAST_APPLIED, Bundle, cleaned


@pytest.fixture
def written() -> io.BytesIO:
    return io.BytesIO()


@pytest.fixture
def bundle(written: io.BytesIO) -> Bundle:
    return Bundle(archive=tarfile.open(fileobj=written, mode="w:gz"), folder="r")


def held(bundle: Bundle, written: io.BytesIO) -> dict[str, bytes]:
    """Close a bundle and return its files."""
    bundle.archive.close()
    written.seek(0)
    with tarfile.open(fileobj=written) as archive:
        files = ((each.name, archive.extractfile(each)) for each in archive)
        return {name: file.read() for name, file in files if file is not None}


def refuse() -> str:
    raise CommandFailed("kubectl get pods: status 1:\n pods is forbidden")


def test_a_part_that_cannot_be_had_is_a_line_and_the_next_one_is_collected(
    bundle: Bundle, written: io.BytesIO
) -> None:
    bundle.add("pods.json", refuse)
    bundle.add("events.json", lambda: "[]")
    assert bundle.lines == [
        "pods.json: not to be had: kubectl get pods: status 1: pods is forbidden",
        "events.json: 2 bytes",
    ]
    assert held(bundle, written) == {"r/events.json": b"[]"}


def test_parts_and_the_whole_have_bounds(
    bundle: Bundle, written: io.BytesIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "PART_BYTES_MAX", 4)
    monkeypatch.setattr(report, "BUNDLE_BYTES_MAX", 5)
    for name in ("a", "b", "c"):
        bundle.add(name, lambda: "012345")
    assert bundle.lines == [
        "a: 4 bytes, cut from 6 bytes",
        "b: 4 bytes, cut from 6 bytes",
        "c: left out, the bundle has 8 bytes",
    ]
    assert held(bundle, written) == {"r/a": b"2345", "r/b": b"2345"}


def test_values_of_variables_are_left_out_wherever_an_object_has_them() -> None:
    variables = [{"name": "PASSWORD", "value": "hunter2"}, {"name": "A", "valueFrom": {}}]
    found = {
        "metadata": {"name": "p", "managedFields": [1], "annotations": {LAST_APPLIED: "hunter2"}},
        "spec": {"containers": [{"name": "broker", "env": variables}], "replicas": 3},
    }
    assert cleaned(found) == {
        "metadata": {"name": "p", "annotations": {LAST_APPLIED: HIDDEN}},
        "spec": {
            "containers": [
                {"name": "broker", "env": [{"name": "PASSWORD", "value": HIDDEN}, variables[1]]}
            ],
            "replicas": 3,
        },
    }


def test_no_secret_is_asked_for() -> None:
    assert not any("secret" in kind for kind in report.OBJECT_KINDS)
