"""Airflow imports this in each of its processes, before it builds its command line; it acts for two of them only."""

import sys

# Airflow would copy every other name here into its own settings.
__all__: list[str] = []

if sys.argv[0].endswith(("airflow", "airflow/__main__.py", "-m")):
    match sys.argv[1:2]:
        case ["dags"]:
            from lakehouse_airflow.backfill_command import add_backfill

            add_backfill()
        case ["scheduler"]:
            from lakehouse_airflow.preload import preload

            preload()
