"""Which pods of which cluster showed what, so that a run can tell what it lacks.

Called by `job` with samples of metrics of brokers and with `up`; `findings` says in words what the
rows mean. A cluster is told by the labels cluster and namespace, and by its pods' names without
their ordinals, so that brokers of two clusters are told apart whatever labels a Prometheus gives.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names

from . import schema

OBSERVATIONS: Final = schema.table("""
    label string, namespace string, prefix string, pod string, metric string, replica integer,
    leading_ms long, ahead_ms double, behind_ms double, runs long, samples long
""")
"""What `observations` returns: a row for each metric that a pod showed, by replica.

leading_ms: last scrape that saw the pod as a leader. ahead_ms, behind_ms: how far at least the
times that the pod told lie behind, or before, the scrapes between which they should lie. runs: how
many rows told so, of how many samples.
"""
STAMPS: Final = tuple(
    metric.name
    for metric in (
        names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS,
        names.BROKER_START_TIMESTAMP_SECONDS,
    )
)
"""Metrics whose value is a time by the broker's own clock."""
CLUSTER: Final = ("label", "namespace", "prefix")
"""Columns that name a cluster."""


def observations(samples: DataFrame) -> DataFrame:
    """Return who showed which metric, and how a pod's clock compares with Prometheus's.

    Shape:   samples as schema.SAMPLES, single ones or runs; the result as OBSERVATIONS
    Units:   ms
    """
    in_order = Window.partitionBy("series_id").orderBy("first_ms")
    stamp_ms = F.when(F.col("metric").isin(*STAMPS), F.col("value") * 1000)
    changed = F.lag("value").over(in_order) != F.col("value")
    leads = (F.col("metric") == names.PARTITION_IS_LEADER.name) & (F.col("value") > 0)
    dated = samples.where(~F.col("stale")).withColumns(
        {
            **dict(zip(CLUSTER, cluster_columns(), strict=True)),
            "leading_ms": F.when(leads, F.col("last_ms")),
            "ahead_ms": stamp_ms - F.col("first_ms"),
            # The scrape before still saw the old value, so the new one is of a later time.
            "behind_ms": F.when(changed, F.lag("last_ms").over(in_order) - stamp_ms),
        }
    )
    told = ("leading_ms", "ahead_ms", "behind_ms")
    key = (*CLUSTER, "pod", "metric", "replica")
    counts = (F.count("*").alias("runs"), F.sum("sample_count").alias("samples"))
    found = dated.groupBy(*key).agg(*(F.max(name).alias(name) for name in told), *counts)
    return found.select(*OBSERVATIONS.fieldNames())


def of_cluster(samples: DataFrame, *, label: str, namespace: str, prefix: str) -> DataFrame:
    """Return the samples of one cluster alone.

    Shape:   samples as schema.SAMPLES
    """
    wanted = F.lit(True)
    for column, value in zip(cluster_columns(), (label, namespace, prefix), strict=True):
        wanted &= column == value
    return samples.where(wanted)


def cluster_columns() -> tuple[Column, Column, Column]:
    """Return what names the cluster of a sample, in the order of CLUSTER; empty where unknown."""
    labels = F.col("labels")
    return (
        F.coalesce(labels["cluster"], F.lit("")),
        F.coalesce(labels["namespace"], F.lit("")),
        F.regexp_replace(F.coalesce(F.col("pod"), F.lit("")), r"-\d+$", ""),
    )
