"""Airflow imports this in each of its processes, before it builds its command line; it acts for `airflow dags` only."""

import sys

# Airflow would copy every other name here into its own settings.
__all__: list[str] = []

if sys.argv[1:2] == ["dags"] and sys.argv[0].endswith(("airflow", "airflow/__main__.py", "-m")):
    from lakehouse_airflow.backfill_command import add_backfill

    add_backfill()
