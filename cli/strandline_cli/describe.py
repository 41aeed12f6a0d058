"""One page on a topic, a broker or a cluster: what it is, where it is, and why it is not ready.

`read` asks for all objects of the namespace at once; the pages are made from what it found. A kind
that may not be read becomes a line of the page, and the rest is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from strandline.errors import ConfigError
from strandline.kube.objects import CLUSTER_LABEL, topic_id_of

from . import status
from .assignments import rack_of
from .cluster_view import PartitionSeen, partition_of, pod_of
from .commands import CommandFailed
from .kubectl import Kubernetes, Object
from .pod_diagnostics import diagnose
from .tables import Row, plain
from .volumes import VOLUME_COLUMNS, VolumeSeen, volume_row
from .why_not import why_not, why_not_all

KINDS = ("brokerclusters", "replicatedtopics", "partitions", "brokers", "pods", "events")
NEEDED = KINDS[:4]
"""Without these no page can be made; roles for people allow them."""
PARTITIONS_SHOWN = 100
EVENTS_SHOWN = 10
PARTITION_COLUMNS: Row = ("PARTITION", "LEADER", "EPOCH", "ISR", "REPLICAS", "CHANGED", "WHY NOT")
BROKER_COLUMNS: Row = (
    *("BROKER", "NODE", "RACK", "POD", "RESTARTS", "LEADS", "HOLDS", "SAFE TO RESTART"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFound:
    """The objects of a namespace by kind; unread holds a sentence for each kind not to be had."""

    objects: dict[str, list[Object]]
    unread: list[str] = field(default_factory=list)
    volumes: dict[str, VolumeSeen | None] = field(default_factory=dict)

    def of_cluster(self, kind: str, cluster: str) -> list[Object]:
        """Return the objects of a kind that carry the label of a cluster."""
        label = CLUSTER_LABEL
        found = self.objects.get(kind, [])
        return [each for each in found if each["metadata"].get("labels", {}).get(label) == cluster]

    def named(self, kind: str, name: str) -> Object:
        """Return one object; ConfigError names those that are there."""
        found = {each["metadata"]["name"]: each for each in self.objects[kind]}
        if name in found:
            return found[name]
        there = ", ".join(sorted(found)[:PARTITIONS_SHOWN]) or "none"
        raise ConfigError(f"{kind}: there is no {name}; there is {there}")


def read(kubernetes: Kubernetes) -> NamespaceFound:
    """Read all kinds of the namespace, and the brokers' volumes.

    Raises:  CommandFailed if a kind of NEEDED cannot be read
    """
    found: dict[str, list[Object]] = {}
    unread: list[str] = []
    for kind in KINDS:
        try:
            found[kind] = kubernetes.get(kind)["items"]
        except CommandFailed as error:
            if kind in NEEDED:
                raise
            unread.append(f"{kind} could not be read: {str(error).rpartition(': ')[2]}")
    volumes = status.volumes_of(kubernetes, found["brokers"])
    return NamespaceFound(objects=found, unread=unread, volumes=volumes)


def topic_page(found: NamespaceFound, name: str, now: datetime) -> list[str]:
    """Return the page of a topic; name is that of its object."""
    topic = found.named("replicatedtopics", name)
    spec, effective = topic["spec"], topic.get("status", {}).get("effectiveConfig", {})
    topic_id = topic_id_of(topic)
    partitions = [
        each for each in found.objects["partitions"] if each["spec"]["topicId"] == topic_id
    ]
    settings = ", ".join(f"{key} {value}" for key, value in sorted(effective.items()))
    return [
        *_head(
            f"Topic {spec.get('topicName', name)}",
            ("object", f"ReplicatedTopic {name}, {_age(topic, now)} old"),
            ("cluster", spec["clusterRef"]),
            ("topic id", topic_id),
            ("wanted", f"{spec['partitions']} partitions, {spec['replicationFactor']} replicas"),
            ("settings", settings or "not told yet"),
            ("status", status.ready_reason(topic)),
        ),
        *_section("Why not", why_not(topic)),
        *_partitions(partitions),
        *_events(found, topic, *partitions),
        *_section("Not read", found.unread),
    ]


def broker_page(found: NamespaceFound, name: str, now: datetime) -> list[str]:
    """Return the page of a broker; name is that of its object and its pod, as in demo-0."""
    broker = found.named("brokers", name)
    label = broker["metadata"].get("labels", {}).get(CLUSTER_LABEL, "")
    number, registered = broker["spec"]["brokerId"], broker.get("status", {})
    pod = next((p for p in found.objects.get("pods", ()) if p["metadata"]["name"] == name), None)
    held = [
        (each, partition_of(each))
        for each in found.of_cluster("partitions", label)
        if number in partition_of(each).replicas
    ]
    leads = [each for each, seen in held if seen.leader == number]
    outside = [each for each, seen in held if number not in seen.isr]
    clusters = [c for c in found.objects["brokerclusters"] if c["metadata"]["name"] == label]
    version = registered.get("softwareVersion", "")
    return [
        *_head(
            f"Broker {number} of cluster {label}",
            ("object", f"Broker {name}, {_age(broker, now)} old"),
            ("session", f"epoch {registered['brokerEpoch']}, version {version}")
            if registered
            else ("session", "never registered"),
            ("listeners", _listeners(registered)),
            ("pod", _pod(pod)),
            ("rack", *filter(None, [rack_of(broker)])),
            ("restart", *(_restart(each, number) for each in clusters)),
            ("holds", f"{len(held)} replicas, leads {len(leads)}"),
        ),
        *_section("Why not", [*_pod_why(pod), *_amiss_of(registered)]),
        *_volumes(found, [name], now),
        *_section("It is not in the ISR of", [each["metadata"]["name"] for each in outside]),
        *_events(found, broker, *([pod] if pod else [])),
        *_section("Not read", found.unread),
    ]


def cluster_page(found: NamespaceFound, name: str, now: datetime) -> list[str]:
    """Return the page of a cluster."""
    cluster = found.named("brokerclusters", name)
    brokers = found.of_cluster("brokers", name)
    pods = {each["metadata"]["name"]: each for each in found.of_cluster("pods", name)}
    topics = [t for t in found.objects["replicatedtopics"] if t["spec"]["clusterRef"] == name]
    partitions = found.of_cluster("partitions", name)
    row = status.cluster_row(cluster)
    unwell = [each for each in partitions if not partition_of(each).has_full_isr]
    rows = [_broker_row(cluster, each, pods) for each in brokers]
    pods_why = [f"pod {each}: {why}" for each, pod in pods.items() for why in _pod_why(pod)]
    return [
        *_head(
            f"Cluster {name}",
            ("object", f"BrokerCluster {name}, {_age(cluster, now)} old"),
            ("brokers", f"{row[1]} are ready"),
            ("controller", row[2]),
            ("outside", *(status.outside_row(each)[1] for each in _outside(cluster))),
            ("partitions", f"{len(partitions)}, {len(unwell)} of them without a full ISR"),
            ("status", row[3]),
            ("analysis", *status.last_run(cluster)),
        ),
        *_section("Why not", [*why_not_all([cluster, *topics]), *pods_why]),
        *_table(BROKER_COLUMNS, rows, left=BROKER_COLUMNS),
        *_volumes(found, [each["metadata"]["name"] for each in brokers], now),
        *_table(status.TOPIC_COLUMNS, [status.topic_row(t) for t in topics]),
        *(_partitions(unwell) if unwell else []),
        *_events(found, cluster, *topics, *brokers, *pods.values()),
        *_section("Not read", found.unread),
    ]


PAGES: dict[str, Callable[[NamespaceFound, str, datetime], list[str]]] = {
    "topic": topic_page,
    "broker": broker_page,
    "cluster": cluster_page,
}
"""The page of each kind that a person names."""


def describe(kubernetes: Kubernetes, kind: str, name: str) -> None:
    """Print the page of an object; kind is one of PAGES."""
    for line in PAGES[kind](read(kubernetes), name, datetime.now(UTC)):
        print(line)


# --- parts of a page ----------------------------------------------------------------------


def _head(title: str, *facts: tuple[str, ...]) -> list[str]:
    """Return a title and its facts; a fact without a value is left out."""
    return [title, *(f"  {fact[0]:<11}{fact[1]}" for fact in facts if len(fact) > 1)]


def _section(title: str, said: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {each}" for each in said)] if said else []


def _table(columns: Row, rows: Sequence[Row], *, left: Collection[str] = ()) -> list[str]:
    begin = left or columns[:1]
    shown = plain([columns, *rows], left={columns.index(each) for each in begin})
    return ["", *shown] if rows else []


def _volumes(found: NamespaceFound, brokers: Sequence[str], now: datetime) -> list[str]:
    rows = [volume_row(each, found.volumes.get(each), now) for each in brokers]
    return _table(VOLUME_COLUMNS, rows, left=VOLUME_COLUMNS)


def _partitions(partitions: Sequence[Object]) -> list[str]:
    """Return the table of partitions, if there are many first those without a full ISR."""

    def order(each: Object) -> tuple[bool, str, int]:
        spec = each["spec"]
        well = partition_of(each).has_full_isr and len(partitions) > PARTITIONS_SHOWN
        return well, spec["topicName"], spec["partition"]

    ordered = sorted(partitions, key=order)
    rows = [_partition_row(each) for each in ordered[:PARTITIONS_SHOWN]]
    more = len(partitions) - len(rows)
    notes = [f"and {more} more, which are no worse"] if more else []
    return [*_table(PARTITION_COLUMNS, rows, left=PARTITION_COLUMNS), *notes]


def _partition_row(found: Object) -> Row:
    seen, held = partition_of(found), found.get("status", {})
    return (
        found["metadata"]["name"],
        "none" if seen.leader < 0 else str(seen.leader),
        str(seen.leader_epoch) if seen.leader_epoch >= 0 else "-",
        ",".join(map(str, seen.isr)) or "-",
        ",".join(map(str, seen.replicas or found["spec"]["replicas"])),
        held.get("changedAt", "-"),
        held.get("reason", "") or _isr_lacks(seen, held),
    )


def _isr_lacks(seen: PartitionSeen, held: Object) -> str:
    if not held:
        return "no controller has looked at it yet"
    if len(seen.isr) < held.get("minInsyncReplicas", 1):
        return "under min ISR: acks=all is refused"
    absent = sorted(set(seen.replicas) - set(seen.isr))
    return f"not in the ISR: {', '.join(map(str, absent))}" if absent else ""


def _broker_row(cluster: Object, broker: Object, pods: dict[str, Object]) -> Row:
    name, number = broker["metadata"]["name"], broker["spec"]["brokerId"]
    told = _told(cluster, number)
    counts = (str(told.get("leaders", "-")), str(told.get("replicas", "-")))
    rack = rack_of(broker) or "-"
    if (pod := pods.get(name)) is None:
        return (name, "-", rack, "no pod", "-", *counts, _restart(cluster, number))
    seen, node = pod_of(pod), pod["spec"].get("nodeName", "not scheduled")
    state = "ready" if seen.ready else pod.get("status", {}).get("phase", "Unknown")
    return (name, node, rack, state, str(seen.restarts), *counts, _restart(cluster, number))


def _told(cluster: Object, number: int) -> Object:
    """Return what the operator tells of a broker in its cluster's status, empty if nothing."""
    told = cluster.get("status", {}).get("brokers", ())
    found: Object = next((each for each in told if each["id"] == number), {})
    return found


