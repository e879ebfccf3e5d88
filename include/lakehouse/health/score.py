"""One number for a table's health, its parts, and what somebody should be told. Decides; reads nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from lakehouse.contracts.fields import write_duration
from lakehouse.contracts.keeping import Maintenance, Retention
from lakehouse.health.model import Facts, TableHealth
from lakehouse.wording import size

# What Iceberg writes into one manifest before it begins the next.
MANIFEST_BYTES = 8 << 20


class Part(Facts):
    """Points for one side of health, out of how many, and what they were given for."""

    name: str
    points: float
    of: int
    why: str


class Score(Facts):
    """From 0 to 100. A side that is just at its threshold has half of its points."""

    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        return round(sum(part.points for part in self.parts))


class Concern(Facts):
    """Something that on-call should know of a table: its kind stays the same while it lasts."""

    kind: str
    told: str


def score(found: TableHealth, policy: Maintenance, retention: Retention, now: datetime) -> Score:
    """How healthy the table is by its own contract's thresholds."""
    limit = policy.most_amplification
    files = f"{found.small_files} of {found.files} files are small"
    deletes = f"{_share(found.deleted_share)} of the rows are deleted, and still in the files"
    opened = (
        f"a query of one partition opens {found.files_to_open:.1f} files, {found.amplification:.1f} for each needed"
    )
    return Score(
        parts=(
            _part("small files", 30, _strain(found.small_share, policy.most_small), files),
            _part("deletes", 20, _strain(found.deleted_share, policy.deleted_share), deletes),
            _part("reading", 20, (found.amplification - 1) / (limit - 1), opened),
            _part(
                "file size", 10, _too_small(found, policy), f"half of the files are below {size(found.median_bytes)}"
            ),
            _part("history", 10, *_overdue(found, retention, now)),
            _part("lists of files", 10, *_lists(found, policy)),
        )
    )


def concerns(found: TableHealth, policy: Maintenance) -> list[Concern]:
    """What is past its threshold."""
    megabyte = 1 << 20
    small = found.small_share > policy.most_small and found.files >= policy.min_input_files
    tiny = found.bytes >= policy.matters_mb * megabyte and found.median_bytes < policy.least_median_mb * megabyte
    checks = (
        (small, "small_files", f"{_share(found.small_share)} of {found.files} files are small"),
        (tiny, "median", f"half of {found.files} files are below {size(found.median_bytes)}"),
        (
            found.delete_bytes > policy.most_delete_mb * megabyte,
            "deletes",
            f"{size(found.delete_bytes)} of deletes are applied at every read",
        ),
        (
            found.amplification > policy.most_amplification,
            "amplification",
            f"a query opens {found.amplification:.1f} files for each that it needs",
        ),
    )
    return [Concern(kind=kind, told=text) for wrong, kind, text in checks if wrong]


def _strain(value: float, limit: float) -> float:
    return value / limit if limit else 2.0 * bool(value)


def _part(name: str, of: int, strain: float, why: str) -> Part:
    """All points at no strain, half of them at the threshold, none from twice of it on."""
    return Part(name=name, points=round(of * (1 - min(1.0, max(0.0, strain) / 2)), 1), of=of, why=why)


def _too_small(found: TableHealth, policy: Maintenance) -> float:
    """A small table has small files, and nobody minds."""
    least = policy.least_median_mb << 20
    if found.bytes < policy.matters_mb << 20:
        return 0.0
    return 2 * max(0.0, 1 - found.median_bytes / least)


def _overdue(found: TableHealth, retention: Retention, now: datetime) -> tuple[float, str]:
    oldest = found.oldest_snapshot_ms
    if oldest is None or found.snapshots <= retention.keep_last:
        return 0.0, f"{found.snapshots} versions are kept"
    age = now - datetime.fromtimestamp(oldest / 1000, UTC)
    kept = write_duration(retention.history)
    strain = age / retention.history - 1 if retention.history else 2.0
    return strain, f"{found.snapshots} versions, the oldest of {age.days} days; kept are {kept}"


def _lists(found: TableHealth, policy: Maintenance) -> tuple[float, str]:
    needed = max(1, -(-found.manifest_bytes // MANIFEST_BYTES))
    return (
        found.manifests - needed
    ) / policy.min_manifests, f"{found.manifests} lists of files where {needed} would do"


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 or not value else f"{value:.2%}"
