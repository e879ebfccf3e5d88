"""The sample shop is the same everywhere, and as dirty as asked."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from lakehouse.cli.sample import sample
from lakehouse.errors import LakehouseError
from lakehouse.sample import DEFAULT_DIRT, DIRT, Recipe, corrected, deliver, events, follow, generate
from lakehouse.sample.generator import folder_files
from tests.oracle import Oracle, Record, Result, dated, oracle
from tests.oracle import records as records_of

DAY = date(2026, 1, 1)
DAYS = [DAY + timedelta(days=number) for number in range(5)]
FIRST_ORDER = 21_920_000_000  # all orders of DAY and later have greater ids
Files = list[tuple[str, bytes]]


def files(dirt: Collection[str], days: Sequence[date] = DAYS, scale: float = 1.0) -> Files:
    """The order files of some days; the other datasets are left out, to be quick."""
    return list(made(Recipe.of(scale, 7, dirt), tuple(days)))


@cache
def made(recipe: Recipe, days: tuple[date, ...]) -> tuple[tuple[str, bytes], ...]:
    return tuple(file for day in days for file in folder_files("orders", day, recipe))


def arrived(found: Files) -> list[dict[str, Any]]:
    """The order changes that parse, in the order in which they are delivered, each once."""
    texts = [line.text for day, key, data in dated(found) for line in records_of(day, key, data)]
    records = []
    for text in dict.fromkeys(texts):
        try:
            record = json.loads(text)
        except ValueError:
            continue
        records += [record] if isinstance(record, dict) else []
    return records


# The generator


def test_a_day_is_the_same_bytes_whatever_else_was_asked_for() -> None:
    in_a_range = [file for day in DAYS for file in generate(day, scale=0.2, dirt=DIRT) if str(DAYS[3]) in file[0]]
    events._arrivals.cache_clear()
    assert list(generate(DAYS[3], scale=0.2, dirt=DIRT)) == in_a_range


def test_the_same_bytes_on_every_machine() -> None:
    orders = b"".join(data for key, data in generate(DAY, scale=0.1, dirt=DIRT) if key.startswith("orders/"))
    assert hashlib.sha256(orders).hexdigest()[:16] == "a863e41693bf6d03"


def test_another_seed_is_another_shop() -> None:
    assert dict(generate(DAY, scale=0.1, seed=8)) != dict(generate(DAY, scale=0.1))


def test_scale_one_is_the_size_it_promises() -> None:
    found = dict(generate(DAY, dirt=()))
    assert 450 < sum(record["op"] == "c" for record in arrived(files((), [DAY]))) < 550
    assert 40 < len(found[f"customers/{DAY}/part-0000.jsonl"].splitlines()) < 65
    assert len(found[f"products/{DAY}/products.csv"].splitlines()) == 1 + 120
    assert 1800 < len(gzip.decompress(found[f"clicks/{DAY}/part-0000.jsonl.gz"]).splitlines()) < 2200


def catalogue(day: date) -> dict[str, dict[str, str]]:
    text = dict(folder_files("products", day, Recipe.of(1, 7, ())))[f"products/{day}/products.csv"].decode()
    return {row["id"]: row for row in csv.DictReader(text.splitlines())}


def test_products_vanish_and_others_come() -> None:
    today, tomorrow = catalogue(DAY).keys(), catalogue(DAYS[1]).keys()
    assert today - tomorrow
    assert tomorrow - today


def test_orders_come_from_the_catalogue() -> None:
    products = catalogue(DAY)
    placed = [record["after"] for record in arrived(files((), [DAY])) if record["op"] == "c"]
    assert {products[str(order["product_id"])]["category"] == order["category"] for order in placed} == {True}


def test_changes_of_an_order_never_share_a_time_and_agree_on_when_it_was_placed() -> None:
    seen: dict[int, list[dict[str, Any]]] = {}
    for record in arrived(files(())):
        seen.setdefault((record["after"] or record["before"])["id"], []).append(record)
    for life in seen.values():
        times = [record["ts_ms"] for record in life]
        assert times == sorted(set(times))
        assert len({(record["after"] or record["before"])["ordered_at"] for record in life}) == 1


def test_a_marker_comes_last_in_every_folder() -> None:
    keys = [key for key, _ in generate(DAY, scale=0.01)]
    last = {key.rsplit("/", 1)[0]: key.rsplit("/", 1)[1] for key in keys}
    assert last == {f"{name}/{DAY}": "_SUCCESS" for name in ("orders", "customers", "products", "clicks")}


@pytest.mark.parametrize("bad", [{"scale": 0}, {"dirt": ["mud"]}])
def test_a_bad_wish_is_refused_in_one_sentence(bad: dict[str, Any]) -> None:
    with pytest.raises(LakehouseError, match=r"^[^.\n]+\.$"):
        list(generate(DAY, **bad))


# Dirt


def kinds(found: Files, result: Result) -> set[str]:
    """The kinds of dirt that a reader of the files notices, where `result` is what the oracle makes of them."""
    records = arrived(found)
    reasons = {reason for rejected in result.quarantine for reason in rejected.reasons}
    after = [record["after"] for record in records if record["after"]]
    order_of = [((record["after"] or record["before"])["id"], record["ts_ms"]) for record in records]
    # Of an order placed before the first day only the repeat of a line may be here.
    order_of = [(key, ts) for key, ts in order_of if key > FIRST_ORDER]
    newest_seen: dict[int, int] = {}
    overtaken = [ts < newest_seen.get(key, 0) or newest_seen.update({key: ts}) for key, ts in order_of]
    noticed = {
        "duplicates": len(records) < sum(result.bronze.values()) - len(result.quarantine),
        "malformed": "record.malformed" in reasons,
        "currency": any(str(value["amount"]).startswith("$") for value in after),
        "formats": any("/" in value["ordered_at"] for value in after),
        "late": "record.late" in reasons,
        "out_of_order": any(overtaken),
        "invalid": {"quantity.check", "status.accepted", "customer_id.required", "amount.type"} <= reasons,
        "drift": any("coupon" in value and isinstance(value["quantity"], str) for value in after),
        "redelivered": len({data for _, data in found if data}) < sum(bool(data) for _, data in found),
    }
    return {name for name, is_there in noticed.items() if is_there}


def test_without_dirt_the_files_are_clean() -> None:
    found = files(())
    result = oracle(dated(found))
    assert kinds(found, result) == set()
    assert result.quarantine == []


@pytest.mark.parametrize("kind", DIRT)
def test_each_kind_of_dirt_occurs_when_it_is_asked_for_and_only_then(kind: str) -> None:
    implied = {"late": {"late", "out_of_order"}}
    found = files([kind])
    assert kinds(found, oracle(dated(found))) == implied.get(kind, {kind})


def test_drift_begins_on_its_day() -> None:
    found = list(made(Recipe.of(0.1, 7, ["drift"], DAYS[2]), tuple(DAYS)))
    drifted = {
        datetime.fromtimestamp(r["ts_ms"] / 1000, UTC).date() for r in arrived(found) if "coupon" in (r["after"] or {})
    }
    assert drifted == set(DAYS[2:])


def test_dirt_that_can_be_cleaned_costs_no_order() -> None:
    dirty = oracle(dated(files(["currency", "formats", "duplicates", "drift"], scale=0.3)))
    clean = oracle(dated(files((), scale=0.3)))
    assert placed_here(dirty) == placed_here(clean)


def placed_here(result: Result) -> dict[int, dict[str, Any]]:
    return {key: row for key, row in result.silver.items() if key > FIRST_ORDER}


def test_all_dirt_but_that_of_the_schema_and_of_whole_files_comes_by_itself() -> None:
    assert set(DIRT) - set(DEFAULT_DIRT) == {"drift", "redelivered"}


SCALES = {"orders": 0.3, "customers": 6, "products": 6, "clicks": 0.3}  # at which a kind of dirt strikes a few times


@cache
def played(dataset: str, *dirt: str) -> Oracle:
    """A dataset of which every day was run; several tests look at the same one, and none runs it on."""
    shop, recipe = Oracle(dataset), Recipe.of(SCALES[dataset], 7, dirt)
    for day in DAYS:
        shop.run(day, dict(folder_files(dataset, day, recipe)))
    return shop


@pytest.mark.parametrize(
    ("dataset", "dirt", "expected"),
    [
        ("customers", (), set()),
        ("customers", ("formats",), set()),
        ("customers", ("malformed",), {"record.malformed"}),
        ("customers", ("invalid",), {"email.required", "email.matches", "rule.created_first", "segment.accepted"}),
        ("products", (), set()),
        ("products", ("currency",), set()),
        ("products", ("malformed",), {"record.malformed"}),
        ("products", ("invalid",), {"price.check", "price.type"}),
        ("clicks", (), set()),
        ("clicks", ("invalid",), {"user_id.required", "clicked_at.type"}),
    ],
)
def test_dirt_of_the_other_datasets_breaks_the_rules_it_is_meant_to_break(
    dataset: str, dirt: tuple[str, ...], expected: set[str]
) -> None:
    assert {reason for rejected in played(dataset, *dirt).quarantine for reason in rejected.reasons} == expected


def test_addresses_in_other_letters_are_the_same_addresses() -> None:
    recipe = Recipe.of(1, 7, ["formats"])
    assert any(b'"email":" Customer' in data for day in DAYS for _, data in folder_files("customers", day, recipe))
    assert played("customers", "formats").silver == played("customers").silver


def test_a_broken_record_of_the_catalogue_costs_no_product() -> None:
    clean, dirty = (played("products", *dirt).silver for dirt in ((), ("malformed",)))
    assert {key: dirty[key] for key in clean} == clean


@pytest.mark.parametrize("dataset", ["orders", "customers", "clicks"])
def test_a_redelivered_file_is_one_of_the_day_before_under_another_name(dataset: str) -> None:
    recipe = Recipe.of(0.1, 7, ["redelivered"])
    first, second = (dict(folder_files(dataset, day, recipe)) for day in DAYS[:2])
    (again,) = second.keys() - dict(folder_files(dataset, DAYS[1], Recipe.of(0.1, 7, ()))).keys()
    assert again.startswith(f"{dataset}/{DAYS[1]}/again-part-000")
    assert second[again] == first[again.replace(f"{DAYS[1]}/again-", f"{DAY}/")] != b""


def test_a_catalogue_is_not_redelivered() -> None:
    with_dirt, without = (list(folder_files("products", DAY, Recipe.of(0.1, 7, d))) for d in (["redelivered"], []))
    assert with_dirt == without


# Corrections


def compared(dataset: str, *dirt: str) -> tuple[list[Record], list[Record]]:
    """The records of the first file of a day, and those of its correction."""
    recipe = Recipe.of(SCALES[dataset], 7, dirt)
    key, data = corrected(dataset, DAY, recipe)
    first = dict(folder_files(dataset, DAY, recipe))[key]
    return records_of(DAY, key, first), records_of(DAY, key, data)


@pytest.mark.parametrize("dataset", ["orders", "customers", "products", "clicks"])
def test_a_correction_removes_changes_and_adds_records_and_leaves_most_alone(dataset: str) -> None:
    before, after = ([record.text for record in found] for found in compared(dataset))
    kept = [text for text in before if text in set(after)]
    assert kept == [text for text in after if text in set(before)]
    assert len(before) * 0.8 < len(kept) < len(before)
    old, new = map(identities, compared(dataset))
    assert old.keys() - new.keys(), "removed"
    assert new.keys() - old.keys(), "added"
    assert any(old[name] != new[name] for name in old.keys() & new.keys()), "changed"


@pytest.mark.parametrize("dataset", ["orders", "customers", "products", "clicks"])
def test_a_correction_leaves_broken_records_and_deletes_alone(dataset: str) -> None:
    before, after = (
        [record.text for record in found if record.fields is None or record.fields.get("op") == "d"]
        for found in compared(dataset, *DIRT)
    )
    assert before == after != []


def identities(found: list[Record]) -> dict[Any, dict[str, Any]]:
    """Records by what tells one from another: the key, and for a change its time."""
    by_name = {}
    for record in found:
        fields = record.fields or {}
        image = fields.get("after") or fields.get("before") or fields
        by_name[fields.get("event_id") or image["id"], fields.get("ts_ms")] = image
    return by_name


@pytest.mark.parametrize("dataset", ["orders", "customers", "products", "clicks"])
def test_a_correction_is_the_same_every_time_and_breaks_no_more_than_the_first_version(dataset: str) -> None:
    recipe = Recipe.of(0.4, 7, ())
    key, data = corrected(dataset, DAY, recipe)
    events._arrivals.cache_clear()
    assert corrected(dataset, DAY, recipe) == (key, data)
    shop = Oracle(dataset)
    shop.run(DAY, {key: data})
    assert shop.quarantine == []
    assert shop.silver != {}


# Delivery


class Memory:
    """A store that remembers in which order it was written, and fails when it is told to."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.fails = 0

    def has(self, key: str) -> bool:
        return key in self.keys

    def put(self, key: str, data: bytes) -> None:
        if self.fails:
            self.fails -= 1
            raise LakehouseError("The store is away.")
        self.keys.append(key)


