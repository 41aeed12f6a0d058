"""What a namespace has: its clusters, its topics, and the topics that could be brought back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from strandline.kube.objects import topic_id_of

from .assignments import rack_of
from .cluster_view import HTTP_PORT
from .commands import CommandFailed
from .kubectl import ApiProxy, Kubernetes, Object
from .strays import Stray, strays_left_out, strays_of
from .tables import Row, show
from .volumes import VOLUME_COLUMNS, VolumeSeen, volume_of, volume_row
from .why_not import why_not_all

METRICS_LIMIT_SECONDS = 3.0
CLUSTER_COLUMNS: Row = ("CLUSTER", "BROKERS", "CONTROLLER", "STATUS")
TOPIC_COLUMNS: Row = ("TOPIC", "CLUSTER", "PARTITIONS", "OFFLINE", "STATUS")
OUTSIDE_COLUMNS: Row = ("CLUSTER", "OUTSIDE", "STATUS")
STRAY_COLUMNS: Row = ("NO TOPIC HAS", "TOPIC ID", "CLUSTER", "PARTITIONS", "LOGS", "BRING BACK")


def show_status(kubernetes: Kubernetes) -> None:
    """Print clusters and topics, what is amiss with them, the brokers' volumes, and any strays."""
    clusters = kubernetes.get("brokerclusters")["items"]
    topics = kubernetes.get("replicatedtopics")["items"]
    show(CLUSTER_COLUMNS, [cluster_row(each) for each in clusters], left=CLUSTER_COLUMNS)
    print()
    if rows := [outside_row(each) for each in clusters if "externalListener" in each["spec"]]:
        show(OUTSIDE_COLUMNS, rows, left=OUTSIDE_COLUMNS)
        print()
    show(TOPIC_COLUMNS, [topic_row(each) for each in topics], left=TOPIC_COLUMNS)
    if amiss := why_not_all([*clusters, *topics]):
        print("", *amiss, sep="\n")
    if told := [
        f"Analysis of {_name_of(each)}: {run}" for each in clusters for run in last_run(each)
    ]:
        print("", *told, sep="\n")
    if brokers := kubernetes.get("brokers")["items"]:
        print()
        volumes = volumes_of(kubernetes, brokers)
        columns, rows = broker_table(brokers, volumes, datetime.now(UTC))
        show(columns, rows, left=columns)
    taken = {topic_id_of(each) for each in topics}
    for cluster in clusters:
        # A topic that is on its way back stays listed until it has all of its Partitions.
        found = [each for each in strays_of(cluster) if each.topic_id not in taken]
        if found:
            print()
            show(STRAY_COLUMNS, stray_rows(cluster, found), left=STRAY_COLUMNS)
        if more := strays_left_out(cluster):
            print(f"and {more} more")


def volumes_of(kubernetes: Kubernetes, brokers: Sequence[Object]) -> dict[str, VolumeSeen | None]:
    """Return the volume of each broker, None for one whose metrics cannot be read."""
    found: dict[str, VolumeSeen | None] = dict.fromkeys(map(_name_of, brokers))
    if not found:
        return {}
    proxy = ApiProxy(kubernetes)
    try:
        for broker in found:
            pod = f"/api/v1/namespaces/{kubernetes.namespace}/pods/{broker}:{HTTP_PORT}"
            with suppress(OSError, CommandFailed, ValueError, KeyError):
                text = proxy.get(f"{pod}/proxy/metrics", limit_seconds=METRICS_LIMIT_SECONDS)
                found[broker] = volume_of(text)
    finally:
        proxy.close()
    return found


def broker_table(
    brokers: Sequence[Object], volumes: Mapping[str, VolumeSeen | None], now: datetime
) -> tuple[Row, list[Row]]:
    """Return the columns and lines of brokers and their volumes; racks where a broker has one."""
    rows = [volume_row(name, volumes[name], now) for name in map(_name_of, brokers)]
    racks = [rack_of(each) for each in brokers]
    if not any(racks):
        return VOLUME_COLUMNS, rows
    columns = (VOLUME_COLUMNS[0], "RACK", *VOLUME_COLUMNS[1:])
    return columns, [(row[0], rack or "-", *row[1:]) for row, rack in zip(rows, racks, strict=True)]


def _name_of(found: Object) -> str:
    return str(found["metadata"]["name"])


def cluster_row(cluster: Object) -> Row:
    """Return a cluster's line: ready brokers of all, the controller, why it is ready or not."""
    status = cluster.get("status", {})
    return (
        cluster["metadata"]["name"],
        f"{status.get('readyBrokers', 0)}/{cluster['spec']['replicas']}",
        str(status.get("controller", {}).get("brokerId", "none")),
        ready_reason(cluster),
    )


def outside_row(cluster: Object) -> Row:
    """Return the line of a cluster with an external listener: where clients outside begin."""
    status = cluster.get("status", {})
    servers = status.get("externalListener", {}).get("bootstrapServers", [])
    shown = ",".join(servers) or "none yet"
    return cluster["metadata"]["name"], shown, reason_of(cluster, "ExternalListener")


def last_run(cluster: Object) -> list[str]:
    """Return a sentence about the last run of a cluster's analysis, none without one."""
    told = cluster.get("status", {}).get("analysis")
    if not told:
        return []
    top = "".join(f"; the widest: {each['sentence']}" for each in told.get("topIncidents", [])[:1])
    count = told.get("incidents", 0)
    incidents = f"{count} incident" if count == 1 else f"{count} incidents"
    window = f"from {told['windowStart']} to {told['windowEnd']}"
    return [f"{incidents} {window}, {told.get('coveragePercent', 0)}% of it known{top}"]


def topic_row(topic: Object) -> Row:
    """Return a topic's line: its partitions, those without a leader, why it is ready or not."""
    spec, counts = topic["spec"], topic.get("status", {}).get("partitions", {})
    return (
        spec.get("topicName", topic["metadata"]["name"]),
        spec["clusterRef"],
        str(spec["partitions"]),
        str(counts.get("offline", spec["partitions"])),
        ready_reason(topic),
    )


def stray_rows(cluster: Object, strays: list[Stray]) -> list[Row]:
    """Return a line for each stray, with the command that brings it back."""
    name = cluster["metadata"]["name"]
    option = "" if name == "default" else f" --cluster {name}"
    names = [each.topic_name for each in strays]
    rows: list[Row] = []
    for each in strays:
        is_unique = bool(each.topic_name) and names.count(each.topic_name) == 1
        since = f" since {each.deleted_at}" if each.deleted_at else ""
        rows.append(
            (
                each.topic_name or "(name unknown)",
                each.topic_id,
                name,
                str(each.partitions),
                f"in the trash{since}" if each.in_trash else "on disk",
                f"strandline undelete {each.topic_name if is_unique else each.topic_id}{option}",
            )
        )
    return rows


def ready_reason(found: Object) -> str:
    """Return the reason of the condition Ready, "not looked at yet" without one."""
    return reason_of(found, "Ready")


def reason_of(found: Object, kind: str) -> str:
    """Return the reason of a condition, "not looked at yet" without one."""
    for condition in found.get("status", {}).get("conditions", ()):
        if condition["type"] == kind:
            return str(condition["reason"])
    return "not looked at yet"
