"""The demo: a real cluster, a topic under load, two faults, and a verdict on every record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from strandline_checker.judge import HistoryVerdict

from . import clusters, demo_analysis, preflight, release, verdict
from .cluster_view import ClusterView
from .clusters import Cluster
from .commands import CommandFailed, RunFailed
from .images import NAMES, ImageSource, load_images, push_images
from .kubectl import Kubernetes
from .load_pod import LoadPod, manifest
from .pod_diagnostics import ImagesMissing, check_images, explain
from .screen import Screen
from .under_load import UnderLoad, delete_pod, kill_broker
from .verdict import ACKED_MIN, FaultSeen

NAMESPACE = "strandline-demo"
CLUSTER = "demo"
TOPIC = "orders"
CALM_SECONDS = 13
"""Between the faults: of what lies within ten seconds the analysis makes one incident."""

TRY_NEXT = """\
Try next (KUBECONFIG={kubeconfig}{path}):
  watch       kubectl -n {namespace} get partitions -w
  break       kubectl -n {namespace} delete pod {cluster}-1
  read a log  kubectl -n {namespace} exec {cluster}-0 -- python -m strandline.dump_log \
--topic orders --partition 0 | tail
  produce     kubectl -n {namespace} exec -i load -c keeper -- \
kcat -b {cluster}-bootstrap:9092 -P -t orders -p 0 -X enable.idempotence=true -X acks=all
  consume     kubectl -n {namespace} exec load -c keeper -- \
kcat -b {cluster}-bootstrap:9092 -C -t orders -p 0 -o beginning -e
Your own client works from any pod: bootstrap {cluster}-bootstrap.{namespace}:9092. There are no
consumer groups yet: assign partitions instead of subscribing, for example with confluent-kafka
  consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
with enable.auto.commit off; kafka-python takes group_id=None, kcat -C rather than -G.
Remove everything: make demo-down"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a person chose: a kind of cluster ("" for the first that works), Spark or none, yes."""

    cluster: str = ""
    analysis: bool = True
    agreed: bool = False


def run(root: Path, wishes: Wishes, source: ImageSource) -> int:
    """Run the demo; 0 if no record was lost and enough happened for a verdict.

    Raises:  StrandlineError with a remedy in its message
    """
    screen = Screen()
    if wishes.cluster == "current":
        source.check()
    with screen.step("a Kubernetes"):
        made = (*NAMES, *demo_analysis.observers(analysis=wishes.analysis))
        cluster = clusters.choose(root, wishes.cluster, screen.say, images=made)
        kubernetes = cluster.kubernetes(NAMESPACE)
        if cluster.kind == "current":
            preflight.check(kubernetes, screen.say, builds_here=bool(source.load))
            preflight.check_namespace(kubernetes)
            preflight.agree(kubernetes, agreed=wishes.agreed)
        clusters.remember(cluster)
        preflight.check_namespace(kubernetes)
    with screen.step("images"):
        images = load_images(root, cluster, NAMES, screen.say, source=source)
        images |= demo_analysis.load_observers(
            root, cluster, screen.say, source=source, analysis=wishes.analysis
        )
    with screen.step(f"an empty namespace {NAMESPACE}"):
        release.remove(kubernetes)
        preflight.make_namespace(kubernetes)
    if cluster.kind != "hack":
        with screen.step("a pod of each image, which ends at once"):
            movable = source.movable(cluster)
            try:
                images = check_images(kubernetes, images, screen.say, movable=movable)
            except ImagesMissing as error:
                raise RunFailed(f"{error}\n{source.advice(cluster)}".strip()) from error
    try:
        passed = _carry_out(root, cluster, images, screen)
    except CommandFailed as error:
        raise RunFailed("\n".join([str(error), *explain(kubernetes)])) from error
    path = f", {cluster.programs} first in PATH" if cluster.programs else ""
    names = {"namespace": NAMESPACE, "cluster": CLUSTER}
    print(f"\n{TRY_NEXT.format(kubeconfig=cluster.kubeconfig, path=path, **names)}")
    return 0 if passed else 1


def push(root: Path, repository: str) -> int:
    """Push our images to the repository from which the nodes of a user's cluster pull."""
    screen = Screen()
    with screen.step(f"our images into {repository or 'a repository'}"):
        push_images(root, repository, screen.say)
    return 0


