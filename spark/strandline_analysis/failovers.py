"""Analysis: which elections were there, and how long was a partition without a leader?

One row for each rise of a partition's leader epoch. Only a leader's own samples tell which
broker led. An epoch between two of these, under which no leader was scraped, is an election
too; its row has observed = false.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names

from . import schema
from .samples import broker_id, held, of, under_epochs, value_at

METRICS: Final = (
    names.PARTITION_IS_LEADER,
    names.PARTITION_LEADER_EPOCH,
    names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS,
    names.PARTITION_ISR_MEMBER,
    names.LEADER_ELECTIONS_TOTAL,
)

ELECTIONS: Final = schema.table("""
    topic string, partition integer, epoch long, old_leader integer, new_leader integer,
    t_last_old_ms long, t_first_new_ms long, t_first_new_err_ms long,
    no_leader_low_ms long, no_leader_high_ms long, kind string, cause string, observed boolean
""")
"""What `elections` returns.

t_last_old_ms: the last scrape that saw the old leader lead. t_first_new_ms: when the new leader
began, at most t_first_new_err_ms earlier. no_leader_low_ms and no_leader_high_ms bound the time
without a leader; an old leader that could no longer be scraped counts as gone.
kind: unclean, controlled, broker_failure. cause: what became of the old leader's process:
alive, stale (no longer scraped) or gap. observed: false if no scrape saw a leader of this epoch;
new_leader, the bounds and kind are then null. old_leader is null if the epoch before was not
observed.
"""

KINDS: Final = {
    "unclean": "unclean",
    "controlled_shutdown": "controlled",
    "volume_full": "controlled",
    "offline": "broker_failure",
}
"""Kind by the label `kind` of the controllers' counter; `new` is no failover."""

CAUSES: Final = {"change": "alive", "stale": "stale", "gap": "gap", "range": "gap"}
PARTITION: Final = ("topic", "partition")


