"""Every cell of the pages' tables of who may do what, really tried: on the store, in the catalog and in Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files as files_of
from uuid import uuid4

import duckdb
import httpx
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError

from lakehouse.catalog import NotAllowed, catalog, catalog_of
from lakehouse.identities import acting_as, identity
from lakehouse.maintenance.orphans import _places
from lakehouse.naming import ARCHIVE, CLEARED, NAMESPACES
from lakehouse.query import EXTENSIONS, QueryError, run_sql
from lakehouse.roles import Role
from lakehouse.settings import ROOT, Settings
from lakehouse.store import client
from tests.stack.tables import drop_namespace

PAGE = ROOT / "include/docs/access.md"
Table = dict[tuple[str, str], bool]


def promised(head: str) -> Table:
    """The page's table whose first cell is `head`: for each row and column whether it says yes."""
    lines = PAGE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    names = cells[0][1:]
    found: Table = {}
    for row in cells[2:]:
        if len(row) != len(names) + 1:
            break
        assert set(row[1:]) <= {"yes", "no"}, row
        found |= {(row[0], name): cell == "yes" for name, cell in zip(names, row[1:], strict=True)}
    return found


def show(head: str, found: Table) -> None:
    rows, columns = list(dict.fromkeys(row for row, _ in found)), list(dict.fromkeys(column for _, column in found))
    print(f"\n{head:<28}" + "".join(f"{column:>13}" for column in columns))
    for row in rows:
        print(f"{row:<28}" + "".join(f"{'allowed' if found[row, one] else 'denied':>13}" for one in columns))


def compare(head: str, attempt: Callable[[str, str], bool]) -> None:
    """Try each cell of a table of the page, and say what came of it."""
    wanted = promised(head)
    found = {(row, column): attempt(row, column) for row, column in wanted}
    show(head, found)
    assert found == wanted


# --- The store ---


def permitted(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("AccessDenied", "403"):
            raise
        return False
    return True


@pytest.fixture(scope="module")
def files(stack) -> Iterator[dict[str, tuple[str, str]]]:
    """A file in landing and one in each namespace of the warehouse, as bucket and key."""
    name = f"access_{uuid4().hex[:8]}"
    places = {layer: (stack.warehouse_bucket, f"{layer}/{name}/data/one.parquet") for layer in NAMESPACES}
    places["landing"] = (stack.landing_bucket, f"{name}/one.jsonl")
    places["archive"] = (stack.landing_bucket, f"{ARCHIVE}{name}/one.jsonl")
    for bucket, key in places.values():
        client().put_object(Bucket=bucket, Key=key, Body=b"{}")
    yield places
    for bucket, key in places.values():
        client().delete_object(Bucket=bucket, Key=key)


def test_each_role_does_on_the_store_what_it_may_and_nothing_else(stack, files) -> None:
    def attempt(row: str, column: str) -> bool:
        own, (verb, *words) = client(Role(column)), row.split()
        if row == "list the whole warehouse":
            return permitted(lambda: own.list_objects_v2(Bucket=stack.warehouse_bucket))
        if row == "make a bucket":
            return permitted(lambda: own.create_bucket(Bucket=f"access-{column}"))
        if row == "mark a landing folder as cleared":
            bucket, key = files["landing"]
            return permitted(lambda: own.put_object(Bucket=bucket, Key=f"{key}.{column}/{CLEARED}", Body=b"{}"))
        bucket, key = files[words[-1]]
        if verb == "read":
            return permitted(lambda: own.get_object(Bucket=bucket, Key=key))
        if verb == "write":
            return permitted(lambda: own.put_object(Bucket=bucket, Key=f"{key}.{column}", Body=b"{}"))
        assert verb == "delete", row
        version = {"VersionId": "null"} if "version" in words else {}
        return permitted(lambda: own.delete_object(Bucket=bucket, Key=f"{key}.{column}", **version))

    compare("on the store", attempt)


# --- The catalog ---


@pytest.fixture(scope="module")
def tables(stack) -> Iterator[dict[str, str]]:
    """A table in each namespace."""
    name = f"access_{uuid4().hex[:8]}"
    made = {layer: f"{layer}.{name}" for layer in NAMESPACES}
    for one in made.values():
        catalog().create_table(one, pa.schema([("n", pa.int64())])).append(pa.table({"n": [1, 2]}))
    yield made
    for one in made.values():
        if catalog().table_exists(one):
            catalog().drop_table(one)


def answered(call: Callable[[], object]) -> bool:
    try:
        call()
    except (NotAllowed, ForbiddenError) as error:
        if " may not " not in str(error):
            raise
        return False
    return True


def test_each_role_does_in_the_catalog_what_its_token_may_and_nothing_else(tables) -> None:
    def attempt(row: str, column: str) -> bool:
        own, (verb, *words) = catalog_of(Role(column)), row.split()
        if row == "create a namespace":
            return answered(lambda: own.create_namespace(f"access_{column}"))
        name = tables[words[-1]]
        if verb == "load":
            return answered(lambda: own.load_table(name))
        if verb == "commit":
            loaded = catalog().load_table(name)
            loaded.catalog = own
            return answered(lambda: loaded.transaction().set_properties(by=column).commit_transaction())
        another = f"{name}_{column}"
        if verb == "create":
            done = answered(lambda: own.create_table(another, pa.schema([("n", pa.int64())])))
            return done and catalog().drop_table(another) is None
        assert verb == "drop", row
        catalog().create_table(another, pa.schema([("n", pa.int64())]))
        done = answered(lambda: own.drop_table(another))
        return done or catalog().drop_table(another) is not None

    compare("in the catalog", attempt)


def test_a_commit_of_several_tables_and_a_rename_are_for_nobody_but_admin(stack, tables) -> None:
    for role in (Role.INGEST, Role.TRANSFORM, Role.MAINTENANCE, Role.READER):
        headers = {"Authorization": f"Bearer {identity(stack, role).token}"}
        for path in (
            "transactions/commit",
            "tables/rename",
            "namespaces",
            "namespaces/bronze/register",
            "anything/else",
        ):
            answer = httpx.post(f"{stack.catalog_uri}/v1/{path}", headers=headers, json={})
            assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException")


@pytest.mark.parametrize("path", ["//v1/namespaces/silver/tables", "/v1/namespaces/silver/../bronze/tables/x"])
def test_no_other_spelling_of_a_path_leads_a_reader_to_bronze(stack, path) -> None:
    token = identity(stack, Role.READER).token
    host = stack.catalog_uri.removeprefix("http://")
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}) as caller:
        request = caller.build_request("GET", f"http://{host}/")
        request.url = request.url.copy_with(raw_path=path.encode())
        assert caller.send(request).is_error


