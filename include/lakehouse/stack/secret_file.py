"""The .env file: secrets are generated into it at the first start, and stay."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from lakehouse.settings import PREFIX, Settings, env_file, settings
from lakehouse.stack.paths import write_private


def _token() -> str:
    return secrets.token_hex(32)


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _password() -> str:
    return secrets.token_urlsafe(12).replace("-", "x").replace("_", "y")


GENERATED: dict[str, Callable[[], str]] = {
    "minio_root_user": lambda: f"root-{secrets.token_hex(6)}",
    "minio_root_password": _token,
    "s3_access_key": lambda: f"lake{secrets.token_hex(8)}",
    "s3_secret_key": _token,
    "s3_ingest_secret_key": _token,
    "s3_transform_secret_key": _token,
    "s3_maintenance_secret_key": _token,
    "s3_reader_secret_key": _token,
    "postgres_password": _token,
    "airflow_db_password": _token,
    "catalog_db_password": _token,
    "ledger_db_password": _token,
    "catalog_token": _token,
    "catalog_ingest_token": _token,
    "catalog_transform_token": _token,
    "catalog_maintenance_token": _token,
    "catalog_reader_token": _token,
    "spark_token": _token,
    "airflow_fernet_key": _fernet_key,
    "airflow_jwt_secret": _token,
    "airflow_secret_key": _token,
    "airflow_password": _password,
    "airflow_operator_password": _password,
    "airflow_viewer_password": _password,
}


def missing_secrets(known: Settings) -> dict[str, str]:
    """A fresh value for each secret of the local stack that has none."""

    def unset(name: str) -> bool:
        value = getattr(known, name)
        return not (value.get_secret_value() if hasattr(value, "get_secret_value") else value)

    return {name: make() for name, make in GENERATED.items() if unset(name)}


def ensure_secrets() -> Settings:
    """Generate what is missing into .env, and return the settings that hold it all."""
    fresh = missing_secrets(settings())
    if fresh:
        remember(fresh)
    else:
        _close(env_file())
    return settings()


def remember(values: Mapping[str, str]) -> None:
    """Set these settings in .env, keep its other lines, and have the settings read again."""
    path = env_file()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for name, value in values.items():
        line = f"{PREFIX}{name.upper()}={value}"
        pattern = re.compile(rf"^[# ]*{PREFIX}{name.upper()}=.*$", re.MULTILINE)
        text = pattern.sub(line, text, count=1) if pattern.search(text) else f"{text.rstrip()}\n{line}\n".lstrip()
    write_private(path, text)
    settings.cache_clear()


def _close(path: Path) -> None:
    if path.exists() and path.stat().st_mode & 0o077:
        path.chmod(0o600)
