-- Analysis 10: what another replica.lag.time.max.ms would have done.

-- When did a follower lack something that it had missed while it was in the ISR? An absence begins
-- when the follower last had all, and ends when it has all again, if the next scrape shows that.
CREATE VIEW absence AS
WITH look AS (
    SELECT *, CASE WHEN lead(ts) OVER f - ts <= gap_ms() THEN lead(caught_ms) OVER f END AS back_ms
    FROM follower WHERE caught_ms IS NOT NULL AND known IS NOT NULL AND member IS NOT NULL
        AND replicas IS NOT NULL AND min_isr IS NOT NULL
    WINDOW f AS (PARTITION BY pod, instance, topic, partition, epoch, replica ORDER BY ts)
), whole AS (
    SELECT topic, partition, caught_ms AS begin_ms, max(ts) AS seen_ms,
        arg_max_null(back_ms, ts) AS back_ms, bool_or(leo > known) AS lacks,
        max(ts) FILTER (member > 0) AS inside_ms, arg_max(replicas, ts) AS replicas,
        arg_max(min_isr, ts) AS min_isr
    FROM look GROUP BY pod, instance, topic, partition, epoch, replica, caught_ms
)
SELECT *, back_ms IS NOT NULL AS returned,
    greatest(seen_ms, coalesce(back_ms, least(seen_ms + interval_ms(), end_ms()))) AS until_ms
FROM whole WHERE lacks AND inside_ms IS NOT NULL;

CREATE VIEW setting AS
SELECT DISTINCT setting_ms, setting_ms + setting_ms // 2 AS late_ms
FROM (SELECT unnest([1, 2, 5, 10, 15, 20, 30, 45, 60]) * 1000 AS setting_ms
    UNION ALL SELECT lag_time_max_ms())
WHERE setting_ms > gap_ms() OR setting_ms = lag_time_max_ms();

-- Who surely left, and who may have: the leader looks twice in the time of the setting. Acks=all
-- stops when enough are out, by each of the settings that the topic had.
CREATE VIEW outside AS
WITH replayed AS (
    SELECT *, max(replicas) OVER p - min(min_isr) OVER p + 1 AS most,
        min(replicas) OVER p - max(min_isr) OVER p + 1 AS least
    FROM absence CROSS JOIN setting
    WHERE until_ms - begin_ms > (SELECT min(setting_ms) FROM setting)
    WINDOW p AS (PARTITION BY topic, partition)
)
SELECT *, 'low' AS bound, greatest(begin_ms + late_ms, start_ms()) AS out_ms, seen_ms AS in_ms,
    greatest(most, 1) AS enough, begin_ms + setting_ms >= start_ms() AS within,
    seen_ms - begin_ms > late_ms AS leaves
FROM replayed
UNION ALL
SELECT *, 'high', greatest(begin_ms + setting_ms, start_ms()), until_ms,
    greatest(least, 1), begin_ms + late_ms >= start_ms(), until_ms - begin_ms > setting_ms
FROM replayed;

CREATE VIEW lagtime_whatif AS
WITH edge AS (
    SELECT topic, partition, setting_ms, bound, at_ms, sum(step) AS step,
        any_value(enough) AS enough
    FROM (SELECT *, unnest([out_ms, in_ms]) AS at_ms, unnest([1, -1]) AS step
        FROM outside WHERE leaves)
    GROUP BY topic, partition, setting_ms, bound, at_ms
), depth AS (
    SELECT *, sum(step) OVER p AS gone, lead(at_ms) OVER p - at_ms AS length
    FROM edge WINDOW p AS (PARTITION BY topic, partition, setting_ms, bound ORDER BY at_ms)
), lasted AS (
    SELECT setting_ms, sum(length) FILTER (bound = 'low' AND gone >= 1) AS ur_low_ms,
        sum(length) FILTER (bound = 'high' AND gone >= 1) AS ur_high_ms,
        sum(length) FILTER (bound = 'low' AND gone >= enough) AS umi_low_ms,
        sum(length) FILTER (bound = 'high' AND gone >= enough) AS umi_high_ms
    FROM depth GROUP BY setting_ms
), counted AS (
    SELECT setting_ms, count_if(bound = 'low' AND leaves AND within) AS shrinks_low,
        count_if(bound = 'high' AND leaves AND within) AS shrinks_high,
        count_if(bound = 'low' AND leaves AND returned) AS expands_low,
        count_if(bound = 'high' AND leaves AND returned) AS expands_high,
        sum(greatest(least(until_ms - begin_ms, late_ms) - (least(inside_ms, until_ms) - begin_ms),
            0)) FILTER (bound = 'high') AS extra_hw_stall_ms
    FROM outside GROUP BY setting_ms
)
SELECT setting_ms, coalesce(shrinks_low, 0) AS shrinks_low,
    coalesce(shrinks_high, 0) AS shrinks_high, coalesce(expands_low, 0) AS expands_low,
    coalesce(expands_high, 0) AS expands_high, coalesce(ur_low_ms, 0) AS ur_low_ms,
    coalesce(ur_high_ms, 0) AS ur_high_ms, coalesce(umi_low_ms, 0) AS umi_low_ms,
    coalesce(umi_high_ms, 0) AS umi_high_ms,
    CAST(coalesce(extra_hw_stall_ms, 0) AS BIGINT) AS extra_hw_stall_ms
FROM setting LEFT JOIN counted USING (setting_ms) LEFT JOIN lasted USING (setting_ms);
