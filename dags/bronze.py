"""Bronze DAGs: one Airflow DAG per bronze contract."""

from lakehouse_airflow.factory import build_dags

build_dags("bronze")
