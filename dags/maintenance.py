"""Maintenance DAGs: one per tier, one task per dataset."""

from lakehouse_airflow.factory import build_maintenance

build_maintenance("daily", "0 3 * * *")
