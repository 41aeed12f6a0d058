-- Analyses 3, 4, 7, 8 and 10: offsets, as the scrapes of true leaders tell them.

-- What did one scrape of a partition's true leader show? When a later leader begins, its say ends.
CREATE VIEW leader_scrape AS
WITH shown AS (
    SELECT pod, instance, topic, partition, ts,
        CAST(max(value) FILTER (metric = 'strandline_partition_leader_epoch') AS BIGINT) AS epoch,
        max(value) FILTER (metric = 'strandline_partition_is_leader') AS leads,
        CAST(max(value) FILTER (metric = 'strandline_partition_log_start_offset') AS BIGINT)
            AS log_start,
        CAST(max(value) FILTER (metric = 'strandline_partition_log_end_offset') AS BIGINT) AS leo,
        CAST(max(value) FILTER (metric = 'strandline_partition_high_watermark') AS BIGINT) AS hw,
        max(value) FILTER (metric = 'strandline_partition_log_size_bytes') AS log_bytes,
        max(value) FILTER (metric = 'strandline_partition_isr_size') AS isr_size,
        max(value) FILTER (metric = 'strandline_partition_replicas') AS replicas,
        max(value) FILTER (metric = 'strandline_partition_min_insync_replicas') AS min_isr
    FROM samples
    WHERE NOT stale AND topic IS NOT NULL AND partition IS NOT NULL AND replica IS NULL
    GROUP BY ALL
)
SELECT * FROM shown
WHERE leads > 0 AND leo IS NOT NULL AND hw IS NOT NULL
    AND NOT EXISTS (FROM leadership AS later
        WHERE later.topic = shown.topic AND later.partition = shown.partition
            AND later.epoch > shown.epoch AND later.begun_ms <= shown.ts);

-- What did such a scrape show of each follower?
CREATE VIEW follower AS
SELECT * FROM leader_scrape JOIN (
    SELECT pod, instance, topic, partition, ts, replica,
        CAST(max(value) FILTER (metric = 'strandline_replica_log_end_offset') AS BIGINT) AS known,
        CAST(round(1000 * max(value) FILTER (metric =
            'strandline_replica_last_caught_up_timestamp_seconds')) AS BIGINT) AS caught_ms,
        max(value) FILTER (metric = 'strandline_partition_isr_member') AS member
    FROM samples WHERE NOT stale AND replica IS NOT NULL GROUP BY ALL
) USING (pod, instance, topic, partition, ts)
WHERE replica <> id_of(pod);

CREATE VIEW hw_lag AS
SELECT topic, partition, ts - ts % 60000 AS minute_ms, max(leo - hw) AS lag_max,
    quantile_cont(leo - hw, 0.5) AS lag_p50, quantile_cont(leo - hw, 0.99) AS lag_p99,
    count(*) AS sample_count
FROM leader_scrape GROUP BY topic, partition, minute_ms;

CREATE VIEW follower_lag AS
SELECT topic, partition, replica, ts - ts % 60000 AS minute_ms,
    max(greatest(leo - known, 0)) AS lag_max,
    quantile_cont(greatest(leo - known, 0), 0.5) AS lag_p50,
    quantile_cont(greatest(leo - known, 0), 0.99) AS lag_p99,
    max(CASE WHEN caught_ms IS NOT NULL THEN greatest(ts - caught_ms, 0) END) AS behind_max_ms,
    count(*) AS sample_count
FROM follower WHERE known IS NOT NULL GROUP BY topic, partition, replica, minute_ms;

CREATE VIEW hw_regressions AS
SELECT topic, partition, id_of(pod) AS broker, ts AS at_ms, ts - last_ms AS at_err_ms,
    last_hw AS hw_from, hw AS hw_to, last_epoch AS epoch_from, epoch AS epoch_to
FROM (SELECT *, lag(ts) OVER p AS last_ms, lag(hw) OVER p AS last_hw,
        lag(epoch) OVER p AS last_epoch
    FROM leader_scrape WINDOW p AS (PARTITION BY topic, partition ORDER BY ts))
