"""A cluster from the chart under faults: pods deleted, processes killed, a node lost.

All tests share one release; each test has its own topic and load. At its end each test judges the
load's history against the logs of all replicas.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from strandline_cli import release
from strandline_cli.cluster_view import PodSeen, pod_of
from strandline_cli.commands import CommandFailed
from strandline_cli.kubectl import Kubernetes
from strandline_cli.kubectl_watch import KubectlWatch
from strandline_cli.load_page import show_load
from strandline_cli.release import BROKERS, PARTITIONS, RELEASE
from strandline_cli.running_load import (
    LOAD_LABEL,
    LoadWishes,
    end,
    judge_replicas,
    look,
    remove,
    start_load,
)
from strandline_cli.status import show_status
from strandline_cli.under_load import delete_pod, kill_broker
from strandline_cli.verdict import ACKED_MIN
from strandline_operator.conditions import ROLLING, SPREAD_MET
from tests.support.broker_logs import followed, handed_over
from tests.support.cluster import Cluster
from tests.support.commands import programs
from tests.support.eventually import eventually
from tests.support.evictions import REFUSED, evict, taken_in_turns
from tests.support.installed import HELM_LIMIT_SECONDS, Installed, release_of
from tests.support.strandline_objects import CHART

pytestmark = pytest.mark.pods

LIMIT_MS = 60_000
NODE_LIMIT_MS = 90_000
ROLL_LIMIT_MS = 240_000
PAUSE = "strandline.dev/pause-rolling"
THIS, NEXT = "0.1.0", "0.2.0"
"""The version of the chart, and the one that the tests give a second name of its images."""
CONTROL_NODE = "control"
LOAD_PAUSE_MS = 1_000
"""A gap begins with the last acknowledgement before a fault."""


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Installed]:
    """Provide a release in a namespace that takes only restricted pods."""
    with release_of(cluster, "cluster-life") as made:
        yield made


def test_three_brokers_start_for_a_topic_and_survive_the_loss_of_a_leaders_pod(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed.under_load("graceful") as run:
        assert len({installed.node_of(broker) for broker in range(BROKERS)}) == BROKERS
        spread = partial(condition, installed, SPREAD_MET)
        eventually(lambda: spread()["status"] == "True", LIMIT_MS, SPREAD_MET)
        assert spread()["message"] == f"{BROKERS} brokers run on {BROKERS} nodes"
        leader = run.view.seen().partitions[0].leader
        before = run.view.seen().pods[f"default-{leader}"]
        with followed(installed.kubernetes, leader) as log:
            run.short_fault("delete leader's pod", lambda: delete_pod(installed.kubernetes, leader))
            assert any(each.endswith("-0") for each in handed_over(log.whole(), "graceful"))
        assert run.view.seen().pods[f"default-{leader}"].uid != before.uid
        assert run.view.seen().partitions[0].leader != leader
        run.judged()
        capsys.readouterr()
        show_status(installed.kubernetes)
        volumes = re.findall(
            r"^default-\d +[\d.]+ GiB +\d+%", capsys.readouterr().out, re.MULTILINE
        )
        assert len(volumes) == 3


def condition(installed: Installed, kind: str) -> dict[str, Any]:
    """Return a condition of the cluster."""
    found = installed.kubernetes.get("brokercluster", "default")["status"]["conditions"]
    return next(dict(each) for each in found if each["type"] == kind)


def test_a_persons_load_feels_a_brokers_loss_and_goes_with_all_that_it_made(
    installed: Installed,
) -> None:
    kubernetes = installed.kubernetes
    # The operator makes the cluster for the first topic.
    installed.create_topic("before-the-load")
    wishes = LoadWishes(
        name="felt",
        cluster="",
        topic="",
        partitions=PARTITIONS,
        rate=20,
        image=installed.images["client"],
        wait_seconds=LIMIT_MS // 1000,
    )
    topic = start_load(kubernetes, wishes, print).summary["topic"]

    def acked_more_than(count: int) -> bool:
        return int(look(kubernetes, "felt").summary["acked"]) > count

    eventually(lambda: acked_more_than(1_000), LIMIT_MS, "acknowledgements")
    victim = int(kubernetes.get("partitions", f"{topic}-0")["status"]["leader"])
    killed_ms = time.time_ns() // 1_000_000
    kill_broker(kubernetes, victim)
    acked = int(look(kubernetes, "felt").summary["acked"])
    eventually(lambda: acked_more_than(acked + 2_000), LIMIT_MS, "acknowledgements after a loss")
    everything = set(range(PARTITIONS))
    eventually(lambda: installed.led(topic) == everything, LIMIT_MS, "full ISRs")
    ended = end(kubernetes, "felt")
    show_load(ended, datetime.now(UTC))
    assert ended.exit_code == 0
    longest = max(ended.summary["gaps"].values(), key=lambda gap: int(gap["ms"]))
    assert killed_ms - LOAD_PAUSE_MS <= longest["from_ms"] <= killed_ms + LIMIT_MS
    assert ended.summary["checked"] == ended.summary["acked"]
    assert ended.summary["not_there"] == 0
    judged, left_out = judge_replicas(kubernetes, ended)
    assert left_out == []
    assert judged.is_valid, judged.findings
    assert judged.acked == ended.summary["acked"]
    removed = remove(kubernetes, "felt")
    assert sorted(removed) == ["job.batch/felt", f"replicatedtopic.strandline.dev/{topic}"]
    left = ("-l", f"{LOAD_LABEL}=felt")
    kinds = "jobs,pods,replicatedtopics"
    eventually(lambda: not kubernetes.get(kinds, *left)["items"], LIMIT_MS, "removal of a load")


def test_a_killed_controller_is_replaced_and_nothing_is_lost(installed: Installed) -> None:
    with installed.under_load("controller") as run:
        seen = run.view.seen()
        old = seen.controller
        registered = installed.broker_status(old)
        run.short_fault("kill -9 of the controller", lambda: kill_broker(installed.kubernetes, old))
        after = run.view.seen()
        assert after.controller != old
        assert after.controller_epoch > seen.controller_epoch
        name = f"default-{old}"
        assert after.pods[name].uid == seen.pods[name].uid
        assert after.pods[name].restarts == seen.pods[name].restarts + 1
        check_clean_start(installed, old, registered)
        run.judged()


def test_objects_deleted_by_hand_come_back_and_a_pod_forced_away_starts_clean(
    installed: Installed,
) -> None:
    topic, kubernetes = "by-hand", installed.kubernetes
    with installed.under_load(topic) as run:
        seen = run.view.seen()
        leader = seen.partitions[0].leader
        for kind, name in (
            ("brokers.strandline.dev", f"default-{leader}"),
            ("leases", "default-controller"),
            ("partitions.strandline.dev", f"{topic}-0"),
        ):
            delete_by_hand(installed, kind, name)
            run.wait_healthy(LIMIT_MS / 1000)
            run.wait_for_acks(1_000)
        installed.wait_ready(topic)
        assert run.view.seen().pods == seen.pods
        victim = run.view.seen().partitions[0].leader
        registered, node = installed.broker_status(victim), installed.node_of(victim)
        run.short_fault("force leader's pod away", lambda: force_away(kubernetes, victim))
        assert installed.node_of(victim) == node
        check_clean_start(installed, victim, registered)
        run.judged()


def force_away(kubernetes: Kubernetes, broker: int) -> None:
    """Delete a broker's pod without the time that it needs to end."""
    kubernetes.kubectl("delete", "pod", f"default-{broker}", "--force", "--grace-period=0")


