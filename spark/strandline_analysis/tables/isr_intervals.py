"""Analysis 1: which replicas were in sync, and when?"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.samples import of, steps
from strandline_analysis.schema import shaped

from .leader_states import EDGES, leader_states, with_bounds

METRICS: Final = (names.PARTITION_ISR_MEMBER, *EDGES)


def isr_intervals(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return when each replica was in the ISR, out of it, or in an unknown state.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.ISR_INTERVALS: for
             each replica disjoint, in order, without holes over [start_ms, end_ms)
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    states = leader_states(
        facts, METRICS[:1], interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms
    )
    members = with_bounds(of(states, names.PARTITION_ISR_MEMBER))
    return shaped(members.withColumn("in_isr", F.col("value") > 0), catalogue.ISR_INTERVALS)
