"""Nothing listens beyond this machine, nobody enters without credentials, and no secret is where others look."""

from __future__ import annotations

import ipaddress
import socket
import stat
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import boto3
import grpc
import httpx
import psutil
import psycopg2
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from lakehouse.settings import Settings
from lakehouse.stack import paths, strays
from lakehouse.stack.spark import answers
from tests.stack.harness import PORTS

pytestmark = pytest.mark.usefixtures("airflow")


def listening(process: psutil.Process) -> Iterator[str]:
    """Addresses on which a process accepts connections."""
    with suppress(psutil.NoSuchProcess):
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                yield connection.laddr.ip


def secrets_of(env_file: Path) -> dict[str, str]:
    """Every secret of a stack, as itself and as it would look in a URL."""
    known = Settings(_env_file=env_file).secrets()
    found = {name: value for name, value in known.items() if name != "ledger_url"}
    return found | {f"{name}, quoted": urllib.parse.quote(value, safe="") for name, value in found.items()}


def test_every_socket_is_on_loopback(running) -> None:
    members = strays.members(running.settings)
    assert len(members) > 10
    addresses = {address for process in members for address in listening(process)}
    assert addresses
    assert [
        address for address in addresses if not ipaddress.ip_address(address.removeprefix("::ffff:")).is_loopback
    ] == []


def other_addresses() -> list[str]:
    """This machine's addresses beside loopback: who calls them comes from such an address too."""
    found = [entry for entries in psutil.net_if_addrs().values() for entry in entries]
    given = [one.address.partition("%")[0] for one in found if one.family in (socket.AF_INET, socket.AF_INET6)]
    return [address for address in given if not ipaddress.ip_address(address).is_loopback]


def test_no_port_answers_on_another_address(stack) -> None:
    ports = [getattr(stack, name) for name in PORTS]
    for address in other_addresses():
        for port in ports:
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as caller:
                caller.settimeout(5)
                assert caller.connect_ex((address, port)) != 0, f"{address}:{port} answers"


def test_the_catalog_refuses_a_caller_without_its_token(stack) -> None:
    url = f"{stack.catalog_uri}/v1/namespaces"
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": stack.catalog_token.get_secret_value()}):
        answer = httpx.get(url, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, 401)
    assert httpx.get(url, headers={"Authorization": f"Bearer {stack.catalog_token.get_secret_value()}"}).is_success


def test_the_catalog_hands_no_token_to_anybody(stack) -> None:
    form = {"grant_type": "client_credentials", "client_id": "a", "client_secret": "b"}
    assert httpx.post(f"{stack.catalog_uri}/v1/oauth/tokens", data=form).status_code == 401


def test_spark_connect_refuses_a_caller_without_its_token(stack) -> None:
    address = f"127.0.0.1:{stack.spark_port}"
    assert answers(address, stack.spark_token.get_secret_value())
    assert not answers(address, "wrong")
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/spark.connect.SparkConnectService/Config")
        with pytest.raises(grpc.RpcError) as refused:
            call(b"", timeout=10)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_object_store_refuses_a_caller_without_a_key(stack) -> None:
    anonymous = boto3.client(
        "s3", endpoint_url=stack.s3_endpoint, region_name=stack.s3_region, config=Config(signature_version=UNSIGNED)
    )
    for bucket in (stack.landing_bucket, stack.warehouse_bucket):
        with pytest.raises(ClientError, match="AccessDenied"):
            anonymous.list_objects_v2(Bucket=bucket)


def test_the_platforms_key_opens_its_buckets_and_nothing_else(stack) -> None:
    key = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key.get_secret_value()}
    client = boto3.client("s3", endpoint_url=stack.s3_endpoint, region_name=stack.s3_region, **key)
    client.list_objects_v2(Bucket=stack.landing_bucket)
    with pytest.raises(ClientError, match="AccessDenied"):
        client.create_bucket(Bucket="another")


@pytest.mark.parametrize("path", ["/api/v2/dags", "/api/v2/connections", "/api/v2/variables"])
def test_airflow_refuses_a_caller_without_a_login(stack, path) -> None:
    assert httpx.get(f"{stack.airflow_url}{path}").status_code == 401


def test_airflow_refuses_a_wrong_password(stack) -> None:
    login = {"username": stack.airflow_user, "password": "wrong"}
    assert httpx.post(f"{stack.airflow_url}/auth/token", json=login).status_code == 401


@pytest.mark.parametrize("database", ["airflow", "catalog", "lakehouse"])
def test_the_database_asks_for_a_password_and_keeps_users_apart(stack, database) -> None:
    where = {"host": "127.0.0.1", "port": stack.postgres_port, "dbname": database}
    with pytest.raises(psycopg2.OperationalError, match="no password supplied"):
        psycopg2.connect(**where, user=database)
    other = "catalog" if database == "lakehouse" else "lakehouse"
    password = stack.catalog_db_password if other == "catalog" else stack.ledger_db_password
    with pytest.raises(psycopg2.OperationalError, match="permission denied"):
        psycopg2.connect(**where, user=other, password=password.get_secret_value())


def test_no_secret_is_in_any_log(running) -> None:
    secrets = secrets_of(running.folder / ".env")
    logs = [path for path in paths.logs(running.settings).rglob("*") if path.is_file()]
    assert len(logs) >= 9
    leaks = {(log.name, name) for log in logs for name, value in secrets.items() if value.encode() in log.read_bytes()}
    assert leaks == set()


def test_no_secret_is_on_any_command_line(running) -> None:
    secrets = secrets_of(running.folder / ".env")
    shown = [(process.pid, " ".join(process.info["cmdline"] or ())) for process in psutil.process_iter(["cmdline"])]
    assert [(pid, name) for pid, line in shown for name, value in secrets.items() if value in line] == []


def test_files_with_secrets_are_for_their_owner_only(running) -> None:
    home = running.folder / ".lakehouse"
    private = [running.folder / ".env", home / "env", *(home / "spark").glob("*.conf")]
    assert [path.name for path in private if stat.S_IMODE(path.stat().st_mode) != 0o600] == []
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
