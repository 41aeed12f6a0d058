"""Reads from a real Prometheus: blocks from promtool, live scrapes, the whole job."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strandline import names
from strandline_analysis import config_map, xor_chunk
from strandline_analysis.prometheus_http import ReadFailed, Server
from strandline_analysis.read_options import Matcher, Piece
from strandline_analysis.remote_read import Series, read_series
from strandline_analysis.stopwatch import Stopwatch
from strandline_analysis.task import SummaryPlace, Task
from strandline_analysis.tsdb_snapshot import OpenSnapshot, snapshot_in
from strandline_operator.analysis import read_summary
from tests.analysis.http_server import PreparedResponse, self_signed, served_by
from tests.analysis.openmetrics import Labelled, labelled, openmetrics
from tests.analysis.timeline import INTERVAL_MS, PartitionTimeline, scraped
from tests.support.eventually import eventually
from tests.support.prometheus_program import PrometheusProgram

pytestmark = pytest.mark.processes

START_MS = PartitionTimeline().start_ms
SAMPLES = 700
METRIC = "strandline_test_value"


def read(url: str, metric: str, *matchers: Matcher, start_ms: int, end_ms: int) -> list[Series]:
    piece = Piece(metric=metric, start_ms=start_ms, end_ms=end_ms, matchers=matchers)
    return read_series(Server(url=url), piece)


def stored_in(folder: Path) -> list[tuple[Series, list[tuple[int, int]]]]:
    """Return the series and samples of METRIC in blocks."""
    with OpenSnapshot(snapshot_in(folder)) as snapshot:
        found = list(snapshot.series(Piece(metric=METRIC, start_ms=0, end_ms=1 << 50)))
    return [(each, list(each.samples(start_ms=0, end_ms=1 << 50))) for each in found]


def exact(found: Series, *, start_ms: int, end_ms: int) -> list[tuple[int, float]]:
    pairs = found.samples(start_ms=start_ms, end_ms=end_ms)
    return [(at, xor_chunk.number(bits)) for at, bits in pairs]


def walks() -> dict[str, list[tuple[int, float]]]:
    """Return series that need every part of the encoding."""
    chance = random.Random(7)
    kinds: dict[str, Callable[[int], float]] = {
        "constant": lambda _: 5.0,
        "rising": lambda index: 1e6 + 37 * index,
        "chance": lambda _: chance.uniform(-1e300, 1e300),
        "step": lambda index: float(index // 100 % 2),
        "small": lambda _: chance.choice([0.0, -0.0, math.inf, -math.inf, 5e-324, 1 / 3]),
    }
    made = {}
    for kind, value in kinds.items():
        at = START_MS
        samples = []
        for index in range(SAMPLES):
            # Regular times, jitter and long gaps need every width of a delta of deltas.
            at += 1000 + chance.choice([0, 0, 1, -3, 250, -900, 40_000, 600_000])
            samples.append((at, value(index)))
        made[kind] = samples
    return made


def test_blocks_are_read_bit_for_bit_as_the_json_api_returns_them(
    prometheus: PrometheusProgram,
) -> None:
    made = walks()
    labelled = [({"__name__": METRIC, "kind": kind}, samples) for kind, samples in made.items()]
    prometheus.load(openmetrics(labelled))
    prometheus.start()
    last_ms = max(samples[-1][0] for samples in made.values())
    end_ms = last_ms + 1
    found = read(prometheus.url, METRIC, start_ms=START_MS, end_ms=end_ms)
    assert [each.labels["kind"] for each in found] == sorted(made)
    whole_seconds = (end_ms - START_MS) // 1000 + 2
    shown = prometheus.query(f"{METRIC}[{whole_seconds}s]", at_ms=last_ms)
    by_json = {
        each["metric"]["kind"]: [(round(at * 1000), float(value)) for at, value in each["values"]]
        for each in shown
    }
    for each in found:
        kind = each.labels["kind"]
        pairs = exact(each, start_ms=START_MS, end_ms=end_ms)
        assert pairs == made[kind] == by_json[kind]
        assert len(each.chunks) > 1

    cut = [made["rising"][100][0], made["rising"][300][0]]
    (one,) = read(
        prometheus.url,
        METRIC,
        Matcher(label="kind", value="rising"),
        start_ms=cut[0],
        end_ms=cut[1],
    )
    assert exact(one, start_ms=cut[0], end_ms=cut[1]) == made["rising"][100:300]
    assert read(prometheus.url, "other", start_ms=0, end_ms=end_ms) == []


def test_a_missing_server_is_reported_after_a_bounded_number_of_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strandline_analysis.prometheus_http.BACK_OFF_SECONDS", 0.001)
    with pytest.raises(ReadFailed, match="5 attempts"):
        read("http://127.0.0.1:9", METRIC, start_ms=0, end_ms=1)


def test_a_target_that_goes_away_leaves_a_stale_marker(prometheus: PrometheusProgram) -> None:
    def seen() -> list[tuple[int, int]]:
        found = read(prometheus.url, METRIC, start_ms=0, end_ms=1 << 50)
        return list(found[0].samples(start_ms=0, end_ms=1 << 50)) if found else []

    exported = PreparedResponse(f"{METRIC} 1\n".encode())
    with served_by(lambda _: exported) as target:
        prometheus.start([target])
        eventually(lambda: len(seen()) >= 3, within_ms=30_000, what="three scrapes")
    eventually(
        lambda: seen()[-1][1] == xor_chunk.STALE_BITS, within_ms=30_000, what="a stale marker"
    )
    samples = seen()
    assert all(bits != xor_chunk.STALE_BITS for _, bits in samples[:-1])
    # A snapshot has them too, with the block of what was scraped last.
    assert [(each.labels, stored) for each, stored in stored_in(prometheus.snapshot())] == [
        (each.labels, samples) for each in read(prometheus.url, METRIC, start_ms=0, end_ms=1 << 50)
    ]
    # The JSON API hides stale markers, so the analysis does not use it.
    (shown,) = prometheus.query(f"{METRIC}[1h]")
    assert [round(at * 1000) for at, _ in shown["values"]] == [at for at, _ in samples[:-1]]


def test_the_job_reads_analyses_and_writes(
    spark: Any,
    prometheus: PrometheusProgram,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from strandline_analysis.job import TABLE_MARK, analyse, steps_of
    from strandline_analysis.outcome import NO_DATA, OK

    end_ms, written = START_MS + 60_000, list[bytes]()
    made = [*one_cluster(end_ms), *another_cluster(end_ms)]
    prometheus.load(openmetrics(made))
    prometheus.start()
    with refusing_api_server(tmp_path / "account", written) as account:
        task = Task(
            prometheus=prometheus.url,
            start_ms=START_MS,
            end_ms=end_ms,
            out=tmp_path / "out",
            print_tables=True,
            all_tables=True,
            coverage_min=0.0,
            cluster="default",
            summary=SummaryPlace(config_map="summary", cluster="default", account=account),
        )
        assert analyse(spark, replace(task, cluster=""), Stopwatch()) == NO_DATA
        assert "2 clusters, default, other: name one with --cluster" in capsys.readouterr().err
        steps: list[str] = []
        assert analyse(spark, task, Stopwatch(tell=steps.append)) == OK
    of_run = ["a look at the source", "Java and Spark's session", "Spark ends"]
    assert len([*steps, *of_run]) == steps_of(task)
    printed, told = capsys.readouterr()
    assert printed.startswith("Cluster default, ")
    assert "scraped every 1.0 s; 0.0% of the partitions' time is known" in printed
    # A write that is refused fails no run.
    assert told.startswith("ConfigMap here/summary has no new summary: 403 no; ")
    assert told.count("\n") == 1
    check_summary(written)
    tables = {
        line.split()[1]: json.loads(line.split(maxsplit=2)[2])
        for line in printed.splitlines()
        if line.startswith(TABLE_MARK)
    }
    (election,) = tables["elections"]
    assert election["t_first_new_ms"] == START_MS + 40_800
    out = [row for row in tables["isr_intervals"] if row["in_isr"] is False]
    assert [(row["replica"], row["start_ms"], row["end_ms"]) for row in out] == [
        (2, START_MS + 10_450, START_MS + 25_100)
    ]
    check_files(tmp_path / "out", tables)
    assert f"The report for a browser is {tmp_path / 'out' / 'report.html'}" in printed

    check_findings(tmp_path / "out", printed)

    nothing = Task(prometheus=prometheus.url, start_ms=0, end_ms=1000, out=tmp_path / "none")
    assert analyse(spark, nothing, Stopwatch()) == NO_DATA
    assert "no two scrapes" in capsys.readouterr().err
    check_nothing(tmp_path / "none", prometheus.url)


def test_samples_of_another_cluster_are_told_of_and_not_summed_up(
    packages: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert packages
    from strandline_analysis.job import write_summary

    task = Task(prometheus="http://none", start_ms=0, end_ms=1000, out=tmp_path)
    account = config_map.Account(url="https://none", namespace="here", folder=tmp_path)
    place = SummaryPlace(config_map="summary", cluster="other", account=account)
    write_summary(task, place, {}, "default")
    assert capsys.readouterr().err == (
        "no summary is written: it would be of cluster other, and the samples are of the brokers "
        "of: default\n"
    )


def test_a_job_without_prometheus_ends_with_one_sentence_and_no_spark(
    packages: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert packages
    from strandline_analysis import job

    monkeypatch.setattr("strandline_analysis.prometheus_http.BACK_OFF_SECONDS", 0.001)
    monkeypatch.delattr(job, "local_session")
    assert job.main(["--prometheus", "http://127.0.0.1:9", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "refused; the option url names a Prometheus" in told


def check_findings(out: Path, printed: str) -> None:
    summary = json.loads((out / "summary.json").read_text())
    assert summary["coverage"] == 0.0  # nothing tells of the sizes of ISRs
    (lacks,) = summary["findings"]
    assert f"has no sample of {names.BROKER_START_TIMESTAMP_SECONDS.name}, " in lacks
    assert f"{names.PARTITION_MIN_INSYNC_REPLICAS.name}, " in lacks
    assert lacks in " ".join(printed.split())


def check_nothing(out: Path, url: str) -> None:
    told = json.loads((out / "summary.json").read_text())
    assert (told["coverage"], told["rows"]) == (0.0, {})
    assert told["findings"][0].startswith(f"{url} holds no two scrapes of one target")
    assert "holds no two scrapes" in (out / "report.html").read_text()


def one_cluster(end_ms: int) -> list[Labelled]:
    """Return samples of a partition with changes of ISR and leader, and of its brokers' scrapes."""
    history = PartitionTimeline()
    history.change_isr(10_450, {0, 1})
    history.change_isr(25_100, {0, 1, 2})
    history.elect(40_800, 1, {0, 1, 2})
    series = scraped(history, length=60_000)
    found = [labelled(each, start_ms=START_MS, end_ms=end_ms) for each in series]
    # The operator's pod is scraped, too, and is no broker.
    for pod in ("default-0", "default-1", "default-2", "strandline-operator-5f-x"):
        labels = {"__name__": "up", "pod": pod}
        found.append((labels, [(START_MS + at, 1.0) for at in range(0, 60_000, INTERVAL_MS)]))
    return found


