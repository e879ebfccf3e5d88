"""Contracts: what is wrong is named by file, field and fix, all at once, and leaves the others alone."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from lakehouse.catalog import catalog
from lakehouse.cli.contracts import contracts
from lakehouse.contracts import AnyContract, load
from lakehouse.contracts.bounds import read_bound
from lakehouse.contracts.load import Loaded
from lakehouse.contracts.model import MODELS
from lakehouse.contracts.paths import names, steps
from lakehouse.contracts.reference import reference
from lakehouse.contracts.schema import SCHEMA_FILE, json_schema
from lakehouse.intervals import Interval
from lakehouse.settings import ROOT, settings

SHIPPED = ROOT / "include/contracts"

LAYERS = """
bronze: {sla: {ready_within: 1h}, retention: {snapshots: 7d}, maintenance: {tier: daily}}
silver: {sla: {ready_within: 2h}, retention: {snapshots: 7d, keep_last: 9}, maintenance: {tier: daily}}
gold:   {sla: {ready_within: 3h}, retention: {snapshots: 90d}, maintenance: {tier: daily}}
"""
BRONZE = """
dataset: bronze.events
description: Events.
owner: team
start: 2026-01-01
source: {kind: files, path: "events/{interval:%Y-%m-%d}/"}
"""
SILVER = """
dataset: silver.events
description: Events.
owner: team
start: 2026-01-01
reads: bronze.events
columns:
  event_id: {type: bigint, required: true, from: id}
  amount:   {type: "decimal(12,2)", from: amount, check: amount >= 0}
  seen_at:  {type: timestamp, required: true, from: at}
key: [event_id]
newest_by: [seen_at]
partition_by: [day(seen_at)]
"""
GOLD = """
dataset: gold.daily
description: Events a day.
owner: team
start: 2026-01-01
reads: silver.events
columns:
  day:    {type: date, required: true}
  events: {type: bigint, required: true}
rebuild: {day: silver.events.seen_at}
"""
SQL = "SELECT CAST(seen_at AS DATE) AS day, COUNT(*) AS events FROM silver_events GROUP BY ALL"
GOOD = {
    "layers.yaml": LAYERS,
    "bronze/events.yaml": BRONZE,
    "silver/events.yaml": SILVER,
    "gold/daily.yaml": GOLD,
    "gold/daily.sql": SQL,
}


def loaded(folder: Path, changes: dict[str, str | None] | None = None) -> Loaded:
    """The folder of good contracts with some of its files changed, added or (None) left out."""
    for name, text in {**GOOD, **(changes or {})}.items():
        if text is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    return load(folder)


def problems(folder: Path, changes: dict[str, str | None]) -> list[str]:
    """Each problem as `file: field: message`, with the file's name within the folder."""
    return [str(p).removeprefix(f"{folder}/") for p in loaded(folder, changes).problems]


def silver(text: str) -> AnyContract:
    return MODELS["silver"].model_validate(yaml.safe_load(LAYERS)["silver"] | yaml.safe_load(text))


def test_good_contracts_have_no_problem(tmp_path):
    assert loaded(tmp_path).problems == ()


