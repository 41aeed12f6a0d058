"""Which tables there are: the question that each answers, its columns, their types and units.

Twelve analyses give these tables. `tables` makes them, tests compare them, pages explain them;
what a table is called and how its columns are measured is said here alone. Needs no Spark:
`schema.struct` turns a table into a Spark schema.

All times are UTC epoch ms, and ends are exclusive. A time is found at or after what happened, by at
most its column `..._err_ms`; that is 0 where a broker's own timestamp tells the time. True
durations lie within their low and high bounds. An edge whose reason is gap, stale or range is not
an event: there the knowledge of the samples begins or ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    name: str
    kind: str
    """string, integer, long, double, boolean, or array<...> of one of these or of a RECORD."""
    unit: str
    """The unit, and what the column means where its name does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The shape of one table."""

    name: str
    analysis: int
    """Number of the analysis that makes it, 1 to 12."""
    asks: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in order."""
        return tuple(column.name for column in self.columns)


def columns(text: str) -> tuple[Column, ...]:
    """Return the columns of a text with one line for each: name, type, unit.

    Raises:  ValueError for a line without a unit
    """
    rows = (line.split(maxsplit=2) for line in text.strip().splitlines())
    return tuple(Column(name=name, kind=kind, unit=unit) for name, kind, unit in rows)


def _table(analysis: int, name: str, asks: str, text: str) -> Table:
    return Table(name=name, analysis=analysis, asks=asks, columns=columns(text))


LAG_TIME_MAX_MS: Final = 30_000
"""replica.lag.time.max.ms of the brokers, Kafka's default and ours, unless a run says another."""
RECORDS: Final[Mapping[str, tuple[Column, ...]]] = {
    "evidence": columns("""
        at_ms      long     ms since 1970
        kind       string   name of the table or event that shows it
        broker     integer  broker id, null if it points to none
        topic      string   topic name, null if it is of a whole broker
        partition  integer  partition number, null if it is of a whole broker
        """),
}
"""By name: the fields of the records that an array may hold."""

ISR_INTERVALS: Final = _table(
    1,
    "isr_intervals",
    "Which replicas were in sync, and when?",
    """
    topic             string   topic name
    partition         integer  partition number
    replica           integer  broker id
    in_isr            boolean  null where the samples tell nothing
    start_ms          long     ms since 1970
    end_ms            long     ms since 1970
    start_err_ms      long     ms
    end_err_ms        long     ms
    start_reason      string   change, gap, stale, leader_change or range
    end_reason        string   change, gap, stale, leader_change or range
    sample_count      long     samples, about
    leader_epoch      long     version of the leadership at the start; null with in_isr
    duration_low_ms   long     ms
    duration_high_ms  long     ms
    """,
)
ISR_SIZE_INTERVALS: Final = _table(
    2,
    "isr_size_intervals",
    "How many replicas were in sync, of how many, and how many were needed?",
    """
    topic             string   topic name
    partition         integer  partition number
    isr_size          integer  replicas; null where the samples tell nothing
    replicas          integer  replicas; null where the samples tell nothing
    min_isr           integer  replicas; null where the samples tell nothing
    start_ms          long     ms since 1970
    end_ms            long     ms since 1970
    start_err_ms      long     ms
    end_err_ms        long     ms
    start_reason      string   change, gap, stale, leader_change or range
    end_reason        string   change, gap, stale, leader_change or range
    duration_low_ms   long     ms
    duration_high_ms  long     ms
    """,
)
_EPISODES: Final = """
    topic             string          topic name
    partition         integer         partition number
    start_ms          long            ms since 1970
    end_ms            long            ms since 1970
    start_err_ms      long            ms
    end_err_ms        long            ms
    start_reason      string          change, gap, stale, leader_change or range
    end_reason        string          change, gap, stale, leader_change or range
    duration_low_ms   long            ms
    duration_high_ms  long            ms
    bad_ms            long            ms known to be bad; the rest of the episode is bridged
    unknown_ms        long            ms without knowledge within the episode
    min_size          integer         replicas in sync at the worst
    missing_replicas  array<integer>  broker ids, longest absence first
    ongoing           boolean         true if it reaches the end of the range
    """
