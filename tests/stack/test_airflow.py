"""The whole of it: Airflow, over its REST API, runs the shop's days from bronze to gold on the real stack."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from lakehouse.airflow_api import AirflowApi, Run
from lakehouse.errors import LakehouseError
from lakehouse.health import health
from lakehouse.ledger import batches, leases, maintenance_turns
from lakehouse.naming import REPLAY_DAG, critical_run_id, dag_id, layer_of, quarantine_table
from lakehouse.query import run_sql
from lakehouse.sample import Recipe
from lakehouse.settings import ROOT, settings
from tests.stack import answers
from tests.stack.foreign import BRONZE, SILVER, lines
from tests.stack.harness import eventually
from tests.stack.shop import Shop, in_session, interval
from tests.stack.tables import head, loaded

pytestmark = pytest.mark.timeout(3600)

FIRST = date(2026, 1, 1)
RECIPE = Recipe.of(0.1, 5, None)
DAYS = [FIRST + timedelta(n) for n in range(2)]


@pytest.fixture(scope="module")
def contracts(airflow) -> Path:
    return settings().contracts


@pytest.fixture(scope="module")
def api(airflow) -> Iterator[AirflowApi]:
    with AirflowApi(airflow) as session:
        yield session


@pytest.fixture(scope="module")
def shop(contracts) -> Iterator[Shop]:
    """A shop whose schedule has two intervals, both in the past: Airflow catches up on them and stops."""
    opened = Shop.open(contracts, start=f"{FIRST}\nend: {DAYS[-1] + timedelta(1)}")
    yield opened
    opened.close()


def states(api: AirflowApi, dataset: str) -> list[str]:
    return [run.state for run in api.runs(dag_id(dataset), FIRST, FIRST + timedelta(60))]


@pytest.fixture(scope="module")
def caught_up(shop, api):
    """All intervals of all layers run by Airflow's scheduler."""
    expected = shop.deliver(DAYS, RECIPE)
    catch_up(api, shop, len(DAYS))
    return expected


def catch_up(api: AirflowApi, shop: Shop, intervals: int) -> None:
    """Switch the shop's DAGs on, and wait until each has run all of its intervals."""
    unpause(api, shop)

    def done() -> bool:
        found = [states(api, dataset) for dataset in shop.datasets]
        assert not any("failed" in runs for runs in found), failures(api, shop)
        return found == [["success"] * intervals] * len(found)

    eventually(done, 900, "every interval of every layer has run")


def unpause(api: AirflowApi, shop: Shop) -> None:
    """Switch the shop's DAGs on, as soon as Airflow knows them."""
    wanted = {dag_id(dataset) for dataset in shop.datasets}
    eventually(lambda: wanted <= api.dags(), 240, "Airflow shows the new contracts' DAGs")
    for dag in wanted:
        api.unpause(dag)


def failures(api: AirflowApi, shop: Shop) -> list[tuple[str, str]]:
    runs = [run for dataset in shop.datasets for run in api.runs(dag_id(dataset), FIRST, FIRST + timedelta(60))]
    return [api.failure(run) for run in runs if run.state == "failed"]


def test_airflow_brings_every_day_to_gold_and_gold_equals_the_oracle(caught_up, shop):
    assert answers.gold(shop) == sorted(caught_up.gold, key=repr)


def test_silver_and_quarantine_equal_the_oracle(caught_up, shop):
    assert answers.silver(shop) == caught_up.silver
    assert answers.quarantine(shop) == sorted(caught_up.quarantine)


def test_no_lease_is_left(caught_up, shop):
    assert [leases.holder(dataset) for dataset in shop.datasets] == [None] * 3


def test_the_last_line_of_a_write_tells_rows_and_snapshot(caught_up, shop, api):
    run = api.runs(dag_id(shop.silver), FIRST, FIRST)[0]
    line = api.last_line(run, "publish")
    assert "rows_in=" in line
    assert "quarantined=" in line
    assert "snapshot=" in line


def backfill(running, dataset: str, days: list[date], *options: str) -> subprocess.CompletedProcess[str]:
    """What an operator types."""
    window = ("-s", str(days[0]), "-e", str(days[-1]))
    command = ("airflow", "dags", "backfill", *window, *options, dag_id(dataset))
    return running.lakehouse(*command, check=False, timeout=300 + 200 * len(days))


def backfilled_shop(contracts: Path, api: AirflowApi) -> Shop:
    """A shop whose schedule has not begun, so that nothing but a backfill runs it."""
    opened = Shop.open(contracts, start="2099-01-01")
    unpause(api, opened)
    return opened


def change_contract(contracts: Path, dataset: str, line: str) -> None:
    layer, name = dataset.split(".")
    file = contracts / layer / f"{name}.yaml"
    file.write_text(f"{file.read_text()}{line}\n")