def test_maintenance_sees_the_tables_of_others_whose_files_it_must_not_take_for_orphans(stack) -> None:
    name = f"sandbox_{uuid4().hex[:8]}"
    catalog().create_namespace(name)
    try:
        made = catalog().create_table(f"{name}.mine", pa.schema([("n", pa.int64())]))
        with acting_as(Role.MAINTENANCE):
            assert made.location() in _places()[f"{name}.mine"]
    finally:
        drop_namespace(name)


def test_what_is_below_a_namespace_is_its_own(stack) -> None:
    """Spark asks for a branch as for a table in the namespace silver.orders, and must hear that there is none."""
    headers = {"Authorization": f"Bearer {identity(stack, Role.READER).token}"}
    found = {
        layer: httpx.get(f"{stack.catalog_uri}/v1/namespaces/{layer}%2Eorders/tables/branch_x", headers=headers)
        for layer in ("silver", "bronze")
    }
    assert {layer: answer.status_code for layer, answer in found.items()} == {"silver": 404, "bronze": 403}


def token_alone(stack: Settings, role: Role) -> RestCatalog:
    """What a client has that knows the catalog's address and a token, and nothing of the store."""
    return RestCatalog("lake", uri=stack.catalog_uri, token=identity(stack, role).token)


def test_a_token_alone_opens_the_files_that_its_role_may_read(stack, tables) -> None:
    found = token_alone(stack, Role.READER).load_table(tables["gold"])
    assert found.scan().to_arrow().num_rows == 2
    assert found.io.properties["s3.access-key-id"] == stack.s3_reader_access_key
    with pytest.raises(ForbiddenError, match="role reader may not read"):
        token_alone(stack, Role.READER).load_table(tables["bronze"])


def test_duckdb_needs_no_more_than_the_token(stack, tables) -> None:
    """Its own catalog client, without any of ours."""
    with duckdb.connect() as reader:
        for name in EXTENSIONS:
            path = files_of(f"duckdb_extension_{name}") / f"extensions/v{duckdb.__version__}/{name}.duckdb_extension"
            reader.execute(f"LOAD '{path}'")
        reader.execute(f"CREATE SECRET (TYPE iceberg, TOKEN '{identity(stack, Role.READER).token}')")
        reader.execute(f"ATTACH 's3://{stack.warehouse_bucket}' AS lake (TYPE iceberg, ENDPOINT '{stack.catalog_uri}')")
        assert reader.execute(f"SELECT count(*) FROM lake.{tables['gold']}").fetchall() == [(2,)]


def test_a_query_is_a_readers_and_says_how_to_see_more(tables) -> None:
    with acting_as(Role.READER):
        assert run_sql(f"SELECT count(*) FROM {tables['silver']}")[1] == [(2,)]
        with pytest.raises(QueryError, match=r"role reader may not read quarantine\.\w+; .*--as transform"):
            run_sql(f"SELECT count(*) FROM {tables['quarantine']}")
        shown = {name.partition(".")[0] for (name,) in run_sql("SHOW TABLES")[1]}
        assert shown == {"silver", "gold"}


