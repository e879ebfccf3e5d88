"""What is generated from the model: the schema that editors read, and the reference page."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from lakehouse.contracts.reference import reference
from lakehouse.contracts.schema import SCHEMA_FILE, json_schema
from lakehouse.settings import ROOT
from tests.unit.contract_folder import SHIPPED, SILVER


def test_the_committed_schema_is_what_the_model_generates():
    assert (SHIPPED / SCHEMA_FILE).read_text() == json_schema(), "run `lakehouse contracts schema`"


def test_the_committed_reference_is_what_the_model_generates():
    assert (ROOT / "include/docs/contracts.md").read_text() == reference(), "run `lakehouse contracts reference`"


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*/*.yaml")), ids=lambda file: f"{file.parent.name}.{file.stem}")
def test_an_editor_with_the_schema_accepts_the_shipped_contracts(file):
    assert list(editor_errors(file.read_text())) == []


def test_an_editor_with_the_schema_marks_a_typo():
    assert list(editor_errors(SILVER.replace("owner: team", "ownr: team"))) != []


def editor_errors(text: str) -> list[str]:
    as_json = json.loads(json.dumps(yaml.safe_load(text), default=str))
    return [e.message for e in jsonschema.Draft202012Validator(json.loads(json_schema())).iter_errors(as_json)]