PATH_FIX = 'put dots between names, [0] behind a list, and double quotes around a name that holds . [ or "'
MISTAKES = [
    ("bronze", "kind: files,", "kind: files, fromat: text,",
     "source.fromat: unknown field; did you mean 'format'?"),
    ("bronze", "kind: files,", "kind: files, ready: {markr: x},",
     "source.ready.markr: unknown field; did you mean 'marker'?"),
    ("bronze", "owner: team", "owner: team\npartition_by: [day]",
     "partition_by[0]: no column 'day'"),
    ("silver", "owner: team", "owner: team\ntimezon: UTC",
     "timezon: unknown field; did you mean 'timezone'?"),
    ("silver", "owner: team\n", "",
     "owner: is missing; add it"),
    ("silver", "check: amount", "chek: amount",
     "columns.amount.chek: unknown field; did you mean 'check'?"),
    ("silver", "day(seen_at)", "day(sen_at)",
     "partition_by[0]: no column 'sen_at'; did you mean 'seen_at'?"),
    ("silver", "day(seen_at)", "every day",
     "partition_by[0]: 'every day' is no partition; write column, day(column) or bucket(16, column)"),
    ("silver", "key: [event_id]", "key: [evnt_id]",
     "key[0]: no column 'evnt_id'; did you mean 'event_id'?"),
    ("silver", "key: [event_id]", "key: [amount]",
     "key[0]: 'amount' may be missing; add required: true to the column"),
    ("silver", "newest_by: [seen_at]", "newest_by: [seen]",
     "newest_by[0]: no column 'seen'; did you mean 'seen_at'?"),
    ("silver", "key: [event_id]", "key: [event_id]\ngates: [{unique: [event]}]",
     "gates[0].unique[0]: no column 'event'; did you mean 'event_id'?"),
    ("silver", "key: [event_id]", "key: [event_id]\nmaintenance: {sort_by: [amnt]}",
     "maintenance.sort_by[0]: no column 'amnt'; did you mean 'amount'?"),
    ("silver", "from: amount, ", "",
     "columns.amount.from: is missing; write the path in the record, such as after.amount"),
    ("silver", "newest_by: [seen_at]", "newest_by: [amount]\nlate_data: 3d",
     "late_data: needs a timestamp as the first column of newest_by"),
    ("silver", "newest_by: [seen_at]", "newest_by: [seen_at]\nlate_data: 3 days",
     "late_data: '3 days' is no duration; write a number and s, m, h or d, such as 90m or 3d"),
    ("silver", "from: id}", "from: id, accepted: [yes]}",
     "columns.event_id.accepted[0]: must be text, not True; put it in quotes"),
    ("silver", "check: amount >= 0", "between: [0, many]",
     "columns.amount.between: 'many' is no decimal(12,2); write one, such as 2.5"),
    ("silver", "check: amount >= 0", "between: [0, 0.001]",
     "columns.amount.between: '0.001' is no decimal(12,2); write one, such as 2.5"),
    ("silver", "check: amount >= 0", "between: [5, 1]",
     "columns.amount.between: no value is between 5 and 1; write the lowest first"),
    ("silver", "from: at}", "from: at, between: [2026-01-01, '2026-02-31']}",
     "columns.seen_at.between: '2026-02-31' is no timestamp; write one, such as 2026-01-31T12:00:00Z"),
    ("silver", "from: amount, check: amount >= 0", "expr: abs(`_text_x`)",
     "columns.amount.expr: '_text_x' cannot be used; use columns or _source_file, _ingestion_date, _ingested_at"),
    ("silver", "amount >= 0", "amount >= length(_raw_payload)",
     "columns.amount.check: '_raw_payload' cannot be used; use columns or _source_file, _source_offset"),
    ("silver", "key: [event_id]", "key: [event_id]\nrules: {soon: seen_at < _ingested_at}",
     "rules.soon: '_ingested_at' cannot be used; use columns or _source_file, _source_offset"),
    ("silver", "check: amount >= 0", "matches: '(?P<whole>[0-9]+)'",
     "columns.amount.matches: '(?P<whole>[0-9]+)' has groups that only Python knows; write them as (…) or (?:…)"),
    ("silver", "from: amount", "from: [amount, a..b]",
     f"columns.amount.from[1]: 'a..b' is no path; {PATH_FIX}"),
    ("silver", "key: [event_id]", "key: [event_id]\ndelete_when: '`a[` = 1'",
     f"delete_when: 'a[' is no path; {PATH_FIX}"),
    ("gold", "day:    {type: date,", "day:    {type: date, between: [2026-12-31, 2026-01-01],",
     "columns.day.between: no value is between 2026-12-31 and 2026-01-01; write the lowest first"),
    ("silver", "reads: bronze.events", "reads: bronze.event",
     "reads: no dataset 'bronze.event'; did you mean 'bronze.events'?"),
    ("silver", "reads: bronze.events", "reads: gold.daily",
     "reads: silver is made from bronze, not from 'gold.daily'"),
    ("gold", "silver.events.seen_at", "silver.events.sen_at",
     "rebuild.day: silver.events has no column 'sen_at'; did you mean 'seen_at'?"),
    ("gold", "gold.daily", "gold.dayly",
     "dataset: is 'gold.dayly', but the file's place says 'gold.daily'"),
    ("gold", "reads: silver.events", "reads: [silver.events, gold.daily]",
     "reads: goes in a circle: gold.daily → gold.daily; remove one of these"),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "right", "wrong", "problem"), MISTAKES, ids=[problem for *_, problem in MISTAKES])