# --- Spark ---


def test_a_spark_session_is_who_started_it(stack, tables) -> None:
    from pyspark.errors import PySparkException

    from spark_jobs.session import connect

    for role, may in ((Role.INGEST, "bronze"), (Role.TRANSFORM, "silver")):
        with acting_as(role):
            session = connect(str(uuid4()))
        try:
            session.sql(f"INSERT INTO lake.{tables[may]} VALUES (3)")
            session.sql(f"ALTER TABLE lake.{tables[may]} CREATE BRANCH aside")
            session.sql(f"INSERT INTO lake.{tables[may]}.branch_aside VALUES (4)")
            other = "silver" if role is Role.INGEST else "bronze"
            # By the catalog where it may not load the table, else by the store at its first file.
            with pytest.raises(PySparkException, match=f"role {role} may not|Access Denied"):
                session.sql(f"INSERT INTO lake.{tables[other]} VALUES (3)")
        finally:
            session.stop()


def test_sparks_pages_tell_nobody_who_a_session_is(stack, tables) -> None:
    from spark_jobs.session import connect

    session = connect(str(uuid4()))
    try:
        session.sql(f"SELECT count(*) FROM lake.{tables['gold']}").collect()
    finally:
        session.stop()
    base = f"http://127.0.0.1:{stack.spark_ui_port}"
    (application,) = httpx.get(f"{base}/api/v1/applications").json()
    queries = httpx.get(f"{base}/api/v1/applications/{application['id']}/sql", params={"length": 10_000}).json()
    newest = max(one["id"] for one in queries)
    shown = httpx.get(f"{base}/SQL/execution/", params={"id": newest}).text + httpx.get(f"{base}/environment/").text
    assert "spark.sql.catalog.lake.header.Authorization" in shown
    assert [name for name, value in stack.secrets().items() if value in shown] == []


def test_a_session_that_brings_no_identity_enters_nothing(stack, tables) -> None:
    from pyspark.errors import PySparkException

    from spark_jobs.session import _opened

    session = _opened(str(uuid4()))
    try:
        with pytest.raises(PySparkException):
            session.sql(f"SELECT * FROM lake.{tables['gold']}").collect()
    finally:
        session.stop()


# --- Airflow ---

DAG = "watch_freshness"


@pytest.fixture(scope="module")
def people(airflow) -> Iterator[dict[str, httpx.Client]]:
    """Each of Airflow's users, logged in."""
    known = {
        "viewer": (airflow.airflow_viewer, airflow.airflow_viewer_password),
        "operator": (airflow.airflow_operator, airflow.airflow_operator_password),
        "admin": (airflow.airflow_user, airflow.airflow_password),
    }
    made: dict[str, httpx.Client] = {}
    for name, (user, password) in known.items():
        made[name] = httpx.Client(base_url=airflow.airflow_url, timeout=60)
        login = made[name].post("/auth/token", json={"username": user, "password": password.get_secret_value()})
        made[name].headers["Authorization"] = f"Bearer {login.json()['access_token']}"
    yield made
    for one in made.values():
        one.close()


def test_each_person_does_in_airflow_what_he_may_and_nothing_else(people) -> None:
    run = f"access_{uuid4().hex[:8]}"
    at = "2026-01-01T00:00:00Z"
    calls: dict[str, tuple[str, str, object]] = {
        "look at DAGs and runs": ("GET", f"/api/v2/dags/{DAG}/dagRuns", None),
        "pause a DAG": ("PATCH", f"/api/v2/dags/{DAG}", {"is_paused": True}),
        "trigger a run": ("POST", f"/api/v2/dags/{DAG}/dagRuns", {"logical_date": None, "dag_run_id": run + "_{}"}),
        "clear tasks": ("POST", f"/api/v2/dags/{DAG}/clearTaskInstances", {"dry_run": True, "start_date": at}),
        "backfill": (
            "POST",
            "/api/v2/backfills/dry_run",
            {"dag_id": DAG, "from_date": at, "to_date": at, "run_backwards": False, "dag_run_conf": {}},
        ),
        "read connections": ("GET", "/api/v2/connections", None),
        "change variables": ("POST", "/api/v2/variables", {"key": run + "_{}", "value": "1"}),
        "change pools": ("PATCH", "/api/v2/pools/spark", {"name": "spark", "slots": 2, "include_deferred": False}),
        "manage users": ("GET", "/auth/fab/v1/users", None),
    }

    def attempt(row: str, column: str) -> bool:
        method, path, body = calls[row]
        if isinstance(body, dict):
            body = {key: value.format(column) if isinstance(value, str) else value for key, value in body.items()}
        answer = people[column].request(method, path, json=body)
        assert answer.is_success or answer.status_code == 403, f"{row}, {column}: {answer.status_code} {answer.text}"
        return answer.is_success

    compare("in Airflow", attempt)
