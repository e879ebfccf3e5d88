"""What the stack writes and starts, before anything is started."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from lakehouse.cli.spark import conf
from lakehouse.errors import LakehouseError
from lakehouse.identities import Identity, identity
from lakehouse.roles import Role
from lakehouse.settings import Settings, settings
from lakehouse.spark_conf import identity_properties
from lakehouse.stack import paths
from lakehouse.stack.airflow import people
from lakehouse.stack.airflow_env import airflow_environment
from lakehouse.stack.launch import process_environment
from lakehouse.stack.registry import services
from lakehouse.stack.rotation import rotate
from lakehouse.stack.secret_file import GENERATED, ensure_secrets, missing_secrets, remember
from lakehouse.stack.service import MARKER
from lakehouse.stack.spark import connect_properties, submit_properties
from lakehouse.stack.supervision import configuration

# The Spark master is in containers only.
PORTS = [name for name in Settings.model_fields if name.endswith("_port") and name != "spark_master_ui_port"]


@pytest.fixture
def env_file(tmp_path, monkeypatch):
    """An .env of this test's own, with nothing in it."""
    path = tmp_path / ".env"
    for name in Settings.model_fields:
        monkeypatch.delenv(f"LAKEHOUSE_{name.upper()}", raising=False)
    monkeypatch.setenv("LAKEHOUSE_ENV_FILE", str(path))
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    settings.cache_clear()
    yield path
    settings.cache_clear()


@pytest.fixture
def known(env_file) -> Settings:
    return ensure_secrets()


def test_secrets_are_generated_once_into_a_private_file(env_file) -> None:
    first = ensure_secrets()
    text = env_file.read_text()
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600
    assert not missing_secrets(first)
    settings.cache_clear()
    assert ensure_secrets() == first
    assert env_file.read_text() == text


def test_every_secret_of_the_local_stack_is_generated() -> None:
    ours = {name for name in Settings.model_fields if name.startswith(("minio_root", "airflow_"))}
    named = {"airflow_user", "airflow_operator", "airflow_viewer"}
    assert ours - set(GENERATED) == {"airflow_port", "airflow_url", "airflow_api_url", *named}
    secret = {name for name, field in Settings.model_fields.items() if field.annotation is SecretStr}
    foreign = {"ledger_url", "catalog_credential", "alert_webhook", "alert_routes"}
    assert secret - set(GENERATED) == foreign


def test_generated_secrets_differ_from_each_other(known) -> None:
    values = [value for name, value in known.secrets().items() if name != "ledger_url"]
    assert len(set(values)) == len(values)


def test_remembering_keeps_the_users_own_lines(env_file) -> None:
    env_file.write_text("# mine\nLAKEHOUSE_S3_REGION=eu-west-1\n#LAKEHOUSE_START=\nOTHER=1\n")
    remember({"start": "2026-01-01"})
    assert env_file.read_text() == "# mine\nLAKEHOUSE_S3_REGION=eu-west-1\nLAKEHOUSE_START=2026-01-01\nOTHER=1\n"


def test_the_line_that_counts_is_the_one_that_changes(env_file) -> None:
    """The last one wins; a comment of the same name before it is none."""
    env_file.write_text("#LAKEHOUSE_SPARK_TOKEN=\nLAKEHOUSE_SPARK_TOKEN=old\nOTHER=1\n")
    remember({"spark_token": "new"})
    assert settings().spark_token.get_secret_value() == "new"
    assert "old" not in env_file.read_text()


def test_a_foreign_store_catalog_and_airflow_get_no_keys_made_here(env_file) -> None:
    """They may know one key only, which every role then uses."""
    env_file.write_text(
        "LAKEHOUSE_S3_ENDPOINT=https://s3.example.org\nLAKEHOUSE_S3_ACCESS_KEY=one\nLAKEHOUSE_S3_SECRET_KEY=key\n"
        "LAKEHOUSE_CATALOG_URI=https://catalog.example.org\nLAKEHOUSE_CATALOG_TOKEN=token\n"
        "LAKEHOUSE_AIRFLOW_URL=https://airflow.example.org\nLAKEHOUSE_AIRFLOW_PASSWORD=password\n"
    )
    known = ensure_secrets()
    assert {identity(known, role) for role in Role} == {Identity("one", "key", "token")}
    assert [one["name"] for one in people(known)] == ["admin"], "nobody gets in without a password"


def test_a_readable_env_file_is_closed(env_file) -> None:
    ensure_secrets()
    env_file.chmod(0o644)
    ensure_secrets()
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600


def test_no_secret_is_on_a_command_line_or_in_supervisors_configuration(known) -> None:
    all_services = services(known)
    shown = configuration(known, all_services) + "".join(" ".join(service.command()) for service in all_services)
    assert [name for name, value in known.secrets().items() if value in shown] == []


def test_every_service_listens_on_loopback_only(known) -> None:
    shown = [word for service in services(known) for word in (*service.command(), *service.environment().values())]
    assert not [word for word in shown if "0.0.0.0" in word or "::" in word]


