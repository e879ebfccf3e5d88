"""Who may do what: the roles of the platform, and what each may do on the store and in the catalog.

One table of rights; the store's policies and the catalog's rules are both made from it. Everything that is not named
here is denied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lakehouse.naming import ARCHIVE, CLEARED, JOBS, NAMESPACES, layer_of


class Role(StrEnum):
    """An identity of the store and of the catalog."""

    INGEST = "ingest"
    TRANSFORM = "transform"
    MAINTENANCE = "maintenance"
    READER = "reader"
    ADMIN = "admin"


# Those that have keys and tokens of their own; admin is who LAKEHOUSE_S3_ACCESS_KEY and LAKEHOUSE_CATALOG_TOKEN are.
NARROW = (Role.INGEST, Role.TRANSFORM, Role.MAINTENANCE, Role.READER)


@dataclass(frozen=True)
class Rights:
    """What a role may do. Tables are meant by their namespaces, and documents by the layers of the jobs' datasets.

    Who deletes may do so in the whole warehouse: the catalog keeps metadata with that key, also admin's other tables'.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    reads_landing: bool = False
    clears_landing: bool = False
    deletes: bool = False


RIGHTS = {
    Role.INGEST: Rights(reads=("bronze",), writes=("bronze",), documents=("bronze",), reads_landing=True),
    Role.TRANSFORM: Rights(
        reads=NAMESPACES, writes=("silver", "gold", "quarantine", "ops"), documents=("silver", "gold")
    ),
    Role.MAINTENANCE: Rights(
        reads=NAMESPACES, writes=NAMESPACES, documents=NAMESPACES, clears_landing=True, deletes=True
    ),
    Role.READER: Rights(reads=("silver", "gold")),
}


def role_for(dataset: str) -> Role:
    """Who writes a dataset."""
    return Role.INGEST if layer_of(dataset) == "bronze" else Role.TRANSFORM


# --- The store ---

_READ, _DELETE = ("s3:GetObject",), ("s3:DeleteObject",)
# A big file is sent in parts; one that is given up is not left behind.
_WRITE = ("s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")


def policy(role: Role, landing: str, warehouse: str) -> dict[str, Any]:
    """The role's S3 policy for these two buckets, as JSON has it."""
    if role is Role.ADMIN:
        everywhere = [f"arn:aws:s3:::{bucket}{suffix}" for bucket in (landing, warehouse) for suffix in ("", "/*")]
        return _policy([_allow(("s3:*",), everywhere)])
    rights = RIGHTS[role]
    tables = {name: f"{name}/" for name in NAMESPACES}
    documents = [f"{JOBS}/{layer}." for layer in rights.documents]
    read = [""] if rights.deletes else [*(tables[name] for name in rights.reads), *documents]
    written = [""] if rights.deletes else [*(tables[name] for name in rights.writes), *documents]
    statements = [
        _allow(("s3:GetBucketLocation",), [f"arn:aws:s3:::{warehouse}"]),
        _listing(warehouse, read),
        _allow(_READ, _objects(warehouse, read)),
    ]
    if rights.reads_landing:
        statements.append(_allow(("s3:ListBucket", "s3:GetBucketLocation"), [f"arn:aws:s3:::{landing}"]))
        statements.append(_allow(_READ, _objects(landing, [""])))
    if rights.clears_landing:
        statements += _clearing(landing)
    if written:
        statements.append(_allow(_WRITE, _objects(warehouse, written)))
    if rights.deletes:
        statements.append(_allow(_DELETE, _objects(warehouse, written)))
    return _policy(statements)


def _clearing(landing: str) -> list[dict[str, Any]]:
    """Copying landing files to the archive, marking their folders, removing versions; what is in the archive stays."""
    of_bucket = ("s3:ListBucket", "s3:ListBucketVersions", "s3:GetBucketLocation", "s3:GetBucketVersioning")
    everything, archive = _objects(landing, [""]), _objects(landing, [ARCHIVE])
    one_version = {"StringLike": {"s3:versionid": "?*"}}
    return [
        _allow(of_bucket, [f"arn:aws:s3:::{landing}"]),
        _allow((*_READ, "s3:GetObjectVersion"), everything),
        _allow(_WRITE, archive),
        _allow(("s3:PutObject",), [f"arn:aws:s3:::{landing}/*/{CLEARED}"]),
        _allow(("s3:DeleteObjectVersion",), everything),
        # MinIO asks for the right to delete, and tells which version is meant: without one nothing may be hidden.
        {**_allow(_DELETE, everything), "Condition": one_version},
        {**_allow(("s3:DeleteObject", "s3:DeleteObjectVersion"), archive), "Effect": "Deny"},
    ]


def _policy(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


def _allow(actions: Iterable[str], resources: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resources}


def _listing(bucket: str, prefixes: Sequence[str]) -> dict[str, Any]:
    found = _allow(("s3:ListBucket",), [f"arn:aws:s3:::{bucket}"])
    if "" in prefixes:  # a condition would refuse who asks without a prefix
        return found
    return {**found, "Condition": {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}}}


def _objects(bucket: str, prefixes: Iterable[str]) -> list[str]:
    return [f"arn:aws:s3:::{bucket}/{prefix}*" for prefix in prefixes]
