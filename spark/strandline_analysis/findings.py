"""What a run lacks, each in one sentence that says what to do about it; needs no Spark.

Called by `job`. What samples cannot tell is never guessed: these sentences, and the share of the
partitions' time that is known, say how far the tables can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline import names

from .html_report.words import counted, moment, span
from .task import UP

Row = Mapping[str, Any]
CLOCK_ERROR_MS: Final = 1_000
"""Clocks that differ by less are taken for right, however often they are scraped."""
ALWAYS_THERE: Final = frozenset(
    {names.Exporter.REPLICA, names.Exporter.LEADER, names.Exporter.BROKER}
)
"""Who exports metrics that every whole cluster shows; a controller's come and go."""


class ClusterUnclear(ValueError):
    """The samples are of other clusters than the one that was asked for, or of several."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ScrapedCluster:
    """What tells the samples of one cluster from those of another; empty where no label does."""

    label: str = ""
    """The label cluster, which some Prometheus give for a whole Kubernetes."""
    namespace: str = ""
    prefix: str = ""
    """Name of its pods without their ordinals."""

    @property
    def name(self) -> str:
        """Return its name, with what else is needed to tell it from another one."""
        label = "" if self.label == self.prefix else self.label
        return "/".join(part for part in (label, self.namespace, self.prefix) if part)

    def is_of(self, row: Row) -> bool:
        """Tell whether a row of observations is of this cluster."""
        return _cluster(row) == self

    def is_called(self, wanted: str) -> bool:
        """Tell whether a person may mean it by this name, which may leave out the begin."""
        return f"/{self.name}".endswith(f"/{wanted}")


def clusters_of(seen: Iterable[Row]) -> list[ScrapedCluster]:
    """Return the clusters of which brokers showed metrics of ours.

    Shape:   rows as observations.OBSERVATIONS
    """
    return sorted({_cluster(row) for row in seen if row["metric"] != UP})


def chosen_cluster(
    clusters: Sequence[ScrapedCluster], *, wanted: str, origin: str
) -> ScrapedCluster | None:
    """Return the cluster that was asked for, or the only one; None if there is none at all.

    Raises:  ClusterUnclear with what to ask for
    """
    named = ", ".join(cluster.name or "one without a name" for cluster in clusters)
    fitting = [each for each in clusters if each.is_called(wanted)] if wanted else [*clusters]
    if len(fitting) > 1:
        raise ClusterUnclear(
            f"{origin} holds samples of {counted(len(fitting), 'cluster')}, {named}: name one with "
            "--cluster (analysis.cluster of the chart), as their topics must not be mixed"
        )
    if wanted and not fitting:
        held = f"only of {named}" if clusters else "of no cluster in this range"
        raise ClusterUnclear(f"{origin} has no samples of a cluster {wanted}, {held}")
    return fitting[0] if fitting else None


def empty_window(origin: str, *, start_ms: int, end_ms: int) -> str:
    """Return what to do where no target was scraped twice."""
    return (
        f"{origin} holds no two scrapes of one target from {moment(start_ms)} to {moment(end_ms)} "
        "UTC: choose another range (--start, --end, --window), and if there is none, see on "
        "Prometheus's page /targets why it scrapes nothing"
    )


def no_partition(origin: str) -> str:
    """Return what to do where targets were scraped and no partition was seen."""
    return (
        f"{origin} holds no sample of a partition in this range: let Prometheus scrape port http "
        "of the brokers' pods (prometheus.enabled or podMonitor.enabled of the chart), and see "
        "that a topic was there"
    )


def findings(
    seen: Sequence[Row],
    *,
    origin: str,
    interval_ms: int,
    made_of: Mapping[str, Sequence[names.Metric]],
) -> list[str]:
    """Return a sentence for each thing that the samples of one cluster lack.

    Shape:   rows as observations.OBSERVATIONS, of one cluster; made_of says which metrics each
             table of the run is made of
    Units:   interval_ms is the scrape interval
    """
    told = (
        _half_a_cluster(seen, origin=origin),
        _missing_metrics(seen, origin=origin, made_of=made_of),
        _clock_skew(seen, interval_ms=interval_ms),
    )
    return [sentence for sentence in told if sentence]


def _half_a_cluster(seen: Sequence[Row], *, origin: str) -> str:
    """Tell of brokers that have replicas and were not seen."""
    member = names.PARTITION_ISR_MEMBER.name
    replicas = {row["replica"] for row in seen if row["metric"] == member} - {None}
    shown = {_broker(row) for row in seen if row["metric"] != UP}
    lacking = sorted(replicas - shown)
    if None in shown or not lacking:  # without names of pods no sample tells its broker
        return ""
    targets = {_broker(row) for row in seen if row["metric"] == UP}
    down = [broker for broker in lacking if broker in targets]
    unknown = [broker for broker in lacking if broker not in targets]
    parts = []
    if unknown:
        parts.append(
            f"{_brokers(unknown)} {_was(unknown)} not scraped at all, so let Prometheus scrape "
            "every broker's pod"
        )
    if down:
        parts.append(
            f"no scrape of {_brokers(down)} succeeded, so see whether the pod runs and whether "
            "Prometheus reaches its port"
        )
    total = len(replicas | shown)
    return (
        f"{origin} has samples of {total - len(lacking)} of {counted(total, 'broker')}: "
        f"{', and '.join(parts)}; what they led and held is unknown"
    )


def _missing_metrics(
    seen: Sequence[Row], *, origin: str, made_of: Mapping[str, Sequence[names.Metric]]
) -> str:
    """Tell of gauges that no broker showed although it shows others."""
    shown = {row["metric"] for row in seen}
    if not shown - {UP}:
        return ""
    needed = {
        metric.name
        for metrics in made_of.values()
        for metric in metrics
        if metric.kind is names.MetricKind.GAUGE
        and metric.exporter in ALWAYS_THERE
        and metric.name != UP
    }
    member = names.PARTITION_ISR_MEMBER.name
    if len({row["replica"] for row in seen if row["metric"] == member}) <= 1:
        # Of a partition with one replica a leader knows no follower.
        needed -= {
            names.REPLICA_LOG_END_OFFSET.name,
            names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS.name,
        }
    missing = sorted(needed - shown)
    if not missing:
        return ""
    concerned = sorted(
        table
        for table, metrics in made_of.items()
        if not {metric.name for metric in metrics}.isdisjoint(missing)
    )
    return (
        f"{origin} has no sample of {_listed(missing)}, so {_listed(concerned)} cannot tell all: "
        "let no relabelling of Prometheus drop them, and upgrade brokers that do not show them"
    )


def _clock_skew(seen: Sequence[Row], *, interval_ms: int) -> str:
    """Tell of brokers whose clock differs from Prometheus's by more than a scrape may take."""
    allowed = max(interval_ms, CLOCK_ERROR_MS)
    ahead: dict[str, float] = {}
    behind: dict[str, float] = {}
    for row in seen:
        for worst, column in ((ahead, "ahead_ms"), (behind, "behind_ms")):
            if row[column] is not None and row[column] > allowed:
                worst[row["pod"]] = max(worst.get(row["pod"], 0), row[column])
    parts = [
        f"that of {pod} is at least {span(round(found[pod]))} {word}"
        for found, word in ((ahead, "ahead"), (behind, "behind"))
        for pod in sorted(found)
    ]
    if not parts:
        return ""
    return (
        f"clocks of brokers differ from Prometheus's: {_listed(parts)}; set the clocks of the "
        "nodes right (NTP), as the times of leaders and restarts that such a broker tells are "
        "wrong by that much or left out"
    )


def _cluster(row: Row) -> ScrapedCluster:
    return ScrapedCluster(label=row["label"], namespace=row["namespace"], prefix=row["prefix"])


def _broker(row: Row) -> int | None:
    ordinal = (row["pod"] or "").rpartition("-")[2]
    return int(ordinal) if ordinal.isdecimal() else None


def _brokers(ids: Sequence[int]) -> str:
    told: list[str] = []
    rows: list[list[int]] = []
    for broker in ids:
        if rows and broker == rows[-1][-1] + 1:
            rows[-1].append(broker)
        else:
            rows.append([broker])
    for row in rows:
        told += [f"{row[0]} to {row[-1]}"] if len(row) > 2 else map(str, row)
    return ("broker " if len(ids) == 1 else "brokers ") + _listed(told)


def _was(ids: Sequence[int]) -> str:
    return "was" if len(ids) == 1 else "were"


def _listed(texts: Sequence[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last
