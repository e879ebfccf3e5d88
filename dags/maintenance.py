"""Maintenance DAGs: one per tier, one task per dataset."""

from lakehouse_airflow.factory import build_maintenance

build_maintenance("hot", "0 * * * *")
build_maintenance("daily", "0 3 * * *")
build_maintenance("weekly", "0 4 * * 0")
