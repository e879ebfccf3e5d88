"""The one module that creates and writes tables. Every write goes to a branch; none goes to main."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse import naming
from lakehouse.batch import TableWrite
from lakehouse.contracts.fields import partition_column
from lakehouse.contracts.model import BRONZE_COLUMNS, LINEAGE_COLUMNS, Bronze, Contract, Gold, Silver
from lakehouse.jobs import WriteJob
from lakehouse.naming import quoted, table_sql
from lakehouse.table_properties import wanted as wanted_properties

# Files are found by these, and their beginnings, which is what Iceberg would keep of them, are all alike.
_FOUND_BY = ("_batch_id", "_source_file")
# Of a rejected record all that its parsing looks at, so that it can be read again.
ARRIVAL = ("_raw_payload", "_source_file", "_source_offset", "_ingested_at", "_ingestion_date", "_malformed")
QUARANTINE_COLUMNS = {
    **{name: BRONZE_COLUMNS[name] for name in ARRIVAL},
    "_reasons": "array<string>",
    "_interval_start": "timestamp",
    "_batch_id": "string",
    "_resolution": "string",
    "_resolved_at": "timestamp",
    "_resolved_by": "string",
    "_resolved_why": "string",
}


@dataclass(frozen=True)
class Definition:
    """A table as its contract wants it."""

    columns: Mapping[str, str]
    partition_by: Sequence[str]
    comment: str
    properties: Mapping[str, str]
    column_comments: Mapping[str, str] = field(default_factory=dict)


def bronze(contract: Bronze) -> Definition:
    return Definition(BRONZE_COLUMNS, contract.partition_by, _comment(contract), _properties(contract))


def silver_tables(contract: Silver) -> dict[str, Definition]:
    """A silver dataset's table and its companions."""
    made = {
        contract.dataset: silver,
        naming.quarantine_table(contract.dataset): quarantine,
        naming.tombstone_table(contract.dataset): tombstones,
        naming.feed_table(contract.dataset): feed,
    }
    return {name: made[name](contract) for name in contract.tables}


def silver(contract: Silver) -> Definition:
    columns = {name: column.type for name, column in contract.columns.items()}
    columns |= {name: BRONZE_COLUMNS[name] for name in LINEAGE_COLUMNS}
    if contract.delivers == "events":
        columns["_interval_start"] = "timestamp"
    properties = {"format-version": "3", **_properties(contract)}
    return Definition(columns, contract.partition_by, _comment(contract), properties, _descriptions(contract))


def quarantine(contract: Silver) -> Definition:
    properties = wanted_properties(contract, naming.quarantine_table(contract.dataset))
    comment = f"Records that {contract.dataset} rejected."
    return Definition(QUARANTINE_COLUMNS, ("day(_interval_start)",), comment, properties)


def tombstones(contract: Silver) -> Definition:
    kept = (*contract.key, *(c for c in contract.newest_by if c in contract.columns))
    columns = {name: contract.columns[name].type for name in dict.fromkeys(kept)}
    columns |= {name: BRONZE_COLUMNS[name] for name in LINEAGE_COLUMNS}
    properties = wanted_properties(contract, naming.tombstone_table(contract.dataset))
    return Definition(columns, (), f"The newest delete of each key of {contract.dataset}.", properties)


def feed(contract: Silver) -> Definition:
    columns = {name: column.type for name, column in contract.columns.items()}
    columns |= {"_change": "string", "_changed_at": "timestamp", "_batch_id": "string"}
    comment = f"Every change of {contract.dataset}: insert, update_before, update_after or delete."
    properties = wanted_properties(contract, naming.feed_table(contract.dataset))
    return Definition(columns, ("day(_changed_at)",), comment, properties, _descriptions(contract))


def gold(contract: Gold) -> Definition:
    columns = {name: column.type for name, column in contract.columns.items()}
    comment, properties = _comment(contract), _properties(contract)
    return Definition(columns, contract.partition_by, comment, properties, _descriptions(contract))


def _properties(contract: Contract) -> dict[str, str]:
    return wanted_properties(contract, contract.dataset)


def _comment(contract: Contract) -> str:
    return f"{contract.description} Owner: {contract.owner}."


def _descriptions(contract: Silver | Gold) -> dict[str, str]:
    return {name: column.description for name, column in contract.columns.items() if column.description}


def ensure(spark: SparkSession, table: str, wanted: Definition) -> None:
    """Create the table where it does not exist; else bring it in line with what its contract has gained."""
    known = _known_columns(spark, table)
    if known is None:
        _create(spark, table, wanted)
        known = _known_columns(spark, table) or {}
    if gained := [_column_sql(wanted, name) for name in wanted.columns if name not in known]:
        spark.sql(f"ALTER TABLE {table_sql(table)} ADD COLUMNS ({', '.join(gained)})")
    for name in known.keys() & wanted.columns.keys():
        _align_column(spark, table, wanted, known[name])
    _align_comment(spark, table, wanted)


def _known_columns(spark: SparkSession, table: str) -> dict[str, StructField] | None:
    try:
        return {column.name: column for column in spark.read.table(table_sql(table)).schema.fields}
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            raise
        return None