def test_a_day_that_was_delivered_is_left_alone_and_a_day_cut_short_is_completed() -> None:
    store = Memory()
    assert deliver(DAY, DAYS[1], scale=0.01, store=store) == len(store.keys) > 0
    assert deliver(DAY, DAYS[1], scale=0.5, store=store) == 0
    store.keys.remove(f"orders/{DAY}/_SUCCESS")
    deliver(DAY, DAYS[1], scale=0.01, store=store)
    assert store.keys[-1] == f"orders/{DAY}/_SUCCESS"


def follow_until(store: Memory, moments: list[datetime], start: date | None) -> list[str]:
    """Follow a clock that shows these moments one after the other, until the last."""
    told: list[str] = []
    clock = iter(moments)
    current = [next(clock)]

    def sleep(_seconds: float) -> None:
        current[0] = next(clock, current[0])
        ended.extend([current[0]] if current[0] == moments[-1] else [])

    ended: list[datetime] = []
    recipe = Recipe.of(0.01, 7, ())
    follow(
        recipe,
        store,
        start=start,
        stopping=lambda: len(ended) > 1,
        tell=told.append,
        now=lambda: current[0],
        sleep=sleep,
    )
    return told


def test_following_catches_up_and_then_delivers_each_day_after_it_has_ended() -> None:
    noon, night = datetime(2026, 1, 3, 12, tzinfo=UTC), datetime(2026, 1, 4, 0, 1, tzinfo=UTC)
    store = Memory()
    told = follow_until(store, [noon, night - timedelta(seconds=45), night], start=DAY)
    assert [text[:20] for text in told] == ["Delivered 2026-01-01", "Delivered 2026-01-02", "Delivered 2026-01-03"]


