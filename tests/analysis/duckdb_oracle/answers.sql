-- The views that the tables are compared with; they stand on those of tables.sql.

CREATE VIEW isr_intervals AS
SELECT topic, partition, replica, value > 0 AS in_isr, start_ms, end_ms, start_err_ms, end_err_ms,
    start_reason, end_reason, epoch AS leader_epoch,
    greatest(end_ms - start_ms - end_err_ms, 0) AS duration_low_ms,
    end_ms - start_ms + start_err_ms AS duration_high_ms
FROM state WHERE metric = 'strandline_partition_isr_member';

CREATE VIEW isr_size_intervals AS
SELECT topic, partition, isr_size, replicas, min_isr, start_ms, end_ms,
    began.err AS start_err_ms, ended.err AS end_err_ms, began.reason AS start_reason,
    ended.reason AS end_reason, greatest(end_ms - start_ms - ended.err, 0) AS duration_low_ms,
    end_ms - start_ms + began.err AS duration_high_ms
FROM size;

CREATE VIEW bad AS
SELECT *, unnest([
    {'kind': 'ur_episodes', 'bad': isr_size < replicas},
    {'kind': 'umi_episodes', 'bad': isr_size < min_isr},
    {'kind': 'at_min_isr', 'bad': isr_size = min_isr}]) AS judged
FROM size;

CREATE VIEW episodes AS
WITH numbered AS (
    SELECT *, sum(CASE WHEN hole <= 0 OR hole < merge_gap_ms() THEN 0 ELSE 1 END)
        OVER (PARTITION BY judged.kind, topic, partition ORDER BY start_ms) AS number
    FROM (SELECT *, start_ms - lag(end_ms) OVER
        (PARTITION BY judged.kind, topic, partition ORDER BY start_ms) AS hole
        FROM bad WHERE judged.bad)
), whole AS (
    SELECT judged.kind AS kind, topic, partition, number, min(start_ms) AS start_ms,
        max(end_ms) AS end_ms, sum(end_ms - start_ms) AS bad_ms, min(isr_size) AS min_size,
        arg_min(began, start_ms) AS began, arg_max(ended, start_ms) AS ended
    FROM numbered GROUP BY ALL
), absence AS (
    SELECT kind, whole.topic, whole.partition, number, replica,
        sum(least(whole.end_ms, state.end_ms) - greatest(whole.start_ms, state.start_ms)) AS ms
    FROM whole JOIN state ON whole.topic = state.topic AND whole.partition = state.partition
        AND state.start_ms < whole.end_ms AND whole.start_ms < state.end_ms
    WHERE metric = 'strandline_partition_isr_member' AND value = 0 GROUP BY ALL
)
SELECT kind, topic, partition, start_ms, end_ms, began.err AS start_err_ms,
    ended.err AS end_err_ms, began.reason AS start_reason, ended.reason AS end_reason,
    greatest(end_ms - start_ms - ended.err, 0) AS duration_low_ms,
    end_ms - start_ms + began.err AS duration_high_ms, bad_ms,
    coalesce((SELECT sum(least(whole.end_ms, bad.end_ms) - greatest(whole.start_ms, bad.start_ms))
        FROM bad WHERE bad.judged.kind = whole.kind AND bad.topic = whole.topic
            AND bad.partition = whole.partition AND bad.judged.bad IS NULL
            AND bad.start_ms < whole.end_ms AND whole.start_ms < bad.end_ms), 0) AS unknown_ms,
    min_size,
    coalesce((SELECT list(replica ORDER BY ms DESC, replica) FROM absence
        WHERE absence.kind = whole.kind AND absence.topic = whole.topic
            AND absence.partition = whole.partition AND absence.number = whole.number), [])
        AS missing_replicas,
    end_ms >= end_ms() AS ongoing
FROM whole;

CREATE VIEW elections AS FROM election;