WHERE hw < last_hw;

-- Runs of scrapes without a gap, with one high watermark and something above it.
CREATE VIEW hw_stalls AS
WITH waiting AS (
    SELECT *, CASE WHEN ts - last_ms <= gap_ms() THEN last_ms END AS near_ms,
        CASE WHEN next_ms - ts <= gap_ms() THEN next_ms ELSE least(ts + interval_ms(), end_ms()) END
            AS until_ms,
        next_ms IS NULL AND end_ms() - ts <= gap_ms() AS at_end
    FROM (SELECT *, lag(ts) OVER p AS last_ms, lead(ts) OVER p AS next_ms,
            lag(hw) OVER p AS last_hw, lag(leo) OVER p AS last_leo
        FROM leader_scrape WINDOW p AS (PARTITION BY topic, partition ORDER BY ts))
    WHERE leo > hw
), numbered AS (
    SELECT *, goes_on AND leo > last_leo AS grows,
        count_if(NOT goes_on) OVER (PARTITION BY topic, partition ORDER BY ts) AS number
    FROM (SELECT *, near_ms IS NOT NULL AND last_leo > last_hw AND last_hw = hw AS goes_on
        FROM waiting)
), stall AS (
    SELECT topic, partition, hw, min(ts) AS start_ms, max(ts) AS seen_ms,
        arg_max(until_ms, ts) AS end_ms, arg_max(at_end, ts) AS ongoing,
        coalesce(arg_min_null(ts - near_ms, ts), interval_ms()) AS start_err_ms,
        arg_min(leo, ts) AS leo_start, arg_max(leo, ts) AS leo_end, arg_max(pod, ts) AS pod,
        arg_max(isr_size, ts) AS isr_size, bool_or(isr_size < min_isr) AS too_few,
        count(DISTINCT epoch) AS leaders, bool_or(grows) AS grown
    FROM numbered GROUP BY topic, partition, hw, number
), judged AS (
    SELECT *, coalesce((SELECT list(replica) FROM follower
        WHERE follower.topic = stall.topic AND follower.partition = stall.partition
            AND follower.ts = seen_ms AND follower.pod = stall.pod
            AND member > 0 AND known = stall.hw), []) AS slow
    FROM stall WHERE grown AND seen_ms - start_ms >= stall_ms()
)
SELECT topic, partition, start_ms, end_ms, start_err_ms, end_ms - seen_ms AS end_err_ms,
    seen_ms - start_ms AS duration_low_ms, end_ms - start_ms + start_err_ms AS duration_high_ms,
    hw, leo_start, leo_end, leo_end - hw AS backlog, id_of(pod) AS leader,
    CASE WHEN too_few THEN 'below_min_isr' WHEN isr_size > 1 AND len(slow) > 0
        THEN 'isr_slow_follower' WHEN leaders > 1 THEN 'leaderless' ELSE 'unknown' END AS cause,
    CASE WHEN NOT too_few AND isr_size > 1 AND len(slow) = 1 THEN slow[1] END AS culprit, ongoing
FROM judged;

-- Where did a log lose its end: did its offset fall, or its process count lost records?
CREATE VIEW truncations AS
WITH log_scrape AS (
    SELECT log.*, CAST(log.value AS BIGINT) AS leo, coalesce((SELECT sum(value) FROM samples AS cut
            WHERE metric = 'strandline_truncated_records_total' AND NOT stale AND cut.ts = log.ts
                AND cut.pod = log.pod AND cut.topic = log.topic AND cut.partition = log.partition),
            0) AS counted,
        (SELECT max(value) FROM samples AS start
            WHERE metric = 'strandline_broker_start_timestamp_seconds' AND NOT stale
                AND start.pod = log.pod AND start.ts = log.ts) AS began
    FROM samples AS log WHERE metric = 'strandline_partition_log_end_offset' AND NOT stale
), step AS (
    SELECT *, ts - lag(ts) OVER p AS err, lag(leo) OVER p AS leo_from,
        CASE WHEN began IS DISTINCT FROM lag(began) OVER p OR counted < lag(counted) OVER p
            THEN counted ELSE counted - lag(counted) OVER p END AS rise
    FROM log_scrape WINDOW p AS (PARTITION BY pod, topic, partition ORDER BY ts)
)
SELECT topic, partition, id_of(pod) AS broker, ts AS at_ms, err AS at_err_ms, leo_from,
    leo AS leo_to, CAST(greatest(leo_from - leo, rise) AS BIGINT) AS records_low,
    epoch AS leader_epoch
