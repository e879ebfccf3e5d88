"""Settings: documented, documented truly, and read from one place."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from pydantic import SecretStr

from lakehouse.errors import LakehouseError
from lakehouse.settings import PREFIX, ROOT, Settings

EXAMPLE = re.compile(r"^# (?P<description>.+)\n#(?P<name>[A-Z0-9_]+)=(?P<default>.*)$", re.MULTILINE)


def documented() -> dict[str, tuple[str, str]]:
    text = (ROOT / ".env.example").read_text()
    return {found["name"]: (found["description"], found["default"]) for found in EXAMPLE.finditer(text)}


def shown(name: str) -> tuple[str, str]:
    field = Settings.model_fields[name]
    value = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return str(field.description), text.replace(f"{ROOT}/", "")


def test_the_example_file_documents_every_setting_and_no_other() -> None:
    assert documented() == {f"{PREFIX}{name.upper()}": shown(name) for name in Settings.model_fields}


def test_the_environment_wins_over_the_file(tmp_path, monkeypatch) -> None:
    file = tmp_path / "env"
    file.write_text("LAKEHOUSE_S3_REGION=from-file\nLAKEHOUSE_LANDING_BUCKET=from-file\n")
    monkeypatch.setenv("LAKEHOUSE_S3_REGION", "from-environment")
    found = Settings(_env_file=file)
    assert (found.s3_region, found.landing_bucket) == ("from-environment", "from-file")


@pytest.mark.parametrize("where", ["environment", "file"])
def test_a_secret_may_come_from_a_file(tmp_path, monkeypatch, where) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    line = f"LAKEHOUSE_CATALOG_TOKEN_FILE={tmp_path / 'token'}\n"
    if where == "environment":
        monkeypatch.setenv(*line.strip().split("="))
    (tmp_path / "env").write_text(line if where == "file" else "LAKEHOUSE_CATALOG_TOKEN=from-env-file\n")
    assert Settings(_env_file=tmp_path / "env").catalog_token.get_secret_value() == "from-a-file"


def test_a_variable_wins_over_the_file_that_one_beside_it_names(tmp_path, monkeypatch) -> None:
    (tmp_path / "token").write_text("from-a-file")
    monkeypatch.setenv("LAKEHOUSE_CATALOG_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("LAKEHOUSE_CATALOG_TOKEN", "itself")
    assert Settings(_env_file=None).catalog_token.get_secret_value() == "itself"


def test_a_secret_of_a_file_is_part_of_the_ledgers_address(tmp_path, monkeypatch) -> None:
    (tmp_path / "password").write_text("from-a-file")
    monkeypatch.setenv("LAKEHOUSE_LEDGER_DB_PASSWORD_FILE", str(tmp_path / "password"))
    assert ":from-a-file@" in Settings(_env_file=None).ledger_url.get_secret_value()


def test_a_file_that_is_not_there_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_TOKEN_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(LakehouseError, match=r"^LAKEHOUSE_SPARK_TOKEN_FILE names .*nowhere, which cannot be read: No"):
        Settings(_env_file=None)


def test_addresses_follow_the_ports_unless_they_are_given() -> None:
    found = Settings(_env_file=None, catalog_port=1234, spark_port=2345, s3_endpoint="https://s3.example.org")
    assert found.catalog_uri == "http://127.0.0.1:1234"
    assert found.spark_remote == "sc://localhost:2345"
    assert found.s3_endpoint == "https://s3.example.org"


def test_relative_folders_are_meant_from_the_project(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings(_env_file=None, home="state").home == ROOT / "state"


def test_no_secret_is_shown_when_settings_are_printed() -> None:
    names = [name for name, field in Settings.model_fields.items() if field.annotation is SecretStr]
    found = Settings(_env_file=None, **dict.fromkeys(names, "hush-hush"))
    assert "hush-hush" not in repr(found)
    assert set(found.secrets()) == set(names)


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """All modules of a process that imported the settings and nothing else."""
    code = "import sys, lakehouse.settings; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("module", ["airflow", "pyspark", "pyiceberg", "pandas"])
def test_settings_load_nothing_heavy(module, loaded) -> None:
    assert "lakehouse.settings" in loaded
    assert module not in loaded
