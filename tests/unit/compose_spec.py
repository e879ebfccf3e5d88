"""Compose's own parser, compose-go, built once per machine from its pinned source (some seconds)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lakehouse.settings import cache_dir
from lakehouse.stack.minio import find_go

# The one inside Compose 2.40.3, with which the containers' own test works.
MODULE = "github.com/compose-spec/compose-go/v2/cli@v2.9.1"
SOURCE = Path(__file__).parent / "compose" / "main.go"


def parse(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Read docker-compose.yaml of a folder as Compose does, with its .env, and nothing of our own environment."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables}
    return subprocess.run([_parser()], cwd=folder, env=env, capture_output=True, text=True, check=False)


def _parser() -> Path:
    known = hashlib.sha256(MODULE.encode() + SOURCE.read_bytes()).hexdigest()[:12]
    program = cache_dir() / "compose-go" / known
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(program)
    return program


def _build(target: Path) -> None:
    go, env = find_go(lambda _: None), {**os.environ, "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="compose-go-") as scratch:
        shutil.copy(SOURCE, scratch)
        for arguments in (["mod", "init", "parser"], ["get", MODULE], ["build", "-trimpath", "-o", "parser", "."]):
            done = subprocess.run([go, *arguments], cwd=scratch, env=env, check=False, capture_output=True, text=True)
            assert done.returncode == 0, f"go {' '.join(arguments)}: {done.stderr}"
        shutil.move(f"{scratch}/parser", target)
