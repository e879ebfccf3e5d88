"""The bill of materials names what the locks hold, in the form that others read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from lakehouse.settings import ROOT
from lakehouse.stack import audit
from lakehouse.stack.bill import Part, bill, parts, wheels
from lakehouse.stack.jars import MANIFEST

LOCKED = """\
one==1.0 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via two
two[extra]==2.0.1 ; python_version < '4' \\
    --hash=sha256:{c}
""".format(a="a" * 64, b="b" * 64, c="c" * 64)


def test_a_lock_is_read_with_the_sums_of_each_wheel() -> None:
    assert list(wheels(LOCKED)) == [
        Part("one", "1.0", "pkg:pypi/one@1.0", sums=("a" * 64, "b" * 64)),
        Part("two", "2.0.1", "pkg:pypi/two@2.0.1", sums=("c" * 64,)),
    ]


def test_everything_locked_is_named_with_its_sum() -> None:
    found = {part.purl: part for part in parts()}
    pinned = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    sums = {line.split()[2] for line in MANIFEST.read_text().splitlines() if line and not line.startswith("#")}
    assert len([purl for purl in found if purl.startswith("pkg:pypi/")]) >= len(pinned) > 100
    assert {part.sums[0] for part in found.values() if part.purl.startswith("pkg:maven/")} == sums
    assert [purl for purl in found if purl.startswith("pkg:golang/github.com/minio/minio@v")]
    assert [purl for purl, part in found.items() if not part.sums and not purl.startswith("pkg:golang")] == []


def test_the_bill_is_valid_and_the_same_every_time() -> None:
    # Of each kind one: the schema takes minutes for all of them.
    some = {part.purl.partition("/")[0] + str(len(part.sums) > 1): part for part in parts()}.values()
    made = bill(list(some))
    assert len(made["components"]) == 4
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made)) is None
    assert bill(list(some)) == made


@pytest.fixture
def service() -> Iterator[str]:
    """Answers as OSV does: an advisory on every part called avro."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            known = [{"vulns": [{"id": "GHSA-1"}]} if "avro" in one["package"]["purl"] else {} for one in asked]
            body = json.dumps({"results": known}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_advisory_on_a_jar_is_told(service) -> None:
    found = [Part("avro", "1.0", "pkg:maven/org/avro@1.0?type=jar"), Part("other", "2", "pkg:maven/org/other@2")]
    assert [one[:3] for one in audit.others(found, service)] == [("avro", "1.0", "GHSA-1")]


def test_a_service_that_cannot_be_reached_is_no_clean_bill() -> None:
    with pytest.raises(audit.Unreachable):
        list(audit.others([Part("avro", "1.0", "pkg:maven/org/avro@1.0")], "http://127.0.0.1:1"))
    with pytest.raises(audit.Unreachable, match="not found"):
        list(audit.advisories([{"name": "one", "skip_reason": "not found"}]))


def test_an_advisory_on_a_wheel_is_told_with_the_version_that_mends_it() -> None:
    advisories = [{"id": "PYSEC-1", "fix_versions": ["1.1"]}, {"id": "PYSEC-2", "fix_versions": []}]
    found = list(audit.advisories([{"name": "one", "version": "1.0", "vulns": advisories}]))
    assert found == [("one", "1.0", "PYSEC-1", "1.1"), ("one", "1.0", "PYSEC-2", "none yet")]
