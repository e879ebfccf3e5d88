"""The one module that creates and writes tables. Every write goes to a branch; none goes to main."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.contracts.model import BRONZE_COLUMNS, LINEAGE_COLUMNS, Bronze, Gold, Silver, partition_column
from lakehouse.jobs import WriteJob
from lakehouse.naming import quoted, table_sql

_PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # An audit branch is moved to main as it is: rows must be where their partition says, however few they are.
    "write.distribution-mode": "hash",
}
QUARANTINE_COLUMNS = {
    "_raw_payload": "string",
    "_reasons": "array<string>",
    "_source_file": "string",
    "_source_offset": "bigint",
    "_interval_start": "timestamp",
    "_batch_id": "string",
}


@dataclass(frozen=True)
class Definition:
    """A table as its contract wants it."""

    columns: Mapping[str, str]
    partition_by: Sequence[str]
    comment: str
    properties: Mapping[str, str] = field(default_factory=dict)
    column_comments: Mapping[str, str] = field(default_factory=dict)


def bronze(contract: Bronze) -> Definition:
    return Definition(BRONZE_COLUMNS, contract.partition_by, contract.description)


def silver(contract: Silver) -> Definition:
    columns = {name: column.type for name, column in contract.columns.items()}
    columns |= {name: BRONZE_COLUMNS[name] for name in LINEAGE_COLUMNS}
    mode = contract.update_mode.replace("_", "-")
    modes = {f"write.{verb}.mode": mode for verb in ("merge", "update", "delete")}
    properties = {"format-version": "3", **modes}
    return Definition(columns, contract.partition_by, contract.description, properties, _descriptions(contract))


def quarantine(contract: Silver) -> Definition:
    return Definition(QUARANTINE_COLUMNS, ("day(_interval_start)",), f"Records that {contract.dataset} rejected.")


def tombstones(contract: Silver) -> Definition:
    kept = (*contract.key, *(c for c in contract.newest_by if c in contract.columns))
    columns = {name: contract.columns[name].type for name in dict.fromkeys(kept)}
    columns |= {name: BRONZE_COLUMNS[name] for name in LINEAGE_COLUMNS}
    return Definition(columns, (), f"The newest delete of each key of {contract.dataset}.")


def gold(contract: Gold) -> Definition:
    columns = {name: column.type for name, column in contract.columns.items()}
    return Definition(columns, contract.partition_by, contract.description, {}, _descriptions(contract))


def _descriptions(contract: Silver | Gold) -> dict[str, str]:
    return {name: column.description for name, column in contract.columns.items() if column.description}


def ensure(spark: SparkSession, table: str, wanted: Definition) -> None:
    """Create the table where it does not exist; add the columns that its contract has gained."""
    ensure_namespace(spark, quoted(naming.CATALOG, naming.layer_of(table)))
    columns = ", ".join(_column_sql(wanted, name) for name in wanted.columns)
    partitions = ", ".join(_partition_sql(field) for field in wanted.partition_by)
    properties = ", ".join(f"{_text(k)} = {_text(v)}" for k, v in {**_PROPERTIES, **wanted.properties}.items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table_sql(table)} ({columns}) USING iceberg "
        + (f"PARTITIONED BY ({partitions}) " if partitions else "")
        + f"COMMENT {_text(wanted.comment)} TBLPROPERTIES ({properties})"
    )
    known = set(spark.read.table(table_sql(table)).columns)
    if gained := [_column_sql(wanted, name) for name in wanted.columns if name not in known]:
        spark.sql(f"ALTER TABLE {table_sql(table)} ADD COLUMNS ({', '.join(gained)})")


def ensure_namespace(spark: SparkSession, namespace: str) -> None:
    """A catalog may refuse the second of two jobs that create a namespace at once: then it is there."""
    try:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    except PySparkException:
        spark.sql(f"DESCRIBE NAMESPACE {namespace}")


def _column_sql(wanted: Definition, name: str) -> str:
    comment = wanted.column_comments.get(name)
    return f"{quoted(name)} {wanted.columns[name]}" + (f" COMMENT {_text(comment)}" if comment else "")


def _partition_sql(field: str) -> str:
    column = partition_column(field) or field
    return field.replace(column, quoted(column)) if "(" in field else quoted(column)


def _text(value: str) -> str:
    """A value as an SQL string literal; for statements that take no parameters."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def version(spark: SparkSession, table: str, snapshot_id: int | None) -> DataFrame:
    """A table at one snapshot, empty where there is none yet, with all the columns that the table has today."""
    today = spark.read.table(table_sql(table))
    if snapshot_id is None:
        return today.limit(0)
    rows = spark.read.option("versionAsOf", snapshot_id).table(table_sql(table))
    gained = [f for f in today.schema.fields if f.name not in rows.columns]
    return rows.select("*", *(F.lit(None).cast(f.dataType).alias(f.name) for f in gained))


class Branch:
    """This try's branch of one table, made from the pinned base by the first write to it."""

    def __init__(self, spark: SparkSession, job: WriteJob, table: str):
        self.spark = spark
        self.table = table
        self.name = job.branch
        self.base = job.bases.get(table)
        self.batch_id = job.batch_id
        self.made = False

    def append(self, rows: DataFrame) -> None:
        rows.writeTo(self._target()).append()

    def overwrite(self, rows: DataFrame, where: SparkColumn) -> None:
        """Replace the rows that `where` holds for."""
        rows.writeTo(self._target()).overwrite(where)

    def merge(self, changes: DataFrame, key: Sequence[str], bounds: str = "") -> None:
        """Apply rows that carry an `_action` of insert, update or delete; `bounds` narrows the target's files."""
        columns = [c for c in changes.columns if c != "_action"]
        changes.createOrReplaceTempView("lakehouse_changes")
        on = " AND ".join(f"t.{quoted(c)} <=> s.{quoted(c)}" for c in key) + (f" AND {bounds}" if bounds else "")
        assignments = ", ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in columns)
        names = ", ".join(quoted(c) for c in columns)
        values = ", ".join(f"s.{quoted(c)}" for c in columns)
        self.spark.sql(
            f"MERGE INTO {self._target()} t USING lakehouse_changes s ON {on} "
            "WHEN MATCHED AND s._action = 'delete' THEN DELETE "
            f"WHEN MATCHED AND s._action = 'update' THEN UPDATE SET {assignments} "
            f"WHEN NOT MATCHED AND s._action = 'insert' THEN INSERT ({names}) VALUES ({values})"
        )

    def result(self) -> TableWrite:
        """What this try left on the branch."""
        return TableWrite(table=self.table, branch=self.name, base=self.base, head=self._head())

    def _head(self) -> int | None:
        if not self.made:
            return self.base
        refs = self.spark.sql(f"SELECT name, snapshot_id FROM {table_sql(self.table)}.refs")
        return next(int(row["snapshot_id"]) for row in refs.collect() if row["name"] == self.name)

    def _target(self) -> str:
        if not self.made:
            as_of = f" AS OF VERSION {int(self.base)}" if self.base is not None else ""
            self.spark.sql(f"ALTER TABLE {table_sql(self.table)} CREATE BRANCH {quoted(self.name)}{as_of}")
            self.spark.conf.set(f"spark.sql.iceberg.snapshot-property.{naming.BATCH}", self.batch_id)
            self.made = True
        return table_sql(self.table, self.name)
