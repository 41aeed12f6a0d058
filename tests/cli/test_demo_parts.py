"""The pure functions of the demo: reports, offsets, events, and when a run is vacuous."""

from __future__ import annotations

import base64
import gzip
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from strandline.config.timing import PROFILES
from strandline_analysis.task import PAGE_MARK
from strandline_checker.history import History
from strandline_checker.judge import HistoryVerdict, judge
from strandline_cli import clusters, demo, demo_analysis, images
from strandline_cli.__main__ import main
from strandline_cli.cluster_view import (
    ClusterSeen,
    ClusterView,
    PartitionSeen,
    PodSeen,
    TimelineEvent,
    differences,
    offsets_of,
    partition_of,
    pod_of,
)
from strandline_cli.commands import CommandFailed, RunFailed, run
from strandline_cli.demo import Wishes
from strandline_cli.images import ImageSource
from strandline_cli.load_pod import LoadPod, manifest, parse_report
from strandline_cli.screen import Screen
from strandline_cli.verdict import ACKED_MIN, FaultSeen, vacuity

ROOT = Path(__file__).parents[2]
FAULT = FaultSeen(
    name="fault", changed=(0,), gaps_ms={0: 300, 1: 20}, acked_before=10, acked_after=20
)
PARTITION = PartitionSeen(number=0, leader=0, leader_epoch=1, isr=(0, 1, 2), replicas=(0, 1, 2))
POD = PodSeen(uid="a", ready=True, restarts=0, image="broker:1")
SEEN = ClusterSeen(
    partitions={0: PARTITION}, pods={"default-0": POD}, controller=1, controller_epoch=4
)


def clean_verdict() -> HistoryVerdict:
    return replace(judge(History(), replicas={}), acked=ACKED_MIN)


# --- vacuous runs -------------------------------------------------------------------------


def test_a_run_with_enough_records_and_effective_faults_is_not_vacuous() -> None:
    assert vacuity(ACKED_MIN, [FAULT, FAULT], load_exit_code=0) == []


@pytest.mark.parametrize(
    ("acked", "faults", "exit_code", "reason"),
    [
        (ACKED_MIN - 1, [FAULT], 0, "only 4999 records"),
        (ACKED_MIN, [], 0, "no fault"),
        (ACKED_MIN, [replace(FAULT, changed=())], 0, "neither a leader nor an ISR changed"),
        (ACKED_MIN, [FAULT, replace(FAULT, acked_after=10)], 0, "nothing was acknowledged"),
        (ACKED_MIN, [FAULT], 1, "the load ended with 1"),
        (ACKED_MIN, [FAULT], None, "the load ended with None"),
    ],
)
def test_a_vacuous_run_is_named(
    acked: int, faults: list[FaultSeen], exit_code: int | None, reason: str
) -> None:
    (found,) = vacuity(acked, faults, load_exit_code=exit_code)
    assert reason in found


@pytest.mark.parametrize(
    ("changes", "faults", "exit_code", "passed"),
    [
        ({}, [FAULT], 0, True),
        ({"lost": 1}, [FAULT], 0, False),
        ({"misread": 1}, [FAULT], 0, False),
        ({"unknown": 3}, [FAULT], 0, True),
        ({"acked": ACKED_MIN - 1}, [FAULT], 0, False),
        ({}, [replace(FAULT, changed=())], 0, False),
        ({}, [FAULT], 1, False),
    ],
)
def test_the_demo_passes_only_if_no_record_is_lost_and_the_run_is_not_vacuous(
    changes: dict[str, int], faults: list[FaultSeen], exit_code: int, passed: bool
) -> None:
    verdict = replace(clean_verdict(), **changes)  # type: ignore[arg-type]  # counts alone
    reasons = vacuity(verdict.acked, faults, load_exit_code=exit_code)
    assert demo.report(verdict, faults, reasons, Screen()) is passed


def test_a_piped_demo_prints_each_event_once_although_the_view_forgets_old_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Forgetful(ClusterView):
        """A view without a cluster, which keeps its last two events."""

        def __init__(self) -> None:
            self.kept: list[TimelineEvent] = []

        def events(self) -> list[TimelineEvent]:
            return self.kept[-2:]

    view, screen = Forgetful(), Screen()
    with screen.watching(view, LoadPod.__new__(LoadPod)):
        for number in range(5):
            view.kept.append(TimelineEvent(at_seconds=float(number), text=f"event {number}"))
            for _ in range(2):
                assert screen.wait(lambda: True, 0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("]")[2].strip() for line in lines] == [f"event {n}" for n in range(5)]


# --- reports and objects ------------------------------------------------------------------


