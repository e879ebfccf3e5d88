"""DAGs that people trigger with a form."""

from lakehouse_airflow.forms import build_replay, build_rollback

build_replay()
build_rollback()
