"""Dockerfile and docker-compose.yaml: sound by their own tools, and of one mind with the local stack."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakehouse.errors import LakehouseError
from lakehouse.settings import PREFIX, ROOT, Settings
from lakehouse.stack import container, minio
from lakehouse.stack.postgres import bin_dir
from lakehouse.stack.registry import services
from tests.unit.compose_spec import parse

DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "docker-compose.yaml").read_text()
IGNORED = {"postgres"}
# They end when they are done.
ONCE = {"set-up", "airflow-set-up", "first-look"}
UNCHECKED = ONCE | {"sample"}


def lint(file: Path) -> subprocess.CompletedProcess[str]:
    hadolint = Path(sys.executable).parent / "hadolint"
    command = [hadolint, "--config", ROOT / ".hadolint.yaml", "--no-color", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path) -> Path:
    """A folder with what Compose reads."""
    shutil.copy(ROOT / "docker-compose.yaml", tmp_path)
    (tmp_path / ".env").touch()
    return tmp_path


@pytest.fixture(scope="module")
def ready(tmp_path_factory) -> Path:
    """A folder with what Compose reads, after `make env`."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copy(ROOT / "docker-compose.yaml", folder)
    subprocess.run(["sh", ROOT / "include/make-env.sh", folder / ".env"], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def composed(ready) -> dict[str, Any]:
    """The services as Compose understands them; tests only read them."""
    read = parse(ready)
    assert read.returncode == 0, read.stderr
    found: dict[str, Any] = json.loads(read.stdout)["services"]
    return found


@pytest.fixture(scope="module")
def ours(composed) -> dict[str, Any]:
    return {name: about for name, about in composed.items() if name not in IGNORED}


def started(about: dict[str, Any]) -> str | None:
    """The local stack's name of what a container starts."""
    command = about["command"]
    return command[4] if command[:4] == ["python", "-m", "lakehouse.stack.container", "start"] else None


def test_the_dockerfile_has_nothing_to_complain_about():
    found = lint(ROOT / "Dockerfile")
    assert (found.returncode, found.stdout) == (0, "")


def test_a_bad_dockerfile_is_complained_about(tmp_path):
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian:latest\nRUN cd /tmp && apt-get install -y curl\n")
    assert "DL3007" in lint(bad).stdout


def test_compose_refuses_a_clone_without_secrets_and_says_what_to_type(clone):
    for file in (clone / ".env", None):
        said = parse(clone)
        assert said.returncode != 0
        assert "make env" in said.stderr
        if file:
            file.unlink()


def test_composes_parser_refuses_what_it_does_not_know(clone):
    (clone / "docker-compose.yaml").write_text("services:\n  a:\n    imgae: b\n")
    assert "imgae" in parse(clone).stderr


def test_every_stage_starts_from_the_same_image_and_the_last_is_no_root():
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"debian:bookworm-slim"}
    assert re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)[-1] == "10001"


def test_whatever_is_installed_by_pip_is_installed_by_hash():
    installs = re.findall(r"pip (?:install|sync)(.*?)(?:&&|$)", DOCKERFILE, re.DOTALL | re.MULTILINE)
    assert len(installs) == 4
    assert all("--require-hashes" in one or "--offline --no-deps" in one for one in installs)


def test_versions_are_those_of_the_local_stack(composed):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    postgres = subprocess.run([bin_dir() / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"MINIO_VERSION=(\S+)", DOCKERFILE)[1] == minio.VERSION
    assert composed["postgres"]["image"] == f"postgres:{postgres.split()[-1]}-bookworm"
    assert {about["image"] for name, about in composed.items() if name != "postgres"} == {f"lakehouse:{version}"}


def test_one_service_builds_the_image_that_all_share(ours):
    assert [name for name, about in ours.items() if "build" in about] == ["minio"]


def test_every_setting_exists_and_has_the_local_default():
    used = re.findall(r"\$\{(LAKEHOUSE_\w+):-([^${}]*)\}", COMPOSE)
    defaults = {f"{PREFIX}{name.upper()}": str(field.default) for name, field in Settings.model_fields.items()}
    assert used
    assert {name: default for name, default in used if defaults[name] != default} == {}
    assert set(re.findall(r"LAKEHOUSE_[A-Z0-9_]+", COMPOSE)) - set(defaults) == set()


def test_every_port_is_published_on_loopback_as_its_setting_says(composed, ready):
    ports = [port for about in composed.values() for port in about.get("ports", ())]
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
    names = [name for name in Settings.model_fields if name.endswith("_port")]
    assert {int(port["published"]) for port in ports} == {Settings.model_fields[name].default for name in names}
    moved = {f"{PREFIX}{name.upper()}": str(20_000 + n) for n, name in enumerate(names)}
    found = json.loads(parse(ready, **moved).stdout)["services"]
    assert {port["published"] for about in found.values() for port in about.get("ports", ())} == set(moved.values())


def test_addresses_lead_to_the_services_of_that_name(ours):
    """With other ports, too: what one container calls is what the other one listens on."""
    for about in ours.values():
        given = Settings(_env_file=None, **_fields(about["environment"]))
        assert given.s3_endpoint == f"http://minio:{given.minio_port}"
        assert given.s3_public_endpoint == f"http://127.0.0.1:{given.minio_port}"
        assert given.catalog_uri == f"http://catalog:{given.catalog_port}"
        assert given.spark_remote == f"sc://spark-connect:{given.spark_port}"
        assert given.airflow_api_url == f"http://airflow:{given.airflow_port}"
        assert given.airflow_url == f"http://127.0.0.1:{given.airflow_port}"
        assert given.postgres_host in given.ledger_url.get_secret_value()


def _fields(environment: dict[str, str]) -> dict[str, str]:
    known = {f"{PREFIX}{name.upper()}": name for name in Settings.model_fields}
    return {known[name]: value for name, value in environment.items() if name in known and value}


def test_containers_start_every_service_of_the_local_stack_and_no_other(ours):
    local = {one.name for one in services(Settings(_env_file=None))} - IGNORED
    names = {name for about in ours.values() if (name := started(about))}
    assert names - {"spark-master", "spark-worker"} == local
    for name in names:
        assert container.find(Settings(_env_file=None), name).name == name


def test_an_unknown_service_is_named():
    with pytest.raises(LakehouseError, match="no service 'sparc'"):
        container.find(Settings(_env_file=None), "sparc")


def test_what_goes_on_is_watched_and_what_asks_waits(composed):
    assert {name for name, about in composed.items() if "healthcheck" not in about} == UNCHECKED
    for name, about in composed.items():
        for needed, how in about.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if needed in ONCE else "service_healthy"
            assert how["condition"] == wanted, f"{name} waits for {needed}"
        if name not in UNCHECKED | {"postgres"}:
            assert about["healthcheck"]["test"][-2:] == ["healthy", started(about)]


def test_every_container_is_limited_and_may_gain_nothing(composed, ours):
    assert all(int(about["mem_limit"]) > 0 for about in composed.values())
    for about in ours.values():
        assert about["cap_drop"] == ["ALL"]
        assert about["security_opt"] == ["no-new-privileges:true"]


def test_data_lies_in_named_volumes():
    assert set(yaml.safe_load(COMPOSE)["volumes"]) == {"postgres", "minio", "airflow-logs", "first-look"}