def take_down(root: Path) -> int:
    """Remove all that the demo made."""
    screen = Screen()
    cluster = clusters.remembered()
    if cluster is None:
        screen.say("nothing to remove")
        return 0
    if cluster.started:
        with screen.step("the cluster that the demo started goes"):
            clusters.remove_cluster(root, cluster, screen.say)
    else:
        with screen.step(f"namespace {NAMESPACE} goes, the cluster stays"):
            kubernetes = cluster.kubernetes(NAMESPACE)
            preflight.check_namespace(kubernetes)
            release.remove(kubernetes)
            if cluster.made_crds:
                release.remove_definitions(kubernetes)
    clusters.forget()
    return 0


def _carry_out(root: Path, cluster: Cluster, images: dict[str, str], screen: Screen) -> bool:
    """Install, break, judge and analyse; tell whether the promise was kept."""
    kubernetes = cluster.kubernetes(NAMESPACE)
    with screen.step("helm install of helm/strandline-crds, then strandline helm/strandline"):
        values = release.values(images) + demo_analysis.chart_values(images, of=CLUSTER)
        # Before the install makes definitions: a failed install leaves them behind.
        made_crds = release.brings_definitions(kubernetes)
        clusters.remember(replace(cluster, made_crds=made_crds))
        release.install(root, kubernetes, values)
    with screen.step("kubectl apply -f examples/demo.yaml, until the topic is Ready"):
        kubernetes.kubectl("apply", "-f", str(root / "examples" / "demo.yaml"))
        kubernetes.wait_ready(f"rtopic/{TOPIC}", release.READY_SECONDS)
    since_ms = time.time_ns() // 1_000_000
    with closing(ClusterView(kubernetes, topic=TOPIC, cluster=CLUSTER)) as view:
        with screen.step("a load pod that writes and reads every partition"):
            load = LoadPod(kubernetes, manifest(images["client"], topic=TOPIC, cluster=CLUSTER))
        with closing(load):
            loaded = UnderLoad(kubernetes=kubernetes, view=view, load=load, wait=screen.wait)
            with screen.watching(view, load):
                _break(loaded, screen)
            with screen.step("the load stops, every ISR fills"):
                replicas = loaded.settle()
            with screen.step("every replica's log is read, the history judged against them"):
                judged = loaded.judge(replicas)
            passed = report(judged, loaded.faults, loaded.vacuity(judged), screen)
    if demo_analysis.NAME not in images:
        return passed
    with screen.step("a Spark job reads what Prometheus scraped of it"):
        said = demo_analysis.analyse(
            root, cluster, kubernetes, values, loaded.faults, since_ms=since_ms
        )
    print(said)
    return passed


def _break(loaded: UnderLoad, screen: Screen) -> None:
    """Break a leader's pod, then the controller's process, each under load."""
    loaded.wait_healthy()
    loaded.wait_for_acks(ACKED_MIN // 3)
    screen.table(loaded.view, loaded.load)
    leader = loaded.view.seen().partitions[0].leader
    name = f"delete the pod {CLUSTER}-{leader}, which leads {TOPIC}-0"
    _fault(loaded, screen, name, delete_pod, leader)
    loaded.wait(lambda: False, CALM_SECONDS)
    controller = loaded.view.seen().controller
    if controller == leader:
        raise RunFailed(f"broker {leader}, which came back, is controller again")
    name = f"kill -9 of broker {controller}, the controller"
    _fault(loaded, screen, name, kill_broker, controller)


def _fault(
    loaded: UnderLoad,
    screen: Screen,
    name: str,
    inject: Callable[[Kubernetes, int, str], None],
    broker: int,
) -> None:
    """Inject a fault, show its effects, and let the load run on."""
    fault = loaded.fault(name, lambda: inject(loaded.kubernetes, broker, CLUSTER), broker=broker)
    screen.say(f"FAULT {name}")
    gaps = ", ".join(f"{number}: {gap}" for number, gap in sorted(fault.gaps_ms.items()))
    screen.say(f"  longest gap without acks per partition, ms: {gaps}")
    screen.table(loaded.view, loaded.load)
    loaded.wait_for_acks(ACKED_MIN // 3)


def report(
    judged: HistoryVerdict, faults: Sequence[FaultSeen], reasons: Sequence[str], screen: Screen
) -> bool:
    """Print the verdict; True if no record was lost and enough happened for a verdict."""
    for fault in faults:
        screen.say(f"{fault.name}: longest gap {fault.longest_gap_ms} ms")
    for sentence in verdict.sentences(judged):
        screen.say(sentence)
    for finding in verdict.findings(judged, TOPIC):
        screen.say(f"  {finding}")
    for reason in reasons:
        screen.say(f"  this run shows nothing: {reason}")
    passed = judged.is_valid and not reasons
    screen.say("PASSED: every acknowledged record is on every replica" if passed else "FAILED")
    return passed