def _restart(cluster: Object, number: int) -> str:
    told = _told(cluster, number)
    if "safeToRestart" not in told:
        return "not looked at yet"
    return "safe" if told["safeToRestart"] else f"not safe: {told.get('because', '')}"


def _pod(pod: Object | None) -> str:
    if pod is None:
        return "none"
    seen = pod_of(pod)
    where = pod["spec"].get("nodeName", "no node")
    state = "ready" if seen.ready else "not ready"
    return f"{state} on {where}, {seen.restarts} restarts, image {seen.image}"


def _pod_why(pod: Object | None) -> list[str]:
    why = "" if pod is None else diagnose({"status": {}, **pod})
    return [why] if why else []


def _amiss_of(registered: Object) -> list[str]:
    return ["its volume is full: clients are refused"] if registered.get("volumeFull") else []


def _listeners(registered: Object) -> str:
    told = registered.get("listeners", ())
    return ", ".join(f"{each['name']} {each['host']}:{each['port']}" for each in told) or "none"


def _outside(cluster: Object) -> list[Object]:
    return [cluster] if "externalListener" in cluster["spec"] else []


def _events(found: NamespaceFound, *about: Object) -> list[str]:
    """Return the last Events about these objects."""
    uids = {each["metadata"].get("uid", "") for each in about}
    concerned = [
        each
        for each in found.objects.get("events", ())
        if each["involvedObject"].get("uid", "") in uids - {""}
    ]
    ordered = sorted(concerned, key=_event_time)[-EVENTS_SHOWN:]
    return _section(
        "Last Events",
        [
            f"{_event_time(each)} {each['involvedObject']['name']}: "
            f"{each.get('reason', '')}: {each.get('message', '')}".rstrip()
            for each in ordered
        ],
    )


def _event_time(event: Object) -> str:
    """Return when an Event was last seen; its writer fills one of these fields."""
    told = event.get("lastTimestamp") or event.get("eventTime")
    return str(told or event["metadata"].get("creationTimestamp", ""))


def _age(found: Object, now: datetime) -> str:
    made = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    seconds = int((now - made).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
