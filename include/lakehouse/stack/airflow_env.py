"""Airflow's configuration, as environment variables: one source for its services, its command and `.lakehouse/env`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from lakehouse.settings import ROOT, Settings, env_file, environment
from lakehouse.stack.jars import pyspark_home
from lakehouse.stack.java import find_java
from lakehouse.stack.paths import logs
from lakehouse.stack.service import HOST

# Seconds without a heartbeat after which a task counts as dead; Airflow's five minutes are long for one machine.
HEARTBEAT_TIMEOUT = 60


def airflow_environment(settings: Settings) -> dict[str, str]:
    """Everything an Airflow process, or a job that it starts, needs to know. Holds secrets."""
    options = {f"AIRFLOW__{key.upper()}": value for key, value in _options(settings).items()}
    return {
        "AIRFLOW_HOME": str(settings.home / "airflow"),
        **options,
        **_connections(settings),
        "LAKEHOUSE_HOME": str(settings.home),
        "LAKEHOUSE_ENV_FILE": str(env_file()),
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": settings.spark_token.get_secret_value(),
        **({"SPARK_LOCAL_IP": HOST} if settings.listen == HOST else {}),
        "SPARK_HOME": str(pyspark_home()),
        "JAVA_HOME": str(find_java().home),
        "PATH": _path(),
    }


def _path() -> str:
    """This environment's programs first: Airflow looks for spark-submit there."""
    folder = str(Path(sys.executable).parent)
    given = [part for part in environment().get("PATH", os.defpath).split(os.pathsep) if part != folder]
    return os.pathsep.join([folder, *given])


def _options(settings: Settings) -> dict[str, str]:
    secret = settings.secrets()
    database = f"airflow:{secret['airflow_db_password']}@{settings.postgres_host}:{settings.postgres_port}/airflow"
    return {
        "database__sql_alchemy_conn": f"postgresql+psycopg2://{database}",
        "database__sql_alchemy_conn_async": f"postgresql+asyncpg://{database}",
        "core__fernet_key": secret["airflow_fernet_key"],
        "api_auth__jwt_secret": secret["airflow_jwt_secret"],
        "api__secret_key": secret["airflow_secret_key"],
        **_addresses(settings),
        **_folders(settings),
        **_pace(),
    }


def _addresses(settings: Settings) -> dict[str, str]:
    return {
        "api__host": settings.listen,
        "api__port": str(settings.airflow_port),
        "api__base_url": settings.airflow_url,
        "core__execution_api_server_url": f"{settings.airflow_api_url}/execution/",
    }


def _folders(settings: Settings) -> dict[str, str]:
    task_logs = logs(settings) / "airflow"
    return {
        "core__dags_folder": str(ROOT / "dags"),
        "core__plugins_folder": str(ROOT / "plugins"),
        "logging__base_log_folder": str(task_logs),
        "logging__dag_processor_child_process_log_directory": str(task_logs / "dag_processor"),
    }


def _pace() -> dict[str, str]:
    """Sized for two cores: short waits between steps, few processes."""
    return {
        "core__executor": "LocalExecutor",
        "core__auth_manager": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        "core__load_examples": "False",
        "core__parallelism": "6",
        "core__max_active_tasks_per_dag": "6",
        "api__workers": "1",
        "api__expose_config": "False",
        "dag_processor__refresh_interval": "10",
        "dag_processor__min_file_process_interval": "10",
        "dag_processor__parsing_processes": "1",
        "dag_processor__print_stats_interval": "300",
        "scheduler__scheduler_idle_sleep_time": "0.5",
        "scheduler__scheduler_heartbeat_sec": "2",
        "scheduler__task_instance_heartbeat_sec": "5",
        "scheduler__task_instance_heartbeat_timeout": str(HEARTBEAT_TIMEOUT),
        "scheduler__task_instance_heartbeat_timeout_detection_interval": "10",
        "triggerer__job_heartbeat_sec": "2",
        "fab__auth_rate_limit": "30 per minute",
        "logging__colored_console_log": "False",
        "usage_data_collection__enabled": "False",
    }


def _connections(settings: Settings) -> dict[str, str]:
    """The Spark provider's connections, for Connect and for spark-submit; the latter's secrets are in its file."""
    host, _, port = settings.spark_remote.removeprefix("sc://").split("/")[0].partition(":")
    token = settings.spark_token.get_secret_value()
    connect = {
        "conn_type": "spark_connect",
        "host": host,
        "port": int(port or 15002),
        "password": token,
        "extra": {"use_ssl": "use_ssl=true" in settings.spark_remote},
    }
    submit = {
        "conn_type": "spark",
        "host": settings.spark_master,
        "extra": {"deploy-mode": settings.spark_deploy_mode, "spark-binary": "spark-submit"},
    }
    return {"AIRFLOW_CONN_SPARK_CONNECT": json.dumps(connect), "AIRFLOW_CONN_SPARK_SUBMIT": json.dumps(submit)}