def delete_by_hand(installed: Installed, kind: str, name: str) -> None:
    """Delete an object that the chart's policy keeps, and wait until there is another one."""

    def uid() -> str:
        return str(installed.kubernetes.get(kind, name)["metadata"]["uid"])

    before = uid()
    installed.kubernetes.kubectl("annotate", kind, name, "strandline.dev/deletion=allowed")
    installed.kubernetes.kubectl("delete", kind, name, "--wait=false")
    eventually(lambda: uid() != before, LIMIT_MS, f"{kind} {name}", retry_on=(CommandFailed,))


def check_clean_start(installed: Installed, broker: int, before: dict[str, Any]) -> None:
    """Fail unless a broker has registered again since, and with nothing lost."""
    after = installed.broker_status(broker)
    assert after["brokerEpoch"] > before["brokerEpoch"]
    assert after["cleanSinceEpoch"] == before["cleanSinceEpoch"]


def test_without_an_operator_brokers_fail_over_and_come_back(installed: Installed) -> None:
    deployment = f"deployment/{RELEASE}-operator"
    with installed.under_load("unattended") as run:
        installed.kubernetes.kubectl("scale", deployment, "--replicas=0")
        eventually(lambda: not installed.operator_pods(), LIMIT_MS, "the operator's end")
        try:
            victim = (run.view.seen().controller + 1) % BROKERS
            run.short_fault("kill -9", lambda: kill_broker(installed.kubernetes, victim))
            assert not installed.operator_pods()
        finally:
            installed.kubernetes.kubectl("scale", deployment, "--replicas=1")
        run.judged()
    installed.wait_ready("unattended")