def test_a_mistake_is_named_by_file_field_and_fix(tmp_path, layer, right, wrong, problem):
    file = {"bronze": "bronze/events.yaml", "silver": "silver/events.yaml", "gold": "gold/daily.yaml"}[layer]
    assert right in GOOD[file]
    assert problems(tmp_path, {file: GOOD[file].replace(right, wrong)}) == [f"{file}: {problem}"]


@pytest.mark.parametrize("path", ["", ".a", "a.", '"a', '"a"b', "[0]", "a[b]", "a[-1]", "a[9999999999]", "a[0]b"])
def test_a_path_that_means_nothing_is_refused(path):
    with pytest.raises(ValueError, match="is no path"):
        steps(path)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("int", ["1.0", 2**31, "x", float("nan"), float("inf"), "1e999999999"]),
        ("bigint", [2**63, 0.5]),
        ("double", [float("nan"), "-Infinity", "1e400"]),
        ("decimal(38,0)", ["1" * 39, "0.1"]),
        ("date", ["2026-02-31", "2026-01-01T00:00:00", 2026]),
        ("timestamp", ["2026-13-01", "12:00", 5]),
    ],
)
def test_a_bound_that_its_column_cannot_hold_is_refused(kind, bad):
    for bound in bad:
        with pytest.raises(ValueError, match="; write one, such as"):
            read_bound(bound, kind)