CREATE VIEW isr_churn AS
WITH seen AS (
    SELECT replica AS broker, true AS subject, * FROM isr_edge
    UNION ALL SELECT id_of(pod), false, * FROM isr_edge
)
SELECT broker, start_ms - start_ms % 600000 AS window_start_ms,
    count_if(subject AND value = 0) AS shrinks, count_if(subject AND value = 1) AS expands,
    count_if(NOT subject AND value = 0) AS observed_shrinks,
    count_if(NOT subject AND value = 1) AS observed_expands,
    count(DISTINCT (topic, partition)) FILTER (subject) AS partitions
FROM seen GROUP BY ALL;

CREATE VIEW coverage AS
WITH good AS (
    SELECT *, lead(ts) OVER t AS next_ms, lead(ts) OVER t IS NULL AS is_last,
        lead(coalesce(ts - previous_ms, interval_ms()), 1, 0) OVER t AS next_err
    FROM held WHERE metric = 'up' AND value > 0
    WINDOW t AS (PARTITION BY pod ORDER BY ts)
), hole AS (
    SELECT pod, instance, ts, until_ms AS start_ms, coalesce(next_ms, end_ms()) AS end_ms, is_last,
        until_ms - ts AS start_err_ms, next_err AS end_err_ms
    FROM good
    WHERE until_ms < coalesce(next_ms, end_ms()) AND NOT (is_last AND end_ms() - ts <= gap_ms())
)
SELECT pod, instance, start_ms, end_ms, start_err_ms, end_err_ms,
    greatest(end_ms - start_ms - end_err_ms, 0) AS duration_low_ms,
    end_ms - start_ms + start_err_ms AS duration_high_ms,
    CASE WHEN EXISTS (FROM process WHERE process.pod = hole.pod AND process.ts > hole.ts
            AND process.ts <= hole.end_ms) THEN 'restart'
        WHEN EXISTS (FROM samples WHERE metric = 'up' AND samples.pod = hole.pod
            AND samples.ts > hole.ts AND samples.ts < hole.end_ms AND (stale OR value = 0))
            THEN 'down' ELSE 'gap' END AS kind,
    greatest(CASE WHEN is_last THEN ceil((end_ms - ts) / interval_ms())
        ELSE round((end_ms - ts) / interval_ms()) END - 1, 0) AS missing_samples,
    is_last AS ongoing
FROM hole;

CREATE VIEW restarts AS
SELECT pod, id_of(pod) AS broker,
    CASE WHEN before_at < began_ms AND began_ms <= ts THEN began_ms ELSE ts END AS at_ms,
    CASE WHEN before_at < began_ms AND began_ms <= ts THEN 0 ELSE ts - before_at END AS at_err_ms,
    old_ms AS old_start_ms, began_ms AS new_start_ms,
    coalesce((SELECT max(value) > 0 FROM samples
        WHERE metric = 'strandline_unclean_starts_total' AND samples.pod = process.pod
            AND samples.ts = process.ts AND NOT stale), false) AS unclean
FROM process;

CREATE VIEW replication_throughput AS
WITH counter AS (
    SELECT *, CASE WHEN metric = 'strandline_replication_bytes_total'
            THEN 'replicated_' || labels['direction'] ELSE 'produced' END AS flow,
        metric = 'strandline_produced_records_total' AS of_records,
        lag(ts) OVER c AS last_ms, lag(value) OVER c AS last_value
    FROM held WHERE metric IN ('strandline_produced_bytes_total',
        'strandline_produced_records_total', 'strandline_replication_bytes_total')
    WINDOW c AS (PARTITION BY pod, topic, metric, labels['direction'] ORDER BY ts)
), step AS (
    SELECT *, coalesce(value < last_value, false) OR EXISTS (FROM process
            WHERE process.pod = counter.pod AND process.ts > last_ms
                AND process.ts <= counter.ts) AS reset,
        last_ms IS NOT NULL AND start_reason <> 'change' AS across,
        (SELECT min(ts) FROM samples WHERE NOT stale AND samples.pod = counter.pod
            AND metric = 'strandline_broker_start_timestamp_seconds') AS first_ms
    FROM counter
), moved AS (
    SELECT *, CASE WHEN last_ms IS NULL THEN CASE WHEN ts > first_ms THEN value END
        WHEN reset THEN value ELSE value - last_value END AS increase
    FROM step
), summed AS (
    SELECT id_of(pod) AS broker, topic, ts - ts % 60000 AS minute_ms, flow,
        coalesce(sum(increase) FILTER (NOT of_records), 0) AS bytes,
        coalesce(sum(increase) FILTER (of_records), 0) AS counted,
        max(across AND increase > 0) AS across_gap,
        count_if(reset AND NOT of_records) AS resets
    FROM moved WHERE increase IS NOT NULL GROUP BY ALL
)
SELECT broker, topic, minute_ms, flow, bytes,
    CASE WHEN flow = 'produced' THEN counted END AS records, across_gap, resets