def test_a_killed_node_costs_a_pause_and_its_broker_starts_clean(
    installed: Installed, cluster: Cluster
) -> None:
    with installed.under_load("node") as run:
        victim = next(
            broker for broker in range(BROKERS) if installed.node_of(broker) != CONTROL_NODE
        )
        node, before = installed.node_of(victim), installed.broker_status(victim)

        def lose_and_mend() -> None:
            cluster.node("kill", node)
            others = set(range(BROKERS)) - {victim}
            eventually(
                lambda: all(
                    set(each.isr) == others and each.leader in others
                    for each in run.view.seen().partitions.values()
                ),
                LIMIT_MS,
                "leaders and ISRs without the lost broker",
            )
            cluster.node("start", node)

        run.short_fault(f"node {node} killed and started", lose_and_mend)
        check_clean_start(installed, victim, before)
        run.judged()


def test_a_topic_grows_under_load_and_is_empty_when_created_again(installed: Installed) -> None:
    kubernetes = installed.kubernetes
    topic, added = "grown", PARTITIONS
    with installed.under_load(topic) as run:
        leader = run.view.seen().partitions[0].leader
        run.short_fault("delete leader's pod", lambda: delete_pod(kubernetes, leader))
        old = installed.topic_id(topic)
        more = json.dumps({"spec": {"partitions": PARTITIONS + 2}})
        kubernetes.kubectl("patch", f"rtopic/{topic}", "--type=merge", f"--patch={more}")
        grown = set(range(PARTITIONS + 2))
        eventually(lambda: installed.led(topic) == grown, LIMIT_MS, "leaders of the new ones")
        installed.wait_ready(topic)
        run.judged()
        assert installed.topic_id(topic) == old

        client = run.load.name
        assert installed.read(client, topic, added) == []
        installed.write(client, topic, added, "first")
        assert installed.read(client, topic, added) == ["0 first"]
        assert len(installed.read(client, topic, 0)) > 0

        kubernetes.kubectl("delete", f"rtopic/{topic}")
        installed.create_topic(topic)
        assert installed.topic_id(topic) != old
        assert [installed.read(client, topic, number) for number in range(PARTITIONS)] == [
            [] for _ in range(PARTITIONS)
        ]
        installed.write(client, topic, 0, "anew")
        assert installed.read(client, topic, 0) == ["0 anew"]
        eventually(
            lambda: not any(old in folder for folder in installed.log_folders()),
            LIMIT_MS,
            "the old topic's logs gone from every broker",
        )


def test_an_upgrade_under_load_restarts_no_broker_and_a_deleted_one_gets_the_new_image(
    installed: Installed, cluster: Cluster
) -> None:
    newer = tagged(installed, cluster, "next")
    annotate(installed, f"{PAUSE}=true")
    with installed.under_load("upgrade") as run:
        pods = run.view.seen().pods
        upgrade(installed, newer)
        run.wait_for_acks(2_000)
        assert _image_of_template(installed) == installed.images["broker"]
        installed.set_version(NEXT)
        eventually(lambda: _image_of_template(installed) == newer["broker"], LIMIT_MS, "template")
        run.wait_for_acks(2_000)
        assert run.view.seen().pods == pods
        victim = run.view.seen().partitions[0].leader
        run.short_fault("delete after upgrade", lambda: delete_pod(installed.kubernetes, victim))
        images = {name: pod.image for name, pod in run.view.seen().pods.items()}
        assert images == {
            name: newer["broker"] if name == f"default-{victim}" else pod.image
            for name, pod in pods.items()
        }
        run.judged()
    annotate(installed, f"{PAUSE}-")
    installed.set_version(THIS)
    installed.wait_images(installed.images["broker"], ROLL_LIMIT_MS)


