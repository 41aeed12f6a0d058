-- The tables of the analysis as SQL for DuckDB, from plain samples: an oracle beside the reference.
-- Given: the table `samples` (series_id, metric, pod, instance, topic, partition, replica, labels,
-- ts, value, stale) and the macros start_ms(), end_ms(), interval_ms(), gap_ms(), merge_gap_ms()
-- and target(). Each view answers one question; the views that tables are compared with come last.

CREATE MACRO id_of(pod) AS CAST(regexp_extract(pod, '-(\d+)$', 1) AS INTEGER);
CREATE MACRO edge_of(distance) AS CASE WHEN distance <= gap_ms() THEN 'range' ELSE 'gap' END;
CREATE MACRO of_isr(metric) AS
    metric IN ('strandline_partition_isr_member', 'strandline_partition_isr_size');

-- How long does each sample hold?
CREATE VIEW held AS
WITH ordered AS (
    SELECT *, lag(ts) OVER series AS before_ms, lag(stale) OVER series AS before_stale,
        lead(ts) OVER series AS after_ms, lead(stale) OVER series AS after_stale
    FROM samples WINDOW series AS (PARTITION BY series_id ORDER BY ts)
), classified AS (
    SELECT *,
        CASE WHEN before_ms IS NULL THEN edge_of(ts - start_ms()) WHEN before_stale THEN 'stale'
            WHEN ts - before_ms <= gap_ms() THEN 'change' ELSE 'gap' END AS start_reason,
        CASE WHEN after_ms IS NULL THEN edge_of(end_ms() - ts) WHEN after_stale THEN 'stale'
            WHEN after_ms - ts <= gap_ms() THEN 'change' ELSE 'gap' END AS end_reason
    FROM ordered WHERE NOT stale
)
SELECT *, CASE WHEN start_reason = 'change' THEN before_ms END AS previous_ms,
    CASE end_reason WHEN 'change' THEN after_ms
        WHEN 'stale' THEN least(ts + interval_ms(), end_ms(), after_ms)
        ELSE least(ts + interval_ms(), end_ms()) END AS until_ms
FROM classified;

-- What did one scrape show of one replica?
CREATE VIEW scrape AS
SELECT pod, instance, topic, partition, ts,
    CAST(max(value) FILTER (metric = 'strandline_partition_leader_epoch') AS BIGINT) AS epoch,
    max(value) FILTER (metric = 'strandline_partition_partition_epoch') AS version,
    CAST(round(1000 * max(value) FILTER (
        metric = 'strandline_partition_isr_last_change_timestamp_seconds')) AS BIGINT) AS changed,
    CAST(round(1000 * max(value) FILTER (
        metric = 'strandline_partition_leader_since_timestamp_seconds')) AS BIGINT) AS since
FROM samples WHERE NOT stale AND topic IS NOT NULL AND partition IS NOT NULL GROUP BY ALL;

-- When did each gauge of leaders have which value?
CREATE VIEW gauge_sample AS
SELECT held.*, epoch, version, changed, since, of_isr(metric) AS of_isr,
    lag(epoch) OVER series AS last_epoch, lag(value) OVER series AS last_value,
    lag(version) OVER series AS last_version, min(ts) OVER leadership AS first_scrape
FROM held JOIN scrape USING (pod, instance, topic, partition, ts)
WHERE metric IN ('strandline_partition_isr_member', 'strandline_partition_isr_size',
    'strandline_partition_replicas', 'strandline_partition_min_insync_replicas')
WINDOW series AS (PARTITION BY series_id ORDER BY ts),
    leadership AS (PARTITION BY topic, partition, epoch);

-- What did each leadership tell last, and the one before it?
CREATE VIEW earlier_told AS
WITH told AS (
    SELECT topic, partition, epoch, max(ts) AS last, arg_max_null(version, ts) AS version
    FROM gauge_sample GROUP BY ALL
)
SELECT topic, partition, epoch, lag(last) OVER p AS earlier_last,
    lag(version) OVER p AS earlier_version
FROM told WINDOW p AS (PARTITION BY topic, partition ORDER BY epoch);

