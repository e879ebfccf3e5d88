"""`python -m lakehouse.stack.audit`: the bill of materials, and the known advisories on what it names.

Wheels are looked up by pip-audit, jars and MinIO in the same database, OSV. Without a way to it the bill is written all
the same, and one sentence says what was not looked up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

from lakehouse.settings import ROOT
from lakehouse.stack.bill import REQUIREMENTS, Part, parts, write

BILL = ROOT / "build" / "sbom.cdx.json"
OSV = "https://api.osv.dev/v1/querybatch"
AT_A_TIME = 500
SECONDS = 60.0


class Unreachable(Exception):
    """The advisory service cannot be asked."""


Advisory = tuple[str, str, str, str]


def wheels() -> Iterator[Advisory]:
    """Advisories on wheels: name, version, advisory, first version without it."""
    options = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--vulnerability-service", "osv"]
    command = [sys.executable, "-m", "pip_audit", "-r", str(REQUIREMENTS), *options, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        raise Unreachable(_last(done.stderr)) from None
    yield from advisories(found)


def advisories(dependencies: Sequence[dict[str, object]]) -> Iterator[Advisory]:
    """The lines of pip-audit's answer; one that it skipped was not looked up."""
    for one in dependencies:
        if "skip_reason" in one:
            raise Unreachable(str(one["skip_reason"]))
        known: list[dict[str, list[str]]] = one["vulns"]  # type: ignore[assignment]
        for advisory in known:
            fixed = (advisory["fix_versions"] or ["none yet"])[0]
            yield str(one["name"]), str(one["version"]), str(advisory["id"]), fixed


def others(found: Sequence[Part], service: str = OSV) -> Iterator[Advisory]:
    """Advisories on what is no wheel."""
    for start in range(0, len(found), AT_A_TIME):
        some = found[start : start + AT_A_TIME]
        queries = [{"package": {"purl": part.purl.partition("?")[0]}} for part in some]
        try:
            answer = httpx.post(service, json={"queries": queries}, timeout=SECONDS).raise_for_status()
        except httpx.HTTPError as error:
            raise Unreachable(str(error)) from None
        for part, known in zip(some, answer.json()["results"], strict=True):
            for advisory in known.get("vulns", ()):
                yield part.name, part.version, advisory["id"], f"see https://osv.dev/{advisory['id']}"


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def main(place: Path = BILL) -> int:
    """0 if nothing is known, or nothing could be asked; 1 if there are advisories."""
    print(f"{write(place)} parts are named in {place.relative_to(ROOT)}.")
    rest = [part for part in parts() if not part.purl.startswith("pkg:pypi/")]
    advisories: list[Advisory] = []
    for what, look in (("wheels", wheels), ("jars and MinIO", lambda: others(rest))):
        try:
            advisories += look()
        except Unreachable as why:
            print(f"The {what} were not looked up, as the advisory service cannot be reached: {str(why)[:100]}")
    for name, version, advisory, fixed in advisories:
        print(f"{name} {version}: {advisory}, fixed in {fixed}")
    return 1 if advisories else 0


if __name__ == "__main__":
    sys.exit(main())
