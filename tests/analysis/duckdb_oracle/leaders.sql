-- Analyses 5 and 6: who led, and what becomes of ISRs again and again.

-- Which leaders were still scraped as such after a later one had begun? The first later one counts.
CREATE VIEW zombie_leaders AS
WITH paired AS (
    SELECT old.topic, old.partition, old.pod, old.epoch, old.last, old.until_ms,
        min({'ms': new.begun_ms, 'err': new.begun_err_ms, 'epoch': new.epoch, 'pod': new.pod})
            AS newer
    FROM leadership AS old JOIN leadership AS new
        ON old.topic = new.topic AND old.partition = new.partition AND new.epoch > old.epoch
    GROUP BY ALL
)
SELECT topic, partition, id_of(pod) AS broker, epoch, id_of(newer.pod) AS newer_leader,
    newer.epoch AS newer_epoch, newer.ms AS start_ms, until_ms AS end_ms,
    newer.err AS start_err_ms, until_ms - last AS end_err_ms,
    greatest(last - newer.ms, 0) AS duration_low_ms,
    until_ms - newer.ms + newer.err AS duration_high_ms,
    until_ms - newer.ms > 2 * interval_ms() AS finding
FROM paired WHERE last > newer.ms;

CREATE VIEW failover_quantiles AS
SELECT kind, count(*) AS elections, quantile_cont(no_leader_low_ms, 0.5) AS p50_low_ms,
    quantile_cont(no_leader_high_ms, 0.5) AS p50_high_ms,
    quantile_cont(no_leader_low_ms, 0.99) AS p99_low_ms,
    quantile_cont(no_leader_high_ms, 0.99) AS p99_high_ms,
    max(no_leader_low_ms) AS max_low_ms, max(no_leader_high_ms) AS max_high_ms
FROM election WHERE observed GROUP BY kind;

-- Which controller epochs did brokers obey, since when, and who acted in them?
CREATE VIEW controller_elections AS
WITH obeyed AS (
    SELECT pod, instance, ts, previous_ms, CAST(value AS BIGINT) AS epoch
    FROM held WHERE metric = 'strandline_controller_epoch' AND value > 0
), active AS (
    SELECT *, max(CASE WHEN value > 0 AND NOT coalesce(previous_ms IS NOT NULL AND was > 0, false)
        THEN ts END) OVER (PARTITION BY series_id ORDER BY ts) AS acts_since
    FROM (SELECT *, lag(value) OVER (PARTITION BY series_id ORDER BY ts) AS was
        FROM held WHERE metric = 'strandline_controller_active')
), actor AS (
    SELECT epoch, id_of(pod) AS controller,
    FROM active JOIN (SELECT pod, instance, ts, epoch,
            lag(epoch) OVER (PARTITION BY pod, instance ORDER BY ts) AS epoch_was FROM obeyed)
        USING (pod, instance, ts)
    WHERE value > 0 GROUP BY epoch, controller
    QUALIFY row_number() OVER (PARTITION BY epoch ORDER BY
        sum(CASE WHEN previous_ms IS NOT NULL AND was > 0 AND epoch_was = epoch
            THEN ts - previous_ms ELSE 0 END) DESC,
        max(acts_since) DESC, controller DESC) = 1
), begun AS (
    SELECT epoch, min(ts) AS at_ms,
        coalesce(arg_min_null(ts - previous_ms, ts), interval_ms()) AS at_err_ms
    FROM obeyed GROUP BY epoch
), whole AS (
    SELECT * FROM begun LEFT JOIN actor USING (epoch)
)
SELECT epoch, old_controller, controller AS new_controller, at_ms, at_err_ms FROM (
    SELECT *, lag(epoch) OVER (ORDER BY epoch) AS earlier,
        CASE WHEN lag(epoch) OVER (ORDER BY epoch) = epoch - 1
            THEN lag(controller) OVER (ORDER BY epoch) END AS old_controller
    FROM whole)
WHERE earlier IS NOT NULL;

-- Times out between two times in, of which three in a row lie within ten minutes.
CREATE VIEW flapping AS
WITH cycle AS (
    SELECT *, row_number() OVER r AS number, lead(end_ms, 2) OVER r AS third_ms,
        lead(end_err_ms, 2) OVER r AS third_err_ms, lead(end_ms, 2) OVER r - start_ms <= 600000 AS flaps
    FROM (SELECT *, lag(value) OVER s AS was, lead(value) OVER s AS becomes FROM state
        WHERE metric = 'strandline_partition_isr_member'
        WINDOW s AS (PARTITION BY topic, partition, replica ORDER BY start_ms))
    WHERE was = 1 AND value = 0 AND becomes = 1
    WINDOW r AS (PARTITION BY topic, partition, replica ORDER BY start_ms)
), begun AS (
    -- Three in a row that begin here; they go on those that begin up to two before.
    SELECT *, sum(CASE WHEN number - last_number <= 2 THEN 0 ELSE 1 END)
        OVER (PARTITION BY topic, partition, replica ORDER BY number) AS episode
    FROM (SELECT *, lag(number) OVER (PARTITION BY topic, partition, replica ORDER BY number)
            AS last_number FROM cycle WHERE flaps)
)
SELECT *, greatest(end_ms - start_ms - end_err_ms, 0) AS duration_low_ms,
    end_ms - start_ms + start_err_ms AS duration_high_ms,
    cycles / (3 * greatest(end_ms - start_ms, 600000) / 600000) AS score
FROM (SELECT topic, partition, replica, min(start_ms) AS start_ms, max(third_ms) AS end_ms,
        arg_min(start_err_ms, number) AS start_err_ms, arg_max(third_err_ms, number) AS end_err_ms,
        max(number) + 3 - min(number) AS cycles
    FROM begun GROUP BY topic, partition, replica, episode);

-- A leader counts a change once, however many replicas it moved.
CREATE VIEW missed_edges AS
WITH step AS (
    SELECT topic, partition, id_of(pod) AS broker, metric, CASE WHEN value < last_value THEN value
        ELSE value - last_value END AS increase
    FROM (SELECT *, lag(value) OVER (PARTITION BY series_id ORDER BY ts) AS last_value
        FROM samples WHERE NOT stale
            AND metric IN ('strandline_isr_shrinks_total', 'strandline_isr_expands_total'))
), counted AS (
    SELECT topic, partition, broker,
        CAST(coalesce(sum(increase) FILTER (metric = 'strandline_isr_shrinks_total'), 0) AS BIGINT)
            AS shrinks,
        CAST(coalesce(sum(increase) FILTER (metric = 'strandline_isr_expands_total'), 0) AS BIGINT)
            AS expands
    FROM step GROUP BY ALL
), seen AS (
    SELECT topic, partition, id_of(pod) AS broker,
        count(DISTINCT start_ms) FILTER (value = 0) AS shrinks,
        count(DISTINCT start_ms) FILTER (value = 1) AS expands
    FROM isr_edge WHERE start_reason = 'change' GROUP BY ALL
)
SELECT topic, partition, broker, coalesce(seen.shrinks, 0) AS seen_shrinks,
    counted.shrinks AS counted_shrinks,
    greatest(counted.shrinks - seen_shrinks, 0) AS missed_shrinks,
    coalesce(seen.expands, 0) AS seen_expands, counted.expands AS counted_expands,
    greatest(counted.expands - seen_expands, 0) AS missed_expands
FROM counted LEFT JOIN seen USING (topic, partition, broker);
