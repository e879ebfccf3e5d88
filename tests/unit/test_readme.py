"""What the pages say exists: commands, options, make targets, links, settings, and the README's own dataset."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import SecretStr

from lakehouse.cli import COMMANDS, build
from lakehouse.contracts import Silver, load
from lakehouse.contracts.load import LAYERS_FILE
from lakehouse.settings import FILE, PREFIX, ROOT, Settings

README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "include/docs").rglob("*.md"))]
# Read before there are settings, and by the tests' own stack.
NO_SETTINGS = {"LAKEHOUSE_ENV_FILE", "LAKEHOUSE_CACHE", "LAKEHOUSE_TEST_STACK"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEREDOC = re.compile(r"^(?P<head>[^\n]*<<'?EOF'?)\n(?P<body>.*?)^EOF$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"--?[a-zA-Z]")
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


def commands(text: str, *programs: str) -> Iterator[list[str]]:
    """Each command line of these programs in shell blocks and in inline code, as words from the program on."""
    blocks = [body for language, body in BLOCK.findall(text) if language in ("bash", "sh")]
    lines = [line for body in blocks for line in HEREDOC.sub(r"\g<head>", body).splitlines()]
    lines += re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))
    for command in (part for line in lines for part in line.split(" && ")):
        words = re.sub(r"^(\w+=\S* )*(\.venv/bin/)?", "", command.strip())
        if words.split(" ")[0] in programs and " " in words:
            yield shlex.split(words, comments=True)


def options(words: list[str]) -> set[str]:
    return {word.split("=")[0] for word in words if OPTION.match(word)}


def lakehouse_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words call, and the words that are its arguments."""
    name, *rest = words
    assert name in COMMANDS, f"there is no `lakehouse {name}`"
    app: Any = typer.main.get_command(build([name]))
    found = app.commands[name]
    within = getattr(found, "commands", None)
    if within and not (found.invoke_without_command and (not rest or rest[0].startswith("-"))):
        assert rest[0] in within, f"there is no `lakehouse {name} {rest[0]}`"
        return within[rest[0]], rest[1:]
    return found, rest


def airflow_options(group: str, name: str) -> set[str]:
    """The options of an airflow command, ours among them."""
    from airflow.cli.cli_config import core_commands

    from lakehouse_airflow import backfill_command

    groups: dict[str, Any] = {found.name: found for found in core_commands}
    assert group in groups, f"there is no `airflow {group}`"
    known = {command.name: command for command in groups[group].subcommands}
    if group == backfill_command.GROUP:
        known[backfill_command.NAME] = backfill_command.COMMAND
    assert name in known, f"there is no `airflow {group} {name}`"
    return {flag for argument in known[name].args for flag in argument.flags}


def check_lakehouse(text: str) -> None:
    """Fails at a `lakehouse` command, or an option of one, that does not exist."""
    for _, *words in commands(text, "lakehouse"):
        if words[0] != "airflow":
            command, rest = lakehouse_command(words)
            known = {option for parameter in command.params for option in parameter.opts}
            assert options(rest) <= known, f"lakehouse {shlex.join(words)}"


def check_airflow(text: str) -> None:
    """Fails at an `airflow` command, or an option of one, that does not exist."""
    for words in commands(text, "lakehouse", "airflow"):
        if words[0] == "airflow" or words[1] == "airflow":
            group, name, *rest = words[words.index("airflow") + 1 :]
            assert options(rest) <= airflow_options(group, name), shlex.join(words)


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