def elections(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return which leader followed which, when, and how long the partition had none.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as ELECTIONS, one row for each
             election within [start_ms, end_ms)
    Units:   ms
    """
    facts = held(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms).cache()
    changes = _changes(_leaderships(facts, interval_ms=interval_ms))
    changes = _with_kinds(changes, facts, interval_ms=interval_ms)
    seen = changes.where(F.col("t_first_new_ms").between(start_ms, end_ms - 1))
    all_elections = seen.unionByName(_unseen(seen))
    return all_elections.select(*(F.col(field.name).cast(field.dataType) for field in ELECTIONS))


def _leaderships(facts: DataFrame, *, interval_ms: int) -> DataFrame:
    """Return one row for each leader epoch under which a leader was scraped."""
    leading = of(facts, names.PARTITION_IS_LEADER).where(F.col("value") > 0)
    first, last = F.greatest("first_ms", "epoch_first_ms"), F.least("last_ms", "epoch_last_ms")
    epoch_ended = F.col("epoch_last_ms") < F.col("last_ms")
    reason = F.when(epoch_ended, F.col("epoch_reason")).otherwise(F.col("end_reason"))
    hold_end = F.least("hold_end_ms", "epoch_end_ms")
    paired = under_epochs(leading, facts).where(first <= last)
    seen = paired.withColumns(
        {"first_ms": first, "last_ms": last, "hold_end_ms": hold_end, "end_reason": reason}
    )
    whole = seen.groupBy(*PARTITION, "epoch").agg(
        F.min_by("pod", "first_ms").alias("pod"),
        F.min_by("instance", "first_ms").alias("instance"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.max("hold_end_ms").alias("hold_end_ms"),
        F.max_by("end_reason", "last_ms").alias("end_reason"),
    )
    leader_since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    dated = value_at(whole, facts, leader_since, at="first_ms", into="since")
    since = F.round(F.col("since") * 1000).cast("long")
    stated = since <= F.col("first_ms")
    begun = F.when(stated, since).otherwise(F.col("first_ms"))
    error = F.when(stated, 0).otherwise(interval_ms)
    return dated.withColumns({"t_first_new_ms": begun, "t_first_new_err_ms": error})


def _changes(leaderships: DataFrame) -> DataFrame:
    """Return one row for each leadership that follows another."""
    in_order = Window.partitionBy(*PARTITION).orderBy("epoch")
    before = ("epoch", "pod", "instance", "last_ms", "hold_end_ms", "end_reason")
    old = {f"old_{name}": F.lag(name).over(in_order) for name in before}
    pairs = leaderships.withColumns(old).where(F.col("old_epoch").isNotNull())
    begun, error = F.col("t_first_new_ms"), F.col("t_first_new_err_ms")
    last_old = F.least(F.col("old_last_ms"), begun)
    low = F.greatest(begun - error - F.col("old_hold_end_ms"), F.lit(0))
    skipped = F.col("epoch") > F.col("old_epoch") + 1
    return pairs.withColumns(
        {
            "old_leader": F.when(~skipped, broker_id("old_pod")),
            "new_leader": broker_id("pod"),
            "t_last_old_ms": last_old,
            "no_leader_low_ms": F.when(skipped, 0).otherwise(low),
            "no_leader_high_ms": F.greatest(begun - last_old, F.lit(0)),
            "cause": _looked_up(CAUSES, F.col("old_end_reason")),
            "observed": F.lit(True),
        }
    )


def _with_kinds(changes: DataFrame, facts: DataFrame, *, interval_ms: int) -> DataFrame:
    """Add the kind of each election: the one that the controllers' counter shows.

    If the counter shows none or several: unclean if the new leader was outside the last known
    ISR, controlled if the old leader is still scraped, broker_failure otherwise.
    """
    counter = of(facts, names.LEADER_ELECTIONS_TOTAL)
    kind = _looked_up(KINDS, F.col("labels")["kind"])
    counted = (
        counter.where(F.col("value") > F.col("previous_value"))
        .select(kind.alias("counted"), F.col("first_ms").alias("counted_ms"))
        .where(F.col("counted").isNotNull())
    )
    after_old = F.col("counted_ms") > F.col("t_last_old_ms")
    before_scrape = F.col("counted_ms") <= F.col("first_ms") + interval_ms
    key = [*PARTITION, "epoch"]
    stated = (
        changes.join(F.broadcast(counted), after_old & before_scrape)
        .groupBy(*key)
        .agg(F.collect_set("counted").alias("counted"))
    )
    members = of(facts, names.PARTITION_ISR_MEMBER).select(
        *PARTITION,
        F.col("pod").alias("old_pod"),
        F.col("instance").alias("old_instance"),
        F.col("replica").alias("new_leader"),
        F.col("last_ms").alias("member_ms"),
        "value",
    )
    outside = (
        changes.join(members, [*PARTITION, "old_pod", "old_instance", "new_leader"])
        .where(F.col("member_ms") <= F.col("old_last_ms"))
        .groupBy(*key)
        .agg((F.max_by("value", "member_ms") == 0).alias("outside"))
    )
    signs = (
        F.when(F.col("outside"), "unclean")
        .when(F.col("cause") == "alive", "controlled")
        .otherwise("broker_failure")
    )
    one = F.when(F.size("counted") == 1, F.col("counted")[0])
    return (
        changes.join(stated, key, "left")
        .join(outside, key, "left")
        .withColumn("kind", F.coalesce(one, signs))
        .drop("counted", "outside")
    )


def _looked_up(table: Mapping[str, str], key: Column) -> Column:
    """Return the table's value for the key, null if it has none."""
    return F.create_map(*(F.lit(each) for pair in table.items() for each in pair))[key]


def _unseen(seen: DataFrame) -> DataFrame:
    """Return one row for each epoch between two observed ones."""
    following = F.col("old_epoch") + 1
    skipped = seen.where(F.col("epoch") > following)
    between = F.explode(F.sequence(following, F.col("epoch") - 1))
    return skipped.withColumn("epoch", between).withColumns(
        {
            "observed": F.lit(False),
            "old_leader": F.when(F.col("epoch") == following, broker_id("old_pod")),
            "new_leader": F.lit(None).cast("int"),
            "no_leader_low_ms": F.lit(None).cast("long"),
            "no_leader_high_ms": F.lit(None).cast("long"),
            "kind": F.lit(None).cast("string"),
        }
    )