FROM step LEFT JOIN scrape USING (pod, instance, topic, partition, ts)
WHERE greatest(leo_from - leo, rise) > 0 AND leo_from IS NOT NULL;

-- What was committed while one replica alone was in sync, though there are more?
CREATE VIEW data_at_risk AS
WITH measured AS (
    SELECT size.topic, size.partition, start_ms, end_ms, began, ended,
        least(arg_max(hw, ts) FILTER (ts <= start_ms), arg_min(hw, ts) FILTER (ts >= start_ms))
            AS hw_start,
        arg_max({'hw': hw, 'ts': ts, 'pod': pod, 'epoch': epoch, 'record':
                CASE WHEN leo > log_start THEN log_bytes / (leo - log_start) END}, ts)
            FILTER (ts >= start_ms) AS last
    FROM size JOIN leader_scrape ON size.topic = leader_scrape.topic
        AND size.partition = leader_scrape.partition AND ts < end_ms
    WHERE size.isr_size = 1 AND size.replicas > 1 GROUP BY ALL
), exposed AS (
    SELECT *, last.hw - hw_start AS offsets,
        (SELECT min(ts) FROM follower WHERE follower.topic = measured.topic
            AND follower.partition = measured.partition AND follower.pod = last.pod
            AND follower.epoch = last.epoch AND ts >= last.ts AND known >= last.hw) AS safe_ms,
        (SELECT arg_min({'leader': new_leader, 'ts': t_first_new_ms}, epoch) FROM election
            WHERE election.topic = measured.topic AND election.partition = measured.partition
                AND kind = 'unclean' AND epoch > last.epoch) AS unclean
    FROM measured WHERE last.hw > hw_start
), kept AS (
    SELECT *, (SELECT max(ts) FROM follower WHERE follower.topic = exposed.topic
            AND follower.partition = exposed.partition AND follower.pod = last.pod
            AND follower.epoch = last.epoch AND ts >= last.ts
            AND (safe_ms IS NULL OR ts < safe_ms)) AS unsafe_ms, (SELECT arg_max(value, ts) FROM samples
        WHERE metric = 'strandline_partition_log_end_offset' AND NOT stale
            AND samples.topic = exposed.topic AND samples.partition = exposed.partition
            AND id_of(pod) = unclean.leader AND ts < unclean.ts) AS leo
    FROM exposed
)
SELECT topic, partition, id_of(last.pod) AS leader, start_ms, end_ms, began.err AS start_err_ms,
    ended.err AS end_err_ms, hw_start, last.hw AS hw_end, offsets, offsets * last.record AS bytes,
    greatest(end_ms - start_ms - ended.err, 0) AS duration_low_ms,
    end_ms - start_ms + began.err AS duration_high_ms,
    greatest(coalesce(unsafe_ms - start_ms, 0), 0) AS exposed_low_ms,
    coalesce(safe_ms, end_ms()) - start_ms + began.err AS exposed_high_ms, safe_ms IS NOT NULL AS recovered,
    CASE WHEN safe_ms IS NOT NULL THEN 0
        ELSE coalesce(least(greatest(CAST(last.hw - leo AS BIGINT), 0), offsets), 0) END AS lost
FROM kept;
