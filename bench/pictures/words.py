"""What docs/tables.md says of each table: how one row is read, and what unknown means there.

In READ a column's name in braces stands for its value in the example row: times as the time of
day, spans with their unit.
"""

from __future__ import annotations

from typing import Final

READ: Final[dict[str, str]] = {
    "isr_intervals": (
        "Replica {replica} of {topic}-{partition} was out of sync from {start_ms} to {end_ms}. The "
        "begin is known to within {start_err_ms}, the end to within {end_err_ms}, so it lasted "
        "{duration_low_ms} to {duration_high_ms}. Each replica has one row after the other, "
        "without a hole, over the whole range."
    ),
    "isr_size_intervals": (
        "From {start_ms} to {end_ms} {isr_size} of {replicas} replicas of {topic}-{partition} were "
        "in sync, and writes with acks=all needed {min_isr}. One row follows the other over the "
        "whole range."
    ),
    "ur_episodes": (
        "{topic}-{partition} was under-replicated from {start_ms} to {end_ms}: of its replicas "
        "{missing_replicas} were missing, the longest absent first, and at the worst {min_size} "
        "were in sync. Times that lie close together are one episode; {bad_ms} of it are known to "
        "be bad."
    ),
    "umi_episodes": (
        "From {start_ms} to {end_ms} {topic}-{partition} had fewer replicas in sync than min ISR, "
        "so writes with acks=all were refused. {min_size} were in sync at the worst."
    ),
    "at_min_isr": (
        "From {start_ms} to {end_ms} {topic}-{partition} had exactly min ISR replicas in sync: the "
        "loss of one more would have stopped writes with acks=all."
    ),
    "hw_lag": (
        "In the minute from {minute_ms} on the leader of {topic}-{partition} had up to {lag_max} "
        "records that were written and not yet committed; in half of the {sample_count} scrapes "
        "{lag_p50} at most. Consumers do not see such records yet."
    ),
    "follower_lag": (
        "In the minute from {minute_ms} on follower {replica} of {topic}-{partition} lacked up to "
        "{lag_max} records of its leader; its last moment with everything was up to "
        "{behind_max_ms} ago."
    ),
    "hw_stalls": (
        "From {start_ms} to {end_ms} nothing was committed in {topic}-{partition}: the high "
        "watermark stood at {hw} while the log grew from {leo_start} to {leo_end}. The cause is "
        "{cause}, the replica that held it up {culprit}."
    ),
    "hw_regressions": (
        "At {at_ms} broker {broker} showed the high watermark {hw_to} of {topic}-{partition}, "
        "where {hw_from} had been shown before. The leader epoch went from {epoch_from} to "
        "{epoch_to}; with the same epoch twice the row would be an alarm."
    ),
    "isr_churn": (
        "In the ten minutes from {window_start_ms} on broker {broker} was removed from ISRs "
        "{shrinks} times and added again {expands} times, in {partitions} partitions. As a leader "
        "it removed others {observed_shrinks} times."
    ),
    "flapping": (
        "Replica {replica} of {topic}-{partition} left the ISR and came back {cycles} times "
        "between {start_ms} and {end_ms}. A score of 1 is three times in ten minutes."
    ),
    "missed_edges": (
        "Leader {broker} of {topic}-{partition} counted {counted_shrinks} removals from the ISR, "
        "scrapes saw {seen_shrinks}: {missed_shrinks} came and went between two scrapes."
    ),
    "elections": (
        "Broker {new_leader} led {topic}-{partition} after broker {old_leader}, with epoch "
        "{epoch}, from {t_first_new_ms} on. There was no leader for {no_leader_low_ms} to "
        "{no_leader_high_ms}. The kind is {kind}; the old leader's process was then {cause}."
    ),
    "failover_quantiles": (
        "Of {elections} elections of the kind {kind} half took at most {p50_high_ms}, and none "
        "more than {max_high_ms}. Low and high are the bounds of what scrapes can tell."
    ),
    "controller_elections": (
        "Broker {new_controller} was the controller after broker {old_controller}, with epoch "
        "{epoch}. A scrape showed it at {at_ms}, up to {at_err_ms} after it was so."
    ),
    "zombie_leaders": (
        "Broker {broker} still took itself for the leader of {topic}-{partition} from {start_ms} "
        "to {end_ms}, though broker {newer_leader} led with epoch {newer_epoch}. Nothing that it "
        "took then with acks=all was acknowledged."
    ),
    "replication_throughput": (
        "Broker {broker} took {bytes} bytes in {records} records for {topic} in the minute from "
        "{minute_ms} on. The flow is {flow}; replicated_in and replicated_out are what brokers "
        "copy from each other."
    ),
    "truncations": (
        "The scrape of broker {broker} at {at_ms} shows that it cut at least {records_low} records "
        "off the log of {topic}-{partition}, to agree with the leader of epoch {leader_epoch}. The "
        "log ended at {leo_from} at the scrape before, at {leo_to} at this one. Without an unclean "
        "election none of them had been acknowledged by all."
    ),
    "data_at_risk": (
        "From {start_ms} to {end_ms} broker {leader} alone held what it committed for "
        "{topic}-{partition}: {offsets} records. It took {exposed_low_ms} to {exposed_high_ms} "
        "until a second replica had them, or until the knowledge ends; {lost} were lost at most."
    ),
    "incidents": (
        "From {start_ms} to {end_ms} {episodes} signs belong together and concern {partitions} "
        "partitions. The kind is {kind}, the broker at the root {root_broker}, with a confidence "
        "of {confidence}. `evidence` lists the signs; a line in the picture is one of them."
    ),
    "incident_curves": (
        "At {at_ms} leader {leader} of {topic}-{partition} had the log end {leo} and the high "
        "watermark {hw}. Rows surround one incident, scrape by scrape."
    ),
    "lagtime_whatif": (
        "With replica.lag.time.max.ms = {setting_ms} leaders would have removed replicas "
        "{shrinks_low} to {shrinks_high} times, and commits would have waited up to "
        "{extra_hw_stall_ms} longer than they did."
    ),
    "slo": (
        "On that day {topic} had a leader for a share of {availability} of the known time and took "
        "writes with acks=all for {produce_availability}. {known_ms} of {total_ms} are known, "
        "summed over its partitions. Of the error budget {error_budget_left} is left: 1 is "
        "all of it, and below 0 it is overdrawn."
    ),
    "coverage": (
        "Pod {pod} showed nothing from {start_ms} to {end_ms}; {missing_samples} scrapes are "
        "missing. The kind is {kind}: a gap if scrapes were not made, down if they failed, "
        "a restart if another process answered afterwards."
    ),
    "restarts": (
        "The process of broker {broker} began anew at {at_ms}, after one that had begun at "
        "{old_start_ms}. With `unclean` true it began on logs that may lack their ends."
    ),
}
"""By table: how its example row is read."""

