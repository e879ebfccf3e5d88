"""A Docker engine with Compose: the one that answers, else one of the tests' own, kept with its cache in ~/.cache.

Nothing of what an engine without a registry needs, as stand-ins for images that cannot be pulled or the machine's own
certificates, is in the Dockerfile or in docker-compose.yaml: it is here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lakehouse.settings import cache_dir
from lakehouse.stack.minio import find_go
from tests.stack.harness import eventually

COMPOSE = "v2.40.3"
PACKAGES = ("docker.io", "debootstrap", "iptables")
START_SECONDS = 60
BUILD_SECONDS = 5400


class NoEngine(AssertionError):
    """There is no engine, and none can be had; the sentence says what to do."""


@dataclass(frozen=True)
class Engine:
    """A way to an engine; `own` is one that the tests have started, and may fill with stand-ins."""

    own: bool
    environment: dict[str, str] = field(default_factory=dict)

    def docker(
        self, *arguments: str, check: bool = True, cwd: Path | None = None, timeout: float = BUILD_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run the docker command; a failure shows the end of what it said."""
        done = subprocess.run(
            ["docker", *arguments],
            env={**os.environ, **self.environment},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        said = (done.stdout + done.stderr)[-3000:]
        assert done.returncode == 0 or not check, f"docker {' '.join(arguments)}: {said}"
        return done

    def has(self, image: str) -> bool:
        return self.docker("image", "inspect", image, check=False).returncode == 0

    def old(self) -> bool:
        """Whether it is older than 25, and does not know a health check's start_interval."""
        version = self.docker("version", "--format", "{{.Server.APIVersion}}").stdout.strip()
        return tuple(map(int, version.split("."))) < (1, 44)


@contextmanager
def engine() -> Iterator[Engine]:
    """The engine that answers, or one of our own, which ends here. Its images and layers stay for the next time."""
    found = Engine(own=False)
    if shutil.which("docker") and found.docker("version", check=False).returncode == 0:
        yield _with_compose(found)
        return
    _install()
    with tempfile.TemporaryDirectory(prefix="lakehouse-docker-", ignore_cleanup_errors=True) as run:
        started = _start(Path(run))
        try:
            own = Engine(own=True, environment={"DOCKER_HOST": f"unix://{run}/docker.sock", "DOCKER_BUILDKIT": "0"})
            answers = lambda: own.docker("version", check=False).returncode == 0  # noqa: E731
            eventually(answers, START_SECONDS, f"dockerd answers; see {home() / 'dockerd.log'}")
            yield _with_compose(own)
        finally:
            started.terminate()
            started.wait(START_SECONDS)
            # It leaves a mount behind, which would keep its folder.
            subprocess.run(["umount", f"{run}/exec/netns/default"], capture_output=True, check=False)


def home() -> Path:
    """Where the tests' own engine keeps its data, and what was fetched for it."""
    return cache_dir() / "docker"


def _install() -> None:
    missing = [name for name in ("dockerd", "docker", "debootstrap", "iptables") if not shutil.which(name)]
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NoEngine(f"No Docker engine answers, and one needs {', '.join(missing)} and root: start Docker first.")
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        subprocess.run(
            ["apt-get", "--quiet", *command], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=True
        )


def _start(run: Path) -> subprocess.Popen[bytes]:
    """dockerd, with everything it writes in folders of its own."""
    if os.geteuid() != 0:
        raise NoEngine("No Docker engine answers, and only root can start one: start Docker, then try again.")
    data = home() / "data"
    data.mkdir(parents=True, exist_ok=True)
    places = {"data-root": data, "exec-root": run / "exec", "pidfile": run / "docker.pid"}
    options = [f"--{name}={path}" for name, path in places.items()]
    with (home() / "dockerd.log").open("ab") as log:
        return subprocess.Popen(
            [
                "dockerd",
                "--storage-driver=overlay2",
                "--default-ulimit=nofile=10000:10000",
                f"--host=unix://{run}/docker.sock",
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _with_compose(found: Engine) -> Engine:
    """The same engine with Compose v2 at hand: the machine's own, else built once from its source."""
    if found.docker("compose", "version", check=False).returncode == 0:
        return found
    config = home() / "config"
    plugin = config / "cli-plugins" / "docker-compose"
    if not plugin.exists():
        plugin.parent.mkdir(parents=True, exist_ok=True)
        _build_compose(plugin)
    return Engine(found.own, {**found.environment, "DOCKER_CONFIG": str(config)})


def _build_compose(target: Path) -> None:
    """Its module has `replace` lines, which `go install` refuses: so as a tool of a module of our own."""
    package = "github.com/docker/compose/v2/cmd"
    go, env = find_go(lambda _: None), {**os.environ, "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="compose-") as scratch:
        for arguments in (
            ["mod", "init", "standin"],
            ["get", "-tool", f"{package}@{COMPOSE}"],
            ["build", "-trimpath", "-o", "docker-compose", package],
        ):
            subprocess.run([go, *arguments], cwd=scratch, env=env, check=True)
        shutil.move(f"{scratch}/docker-compose", target)
