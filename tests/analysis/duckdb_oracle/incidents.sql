-- Analysis 9: what went wrong, and which broker was at its root.

-- Every episode of the other tables, once for each broker that it points to.
CREATE VIEW amiss AS
SELECT replace(kind, '_episodes', '') AS kind, start_ms, end_ms, topic, partition,
    unnest(CASE WHEN len(missing_replicas) > 0 THEN missing_replicas ELSE [NULL] END) AS broker
FROM episodes WHERE kind IN ('ur_episodes', 'umi_episodes')
UNION ALL SELECT 'stall', start_ms, end_ms, topic, partition, culprit FROM hw_stalls
UNION ALL SELECT 'leaderless', t_first_new_ms - no_leader_low_ms, t_first_new_ms, topic, partition,
    old_leader FROM election WHERE kind IN ('broker_failure', 'unclean')
UNION ALL SELECT 'flapping', start_ms, least(end_ms, start_ms + 60000), topic, partition, replica
    FROM flapping WHERE end_ms - start_ms <= cycles * 60000
UNION ALL SELECT CASE kind WHEN 'gap' THEN 'gap' ELSE 'down' END, start_ms, end_ms, NULL, NULL,
    id_of(pod) FROM coverage
UNION ALL SELECT 'restart', at_ms - at_err_ms, at_ms, NULL, NULL, broker FROM restarts
UNION ALL SELECT 'controller', at_ms - at_err_ms, at_ms, NULL, NULL, old_controller
    FROM controller_elections;

CREATE VIEW replica_count AS
SELECT replica AS broker, count(DISTINCT (topic, partition)) AS replicas
FROM samples WHERE metric = 'strandline_partition_isr_member' AND NOT stale GROUP BY replica;

-- Episodes of one incident begin at most ten seconds after the others, of which a minute counts.
CREATE VIEW part AS
SELECT *, sum(CASE WHEN start_ms - reached_ms <= 10000 THEN 0 ELSE 1 END)
    OVER (ORDER BY start_ms, end_ms) AS incident
FROM (SELECT *, max(least(end_ms, start_ms + 60000)) OVER (ORDER BY start_ms, end_ms
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ms FROM amiss);

CREATE VIEW incidents AS
WITH whole AS (
    SELECT incident, min(start_ms) AS start_ms, max(end_ms) AS end_ms,
        count(DISTINCT (topic, partition)) FILTER (topic IS NOT NULL) AS partitions,
        count(DISTINCT broker) AS brokers,
        count(DISTINCT (kind, start_ms, end_ms, topic, partition)) AS episodes,
        bool_and(kind = 'controller') AS elected, bool_and(kind IN ('down', 'gap')) AS unseen
    FROM part GROUP BY incident
), proof AS (
    SELECT incident, list({'at_ms': start_ms, 'kind': kind, 'broker': broker, 'topic': topic,
            'partition': partition} ORDER BY start_ms, kind, broker NULLS FIRST,
            topic NULLS FIRST, partition NULLS FIRST)[1:50] AS evidence
    FROM (SELECT DISTINCT incident, start_ms, kind, broker, topic, partition FROM part)
    GROUP BY incident
), blamed AS (
    SELECT incident, broker, count(DISTINCT (topic, partition)) FILTER (topic IS NOT NULL) AS hit,
        min(start_ms) AS first_ms, bool_or(kind IN ('down', 'restart')) AS gone
    FROM part WHERE broker IS NOT NULL AND kind NOT IN ('controller', 'gap') GROUP BY ALL
), scored AS (
    SELECT incident, broker, gone, first_ms, coalesce(hit / nullif(partitions, 0), 0)
        * coalesce(hit / replicas, 0) + CASE WHEN gone THEN 0.5::DOUBLE ELSE 0 END AS score
    FROM blamed JOIN whole USING (incident) LEFT JOIN replica_count USING (broker)
), ranked AS (
    SELECT *, row_number() OVER best AS place, coalesce(lead(score) OVER best, 0) AS second
    FROM scored WINDOW best AS (PARTITION BY incident ORDER BY score DESC, first_ms, broker)
), judged AS (
    SELECT *, coalesce(score > 0, false) AS out,
        coalesce(score = second AND NOT gone, false) AS even
    FROM whole JOIN proof USING (incident)
        LEFT JOIN (FROM ranked WHERE place = 1) USING (incident)
), told AS (
    SELECT *, CASE WHEN elected THEN 'controller' WHEN unseen THEN 'scrape'
            WHEN out AND even THEN 'network' WHEN out THEN 'broker' ELSE 'unknown' END AS kind,
        CASE WHEN out AND NOT even THEN broker END AS root_broker
    FROM judged
)
SELECT start_ms || '-' || kind || '-' || coalesce(CAST(root_broker AS VARCHAR), 'none') AS id,
    start_ms, end_ms, kind, root_broker,
    CASE WHEN out THEN least(score - second, 1) ELSE 0 END AS confidence,
    partitions, brokers, episodes, evidence
FROM told;

-- Around the three widest incidents: the partition that stalled, or else has the most evidence.
CREATE VIEW incident_curves AS
WITH proof AS (
    SELECT id, partitions, start_ms, end_ms, unnest(evidence) AS one FROM incidents
), place AS (
    SELECT id, partitions, start_ms, end_ms, one.topic AS topic, one.partition AS partition,
        count(*) AS signs, count_if(one.kind = 'stall') AS stalls
    FROM proof WHERE one.topic IS NOT NULL GROUP BY ALL
), chosen AS (
    SELECT *, row_number()
        OVER (PARTITION BY id ORDER BY stalls DESC, signs DESC, topic, partition) AS nth
    FROM place
), widest AS (
    SELECT *, start_ms - 30000 AS begin_ms FROM chosen WHERE nth = 1
    ORDER BY partitions DESC, start_ms, id LIMIT 3
)
SELECT id AS incident, topic, partition, id_of(pod) AS leader, ts AS at_ms, 0 AS at_err_ms, leo, hw
FROM widest JOIN leader_scrape USING (topic, partition)
WHERE ts BETWEEN begin_ms AND least(end_ms + 30000, begin_ms + 600000);
