"""The bill of materials: every wheel, every jar and MinIO, as CycloneDX has it, read from the project's own locks."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.settings import ROOT
from lakehouse.stack import jars, minio

REQUIREMENTS = ROOT / "requirements.txt"
# What makes the environment, and what builds MinIO.
TOOLS = (ROOT / "include/locks/uv.txt", ROOT / "include/locks/go.txt")
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^ ;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Part:
    """Something that others made and that we use."""

    name: str
    version: str
    purl: str
    group: str = ""
    sums: tuple[str, ...] = ()

    def component(self) -> dict[str, Any]:
        """As CycloneDX writes it. One sum is the file's; of several wheels each has its own, as a reference."""
        found: dict[str, Any] = {"type": "library", "bom-ref": self.purl, "name": self.name, "version": self.version}
        if self.group:
            found["group"] = self.group
        found["purl"] = self.purl
        if len(self.sums) == 1:
            found["hashes"] = [_sha256(self.sums[0])]
        elif self.sums:
            found["externalReferences"] = [
                {"type": "distribution", "url": self.purl, "hashes": [_sha256(one)]} for one in self.sums
            ]
        return found


def _sha256(value: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": value}


def parts() -> list[Part]:
    """All of them, in the order of their kinds."""
    locked = [part for lock in (REQUIREMENTS, *TOOLS) for part in wheels(lock.read_text(encoding="utf-8"))]
    return [*{part.purl: part for part in locked}.values(), *_jars(), _minio()]


def wheels(locked: str) -> Iterator[Part]:
    """What a lock with hashes pins."""
    pins = list(_PIN.finditer(locked))
    ends = [*(one.start() for one in pins[1:]), len(locked)]
    for pin, end in zip(pins, ends, strict=True):
        name, version = pin["name"].lower(), pin["version"]
        sums = tuple(_HASH.findall(locked, pin.end(), end))
        yield Part(name, version, f"pkg:pypi/{name}@{version}", sums=sums)


def _jars() -> Iterator[Part]:
    seen = {jar.sha256: jar for use in ("spark", "catalog") for jar in jars.manifest(use)}
    for jar in seen.values():
        kind = f"?classifier={jar.classifier}&type=jar" if jar.classifier else "?type=jar"
        purl = f"pkg:maven/{jar.organisation}/{jar.module}@{jar.revision}{kind}"
        yield Part(jar.module, jar.revision, purl, jar.organisation, (jar.sha256,))


def _minio() -> Part:
    return Part("minio", minio.VERSION, f"pkg:golang/{minio.MODULE}@{minio.VERSION}")


def bill(found: Sequence[Part]) -> dict[str, Any]:
    """The same parts give the same bill, its serial number included."""
    components = [part.component() for part in found]
    digest = hashlib.sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "lakehouse", "name": "lakehouse"}},
        "components": components,
    }


def write(path: Path) -> int:
    """Write the bill, and return how many parts it names."""
    made = bill(parts())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    return len(made["components"])