def test_two_stacks_share_no_port_socket_or_folder(known, tmp_path) -> None:
    other = known.model_copy(
        update={"home": tmp_path / "other", **{name: getattr(known, name) + 10_000 for name in PORTS}}
    )
    ours, theirs = ({port for one in services(each) for port in one.ports().values()} for each in (known, other))
    assert len(ours) == len(theirs) == len(PORTS)
    assert not ours & theirs
    assert paths.socket_file(known) != paths.socket_file(other)
    assert str(known.home) not in configuration(other, services(other))
    assert str(known.home) not in "".join(connect_properties(other).values())
    assert f":{known.postgres_port}/" not in airflow_environment(other)["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]


def test_a_long_path_gets_a_short_socket(known, tmp_path) -> None:
    deep = known.model_copy(update={"home": tmp_path / ("long" * 30)})
    assert len(str(paths.socket_file(deep))) <= paths.SOCKET_LIMIT
    assert paths.socket_file(deep) != paths.socket_file(known.model_copy(update={"home": tmp_path / ("tall" * 30)}))


def test_services_that_others_need_come_first(known) -> None:
    stages = [service.stage for service in services(known)]
    assert stages == sorted(stages)


def test_a_users_own_spark_does_not_lead_the_stacks_one_elsewhere(known):
    for service in services(known):
        found = process_environment(service, {"SPARK_REMOTE": "sc://elsewhere", "SPARK_CONNECT_MODE_ENABLED": "1"})
        assert not found.keys() & {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"}


def test_a_service_is_marked_as_one_of_its_stack(known) -> None:
    environments = [process_environment(service, {"LANG": "C"}) for service in services(known)]
    assert {env[MARKER] for env in environments} == {str(known.home)}
    assert {env["LANG"] for env in environments} == {"C"}


def test_spark_gets_the_catalog_uncached_and_its_secrets_redacted(known) -> None:
    found = connect_properties(known)
    assert found["spark.sql.catalog.lake.cache-enabled"] == "false"
    assert found["spark.scheduler.mode"] == "FAIR"
    assert found["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert found["spark.connect.authenticate.token"] == known.spark_token.get_secret_value()
    session = identity_properties(known, Role.TRANSFORM)
    given = [known.catalog_transform_token, known.s3_transform_secret_key, known.spark_token]
    shown = {**found, **session}
    with_secrets = [n for n, value in shown.items() if any(s.get_secret_value() in value for s in given)]
    assert len(with_secrets) == len(given)
    assert [name for name in with_secrets if not re.search(found["spark.redaction.regex"], name)] == []


def test_secrets_that_no_local_stack_uses_are_not_changed(known, env_file) -> None:
    before = env_file.read_text()
    with pytest.raises(LakehouseError, match="there is no local stack here"):
        rotate(lambda _: None)
    assert env_file.read_text() == before


def test_a_spark_of_ones_own_gets_its_properties_in_private_files(known, capsys) -> None:
    conf()
    shown = capsys.readouterr().out
    files = [Path(line.split("\t")[0]) for line in shown.splitlines() if ".conf\t" in line]
    assert len(files) == 1 + len(Role)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert [name for name, secret in known.secrets().items() if secret in shown] == []
    server, submitted = files[0].read_text(), known.spark_submit_conf(Role.TRANSFORM).read_text()
    assert f"spark.sql.catalog.lake.uri={known.catalog_uri}" in server
    assert str(known.home) not in server, "it runs elsewhere"
    assert known.s3_transform_secret_key.get_secret_value() not in server
    assert known.s3_transform_secret_key.get_secret_value() in submitted


def test_sparks_server_may_do_nothing_but_read_landing_by_itself(known) -> None:
    found = "".join(connect_properties(known).values())
    allowed = {"spark_token", "s3_ingest_secret_key"}
    assert {name for name, value in known.secrets().items() if value in found} == allowed


@pytest.mark.parametrize("role", [Role.INGEST, Role.READER])
def test_a_session_has_its_roles_secrets_alone(known, role) -> None:
    found = "".join(identity_properties(known, role).values())
    own = {f"s3_{role}_secret_key", f"catalog_{role}_token"}
    assert {name for name, value in known.secrets().items() if value in found} == own


def test_a_foreign_cluster_is_sent_the_jars_and_nothing_local(known) -> None:
    found = submit_properties(known.model_copy(update={"spark_master": "spark://cluster:7077"}), Role.INGEST)
    assert "spark.jars" in found
    assert not [name for name in found if name.startswith(("spark.driver.host", "spark.driver.bindAddress"))]


def test_an_oauth2_catalog_needs_no_token(known) -> None:
    none = dict.fromkeys(("catalog_token", "catalog_ingest_token"), SecretStr(""))
    updates = {**none, "catalog_credential": SecretStr("id:secret"), "catalog_scope": "lake"}
    found = submit_properties(known.model_copy(update=updates), Role.INGEST)
    assert found["spark.sql.catalog.lake.credential"] == "id:secret"
    assert found["spark.sql.catalog.lake.scope"] == "lake"
    assert "spark.sql.catalog.lake.rest.auth.type" not in found
    assert not [name for name in found if name.endswith(("lake.token", "lake.header.Authorization"))]
