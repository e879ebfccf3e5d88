"""Landing files that are past their time: which of their versions may go, and why others stay."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, NestedField, StringType

from lakehouse import landing_versions
from lakehouse.batch import Batch, TableWrite
from lakehouse.contracts.load import Loaded
from lakehouse.contracts.places import may_share
from lakehouse.contracts.problems import Problem
from lakehouse.intervals import Coverage, Interval
from lakehouse.landing_versions import Patience, Version
from lakehouse.ledger import batches, landing_gone, rollbacks, taken_files
from lakehouse.ledger.landing_gone import Due, Passing, Span, Staying
from lakehouse.maintenance import landing_files, landing_folders
from lakehouse.maintenance.held import held_by
from lakehouse.maintenance.landing_files import Clearing
from lakehouse.maintenance.landing_folders import BENEATH, NOT_IN_FORCE, Leaving, parting, whole_files
from lakehouse.maintenance.landing_steps import MOST_AT_ONCE, cleared
from lakehouse.maintenance.narrowed import narrowed
from lakehouse.naming import COVERAGE, ROWS_FROM
from lakehouse.store import StoreUnreachable
from tests.unit import iceberg_tables
from tests.unit.iceberg_tables import append, set_ref, versions
from tests.unit.landing_world import DAY, FOLDER, NOW, OF, clearing_step, contract, due, took, version


def batch(name: str, base: int, head: int, of: Interval = OF, rows: int = 0) -> Batch:
    write = TableWrite(table="bronze.events", branch="", base=base, head=head)
    given = {"batch_id": name, "dataset": "bronze.events", "interval_start": of.start, "interval_end": of.end}
    more = {"fingerprint": "", "contract_version": "", "run": "", "attempt": "", "writes": (write,)}
    more |= {"counts": {"inserted": rows}}
    return Batch.model_validate({**given, **more})


def gone(found: list[Leaving]) -> list[str]:
    return [one.version.id if one.version else f"no {one.file.etag}" for one in found]


# --- Which versions go ---


@pytest.mark.parametrize(
    ("taken", "there", "force", "going", "why"),
    [
        ("A", "A*", "A", ["v-A"], ""),
        ("A", "B*", "A", ["no A"], ""),  # somebody else removed it; B was never taken
        ("A", "A B*", "B", ["v-A"], ""),  # a correction whose own time has not come
        ("AB", "A B*", "B", ["v-A", "v-B"], ""),
        ("AB", "B* A", "B", ["v-A", "v-B"], ""),  # in whichever order they are listed
        ("B", "A B*", "B", [], BENEATH),
        ("A", "A*", "B", [], NOT_IN_FORCE),  # B was taken after it, and landing has A once more
        ("A", "A*", "", [], NOT_IN_FORCE),
        ("A", "A", "A", ["v-A"], ""),  # its source has deleted it: under a marker nothing comes forth
        ("A", "", "A", ["no A"], ""),
    ],
)
def test_a_version_goes_that_was_taken_and_nothing_comes_forth_from_beneath_it(taken, there, force, going, why):
    listed = [version(one[0], current=one.endswith("*")) for one in there.split()]
    found, told = parting([due(etag) for etag in taken], listed, [took(etag) for etag in force])
    assert (gone(found), told) == (going, why)


def test_bytes_of_another_length_are_others():
    assert parting([due("A", size=4)], [version("A", current=True)], [took("A")]) == ([], "")
    old = [version("A"), version("B", current=True)]
    assert parting([due("B")], old, [took("B"), took("A", size=4)]) == ([], BENEATH)


def test_an_old_version_that_came_twice_goes_with_its_correction_though_the_first_has_gone_already():
    listed = [version("B", current=True), version("A", name="v2")]
    found, told = parting([due("B", batch="b2")], listed, [took("B", "b2"), took("A", "b1"), took("A", "b0")])
    assert [(one.file.etag, one.file.batch_id, one.version) for one in found] == [
        ("A", "b1", listed[1]),
        ("B", "b2", listed[0]),
    ]
    assert told == ""


def test_the_same_bytes_that_came_twice_go_both_and_what_is_current_last():
    listed = [version("A", current=True, name="v2"), version("A", name="v1")]
    assert gone(parting([due("A")], listed, [took("A")])[0]) == ["v1", "v2"]


@pytest.mark.parametrize(("taken", "force", "why"), [("A", "A", BENEATH), ("A", "BA", NOT_IN_FORCE), ("AX", "AX", "")])
def test_older_versions_of_the_current_bytes_stay_as_long_as_it_does(taken, force, why):
    """Else the file would be noted as gone, and what is current would never be asked for again."""
    listed = [version("A", current=True, name="v3"), version("X", name="v2"), version("A", name="v1")]
    found, told = parting([due(etag) for etag in taken], listed, [took(etag) for etag in force])
    assert (gone(found), told) == ([] if why else ["v2", "v1", "v3"], why)


def test_all_versions_of_a_file_go_in_one_slice():
    """A step looks again: what it finds must not be what an earlier one has left of a file."""
    files = [f"{FOLDER}{name}" for name in "aabbbc"]
    listed = [Leaving(due("A", key=key, size=2), version("A", key=key, name=str(n))) for n, key in enumerate(files)]
    assert ["".join(gone(some)) for some in whole_files(listed, 3)] == ["01", "234", "5"]
    assert ["".join(gone(some)) for some in whole_files(listed, 1)] == ["01", "234", "5"]
    assert ["".join(gone(some)) for some in whole_files(listed, 9, room=10)] == ["01234", "5"]
    assert list(whole_files([], 1)) == []


@pytest.mark.parametrize(
    ("path", "other", "share"),
    [
        ("orders/{interval:%Y}/", "orders/{interval:%d}/", True),
        ("orders/{interval:%Y}/", "orders/eu/{interval:%Y}/", True),
        ("{interval:%Y}/", "orders/{interval:%Y}/", True),
        ("orders/{interval:%Y}/", "orders_2/{interval:%Y}/", False),
        ("orders/us/{interval:%Y}/", "orders/eu/{interval:%Y}/", False),
    ],
)
def test_sources_may_share_files_where_nothing_tells_them_apart(path, other, share):
    assert may_share(path, other) == may_share(other, path) == share


# --- What the ledger and main must say ---


@pytest.fixture
def known(table, monkeypatch):
    """Two batches in main, which is given."""
    line = versions(table)
    with table.transaction() as change:
        change.set_properties({COVERAGE: Coverage.of([OF]).dumps()})
    there = {"b1": batch("b1", line[-2], line[-1]), "b2": batch("b2", line[-1], line[-1])}
    monkeypatch.setattr(landing_files, "table", lambda _: table)
    monkeypatch.setattr(batches, "by_id", lambda ids: [there[one] for one in sorted(ids) if one in there])
    return table


def kept(main: Any, files: list[Due], **source: Any) -> list[str]:
    found = landing_files._kept(contract(**source), files, main)
    return [found.get(file, "") for file in files]


def test_a_file_goes_that_a_batch_in_main_took(known):
    assert kept(known, [due("A"), due("A", batch="b2")]) == ["", ""]


def test_a_file_stays_whose_batch_or_interval_main_does_not_hold(known):
    assert kept(known, [due("A", batch="b3")]) == [landing_files.NOT_HELD]
    assert kept(None, [due("A")]) == [landing_files.NOT_HELD]


def test_other_datasets_are_all_but_the_dataset_itself():
    three = (contract(), contract("bronze.same"), contract("bronze.x", "x/y{interval:%F}/"))
    everything = Loaded({one.dataset: one for one in three}, ())
    told = {"s3://landing/events/": "bronze.same", "s3://landing/x/y": "bronze.x"}
    assert landing_files._others(contract(), everything) == told


def test_files_are_passed_over_that_others_may_read_and_whose_only_whole_copy_they_are(monkeypatch):
    asked: list[Passing] = []
    known = [Staying("s3://landing/events/", True, 4), Staying("", True, 2), Staying("", False, 1)]
    monkeypatch.setattr(landing_gone, "staying", lambda *given: asked.append(given[-1]) or known)
    monkeypatch.setattr(landing_gone, "due", lambda *given: asked.append(given[-1]) or [])
    others = Loaded({one.dataset: one for one in (contract(), contract("bronze.same"))}, ())
    monkeypatch.setattr(landing_files, "loaded", lambda: others)
    found = landing_files.clearing(contract(delete_after="1d"), Span(NOW))
    told = "bronze.same may read them, too; give it a folder of its own"
    assert found == Clearing(staying=Counter({told: 4, landing_files.UNREAD: 2, landing_files.UNCOUNTED: 1}))
    landing_files.clearing(contract(archive_after="1d"), Span(NOW))
    passing = Passing(("s3://landing/events/",), unread=True)
    assert asked == [passing, passing, *[passing._replace(unread=False)] * 2]


@pytest.mark.parametrize("name", ["_part/a.jsonl", ".a.jsonl", "done.txt", "sub/done.txt"])
def test_what_says_that_a_folder_is_complete_stays_and_so_does_what_is_hidden(known, name):
    files = [due("A", key=FOLDER + name)]
    assert kept(known, files, ready={"marker": "done.txt"}) == [landing_files.NO_DATA]


def test_main_holds_no_batch_whose_version_it_was_moved_away_from(table):
    line = versions(table)
    with table.transaction() as change:
        change.set_properties({COVERAGE: Coverage.of([OF]).dumps()})
    other = Interval(OF.end, OF.end + DAY)
    mine = [batch("old", 1, line[0]), batch("new", line[-2], line[-1]), batch("other", 1, line[0], other)]
    assert held_by(table, mine) == {"old", "new"}
    assert held_by(table, [batch("expired", 1, 99)]) == {"expired"}, "history does not reach back for ever"
    set_ref(table, "main", SnapshotRefType.BRANCH, line[1])
    assert held_by(table, mine) == {"old"}


RECORDS = Schema(NestedField(1, "_batch_id", StringType()), NestedField(2, "_ingestion_date", DateType()))


def records(of: Interval, *ids: str) -> DataFile:
    """A data file with records of an interval that these batches brought."""
    day = (of.start.date() - date(1970, 1, 1)).days
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"s3://lake/{day}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(day),
        record_count=10,
        file_size_in_bytes=100,
        lower_bounds={1: min(ids).encode()},
        upper_bounds={1: max(ids).encode()},
    )


@pytest.mark.parametrize(
    ("expired", "let_go", "held"),
    [
        (batch("b2", 1, 99, rows=3), None, True),
        (batch("b4", 1, 99, rows=3), None, False),  # its day has records of others only
        (batch("b2", 1, 99, rows=3, of=Interval(OF.end, OF.end + DAY)), None, False),  # its day has none
        (batch("b4", 1, 99, rows=0), None, True),  # it brought none
        (batch("b4", 1, 99, rows=3), "2026-01-02", True),  # they went by their age
        (batch("b4", 1, 99, rows=3), "2026-01-01", False),
    ],
)
def test_main_holds_no_batch_whose_rows_are_gone_though_its_version_has_expired(tmp_path, expired, let_go, held):
    """Somebody has moved main back, and left the intervals that it covers as they were."""
    by_day = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "_ingestion_date"))
    made = iceberg_tables.catalog(tmp_path).create_table("silver.orders", RECORDS, partition_spec=by_day)
    append(made, [records(OF, "b1", "b3"), records(Interval(OF.end + DAY, OF.end + 2 * DAY), "b2")])
    covered = {COVERAGE: Coverage.of([OF, Interval(OF.end, OF.end + DAY)]).dumps()}
    with made.transaction() as change:
        change.set_properties({**covered, **({ROWS_FROM: let_go} if let_go else {})})
    assert held_by(made, [expired]) == ({expired.batch_id} if held else set())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("", ""),
        ("problems", landing_files.UNREADABLE),
        ("unsettled", landing_files.UNCONFIRMED),
        ("unfinished", landing_files.UNFINISHED),
        ("unversioned", landing_files.NO_VERSIONS),
    ],
)
def test_nothing_goes_where_something_is_not_known(monkeypatch, tmp_path, wrong, why):
    problems = (Problem(tmp_path / "x.yaml", "", "is no YAML"),) if wrong == "problems" else ()
    monkeypatch.setattr(batches, "unsettled", lambda _: [1] if wrong == "unsettled" else [])
    monkeypatch.setattr(rollbacks, "unfinished", lambda _: [1] if wrong == "unfinished" else [])
    monkeypatch.setattr(landing_versions, "are_kept", lambda: wrong != "unversioned")
    assert landing_files._refusal(contract(), Loaded({}, problems)) == why


def test_a_store_that_does_not_say_whether_it_keeps_versions_stops_this_alone(monkeypatch):
    def refused() -> bool:
        raise StoreUnreachable("the object store failed: AccessDenied. Ask for it")

    monkeypatch.setattr(batches, "unsettled", lambda _: [])
    monkeypatch.setattr(rollbacks, "unfinished", lambda _: [])
    monkeypatch.setattr(landing_versions, "are_kept", refused)
    assert landing_files._refusal(contract(), Loaded({}, ())) == "the object store failed: AccessDenied"


# --- The bucket is listed only where files are due ---


def test_only_folders_with_files_that_are_due_are_listed_and_only_until_there_is_enough(monkeypatch):
    listed: list[str] = []

    def listing(prefix: str) -> list[Version]:
        listed.append(prefix)
        return [version("A", current=True, key=f"{prefix}{n}.jsonl", name=f"{prefix}{n}") for n in range(3)]

    monkeypatch.setattr(landing_versions, "versions", listing)
    monkeypatch.setattr(landing_folders, "_FOLDERS_AT_ONCE", 1)
    monkeypatch.setattr(taken_files, "taken", lambda _, uris: {uri: [took("A")] for uri in uris})
    days = [Interval(OF.start + n * DAY, OF.end + n * DAY) for n in range(4)]
    folders = [f"events/2026-01-0{n + 1}/" for n in range(3)] + ["elsewhere/"]
    files = [
        due("A", key=f"{folder}{n}.jsonl")._replace(interval=of)
        for folder, of in zip(folders, days, strict=True)
        for n in range(3)
    ]
    found, _, left = landing_folders.looked_at(contract(), files, 4, Patience())
    assert listed == folders[:2]
    assert (len(found), left) == (6, True)
    listed.clear()
    found, _, left = landing_folders.looked_at(contract(), files, 99, Patience())
    assert sorted(listed) == sorted(folders), "a file from before the path was another one has its own folder"
    assert (len(found), left) == (12, False)


def test_a_folder_that_cannot_be_listed_keeps_no_other_from_its_turn(monkeypatch):
    def listing(prefix: str) -> list[Version]:
        if prefix == FOLDER:
            raise StoreUnreachable("the object store failed")
        return [version("A", current=True, key=f"{prefix}a")]

    monkeypatch.setattr(landing_versions, "versions", listing)
    monkeypatch.setattr(taken_files, "taken", lambda _, uris: {uri: [took("A")] for uri in uris})
    files = [due("A"), due("A", key="elsewhere/a")]
    found, staying, _ = landing_folders.looked_at(contract(), files, 9, Patience())
    assert [one.file for one in found] == files[1:]
    assert staying == {"the object store failed": 1}


# --- Steps ---


def leaving(count: int, size: int = 3) -> tuple[Leaving, ...]:
    return tuple(
        Leaving(due("A", key=f"{FOLDER}{n}", size=size), version("A", key=f"{FOLDER}{n}")) for n in range(count)
    )


def test_files_go_in_slices_that_say_how_many_and_why():
    asked = contract(archive_after="30d")
    steps, held = cleared(asked, Clearing(leaving(MOST_AT_ONCE + 2)), NOW)
    assert [(step.files, step.archive, step.taken_before) for step in steps] == [
        (MOST_AT_ONCE, True, NOW - 30 * DAY),
        (2, True, NOW - 30 * DAY),
    ]
    assert {step.taken_from for step in steps} == {OF.end}
    assert steps[1].reason == "2 landing files, 6 bytes, are past the 30d that the contract keeps them in landing"
    assert "Copies them to _archive/" in steps[1].does
    assert (steps[1].bytes, held) == (6, [])
    assert len(cleared(asked, Clearing(leaving(5, size=300 << 20)), NOW)[0]) == 5, "no more than slice_mb at once"


def test_versions_of_one_file_are_told_as_one():
    two = (Leaving(due("A"), version("A")), Leaving(due("B"), version("B", current=True)), Leaving(due("C"), None))
    ((step,), _) = cleared(contract(delete_after="1d"), Clearing(two), NOW)
    assert step.reason.startswith("1 landing files, 6 bytes, are past")
    assert "not there any more" not in step.reason
    assert step.files == 3, "so many versions it may take"


def test_files_that_are_deleted_are_said_to_be():
    ((step,), _) = cleared(contract(delete_after="0s"), Clearing(leaving(1)), NOW)
    assert (step.archive, step.bytes, step.taken_before) == (False, 0, NOW)
    assert step.does.startswith("Deletes them for good;")


def test_files_that_stay_are_told_once_with_the_reason():
    found = Clearing(staying=Counter({BENEATH: 2, NOT_IN_FORCE: 1}), later=True)
    steps, held = cleared(contract(delete_after="1d"), found, NOW)
    past = "landing files are past the 1d that the contract keeps them in landing"
    assert steps == []
    assert held == [
        f"2 {past}, and stay: {BENEATH}",
        f"1 {past}, and stay: {NOT_IN_FORCE}",
        f"more {past}, and wait behind those that stay",
    ]
    _, held = cleared(contract(delete_after="1d"), Clearing(leaving(1), later=True), NOW)
    assert held == [f"more {past}; they have their turn in the next window"]


def test_files_that_others_took_away_are_noted():
    ((step,), _) = cleared(contract(delete_after="1d"), Clearing((Leaving(due("A"), None),)), NOW)
    assert step.files == 1
    past = "past the 1d that the contract keeps them in landing"
    assert step.reason == f"1 files that are {past} are not there any more, which is noted"


def test_an_old_plan_takes_no_more_files_than_the_contract_allows_by_now(table):
    step = clearing_step()
    found = narrowed(step, contract(delete_after="30d"), table, NOW)
    assert (found.taken_before, found.archive) == (NOW - 30 * DAY, False)
    assert narrowed(step, contract(delete_after="30d"), table, NOW + 90 * DAY).taken_before == NOW
    assert narrowed(step, contract(archive_after="30d"), table, NOW).archive
    assert narrowed(clearing_step(archive=True), contract(delete_after="30d"), table, NOW).archive
    assert narrowed(step, contract(), table, NOW).taken_before is None, "the contract keeps them by now"


# --- Contracts ---


def test_the_lifetime_of_files_changes_no_row():
    version_of = {contract(**given).version for given in ({}, {"archive_after": "1d"}, {"delete_after": "0s"})}
    assert len(version_of) == 1
    assert contract(format="csv").version not in version_of


def test_a_contract_keeps_files_as_long_as_it_says():
    assert contract().source.kept is None
    assert contract(delete_after="0s").source.kept == timedelta(0)
    assert contract(archive_after="30d").source.kept == 30 * DAY
