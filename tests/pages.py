"""The commands that pages tell their readers to type, and whether they exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer

from lakehouse.cli import COMMANDS, build

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEREDOC = re.compile(r"^(?P<head>[^\n]*<<'?EOF'?)\n(?P<body>.*?)^EOF$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"--?[a-zA-Z]")


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
