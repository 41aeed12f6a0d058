"""A load that a person starts on a cluster, looks at, and stops: a Job, and perhaps a topic.

All that a load made has the label LOAD_LABEL with its name, and is removed by that label. The pod
has two containers over one volume: `load` writes a summary and its newest history, `keeper` stays,
so that both can be read afterwards. A pod that a node loses is replaced by one that goes on with
the figures, and begins a history of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from strandline.errors import ConfigError
from strandline.kube.objects import CLUSTER_LABEL
from strandline.model import BrokerId
from strandline_checker.history import MalformedHistory
from strandline_checker.judge import HistoryVerdict
from strandline_checker.newest import judge_newest

from .commands import CommandFailed, Say
from .kubectl import Kubernetes, Object
from .load_pod import IMAGE_USER, RESTRICTED, bootstrap, end_load, load_exit_code
from .pod_diagnostics import diagnose
from .watch import cluster_of
from .why_not import why_not

LOAD_LABEL = "strandline.dev/load"
CLUSTER_NOTE = "strandline.dev/load-cluster"
TOPIC_NOTE = "strandline.dev/load-topic"
FOLDER = "/history"
SUMMARY_PATH = f"{FOLDER}/summary.json"
HISTORY_LINES = 600_000
"""What is judged at the end: three lines a record, and at least half of these lines are there, so
100,000 records."""
VOLUME_SIZE = "256Mi"
"""More than the history ever has."""
FOR_EVER = 1_000_000
"""Pods that a Job replaces before it gives up: a drained node counts as one."""
RETENTION_MS = 600_000
SEGMENT_MS = 60_000
"""A topic that a load makes keeps its records ten minutes, so a load that is forgotten fills no
volume; by then each was read and compared."""
REPLICAS_MAX = 3
SCANNED_LINES_MAX = 300_000
"""Of each broker's log, over all partitions; the newest ones."""
SCAN_LIMIT_SECONDS = 300.0
END_SECONDS = 120.0
"""Longer than a send may wait for its acknowledgement, and the reading at the end."""
FIRST_ACK_SECONDS = 60.0
REPLACED_SECONDS = 60.0
"""A Job replaces a lost pod after ten seconds, and the next one after twenty."""
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWishes:
    """What a person asks for; "" leaves a choice to us. rate is records a second and partition."""

    name: str
    cluster: str
    topic: str
    partitions: int
    rate: float
    image: str
    wait_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSeen:
    """A load as it is now: its pod, the summary that it wrote, its exit code if it has ended."""

    name: str
    cluster: str
    pod: str
    summary: dict[str, Any]
    exit_code: int | None


def start_load(kubernetes: Kubernetes, wishes: LoadWishes, say: Say) -> LoadSeen:
    """Start a load and wait until a record is acknowledged.

    Raises:  ConfigError if it cannot be made from what is wished: nothing is changed;
             CommandFailed with the cause if it does not come to run
    """
    if _jobs(kubernetes, wishes.name):
        raise ConfigError(f"--name {wishes.name}: a load of this name is there, stop it first")
    cluster = cluster_of(kubernetes, wishes.cluster)
    image = wishes.image or client_image(kubernetes.get("statefulset", cluster))
    if wishes.topic:
        topic = _topic_called(kubernetes, cluster, wishes.topic)
    else:
        brokers = int(kubernetes.get("brokercluster", cluster)["spec"]["replicas"])
        topic = topic_of(wishes, cluster, min(brokers, REPLICAS_MAX))
        kubernetes.kubectl("create", "-f", "-", stdin=json.dumps(topic))
        say(f"made topic {topic['metadata']['name']}")
    try:
        _wait_for_topic(kubernetes, topic["metadata"]["name"], wishes.wait_seconds)
        job = job_of(wishes, cluster, topic, image)
        kubernetes.kubectl("create", "-f", "-", stdin=json.dumps(job))
        say(f"made job {wishes.name}: {wishes.rate:g} records a second and partition")
        return _until_acknowledged(kubernetes, wishes)
    except CommandFailed as error:
        raise CommandFailed(
            f"{error}\n{_why(kubernetes, wishes.name)}"
            f"`strandline load stop --name {wishes.name}` removes what was made"
        ) from error


