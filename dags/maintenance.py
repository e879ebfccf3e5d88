"""Maintenance DAGs: one per tier, one mapped task per dataset."""

from lakehouse_airflow.maintenance import build_maintenance

build_maintenance("hot", "0 * * * *")
build_maintenance("daily", "0 3 * * *")
build_maintenance("weekly", "0 4 * * 0")
