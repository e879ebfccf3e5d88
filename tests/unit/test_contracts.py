"""Contracts: what is wrong is named by file, field and fix, all at once, and leaves the others alone."""

from datetime import timedelta

import pytest

from lakehouse.contracts import load
from tests.unit.contract_folder import BRONZE, GOLD, GOOD, LAYERS, SHIPPED, SILVER, SQL, loaded, problems


def test_good_contracts_have_no_problem(tmp_path):
    assert loaded(tmp_path).problems == ()


def test_the_shipped_contracts_have_no_problem():
    assert [str(p) for p in load(SHIPPED).problems] == []


UNSTEADY = "says something else each time, and a rerun would change rows; use what the records say"
PATH_FIX = 'put dots between names, [0] behind a list, and double quotes around a name that holds . [ or "'
MORE = "name more of the start, such as {interval:%Y-%m-%dT%H%M%z}"
HOSTILE = "x'`; DROP TABLE lake.bronze.events; --"
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
    ("silver", "amount:   {type", f'"{HOSTILE}": {{type',
     f"columns.{HOSTILE}: '{HOSTILE}' is no name; use small letters, digits and _, beginning with a letter"),
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
    ("silver", "key: [event_id]", "delivers: events\nduplicate_by: [event_id, amount]",
     "duplicate_by[1]: 'amount' may be missing; add required: true to the column"),
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
    ("silver", "check: amount >= 0", "check: amount >= rand()",
     f"columns.amount.check: 'rand' {UNSTEADY}"),
    ("silver", "from: amount, check: amount >= 0", "expr: unix_timestamp()",
     f"columns.amount.expr: 'unix_timestamp' {UNSTEADY}"),
    ("silver", "key: [event_id]", "key: [event_id]\nrules: {soon: seen_at < current_timestamp}",
     f"rules.soon: 'current_timestamp' {UNSTEADY}"),
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
    ("gold", "partition_by: [day]", "partition_by: [month(day)]",
     "partition_by: must have day: days that are built again are replaced as a whole"),
    ("bronze", "%Y-%m-%d}", "%Y-%m}",
     f"source.path: is events/2026-01/ for the intervals of 2026-01-01 00:00+0000 and 2026-01-02 00:00+0000; {MORE}"),
    ("bronze", "%Y-%m-%d}", "%m-%d}",
     f"source.path: is events/01-01/ for the intervals of 2026-01-01 00:00+0000 and 2027-01-01 00:00+0000; {MORE}"),
    ("bronze", "events/{interval", "{region}/{interval",
     "source.path: '{region}/{interval:%Y-%m-%d}/' cannot be filled in; write {interval:%Y-%m-%d} and plain names"),
    ("bronze", "events/{interval", "_archive/{interval",
     "source.path: _archive/ is where files go that are past their time; write another folder"),
    ("bronze", '}/"}', '}/", archive_after: 0s, delete_after: 0s}',
     "source.delete_after: a file is either archived or deleted; remove delete_after or archive_after"),
    ("bronze", '}/"}', '}/", ready: {marker: _CLEARED}}',
     "source.ready: _CLEARED says that files have gone from a folder; write another name"),
    ("bronze", '}/"}', '}/", archive_after: soon}',
     "source.archive_after: 'soon' is no duration; write a number and s, m, h or d, such as 90m or 3d"),
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


def test_a_path_tells_the_hours_apart_that_are_there_twice(tmp_path):
    hourly = BRONZE.replace("owner: team", 'owner: team\nschedule: "@hourly"\ntimezone: Europe/Berlin')
    (problem,) = problems(tmp_path, {"bronze/events.yaml": hourly.replace("%Y-%m-%d", "%Y-%m-%dT%H")})
    assert "is events/2026-10-25T02/ for the intervals of 2026-10-25 02:00+0200 and 2026-10-25 02:00+0100" in problem
    assert not problems(tmp_path, {"bronze/events.yaml": hourly.replace("%Y-%m-%d", "%Y-%m-%dT%H%z")})


@pytest.mark.parametrize(
    ("bronze", "silver", "shared"),
    [
        ("Europe/Berlin", "UTC", "2026-01-01"),
        ("Europe/London", "UTC", "2026-03-30"),  # the same in winter
        ("UTC", 'UTC\nschedule: "@weekly"', ""),
        ("Europe/Berlin", 'UTC\nschedule: "@weekly"', "2026-01-04"),
        ("UTC", 'UTC\nschedule: "@hourly"', "2026-01-01"),
    ],
)
def test_no_interval_of_the_input_lies_in_two_of_silvers(tmp_path, bronze, silver, shared):
    files = {
        "bronze/events.yaml": BRONZE.replace("owner: team", f"owner: team\ntimezone: {bronze}"),
        "silver/events.yaml": SILVER.replace("owner: team", f"owner: team\ntimezone: {silver}"),
    }
    told = (
        f"silver/events.yaml: schedule: two intervals share {shared} of bronze.events, and neither would take all of "
        f"it; write the timezone of bronze.events, {bronze}, and a schedule of whole intervals of its"
    )
    assert problems(tmp_path, files) == ([told] if shared else [])


def test_whole_snapshots_may_come_in_bytes_that_came_before(tmp_path):
    snapshot = SILVER.replace("newest_by: [seen_at]", "delivers: snapshot")
    told = "silver.events is delivered as whole snapshots, which may repeat: write recognise: interval"
    assert problems(tmp_path, {"silver/events.yaml": snapshot}) == [f"bronze/events.yaml: source.recognise: {told}"]
    taken = BRONZE.replace('}/"}', '}/", recognise: interval}')
    assert not problems(tmp_path, {"silver/events.yaml": snapshot, "bronze/events.yaml": taken})


def test_an_interval_has_one_whole_snapshot(tmp_path):
    weekly = 'delivers: snapshot\nschedule: "@weekly"'
    files = {
        "bronze/events.yaml": BRONZE.replace('}/"}', '}/", recognise: interval}'),
        "silver/events.yaml": SILVER.replace("newest_by: [seen_at]", weekly),
    }
    told = "an interval has several snapshots of bronze.events, and each is the whole table; write the schedule of"
    assert problems(tmp_path, files) == [f"silver/events.yaml: schedule: {told} bronze.events, 0 0 * * *"]


@pytest.mark.parametrize("name", ["archive_after", "delete_after"])
def test_landing_files_have_a_lifetime_only_where_no_other_dataset_may_read_them(tmp_path, name):
    mine = BRONZE.replace('}/"}', f'}}/", {name}: 30d}}')
    other = BRONZE.replace("bronze.events", "bronze.others")
    told = f"bronze.others may read the same files; give bronze.events a folder of its own, or remove {name}"
    files = {"bronze/events.yaml": mine, "bronze/others.yaml": other}
    assert problems(tmp_path, files) == [f"bronze/events.yaml: source.{name}: {told}"]
    assert not problems(tmp_path, files | {"bronze/others.yaml": other.replace("events/{", "others/{")})


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