def another_cluster(end_ms: int) -> list[Labelled]:
    """Return samples of other brokers with the same topic, of which no table may tell."""
    history = PartitionTimeline()
    history.kill(20_400, 0)
    history.elect(20_800, 2, {1, 2})
    found = []
    for each in scraped(history, length=60_000):
        labels, samples = labelled(each, start_ms=START_MS, end_ms=end_ms)
        found.append(({**labels, "pod": labels["pod"].replace("default", "other")}, samples))
    up = {"__name__": "up", "pod": "other-1"}
    # Scraped more often, and one scrape of them failed.
    every_ms = INTERVAL_MS // 2
    found.append((up, [(START_MS + at, float(at != 9_500)) for at in range(0, 60_000, every_ms)]))
    return found


@contextmanager
def refusing_api_server(folder: Path, written: list[bytes]) -> Iterator[config_map.Account]:
    """Serve what refuses each write and remembers its body; yield the account of a pod there."""

    def refuse(body: bytes) -> PreparedResponse:
        written.append(body)
        return PreparedResponse(b'{"message": "no"}', status=403, kind="application/json")

    certificate = self_signed(folder)
    (folder / "ca.crt").write_bytes(certificate.read_bytes())
    (folder / "token").write_text("t")
    with served_by(refuse, certificate=certificate) as server:
        yield config_map.Account(url=f"https://{server}", namespace="here", folder=folder)


