"""The contract's JSON Schema, for editors: made from the model, so that the two cannot differ."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from lakehouse.contracts.model import MODELS

SCHEMA_FILE = "contract.schema.json"


class Untitled(GenerateJsonSchema):
    """Pydantic's own titles only repeat the fields' names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  pydantic gives it
        return False


def parts() -> dict[str, dict[str, Any]]:
    """The schema of each model, by name. Required is what no layer and no other file can give."""
    _, schema = models_json_schema([(model, "validation") for model in MODELS.values()], schema_generator=Untitled)
    found: dict[str, dict[str, Any]] = schema["$defs"]
    for model in MODELS.values():
        from_elsewhere = {*model.LAYERED, "sql"}
        own = found[model.__name__]
        own["required"] = [name for name in own["required"] if name not in from_elsewhere]
        for name in model.LAYERED:
            # Defaults are merged field by field, so that a part of a section is enough.
            found[own["properties"][name]["$ref"].rpartition("/")[2]].pop("required", None)
    return found


def json_schema() -> str:
    """A schema for one contract file: its dataset's layer decides which fields it may have."""
    found = parts()
    layers = [
        {"if": {"properties": {"dataset": {"pattern": f"^{layer}\\."}}}, "then": {"$ref": f"#/$defs/{model.__name__}"}}
        for layer, model in MODELS.items()
    ]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Contract of a dataset",
        "type": "object",
        "required": ["dataset"],
        "properties": {"dataset": found["Bronze"]["properties"]["dataset"]},
        "allOf": layers,
        "$defs": found,
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
