"""What one run of the job is asked for, and how a wrong wish is refused before Spark starts."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from strandline_analysis import config_map, prometheus_http
from strandline_analysis.lake_slices import founded
from strandline_analysis.prometheus_http import ReadFailed
from strandline_analysis.task import Task, add_options, check_source, task_of
from strandline_analysis.tsdb_files import BlockRefused
from tests.analysis.http_server import PreparedResponse, self_signed, served_by
from tests.analysis.tsdb_writer import WrittenSeries, write_block

GIVEN = ("--prometheus", "https://p:9090", "--out", "out", "--start", "1000", "--end", "9000")


def asked(*arguments: str) -> Task:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return task_of(parser.parse_args([*GIVEN, *arguments]))


def test_token_and_ca_reach_the_data_source() -> None:
    assert asked("--bearer-token-file", "/token", "--ca-file", "/ca.pem").source == {
        "url": "https://p:9090",
        "start_ms": "1000",
        "end_ms": "9000",
        "bearer_token_file": "/token",
        "ca_file": "/ca.pem",
        "transport": "remote_read",
    }
    assert asked().source["bearer_token_file"] == asked().source["ca_file"] == ""


def test_a_cluster_is_named_or_left_open() -> None:
    assert (asked("--cluster", "strandline/blue").cluster, asked().cluster) == (
        "strandline/blue",
        "",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--prometheus", "p:9090"), "option url is 'p:9090'; it accepts http://HOST:PORT"),
        (("--end", "999999999999999"), "option end_ms is '999999999999999'; it accepts ms since"),
        (("--end", "1000"), "the range is empty: start must be before end"),
        (("--start", "2026-01-01T00:00:00"), "2026-01-01T00:00:00 has no time zone"),
        (("--cores", "0"), "cores must be at least 1"),
        (("--coverage-min", "1.01"), "coverage-min must be between 0 and 1"),
    ],
)
def test_a_wrong_wish_is_refused_with_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(argparse.ArgumentError) as refused:
        asked(*arguments)
    assert str(refused.value).startswith(said)


JSON = PreparedResponse(b'{"data": {"result": []}}', kind="application/json")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pause between attempts; their number stays."""
    monkeypatch.setattr(prometheus_http, "BACK_OFF_SECONDS", 0.001)


@pytest.mark.parametrize(
    ("response", "advice"),
    [
        (PreparedResponse(b"", 401), "name its file in the option bearer_token_file"),
        (PreparedResponse(b"", 403), "the token of bearer_token_file, or its lack"),
        (PreparedResponse(b"", 404), "the path of the option url is wrong"),
        (JSON, "option transport=json reads it"),
    ],
)
def test_a_prometheus_that_cannot_be_read_is_told_before_spark_starts(
    response: PreparedResponse, advice: str
) -> None:
    with served_by(lambda _: response) as address, pytest.raises(ReadFailed) as refused:
        check_source(asked("--prometheus", f"http://{address}"))
    told = str(refused.value)
    assert told.startswith(f"http://{address}")
    assert advice in told
    assert "\n" not in told


def test_a_prometheus_that_is_not_there_or_has_a_certificate_of_its_own_is_told(
    tmp_path: Path,
) -> None:
    with pytest.raises(ReadFailed, match=r"refused; the option url names a Prometheus that"):
        check_source(asked("--prometheus", "http://127.0.0.1:9"))
    with pytest.raises(ReadFailed, match=r"the option url names a Prometheus that"):
        check_source(asked("--prometheus", "http://no.such.host.invalid:9090"))
    certificate = self_signed(tmp_path / "a")
    with served_by(lambda _: JSON, certificate=certificate) as address:
        given = ("--prometheus", f"https://{address}", "--transport", "json")
        with pytest.raises(ReadFailed, match=r"certificate is refused .*in the option ca_file"):
            check_source(asked(*given))
        check_source(asked(*given, "--ca-file", str(certificate)))


def test_a_lake_is_read_without_prometheus(tmp_path: Path) -> None:
    founded(tmp_path, metrics=("up",), start_ms=0, slice_ms=60_000).completed(60_000)
    parser = argparse.ArgumentParser()
    add_options(parser)
    given = ["--lake", str(tmp_path), "--out", "out", "--start", "1000", "--end", "9000"]
    task = task_of(parser.parse_args(given))
    check_source(task)
    assert task.origin == str(tmp_path)
    with pytest.raises(argparse.ArgumentError, match="lacks a part of"):
        task_of(parser.parse_args([*given, "--end", "60001"]))


def of_blocks(folder: Path, *arguments: str) -> Task:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return task_of(parser.parse_args(["--blocks", str(folder), "--out", "out", *arguments]))