UR_EPISODES: Final = _table(
    2, "ur_episodes", "When were fewer replicas in sync than assigned?", _EPISODES
)
UMI_EPISODES: Final = _table(
    2, "umi_episodes", "When were fewer replicas in sync than acks=all needs?", _EPISODES
)
AT_MIN_ISR: Final = _table(
    2, "at_min_isr", "When would one more lost replica have stopped acks=all?", _EPISODES
)
HW_LAG: Final = _table(
    3,
    "hw_lag",
    "How many records were written and not yet committed?",
    """
    topic         string   topic name
    partition     integer  partition number
    minute_ms     long     ms since 1970, begin of the minute
    lag_max       long     offsets
    lag_p50       double   offsets
    lag_p99       double   offsets
    sample_count  long     samples
    """,
)
FOLLOWER_LAG: Final = _table(
    3,
    "follower_lag",
    "How far was a follower behind its leader?",
    """
    topic            string   topic name
    partition        integer  partition number
    replica          integer  broker id of the follower
    minute_ms        long     ms since 1970, begin of the minute
    lag_max          long     offsets
    lag_p50          double   offsets
    lag_p99          double   offsets
    behind_max_ms    long     ms since it last had all; null without that metric
    sample_count     long     samples
    """,
)
HW_STALLS: Final = _table(
    4,
    "hw_stalls",
    "When were records written and none committed, and why?",
    """
    topic             string   topic name
    partition         integer  partition number
    start_ms          long     ms since 1970
    end_ms            long     ms since 1970
    start_err_ms      long     ms
    end_err_ms        long     ms
    duration_low_ms   long     ms
    duration_high_ms  long     ms
    hw                long     offset that the high watermark stood at
    leo_start         long     offset
    leo_end           long     offset
    backlog           long     offsets written and not committed at the end
    leader            integer  broker id
    cause             string   below_min_isr, isr_slow_follower, leaderless or unknown
    culprit           integer  broker id of the slow follower
    ongoing           boolean  true if it reaches the end of the range
    """,
)
HW_REGRESSIONS: Final = _table(
    4,
    "hw_regressions",
    "Did a high watermark fall? Within one leader epoch it never may",
    """
    topic       string   topic name
    partition   integer  partition number
    broker      integer  broker id
    at_ms       long     ms since 1970
    at_err_ms   long     ms
    hw_from     long     offset
    hw_to       long     offset
    epoch_from  long     version of the leadership
    epoch_to    long     version of the leadership; equal to epoch_from: an alarm
    """,
)
ISR_CHURN: Final = _table(
    5,
    "isr_churn",
    "Which brokers leave and rejoin ISRs, and which leaders see it?",
    """
    broker             integer  broker id
    window_start_ms    long     ms since 1970, begin of ten minutes
    shrinks            long     times that it was removed
    expands            long     times that it was added
    observed_shrinks   long     times that it removed another, as leader
    observed_expands   long     times that it added another, as leader
    partitions         long     partitions of which it was removed or added
    """,
)
FLAPPING: Final = _table(
    5,
    "flapping",
    "Which replicas left and came back again and again?",
    """
    topic             string   topic name
    partition         integer  partition number
    replica           integer  broker id
    start_ms          long     ms since 1970, first exit
    end_ms            long     ms since 1970, last return
    start_err_ms      long     ms
    end_err_ms        long     ms
    duration_low_ms   long     ms
    duration_high_ms  long     ms
    cycles            long     times out and in again
    score             double   cycles for each ten minutes, of the three that make flapping
    """,
)
MISSED_EDGES: Final = _table(
    5,
    "missed_edges",
    "How many ISR changes fell between two scrapes?",
    """
    topic            string   topic name
    partition        integer  partition number
    broker           integer  broker id of the leader
    seen_shrinks     long     changes in isr_intervals
    counted_shrinks  long     changes by the leader's counter
    missed_shrinks   long     counted and not seen
    seen_expands     long     changes in isr_intervals
    counted_expands  long     changes by the leader's counter
    missed_expands   long     counted and not seen
    """,
)
ELECTIONS: Final = _table(
    6,
    "elections",
    "Which leader followed which, and how long was there none?",
    """
    topic               string   topic name
    partition           integer  partition number
    epoch               long     version of the leadership that began
    old_leader          integer  broker id; null if the epoch before was not seen
    new_leader          integer  broker id; null if not observed
    t_last_old_ms       long     ms since 1970, last scrape of the old leader as leader
    t_first_new_ms      long     ms since 1970
    t_first_new_err_ms  long     ms
    no_leader_low_ms    long     ms; null if not observed
    no_leader_high_ms   long     ms; null if not observed
    kind                string   unclean, controlled, preferred, broker_failure; null: not observed
    cause               string   the old leader's process: alive, stale, restart or gap
    observed            boolean  false if no scrape saw a leader of this epoch
    """,
)
FAILOVER_QUANTILES: Final = _table(
    6,
    "failover_quantiles",
    "How long do failovers of each kind take?",
    """
    kind          string  kind of election
    elections     long    elections
    p50_low_ms    double  ms
    p50_high_ms   double  ms
    p99_low_ms    double  ms
    p99_high_ms   double  ms
    max_low_ms    long    ms
    max_high_ms   long    ms
    """,
)
CONTROLLER_ELECTIONS: Final = _table(
    6,
    "controller_elections",
    "When did another broker become the controller?",
    """
    epoch           long     version of the controllership that began
    old_controller  integer  broker id; null if not seen
    new_controller  integer  broker id; null if not seen
    at_ms           long     ms since 1970, first scrape with this epoch
    at_err_ms       long     ms
    """,
)
ZOMBIE_LEADERS: Final = _table(
    6,
    "zombie_leaders",
    "Which brokers still took themselves for a leader after a later one began?",
    """
    topic             string   topic name
    partition         integer  partition number
    broker            integer  broker id of the old leader
    epoch             long     version of the leadership that was over
    newer_leader      integer  broker id
    newer_epoch       long     version of the leadership that replaced it
    start_ms          long     ms since 1970, begin of the newer leadership
    end_ms            long     ms since 1970, end of the last sample of the old one
    start_err_ms      long     ms
    end_err_ms        long     ms
    duration_low_ms   long     ms
    duration_high_ms  long     ms
    finding           boolean  true if it lasted more than two scrape intervals
    """,
)
REPLICATION_THROUGHPUT: Final = _table(
    7,
    "replication_throughput",
    "How many bytes and records moved through each broker?",
    """
    broker      integer  broker id
    topic       string   topic name; null where brokers do not count by topic
    minute_ms   long     ms since 1970, begin of the minute of the later sample
    flow        string   produced, replicated_in or replicated_out
    bytes       long     bytes
    records     long     records; null where brokers count none
    across_gap  boolean  true if some of it was moved at an unknown time before
    resets      long     restarts of the counter
    """,
)
TRUNCATIONS: Final = _table(
    7,
    "truncations",
    "Where did a log lose its end to agree with its leader?",
    """
    topic         string   topic name
    partition     integer  partition number
    broker        integer  broker id
    at_ms         long     ms since 1970
    at_err_ms     long     ms
    leo_from      long     offset, log end at the scrape before
    leo_to        long     offset, log end at this scrape
    records_low   long     offsets cut off, at least
    leader_epoch  long     version of the leadership that it obeyed then
    """,
)
DATA_AT_RISK: Final = _table(
    8,
    "data_at_risk",
    "Which acknowledged records were on one broker alone, and were they lost?",
    """
    topic             string   topic name
    partition         integer  partition number
    leader            integer  broker id of the only holder
    start_ms          long     ms since 1970
    end_ms            long     ms since 1970
    start_err_ms      long     ms
    end_err_ms        long     ms
    duration_low_ms   long     ms
    duration_high_ms  long     ms
    hw_start          long     offset
    hw_end            long     offset
    offsets           long     offsets committed by one broker alone
    bytes             double   bytes, by the partition's mean size of a record; null if not known
    exposed_low_ms    long     ms until a second replica had them, as far as that was seen
    exposed_high_ms   long     ms until a second replica had them, or until the end of the range
    recovered         boolean  true if a second replica had them before the leader was gone
    lost              long     offsets lost to an unclean election, at most
    """,
)
INCIDENTS: Final = _table(
    9,
    "incidents",
    "What went wrong, and which broker was at its root?",
    """
    id           string           the same for the same samples
    start_ms     long             ms since 1970
    end_ms       long             ms since 1970
    kind         string           broker, controller, network, scrape or unknown
    root_broker  integer          broker id; null if none stands out
    confidence   double           0 to 1, lead over the second
    partitions   long             partitions concerned
    brokers      long             brokers concerned
    episodes     long             episodes that belong to it
    evidence     array<evidence>  oldest first
    """,
)
INCIDENT_CURVES: Final = _table(
    9,
    "incident_curves",
    "How did a log's end and its high watermark move around an incident?",
    """
    incident   string   id of the incident
    topic      string   topic name
    partition  integer  partition number, the one with the most evidence
    leader     integer  broker id of the leader that was scraped
    at_ms      long     ms since 1970, of the scrape; exact
    at_err_ms  long     ms
    leo        long     offset
    hw         long     offset
    """,
)
LAGTIME_WHATIF: Final = _table(
    10,
    "lagtime_whatif",
    "What would another replica.lag.time.max.ms have done?",
    """
    setting_ms            long    ms
    shrinks_low           long    times
    shrinks_high          long    times
    expands_low           long    times
    expands_high          long    times
    ur_low_ms             long    ms
    ur_high_ms            long    ms
    umi_low_ms            long    ms
    umi_high_ms           long    ms
    extra_hw_stall_ms     long    ms at most that commits would have waited longer
    """,
)
SLO: Final = _table(
    11,
    "slo",
    "How available was each topic, and how much of that is known?",
    """
    topic                 string   topic name
    day_ms                long     ms since 1970, begin of the day
    partitions            long     partitions
    total_ms              long     ms of the range, times partitions
    known_ms              long     ms with knowledge, times partitions
    coverage              double   0 to 1, known of total
    covered               boolean  false: too little is known for the other figures to be trusted
    availability          double   0 to 1, time with a leader of known time; null if none is known
    produce_availability  double   0 to 1, time in which acks=all was possible
    ur_ratio              double   0 to 1, under-replicated time of known time
    durability_risk       double   0 to 1, offsets on one broker alone of all committed
    failover_p99_ms       double   ms, upper bounds; null without an election
    error_budget_left     double   1: untouched, 0: used up, below: overdrawn
    """,
)
COVERAGE: Final = _table(
    12,
    "coverage",
    "When did a target show nothing?",
    """
    pod               string   name of the pod
    instance          string   address that was scraped
    start_ms          long     ms since 1970, end of what the last sample tells
    end_ms            long     ms since 1970, next sample or end of the range
    start_err_ms      long     ms
    end_err_ms        long     ms
    duration_low_ms   long     ms
    duration_high_ms  long     ms
    kind              string   gap, down or restart
    missing_samples   long     scrapes that should have been
    ongoing           boolean  true if it reaches the end of the range
    """,
)
RESTARTS: Final = _table(
    12,
    "restarts",
    "Which brokers' processes began anew?",
    """
    pod           string   name of the pod
    broker        integer  broker id
    at_ms         long     ms since 1970, when the new process began to serve
    at_err_ms     long     ms
    old_start_ms  long     ms since 1970, when the old one had begun
    new_start_ms  long     ms since 1970
    unclean       boolean  true if the new one began on logs that may lack their ends
    """,
)

TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in (
        *(ISR_INTERVALS, ISR_SIZE_INTERVALS, UR_EPISODES, UMI_EPISODES, AT_MIN_ISR),
        *(HW_LAG, FOLLOWER_LAG, HW_STALLS, HW_REGRESSIONS, ISR_CHURN, FLAPPING, MISSED_EDGES),
        *(ELECTIONS, FAILOVER_QUANTILES, CONTROLLER_ELECTIONS, ZOMBIE_LEADERS),
        *(REPLICATION_THROUGHPUT, TRUNCATIONS, DATA_AT_RISK, INCIDENTS, INCIDENT_CURVES),
        *(LAGTIME_WHATIF, SLO),
        *(COVERAGE, RESTARTS),
    )
}
"""By name: every table of the twelve analyses."""
