"""The lakehouse platform: everything that knows neither Airflow nor Spark."""
