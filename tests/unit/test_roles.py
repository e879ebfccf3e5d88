"""What each role's policy allows, by the rules of S3, and that nothing else is."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from pydantic import SecretStr

from lakehouse import catalog
from lakehouse.identities import acting, acting_as, by_its_writer, identity
from lakehouse.naming import NAMESPACES, job_key
from lakehouse.roles import NARROW, RIGHTS, Role, policy, role_for
from lakehouse.settings import Settings
from lakehouse.stack.catalog import Catalog, access_environment

GET, PUT, DELETE, LIST = "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"


def fits(patterns: Any, value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def allowed(role: Role, action: str, bucket: str, key: str = "", version: str = "") -> bool:
    """What S3 would answer; a listing's key is the prefix that is asked for."""
    found = set()
    target = f"arn:aws:s3:::{bucket}" + (f"/{key}" if key and action != LIST else "")
    for statement in policy(role, "landing", "lake")["Statement"]:
        asked = statement.get("Condition", {}).get("StringLike", {})
        seen = (action != LIST or fits(asked.get("s3:prefix", ["*"]), key)) and fits(
            [asked.get("s3:versionid", "*")], version
        )
        if seen and fits(statement["Action"], action) and fits(statement["Resource"], target):
            found.add(statement["Effect"])
    return found == {"Allow"}


def tables(role: Role, action: str) -> set[str]:
    """The namespaces whose files the role may treat so."""
    return {name for name in NAMESPACES if allowed(role, action, "lake", f"{name}/orders/data/one.parquet")}


EVERYTHING = set(NAMESPACES)


@pytest.mark.parametrize(
    ("role", "reads", "writes", "deletes"),
    [
        (Role.INGEST, {"bronze"}, {"bronze"}, set()),
        (Role.TRANSFORM, EVERYTHING, {"silver", "gold", "quarantine", "ops"}, set()),
        (Role.MAINTENANCE, EVERYTHING, EVERYTHING, EVERYTHING),
        (Role.READER, {"silver", "gold"}, set(), set()),
        (Role.ADMIN, EVERYTHING, EVERYTHING, EVERYTHING),
    ],
)
def test_a_role_reads_writes_and_deletes_tables_of_its_own_layers(role, reads, writes, deletes) -> None:
    assert (tables(role, GET), tables(role, PUT), tables(role, DELETE)) == (reads, writes, deletes)
    assert {name for name in NAMESPACES if allowed(role, LIST, "lake", f"{name}/orders/")} == reads


def test_only_ingest_and_maintenance_read_landing_and_no_role_writes_it() -> None:
    both = [Role.INGEST, Role.MAINTENANCE]
    assert [role for role in NARROW if allowed(role, GET, "landing", "orders/one.jsonl")] == both
    assert [role for role in NARROW if allowed(role, LIST, "landing", "orders/")] == both
    assert [role for role in NARROW if allowed(role, PUT, "landing", "orders/one.jsonl")] == []


def test_only_maintenance_removes_versions_from_landing_and_hides_none_and_keeps_its_archive() -> None:
    """AWS has a right for versions; MinIO asks for the right to delete, with the version as a condition."""
    one, kept = "orders/one.jsonl", "_archive/bronze.orders/b/orders/one.jsonl"
    for action in (DELETE, "s3:DeleteObjectVersion"):
        may = [role for role in NARROW if allowed(role, action, "landing", one, version="v1")]
        assert may == [Role.MAINTENANCE]
        assert [role for role in NARROW if allowed(role, action, "landing", kept, version="v1")] == []
    assert [role for role in NARROW if allowed(role, DELETE, "landing", one)] == []
    assert [role for role in NARROW if allowed(role, PUT, "landing", kept)] == [Role.MAINTENANCE]
    for marked, may in (("orders/1/_CLEARED", [Role.MAINTENANCE]), ("orders/1/_CLEARED.json", []), ("a_CLEARED", [])):
        assert [role for role in NARROW if allowed(role, PUT, "landing", marked)] == may
    assert [role for role in NARROW if allowed(role, "s3:PutBucketVersioning", "landing")] == []