@pytest.mark.long
def test_brokers_follow_the_version_of_their_cluster_and_back_under_load(
    installed: Installed, cluster: Cluster
) -> None:
    versions = {THIS: installed.images, NEXT: tagged(installed, cluster, "after")}
    with installed.under_load("versions") as run:
        pods = run.view.seen().pods
        upgrade(installed, versions[NEXT])
        run.wait_for_acks(2_000)
        assert run.view.seen().pods == pods
        for version in (NEXT, THIS):
            image = versions[version]["broker"]

            def follow(version: str = version, image: str = image) -> None:
                installed.set_version(version)
                installed.wait_images(image, ROLL_LIMIT_MS)

            run.short_fault(f"brokers to version {version}", follow)
            assert installed.cluster_version() == (version, image)
        verdict = run.judged()
        assert (verdict.failed, verdict.unknown) == (0, 0)


def annotate(installed: Installed, annotation: str) -> None:
    """Set or remove an annotation of the cluster."""
    installed.kubernetes.kubectl(
        *("annotate", "--overwrite", "brokercluster", "default", annotation)
    )


def tagged(installed: Installed, cluster: Cluster, suffix: str) -> dict[str, str]:
    """Give the images of broker and operator second names, which stand for another release."""
    newer = {name: f"{installed.images[name]}-{suffix}" for name in ("broker", "operator")}
    for node in cluster.nodes():
        for name, reference in newer.items():
            cluster.tag_image(node, installed.images[name], reference)
    return newer


def upgrade(installed: Installed, newer: dict[str, str]) -> None:
    """Upgrade to two operators, which know the newer broker as version NEXT; wait for both."""
    former = installed.operator_pods()
    version = NEXT.replace(".", "\\.")
    images = {**installed.images, "operator": newer["operator"]}
    known = f"broker.versions.{version}={newer['broker']}"
    installed.helm("upgrade", images, known, "operator.replicas=2")
    eventually(lambda: not set(former) & set(installed.operator_pods()), LIMIT_MS, "its end")
    assert len(installed.operator_pods()) == 2


def test_a_rollout_restart_under_load_takes_every_broker_and_loses_nothing(
    installed: Installed,
) -> None:
    """A person evicts pods meanwhile: the operator and the budget count all of it together."""
    kubernetes = installed.kubernetes
    with installed.under_load("rolled") as run, ExitStack() as stack:
        annotate(installed, f"{PAUSE}-")
        before = run.view.seen().pods
        first = f"default-{run.view.seen().controller}"
        logs = [stack.enter_context(followed(kubernetes, each)) for each in range(BROKERS)]
        watch = stack.enter_context(KubectlWatch(kubernetes, "pods"))
        eventually(lambda: before.keys() <= {each.name for each in watch.seen()}, LIMIT_MS, "pods")

        def roll() -> None:
            evict(kubernetes, first)
            kubernetes.kubectl("rollout", "restart", "statefulset/default")
            others = {*before} - {first}
            second = watch.until(
                lambda each: each.deleting and each.name in others, ROLL_LIMIT_MS / 1000
            ).name
            (third,) = others - {second}
            with pytest.raises(CommandFailed, match=REFUSED):
                evict(kubernetes, third)
            ended = partial(all_new, installed, before)
            eventually(ended, ROLL_LIMIT_MS, "the end of the roll", retry_on=(CommandFailed,))

        run.short_fault("rollout restart", roll)
        left = taken_in_turns(watch.seen(), "default-")
        assert left[0] == first
        assert {*left} == {*before}
        assert any(handed_over(each.whole(), "rolled") for each in logs)
        run.judged()


