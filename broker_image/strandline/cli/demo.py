"""The demo: a real cluster, a topic under load, two faults, and a verdict on every record.

    python -m strandline.cli.demo          run from the repository's root, as `make demo` does
    python -m strandline.cli.demo --down   remove what the demo made
    python -m strandline.cli.demo --push   fill the repository that IMAGES names

CLUSTER=kind, hack or current chooses the Kubernetes. Exit code 0 means that nothing was lost
and that enough happened to say so.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from strandline.checker.judge import HistoryVerdict
from strandline.errors import StrandlineError

from . import demo_analysis, demo_cluster, release
from .cluster_view import ClusterView
from .demo_screen import Screen
from .faults import (
    WARM_UP_SECONDS,
    delete_pod,
    is_healthy,
    kill_broker,
    run_fault,
    settle,
    wait_for_acks,
)
from .kubectl import CommandFailed, Kubernetes
from .load_pod import LoadPod
from .pod_diagnostics import ImagesMissing, check_images, explain
from .verdict import ACKED_MIN, FaultSeen, judge_run, scan, vacuity

TOPIC = "orders"
BROKERS = 3
PARTITIONS = 6
RATE = 110.0
"""Records a second and partition; a hundred acknowledgements are promised."""
READY_SECONDS = 240

TRY_NEXT = """\
Try next (KUBECONFIG={kubeconfig}{path}):
  watch       kubectl -n {namespace} get partitions -w
  break       kubectl -n {namespace} delete pod default-1
  read a log  kubectl -n {namespace} exec default-0 -- python -m strandline.cli.dump_log \
--topic orders --partition 0 | tail
  produce     kubectl -n {namespace} exec -i load -c keeper -- \
kcat -b default-bootstrap:9092 -P -t orders -p 0 -X enable.idempotence=true -X acks=all
  consume     kubectl -n {namespace} exec load -c keeper -- \
kcat -b default-bootstrap:9092 -C -t orders -p 0 -o beginning -e
Your own client works from any pod: bootstrap default-bootstrap.{namespace}:9092. There are no
consumer groups yet: assign partitions instead of subscribing, for example with confluent-kafka
  consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
with enable.auto.commit off; kafka-python takes group_id=None, kcat -C rather than -G.
Remove everything: make demo-down"""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo, or remove what it made."""
    parser = argparse.ArgumentParser(description=__doc__, prog="strandline.cli.demo")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    verbs = parser.add_mutually_exclusive_group()
    verbs.add_argument("--down", action="store_true", help="remove what the demo made")
    verbs.add_argument("--push", action="store_true", help="build our images and push them")
    options = parser.parse_args(arguments)
    root = Path.cwd()
    if not (root / "helm" / "strandline").is_dir():
        print("error: run this from the repository's root: make demo", file=sys.stderr)
        return 2
    screen = Screen()
    try:
        if options.push:
            return _push(root, screen)
        return _down(root, screen) if options.down else _demo(root, screen)
    except StrandlineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _demo(root: Path, screen: Screen) -> int:
    with screen.step("a Kubernetes"):
        environment = demo_cluster.choose(root, os.environ.get("CLUSTER", ""), screen.say)
        demo_cluster.remember(environment)
    kubernetes = environment.kubernetes()
    with screen.step("images"):
        images = demo_cluster.load_images(root, environment, demo_cluster.IMAGES, screen.say)
        observers = demo_analysis.load_images(root, environment, screen.say)
    with screen.step("an empty namespace strandline-demo"):
        release.remove(kubernetes)
        kubernetes.kubectl("create", "namespace", demo_cluster.NAMESPACE)
    if environment.kind != "hack":
        with screen.step("a pod of each image, which ends at once"):
            found = _check(kubernetes, images | observers.images, environment, screen)
            images = {name: found[name] for name in images}
            observers = replace(observers, images={name: found[name] for name in observers.images})
    try:
        passed = _run(root, environment, images, observers, screen)
    except CommandFailed as error:
        raise demo_cluster.DemoFailed("\n".join([str(error), *explain(kubernetes)])) from error
    path = f", {environment.programs} first in PATH" if environment.programs else ""
    shown = TRY_NEXT.format(
        kubeconfig=environment.kubeconfig, path=path, namespace=demo_cluster.NAMESPACE
    )
    print(f"\n{shown}")
    return 0 if passed else 1


def _check(
    kubernetes: Kubernetes,
    images: dict[str, str],
    environment: demo_cluster.DemoEnvironment,
    screen: Screen,
) -> dict[str, str]:
    """Return name -> reference, fixed to what the repository has now."""
    try:
        return check_images(
            kubernetes, images, screen.say, movable=demo_cluster.movable(environment)
        )
    except ImagesMissing as error:
        raise demo_cluster.DemoFailed(
            f"{error}\n{demo_cluster.how_images_come(environment)}".strip()
        ) from error


def _run(
    root: Path,
    environment: demo_cluster.DemoEnvironment,
    images: dict[str, str],
    observers: demo_analysis.Observers,
    screen: Screen,
) -> bool:
    """Install, break, judge and analyse; tell whether the promise was kept."""
    kubernetes = environment.kubernetes()
    with screen.step("helm install strandline helm/strandline"):
        values = release.values(kubernetes, images) + observers.chart_values()
        # Before they are made: an install that fails leaves them behind.
        demo_cluster.remember(
            replace(environment, made_crds=release.brings_definitions(kubernetes))
        )
        release.install(root, kubernetes, values)
    with screen.step("kubectl apply -f examples/orders.yaml, until the topic is Ready"):
        kubernetes.kubectl("apply", "-f", str(root / "examples" / "orders.yaml"))
        kubernetes.kubectl(
            *("wait", f"rtopic/{TOPIC}", "--for=condition=Ready", f"--timeout={READY_SECONDS}s"),
            limit_seconds=READY_SECONDS + 10,
        )
    since_ms = time.time_ns() // 1_000_000
    passed, faults = _break_and_judge(kubernetes, images["client"], screen)
    with screen.step("a Spark job reads what Prometheus scraped of it"):
        said = demo_analysis.analyse(
            root, kubernetes, values, faults, observers=observers, since_ms=since_ms
        )
    print(said)
    return passed


