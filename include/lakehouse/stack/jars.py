"""The jars of the stack: fetched once per machine by Ivy, and never used unless their SHA-256 is the one we keep."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from lakehouse.errors import LakehouseError
from lakehouse.settings import ROOT, Settings, cache_dir
from lakehouse.stack.java import find_java

MANIFEST = ROOT / "include" / "jars.txt"


@dataclass(frozen=True)
class Jar:
    """One file by its Maven coordinates, with the sum it must have."""

    use: str
    organisation: str
    module: str
    revision: str
    classifier: str
    sha256: str

    @classmethod
    def parse(cls, use: str, coordinates: str, sha256: str) -> Self:
        """From a line of the manifest."""
        organisation, module, revision, *classifier = coordinates.split(":")
        return cls(use, organisation, module, revision, "".join(classifier), sha256)

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.module, self.revision, self.classifier))) + ".jar"

    @property
    def artifact(self) -> str:
        """How an ivy.xml names this file."""
        extra = f' m:classifier="{self.classifier}"' if self.classifier else ""
        return f'<artifact name="{self.module}" type="jar"{extra}/>'


def manifest(use: str) -> list[Jar]:
    """The jars for `spark` or for the `catalog`."""
    lines = (line.split() for line in MANIFEST.read_text().splitlines() if line and not line.startswith("#"))
    return [Jar.parse(kind, coordinates, sha256) for kind, coordinates, sha256 in lines if kind == use]


def folder(use: str) -> Path:
    return cache_dir() / ("jars" if use == "spark" else "catalog-jars")


def paths(use: str) -> list[Path]:
    """The files for a class path, by name: the folder may hold other clones' versions too."""
    return [folder(use) / jar.file_name for jar in manifest(use)]


def spark_jars(settings: Settings) -> list[Path]:
    """Spark's extra jars: those of the user's folder if one is set, else ours."""
    return sorted(settings.spark_jars.glob("*.jar")) if settings.spark_jars else paths("spark")


def wrong(jars: Sequence[Jar], where: Path) -> list[Jar]:
    """Those that are missing, or whose content is not what it must be."""
    return [jar for jar in jars if _sum(where / jar.file_name) != jar.sha256]


def ensure_jars(use: str) -> int:
    """Have every jar in place and verified; return how many had to be fetched."""
    jars, where = manifest(use), folder(use)
    if not wrong(jars, where):
        return 0
    with _alone(where):
        needed = wrong(jars, where)
        if needed:
            _fetch(needed, where)
        return len(needed)


def _fetch(jars: Sequence[Jar], where: Path) -> None:
    # A fresh Ivy cache: a damaged copy in a shared one would be handed out again.
    with tempfile.TemporaryDirectory(dir=where, prefix=".fetch-") as scratch:
        _run_ivy(jars, Path(scratch))
        bad = wrong(jars, Path(scratch))
        if bad:
            names = ", ".join(jar.file_name for jar in bad)
            raise LakehouseError(f"{names}: download failed, or does not match include/jars.txt; try again.")
        for jar in jars:
            (Path(scratch) / jar.file_name).replace(where / jar.file_name)


def _run_ivy(jars: Sequence[Jar], scratch: Path) -> None:
    ivy_xml = scratch / "ivy.xml"
    ivy_xml.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="lakehouse" module="jars"/><configurations defaultconfmapping="default->master">'
        '<conf name="default"/></configurations><dependencies>'
        f"{''.join(_dependencies(jars))}</dependencies></ivy-module>"
    )
    ivy = next((pyspark_home() / "jars").glob("ivy-*.jar"))
    layout = f"{scratch}/[artifact]-[revision](-[classifier]).[ext]"
    command: list[str | Path] = [find_java().program, "-jar", ivy, "-ivy", ivy_xml, "-cache", scratch / "cache"]
    done = subprocess.run(
        [*command, "-confs", "default", "-retrieve", layout], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = next((line.strip() for line in done.stdout.splitlines()[::-1] if line.strip()), "no output")
        raise LakehouseError(f"Jars could not be fetched ({reason}): check the network, then try again.")


def _dependencies(jars: Sequence[Jar]) -> Iterator[str]:
    """Ivy's lines, which ask for these files and nothing behind them: one a module, also for two of its files."""
    modules: dict[tuple[str, str, str], list[str]] = {}
    for jar in jars:
        modules.setdefault((jar.organisation, jar.module, jar.revision), []).append(jar.artifact)
    for (organisation, module, revision), artifacts in modules.items():
        head = f'<dependency org="{organisation}" name="{module}" rev="{revision}" transitive="false">'
        yield f"{head}{''.join(artifacts)}</dependency>"


def pyspark_home() -> Path:
    """The Spark that comes with PySpark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LakehouseError("PySpark is not installed: run `make venv`.")
    return Path(spec.origin).parent


@contextmanager
def _alone(where: Path) -> Iterator[None]:
    """Let one process at a time fetch into a folder that all clones share."""
    where.mkdir(parents=True, exist_ok=True)
    with (where / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sum(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
