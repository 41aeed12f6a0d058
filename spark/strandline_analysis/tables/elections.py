"""Analysis 6: which leader followed which, and how long was there none?

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
from strandline_analysis import catalogue
from strandline_analysis.run_lengths import GAP_INTERVALS
from strandline_analysis.samples import (
    broker_id,
    of,
    settled,
    shared,
    steps,
    under_epochs,
    value_at,
)
from strandline_analysis.schema import shaped

from .coverage import processes
from .leader_states import with_bounds

METRICS: Final = (
    names.PARTITION_IS_LEADER,
    names.PARTITION_LEADER_EPOCH,
    names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS,
    names.PARTITION_ISR_MEMBER,
    names.LEADER_ELECTIONS_TOTAL,
    names.BROKER_START_TIMESTAMP_SECONDS,
)

KINDS: Final = {
    "unclean": "unclean",
    "controlled_shutdown": "controlled",
    "volume_full": "controlled",
    "offline": "broker_failure",
    "preferred": "preferred",
    "reassignment": "controlled",
}
"""Kind by the label `kind` of the controllers' counter; `new` is no failover."""

CONTROLLER_METRICS: Final = (names.CONTROLLER_EPOCH, names.CONTROLLER_ACTIVE)
CAUSES: Final = {"change": "alive", "stale": "stale", "gap": "gap", "range": "alive"}
"""By the reason for which the old leader's last sample ended: what became of its process."""
PARTITION: Final = ("topic", "partition")


