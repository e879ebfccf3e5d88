"""What tables and columns say of themselves is what their contracts say, also after these have changed."""

from __future__ import annotations

from datetime import date

from lakehouse.catalog import table
from lakehouse.naming import feed_table, quarantine_table
from lakehouse.sample import Recipe
from tests.stack.shop import Shop, in_session

DAYS = (date(2026, 1, 1), date(2026, 1, 2))
RECIPE = Recipe.of(0.05, 7, None)


def comments(name: str) -> tuple[str, dict[str, str]]:
    """A table's comment, and those of its columns that have one."""
    found = table(name)
    assert found is not None
    return found.properties["comment"], {field.name: field.doc for field in found.schema().fields if field.doc}


def promised(shop: Shop, dataset: str) -> tuple[str, dict[str, str]]:
    contract = shop.contract(dataset)
    columns = getattr(contract, "columns", {})
    told = {name: column.description for name, column in columns.items() if column.description}
    return f"{contract.description} Owner: {contract.owner}.", told


def run(shop: Shop, spark, day: date) -> None:
    shop.deliver([day], RECIPE)
    for dataset in shop.datasets:
        shop.run(dataset, day, in_session(spark))


def reworded(shop: Shop) -> None:
    """Every contract with another description and owner; silver and gold with another word on each column, too."""
    for file in shop.folder.glob("*/*.yaml"):
        text = (
            file.read_text()
            .replace("\ndescription: ", "\ndescription: It's new. ")
            .replace("\nowner: ", "\nowner: new_")
        )
        file.write_text(text.replace(", description: ", ", description: New. "))


def test_tables_and_columns_say_what_their_contracts_say(shop, spark):
    run(shop, spark, DAYS[0])
    assert {name: comments(name) for name in shop.datasets} == {name: promised(shop, name) for name in shop.datasets}
    reworded(shop)
    run(shop, spark, DAYS[1])
    found = {name: comments(name) for name in shop.datasets}
    assert found == {name: promised(shop, name) for name in shop.datasets}
    assert all(comment.startswith("It's new. ") and "Owner: new_" in comment for comment, _ in found.values())
    columns = found[shop.silver][1]
    assert columns["amount"] == "New. Total of the order."
    assert comments(feed_table(shop.silver))[1] == columns
    assert comments(quarantine_table(shop.silver)) == (f"Records that {shop.silver} rejected.", {})
