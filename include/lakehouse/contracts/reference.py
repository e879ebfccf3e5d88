"""The reference page of contracts: made from the model, so that the two cannot differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lakehouse.contracts.load import LAYERS_FILE
from lakehouse.contracts.model import MODELS, Contract
from lakehouse.contracts.schema import SCHEMA_FILE, parts

_INTRODUCTION = f"""# Contracts: reference

Made by `lakehouse contracts reference`; change the model, not this page.

A contract is the file `<layer>/<name>.yaml` in the contracts folder. Fields that it leaves out come from its layer's
part of `{LAYERS_FILE}`, then from the defaults below. `lakehouse contracts check` finds everything that is wrong, and
an editor that knows `{SCHEMA_FILE}` finds most of it while you type.
"""


def reference() -> str:
    """The page, in Markdown: one table a section."""
    return "\n".join([_INTRODUCTION, *(f"{text}\n" for text in _sections())]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    found = parts()
    common = (
        found["Bronze"]["properties"].keys() & found["Silver"]["properties"].keys() & found["Gold"]["properties"].keys()
    )
    general = {name: field for name, field in found["Gold"]["properties"].items() if name in common}
    yield _section("Every contract", Contract.__doc__ or "", general, found["Gold"]["required"])
    for model in MODELS.values():
        part = found.pop(model.__name__)
        own = {name: field for name, field in part["properties"].items() if general.get(name) != field}
        yield _section(model.__name__, part["description"], own, part["required"])
    for name, part in found.items():
        yield _section(name, part["description"], part["properties"], part.get("required", []))


def _section(title: str, promise: str, fields: dict[str, Any], required: list[str]) -> str:
    head = f"## {title}\n\n{promise}\n\n| field | type | default | meaning |\n| --- | --- | --- | --- |"
    rows = [(f"`{name}`", _type(f), _default(name, f, required), f["description"]) for name, f in fields.items()]
    return "\n".join([head, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text


def _default(name: str, field: dict[str, Any], required: list[str]) -> str:
    if name in required:
        return "**required**"
    if "default" not in field:
        return "the file `<name>.sql`" if name == "sql" else f"`{LAYERS_FILE}`"
    value = field["default"]
    return "" if value in (None, "", [], {}) else f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _type(field: dict[str, Any]) -> str:
    """A field's type in words."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        one, *more = [_type(kind) for kind in field["anyOf"] if kind.get("type") != "null"]
        listed = more and any("items" in kind for kind in field["anyOf"])
        return f"{one}, or a list" if listed else " or ".join(dict.fromkeys([one, *more]))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if field["type"] == "object":
        inner = [*field.get("patternProperties", {}).values(), field.get("additionalProperties")]
        return f"name: {_type(inner[0])}"
    words = {"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number"}
    return str(field.get("format") or field.get("title") or field.get("const") or words[field["type"]])