def _break_and_judge(
    kubernetes: Kubernetes, client: str, screen: Screen
) -> tuple[bool, list[FaultSeen]]:
    """Load the topic, break it twice, and judge; (whether the promise was kept, the faults)."""
    view = ClusterView(kubernetes, topic=TOPIC)
    try:
        with screen.step("a load pod that writes and reads every partition"):
            load = LoadPod(kubernetes, client, topic=TOPIC, partitions=PARTITIONS, rate=RATE)
        try:
            faults = _faults(kubernetes, view, load, screen)
            return _judge(kubernetes, view, load, faults, screen), faults
        finally:
            load.close()
    finally:
        view.close()


def _faults(
    kubernetes: Kubernetes, view: ClusterView, load: LoadPod, screen: Screen
) -> list[FaultSeen]:
    faults: list[FaultSeen] = []
    with screen.watching(view, load):
        if not screen.wait(lambda: is_healthy(view, load), WARM_UP_SECONDS):
            raise demo_cluster.DemoFailed("the load is not acknowledged on all partitions")
        wait_for_acks(load, ACKED_MIN // 3, wait=screen.wait)
        screen.table(view, load)
        leader = view.seen().partitions[0].leader
        faults.append(
            run_fault(
                f"delete the pod default-{leader}, which leads {TOPIC}-0",
                lambda: delete_pod(kubernetes, leader),
                broker=leader,
                view=view,
                load=load,
                wait=screen.wait,
            )
        )
        _announce(faults[-1], view, load, screen)
        wait_for_acks(load, ACKED_MIN // 3, wait=screen.wait)
        controller = view.seen().controller
        if controller == leader:
            raise demo_cluster.DemoFailed(f"broker {leader}, which came back, is controller again")
        faults.append(
            run_fault(
                f"kill -9 of broker {controller}, the controller",
                lambda: kill_broker(kubernetes, controller),
                broker=controller,
                view=view,
                load=load,
                wait=screen.wait,
            )
        )
        _announce(faults[-1], view, load, screen)
        wait_for_acks(load, ACKED_MIN // 3, wait=screen.wait)
    return faults


def _announce(fault: FaultSeen, view: ClusterView, load: LoadPod, screen: Screen) -> None:
    screen.say(f"FAULT {fault.name}")
    gaps = ", ".join(f"{number}: {gap}" for number, gap in sorted(fault.gaps_ms.items()))
    screen.say(f"  longest gap without acks per partition, ms: {gaps}")
    screen.table(view, load)


def _judge(
    kubernetes: Kubernetes,
    view: ClusterView,
    load: LoadPod,
    faults: Sequence[FaultSeen],
    screen: Screen,
) -> bool:
    with screen.step("the load stops, every ISR fills"):
        replicas = settle(view, load, wait=screen.wait)
    with screen.step("every replica's log is read, the history judged against them"):
        scanned = scan(kubernetes, range(BROKERS), topic=TOPIC)
        verdict = judge_run(load.history(), scanned, replicas)
    return report(verdict, faults, load.exit_code(), screen)


def report(
    verdict: HistoryVerdict, faults: Sequence[FaultSeen], load_exit_code: int | None, screen: Screen
) -> bool:
    """Print the verdict; True if nothing was lost and the run shows it."""
    for fault in faults:
        screen.say(f"{fault.name}: longest gap {fault.longest_gap_ms} ms")
    screen.say(
        f"sent {verdict.sent}, acked {verdict.acked}, unknown {verdict.unknown}, "
        f"failed {verdict.failed}, read {verdict.read}"
    )
    screen.say(
        f"lost {verdict.lost}, duplicated {verdict.duplicated}, out of order "
        f"{verdict.out_of_order}, diverged {verdict.diverged}, moved {verdict.moved}, "
        f"phantom {verdict.phantom}, misread {verdict.misread}, unscanned {verdict.unscanned}"
    )
    for finding in verdict.findings:
        screen.say(f"  {finding.kind} in {TOPIC}-{finding.partition}: {finding.detail}")
    reasons = vacuity(verdict.acked, faults)
    if load_exit_code != 0:
        reasons.append(f"the load ended with {load_exit_code}: not all was answered, or not read")
    for reason in reasons:
        screen.say(f"  this run shows nothing: {reason}")
    passed = verdict.is_valid and not reasons
    screen.say("PASSED: every acknowledged record is on every replica" if passed else "FAILED")
    return passed


def _push(root: Path, screen: Screen) -> int:
    repository = os.environ.get("IMAGES", "")
    with screen.step(f"our images into {repository or 'a repository'}"):
        demo_cluster.push_images(root, repository, screen.say)
    return 0


def _down(root: Path, screen: Screen) -> int:
    environment = demo_cluster.remembered()
    if environment is None:
        screen.say("nothing to remove")
        return 0
    if environment.started:
        with screen.step("the cluster that the demo started goes"):
            demo_cluster.remove_cluster(root, environment, screen.say)
    else:
        with screen.step("namespace strandline-demo goes, the cluster stays"):
            kubernetes = environment.kubernetes()
            release.remove(kubernetes)
            if environment.made_crds:
                release.remove_definitions(kubernetes)
    demo_cluster.forget()
    return 0


if __name__ == "__main__":
    sys.exit(main())
