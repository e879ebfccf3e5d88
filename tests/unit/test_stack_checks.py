"""What a machine lacks is said in one sentence."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings
from lakehouse.stack import doctor, jars
from lakehouse.stack.java import Java, find_java, inspect

LAKEHOUSE = Path(sys.executable).parent / "lakehouse"


def fake_java(folder: Path, version: str, *, compiler: bool = True) -> Path:
    """A Java home whose java only tells its version."""
    (folder / "bin").mkdir(parents=True)
    for name in ("java", "javac") if compiler else ("java",):
        program = folder / "bin" / name
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
        program.chmod(0o755)
    return folder


def complaint(tmp_path: Path, *command: str, **variables: str) -> str:
    """What a command prints on failing, which must be one line and no traceback."""
    env = {
        **os.environ,
        "LAKEHOUSE_HOME": str(tmp_path / "home"),
        "LAKEHOUSE_ENV_FILE": str(tmp_path / ".env"),
        **variables,
    }
    done = subprocess.run([LAKEHOUSE, *command], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


@pytest.mark.parametrize(
    ("version", "major", "usable"),
    [("1.8.0_402", 8, False), ("11.0.2", 11, False), ("17.0.15", 17, True), ("21", 21, True), ("25.0.1", 25, False)],
)
def test_the_version_of_a_java_is_recognised(tmp_path, version, major, usable) -> None:
    home = fake_java(tmp_path, version)
    assert inspect(home) == Java(home, major, True)
    assert inspect(home).usable is usable


def test_a_wrong_java_home_is_named_with_what_to_do(tmp_path) -> None:
    said = complaint(tmp_path, "up", JAVA_HOME=str(fake_java(tmp_path / "jdk", "11.0.2")))
    assert "Java 11" in said
    assert "JDK 17 or 21" in said


def test_a_java_without_compiler_is_not_enough(tmp_path) -> None:
    said = complaint(tmp_path, "up", JAVA_HOME=str(fake_java(tmp_path / "jre", "17.0.1", compiler=False)))
    assert "has no compiler" in said


def test_java_home_without_java_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    find_java.cache_clear()
    with pytest.raises(LakehouseError, match="No Java found for JAVA_HOME"):
        find_java()
    find_java.cache_clear()


def test_a_taken_port_is_named_with_its_holder_and_its_setting(tmp_path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = complaint(tmp_path, "up", "--only", "postgres", LAKEHOUSE_POSTGRES_PORT=str(port))
    assert f"Port {port} for postgres is taken by" in said
    assert f"(process {os.getpid()})" in said
    assert "LAKEHOUSE_POSTGRES_PORT" in said


def test_too_little_disk_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "FREE_DISK", 1 << 60)
    with pytest.raises(LakehouseError, match="GiB are free in"):
        doctor.check_disk(Settings(_env_file=None, home=tmp_path))


def test_an_unknown_service_or_group_is_named(tmp_path) -> None:
    assert "groups are data, airflow" in complaint(tmp_path, "up", "--only", "databse")
    assert "There is no log of 'databse'" in complaint(tmp_path, "logs", "databse")


def test_a_damaged_jar_is_noticed(tmp_path) -> None:
    good = jars.Jar("spark", "org", "good", "1", "", hashlib.sha256(b"right").hexdigest())
    classified = jars.Jar("spark", "org", "good", "1", "tests", hashlib.sha256(b"other").hexdigest())
    (tmp_path / good.file_name).write_bytes(b"right")
    (tmp_path / classified.file_name).write_bytes(b"damaged")
    assert jars.wrong([good, classified], tmp_path) == [classified]


def test_every_jar_has_a_sum_and_one_place(tmp_path) -> None:
    for use in ("spark", "catalog"):
        found = jars.manifest(use)
        assert all(len(jar.sha256) == 64 for jar in found)
        assert len({jar.file_name for jar in found}) == len(found) > 0