def client_image(stateful_set: Object) -> str:
    """Return the clients' image that lies beside the brokers'; else ConfigError."""
    (broker,) = stateful_set["spec"]["template"]["spec"]["containers"]
    repository, colon, tag = str(broker["image"]).rpartition(":")
    if not repository.endswith("strandline-broker") or "@" in repository:
        raise ConfigError(
            "--image must name the image of hack/client, such as example.org/strandline-client:1: "
            f"the brokers' image {broker['image']} does not tell it"
        )
    return repository.removesuffix("broker") + "client" + colon + tag


def topic_of(wishes: LoadWishes, cluster: str, replicas: int) -> Object:
    """Return the topic of a load that names none; its name is new each time."""
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "ReplicatedTopic",
        "metadata": {
            "name": f"{wishes.name}-{uuid4().hex[:6]}",
            "labels": labels_of(wishes.name),
        },
        "spec": {
            "clusterRef": cluster,
            "partitions": wishes.partitions,
            "replicationFactor": replicas,
            "config": {"retentionMs": RETENTION_MS, "segmentMs": SEGMENT_MS},
        },
    }


def labels_of(name: str) -> dict[str, str]:
    """Return the labels of everything that a load made."""
    return {
        "app.kubernetes.io/name": "strandline",
        "app.kubernetes.io/component": "load",
        LOAD_LABEL: name,
    }


