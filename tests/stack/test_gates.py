"""Each kind of gate on the real stack: what passes, what fails and leaves main as it was, and the mended rerun."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.errors import ParseException

from lakehouse.batch import Batch
from lakehouse.catalog import table
from lakehouse.contracts.gates import Gate
from lakehouse.gates.asked import checks
from lakehouse.gates.metadata import answers
from lakehouse.ledger import batches, gates
from lakehouse.naming import branches_of
from lakehouse.query import QueryError, run_sql
from lakehouse.sample import Recipe
from lakehouse.steps import GateFailed
from lakehouse.store import client
from tests.stack.foreign import DAY, Source, lines
from tests.stack.shop import Shop, in_session, interval
from tests.stack.tables import loaded

COLUMNS = """
  id:     {type: bigint, required: true, from: id}
  buyer:  {type: bigint, from: buyer}
  state:  {type: string, from: state}
  amount: {type: "decimal(12,2)", from: amount}
  at:     {type: bigint, required: true, from: at}
"""
HOW = """
key: [id]
newest_by: [at]
delete_when: gone = 'yes'
update_mode: {mode}
gates:
{gates}
"""
DAYS = [DAY + timedelta(n) for n in range(8)]


def row(key: int, at: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": key, "at": at, "buyer": key, "state": "new", "amount": "10.00", **more}


def rows(count: int, first: int = 1, **more: Any) -> list[dict[str, Any]]:
    return [row(first + n, **more) for n in range(count)]


class Gated:
    """A silver dataset with gates; main before a failure is compared with main after it."""

    def __init__(self, folder: Any, *given: str, mode: str = "merge_on_read") -> None:
        text = "\n".join(f"  - {one}" for one in given)
        self.source = Source(folder, "json_lines", COLUMNS, HOW.format(mode=mode, gates=text))
        self.silver = self.source.shop.silver

    def day(self, spark, number: int, records: list[dict[str, Any]], name: str = "a.json") -> None:
        self.source.run(spark, {name: lines(*records)}, DAYS[number])

    def fails(self, spark, number: int, records: list[dict[str, Any]], told: str) -> str:
        """The day fails with that sentence, main stays as it was; returns the branch that is named for a look."""
        before = self.main()
        with pytest.raises(GateFailed, match=told) as failure:
            self.day(spark, number, records)
        assert self.main() == before
        (branch,) = self.branches(number)
        statement = f"FROM {self.silver} LIMIT 20"
        assert f'`lakehouse query --at {branch} "{statement}"`' in str(failure.value)
        run_sql(statement, at=branch)  # as the error says
        return branch

    def mended(self, spark, number: int, records: list[dict[str, Any]]) -> None:
        """The day's file is corrected, and published; nothing is left behind."""
        self.day(spark, number, records)
        assert not self.branches(number)

    def main(self) -> Any:
        return self.source.shop.state()[self.silver][0]

    def branches(self, number: int) -> list[str]:
        """What tries of that day have left."""
        found = table(self.silver)
        assert found is not None
        return [ref for ref in found.metadata.refs if ref.startswith(branches_of(self.silver, interval(DAYS[number])))]

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """The newest verdict of each gate."""
        return {one["gate"]: one for one in reversed(gates.recent(self.silver, 200))}


@pytest.fixture
def gated(stack, tmp_path) -> Iterator[Any]:
    made: list[Gated] = []

    def make(*given: str, **more: str) -> Gated:
        made.append(Gated(tmp_path, *given, **more))
        return made[-1]

    yield make
    for one in made:
        one.source.shop.close()