def test_maintenance_leaves_fewer_files_and_the_same_rows(caught_up, shop, api, contracts):
    for dataset in shop.datasets:
        sort = "" if dataset == shop.bronze else ", sort_by: [region, category]"
        change_contract(contracts, dataset, f"maintenance: {{min_input_files: 2, deleted_share: 0%{sort}}}")
    before = {dataset: health(loaded(dataset)) for dataset in shop.datasets}
    answered = answers.silver(shop), answers.gold(shop), answers.quarantine(shop)
    api.unpause("maintenance_daily")
    run = api.trigger("maintenance_daily")
    eventually(lambda: api.state(run) in ("success", "failed"), 900, "maintenance has run")
    assert api.state(run) == "success", api.failure(run)
    after = {dataset: health(loaded(dataset)) for dataset in shop.datasets}
    assert (answers.silver(shop), answers.gold(shop), answers.quarantine(shop)) == answered
    assert after[shop.silver].files < before[shop.silver].files
    assert after[shop.silver].delete_files == 0
    assert {d: h.rows for d, h in after.items()} == {d: h.rows for d, h in before.items()}


def test_the_form_of_rollback_goes_back_and_forward(caught_up, shop, api):
    first = next(w.head for w in batches.published(shop.gold)[-1].writes if w.table == shop.gold)
    last, answered = head(shop.gold), answers.gold(shop)
    api.unpause("rollback")
    for to in (first, last):
        run = api.trigger("rollback", dataset=shop.gold, to=str(to), why="a test", apply=True)
        eventually(lambda run=run: api.state(run) in ("success", "failed"), 300, "the rollback has run")
        assert api.state(run) == "success", api.failure(run)
        assert api.last_line(run, "rollback").endswith(f"{shop.gold} is at {to}")
        assert head(shop.gold) == to
    assert answers.gold(shop) == answered
    assert leases.holder(shop.gold) is None


SALES = """
  order_no:  {type: string, required: true, from: orderHeader.orderNo, matches: '[A-Z]{2}-[0-9]+'}
  total:     {type: "decimal(12,2)", required: true, from: orderHeader.totalAmount, clean: currency_eu}
  placed_on: {type: date, required: true, from: orderHeader.placedOn, formats: dd/MM/yyyy}
  first_sku: {type: string, from: 'lineItems[0].skuCode', clean: upper}
"""


def sale(number: str, total: str, placed: str) -> dict[str, Any]:
    """An order as another team's system exports it."""
    head = {"orderNo": number, "totalAmount": total, "placedOn": placed}
    return {"orderHeader": head, "lineItems": [{"skuCode": f"sku-{number}"}]}


@pytest.fixture(scope="module")
def sales(contracts, running, api, tmp_path_factory) -> Iterator[Shop]:
    """Another team's contracts in a folder outside the repository, and one file that the team has landed and run."""
    opened = Shop(contracts, f"t{uuid4().hex[:6]}", "foreign")
    name = f"foreign_{opened.suffix}"
    for layer, text in (("bronze", BRONZE), ("silver", SILVER)):
        (contracts / layer).mkdir(exist_ok=True)
        written = text.format(name=name, form="json_lines", columns=SALES, how="delivers: events")
        (contracts / layer / f"{name}.yaml").write_text(f"{written}end: {FIRST + timedelta(1)}\n")
    shutil.copy(ROOT / "include/contracts/layers.yaml", contracts / "layers.yaml")
    file = tmp_path_factory.mktemp("export") / "export.jsonl"
    good = sale("DE-17", "1.234,50 €", "31/01/2026"), sale("AT-3", "12,00 €", "01/12/2025")
    file.write_bytes(lines(*good, sale("18", "9,90 €", "02/01/2026"), sale("DE-19", "1,00 €", "31/02/2026")))
    running.lakehouse("land", opened.bronze, str(FIRST), str(file))
    catch_up(api, opened, 1)
    yield opened
    opened.close()


def sold(shop: Shop) -> list[tuple[Any, ...]]:
    return run_sql(f"SELECT order_no, total, placed_on, first_sku FROM {shop.silver} ORDER BY order_no")[1]


SOLD = [
    ("AT-3", Decimal("12.00"), date(2025, 12, 1), "SKU-AT-3"),
    ("DE-17", Decimal("1234.50"), date(2026, 1, 31), "SKU-DE-17"),
]


def test_another_teams_contracts_outside_the_repository_bring_what_it_landed_to_silver(sales):
    assert not sales.folder.is_relative_to(ROOT)
    assert answers.bronze_count(sales, FIRST) == 4
    assert sold(sales) == SOLD