def _create(spark: SparkSession, table: str, wanted: Definition) -> None:
    ensure_namespace(spark, quoted(naming.CATALOG, naming.layer_of(table)))
    columns = ", ".join(_column_sql(wanted, name) for name in wanted.columns)
    partitions = ", ".join(_partition_sql(field) for field in wanted.partition_by)
    metrics = {f"write.metadata.metrics.column.{name}": "full" for name in _FOUND_BY if name in wanted.columns}
    given = {**metrics, **wanted.properties}
    properties = ", ".join(f"{text(name)} = {text(value)}" for name, value in given.items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table_sql(table)} ({columns}) USING iceberg "
        + (f"PARTITIONED BY ({partitions}) " if partitions else "")
        + f"COMMENT {text(wanted.comment)} TBLPROPERTIES ({properties})"
    )


def _align_column(spark: SparkSession, table: str, wanted: Definition, found: StructField) -> None:
    """Widen a column's type, and say what the contract says of it; Iceberg refuses a change that could lose a value."""
    column = f"ALTER TABLE {table_sql(table)} ALTER COLUMN {quoted(found.name)}"
    if found.dataType.simpleString() != wanted.columns[found.name]:
        spark.sql(f"{column} TYPE {wanted.columns[found.name]}")
    comment = wanted.column_comments.get(found.name, "")
    if comment != (found.metadata or {}).get("comment", ""):
        spark.sql(f"{column} COMMENT {text(comment)}")


def _align_comment(spark: SparkSession, table: str, wanted: Definition) -> None:
    """Say of the table what the contract says."""
    found = spark.sql(f"SHOW TBLPROPERTIES {table_sql(table)} ('comment')").collect()
    if [row["value"] for row in found] != [wanted.comment]:
        spark.sql(f"COMMENT ON TABLE {table_sql(table)} IS {text(wanted.comment)}")


def ensure_namespace(spark: SparkSession, namespace: str) -> None:
    """A catalog may refuse the second of two jobs that create a namespace at once: then it is there."""
    try:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    except PySparkException:
        spark.sql(f"DESCRIBE NAMESPACE {namespace}")


def _column_sql(wanted: Definition, name: str) -> str:
    comment = wanted.column_comments.get(name)
    return f"{quoted(name)} {wanted.columns[name]}" + (f" COMMENT {text(comment)}" if comment else "")


def _partition_sql(field: str) -> str:
    column = partition_column(field) or field
    return field.replace(column, quoted(column)) if "(" in field else quoted(column)


def text(value: str) -> str:
    """A value as an SQL string literal; for statements that take no parameters."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literal(value: object) -> str:
    """A value as SQL text."""
    return f"TIMESTAMP'{value.isoformat(sep=' ')}'" if isinstance(value, datetime) else text(str(value))


def among(column: str, *values: object) -> str:
    """The SQL condition that a column has one of the values."""
    return f"{quoted(column)} IN ({', '.join(_literal(value) for value in values)})"


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
        self.provenance = job.provenance
        self.made = False

    def append(self, rows: DataFrame) -> None:
        rows.writeTo(self._target()).append()

    def overwrite(self, rows: DataFrame, where: SparkColumn) -> None:
        """Replace whole partitions: those that `where` holds for."""
        rows.writeTo(self._target()).overwrite(where)

    def replace(self, rows: DataFrame, where: str, count: int) -> None:
        """Put `count` rows in the place of those for which the SQL condition holds, in whichever files they are."""
        if self.base is not None and not version(self.spark, self.table, self.base).where(where).isEmpty():
            self.delete(where)
        if count:
            self.append(rows)

    def delete(self, where: str) -> None:
        """Take out the rows for which the SQL condition holds."""
        self.spark.sql(f"DELETE FROM {self._target()} WHERE {where}")

    def merge(self, changes: DataFrame, key: Sequence[str], bounds: str = "") -> None:
        """Apply rows that carry an `_action` of insert, update, move or delete; `bounds` narrows the target's files."""
        columns = [c for c in changes.columns if c != "_action"]
        changes.createOrReplaceTempView("lakehouse_changes")
        on = " AND ".join(f"t.{quoted(c)} <=> s.{quoted(c)}" for c in key) + (f" AND {bounds}" if bounds else "")
        assignments = ", ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in columns)
        names = ", ".join(quoted(c) for c in columns)
        values = ", ".join(f"s.{quoted(c)}" for c in columns)
        self.spark.sql(
            f"MERGE INTO {self._target()} t USING lakehouse_changes s ON {on} "
            "WHEN MATCHED AND s._action = 'delete' THEN DELETE "
            f"WHEN MATCHED AND s._action IN ('update', 'move') THEN UPDATE SET {assignments} "
            f"WHEN NOT MATCHED AND s._action = 'insert' THEN INSERT ({names}) VALUES ({values})"
        )

    def result(self) -> TableWrite:
        """What this try left on the branch."""
        return TableWrite(table=self.table, branch=self.name, base=self.base, head=self._head())

    def _head(self) -> int | None:
        if not self.made:
            return self.base
        refs = self.spark.read.table(f"{table_sql(self.table)}.refs").select("name", "snapshot_id")
        return next(int(row["snapshot_id"]) for row in refs.collect() if row["name"] == self.name)

    def _target(self) -> str:
        if not self.made:
            as_of = f" AS OF VERSION {int(self.base)}" if self.base is not None else ""
            self.spark.sql(f"ALTER TABLE {table_sql(self.table)} CREATE BRANCH {quoted(self.name)}{as_of}")
            for name, value in self.provenance.items():
                self.spark.conf.set(f"spark.sql.iceberg.snapshot-property.{name}", value)
            self.made = True
        return table_sql(self.table, self.name)