def test_a_row_count_below_what_intervals_usually_bring_fails(gated, spark):
    sold = gated("row_count: {at_least: 90%, of: trailing_3_intervals}")
    for number in range(3):
        sold.day(spark, number, rows(10, first=number * 100))
        assert "no bound yet" in sold.verdicts()["row_count"]["found"]
    branch = sold.fails(spark, 3, rows(8, first=300), r"row_count: 8 records, at least 9 wanted \(90% of 10")
    assert run_sql(f"SELECT count(*) FROM {sold.silver}", at=branch)[1] == [(38,)]
    assert run_sql(f"SELECT count(*) FROM {sold.silver}")[1] == [(30,)]
    sold.mended(spark, 3, rows(9, first=300))
    assert sold.verdicts()["row_count"]["verdict"] == "passed"


def test_what_a_correction_took_away_does_not_count_in_bronze(gated, spark):
    shop = gated("unique: [id]").source.shop
    (file,) = (shop.folder / "bronze").glob("*.yaml")
    file.write_text(f"{file.read_text()}gates:\n  - row_count: {{at_least: 90%, of: trailing_3_intervals}}\n")

    def brought(number: int, count: int, name: str = "a.json") -> None:
        shop.land(DAYS[number], {name: lines(*rows(count, first=number * 100))})
        shop.run(shop.bronze, DAYS[number], in_session(spark))

    for number in range(3):
        brought(number, 20)
        brought(number, 10)  # the same file, corrected: ten records are usual
    brought(3, 10)
    brought(3, 9)
    with pytest.raises(GateFailed, match=r"row_count: 8 records, at least 9 wanted \(90% of 10"):
        brought(3, 8)
    brought(3, 2, "b.json")  # with this one there are enough
    assert run_sql(f"SELECT count(*) FROM {shop.bronze}")[1] == [(90 + 10 + 9 + 8 + 2,)]


def test_an_interval_that_brings_nothing_is_less_than_usual(gated, spark):
    sold = gated("row_count: {of: trailing_3_intervals}")
    for number in range(3):
        sold.day(spark, number, rows(10, first=number * 100))
    before = sold.main()
    with pytest.raises(GateFailed, match="row_count: 0 records, at least 9 wanted"):
        sold.day(spark, 3, [])
    assert sold.main() == before


def test_shares_of_missing_values_strange_values_and_ranges(gated, spark):
    sold = gated(
        "nulls: {column: buyer, at_most: 25%}",
        "accepted: {column: state, values: [new, paid]}",
        "between: {column: amount, lowest: 0, highest: 100}",
    )
    sold.day(spark, 0, [row(1), row(2), row(3), row(4, buyer=None)])
    sold.fails(spark, 1, [row(5, buyer=None), row(6, buyer=None)], r"nulls\(buyer\): 50\.00% of the rows lack buyer")
    sold.fails(spark, 2, [row(7, state="gone"), row(8)], r"accepted\(state\): 1 rows have another state")
    assert '"state":"gone"' in sold.verdicts()["accepted(state)"]["sample"][0]
    sold.fails(spark, 3, [row(9, amount="100.01")], r"between\(amount\): 1 rows have a amount outside 0 to 100")
    assert sold.verdicts()["between(amount)"]["bound"] == "at most 0"
    sold.mended(spark, 3, [row(9, amount="100.00")])


def test_a_median_outside_its_history_fails(gated, spark):
    sold = gated("quantile: {column: amount, within: 10%, of: trailing_5_intervals}")
    for number, amount in enumerate((100, 110, 90)):
        sold.day(spark, number, rows(5, first=number * 100, amount=f"{amount}.00"))
    told = r"quantile\(amount, 50%\): the 50% quantile of amount is 130, 81 to 121 wanted"
    sold.fails(spark, 3, rows(5, first=300, amount="130.00"), told)
    sold.mended(spark, 3, rows(5, first=300, amount="120.00"))


