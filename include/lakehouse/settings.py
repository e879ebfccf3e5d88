"""All settings. This module is the only reader of the environment."""

from __future__ import annotations

import os
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from lakehouse.errors import LakehouseError

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "LAKEHOUSE_"
FILE = "_FILE"


class SecretFiles(PydanticBaseSettingsSource):
    """Secrets from files: LAKEHOUSE_<FIELD>_FILE names the one that holds it, where LAKEHOUSE_<FIELD> would stand."""

    def __init__(self, settings_cls: type[BaseSettings], beside: PydanticBaseSettingsSource) -> None:
        super().__init__(settings_cls)
        self._named = beside.env_vars if isinstance(beside, EnvSettingsSource) else {}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[str | None, str, bool]:
        variable = f"{PREFIX}{field_name}{FILE}"
        place = self._named.get(variable.lower()) if field.annotation is SecretStr else None
        if not place:
            return None, field_name, False
        try:
            return Path(place).expanduser().read_text(encoding="utf-8").strip(), field_name, False
        except OSError as error:
            raise LakehouseError(f"{variable.upper()} names {place}, which cannot be read: {error.strerror}.") from None

    def __call__(self) -> dict[str, str]:
        found = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in found.items() if value}


class Settings(BaseSettings):
    """Each field is the environment variable LAKEHOUSE_<FIELD>, or a line of .env; the environment wins.

    A secret may be in a file that LAKEHOUSE_<FIELD>_FILE names. Addresses left empty are those of the local stack, made
    from its ports.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, env_ignore_empty=True)

    # The platform
    home: Path = Field(ROOT / ".lakehouse", description="State of the local stack: data, logs, sockets.")
    contracts: Path = Field(ROOT / "include/contracts", description="The folder of contracts.")
    start: date | None = Field(None, description="No dataset is scheduled before this day, whatever its contract says.")

    # Access
    role: Literal["ingest", "transform", "maintenance", "reader", "admin"] = Field(
        "admin", description="Who this process is on the store and in the catalog, where the platform does not decide."
    )

    # Object store
    s3_endpoint: str = Field("", description="S3 address; empty: the local MinIO.")
    s3_public_endpoint: str = Field("", description="S3 address that the catalog tells other tools; empty: the same.")
    s3_region: str = Field("us-east-1", description="S3 region.")
    s3_access_key: str = Field("", description="S3 access key of role admin, and of roles without one of their own.")
    s3_secret_key: SecretStr = Field(SecretStr(""), description="S3 secret key of role admin.")
    s3_ingest_access_key: str = Field("ingest", description="S3 access key of role ingest.")
    s3_ingest_secret_key: SecretStr = Field(SecretStr(""), description="S3 secret key of role ingest; empty: admin's.")
    s3_transform_access_key: str = Field("transform", description="S3 access key of role transform.")
    s3_transform_secret_key: SecretStr = Field(
        SecretStr(""), description="S3 secret key of role transform; empty: admin's."
    )
    s3_maintenance_access_key: str = Field("maintenance", description="S3 access key of role maintenance.")
    s3_maintenance_secret_key: SecretStr = Field(
        SecretStr(""), description="S3 secret key of role maintenance; empty: admin's."
    )
    s3_reader_access_key: str = Field("reader", description="S3 access key of role reader.")
    s3_reader_secret_key: SecretStr = Field(SecretStr(""), description="S3 secret key of role reader; empty: admin's.")
    s3_path_style: bool = Field(True, description="Bucket in the path (MinIO) rather than in the host name.")
    store_ui_url: str = Field(
        "", description="Page of an object, with {bucket} and {key}, for links from tasks; empty: the local MinIO's."
    )
    landing_bucket: str = Field("landing", description="Bucket in which source files arrive.")
    warehouse_bucket: str = Field("lake", description="Bucket that holds the tables of the local catalog.")

    # Catalog (Iceberg REST)
    catalog_uri: str = Field("", description="REST catalog address; empty: the local one.")
    catalog_warehouse: str = Field("", description="Warehouse of the catalog; empty: s3://<warehouse bucket>.")
    catalog_token: SecretStr = Field(SecretStr(""), description="Bearer token of the catalog, for role admin.")
    catalog_ingest_token: SecretStr = Field(SecretStr(""), description="The same for role ingest; empty: admin's.")
    catalog_transform_token: SecretStr = Field(
        SecretStr(""), description="The same for role transform; empty: admin's."
    )
    catalog_maintenance_token: SecretStr = Field(
        SecretStr(""), description="The same for role maintenance; empty: admin's."
    )
    catalog_reader_token: SecretStr = Field(SecretStr(""), description="The same for role reader; empty: admin's.")
    catalog_credential: SecretStr = Field(SecretStr(""), description="OAuth2 client as id:secret, instead of a token.")
    catalog_oauth2_uri: str = Field("", description="OAuth2 token endpoint, with the credential.")
    catalog_scope: str = Field("", description="OAuth2 scope, with the credential.")

    # Ledger
    ledger_url: SecretStr = Field(
        SecretStr(""), description="PostgreSQL of ledger and leases (SQLAlchemy URL); empty: the local one."
    )

    # Spark
    spark_mode: Literal["connect", "submit"] = Field("connect", description="connect (warm server) or submit.")
    spark_remote: str = Field("", description="Spark Connect address, sc://host:port; empty: the local server.")
    spark_token: SecretStr = Field(SecretStr(""), description="Token of the Spark Connect server.")
    spark_master: str = Field("local[2]", description="Master for spark-submit: local[n], spark://…, yarn, k8s://….")
    spark_deploy_mode: Literal["client", "cluster"] = Field("client", description="Deploy mode for spark-submit.")
    spark_jars: Path | None = Field(None, description="Folder of Spark's extra jars; empty: the machine's cache.")
    spark_driver_memory: str = Field("2g", description="Heap of the Connect server, and of a spark-submit driver.")
    spark_ui_url: str = Field("", description="Spark's web UI, for links from tasks; empty: the local server's.")

    # Airflow
    airflow_url: str = Field("", description="Airflow's UI as people reach it; empty: the local one's.")
    airflow_api_url: str = Field("", description="Airflow's API as the platform reaches it; empty: where people do.")
    task_retries: int = Field(3, ge=0, description="How often a failed task is tried again, 15 s to 10 min apart.")

    # Alerts
    alert_webhook: SecretStr = Field(SecretStr(""), description="URL that receives all alerts as JSON; empty: none.")
    alert_routes: SecretStr = Field(
        SecretStr(""),
        description='More receivers, a JSON list such as [{"name": "oncall", "url": "pagerduty://…", '
        '"severities": ["critical"], "owners": ["commerce"]}].',
    )
    docs_url: str = Field(
        "", description="Where include/docs is read in a browser, for links in alerts; empty: paths in the repository."
    )
    watch_seconds: int = Field(60, ge=1, description="How often `lakehouse watch` evaluates the SLAs.")

    # Maintenance
    maintenance_window: str = Field(
        "",
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d)?$",
        description="Hours of UTC in which it runs by itself, such as 22:00-06:00; daily and weekly begin with it.",
    )
    maintenance_pause_seconds: float = Field(
        10.0, ge=0, description="How long a table's lease is free between two slices, for whoever waits to write."
    )
    maintenance_spark_remote: str = Field(
        "", description="Spark Connect address for maintenance alone; empty: where all jobs run."
    )

    ledger_days: int = Field(
        400, ge=30, description="How long measurements of tables, and alerts that are over, stay in the ledger."
    )

    # The local stack
    sample: bool = Field(True, description="Deliver the sample shop's files each day, so that its DAGs have data.")

    listen: str = Field("127.0.0.1", description="Address on which its services listen; containers take 0.0.0.0.")
    postgres_host: str = Field("127.0.0.1", description="Where its PostgreSQL is.")
    spark_connect_master: str = Field(
        "local[*]", description="Master of its Connect server, such as spark://host:7077."
    )

    # The local stack: ports, all on 127.0.0.1
    postgres_port: int = Field(5433, description="PostgreSQL.")
    minio_port: int = Field(9000, description="MinIO, S3.")
    minio_console_port: int = Field(9001, description="MinIO, console.")
    catalog_port: int = Field(8181, description="REST catalog.")
    spark_port: int = Field(15002, description="Spark Connect.")
    spark_ui_port: int = Field(4040, description="Spark's web UI.")
    airflow_port: int = Field(8080, description="Airflow's UI and API.")

    # Containers
    spark_worker_cores: int = Field(2, ge=1, description="Cores that one Spark worker offers.")
    spark_worker_memory: str = Field("2g", description="Heap of a Spark worker's executor.")
    spark_master_ui_port: int = Field(8082, description="The Spark master's page, on 127.0.0.1.")
    limit_cpus: float = Field(0.0, ge=0, description="Cores that one container may use; 0: all.")
    limit_data_memory: str = Field("2g", description="Memory of PostgreSQL, MinIO, catalog and Spark master, each.")
    limit_airflow_memory: str = Field("4g", description="Memory of each of Airflow's and the platform's processes.")
    limit_spark_memory: str = Field("5g", description="Memory of the Connect server, and of each Spark worker.")

    # The local stack: secrets, generated into .env at the first start
    minio_root_user: str = Field("", description="MinIO's root user.")
    minio_root_password: SecretStr = Field(SecretStr(""), description="MinIO's root password.")
    postgres_password: SecretStr = Field(SecretStr(""), description="PostgreSQL superuser's password.")
    airflow_db_password: SecretStr = Field(SecretStr(""), description="Password of database user airflow.")
    catalog_db_password: SecretStr = Field(SecretStr(""), description="Password of database user catalog.")
    ledger_db_password: SecretStr = Field(SecretStr(""), description="Password of database user lakehouse.")
    airflow_fernet_key: SecretStr = Field(SecretStr(""), description="Key that encrypts Airflow's connections.")
    airflow_jwt_secret: SecretStr = Field(SecretStr(""), description="Signs Airflow's API tokens.")
    airflow_secret_key: SecretStr = Field(SecretStr(""), description="Signs Airflow's web sessions.")
    airflow_user: str = Field("admin", description="Airflow's user who may do everything.")
    airflow_password: SecretStr = Field(SecretStr(""), description="Password of that user.")
    airflow_operator: str = Field("operator", description="Airflow's user who runs, pauses and clears DAGs.")
    airflow_operator_password: SecretStr = Field(SecretStr(""), description="Password of that user.")
    airflow_viewer: str = Field("viewer", description="Airflow's user who only looks.")
    airflow_viewer_password: SecretStr = Field(SecretStr(""), description="Password of that user.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is given here, then the environment, then .env; a file that a variable names counts as the variable."""
        named = (SecretFiles(settings_cls, one) for one in (env_settings, dotenv_settings))
        return init_settings, env_settings, next(named), dotenv_settings, next(named)

    @field_validator("home", "contracts", "spark_jars")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        """A relative path is meant from the project's root, wherever the command is typed."""
        return path and ROOT / path.expanduser()

    @model_validator(mode="before")
    @classmethod
    def _local_addresses(cls, given: dict[str, object]) -> dict[str, object]:
        """Fill in the local stack's addresses where none was given."""

        def value(name: str) -> object:
            return given.get(name) or cls.model_fields[name].default

        def secret(name: str) -> str:
            found = value(name)
            return found.get_secret_value() if isinstance(found, SecretStr) else str(found)

        minio = f"http://127.0.0.1:{value('minio_console_port')}/browser/{{bucket}}/{{key}}"
        local = {
            "store_ui_url": "" if given.get("s3_endpoint") else minio,
            "spark_ui_url": "" if given.get("spark_remote") else f"http://127.0.0.1:{value('spark_ui_port')}",
            "s3_endpoint": f"http://127.0.0.1:{value('minio_port')}",
            "catalog_uri": f"http://127.0.0.1:{value('catalog_port')}",
            "catalog_warehouse": f"s3://{value('warehouse_bucket')}",
            "airflow_url": f"http://127.0.0.1:{value('airflow_port')}",
            "s3_public_endpoint": given.get("s3_endpoint") or f"http://127.0.0.1:{value('minio_port')}",
            "airflow_api_url": given.get("airflow_url") or f"http://127.0.0.1:{value('airflow_port')}",
            "spark_remote": f"sc://localhost:{value('spark_port')}",
            "ledger_url": (
                f"postgresql+psycopg2://lakehouse:{secret('ledger_db_password')}"
                f"@{value('postgres_host')}:{value('postgres_port')}/lakehouse"
            ),
        }
        return {**given, **{name: address for name, address in local.items() if not given.get(name)}}

    def spark_submit_conf(self, role: str) -> Path:
        """Properties file (0600) for spark-submit: catalog, store and a role's secrets, kept off the command line."""
        return self.home / "spark" / f"submit-{role}.conf"

    def secrets(self) -> dict[str, str]:
        """Every non-empty secret by field name: for handing on to services, and for the tests that hunt leaks."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {n: v.get_secret_value() for n, v in found.items() if isinstance(v, SecretStr) and v.get_secret_value()}


def is_local(address: str, port: int) -> bool:
    """Whether an address is that of the local stack's service on this port."""
    return address.rsplit("://", maxsplit=1)[-1] in (f"127.0.0.1:{port}", f"localhost:{port}")


def cache_dir() -> Path:
    """Downloads and builds, shared by all clones on this machine."""
    base = os.environ.get("LAKEHOUSE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "lakehouse"
    return Path(base).expanduser()


def env_file() -> Path:
    """The .env in use: LAKEHOUSE_ENV_FILE, else the one in the project's root."""
    return Path(os.environ.get("LAKEHOUSE_ENV_FILE") or ROOT / ".env")


def environment() -> dict[str, str]:
    """A copy of the process's environment, for child processes."""
    return dict(os.environ)


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of this process, read once."""
    return Settings(_env_file=env_file())
