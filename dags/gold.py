"""Gold DAGs: one Airflow DAG per gold contract."""

from lakehouse_airflow.factory import build_dags

build_dags("gold")