def all_new(installed: Installed, before: dict[str, PodSeen]) -> bool:
    """Tell whether a roll has ended, and no broker has the pod that it had before."""
    found = installed.kubernetes.get("pods", "-l", "app.kubernetes.io/component=broker")["items"]
    present = {each["metadata"]["name"]: pod_of(each) for each in found}
    return (
        present.keys() == before.keys()
        and all(pod.ready and pod.uid != before[name].uid for name, pod in present.items())
        and condition(installed, ROLLING)["reason"] == "RollingDone"
    )


def test_a_setting_of_running_brokers_restarts_none_and_another_one_rolls_them_under_load(
    installed: Installed,
) -> None:
    with installed.under_load("settings") as run:
        annotate(installed, f"{PAUSE}-")
        before = run.view.seen().pods
        set_config(installed, logRetentionCheckIntervalMs=200_000)
        run.wait_for_acks(2_000)
        assert run.view.seen().pods == before

        def roll() -> None:
            set_config(installed, replicaLagTimeMaxMs=8_000)

        run.short_fault("a setting that needs a restart", roll)
        after = run.view.seen().pods
        assert not {pod.uid for pod in after.values()} & {pod.uid for pod in before.values()}
        verdict = run.judged()
        assert (verdict.failed, verdict.unknown) == (0, 0)


def set_config(installed: Installed, **config: int) -> None:
    """Change settings of brokers, and wait until all of them work with these."""
    patch = json.dumps({"spec": {"config": config}})
    installed.kubernetes.kubectl(
        *("patch", "brokercluster", "default", "--type=merge", f"--patch={patch}")
    )

    def is_applied() -> bool:
        found = installed.kubernetes.get("brokercluster", "default")
        conditions = {each["type"]: each for each in found["status"]["conditions"]}
        applied = conditions["ConfigApplied"]
        seen = (applied["observedGeneration"], applied["status"], conditions["Rolling"]["reason"])
        return seen == (found["metadata"]["generation"], "True", "RollingDone")

    eventually(is_applied, ROLL_LIMIT_MS, f"{config} applied", retry_on=(CommandFailed, KeyError))


def test_brokers_serve_and_fail_over_after_the_release_is_uninstalled(
    installed: Installed,
) -> None:
    with installed.under_load("uninstalled") as run:
        installed.kubernetes.helm("uninstall", RELEASE, "--wait")
        eventually(lambda: not installed.operator_pods(), LIMIT_MS, "the operator's end")
        victim = run.view.seen().partitions[0].leader
        run.short_fault("delete leader's pod", lambda: delete_pod(installed.kubernetes, victim))
        run.judged()


def test_a_release_of_another_name_and_namespace_takes_the_brokers_over(
    installed: Installed, cluster: Cluster
) -> None:
    home = f"other-home-{uuid.uuid4().hex[:8]}"
    cluster.create_restricted_namespace(home)
    before = [installed.broker_status(each)["incarnation"] for each in range(BROKERS)]
    other = Kubernetes(cluster.kubeconfig, home, programs())
    values = [f"watchNamespaces={{{installed.kubernetes.namespace}}}"]
    values += release.image_values(installed.images, "broker", "operator")
    try:
        other.helm(
            *("install", "other", str(CHART), "--wait", "--timeout=120s"),
            *(f"--set={value}" for value in values),
            limit_seconds=HELM_LIMIT_SECONDS,
        )
        with installed.under_load("taken-over") as run:
            run.wait_for_acks(ACKED_MIN)
            verdict = run.judge(run.settle())
            assert verdict.is_valid, verdict.findings
            assert verdict.read >= verdict.acked >= ACKED_MIN
        assert [installed.broker_status(each)["incarnation"] for each in range(BROKERS)] == before
    finally:
        # A namespace does not hold the right to list nodes.
        other.helm("uninstall", "other", "--ignore-not-found")
        cluster.kubectl("delete", "namespace", home, "--wait=false")


def _image_of_template(installed: Installed) -> str:
    template = installed.kubernetes.get("statefulset", "default")["spec"]["template"]
    return str(template["spec"]["containers"][0]["image"])