def elections(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return which leader followed which, when, and how long the partition had none.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.ELECTIONS, one
             row for each election within [start_ms, end_ms)
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    return elections_of(facts, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)


@shared
def elections_of(facts: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return what `elections` does, of facts as `samples.held` returns them."""
    began = leaderships(facts, interval_ms=interval_ms)
    changes = _changes(began, _led(facts), interval_ms=interval_ms)
    changes = settled(_with_restarts(changes, facts))
    changes = settled(_with_kinds(changes, facts))
    seen = changes.where(F.col("t_first_new_ms").between(start_ms, end_ms - 1))
    all_elections = seen.unionByName(_unseen(seen))
    return settled(shaped(all_elections, catalogue.ELECTIONS))


def failover_quantiles(
    samples: DataFrame,
    *,
    interval_ms: int,
    start_ms: int,
    end_ms: int,
    elections: DataFrame | None = None,
) -> DataFrame:
    """Return how long partitions had no leader, by kind of election.

    Shape:   samples as schema.SAMPLES, of METRICS; elections as catalogue.ELECTIONS, made of the
             samples if absent; the result as catalogue.FAILOVER_QUANTILES, one row for each kind
             that was observed
    Units:   ms
    """
    ranged = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    found = elections
    if found is None:
        found = elections_of(steps(samples, **ranged), **ranged)
    quantiles = [
        F.expr(f"percentile(no_leader_{bound}_ms, {share})").alias(f"{name}_{bound}_ms")
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        for bound in ("low", "high")
    ]
    observed = found.where(F.col("observed"))
    counted = observed.groupBy("kind").agg(F.count("*").alias("elections"), *quantiles)
    return shaped(counted, catalogue.FAILOVER_QUANTILES)


def controller_elections(
    samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return when brokers began to obey another controller.

    Shape:   samples as schema.SAMPLES, of CONTROLLER_METRICS; the result as
             catalogue.CONTROLLER_ELECTIONS, one row for each epoch after the first that was seen
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    return controller_elections_of(facts, interval_ms=interval_ms)


def controller_elections_of(facts: DataFrame, *, interval_ms: int) -> DataFrame:
    """Return what `controller_elections` does, of facts as `samples.held` returns them.

    The controller of an epoch is the broker that was seen acting in it for the longest time, of
    several the one that began last. One that was just elected may act a scrape before it shows its
    epoch, and one that was deposed a scrape after it shows the next.
    """
    process = ("pod", "instance")
    epochs = of(facts, names.CONTROLLER_EPOCH).select(
        *process, F.col("value").cast("long").alias("epoch"), "first_ms", "last_ms", "previous_ms"
    )
    active = (
        of(facts, names.CONTROLLER_ACTIVE)
        .where(F.col("value") > 0)
        .select(*(F.col(name).alias(f"_{name}") for name in (*process, "first_ms", "last_ms")))
    )
    same = [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in process]
    meets = (F.col("_first_ms") <= F.col("last_ms")) & (F.col("first_ms") <= F.col("_last_ms"))
    first, last = F.greatest("first_ms", "_first_ms"), F.least("last_ms", "_last_ms")
    actors = (
        epochs.join(active, [*same, meets])
        .groupBy("epoch", broker_id("pod").alias("broker"))
        .agg(F.sum(last - first).alias("acted_ms"), F.max("_first_ms").alias("since_ms"))
        .groupBy("epoch")
        .agg(F.max_by("broker", F.struct("acted_ms", "since_ms", "broker")).alias("new"))
    )
    begun = (
        epochs.where(F.col("epoch") > 0)
        .groupBy("epoch")
        .agg(
            F.min("first_ms").alias("at_ms"),
            F.min_by(F.col("first_ms") - F.col("previous_ms"), "first_ms").alias("at_err_ms"),
        )
        .join(actors, "epoch", "left")
    )
    in_order = Window.orderBy("epoch")
    old_is_next = F.lag("epoch").over(in_order) == F.col("epoch") - 1
    known = begun.withColumns(
        {
            "new_controller": F.col("new"),
            "old_controller": F.when(old_is_next, F.lag("new").over(in_order)),
            "at_err_ms": F.coalesce("at_err_ms", F.lit(interval_ms)),
            "earlier": F.lag("epoch").over(in_order),
        }
    )
    return shaped(known.where(F.col("earlier").isNotNull()), catalogue.CONTROLLER_ELECTIONS)


def zombie_leaders(
    samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return which brokers showed themselves as leaders after a later leader had begun.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.ZOMBIE_LEADERS
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    later = (
        Window.partitionBy(*PARTITION).orderBy("epoch").rowsBetween(1, Window.unboundedFollowing)
    )
    begun = F.struct("t_first_new_ms", "t_first_new_err_ms", "epoch", "pod")
    known = leaderships(facts, interval_ms=interval_ms).withColumn(
        "newer", F.min(begun).over(later)
    )
    zombies = known.where(F.col("last_ms") > F.col("newer.t_first_new_ms")).withColumns(
        {
            "broker": broker_id("pod"),
            "newer_leader": broker_id("newer.pod"),
            "newer_epoch": F.col("newer.epoch"),
            "start_ms": F.col("newer.t_first_new_ms"),
            "end_ms": F.col("hold_end_ms"),
            "start_err_ms": F.col("newer.t_first_new_err_ms"),
            "end_err_ms": F.col("hold_end_ms") - F.col("last_ms"),
            "finding": F.col("hold_end_ms") - F.col("newer.t_first_new_ms") > 2 * interval_ms,
        }
    )
    return shaped(with_bounds(zombies), catalogue.ZOMBIE_LEADERS)


@shared
def leaderships(facts: DataFrame, *, interval_ms: int) -> DataFrame:
    """Return one row for each leader epoch under which a leader was scraped.

    Shape:   facts as `samples.held` returns them, of METRICS
    Units:   ms

    Returns: PARTITION, epoch, pod, instance, first_ms and last_ms (scrapes as leader),
        hold_end_ms, end_reason, t_first_new_ms and t_first_new_err_ms
    """
    whole = (
        _led(facts)
        .groupBy(*PARTITION, "epoch")
        .agg(
            F.min_by("pod", "first_ms").alias("pod"),
            F.min_by("instance", "first_ms").alias("instance"),
            F.min("first_ms").alias("first_ms"),
            F.max("last_ms").alias("last_ms"),
            F.max("hold_end_ms").alias("hold_end_ms"),
            F.max_by("end_reason", "last_ms").alias("end_reason"),
        )
    )
    leader_since = names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS
    dated = value_at(whole, facts, leader_since, at="first_ms", into="since")
    since = F.round(F.col("since") * 1000).cast("long")
    stated = since <= F.col("first_ms")
    begun = F.when(stated, since).otherwise(F.col("first_ms"))
    error = F.when(stated, 0).otherwise(interval_ms)
    return settled(dated.withColumns({"t_first_new_ms": begun, "t_first_new_err_ms": error}))


@shared
def _led(facts: DataFrame) -> DataFrame:
    """Return the runs of scrapes in which a broker showed itself as the leader of an epoch.

    until_ms is the first scrape that did not, null where nobody knows when it ended.
    """
    leading = of(facts, names.PARTITION_IS_LEADER).where(F.col("value") > 0)
    first, last = F.greatest("first_ms", "epoch_first_ms"), F.least("last_ms", "epoch_last_ms")
    epoch_ended = F.col("epoch_last_ms") < F.col("last_ms")
    reason = F.when(epoch_ended, F.col("epoch_reason")).otherwise(F.col("end_reason"))
    hold_end = F.least("hold_end_ms", "epoch_end_ms")
    until = F.when(reason == "change", hold_end).when(
        (reason == "stale") & ~epoch_ended, F.col("following_ms")
    )
    paired = under_epochs(leading, facts).where(first <= last)
    told = {
        "first_ms": first,
        "last_ms": last,
        "hold_end_ms": hold_end,
        "end_reason": reason,
        "until_ms": until,
    }
    return settled(paired.withColumns(told))


def _changes(leaderships: DataFrame, led: DataFrame, *, interval_ms: int) -> DataFrame:
    """Return one row for each leadership that follows another.

    Until when the old leader led is told by its last scrape as leader before the new one began: a
    broker that was cut off may show itself as the leader again afterwards. If it showed itself
    without a gap from before that moment to after it, it took itself for the leader until then, but
    may have been cut off since the scrape before. If it was first seen afterwards, nothing is known
    but when it began.
    """
    in_order = Window.partitionBy(*PARTITION).orderBy("epoch")
    before = ("epoch", "pod", "instance", "t_first_new_ms")
    old = {f"old_{name}": F.lag(name).over(in_order) for name in before}
    pairs = leaderships.withColumns(old).where(F.col("old_epoch").isNotNull())
    begun, error = F.col("t_first_new_ms"), F.col("t_first_new_err_ms")
    key = [*PARTITION, "epoch"]
    runs = led.select(
        *PARTITION,
        F.col("epoch").alias("old_epoch"),
        F.col("first_ms").alias("led_first_ms"),
        F.struct("last_ms", "until_ms", "end_reason").alias("run"),
    )
    shown = (
        pairs.select(*key, "old_epoch", "t_first_new_ms")
        .join(runs, [*PARTITION, "old_epoch"])
        .where(F.col("led_first_ms") <= begun)
        .groupBy(*key)
        .agg(F.max("run").alias("old"))
    )
    ran_on = F.coalesce(F.col("old.last_ms") > begun, F.lit(True))
    last_old = F.least(F.coalesce(F.col("old.last_ms"), F.col("old_t_first_new_ms")), begun)
    unseen = F.when(F.col("old.last_ms") > begun, int(GAP_INTERVALS * interval_ms)).otherwise(0)
    high = F.least(begun - last_old + unseen, begun - F.col("old_t_first_new_ms"))
    # In a gap, and up to the scrape that no longer showed it, it may have led.
    until = F.coalesce(F.col("old.until_ms"), begun)
    low = F.greatest(begun - error - until, F.lit(0))
    skipped = F.col("epoch") > F.col("old_epoch") + 1
    reason = F.when(ran_on, "change").otherwise(F.col("old.end_reason"))
    return (
        pairs.join(shown, key, "left")
        .withColumns(
            {
                "old_leader": F.when(~skipped, broker_id("old_pod")),
                "new_leader": broker_id("pod"),
                "t_last_old_ms": last_old,
                "no_leader_low_ms": F.when(skipped, 0).otherwise(low),
                "no_leader_high_ms": F.greatest(high, F.lit(0)),
                "cause": _looked_up(CAUSES, reason),
                "observed": F.lit(True),
            }
        )
        .drop("old")
    )


def _with_restarts(changes: DataFrame, facts: DataFrame) -> DataFrame:
    """Let the cause be restart where the old leader's process ended before the new one led."""
    begun = processes(facts).where(F.col("old_start_ms").isNotNull())
    others = begun.select(F.col("pod").alias("old_pod"), F.col("new_start_ms").alias("began_ms"))
    began, last_old = F.col("began_ms"), F.col("t_last_old_ms")
    between = (began > last_old) & (began <= F.col("first_ms"))
    key = [*PARTITION, "epoch"]
    restarted = changes.join(others, "old_pod").where(between).select(*key).distinct()
    marked = changes.join(restarted.withColumn("restarted", F.lit(True)), key, "left")
    cause = F.when(F.col("restarted"), "restart").otherwise(F.col("cause"))
    return marked.withColumn("cause", cause).drop("restarted")


def _with_kinds(changes: DataFrame, facts: DataFrame) -> DataFrame:
    """Add the kind of each election: the one that the controllers' counter shows.

    The counter does not name partitions. A preferred leader leads again only while the old one
    runs, so where that one is gone such an election was of another partition. If the counter shows
    none or several: unclean if the new leader was outside the last known ISR and nothing says
    otherwise, controlled if the old leader is still scraped, broker_failure otherwise.
    """
    counted = _counted(facts)
    in_use = of(facts, names.LEADER_ELECTIONS_TOTAL)
    uses_counts = F.broadcast(in_use.agg((F.count("*") > 0).alias("uses_counts")))
    after_old = F.col("counted_ms") > F.col("t_last_old_ms")
    before_new = F.col("since_ms") < F.col("t_first_new_ms")
    possible = (F.col("counted") != "preferred") | (F.col("cause") == "alive")
    key = [*PARTITION, "epoch"]
    stated = (
        changes.join(F.broadcast(counted), after_old & before_new & possible)
        .groupBy(*key)
        .agg(F.collect_set("counted").alias("counted"))
    )
    members = of(facts, names.PARTITION_ISR_MEMBER).select(
        *PARTITION,
        F.col("pod").alias("old_pod"),
        F.col("instance").alias("old_instance"),
        F.col("replica").alias("new_leader"),
        F.col("first_ms").alias("member_ms"),
        "value",
    )
    outside = (
        changes.join(members, [*PARTITION, "old_pod", "old_instance", "new_leader"])
        .where(F.col("member_ms") <= F.col("t_last_old_ms"))
        .groupBy(*key)
        .agg((F.max_by("value", "member_ms") == 0).alias("outside"))
    )
    # The new leader may have joined the ISR unseen: the counter knows, the last scrape does not. A
    # count that was lost is one of a controller that ended soon, most often in a rolling restart.
    may_be_unclean = F.coalesce(F.array_contains("counted", "unclean"), ~F.col("uses_counts"))
    signs = (
        F.when(F.col("outside") & may_be_unclean, "unclean")
        .when(F.col("cause") == "alive", "controlled")
        .otherwise("broker_failure")
    )
    one = F.when(F.size("counted") == 1, F.col("counted")[0])
    return (
        changes.join(stated, key, "left")
        .join(outside, key, "left")
        .crossJoin(uses_counts)
        .withColumn("kind", F.coalesce(one, signs))
        .drop("counted", "outside", "uses_counts")
    )


def _counted(facts: DataFrame) -> DataFrame:
    """Return which kinds of elections controllers counted, and between which scrapes.

    A process counts from 0, whatever the one before it had counted, and goes on after scrapes that
    were lost. What the first process of the range had counted before it is not known.

    Shape:   counted (a kind), since_ms (the last scrape that did not show it), counted_ms
    """
    is_later = F.col("old_start_ms").isNotNull().alias("is_later")
    begun = F.broadcast(
        processes(facts).select(
            F.col("pod").alias("process_pod"),
            F.struct(F.col("first_ms"), is_later, F.col("previous_last_ms")).alias("process"),
        )
    )
    shown = of(facts, names.LEADER_ELECTIONS_TOTAL).select(
        "pod", F.col("labels")["kind"].alias("kind"), "first_ms", "last_ms", "value"
    )
    present = (F.col("pod") == F.col("process_pod")) & (
        F.col("process.first_ms") <= F.col("first_ms")
    )
    of_processes = (
        shown.join(begun, present, "left")
        .groupBy(*shown.columns)
        .agg(F.max("process").alias("process"))
    )
    in_order = Window.partitionBy("pod", "kind", "process.first_ms").orderBy("first_ms")
    from_zero = F.when(F.col("process.is_later"), 0.0)
    before = F.coalesce(F.lag("value").over(in_order), from_zero)
    since = F.coalesce(F.lag("last_ms").over(in_order), F.col("process.previous_last_ms"))
    return (
        of_processes.withColumns({"before": before, "since_ms": since})
        .where(F.col("value") > F.col("before"))
        .select(
            _looked_up(KINDS, F.col("kind")).alias("counted"),
            "since_ms",
            F.col("first_ms").alias("counted_ms"),
        )
        .where(F.col("counted").isNotNull())
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
