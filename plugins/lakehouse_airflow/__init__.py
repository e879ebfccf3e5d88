"""The part of the platform that knows Airflow."""
