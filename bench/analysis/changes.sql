-- Keeps the scrapes of a replica at which one of its series changes, in the change-point form: every
-- other step of the oracle then sees these few rows. What lies beside a kept sample is noted before.
-- Given: the view `samples` and the macro gap_ms().
CREATE TABLE kept AS
WITH ordered AS (
    SELECT *, lag(ts) OVER series AS before_ms, lag(stale) OVER series AS before_stale,
        lead(ts) OVER series AS after_ms, lead(stale) OVER series AS after_stale,
        lag(value) OVER series AS before_value, lead(value) OVER series AS after_value
    FROM samples WINDOW series AS (PARTITION BY series_id ORDER BY ts)
), edge AS (
    SELECT DISTINCT pod, instance, topic, partition, ts FROM ordered
    WHERE value IS DISTINCT FROM before_value OR value IS DISTINCT FROM after_value
        OR ts - before_ms > gap_ms() OR after_ms - ts > gap_ms()
)
SELECT ordered.* EXCLUDE (before_value, after_value)
FROM ordered SEMI JOIN edge USING (pod, instance, topic, partition, ts);
