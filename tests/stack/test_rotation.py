"""New secrets: the data stays, what ran runs on, old secrets are refused, and a cut-off change is completed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import httpx
import psycopg2
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyiceberg.catalog.rest import RestCatalog

from lakehouse.identities import identity
from lakehouse.roles import Role
from lakehouse.settings import Settings
from lakehouse.stack.postgres import OWNERS
from lakehouse.stack.rotation import ROTATED, pending_file
from lakehouse.stack.spark import answers
from tests.stack.harness import LAKEHOUSE, Stack, eventually

TABLE = "gold.rotation_test"
SMALL = ("postgres", "minio", "catalog")


@pytest.fixture
def small(private_stack) -> Stack:
    """A stack of its own, without Spark and Airflow, with a table in it."""
    for service in SMALL:
        private_stack.lakehouse("up", "--only", service)
    rows = pa.table({"n": [1, 2, 3]})
    lake(private_stack.settings).create_table(TABLE, rows.schema).append(rows)
    return private_stack


def lake(given: Settings, role: Role = Role.ADMIN) -> RestCatalog:
    return RestCatalog("lake", uri=given.catalog_uri, token=identity(given, role).token)


def catalog_takes(given: Settings, role: Role) -> bool:
    headers = {"Authorization": f"Bearer {identity(given, role).token}"}
    return httpx.get(f"{given.catalog_uri}/v1/config", headers=headers).is_success


def store_takes(given: Settings, key: str, secret: str) -> bool:
    keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
    client = boto3.client("s3", endpoint_url=given.s3_endpoint, region_name=given.s3_region, **keys)
    try:
        client.list_objects_v2(Bucket=given.warehouse_bucket, Prefix="gold/")
    except ClientError as error:
        return error.response["Error"]["Code"] == "AccessDenied"  # known, and not allowed to list here
    return True


def database_takes(given: Settings, user: str, password: str, database: str) -> bool:
    try:
        where = {"host": "127.0.0.1", "port": given.postgres_port, "dbname": database}
        psycopg2.connect(**where, user=user, password=password).close()
    except psycopg2.OperationalError as error:
        assert "password authentication failed" in str(error)  # noqa: PT017
        return False
    return True


def taken(given: Settings) -> dict[str, bool]:
    """Each secret of the data services that can be shown at a door, and whether it opens."""
    secret = given.secrets()
    users = {**{user: (secret[field], user) for user, field in OWNERS.items()}}
    users["postgres"] = (secret["postgres_password"], "postgres")
    root = given.minio_root_user, secret["minio_root_password"]
    own = {role: identity(given, role) for role in Role}
    return {
        **{f"catalog {role}": catalog_takes(given, role) for role in Role},
        **{f"store {role}": store_takes(given, one.access_key, one.secret_key) for role, one in own.items()},
        "store root": store_takes(given, *root),
        **{f"database {user}": database_takes(given, user, *shown) for user, shown in users.items()},
    }


def check_changed(found: Stack, before: Settings) -> None:
    """Every secret is another, the new ones open and the old ones do not, and the data is there."""
    after = found.settings
    assert [name for name in ROTATED if before.secrets()[name] == after.secrets()[name]] == []
    assert [door for door, opens in taken(after).items() if not opens] == []
    assert [door for door, opens in taken(before).items() if opens] == []
    assert lake(after, Role.READER).load_table(TABLE).scan().to_arrow()["n"].to_pylist() == [1, 2, 3]
    assert set(SMALL) <= found.healthy_services()
    assert not pending_file(after).exists()


def test_all_secrets_change_and_no_data_is_lost(small) -> None:
    before = small.settings
    assert [door for door, opens in taken(before).items() if not opens] == []
    told = small.lakehouse("secrets", "rotate", "--yes").stdout
    assert f"{len(ROTATED)} secrets changed" in told
    check_changed(small, before)


def killed(found: Stack, moment: Callable[[], bool], what: str) -> None:
    """Begin a rotation, and kill it outright at that moment."""
    command = subprocess.Popen(
        [LAKEHOUSE, "secrets", "rotate", "--yes"],
        env={**os.environ, **found.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = datetime.now(UTC) + timedelta(minutes=3)
    while not moment():  # as often as it can be looked: the moment is short
        assert command.poll() is None, f"it ended before {what}"
        assert datetime.now(UTC) < deadline, what
    os.kill(command.pid, signal.SIGKILL)
    command.wait()


@pytest.mark.full
def test_a_rotation_that_is_killed_is_completed_by_the_next(small) -> None:
    before, env = small.settings, small.folder / ".env"
    written = env.read_text()
    killed(small, pending_file(before).exists, "the new values were written down")
    refused = small.lakehouse("up", check=False)
    assert refused.returncode == 1
    assert "half changed: run `lakehouse secrets rotate`" in refused.stderr
    wanted = json.loads(pending_file(before).read_text())["new"]
    killed(small, lambda: env.read_text() != written, "the settings were changed")
    small.lakehouse("secrets", "rotate", "--yes")
    check_changed(small, before)
    assert {name: small.settings.secrets()[name] for name in wanted} == wanted


def test_a_secret_that_comes_from_elsewhere_is_not_changed(private_stack, tmp_path) -> None:
    env = private_stack.folder / ".env"
    env.write_text(f"{env.read_text()}LAKEHOUSE_SPARK_TOKEN_FILE={tmp_path / 'token'}\n")
    (tmp_path / "token").write_text("mine")
    refused = private_stack.lakehouse("secrets", "rotate", "--yes", check=False)
    assert refused.returncode == 1
    assert "LAKEHOUSE_SPARK_TOKEN comes from a file" in refused.stderr


# --- With Airflow and Spark ---


def rows_in_gold(found: Stack) -> int:
    told = found.lakehouse("query", "SELECT count(*) AS n FROM gold.daily_sales", "--json").stdout
    return int(json.loads(told)[0]["n"])


def airflow_takes(given: Settings, user: str, password: str) -> bool:
    login = {"username": user, "password": password}
    return httpx.post(f"{given.airflow_url}/auth/token", json=login, timeout=60).is_success


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_pipeline_goes_on_with_new_secrets(tmp_path: Path) -> None:
    day = datetime.now(UTC).date() - timedelta(1)
    found = Stack(tmp_path, sample="false", spark_driver_memory="1500m", start=str(day))
    try:
        found.lakehouse("run", timeout=1200)
        before, rows = found.settings, rows_in_gold(found)
        assert rows > 0
        secret = ("--conn-type", "http", "--conn-host", "example.org", "--conn-password", "kept-encrypted")
        found.lakehouse("airflow", "connections", "add", "kept", *secret)
        found.lakehouse("secrets", "rotate", "--yes")
        after = found.settings
        eventually(found.healthy, 240, "all services are healthy")
        shown = found.lakehouse("airflow", "connections", "get", "kept", "--output", "json").stdout
        assert json.loads(shown[shown.index("[") :])[0]["password"] == "kept-encrypted"
        for name in ("airflow", "airflow_operator", "airflow_viewer"):
            user = getattr(after, "airflow_user" if name == "airflow" else name)
            assert airflow_takes(after, user, after.secrets()[f"{name}_password"])
            assert not airflow_takes(after, user, before.secrets()[f"{name}_password"])
        address = f"127.0.0.1:{after.spark_port}"
        assert answers(address, after.secrets()["spark_token"])
        assert not answers(address, before.secrets()["spark_token"])
        earlier = str(day - timedelta(1))
        found.lakehouse("sample", "--from", earlier, "--to", earlier)
        for dag in ("bronze_orders", "silver_orders", "gold_daily_sales"):
            found.lakehouse("airflow", "dags", "backfill", "-s", earlier, "-e", earlier, dag)
        assert rows_in_gold(found) > rows
    finally:
        found.lakehouse("down", check=False)
