"""The one Airflow plugin of the platform."""

from airflow.plugins_manager import AirflowPlugin


class LakehousePlugin(AirflowPlugin):
    name = "lakehouse"