def test_a_report_of_the_load_is_read_and_other_output_is_not() -> None:
    line = (
        '{"at_ms": 250, "acked": {"0": 5, "1": 6}, "unknown": 1, "failed": 0, '
        '"silent_ms": {"0": 3}, "gap_ms": {"0": 12}, "read": null}'
    )
    report = parse_report(line)
    assert report is not None
    assert (report.acked, report.silent_ms, report.gap_ms) == ({0: 5, 1: 6}, {0: 3}, {0: 12})
    assert parse_report("%3|1795|FAIL|rdkafka#producer-1| connection refused") is None
    assert parse_report('{"at_ms": 1}') is None
    assert parse_report('{"at_ms": ') is None


def test_offsets_come_from_metrics_of_the_topic_alone() -> None:
    metrics = "\n".join(
        f'strandline_partition_{name}{{partition="{number}",topic="{topic}"}} {value}'
        for name, number, topic, value in (
            ("high_watermark", 0, "orders", 7.0),
            ("log_end_offset", 0, "orders", 9.0),
            ("high_watermark", 1, "orders", 3.0),
            ("high_watermark", 0, "other", 1.0),
            ("log_end_offset", 0, "other", 1.0),
        )
    )
    assert offsets_of(metrics + "\n", "orders") == {0: (7, 9)}


def test_objects_are_read_with_and_without_status() -> None:
    bare = {"spec": {"partition": 4, "topicName": "orders"}}
    assert partition_of(bare) == PartitionSeen(number=4)
    assert not partition_of(bare).has_full_isr
    pod = {
        "metadata": {"uid": "u", "deletionTimestamp": "now"},
        "spec": {"containers": [{"image": "broker:1"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"restartCount": 2}],
        },
    }
    assert pod_of(pod) == PodSeen(uid="u", ready=False, restarts=2, image="broker:1")


def test_every_change_becomes_a_sentence_and_no_change_none() -> None:
    assert differences(SEEN, SEEN, "orders") == []
    after = ClusterSeen(
        partitions={0: replace(PARTITION, leader=2, leader_epoch=2, isr=(2, 1))},
        pods={"default-0": replace(POD, restarts=1), "default-1": POD},
        controller=2,
        controller_epoch=5,
    )
    assert differences(SEEN, after, "orders") == [
        "orders-0: leader 0 -> 2, epoch 2",
        "orders-0: 0 left the ISR, now [2, 1]",
        "broker 2 is controller, epoch 5",
        "pod default-0: container started again",
        "pod default-1 is a new one",
    ]
    assert differences(after, SEEN, "orders")[-1] == "pod default-1 is gone"


