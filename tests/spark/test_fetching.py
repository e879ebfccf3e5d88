"""Fetching files from a store that answers over HTTP: the planned version or none, and what is told when it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Thread
from urllib.parse import unquote, urlsplit

import pytest

from lakehouse import store as stores
from lakehouse.errors import LakehouseError
from lakehouse.identities import Identity
from lakehouse.settings import Settings, settings
from spark_jobs.readers import reader
from spark_jobs.readers.content import AHEAD, SMALL_BYTES, Planned, _bucket, fetched, in_order
from tests.spark.reading import files, rows_of, source

URI = "s3://landing/orders/a"
BODY = b"one\ntwo\n\n"
SIZES = {"small": len(BODY), "large": SMALL_BYTES + 1}


@dataclass
class Store:
    """Answers every request alike: a status, a body of which it may send only a part, and other headers."""

    status: int = 200
    body: bytes = BODY
    sent: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                store.asked.append((unquote(urlsplit(self.path).path), self.headers["If-Match"].strip('"')))
                self.send_response(store.status)
                usual = {"Content-Length": str(len(store.body)), "ETag": '"1"'}
                for name, value in {**usual, **store.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(store.body[: store.sent])

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[[Store], Store]]:
    """Makes a store the one that is read from."""
    servers = []

    def begin(store: Store) -> Store:
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), store.handler()))
        Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("LAKEHOUSE_S3_ENDPOINT", f"http://127.0.0.1:{servers[-1].server_port}")
        monkeypatch.setenv("LAKEHOUSE_S3_ACCESS_KEY", "key")
        monkeypatch.setenv("LAKEHOUSE_S3_SECRET_KEY", "secret")
        forget()
        return store

    yield begin
    monkeypatch.undo()
    forget()
    for server in servers:
        server.shutdown()
        server.server_close()


def forget() -> None:
    settings.cache_clear()
    stores._client.cache_clear()


def fetch(key: str = "orders/a", size: int = len(BODY)) -> bytes:
    return b"".join(fetched(Planned(f"s3://landing/{key}", "1", size)))


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("key", ["a", "a//b", "a/./b", "a\x01b", "a b", "a?b#c", "é", "a%20b", "a+b", "a*~(b)'!", "a/"])
def test_the_store_is_asked_once_for_the_planned_version_of_any_name(key, size, serve):
    store = serve(Store())
    assert fetch(f"orders/{key}", size) == BODY
    assert store.asked == [(f"/landing/orders/{key}", "1")]


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    "store",
    [Store(status=404, body=b""), Store(status=412, body=b""), Store(headers={"ETag": '"2"'})],
    ids=["gone", "changed", "changed, by a store that does not look"],
)
def test_a_file_that_is_gone_or_changed_fails_in_one_sentence_that_names_it(store, size, serve):
    serve(store)
    with pytest.raises(
        LakehouseError, match=rf"^{URI} is gone or has changed since this run was planned; run it again$"
    ):
        fetch(size=size)


@pytest.mark.parametrize("form", ["text", "csv", "parquet", "avro"])
@pytest.mark.parametrize(
    "store",
    [
        Store(status=403, body=b""),
        Store(status=503, body=b""),
        Store(status=302, headers={"Location": "/login"}),
        Store(sent=5),
    ],
    ids=["denied", "busy", "elsewhere", "broken off"],
)
@pytest.mark.usefixtures("no_backoff")
def test_an_error_of_the_store_fails_and_is_never_taken_for_a_damaged_file(store, form, serve):
    serve(store)
    with pytest.raises(LakehouseError, match=rf"^the object store at http://127.0.0.1:\d+ (refused|failed at) {URI}: "):
        rows_of(reader(source(form))(files(URI)))


@pytest.mark.parametrize(
    ("path_style", "address"), [(True, "https://s3.example.org"), (False, "https://landing.s3.example.org")]
)
def test_small_files_are_asked_for_where_the_bucket_is(path_style, address):
    given = Settings(s3_endpoint="https://s3.example.org", s3_path_style=path_style)
    assert _bucket("landing", given, Identity("key", "secret", "")).config["endpoint"] == address


def test_bytes_stay_packed_though_the_store_says_how(serve):
    serve(Store(headers={"Content-Encoding": "gzip"}))
    assert fetch() == BODY


def test_small_files_are_fetched_together_and_come_in_their_order():
    together = Barrier(AHEAD, timeout=30)

    def fetch(file: Planned) -> list[bytes]:
        together.wait()
        return [file.uri.encode()]

    planned = [Planned(f"{number}", "1", 9) for number in range(2 * AHEAD)]
    found = [(uri, b"".join(content)) for uri, content in in_order(fetch, planned)]
    assert found == [(file.uri, file.uri.encode()) for file in planned]


def test_no_more_than_a_few_small_files_are_held_and_no_large_one():
    begun: list[str] = []

    def fetch(file: Planned) -> list[bytes]:
        begun.append(file.uri)
        return [b""]

    small = [Planned(f"small {number}", "1", SMALL_BYTES) for number in range(AHEAD)]
    large = [Planned(f"large {number}", "1", SMALL_BYTES + 1) for number in range(AHEAD)]
    coming = in_order(fetch, [*small, *large])
    for file in small:
        assert next(coming)[0] == file.uri
    assert sorted(begun) == sorted(file.uri for file in small)
    list(coming)
    assert begun[AHEAD:] == [file.uri for file in large]
