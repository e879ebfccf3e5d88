"""What the pages say exists: commands, options, make targets, links, settings, and the README's own dataset."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lakehouse.contracts import Silver, load
from lakehouse.contracts.load import LAYERS_FILE
from lakehouse.settings import FILE, PREFIX, ROOT, Settings
from tests.pages import BLOCK, HEREDOC, check_airflow, check_lakehouse, commands

README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "include/docs").rglob("*.md"))]
# Read before there are settings, and by the tests' own stack.
NO_SETTINGS = {"LAKEHOUSE_ENV_FILE", "LAKEHOUSE_CACHE", "LAKEHOUSE_TEST_STACK"}
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


@EVERY_PAGE
def test_every_lakehouse_command_and_its_options_exist(page):
    check_lakehouse(page.read_text())


@EVERY_PAGE
def test_every_airflow_command_and_its_options_exist(page):
    check_airflow(page.read_text())


@EVERY_PAGE
def test_every_make_target_exists(page):
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for _, *words in commands(page.read_text(), "make"):
        assert {word for word in words if "=" not in word} <= targets, shlex.join(words)


@EVERY_PAGE
def test_every_link_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    inside = [link.split("#")[0] for link in links if "://" not in link]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@EVERY_PAGE
def test_every_setting_exists(page):
    named = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]*[A-Z0-9]\b", page.read_text()))
    fields = Settings.model_fields.items()
    files = {f"{PREFIX}{name.upper()}{FILE}" for name, field in fields if field.annotation is SecretStr}
    assert named - NO_SETTINGS - files - {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} == set()


def test_the_readme_names_what_a_user_needs():
    text = README.read_text()
    called = {words[0] for _, *words in commands(text, "lakehouse")}
    assert {"query", "status", "batches", "sla", "contracts", "sample", "logs", "airflow"} <= called
    assert {"run", "stop", "test"} <= {words[0] for _, *words in commands(text, "make")}


@pytest.mark.parametrize(
    "line",
    ["`lakehouse fly`", "`lakehouse query x --sideways`", "```bash\nFOO=1 .venv/bin/lakehouse contracts chek\n```"],
)
def test_a_wrong_command_is_found(line):
    with pytest.raises(AssertionError):
        check_lakehouse(line + "\n")


def heredocs() -> dict[str, str]:
    """The files that the README has its reader write, by path."""
    values = {"DAY": "2026-11-15", "END": "2026-11-16"}
    found = {}
    for _, block in BLOCK.findall(README.read_text()):
        for head, body in HEREDOC.findall(block):
            if written := re.search(r"cat > (\S+)", head):
                found[written[1]] = re.sub(r"\$\{?(\w+)\}?", lambda name: values[name[1]], body)
    return found


@pytest.fixture
def example(tmp_path) -> Path:
    """A contracts folder as the README's reader has it."""
    shutil.copy(ROOT / "include/contracts" / LAYERS_FILE, tmp_path)
    for path, text in heredocs().items():
        if path.startswith("include/contracts/"):
            file = tmp_path / Path(path).relative_to("include/contracts")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    return tmp_path


def test_the_readmes_contracts_are_right(example):
    found = load(example)
    assert found.problems == ()
    assert set(found.contracts) == {"bronze.payments", "silver.payments"}
    assert {contract.start for contract in found.contracts.values()} == {date(2026, 11, 15)}


def test_the_readmes_records_have_what_its_contract_reads(example):
    silver = load(example).contracts["silver.payments"]
    assert isinstance(silver, Silver)
    records = [json.loads(line) for line in heredocs()["/tmp/payments.jsonl"].splitlines()]
    assert len(records) == 6
    for record in records:
        for column in silver.columns.values():
            value: Any = record
            for part in column.from_[0].split("."):
                value = value[part]