def check_summary(written: list[bytes]) -> None:
    (body,) = map(json.loads, written)
    assert body["metadata"] == {"name": "summary"}
    summary = read_summary(body["data"]["summary.json"], "default")
    assert (summary["elections"], summary["isrShrinks"]) == (1, 1)
    assert summary["leaderlessHighMs"] > 0


def check_files(out: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    import pyarrow.parquet

    from strandline_analysis.html_report.page import html_report
    from strandline_analysis.html_report.words import Range

    summary = json.loads((out / "summary.json").read_text())
    whole = Range(
        start_ms=START_MS,
        end_ms=START_MS + 60_000,
        interval_ms=INTERVAL_MS,
        cluster="default",
        known=0.0,
        findings=tuple(summary["findings"]),
    )
    assert (out / "report.html").read_text() == html_report(tables, whole)
    assert {row["cluster"] for rows in tables.values() for row in rows} == {"default"}
    assert summary["scrapeIntervalMs"] == INTERVAL_MS
    assert summary["rows"] == {name: len(rows) for name, rows in tables.items()}
    for name, rows in tables.items():
        assert pyarrow.parquet.read_table(out / f"{name}.parquet").to_pylist() == rows
        lines = (out / f"{name}.csv").read_text().splitlines()
        assert len(lines) == len(rows) + 1


def test_the_metrics_that_analyses_read_are_declared(spark: Any) -> None:
    from strandline_analysis.tables import ANALYSES
    from strandline_analysis.tables.coverage import UP

    assert spark is not None
    for analysis in ANALYSES.values():
        assert set(analysis.metrics) - {UP} <= set(names.ALL_METRICS)