def job_of(wishes: LoadWishes, cluster: str, topic: Object, image: str) -> Object:
    """Return the Job, whose pod passes the restricted pod security standard."""
    topic_name = topic["spec"].get("topicName", topic["metadata"]["name"])
    load = [
        *("strandline", "load", "--consume", "--until-stopped"),
        f"--bootstrap={bootstrap(cluster)}",
        f"--topic={topic_name}",
        f"--partitions={topic['spec']['partitions']}",
        f"--rate={wishes.rate:g}",
        f"--history={FOLDER}/history.jsonl",
        f"--history-lines={HISTORY_LINES}",
        f"--summary={SUMMARY_PATH}",
        f"--goes-on={wishes.name}-{uuid4().hex[:12]}",
    ]
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 2,
        "securityContext": {"fsGroup": IMAGE_USER},
        "containers": [
            _container("load", image, load, memory="256Mi", cpu="50m"),
            _container("keeper", image, ["sleep", "infinity"], memory="64Mi", cpu="5m"),
        ],
        "volumes": [{"name": "history", "emptyDir": {"sizeLimit": VOLUME_SIZE}}],
    }
    labels = labels_of(wishes.name)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": wishes.name,
            "labels": labels,
            "annotations": {CLUSTER_NOTE: cluster, TOPIC_NOTE: topic_name},
        },
        "spec": {
            "backoffLimit": FOR_EVER,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def look(kubernetes: Kubernetes, name: str) -> LoadSeen:
    """Return what a load has seen so far.

    Raises:  ConfigError if there is no load of this name; CommandFailed if its pod does not run
    """
    jobs = _jobs(kubernetes, name)
    if not jobs:
        there = sorted(each["metadata"]["labels"][LOAD_LABEL] for each in _jobs(kubernetes, ""))
        shown = f"has {', '.join(there)}" if there else "has no load"
        raise ConfigError(f"--name {name}: namespace {kubernetes.namespace} {shown}")
    pods = kubernetes.get("pods", "-l", f"{LOAD_LABEL}={name}")["items"]
    present = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
    if not present:
        raise CommandFailed(f"load {name} has no pod now")
    pod = max(present, key=lambda each: each["metadata"]["creationTimestamp"])["metadata"]["name"]
    try:
        text = kubernetes.exec(pod, "cat", SUMMARY_PATH, container="keeper")
        summary: dict[str, Any] = json.loads(text)
    except (CommandFailed, ValueError) as error:
        raise CommandFailed(f"load {name} has no figures yet\n{_why(kubernetes, name)}") from error
    return LoadSeen(
        name=name,
        cluster=jobs[0]["metadata"]["annotations"][CLUSTER_NOTE],
        pod=pod,
        summary=summary,
        exit_code=load_exit_code(kubernetes, pod),
    )


def end(kubernetes: Kubernetes, name: str) -> LoadSeen:
    """End a load and wait until it has read all that was acknowledged.

    A pod that was lost a moment ago is replaced first: its figures go on in the next one.

    Raises:  CommandFailed if it is not there, does not run, or does not end in time
    """
    try:
        seen = _look_once_replaced(kubernetes, name)
    except ConfigError as error:
        raise CommandFailed(str(error)) from error
    if seen.exit_code is None:
        end_load(kubernetes, seen.pod)
        _wait(
            lambda: load_exit_code(kubernetes, seen.pod) is not None,
            END_SECONDS,
            f"load {name} did not end",
        )
    return look(kubernetes, name)


def remove(kubernetes: Kubernetes, name: str) -> list[str]:
    """Remove all that a load made, whether or not it runs; return the names of the objects."""
    where = ("-l", f"{LOAD_LABEL}={name}", "--wait=false", "-o", "name")
    removed = kubernetes.kubectl("delete", "jobs.batch,replicatedtopics.strandline.dev", *where)
    # Where nothing is there, kubectl prints a sentence.
    return [each for each in removed.split() if "/" in each]


def judge_replicas(kubernetes: Kubernetes, seen: LoadSeen) -> tuple[HistoryVerdict, list[str]]:
    """Read the log of every replica in sync and judge the newest history against them.

    Returns: the verdict, and a sentence for each replica that was left out
    Raises:  CommandFailed if the history cannot be read
    """
    files = ("sh", "-c", f"cat {FOLDER}/history.jsonl.*")
    read = kubernetes.exec(seen.pod, *files, container="keeper", limit_seconds=SCAN_LIMIT_SECONDS)
    before, topic = _in_sync(kubernetes, seen), seen.summary["topic"]
    lines: list[str] = []
    said: list[str] = []
    unread: set[BrokerId] = set()
    for broker in sorted(frozenset().union(*before.values())):
        try:
            printed = kubernetes.exec(
                *(f"{seen.cluster}-{broker}", *scan_command(broker, topic, list(before))),
                container="broker",
                limit_seconds=SCAN_LIMIT_SECONDS,
            )
        except CommandFailed as error:
            unread.add(broker)
            said.append(f"the logs of broker {broker} were not read: {error}")
            continue
        lines += printed.splitlines(keepends=True)
    after = _in_sync(kubernetes, seen)
    replicas = {
        number: frozenset(brokers & after.get(number, frozenset()) - unread)
        for number, brokers in before.items()
    }
    for number, brokers in sorted(replicas.items()):
        if len(brokers) < len(before[number]):
            left = sorted(before[number] - brokers)
            said.append(f"partition {number}: not judged on brokers {left}")
    try:
        return judge_newest(read.splitlines(keepends=True), lines, replicas), said
    except MalformedHistory as error:
        raise CommandFailed(f"nothing is judged: {error}") from error


def scan_command(broker: int, topic: str, partitions: list[int]) -> list[str]:
    """Return the command that prints the newest records of a broker's logs."""
    each_max = SCANNED_LINES_MAX // max(1, len(partitions))
    scan = (
        f"set -e; for p in {' '.join(map(str, partitions))}; do python -m strandline.dump_log "
        f'--lines --broker={broker} --topic="$0" --partition="$p" --newest={each_max} '
        f"| tail -n {each_max}; done"
    )
    return ["sh", "-c", scan, topic]


def _in_sync(kubernetes: Kubernetes, seen: LoadSeen) -> dict[int, frozenset[BrokerId]]:
    """Return the ISR of each partition."""
    found = kubernetes.get("partitions", "-l", f"{CLUSTER_LABEL}={seen.cluster}")["items"]
    return {
        int(each["spec"]["partition"]): frozenset(
            BrokerId(broker) for broker in each.get("status", {}).get("isr", ())
        )
        for each in found
        if each["spec"]["topicName"] == seen.summary["topic"]
    }


def _look_once_replaced(kubernetes: Kubernetes, name: str) -> LoadSeen:
    """Return what a load has seen; while a lost pod is being replaced, wait for the next one."""
    deadline = time.monotonic() + REPLACED_SECONDS
    while True:
        try:
            return look(kubernetes, name)
        except CommandFailed:
            if time.monotonic() >= deadline or not _lost_a_pod(kubernetes, name):
                raise
        time.sleep(POLL_SECONDS)


def _lost_a_pod(kubernetes: Kubernetes, name: str) -> bool:
    """Tell whether a pod of a load is going, or has gone, without the load's end."""
    pods = kubernetes.get("pods", "-l", f"{LOAD_LABEL}={name}")["items"]
    is_going = any("deletionTimestamp" in each["metadata"] for each in pods)
    return is_going or any(each["status"].get("failed", 0) for each in _jobs(kubernetes, name))


def _jobs(kubernetes: Kubernetes, name: str) -> list[Object]:
    """Return the Jobs of the load of this name, of all loads for ""."""
    selector = f"{LOAD_LABEL}={name}" if name else LOAD_LABEL
    found: list[Object] = kubernetes.get("jobs", "-l", selector)["items"]
    return found


def _topic_called(kubernetes: Kubernetes, cluster: str, name: str) -> Object:
    topics = [
        each
        for each in kubernetes.get("replicatedtopics")["items"]
        if each["spec"]["clusterRef"] == cluster
    ]
    by_name: dict[str, Object] = {
        each["spec"].get("topicName", each["metadata"]["name"]): each for each in topics
    }
    if name not in by_name:
        there = ", ".join(sorted(by_name)) or "none"
        raise ConfigError(f"--topic {name}: cluster {cluster} has the topics: {there}")
    return by_name[name]


def _wait_for_topic(kubernetes: Kubernetes, name: str, seconds: int) -> None:
    """Wait until a topic is Ready; CommandFailed says why it is not."""
    try:
        kubernetes.wait_ready(f"replicatedtopic/{name}", seconds)
    except CommandFailed as error:
        found = why_not(kubernetes.get("replicatedtopic", name))
        why = "; ".join(found) or f"{name}: no operator has looked at it"
        raise CommandFailed(f"the topic is not Ready within {seconds} s: {why}") from error


def _until_acknowledged(kubernetes: Kubernetes, wishes: LoadWishes) -> LoadSeen:
    ready = ("--for=jsonpath={.status.ready}=1", f"--timeout={wishes.wait_seconds}s")
    limit = wishes.wait_seconds + POLL_SECONDS * 20
    try:
        kubernetes.kubectl("wait", f"job/{wishes.name}", *ready, limit_seconds=limit)
    except CommandFailed as error:
        late = f"the load's pod is not ready within {wishes.wait_seconds} s"
        raise CommandFailed(late) from error
    seen: list[LoadSeen] = []

    def acknowledges() -> bool:
        try:
            seen[:] = [look(kubernetes, wishes.name)]
        except CommandFailed:
            return False
        return bool(seen[0].summary["acked"]) or seen[0].exit_code is not None

    _wait(acknowledges, FIRST_ACK_SECONDS, f"load {wishes.name} got no acknowledgement")
    if seen[0].exit_code is not None:
        raise CommandFailed(f"load {wishes.name} ended with {seen[0].exit_code}")
    return seen[0]


def _wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition; CommandFailed with what is missing if it takes longer."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise CommandFailed(f"{what} within {seconds:g} s")
        time.sleep(POLL_SECONDS)


def _why(kubernetes: Kubernetes, name: str) -> str:
    """Return why the pods of a load do not run, with the last lines that it wrote."""
    try:
        pods = kubernetes.get("pods", "-l", f"{LOAD_LABEL}={name}")["items"]
        found = [f"pod {each['metadata']['name']}: {diagnose(each)}" for each in pods]
        last = ("logs", "-l", f"{LOAD_LABEL}={name}", "-c", "load", "--tail=3")
        said = kubernetes.kubectl(*last).splitlines() if pods else []
    except CommandFailed:
        return ""
    lines = [each for each in found if not each.endswith(": ")]
    return "".join(f"  {each}\n" for each in [*lines, *said])


def _container(name: str, image: str, args: list[str], *, memory: str, cpu: str) -> Object:
    return {
        "name": name,
        "image": image,
        "args": args,
        "securityContext": RESTRICTED,
        "resources": {
            "requests": {"cpu": cpu, "memory": memory},
            # A load that is throttled would measure itself.
            "limits": {"cpu": "1", "memory": memory},
        },
        "volumeMounts": [{"name": "history", "mountPath": FOLDER}],
    }