@pytest.mark.parametrize(
    ("kind", "given", "bound"),
    [
        ("bigint", "1e3", 1000),
        ("double", 5, 5.0),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("timestamp", "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("timestamp", "2026-01-01T02:00:00+02:00", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_bound_is_a_value_of_its_column(kind, given, bound):
    assert read_bound(given, kind) == bound


def test_names_in_sql_are_told_from_texts_numbers_and_functions():
    sql = """lower(Op) = 'a b' AND n > 1e5 OR `x y` IN ("c", r'\\') AND t.d IS NOT NULL"""
    assert names(sql) == ["Op", "n", "x y", "t.d"]


def test_all_mistakes_of_a_contract_are_told_at_once(tmp_path):
    wrong = SILVER.replace("key: [event_id]", "key: [nothing]").replace("day(seen_at)", "day(never)")
    assert problems(tmp_path, {"silver/events.yaml": wrong}) == [
        "silver/events.yaml: partition_by[0]: no column 'never'",
        "silver/events.yaml: key[0]: no column 'nothing'",
    ]


def test_all_mistakes_between_contracts_are_told_at_once(tmp_path):
    wrong = GOLD.replace("reads: silver.events", "reads: [silver.events, silver.a, silver.b]")
    assert len(problems(tmp_path, {"gold/daily.yaml": wrong})) == 2


def test_a_circle_of_several_names_them_all(tmp_path):
    one = GOLD.replace("gold.daily", "gold.one").replace("reads: silver.events", "reads: [silver.events, gold.two]")
    two = GOLD.replace("gold.daily", "gold.two").replace("reads: silver.events", "reads: [silver.events, gold.one]")
    found = problems(tmp_path, {"gold/one.yaml": one, "gold/one.sql": SQL, "gold/two.yaml": two, "gold/two.sql": SQL})
    assert found == [
        "gold/one.yaml: reads: goes in a circle: gold.one → gold.two → gold.one; remove one of these",
        "gold/two.yaml: reads: goes in a circle: gold.two → gold.one → gold.two; remove one of these",
    ]


def test_broken_yaml_is_named_by_its_line(tmp_path):
    (problem,) = problems(tmp_path, {"bronze/events.yaml": "dataset: bronze.events\nowner: [team"})
    assert problem.startswith("bronze/events.yaml: is no YAML: line 2: ")


def test_a_key_given_twice_is_refused(tmp_path):
    (problem,) = problems(tmp_path, {"silver/events.yaml": SILVER + "key: [seen_at]\n"})
    assert problem == "silver/events.yaml: is no YAML: line 14: 'key' is there twice"


@pytest.mark.parametrize("text", ["", "- a\n", "just words\n"])
def test_a_file_that_is_no_mapping_is_no_contract(tmp_path, text):
    expected = "bronze/events.yaml: is no contract; it begins with dataset: <layer>.<name>"
    assert problems(tmp_path, {"bronze/events.yaml": text}) == [expected]


def test_a_file_that_is_no_text_is_a_problem_not_a_crash(tmp_path):
    loaded(tmp_path)
    (tmp_path / "bronze/events.yaml").write_bytes(b"\xff\xfe\x00")
    (problem,) = load(tmp_path).problems
    assert "cannot be read" in problem.message


def test_missing_sql_is_told(tmp_path):
    expected = "gold/daily.yaml: sql: there is no daily.sql beside the contract; write the query there"
    assert problems(tmp_path, {"gold/daily.sql": None}) == [expected]


def test_one_broken_contract_leaves_the_others_loaded(tmp_path):
    found = loaded(tmp_path, {"silver/events.yaml": "dataset: [", "gold/other.yaml": GOLD})
    assert set(found.contracts) == {"bronze.events", "gold.daily"}
    assert {p.file.name for p in found.problems} == {"events.yaml", "other.yaml"}


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("sliver/events.yaml", "is not read: folder 'sliver' is no layer; did you mean 'silver'?"),
        ("silver/more.yml", "is not read; rename it to more.yaml"),
    ],
)
def test_a_file_that_would_never_be_read_is_told(tmp_path, file, problem):
    assert problems(tmp_path, {file: SILVER}) == [f"{file}: {problem}"]


def test_layer_defaults_are_merged_field_by_field(tmp_path):
    contract = loaded(tmp_path, {"silver/events.yaml": SILVER + "retention: {snapshots: 30d}\n"}).contracts[
        "silver.events"
    ]
    assert contract.retention.snapshots == timedelta(days=30)
    assert contract.retention.keep_last == 9
    assert contract.sla.ready_within == timedelta(hours=2)


def test_a_wrong_default_is_laid_at_the_door_of_layers_yaml_once(tmp_path):
    wrong = LAYERS.replace("bronze: {sla: {ready_within: 1h}", "bronze: {sla: {ready_within: soon}")
    more = BRONZE.replace("bronze.events", "bronze.more")
    (problem,) = problems(tmp_path, {"layers.yaml": wrong, "bronze/more.yaml": more})
    assert problem.startswith("layers.yaml: bronze.sla.ready_within: 'soon' is no duration")


def test_a_broken_layers_file_is_a_problem_not_a_crash(tmp_path):
    assert problems(tmp_path, {"layers.yaml": "bronze: ["})[0].startswith("layers.yaml: is no YAML")


def test_an_unknown_layer_in_layers_yaml_is_told(tmp_path):
    assert problems(tmp_path, {"layers.yaml": f"{LAYERS}sliver: {{}}\n"}) == [
        "layers.yaml: sliver: is no layer; did you mean 'silver'?"
    ]


def test_a_contract_without_layer_default_is_told_where_to_add_it(tmp_path):
    found = problems(tmp_path, {"layers.yaml": LAYERS.replace("gold: ", "# gold: ")})
    assert "gold/daily.yaml: sla: is missing; add it here or in layers.yaml" in found


@pytest.mark.parametrize(
    ("right", "other"),
    [
        ("owner: team", "owner: others"),
        ("description: Events.", "description: All events."),
        ("from: amount,", "from: amount, description: What was paid,"),
        ("key: [event_id]", "key: [event_id]\nupdate_mode: copy_on_write"),
        ("key: [event_id]", "key: [event_id]\nsla: {ready_within: 5m}"),
    ],
)
def test_what_changes_no_row_keeps_the_version(right, other):
    assert right in SILVER
    assert silver(SILVER).version == silver(SILVER.replace(right, other)).version


@pytest.mark.parametrize(
    ("right", "other"),
    [
        ("amount >= 0", "amount > 0"),
        ("from: amount", "from: after.amount"),
        ("newest_by: [seen_at]", "newest_by: [event_id]"),
    ],
)
def test_what_changes_rows_changes_the_version(right, other):
    assert right in SILVER
    assert silver(SILVER).version != silver(SILVER.replace(right, other)).version


@pytest.mark.parametrize("contract", load(SHIPPED).contracts.values(), ids=lambda contract: contract.dataset)
def test_a_contract_survives_the_way_through_json(contract):
    again = type(contract).model_validate_json(contract.model_dump_json(by_alias=True))
    assert again == contract
    assert again.version == contract.version


def test_the_shipped_contracts_have_no_problem():
    assert [str(p) for p in load(SHIPPED).problems] == []


def test_the_newest_interval_ends_at_the_schedules_last_tick(tmp_path):
    contract = loaded(tmp_path).contracts["bronze.events"]
    midnight = datetime(2026, 1, 3, tzinfo=UTC)
    day = Interval(midnight - timedelta(days=1), midnight)
    assert contract.interval_ending_by(midnight) == day
    assert contract.interval_ending_by(midnight - timedelta(microseconds=1)) == contract.interval_before(day)


def test_the_landing_prefix_is_that_of_the_contracts_zone():
    text = BRONZE + "timezone: Europe/Berlin\n"
    contract = MODELS["bronze"].model_validate(yaml.safe_load(LAYERS)["bronze"] | yaml.safe_load(text))
    night = datetime(2026, 1, 1, 23, tzinfo=UTC)
    assert contract.landing_prefix(night) == "events/2026-01-02/"


def test_the_committed_schema_is_what_the_model_generates():
    assert (SHIPPED / SCHEMA_FILE).read_text() == json_schema(), "run `lakehouse contracts schema`"


def test_the_committed_reference_is_what_the_model_generates():
    assert (ROOT / "include/docs/contracts.md").read_text() == reference(), "run `lakehouse contracts reference`"


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*/*.yaml")), ids=lambda file: f"{file.parent.name}.{file.stem}")
def test_an_editor_with_the_schema_accepts_the_shipped_contracts(file):
    assert list(editor_errors(file.read_text())) == []


def test_an_editor_with_the_schema_marks_a_typo():
    assert list(editor_errors(SILVER.replace("owner: team", "ownr: team"))) != []


def editor_errors(text: str) -> list[str]:
    as_json = json.loads(json.dumps(yaml.safe_load(text), default=str))
    return [e.message for e in jsonschema.Draft202012Validator(json.loads(json_schema())).iter_errors(as_json)]


@pytest.fixture
def check(tmp_path, monkeypatch) -> Iterator[Callable[[], Result]]:
    """`contracts check` on the folder, with no catalog to be found."""
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_CATALOG_URI", "http://127.0.0.1:9")
    for cached in (settings, catalog):
        cached.cache_clear()
    yield lambda: CliRunner().invoke(contracts, ["check"])
    for cached in (settings, catalog):
        cached.cache_clear()


def test_check_tells_every_problem_in_a_line_and_exits_with_1(tmp_path, check):
    loaded(tmp_path, {"gold/daily.sql": None, "silver/events.yaml": SILVER.replace("day(seen_at)", "day(never)")})
    done = check()
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{tmp_path}/silver/events.yaml: partition_by[0]: no column 'never'",
        f"{tmp_path}/gold/daily.yaml: sql: there is no daily.sql beside the contract; write the query there",
    ]


def test_check_needs_no_catalog(tmp_path, check):
    loaded(tmp_path)
    done = check()
    assert done.exit_code == 0
    assert done.stdout == "3 contracts, nothing wrong.\n"
    assert "does not answer" in done.stderr
