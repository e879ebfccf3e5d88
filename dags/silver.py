"""Silver DAGs: one Airflow DAG per silver contract."""

from lakehouse_airflow.factory import build_dags

build_dags("silver")