def test_the_load_pod_is_restricted_and_consumes() -> None:
    pod = manifest("client:1", topic="orders")
    for container in pod["spec"]["containers"]:
        security = container["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["readOnlyRootFilesystem"] is True
    assert "--consume" in pod["spec"]["containers"][0]["args"]
    assert "--rate=110" in pod["spec"]["containers"][0]["args"]


def test_the_demo_names_its_cluster_everywhere() -> None:
    made = list(yaml.safe_load_all((ROOT / "examples" / "demo.yaml").read_text()))
    assert [each["kind"] for each in made] == ["BrokerCluster", "ReplicatedTopic"]
    assert made[0]["metadata"]["name"] == demo.CLUSTER == made[1]["spec"]["clusterRef"]
    assert made[1]["metadata"]["name"] == demo.TOPIC
    load = manifest("client:1", topic=demo.TOPIC, cluster=demo.CLUSTER)
    assert "--bootstrap=demo-bootstrap:9092" in load["spec"]["containers"][0]["args"]
    assert "default" not in demo.TRY_NEXT


# --- the analysis -------------------------------------------------------------------------


def test_the_demo_opens_with_the_incidents_and_says_where_the_page_lies(tmp_path: Path) -> None:
    page = "<!DOCTYPE html>\n<html>incidents \u00e4</html>\n"
    packed = base64.b64encode(gzip.compress(page.encode())).decode()
    printed = [
        "10:00:00 to 10:01:00 UTC",
        "",
        "Incidents: 1",
        "1. broker 1 is at the root",
        f"{PAGE_MARK}{packed}",
        "The report for a browser is /out/report.html",
    ]
    into = tmp_path / "dist" / "demo-report.html"
    said = demo_analysis.kept("\n".join(printed), into).splitlines()
    assert said == [*printed[:4], "", f"The report for a browser is {into}"]
    assert into.read_text(encoding="utf-8") == page
    with pytest.raises(RunFailed, match="printed no report"):
        demo_analysis.kept("\n".join(printed[:4]), into)
    # What the analysis prints and what the demo looks for is the same.
    assert demo_analysis.PAGE_MARK == PAGE_MARK


def test_without_analysis_its_image_goes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    environment = clusters.Cluster(kind="current", kubeconfig="/k", programs="", started=False)
    source = ImageSource(repository="example.org/team")
    observers = demo_analysis.load_observers(
        tmp_path, environment, print, source=source, analysis=False
    )
    assert list(observers) == ["prometheus"]
    values = demo_analysis.chart_values(observers, of=demo.CLUSTER)
    assert "prometheus.enabled=true" in values
    assert not any(each.startswith("analysis") for each in values)


@pytest.mark.parametrize(
    ("kind", "node"), [("hack", "worker1"), ("kind", f"{clusters.KIND_NAME}-worker")]
)
def test_the_analysis_runs_on_the_node_that_has_its_image(kind: str, node: str) -> None:
    environment = clusters.Cluster(kind=kind, kubeconfig="/k", programs="", started=True)
    assert demo_analysis.node_selector(environment) == {"kubernetes.io/hostname": node}
    assert demo_analysis.NODES[kind] == node


def test_the_analysis_knows_the_lag_time_of_the_demos_brokers() -> None:
    (cluster, _) = yaml.safe_load_all((ROOT / "examples" / "demo.yaml").read_text())
    timing = PROFILES[cluster["spec"]["timing"]]
    assert timing.replica_lag_time_max_ms == demo_analysis.LAG_TIME_MAX_MS


@pytest.mark.parametrize("variable", ["ANALYSIS", "YES"])
def test_a_switch_that_is_neither_0_nor_1_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(variable, "no")
    with pytest.raises(SystemExit, match="2"):
        main(["demo"])
    assert f"{variable}=no: must be 0 or 1" in capsys.readouterr().err


# --- clusters -----------------------------------------------------------------------------


def test_the_demos_cluster_is_remembered_until_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_CACHE", str(tmp_path))
    assert clusters.remembered() is None
    environment = clusters.Cluster(kind="hack", kubeconfig="/k", programs="/bin", started=True)
    clusters.remember(environment)
    assert clusters.remembered() == environment
    clusters.forget()
    assert clusters.remembered() is None


def test_an_unknown_cluster_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setenv("CLUSTER", "minikube")
    with pytest.raises(SystemExit, match="2"):
        main(["demo"])
    assert "CLUSTER=minikube: must be kind, hack, current" in capsys.readouterr().err


@pytest.fixture
def users_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a kubectl into PATH that records its calls, and provide an empty cache."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("kubectl", "helm"):
        (programs / name).write_text('#!/bin/sh\necho "$@" >>$0.calls\ncat $0.context\n')
        (programs / name).chmod(0o755)
    (programs / "kubectl.context").write_text("copied\n")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("STRANDLINE_CACHE", str(tmp_path))
    return programs


def test_an_existing_cluster_needs_images_or_a_way_to_load_them(
    users_cluster: Path, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    environment = clusters.choose(tmp_path, "current", print)
    source = ImageSource(repository="example.org/team")
    found = images.load_images(tmp_path, environment, images.NAMES, print, source=source)
    assert found["broker"] == "example.org/team/strandline-broker:1.2.3"
    observers = demo_analysis.load_observers(tmp_path, environment, print, source=source)
    assert observers["analysis"] == "example.org/team/strandline-analysis:1.2.3"
    official = demo_analysis.OFFICIAL_PROMETHEUS.rpartition(":")
    values = demo_analysis.chart_values(observers, of=demo.CLUSTER)
    assert f"prometheus.image.repository={official[0]}" in values
    assert f"prometheus.image.tag={official[2]}" in values
    assert f"analysis.summaryOf={demo.CLUSTER}" in values
    assert demo_analysis.node_selector(environment) == {}
    with pytest.raises(RunFailed, match="needs IMAGES"):
        demo.run(tmp_path, Wishes(cluster="current"), ImageSource())


def test_the_users_context_is_copied_and_not_changed(users_cluster: Path, tmp_path: Path) -> None:
    environment = clusters.choose(tmp_path, "current", print)
    assert not environment.started
    kubeconfig = Path(environment.kubeconfig)
    assert kubeconfig.read_text() == "copied\n"
    assert kubeconfig.stat().st_mode & 0o077 == 0
    calls = (users_cluster / "kubectl.calls").read_text()
    assert calls == "config view --minify --flatten --raw\n"


def test_a_demo_that_is_up_elsewhere_is_not_forgotten(users_cluster: Path, tmp_path: Path) -> None:
    environment = clusters.choose(tmp_path, "current", print)
    clusters.remember(environment)
    assert clusters.choose(tmp_path, "current", print) == environment
    (users_cluster / "kubectl.context").write_text("another\n")
    with pytest.raises(RunFailed, match="up in another cluster"):
        clusters.choose(tmp_path, "current", print)
    with pytest.raises(RunFailed, match=r"up \(CLUSTER=current\)"):
        clusters.choose(tmp_path, "hack", print)
    assert clusters.remembered() == environment


def test_a_program_that_fails_hangs_or_is_missing_is_reported() -> None:
    with pytest.raises(CommandFailed, match="status 3: wrong"):
        run(["sh", "-c", "echo wrong >&2; exit 3"])
    with pytest.raises(CommandFailed, match="not done within"):
        run(["sleep", "60"], limit_seconds=0.05)
    with pytest.raises(CommandFailed, match="no such program"):
        run(["/nonexistent/program"])
