"""The one Airflow plugin of the platform."""

from airflow.plugins_manager import AirflowPlugin

from lakehouse_airflow.deadlines import DueDeadline


class LakehousePlugin(AirflowPlugin):
    name = "lakehouse"
    deadline_references = [DueDeadline]  # noqa: RUF012 - as Airflow has it
