"""No DAG: when a contract is broken, this file's import error says so in the Airflow UI."""

from lakehouse_airflow.factory import refuse_broken_contracts

refuse_broken_contracts()