def test_following_without_a_start_begins_with_yesterday() -> None:
    noon = datetime(2026, 1, 3, 12, tzinfo=UTC)
    assert [text[:20] for text in follow_until(Memory(), [noon], start=None)] == ["Delivered 2026-01-02"]


def test_following_outlives_a_store_that_is_away() -> None:
    noon = datetime(2026, 1, 3, 12, tzinfo=UTC)
    store = Memory()
    store.fails = 1
    told = follow_until(store, [noon, noon + timedelta(minutes=1), noon + timedelta(minutes=2)], start=None)
    assert told[0].startswith("The store is away.")
    assert told[1].startswith("Delivered 2026-01-02")


def run(*arguments: object) -> Any:
    app = typer.Typer()
    app.command()(sample)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_writes_the_generator_s_files(tmp_path: Any) -> None:
    done = run("--from", DAY, "--to", DAYS[1], "--scale", 0.05, "--dirt", "late, currency", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    expected = [file for day in DAYS[:2] for file in generate(day, scale=0.05, dirt=["late", "currency"])]
    assert f"Delivered {len(expected)} files" in done.output
    assert all((tmp_path / key).read_bytes() == data for key, data in expected)


@pytest.mark.parametrize("bad", [(), ("--from", DAYS[1], "--to", DAY), ("--from", DAY, "--dirt", "mud")])
def test_the_command_refuses_in_one_sentence(bad: tuple[object, ...], tmp_path: Any) -> None:
    assert isinstance(run(*bad, "--out", tmp_path).exception, LakehouseError)


def test_a_following_command_leaves_cleanly_when_told_to(tmp_path: Any) -> None:
    code = "import typer; from lakehouse.cli.sample import sample; typer.run(sample)"
    command = [sys.executable, "-uc", code, "--follow", "--scale", "0.01", "--out", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as service:
        assert service.stdout
        assert service.stdout.readline().startswith("Delivered")
        service.send_signal(signal.SIGTERM)
        assert service.wait(timeout=60) == 0
