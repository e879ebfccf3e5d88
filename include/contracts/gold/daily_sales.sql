-- Reads are views named <layer>_<dataset>, at the snapshot the run pinned, cut to what changed.
SELECT
  CAST(ordered_at AS DATE)                              AS order_date,
  region,
  category,
  CAST(SUM(amount) AS DECIMAL(18, 2))                   AS gmv,
  COUNT(*)                                              AS orders,
  CAST(SUM(amount) / COUNT(*) AS DECIMAL(18, 2))        AS avg_basket
FROM silver_orders
WHERE status <> 'cancelled'
GROUP BY ALL