def test_another_dataset_must_have_the_values_and_be_fresh(gated, spark, tmp_path):
    (tmp_path / "buyers").mkdir()
    buyers = Source(tmp_path / "buyers", "json_lines", COLUMNS, HOW.format(mode="merge_on_read", gates="  []"))
    try:
        buyers.run(spark, {"a.json": lines(*rows(3))})
        sold = gated(
            f"references: {{column: buyer, to: {buyers.shop.silver}.id}}",
            f"fresh: {{input: {buyers.shop.silver}, within: 1d}}",
        )
        for layer in ("bronze", "silver"):  # the other dataset's contracts, beside its own
            for file in (tmp_path / "buyers" / layer).glob("*.yaml"):
                (tmp_path / layer / file.name).write_text(file.read_text())
        sold.day(spark, 0, [row(1), row(2, buyer=None)])
        sold.fails(spark, 1, [row(5, buyer=9)], r"references\(buyer\): 1 values of buyer are not in silver\.")
        assert sold.verdicts()["references(buyer)"]["sample"] == ['{"buyer":9}']
        sold.mended(spark, 1, [row(5, buyer=3)])
        sold.fails(spark, 2, [row(6, buyer=1)], r"fresh\(silver\..*\): silver\..* ends 48 h before the interval does")
        buyers.run(spark, {"a.json": lines(row(4))}, DAYS[2])
        sold.mended(spark, 2, [row(6, buyer=1)])
    finally:
        buyers.shop.close()


def test_a_query_that_returns_rows_fails_or_only_warns(gated, spark, caplog):
    sold = gated(
        '{sql: "SELECT id FROM head WHERE amount > 100", severity: warn, name: expensive}',
        "{sql: \"SELECT state FROM head WHERE state = 'bad'\"}",
    )
    sold.day(spark, 0, [row(1, amount="500.00")])
    assert sold.verdicts()["expensive"]["verdict"] == "warned"
    assert "gate expensive warns: the query returns 1 rows" in caplog.text
    sold.fails(spark, 1, [row(2, state="bad")], "sql: the query returns 1 rows")
    sold.mended(spark, 1, [row(2)])


def test_a_gate_that_is_no_query_is_refused_by_spark(gated, spark):
    sold = gated('{sql: "DROP TABLE lake.silver.orders", name: harmful}')
    with pytest.raises(ParseException):
        sold.day(spark, 0, rows(1))
    assert sold.main() is None


@pytest.mark.parametrize("mode", ["merge_on_read", "copy_on_write"])
def test_a_repeated_value_fails(gated, spark, mode):
    sold = gated("unique: [buyer]", mode=mode)
    sold.day(spark, 0, rows(2))
    sold.fails(spark, 1, [row(3, buyer=1)], r"unique\(buyer\): 1 values occur more than once")
    sold.mended(spark, 1, [row(3, buyer=3)])


RECIPE = Recipe.of(0.05, 3, None)


@pytest.fixture
def sales(stack, tmp_path) -> Iterator[Shop]:
    """The sample shop, with gates on gold that look at silver."""
    shop = Shop.open(tmp_path)
    (file,) = (tmp_path / "gold").glob("*.yaml")
    gates_of_gold = [
        "row_count: {at_least: 1}",
        f"sum: {{column: gmv, equals: {shop.silver}.amount, where: \"status <> 'cancelled'\"}}",
        f"fresh: {{input: {shop.silver}, within: 0d}}",
        f'{{name: as_many, sql: "SELECT 1 FROM silver_orders_{shop.suffix} HAVING count(*) = 0"}}',
    ]
    text = file.read_text().partition("gates:")[0]
    file.write_text(text + "gates:\n" + "\n".join(f"  - {one}" for one in gates_of_gold) + "\n")
    yield shop
    shop.close()


def test_gold_is_held_against_silver(sales, spark):
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    sales.deliver(days, RECIPE)
    for day in days:
        for dataset in sales.datasets:
            sales.run(dataset, day, in_session(spark))
    told = {one["gate"]: (one["verdict"], one["value"]) for one in reversed(gates.recent(sales.gold, 100))}
    assert told["sum(gmv)"] == told[f"fresh({sales.silver})"] == told["as_many"] == ("passed", 0)
    rows = run_sql(f"SELECT count(*) FROM {sales.gold}")[1]
    assert told["row_count"] == ("passed", rows[0][0])


