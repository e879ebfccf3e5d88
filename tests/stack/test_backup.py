"""A backup, all data destroyed, the backup brought back: the tables are what they were, and the shop goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.backup import rows, taken
from lakehouse.backup.model import Object
from lakehouse.catalog import catalog
from lakehouse.ledger import landing_gone
from lakehouse.ledger.landing_gone import Gone
from lakehouse.ledger.leases import acquire, holder
from lakehouse.naming import tables_of
from lakehouse.pins import pin
from lakehouse.sample import DIRT, Recipe
from lakehouse.store import client
from tests.oracle import Result
from tests.stack import answers
from tests.stack.harness import Stack, forget_connections, inside
from tests.stack.shop import Shop, in_session

RECIPE = Recipe.of(0.05, 3, DIRT)
DAYS = [date(2026, 1, day) for day in (1, 2, 3)]
MEANWHILE, LATER = date(2026, 1, 4), date(2026, 1, 5)
PINNED = "for_training"


@pytest.fixture(scope="module")
def apart(tmp_path_factory) -> Iterator[Stack]:
    """A stack that may be destroyed."""
    found = Stack(tmp_path_factory.mktemp("apart"), sample="false")
    found.lakehouse("up", "--only", "data")
    with inside(found):
        yield found
    found.lakehouse("down", check=False)


@pytest.fixture(scope="module")
def shop(apart, tmp_path_factory) -> Shop:
    return Shop.open(tmp_path_factory.mktemp("contracts"))


@pytest.fixture(scope="module")
def expected(shop) -> Result:
    """Three days are delivered and two are built; the third is built after the restore."""
    delivered = shop.deliver(DAYS, RECIPE)
    for key in shop.landed(DAYS[0]):
        if not key.endswith("_SUCCESS"):
            send_in_pieces(key)
    build(shop, *DAYS[:2])
    pin(shop.gold, PINNED, keep=None, with_inputs=False)
    return delivered


def send_in_pieces(key: str) -> None:
    """As tools send large files; the store gives such a file another ETag than when it comes in one piece."""
    place = {"Bucket": "landing", "Key": key}
    body = client().get_object(**place)["Body"].read()
    begun = {**place, "UploadId": client().create_multipart_upload(**place)["UploadId"]}
    part = client().upload_part(**begun, PartNumber=1, Body=body)["ETag"]
    client().complete_multipart_upload(**begun, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})


def build(shop: Shop, *days: date) -> None:
    """All layers, on a session of its own: after a restore Spark is another one."""
    from spark_jobs.session import connect

    session = connect(str(uuid4()))
    for day in days:
        for dataset in shop.datasets:
            shop.run(dataset, day, in_session(session))
    session.stop()


def contents() -> dict[tuple[str, str], str]:
    """A hash of the sorted rows of every branch and tag of every table in the catalog."""
    found = {}
    for name in (each for namespace in catalog().list_namespaces() for each in catalog().list_tables(namespace)):
        known = catalog().load_table(name)
        for ref, target in known.metadata.refs.items():
            lines = sorted(map(str, known.scan(snapshot_id=target.snapshot_id).to_arrow().to_pylist()))
            found[".".join(name), ref] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return found


def test_all_is_as_it_was_and_goes_on(apart, shop, expected, tmp_path):
    acquire(shop.gold, "a run that is at work", "its first try")
    before, known = contents(), rows.published()
    assert (shop.gold, PINNED) in before

    said = apart.lakehouse("backup", str(tmp_path)).stdout
    assert f"{len({name for name, _ in before})} tables" in said
    again = apart.lakehouse("backup", str(tmp_path)).stderr
    assert "0 objects copied" in again
    apart.lakehouse("reset", "--yes")
    apart.lakehouse("up", "--only", "data")
    forget_connections()
    assert not contents()

    apart.lakehouse("restore", str(tmp_path))
    assert contents() == before
    assert rows.published() == known
    assert holder(shop.gold) is None
    assert "were there already" in apart.lakehouse("restore", str(tmp_path)).stderr

    state = shop.state()
    build(shop, DAYS[0])
    assert shop.state() == state, "a day that was there is not built again"
    build(shop, DAYS[2])
    assert answers.silver(shop) == expected.silver
    assert answers.gold(shop) == expected.gold


def test_a_publish_in_the_middle_makes_it_look_again(apart, shop, expected, tmp_path, monkeypatch):
    """Without that, the ledger would lack a batch that the tables hold, and its files would be taken twice."""
    shop.deliver([MEANWHILE], RECIPE)
    listed, said = taken._tables, []

    def while_somebody_publishes() -> dict[str, str]:
        if not said:
            build(shop, MEANWHILE)
        return listed()

    monkeypatch.setattr(taken, "_tables", while_somebody_publishes)
    _, made = taken.take(tmp_path, objects=False, tell=said.append)
    assert "a batch was published meanwhile; looking again" in said
    assert made.published == rows.published()
    assert made.tables[shop.gold] == shop.state()[shop.gold][1]
    # A batch that is published while tables are listed must not be in the table alone.
    listed_in = list(made.tables)
    companions = [one for one in tables_of(shop.silver)[1:] if one in listed_in]
    assert companions
    assert all(listed_in.index(shop.silver) < listed_in.index(one) for one in companions)


def test_a_landing_file_that_goes_in_the_middle_makes_it_look_again(apart, shop, expected, tmp_path, monkeypatch):
    """Without that, the ledger would take it for a file that its source took away."""
    listed, said = taken.present, []
    went = Gone(shop.bronze, "b1", "s3://landing/elsewhere/a.jsonl", "v1", "A", 3, "", "begun")

    def while_a_file_goes() -> list[Object]:
        if "landing files went meanwhile; looking again" not in said:
            landing_gone.note([went])
        return list(listed())

    monkeypatch.setattr(taken, "present", while_a_file_goes)
    place, made = taken.take(tmp_path, objects=False, tell=said.append)
    assert said.count("landing files went meanwhile; looking again") == 1
    assert made.ledger["landing_gone"].rows == 1
    assert "s3://landing/elsewhere/a.jsonl" in (place / "ledger/landing_gone.csv").read_text()
    landing_gone.forget([went])


def test_what_is_not_whole_or_not_empty_is_refused(apart, shop, expected, tmp_path):
    """Each time nothing has changed."""
    apart.lakehouse("backup", str(tmp_path))
    (place,) = (path.parent for path in tmp_path.glob("*/backup.json"))

    shop.deliver([LATER], RECIPE)
    build(shop, LATER)
    after = shop.state()
    assert "as another version than the backup's" in refused(apart, tmp_path)
    (place / "ledger" / "batches.csv").write_text("batch_id\n")
    assert "batches.csv is missing or was changed" in refused(apart, tmp_path)
    (place / "backup.json").unlink()
    assert "holds no backup" in refused(apart, tmp_path)
    assert shop.state() == after


def refused(apart: Stack, folder: Path) -> str:
    done = apart.lakehouse("restore", str(folder), check=False)
    assert done.returncode == 1
    return str(done.stderr)


def test_a_file_that_is_gone_is_named_and_nothing_is_restored(apart, tmp_path):
    """Without its objects a backup needs the bucket."""
    apart.lakehouse("backup", "--no-objects", str(tmp_path))
    apart.lakehouse("reset", "--yes")
    apart.lakehouse("up", "--only", "data")
    forget_connections()
    said = refused(apart, tmp_path)
    assert ".metadata.json is not there: bring the bucket back first" in said
    assert not contents()
    assert rows.published() == "-/-"