CREATE VIEW run AS
WITH numbered AS (
    SELECT *, sum(CASE WHEN previous_ms IS NOT NULL AND last_epoch = epoch AND last_value = value
        THEN 0 ELSE 1 END) OVER (PARTITION BY series_id ORDER BY ts) AS number
    FROM gauge_sample
), whole AS (
    SELECT series_id, metric, of_isr, pod, topic, partition, replica, number, epoch, value,
        min(ts) AS first, arg_max(until_ms, ts) AS until_ms, arg_max(end_reason, ts) AS end_reason,
        arg_min(start_reason, ts) AS start_reason,
        arg_min_null(previous_ms, ts) AS any_previous_ms,
        arg_min_null(CASE WHEN last_epoch = epoch THEN previous_ms END, ts) AS previous_ms,
        arg_min_null(changed, ts) AS changed, arg_min_null(since, ts) AS since,
        arg_min_null(version, ts) AS version, arg_min_null(last_version, ts) AS last_version,
        min(first_scrape) AS first_scrape
    FROM numbered GROUP BY ALL
), begun AS (
    SELECT *,
        first = first_scrape AND first - since BETWEEN 0 AND gap_ms() AS at_since,
        of_isr AND previous_ms < changed AND changed <= first
            AND version = last_version + 1 AS at_change,
        of_isr AND changed BETWEEN since AND first AS own_change,
        of_isr AND coalesce(version - earlier_version = CASE WHEN changed = since THEN 1
            WHEN changed > since THEN 2 END, false) AS is_all
    FROM whole JOIN earlier_told USING (topic, partition, epoch)
), dated AS (
    SELECT *,
        CASE WHEN at_since THEN begin_ms WHEN at_change THEN changed ELSE first END AS start_ms,
        CASE WHEN at_since AND NOT is_all AND earlier_last IS NOT NULL
                THEN greatest(begin_err_ms, begin_ms - earlier_last)
            WHEN at_since THEN begin_err_ms
            WHEN at_change THEN 0
            ELSE coalesce(first - previous_ms, interval_ms()) END AS start_err_ms
    FROM (SELECT *, CASE WHEN own_change THEN changed ELSE since END AS begin_ms,
            CASE WHEN own_change THEN changed ELSE first END - since AS begin_err_ms FROM begun)
)
SELECT metric, of_isr, pod, topic, partition, replica, epoch, value, start_ms, start_err_ms,
    CASE WHEN any_previous_ms IS NOT NULL AND previous_ms IS NULL THEN 'leader_change'
        ELSE start_reason END AS start_reason,
    CASE WHEN adjoins THEN next_start ELSE until_ms END AS end_ms,
    CASE WHEN adjoins THEN next_err ELSE interval_ms() END AS end_err_ms,
    CASE WHEN adjoins AND NOT next_same THEN 'leader_change' ELSE end_reason END AS end_reason
FROM (
    SELECT *, lead(start_ms) OVER series AS next_start, lead(start_err_ms) OVER series AS next_err,
        lead(previous_ms IS NOT NULL) OVER series AS next_same,
        coalesce(lead(any_previous_ms IS NOT NULL) OVER series
            AND until_ms = lead(first) OVER series, false) AS adjoins
    FROM dated WINDOW series AS (PARTITION BY series_id ORDER BY first)
);