FROM summed WHERE bytes > 0 OR counted > 0 OR resets > 0;

CREATE VIEW slo AS
WITH day AS (
    SELECT *, unnest(generate_series(start_ms - start_ms % 86400000, end_ms - 1, 86400000))
        AS day_ms
    FROM size
), piece AS (
    SELECT topic, partition, day_ms, isr_size, replicas, min_isr,
        greatest(start_ms, day_ms) AS start_ms, least(end_ms, day_ms + 86400000) AS end_ms
    FROM day
), lost AS (
    SELECT topic, partition, t_first_new_ms - no_leader_high_ms AS begin_ms,
        t_first_new_ms AS finish_ms, no_leader_high_ms
    FROM election WHERE no_leader_high_ms IS NOT NULL
), committed AS (
    SELECT topic, ts, greatest(hw - lag(hw) OVER p, 0) AS rise
    FROM leader_scrape WINDOW p AS (PARTITION BY topic, partition ORDER BY ts)
), summed AS (
    SELECT *, end_ms - start_ms AS length,
        isr_size IS NOT NULL AND replicas IS NOT NULL AND min_isr IS NOT NULL AS is_known,
        coalesce((SELECT sum(greatest(least(end_ms, finish_ms) - greatest(start_ms, begin_ms), 0))
            FROM lost WHERE lost.topic = piece.topic AND lost.partition = piece.partition), 0)
            AS gone
    FROM piece
), total AS (
    SELECT topic, day_ms, count(DISTINCT partition) AS partitions, sum(length) AS total_ms,
        sum(gone) AS gone_ms, sum(CASE WHEN is_known THEN length ELSE gone END) AS known_ms,
        sum(CASE WHEN is_known AND isr_size < min_isr THEN length ELSE gone END) AS umi_ms,
        sum(CASE WHEN is_known AND isr_size < replicas THEN length ELSE 0 END) AS ur_ms
    FROM summed GROUP BY ALL
)
SELECT topic, day_ms, partitions, total_ms, known_ms, known_ms / total_ms AS coverage,
    known_ms / total_ms >= 0.95 AS covered, 1 - gone_ms / nullif(known_ms, 0) AS availability,
    1 - umi_ms / nullif(known_ms, 0) AS produce_availability,
    ur_ms / nullif(known_ms, 0) AS ur_ratio,
    coalesce((SELECT sum(offsets) FROM data_at_risk WHERE data_at_risk.topic = total.topic
        AND start_ms >= day_ms AND start_ms < day_ms + 86400000), 0)
        / nullif((SELECT sum(rise) FROM committed WHERE committed.topic = total.topic
            AND ts >= day_ms AND ts < day_ms + 86400000), 0) AS durability_risk,
    (SELECT quantile_cont(no_leader_high_ms, 0.99) FROM lost WHERE lost.topic = total.topic
        AND finish_ms >= day_ms AND finish_ms < day_ms + 86400000) AS failover_p99_ms,
    1 - (gone_ms / nullif(known_ms, 0)) / (1 - target()) AS error_budget_left
FROM total;
