"""The DAG that watches every dataset's SLA."""

from lakehouse_airflow.watch import build_watch

build_watch()