CREATE VIEW cut AS
WITH leadership AS (
    SELECT topic, partition, epoch, of_isr, min({'ms': start_ms, 'err': start_err_ms}) AS begun,
        max(end_ms) AS ended_ms
    FROM run GROUP BY ALL
), superseded AS (
    SELECT *, min(begun) OVER (PARTITION BY topic, partition, of_isr ORDER BY epoch
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS later,
        coalesce(begun.ms <= max(ended_ms) OVER (PARTITION BY topic, partition, of_isr
            ORDER BY epoch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), false) AS follows
    FROM leadership
)
SELECT metric, topic, partition, replica, value, epoch, pod,
    greatest(start_ms, start_ms()) AS start_ms, start_err_ms,
    CASE WHEN start_ms = begun.ms AND follows THEN 'leader_change' ELSE start_reason END
        AS start_reason,
    least(CASE WHEN later.ms <= end_ms THEN later.ms ELSE end_ms END, end_ms()) AS end_ms,
    CASE WHEN later.ms <= end_ms THEN later.err ELSE end_err_ms END AS end_err_ms,
    CASE WHEN later.ms <= end_ms THEN 'leader_change' ELSE end_reason END AS end_reason
FROM run JOIN superseded USING (topic, partition, epoch, of_isr);

CREATE VIEW known AS
WITH numbered AS (
    SELECT *, sum(CASE WHEN last_end >= start_ms AND last_value = value THEN 0 ELSE 1 END)
        OVER (PARTITION BY metric, topic, partition, replica ORDER BY start_ms) AS number
    FROM (SELECT *, lag(end_ms) OVER s AS last_end, lag(value) OVER s AS last_value
        FROM cut WHERE start_ms < end_ms
        WINDOW s AS (PARTITION BY metric, topic, partition, replica ORDER BY start_ms))
)
SELECT metric, topic, partition, replica, value, min(start_ms) AS start_ms,
    max(end_ms) AS end_ms, arg_min(start_err_ms, start_ms) AS start_err_ms,
    arg_max(end_err_ms, start_ms) AS end_err_ms, arg_min(start_reason, start_ms) AS start_reason,
    arg_max(end_reason, start_ms) AS end_reason, arg_min(epoch, start_ms) AS epoch,
    arg_min(pod, start_ms) AS pod
FROM numbered GROUP BY metric, topic, partition, replica, value, number;

CREATE VIEW state AS
WITH ends AS (
    SELECT *, lag(end_ms) OVER s AS hole_ms, lag(end_err_ms) OVER s AS hole_err,
        lag(end_reason) OVER s AS hole_reason
    FROM (SELECT metric, topic, partition, replica, start_ms, end_ms, start_err_ms, end_err_ms,
            start_reason, end_reason FROM known
        UNION ALL SELECT DISTINCT metric, topic, partition, replica, end_ms(), NULL, 0, 0,
            'range', 'range' FROM known)
    WINDOW s AS (PARTITION BY metric, topic, partition, replica ORDER BY start_ms)
)
SELECT metric, topic, partition, replica, value, start_ms, end_ms, start_err_ms, end_err_ms,
    start_reason, end_reason, epoch, pod FROM known
UNION ALL
SELECT metric, topic, partition, replica, NULL, coalesce(hole_ms, start_ms()), start_ms,
    coalesce(hole_err, 0), start_err_ms, coalesce(hole_reason, 'range'), start_reason, NULL, NULL
FROM ends WHERE coalesce(hole_ms, start_ms()) < start_ms;

-- The sizes of ISRs, cut wherever one of the three gauges changes.
CREATE VIEW size_piece AS
WITH gauge AS (
    SELECT *, CASE metric WHEN 'strandline_partition_isr_size' THEN 0
        WHEN 'strandline_partition_replicas' THEN 1
        WHEN 'strandline_partition_min_insync_replicas' THEN 2 END AS place
    FROM state WHERE metric <> 'strandline_partition_isr_member'
), moment AS (
    SELECT topic, partition, ts AS begin_ms,
        lead(ts, 1, end_ms()) OVER (PARTITION BY topic, partition ORDER BY ts) AS finish_ms
    FROM (SELECT DISTINCT topic, partition, start_ms AS ts FROM gauge)
)
SELECT topic, partition, begin_ms, finish_ms,
    CAST(max(value) FILTER (place = 0) AS INTEGER) AS isr_size,
    CAST(max(value) FILTER (place = 1) AS INTEGER) AS replicas,
    CAST(max(value) FILTER (place = 2) AS INTEGER) AS min_isr,
    arg_min({'err': start_err_ms, 'reason': start_reason}, place)
        FILTER (start_ms = begin_ms) AS began,
    arg_min({'err': end_err_ms, 'reason': end_reason}, place)
        FILTER (end_ms = finish_ms) AS ended
FROM moment JOIN gauge USING (topic, partition)
WHERE start_ms <= begin_ms AND begin_ms < end_ms GROUP BY ALL;

CREATE VIEW size AS
WITH numbered AS (
    SELECT *, sum(CASE WHEN last = sizes THEN 0 ELSE 1 END)
        OVER (PARTITION BY topic, partition ORDER BY begin_ms) AS number
    FROM (SELECT *, [isr_size, replicas, min_isr] AS sizes,
            lag([isr_size, replicas, min_isr]) OVER
                (PARTITION BY topic, partition ORDER BY begin_ms) AS last FROM size_piece)
)
SELECT topic, partition, isr_size, replicas, min_isr, min(begin_ms) AS start_ms,
    max(finish_ms) AS end_ms, arg_min(began, begin_ms) AS began, arg_max(ended, begin_ms) AS ended
FROM numbered GROUP BY topic, partition, isr_size, replicas, min_isr, number;

-- Which scrapes showed a leader, and did the next one show the same without a gap?
CREATE VIEW led AS
SELECT * FROM (
    SELECT held.*, epoch, since,
        coalesce(end_reason = 'change' AND lead(value) OVER series > 0
            AND lead(epoch) OVER series = epoch, false) AS goes_on
    FROM held JOIN scrape USING (pod, instance, topic, partition, ts)
    WHERE metric = 'strandline_partition_is_leader'
    WINDOW series AS (PARTITION BY series_id ORDER BY ts))
WHERE value > 0;

-- Which leader epochs were seen, and since when?
CREATE VIEW leadership AS
WITH whole AS (
    SELECT topic, partition, epoch, arg_min(pod, ts) AS pod, min(ts) AS first, max(ts) AS last,
        arg_max(until_ms, ts) AS until_ms, arg_min(since, ts) AS since
    FROM led GROUP BY ALL
)
SELECT *, CASE WHEN since <= first THEN since ELSE first END AS begun_ms,
    CASE WHEN since <= first THEN 0 ELSE interval_ms() END AS begun_err_ms
FROM whole;

-- Which processes did a pod have?
CREATE VIEW process AS
SELECT pod, ts, CAST(round(value * 1000) AS BIGINT) AS began_ms, before_at, old_ms FROM (
    SELECT pod, ts, value, lag(ts) OVER p AS before_at,
        CAST(round(lag(value) OVER p * 1000) AS BIGINT) AS old_ms
    FROM samples WHERE metric = 'strandline_broker_start_timestamp_seconds' AND NOT stale
    WINDOW p AS (PARTITION BY pod ORDER BY ts))
WHERE old_ms <> CAST(round(value * 1000) AS BIGINT);

CREATE VIEW election AS
WITH pair AS (
    SELECT *, lag(epoch) OVER p AS old_epoch, lag(pod) OVER p AS old_pod,
        lag(begun_ms) OVER p AS old_begun
    FROM leadership WINDOW p AS (PARTITION BY topic, partition ORDER BY epoch)
), shown AS (
    -- The old leader's last scrape as such before the new one began, if there was any.
    SELECT pair.*, coalesce((SELECT arg_max({'ms': CASE WHEN goes_on THEN pair.begun_ms ELSE ts END,
                'until': CASE end_reason WHEN 'change' THEN until_ms WHEN 'stale' THEN after_ms END,
                'reason': end_reason, 'ran_on': goes_on}, ts)
            FROM led WHERE led.topic = pair.topic AND led.partition = pair.partition
                AND led.epoch = old_epoch AND ts <= pair.begun_ms),
        {'ms': least(old_begun, begun_ms), 'until': begun_ms, 'reason': 'change',
            'ran_on': false}) AS old
    FROM pair
    WHERE old_epoch IS NOT NULL AND begun_ms >= start_ms() AND begun_ms < end_ms()
), told AS (
    SELECT *, epoch > old_epoch + 1 AS skipped, old.ms AS last_old_ms,
        CASE WHEN EXISTS (FROM process WHERE process.pod = old_pod AND began_ms > old.ms
                AND began_ms <= shown.first) THEN 'restart'
            WHEN old.reason IN ('stale', 'gap') THEN old.reason ELSE 'alive' END AS cause,
        coalesce((SELECT arg_max(value, ts) = 0 FROM samples
            WHERE metric = 'strandline_partition_isr_member' AND NOT stale
                AND samples.topic = shown.topic AND samples.partition = shown.partition
                AND samples.pod = old_pod AND replica = id_of(shown.pod) AND ts <= old.ms),
            false) AS outside
    FROM shown
)
SELECT topic, partition, epoch, CASE WHEN NOT skipped THEN id_of(old_pod) END AS old_leader,
    id_of(pod) AS new_leader, last_old_ms AS t_last_old_ms, begun_ms AS t_first_new_ms,
    begun_err_ms AS t_first_new_err_ms,
    CASE WHEN skipped THEN 0 ELSE greatest(coalesce(begun_ms - begun_err_ms - old.until, 0), 0) END
        AS no_leader_low_ms,
    greatest(least(begun_ms - last_old_ms + CASE WHEN old.ran_on THEN CAST(gap_ms() AS BIGINT)
        ELSE 0 END, begun_ms - old_begun), 0) AS no_leader_high_ms,
    CASE WHEN outside THEN 'unclean' WHEN cause = 'alive' THEN 'controlled'
        ELSE 'broker_failure' END AS kind,
    cause, true AS observed
FROM told
UNION ALL
SELECT topic, partition, unseen, CASE WHEN unseen = old_epoch + 1 THEN id_of(old_pod) END, NULL,
    last_old_ms, begun_ms, begun_err_ms, NULL, NULL, NULL, cause, false
FROM (SELECT *, unnest(generate_series(old_epoch + 1, epoch - 1)) AS unseen FROM told);

-- Which replicas left or joined an ISR between two known states?
CREATE VIEW isr_edge AS
SELECT * FROM (SELECT *, lag(value) OVER
        (PARTITION BY topic, partition, replica ORDER BY start_ms) AS last_value
    FROM state WHERE metric = 'strandline_partition_isr_member')
WHERE last_value <> value;
