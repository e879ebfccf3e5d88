"""Finding a Java that Spark and the catalog can run on."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lakehouse.errors import LakehouseError
from lakehouse.settings import ROOT, environment

SUPPORTED = (17, 21)
# The catalog's launcher, where somebody has compiled it: then nothing is left to compile.
COMPILED = ROOT / "include" / "catalog" / "RestCatalog.class"
FIX = "install a JDK 17 or 21 (Debian: apt install openjdk-17-jdk-headless) or point JAVA_HOME at one"


@dataclass(frozen=True)
class Java:
    """A Java home, its major version, and whether it can compile (a JDK rather than a JRE)."""

    home: Path
    version: int
    compiles: bool

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def usable(self) -> bool:
        return self.version in SUPPORTED and (self.compiles or COMPILED.exists())


@lru_cache(maxsize=1)
def find_java() -> Java:
    """The Java to use: the one of JAVA_HOME if that is set, else the first usable one on this machine."""
    chosen = environment().get("JAVA_HOME")
    if chosen:
        return _demand(inspect(Path(chosen)), f"JAVA_HOME={chosen}")
    found = [java for home in _homes() if (java := inspect(home))]
    usable = next((java for java in found if java.usable), None)
    return usable or _demand(found[0] if found else None, "this machine")


def _demand(java: Java | None, where: str) -> Java:
    if java is None:
        raise LakehouseError(f"No Java found for {where}: {FIX}.")
    if java.version not in SUPPORTED:
        raise LakehouseError(f"Java {java.version} ({where}) is not supported, Spark needs 17 or 21: {FIX}.")
    if not java.usable:
        raise LakehouseError(f"Java {java.version} ({where}) has no compiler, a JRE is not enough: {FIX}.")
    return java


def inspect(home: Path) -> Java | None:
    """What kind of Java is in this folder; None if there is none."""
    program = home / "bin" / "java"
    if not program.exists():
        return None
    try:
        shown = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except OSError:
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', shown)
    return Java(home, int(version.group(1)), (home / "bin" / "javac").exists()) if version else None


def _homes() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for folder in ("/usr/lib/jvm", "/opt/java", "~/.sdkman/candidates/java", "/Library/Java/JavaVirtualMachines"):
        for home in sorted(Path(folder).expanduser().glob("*")):
            yield home / "Contents" / "Home" if (home / "Contents").exists() else home