def test_job_documents_are_for_those_who_run_the_jobs() -> None:
    def writers(dataset: str) -> list[Role]:
        return [role for role in NARROW if allowed(role, PUT, "lake", job_key(dataset, "run#1", "write"))]

    assert writers("bronze.orders") == [Role.INGEST, Role.MAINTENANCE]
    assert writers("silver.orders") == writers("gold.sales") == [Role.TRANSFORM, Role.MAINTENANCE]


def test_no_role_makes_buckets_and_only_maintenance_sees_the_whole_warehouse() -> None:
    assert [role for role in NARROW if allowed(role, "s3:CreateBucket", "lake")] == []
    assert [role for role in NARROW if allowed(role, LIST, "lake", "")] == [Role.MAINTENANCE]
    assert [role for role in NARROW if allowed(role, PUT, "lake", "elsewhere/x")] == [Role.MAINTENANCE]


def test_a_layer_with_a_name_that_begins_like_another_is_another() -> None:
    assert not allowed(Role.READER, GET, "lake", "silverware/one.parquet")


def test_only_maintenance_deletes() -> None:
    assert [role for role, rights in RIGHTS.items() if rights.deletes] == [Role.MAINTENANCE]


def test_a_role_has_its_own_keys_and_the_platforms_where_it_has_none() -> None:
    given = Settings(
        _env_file=None,
        s3_access_key="lake",
        s3_secret_key=SecretStr("all"),
        catalog_token=SecretStr("every"),
        s3_reader_secret_key=SecretStr("few"),
        catalog_ingest_token=SecretStr("in"),
    )
    assert identity(given, Role.READER) == type(identity(given, Role.READER))("reader", "few", "every")
    assert identity(given, Role.INGEST).access_key == "lake"
    assert identity(given, Role.INGEST).token == "in"
    assert identity(given, Role.ADMIN).secret_key == "all"


def test_work_is_done_in_the_innermost_role(monkeypatch) -> None:
    assert acting() is Role.ADMIN
    with acting_as(Role.INGEST):
        with acting_as(Role.READER):
            assert acting() is Role.READER
        assert acting() is Role.INGEST
    assert acting() is Role.ADMIN


class Known:
    def __init__(self, dataset: str) -> None:
        self.dataset = dataset


@by_its_writer
def who(contract: Known) -> Role:
    return acting()


def test_a_step_is_taken_by_the_writer_of_its_dataset() -> None:
    found = {dataset: who(Known(dataset)) for dataset in ("bronze.a", "silver.a", "gold.a")}
    assert found == {"bronze.a": Role.INGEST, "silver.a": Role.TRANSFORM, "gold.a": Role.TRANSFORM}
    assert role_for("bronze.a") is Role.INGEST


def test_who_has_a_key_asks_the_catalog_for_none():
    """The catalog would tell an address for tools outside, which may be another one than the platform's own."""
    with_key = Settings(_env_file=None, s3_access_key="key", s3_secret_key="secret")
    asked = "header.X-Iceberg-Access-Delegation"
    assert catalog.properties(with_key, Role.ADMIN)[asked] == ""
    assert asked not in catalog.properties(Settings(_env_file=None), Role.ADMIN)


def test_the_catalog_tells_others_the_address_for_others():
    given = Settings(_env_file=None, s3_endpoint="http://minio:9000", s3_public_endpoint="http://127.0.0.1:9000")
    assert access_environment(given)["CATALOG_VENDED_S3_ENDPOINT"] == "http://127.0.0.1:9000"
    assert Catalog(given).environment()["CATALOG_PROPERTY_S3_ENDPOINT"] == "http://minio:9000"
    alone = Settings(_env_file=None, s3_endpoint="https://s3.example.org")
    assert access_environment(alone)["CATALOG_VENDED_S3_ENDPOINT"] == "https://s3.example.org"