def resolved(api: AirflowApi, **form: Any) -> str:
    """Send the form of replay, which knows a new dataset once Airflow has read it again; what its task says last."""
    sent: list[Run] = []

    def taken() -> bool:
        with suppress(LakehouseError):
            api.unpause(REPLAY_DAG)
            sent.append(api.trigger(REPLAY_DAG, **form))
        return bool(sent)

    eventually(taken, 120, "the form takes what is filled in")
    eventually(lambda: api.state(sent[0]) in ("success", "failed"), 300, "the form has run")
    assert api.state(sent[0]) == "success", api.failure(sent[0])
    return api.last_line(sent[0], "resolve")


def test_the_form_of_replay_quarantine_takes_mended_rows_in_once_and_gives_others_up(sales, api, airflow, contracts):
    file = contracts / "silver" / f"foreign_{sales.suffix}.yaml"
    file.write_text(file.read_text().replace("[A-Z]{2}-[0-9]+", "([A-Z]{2}-)?[0-9]+"))
    begun, who = datetime.now(UTC), airflow.airflow_operator
    which = {"reason": "order_no.matches", "interval": f"{FIRST}T00:00:00Z"}
    said = resolved(api, dataset=sales.silver, action="replay", why="numbers may be short", **which)
    assert said.endswith(f"{sales.silver}: 1 of 1 records replayed, 0 rejected again")
    assert sold(sales) == [("18", Decimal("9.90"), date(2026, 1, 2), "SKU-18"), *SOLD]
    said = resolved(api, dataset=sales.silver, action="discard", why="no such day", reason=None, interval=None)
    assert said.endswith(f"{sales.silver}: 1 records discarded")

    marks = "_reasons[1], _resolution, _resolved_by, _resolved_why, _resolved_at"
    found = run_sql(f"SELECT {marks} FROM {quarantine_table(sales.silver)} ORDER BY 1")[1]
    assert [row[:4] for row in found] == [
        ("order_no.matches", "replayed", who, "numbers may be short"),
        ("placed_on.type", "discarded", who, "no such day"),
    ]
    assert all(begun < row[4] < datetime.now(UTC) for row in found)
    assert len(sold(sales)) == 3


@pytest.mark.parametrize(
    "layers", [("silver",), pytest.param(("bronze", "silver", "gold"), marks=pytest.mark.full)], ids="-".join
)
def test_a_day_by_spark_submit_gives_the_same_tables_as_by_connect(layers, running, contracts, api, spark):
    shop = backfilled_shop(contracts, api)
    expected = shop.deliver(DAYS[:1], RECIPE)
    for dataset in shop.datasets:
        if layer_of(dataset) in layers:
            done = backfill(running, dataset, DAYS[:1], "--conf", '{"spark_mode": "submit"}')
            assert done.returncode == 0, done.stdout + done.stderr
        else:
            shop.run(dataset, DAYS[0], in_session(spark))
    assert answers.silver(shop) == expected.silver
    assert answers.quarantine(shop) == sorted(expected.quarantine)
    assert answers.gold(shop) == sorted(expected.gold, key=repr)


def job_process(dataset: str) -> psutil.Process | None:
    """The Spark client that a task of this dataset is running."""
    for process in psutil.process_iter(["cmdline"]):
        if any(argument.startswith(f"_jobs/{dataset}/") for argument in process.info["cmdline"] or ()):
            return process
    return None


def test_a_task_killed_outright_is_retried_and_converges_and_a_worn_table_is_maintained_at_once(contracts, api):
    shop = Shop.open(contracts, start=f"{FIRST}\nend: {FIRST + timedelta(1)}")
    change_contract(contracts, shop.bronze, "maintenance: {critical_files: 1}")
    expected = shop.deliver(DAYS[:1], RECIPE)
    eventually(lambda: dag_id(shop.bronze) in api.dags(), 240, "Airflow shows the new contract's DAG")
    api.unpause(dag_id(shop.bronze))
    eventually(lambda: job_process(shop.bronze) is not None, 300, "the task runs its job")
    client = job_process(shop.bronze)
    assert client is not None
    task = client.parent()
    assert task is not None
    task.kill()
    eventually(lambda: not client.is_running(), 120, "the job has noticed that its task is gone")
    eventually(lambda: states(api, shop.bronze) == ["success"], 600, "the retry has published the batch")
    assert answers.bronze_count(shop, FIRST) == expected.bronze[FIRST]
    assert len(batches.published_in(shop.bronze, interval(FIRST))) == 1
    assert leases.holder(shop.bronze) is None
    maintained_at_once(api, shop.bronze)


def maintained_at_once(api: AirflowApi, dataset: str) -> None:
    """The run that published asked for one of maintenance, for this dataset alone."""
    api.unpause("maintenance_daily")
    asked = Run("maintenance_daily", critical_run_id(dataset, 0), FIRST, "")
    eventually(lambda: api.state(asked) == "success", 300, "maintenance has run")
    assert sorted(task.task_id for task in api.tasks(asked)) == ["maintain", "plan"], "of one dataset"
    assert maintenance_turns.last()[dataset].outcome == "done"
