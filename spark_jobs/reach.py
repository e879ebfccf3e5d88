"""How far a batch reaches into a large table: only the rows that it can meet are read, and only there it writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.contracts.model import Silver
from lakehouse.naming import quoted
from spark_jobs.keeping import kept

# So many keys are sent to every reader of the table; with more, table and batch are sorted into each other.
MOST_KEYS = 1_000_000
# So many separate stretches of days are told apart; more are taken as one.
MOST_STRETCHES = 50
# NaN has a place in Spark's order that file statistics do not know.
_UNORDERED = ("float", "double", "boolean", "binary")

Days = frozenset[date | None]


def met(contract: Silver, table: DataFrame, found: Keys) -> DataFrame:
    """The rows of a table that have one of these keys: found by them alone, then read from the days they lie in."""
    candidates = found.among(table)
    if found.none or found.many or contract.time_partition is None:
        return candidates
    day = F.col(contract.time_partition).cast("date")
    days = candidates.select(day).distinct().collect()
    return found.among(table.where(on_days(contract, frozenset(row[0] for row in days))))


class Keys:
    """The distinct keys of some rows."""

    def __init__(self, rows: DataFrame, key: Sequence[str]):
        self._key = list(key)
        self._keys = kept(rows.select(*self._key).distinct())
        self._ordered = [field for field in self._keys.schema if field.dataType.typeName() not in _UNORDERED]
        # As texts: a time would come in this process's zone, in which some hours are there twice.
        ends = [end(one.name).cast("string") for one in self._ordered for end in (F.min, F.max)]
        found = self._keys.agg(F.count("*"), *ends).first()
        count, *self._ends = tuple(found or (0,))
        self.none, self.many = count == 0, count > MOST_KEYS

    def among(self, table: DataFrame) -> DataFrame:
        """The table's rows that have one of the keys. Files that cannot hold one are not read."""
        if self.none:
            return table.limit(0)
        for one, lowest, highest in zip(self._ordered, self._ends[::2], self._ends[1::2], strict=True):
            first, last = F.lit(lowest).cast(one.dataType), F.lit(highest).cast(one.dataType)
            table = table.where(F.col(one.name).between(first, last))
        return table.join(self._keys if self.many else F.broadcast(self._keys), self._key, "left_semi")


def on_days(contract: Silver, days: Days, table: str = "") -> str:
    """The condition that a row lies on one of the days; an empty one where the table is not partitioned by time."""
    if contract.time_partition is None:
        return ""
    column = quoted(*([table] if table else []), contract.time_partition)
    kind = "DATE" if contract.columns[contract.time_partition].type == "date" else "TIMESTAMP"
    begin, end = ("", "") if kind == "DATE" else (" 00:00:00", " 23:59:59.999999")
    stretches = list(_stretches(day for day in days if day is not None))
    if len(stretches) > MOST_STRETCHES:
        stretches = [(stretches[0][0], stretches[-1][1])]
    conditions = [f"{column} BETWEEN {kind}'{a}{begin}' AND {kind}'{b}{end}'" for a, b in stretches]
    conditions += [f"{column} IS NULL"] if None in days else []
    return f"({' OR '.join(conditions)})" if conditions else "false"


def _stretches(days: Iterable[date]) -> Iterator[tuple[date, date]]:
    """Days that follow one another, as first and last."""
    first = last = None
    for day in sorted(days):
        if last is not None and first is not None and day - last > timedelta(1):
            yield first, last
            first = day
        first, last = first or day, day
    if first is not None and last is not None:
        yield first, last