def test_blocks_are_read_without_prometheus(tmp_path: Path) -> None:
    made = WrittenSeries(labels={"__name__": "up"}, chunks=[[(3_600_000, 1), (9_000_000, 1)]])
    block = write_block(tmp_path, [made])
    task = of_blocks(tmp_path)
    # The last hour of the newest block.
    assert (task.start_ms, task.end_ms) == (9_000_001 - 3_600_000, 9_000_001)
    assert task.origin == str(tmp_path)
    assert task.source == {
        "blocks": str(tmp_path),
        "start_ms": str(task.start_ms),
        "end_ms": "9000001",
    }
    assert of_blocks(tmp_path, "--window", "7d").start_ms == 3_600_000
    check_source(task)
    (block / "index").write_bytes(b"")
    with pytest.raises(BlockRefused, match=r"index cannot be read: cannot mmap an empty file"):
        check_source(task)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--end", "3600000", "--start", "9"), "holds nothing of 1970-01-01T00:00:00.009"),
        (("--transport", "json"), "option transport is 'json'; it accepts nothing beside blocks"),
        (("--ca-file", "x"), "option ca_file is 'x'; it accepts nothing beside blocks"),
        (("--blocks", "no/such"), "no/such is no folder of blocks"),
        (("--lake", "x"), "not allowed with argument --blocks"),
        (("--prometheus", "http://p"), "not allowed with argument --blocks"),
    ],
)
def test_a_wrong_wish_for_blocks_is_refused_with_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = WrittenSeries(labels={"__name__": "up"}, chunks=[[(3_600_000, 1), (9_000_000, 1)]])
    write_block(tmp_path, [made])
    with pytest.raises((argparse.ArgumentError, SystemExit)) as refused:
        of_blocks(tmp_path, *arguments)
    assert said in f"{refused.value}{capsys.readouterr().err}"


def of_lake(folder: Path, *arguments: str) -> Task:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return task_of(parser.parse_args(["--lake", str(folder), "--out", "out", *arguments]))


@pytest.mark.parametrize(
    ("window", "start_ms"), [("2m", 5 * 60_000), ("90s", 330_000), ("7d", 60_000)]
)
def test_a_window_ends_with_the_lake_and_begins_with_it_at_the_earliest(
    tmp_path: Path, window: str, start_ms: int
) -> None:
    lake = founded(tmp_path, metrics=("up",), start_ms=60_000, slice_ms=60_000)
    with pytest.raises(argparse.ArgumentError, match="holds no complete slice yet"):
        of_lake(tmp_path, "--window", window)
    lake.completed(7 * 60_000)
    task = of_lake(tmp_path, "--window", window)
    assert (task.start_ms, task.end_ms) == (start_ms, 7 * 60_000)


@pytest.mark.parametrize("window", ["6", "0h", "6 h", "-1h", "1w", "1234567s"])
def test_what_is_no_length_of_time_is_refused(tmp_path: Path, window: str) -> None:
    founded(tmp_path, metrics=("up",), start_ms=0, slice_ms=60_000).completed(60_000)
    with pytest.raises(argparse.ArgumentError, match="is no length of time: 30m, 6h and 7d"):
        of_lake(tmp_path, f"--window={window}")


def test_a_window_of_prometheus_ends_where_it_is_told() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    given = ["--prometheus", "https://p:9090", "--out", "out", "--end", "9000000", "--window", "1h"]
    assert task_of(parser.parse_args(given)).start_ms == 5_400_000


SUMMARY = ("--summary-config-map", "s")


def test_a_summary_is_asked_for_in_a_pod_and_for_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked("--summary-of", "east").summary is None
    monkeypatch.setattr(config_map, "ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    for arguments, said in (
        (SUMMARY, "summary-config-map needs summary-of"),
        ((*SUMMARY, "--summary-of", "east"), "a summary is written from a pod with an account"),
    ):
        with pytest.raises(argparse.ArgumentError, match=said):
            asked(*arguments)
    (tmp_path / "namespace").write_text("here")
    place = asked(*SUMMARY, "--summary-of", "east").summary
    assert place is not None
    assert (place.config_map, place.cluster) == ("s", "east")
    assert (place.account.url, place.account.namespace) == ("https://[fd00::1]:443", "here")


@pytest.mark.parametrize("where", ["token", "server"])
def test_an_api_server_that_is_not_reached_is_told_in_one_line(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_map, "BACK_OFF_SECONDS", 0.001)
    certificate = self_signed(tmp_path / "made")
    (tmp_path / "ca.crt").write_bytes(certificate.read_bytes())
    if where == "server":
        (tmp_path / "token").write_text("t")
    account = config_map.Account(url="https://127.0.0.1:9", namespace="here", folder=tmp_path)
    said = config_map.write(account, "s", "text")
    assert said.startswith("ConfigMap here/s has no new summary: ")
    assert ("refused" in said) == (where == "server")
    assert "\n" not in said