def test_a_total_that_differs_from_silver_fails(sales, spark):
    (query,) = (sales.folder / "gold").glob("*.sql")
    right = query.read_text()
    query.write_text(right.replace("WHERE status", "WHERE region <> 'north' AND status"))
    sales.deliver([DAY], RECIPE)
    for dataset in (sales.bronze, sales.silver):
        sales.run(dataset, DAY, in_session(spark))
    with pytest.raises(GateFailed, match=r"sum\(gmv\): the sum of gmv differs from that of silver\..* by -\d+"):
        sales.run(sales.gold, DAY, in_session(spark))
    (branch,) = loaded(sales.gold).metadata.refs
    wrong, *_ = run_sql(f"SELECT sum(gmv) FROM {sales.gold}", at=branch)[1]
    query.write_text(right)
    sales.run(sales.gold, DAY, in_session(spark))
    assert list(loaded(sales.gold).metadata.refs) == ["main"]
    assert run_sql(f"SELECT sum(gmv) FROM {sales.gold}")[1] > [wrong]


def test_a_version_without_rows_breaks_no_share(gated, spark):
    sold = gated("nulls: {column: buyer, at_most: 1%}")
    sold.day(spark, 0, [row(1)])
    sold.day(spark, 1, [row(1, at=2, gone="yes")])
    assert sold.verdicts()["nulls(buyer)"]["found"].startswith("there are no rows to look at")


def test_an_interval_that_changes_nothing_does_not_forget_what_was_looked_at(gated, spark):
    sold = gated("unique: [buyer]")
    sold.day(spark, 0, rows(2))
    sold.day(spark, 1, [row(1)], name="same.json")
    assert Gate(unique=("buyer",)).definition in gates.passed(sold.main())


@pytest.mark.parametrize("mode", ["merge_on_read", "copy_on_write"])
def test_deleted_rows_do_not_count_whichever_way_they_are_deleted(gated, spark, mode):
    sold = gated("row_count: {at_least: 3}", mode=mode)
    sold.day(spark, 0, rows(4))
    sold.fails(spark, 1, [row(1, at=2, gone="yes"), row(2, at=2, gone="yes")], "row_count: 2 rows, at least 3 wanted")
    sold.mended(spark, 1, [row(1, at=2, gone="yes")])


def test_metadata_answers_where_no_data_file_can_be_read(gated, spark):
    """The data files are taken away from the store: what reads one fails, and manifests still tell."""
    asked = (
        "row_count: {at_least: 4}",
        "nulls: {column: buyer, at_most: 30%}",
        "between: {column: amount, lowest: 0, highest: 100}",
    )
    sold = gated(*asked)
    sold.day(spark, 0, [*rows(3), row(4, buyer=None, amount="99.99")])
    found, head = table(sold.silver), sold.main()
    assert found is not None
    wanted = checks(sold.source.shop.contract(sold.silver), _of(sold, head), ())
    before = {one.gate: one.value for one in answers(found, head, wanted)}
    asked_for = {"row_count": 4, "nulls(buyer)": 0.25, "between(amount)": 0}
    assert before == {**asked_for, "id.required": 0, "at.required": 0}
    # What is asked of the batch's rows alone, when these are looked at anyway, is worth no look at all manifests.
    assert answers(found, head, [check for check in wanted if check.own]) == []
    files = [task.file.file_path for task in found.scan(snapshot_id=head).plan_files()]
    for path in files:
        bucket, _, key = path.removeprefix("s3://").partition("/")
        client().delete_object(Bucket=bucket, Key=key)
    with pytest.raises(QueryError):
        run_sql(f"SELECT * FROM {sold.silver}")
    assert {one.gate: one.value for one in answers(found, head, wanted)} == before


def _of(sold: Gated, head: int) -> Batch:
    """The batch that made a version."""
    (found,) = [b for b in batches.recent(sold.silver) if any(w.head == head for w in b.writes)]
    return found