UNKNOWN: Final[dict[str, str]] = {
    "isr_intervals": (
        "`in_isr` is null where no leader was scraped, in a gap and after a stale marker. It is "
        "neither in nor out; the reasons of the edges say where knowledge ends."
    ),
    "isr_size_intervals": "`isr_size`, `replicas` and `min_isr` are null where no leader was seen.",
    "ur_episodes": (
        "`unknown_ms` is the part of an episode in which nothing is known. Where nothing is known "
        "no episode begins or ends; such an edge has the reason gap, stale or range."
    ),
    "umi_episodes": (
        "As in `ur_episodes`. Without a leader nothing is known of the ISR: see `elections`."
    ),
    "at_min_isr": "As in `ur_episodes`.",
    "hw_lag": "A minute without a scrape of a leader has no row: that is no lag of 0.",
    "follower_lag": (
        "A minute in which no leader told of the follower has no row. `behind_max_ms` is null "
        "where brokers do not export that time."
    ),
    "hw_stalls": (
        "`culprit` is null and `cause` unknown where no follower stands out. A gap ends a stall, "
        "as nobody saw whether it went on."
    ),
    "hw_regressions": "What fell and rose again between two scrapes leaves no row.",
    "isr_churn": "Changes in a gap are not counted; `missed_edges` says how many were missed.",
    "flapping": "A return that no scrape saw does not count, so there may be more cycles.",
    "missed_edges": (
        "This table is about what is unknown: changes that leaders counted and nobody saw. A "
        "counter that began again between two scrapes may hide some."
    ),
    "elections": (
        "`observed` is false, and times are null, where no scrape saw a leader of that epoch. "
        "`old_leader` is null where the epoch before was not seen, `cause` gap where the old "
        "leader was not scraped then."
    ),
    "failover_quantiles": "Elections that were not observed are left out.",
    "controller_elections": (
        "A controller that came and went between two scrapes is null, or shows as an epoch that "
        "is left out."
    ),
    "zombie_leaders": (
        "A zombie that nobody could scrape, as one that was cut off, has no row; the time after "
        "its last sample is not counted."
    ),
    "replication_throughput": (
        "`across_gap` is true where some of it was moved at an unknown time before the minute. "
        "`records` or `topic` is null where brokers do not count them."
    ),
    "truncations": (
        "A log that was cut and has grown again since ends higher than before: the broker's "
        "counter tells of it. Without it only the difference is seen, or nothing."
    ),
    "data_at_risk": (
        "`recovered` false with `lost` 0 means that no scrape saw a second replica catch up before "
        "the knowledge ends. `bytes` is null where the size of records is not known."
    ),
    "incidents": (
        "`root_broker` is null where no broker stands out. With a confidence of 0 others stand out "
        "as much, and it is the first of them. An incident of the kind scrape says "
        "that Prometheus did not reach brokers: they may have been well."
    ),
    "incident_curves": "Where no leader was scraped there is no row, and the line is interrupted.",
    "lagtime_whatif": (
        "The low and the high count differ because scrapes do not see when a leader looks. "
        "Settings shorter than a gap between scrapes are left out."
    ),
    "slo": (
        "`coverage` is the known share of the time. With `covered` false too little is known for "
        "the other figures to be trusted; unknown time counts neither as up nor as down."
    ),
    "coverage": (
        "These rows are what no other table can know. Before a target's first scrape in the range "
        "nothing is told: it may not have been there."
    ),
    "restarts": (
        "A process that came and went between two scrapes leaves no row. `at_err_ms` is 0 where "
        "the process itself told when it began to serve."
    ),
}
"""By table: what null, a missing row or a hole means there."""

EXAMPLES: Final[dict[str, dict[str, object]]] = {
    "isr_intervals": {"in_isr": False, "start_reason": "change", "end_reason": "change"},
    "isr_size_intervals": {"isr_size": 2, "start_reason": "change"},
    "elections": {"kind": "broker_failure", "observed": True},
    "failover_quantiles": {"kind": "broker_failure"},
    "incidents": {"kind": "broker"},
    "lagtime_whatif": {"setting_ms": 5_000},
    "coverage": {"kind": "down"},
    "hw_stalls": {"cause": "isr_slow_follower"},
}
"""By table: what its example row holds; of others the first row is the example."""
