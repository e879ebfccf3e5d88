"""`make env`: secrets by sh alone, as Python would make them, and never in place of what is there."""

from __future__ import annotations

import re
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from lakehouse.settings import PREFIX, ROOT, Settings
from lakehouse.stack.pipeline import SAMPLE_DAYS
from lakehouse.stack.secret_file import GENERATED, missing_secrets

LISTED = dict(
    line.split() for line in (ROOT / "include/secrets.txt").read_text().splitlines() if not line.startswith("#")
)
SHAPES = {
    "token": r"[0-9a-f]{64}",
    "password": r"[A-Za-z0-9]{16}",
    "user": r"root-[0-9a-f]{12}",
    "key": r"lake[0-9a-f]{16}",
    "fernet": r"[A-Za-z0-9_-]{43}=",
}


def make_env(file: Path) -> str:
    command = ["sh", ROOT / "include/make-env.sh", file]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout


def values(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / ".env"


def test_the_list_has_what_python_generates_in_the_same_shape():
    assert set(LISTED) == set(GENERATED)
    for name, kind in LISTED.items():
        assert re.fullmatch(SHAPES[kind], GENERATED[name]()), name


def test_every_secret_is_made_in_its_shape_for_the_owner_alone(file):
    make_env(file)
    made = values(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for name, kind in LISTED.items():
        assert re.fullmatch(SHAPES[kind], made[f"{PREFIX}{name.upper()}"]), name
    assert len(set(made.values())) == len(made)
    Fernet(made["LAKEHOUSE_AIRFLOW_FERNET_KEY"])
    known = Settings(_env_file=file)
    assert missing_secrets(known) == {}
    today = datetime.now(UTC).date()
    assert known.start in {today - timedelta(days=SAMPLE_DAYS), today - timedelta(days=SAMPLE_DAYS + 1)}


def test_a_second_time_changes_nothing_but_closes_the_file(file):
    make_env(file)
    before = file.read_text()
    file.chmod(0o644)
    assert ": 0 values made" in make_env(file)
    assert file.read_text() == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_there_stays_and_what_is_empty_is_filled(file):
    file.write_text("# mine\nLAKEHOUSE_S3_ACCESS_KEY=mine\nLAKEHOUSE_SPARK_TOKEN=\nLAKEHOUSE_START=2026-01-01\nOTHER=1")
    file.chmod(0o644)
    make_env(file)
    made = values(file)
    assert file.read_text().startswith("# mine\nLAKEHOUSE_S3_ACCESS_KEY=mine\nLAKEHOUSE_START=2026-01-01\nOTHER=1\n")
    assert (made["LAKEHOUSE_S3_ACCESS_KEY"], made["LAKEHOUSE_START"], made["OTHER"]) == ("mine", "2026-01-01", "1")
    assert file.read_text().count("LAKEHOUSE_SPARK_TOKEN=") == 1
    assert re.fullmatch(SHAPES["token"], made["LAKEHOUSE_SPARK_TOKEN"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_that_comes_from_a_file_is_left_to_it(file):
    file.write_text("LAKEHOUSE_S3_SECRET_KEY_FILE=/run/secrets/s3\n")
    make_env(file)
    assert "LAKEHOUSE_S3_SECRET_KEY" not in values(file)
