-- Sessions are cut at midnight, so that a day's sessions follow from that day's clicks alone.
WITH by_visitor AS (
  SELECT
    *,
    CAST(clicked_at AS DATE)                                                                      AS session_date,
    LAG(clicked_at) OVER (PARTITION BY user_id, CAST(clicked_at AS DATE) ORDER BY clicked_at)     AS previous_at
  FROM silver_clicks
),
numbered AS (
  SELECT
    *,
    -- Clicks of the same moment are summed together, so they cannot fall into two sessions.
    SUM(CASE WHEN clicked_at <= previous_at + INTERVAL '30' MINUTE THEN 0 ELSE 1 END)
      OVER (PARTITION BY user_id, session_date ORDER BY clicked_at)                               AS session_number
  FROM by_visitor
)
SELECT
  session_date,
  user_id,
  session_number,
  MIN(clicked_at)             AS started_at,
  MAX(clicked_at)             AS ended_at,
  COUNT(DISTINCT event_id)    AS clicks,   -- an event may come again on another day
  COUNT(DISTINCT url)         AS pages
FROM numbered
GROUP BY session_date, user_id, session_number
