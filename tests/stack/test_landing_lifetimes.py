"""Landing files that are past their time, on the real stack: what goes, what stays, and how work goes on."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from lakehouse import landing_versions
from lakehouse.catalog import table
from lakehouse.contracts import load
from lakehouse.ledger import batches, landing_gone
from lakehouse.ledger import maintenance as log
from lakehouse.ledger.landing_gone import Span
from lakehouse.maintenance.held import held_by
from lakehouse.store import StoreUnreachable, client
from tests.stack.harness import LAKEHOUSE
from tests.stack.landing_world import DAY, FILES, NEXT, READY
from tests.stack.shop import interval
from tests.stack.worn import in_days, planned


class Killed(Exception):
    """The process ends here."""


def instead_of_remove(monkeypatch, act: Callable[[str, Callable[[], None]], None]) -> None:
    """Have something happen when a version of a file is about to be removed."""
    real = landing_versions.remove
    monkeypatch.setattr(landing_versions, "remove", lambda key, one: act(key, lambda: real(key, one)))


def test_files_go_to_the_archive_as_they_are_and_running_again_commits_nothing(folders):
    folders.shop.land(DAY, FILES)
    first = folders.run()
    assert first is not None
    assert folders.clear(days=0) == [], "their time has not come"
    (line,) = folders.clear()
    assert "2 files went, 30 bytes" in line
    assert folders.there() == {"_SUCCESS": b""}
    assert folders.archived() == {f"{first.batch.batch_id} {name}": body for name, body in FILES.items()}
    row = log.recent(folders.shop.bronze, 1)[0]
    assert (row["operation"], row["outcome"]) == ("clear_landing", "done")
    assert (row["detail"]["bytes"], len(row["detail"]["files"])) == (30, 2)
    before = folders.shop.state()
    assert (folders.waits(), folders.run()) == (None, None)
    assert folders.shop.state() == before
    assert folders.clear() == [], "a second window finds nothing to do"


def test_files_are_deleted_where_the_contract_says_so(folders):
    folders.say(f"{READY}\n  delete_after: 1d")
    folders.shop.land(DAY, FILES)
    folders.run()
    folders.clear()
    assert (folders.there(), folders.versions("a.jsonl"), folders.archived()) == ({"_SUCCESS": b""}, [], {})


def test_the_only_copy_of_what_could_not_be_read_is_archived_and_never_deleted(folders):
    cut_off = gzip.compress(FILES["a.jsonl"])[:-12]
    folders.say(f"{READY}\n  delete_after: 1d")
    folders.shop.land(DAY, {**FILES, "c.jsonl.gz": cut_off})
    done = folders.run()
    assert done is not None
    assert {file.uri.rpartition("/")[2]: file.malformed for file in done.files} == {
        "a.jsonl": 0,
        "b.jsonl": 0,
        "c.jsonl.gz": 1,
    }
    folders.clear()
    assert folders.there() == {"c.jsonl.gz": cut_off, "_SUCCESS": b""}
    assert any("a part of them could not be read" in reason for reason in folders.plan().put_off)
    folders.say(f"{READY}\n  archive_after: 1d")
    folders.clear()
    assert folders.there() == {"_SUCCESS": b""}
    assert folders.archived() == {f"{done.batch.batch_id} c.jsonl.gz": cut_off}


def test_a_file_goes_whose_bad_lines_bronze_has_as_a_whole(folders):
    folders.text = folders.text.replace("format: json_lines", "format: csv")
    folders.say(f"{READY}\n  delete_after: 1d")
    whole = b'id,name\n1,x\n2\n3,"x"y\n4,x,y\n'
    folders.shop.land(DAY, {"whole.csv": whole, "cut.csv": b"id,name\n1,\xff\n", "open.csv": b'id,name\n1,"x\n'})
    done = folders.run()
    assert done is not None
    assert {file.uri.rpartition("/")[2]: (file.rows, file.malformed) for file in done.files} == {
        "whole.csv": (4, 0),
        "cut.csv": (1, 1),
        "open.csv": (1, 1),
    }
    folders.clear()
    assert folders.there().keys() == {"cut.csv", "open.csv", "_SUCCESS"}


def test_a_damaged_file_goes_once_it_was_corrected(folders):
    folders.say(f"{READY}\n  delete_after: 1d")
    folders.shop.land(DAY, {"c.jsonl.gz": gzip.compress(FILES["a.jsonl"])[:-12]})
    folders.run()
    folders.put("c.jsonl.gz", gzip.compress(FILES["a.jsonl"]))
    folders.run()
    folders.clear()
    assert (folders.there(), folders.versions("c.jsonl.gz")) == ({"_SUCCESS": b""}, [])


def test_a_file_stays_that_came_again_over_bytes_that_nobody_took_and_goes_when_these_are_deleted(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    folders.put("a.jsonl", b'{"id": "nobody saw it"}\n')
    folders.put("a.jsonl", FILES["a.jsonl"])
    folders.clear()
    assert len(folders.versions("a.jsonl")) == 3
    assert any("an older version that was never taken" in reason for reason in folders.plan().put_off)
    key = folders.contract.landing_prefix(interval(DAY).start) + "a.jsonl"
    client().delete_object(Bucket="landing", Key=key, VersionId=landing_versions.versions(key)[1].id)
    folders.clear()
    assert (folders.there(), folders.versions("a.jsonl")) == ({"_SUCCESS": b""}, [])


def test_a_batch_whose_version_has_expired_is_known_by_its_rows(folders):
    folders.shop.land(DAY, FILES)
    done = folders.run()
    assert done is not None
    (mine,) = batches.published(folders.shop.bronze)
    expired = mine.model_copy(update={"writes": tuple(one.model_copy(update={"head": 99}) for one in mine.writes)})
    other = expired.model_copy(update={"batch_id": f"{mine.batch_id}0"})
    assert held_by(table(folders.shop.bronze), [expired, other]) == {mine.batch_id}


@pytest.mark.parametrize("ready", ["{manifest: manifest.json}", "{quiet: 1s}"], ids=["manifest", "quiet"])
def test_an_interval_whose_files_went_is_still_complete(folders, ready):
    folders.say(f"ready: {ready}\n  delete_after: 1d")
    listed = [{"name": name, "size": len(body)} for name, body in FILES.items()]
    for name, body in FILES.items():
        folders.put(name, body)
    if "manifest" in ready:
        folders.put("manifest.json", json.dumps(listed).encode())
    assert folders.run() is not None
    folders.clear()
    assert folders.there().keys() <= {"manifest.json"}
    before = folders.shop.state()
    assert (folders.waits(), folders.run()) == (None, None)
    assert folders.shop.state() == before
    assert folders.waits(NEXT) is not None, "another day's files are awaited as ever"


def test_a_correction_that_comes_at_that_very_moment_stays_and_is_taken(folders, monkeypatch):
    folders.shop.land(DAY, FILES)
    first = folders.run()
    assert first is not None
    corrected = b'{"id": 1, "corrected": true}\n'

    def deliver(key: str, remove: Callable[[], None]) -> None:
        if key.endswith("a.jsonl"):
            folders.put("a.jsonl", corrected)
        remove()

    with monkeypatch.context() as patched:
        instead_of_remove(patched, deliver)
        folders.clear()
    assert folders.there() == {"a.jsonl": corrected, "_SUCCESS": b""}
    assert folders.versions("a.jsonl") == [corrected]
    second = folders.run()
    assert second is not None
    assert [(file.replaces, file.rows) for file in second.files] == [(first.batch.batch_id, 1)]
    folders.clear(days=4)
    assert folders.there() == {"_SUCCESS": b""}
    assert folders.archived()[f"{first.batch.batch_id} a.jsonl"] == FILES["a.jsonl"]
    assert folders.archived()[f"{second.batch.batch_id} a.jsonl"] == corrected


def test_the_same_bytes_under_another_name_are_known_when_the_first_went(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    folders.clear()
    folders.put("c.jsonl", FILES["a.jsonl"])
    again = folders.run()
    assert again is not None
    assert [(file.rows, file.same_as.rpartition("/")[2]) for file in again.files] == [(0, "a.jsonl")]


def test_old_versions_of_corrected_files_go_too(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    folders.put("a.jsonl", b'{"id": 9}\n')
    folders.run()
    assert len(folders.versions("a.jsonl")) == 2
    (line,) = folders.clear()
    assert "2 files went, 40 bytes" in line
    assert folders.versions("a.jsonl") == []
    assert len(folders.archived()) == 3
    assert (folders.waits(), folders.run()) == (None, None)


def test_a_version_that_came_twice_goes_with_its_correction_though_the_first_has_gone_already(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    folders.clear()
    folders.put("a.jsonl", FILES["a.jsonl"])
    folders.put("a.jsonl", b'{"id": 9}\n')
    assert folders.run() is not None
    folders.clear()
    assert (folders.there(), folders.versions("a.jsonl")) == ({"_SUCCESS": b""}, [])


def test_a_version_that_nobody_took_stays_and_so_does_what_hides_it(folders):
    folders.put("a.jsonl", b'{"id": "too early"}\n')
    folders.shop.land(DAY, FILES)
    folders.run()
    (line,) = [reason for reason in folders.plan().put_off if "landing files" in reason]
    assert line.startswith("1 landing files are past the 1d")
    assert "an older version that was never taken" in line
    folders.clear()
    assert folders.there() == {"a.jsonl": FILES["a.jsonl"], "_SUCCESS": b""}
    assert (folders.waits(), folders.run()) == (None, None)


def test_no_file_goes_that_another_dataset_may_read(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    mine, other = folders.contract, f"bronze.others_{folders.shop.suffix}"
    folders.say(READY, other)
    (problem,) = load(folders.shop.folder).problems
    assert problem.field == "source.archive_after"
    assert problem.message.startswith(f"{other} may read the same files; give {folders.shop.bronze} a folder of")
    assert any(f"{other} may read them, too" in reason for reason in planned(mine, in_days(2)).put_off)
    # Where the path has changed since, the contracts are right, and the files of old still may be read by the other.
    path = f"path: {folders.shop.source}_{folders.shop.suffix}/"
    folders.text = folders.text.replace(path, path.replace("path: ", "path: moved/"))
    folders.say(f"{READY}\n  archive_after: 1d")
    (line,) = [reason for reason in folders.plan().put_off if "landing files" in reason]
    assert line.startswith("2 landing files")
    assert line.endswith(f"{other} may read them, too; give it a folder of its own")
    assert folders.clear() == []


def test_one_file_for_which_the_store_fails_does_not_stop_the_others(folders, monkeypatch):
    folders.shop.land(DAY, FILES)
    folders.run()

    def refuse(key: str, remove: Callable[[], None]) -> None:
        if key.endswith("b.jsonl"):
            raise StoreUnreachable("the object is locked. Wait")
        remove()

    with monkeypatch.context() as patched:
        instead_of_remove(patched, refuse)
        (line,) = folders.clear()
    assert "1 files went, 20 bytes, 1 failed and stay: the object is locked," in line
    assert log.recent(folders.shop.bronze, 1)[0]["detail"]["failure"] == "the object is locked"
    assert folders.there().keys() == {"sub/b.jsonl", "_SUCCESS"}
    (line,) = folders.clear()
    assert "1 files went" in line
    assert folders.there() == {"_SUCCESS": b""}


def test_nothing_goes_while_a_contract_cannot_be_read(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    (folders.shop.folder / "bronze/broken.yaml").write_text("dataset: [")
    assert any("a contract has a mistake" in reason for reason in folders.plan().put_off)
    assert folders.clear() == []
    assert folders.there().keys() == {*FILES, "_SUCCESS"}


@pytest.fixture
def unversioned(stack) -> Iterator[None]:
    """The landing bucket keeps no versions for a while."""
    client().put_bucket_versioning(Bucket="landing", VersioningConfiguration={"Status": "Suspended"})
    yield
    client().put_bucket_versioning(Bucket="landing", VersioningConfiguration={"Status": "Enabled"})


def test_nothing_goes_from_a_bucket_that_keeps_no_versions(folders, unversioned):
    folders.shop.land(DAY, FILES)
    folders.run()
    assert any("the landing bucket keeps no versions" in reason for reason in folders.plan().put_off)
    assert folders.clear() == []
    assert folders.there().keys() == {*FILES, "_SUCCESS"}


def test_the_stack_and_its_set_up_have_landing_keep_versions(running, unversioned):
    assert not landing_versions.are_kept()
    running.lakehouse("store", "setup")
    assert landing_versions.are_kept()


def test_what_was_cut_off_in_the_middle_is_settled_by_the_next(folders, monkeypatch):
    folders.shop.land(DAY, FILES)
    folders.run()

    def cut(key: str, remove: Callable[[], None]) -> None:
        if key.endswith("b.jsonl"):
            raise Killed
        remove()

    with monkeypatch.context() as patched:
        instead_of_remove(patched, cut)
        with pytest.raises(Killed):
            folders.clear()
    assert folders.there().keys() == {"sub/b.jsonl", "_SUCCESS"}
    assert len(landing_gone.begun(folders.shop.bronze)) == 2
    assert folders.run() is None, "a run in between commits nothing"
    (line,) = folders.clear()
    assert "1 files went" in line
    assert folders.there() == {"_SUCCESS": b""}
    rows = landing_gone.under(f"s3://landing/{folders.contract.landing_prefix(interval(DAY).start)}")
    assert [row.state for row in rows] == ["done", "done"]
    assert len(folders.archived()) == 2


def test_a_file_that_its_source_took_away_is_noted_and_not_looked_for_again(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    key = folders.contract.landing_prefix(interval(DAY).start) + "a.jsonl"
    for one in landing_versions.versions(key):
        client().delete_object(Bucket="landing", Key=key, VersionId=one.id)
    folders.clear()
    rows = landing_gone.under(f"s3://landing/{key}")
    assert [(row.state, row.version) for row in rows] == [("absent", "")]
    assert folders.clear() == []


def test_the_command_says_how_many_went_when_and_where_to(folders):
    folders.shop.land(DAY, FILES)
    first = folders.run()
    assert first is not None
    folders.clear()
    done = subprocess.run(
        [LAKEHOUSE, "landing", folders.shop.bronze, str(DAY)],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    to = f"s3://landing/_archive/{folders.shop.bronze}/{first.batch.batch_id}/"
    assert f"2 files archived in {to} on 20" in done.stdout, done.stderr
    assert done.stdout.endswith("complete\n")


def test_the_ledger_knows_what_is_due_by_its_newest_batch(folders):
    folders.shop.land(DAY, FILES)
    folders.run()
    known = landing_gone.due(folders.shop.bronze, "s3://landing/", Span(in_days(1)), 1)
    known += landing_gone.due(folders.shop.bronze, "s3://landing/", Span(in_days(1)), 9, known[0])
    assert [file.uri.rpartition("/")[2] for file in known] == ["a.jsonl", "b.jsonl"]
    assert landing_gone.due(folders.shop.bronze, "s3://landing/", Span(in_days(1)), 9, known[1]) == []
    assert landing_gone.due(folders.shop.bronze, "s3://landing/", Span(in_days(-1)), 9) == []
    assert landing_gone.due(folders.shop.bronze, "s3://landing/", Span(in_days(2), since=in_days(1)), 9) == []
    assert landing_gone.due(folders.shop.bronze, "s3://elsewhere/", Span(in_days(1)), 9) == []
    (batch,) = batches.published(folders.shop.bronze)
    assert known[0].batch_id == batch.batch_id
