"""Backfill across layers: which intervals have to be built, why, at what cost, and building them through Airflow."""
