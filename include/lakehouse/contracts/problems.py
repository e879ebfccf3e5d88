"""What is wrong with a contract's file, said so that its writer knows where and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakehouse.contracts.faults import Faults
from lakehouse.contracts.model import Contract
from lakehouse.errors import suggest
from lakehouse.settings import ROOT


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with one file, and what to do about it."""

    file: Path
    field: str
    message: str

    def __str__(self) -> str:
        file = self.file.relative_to(ROOT) if self.file.is_relative_to(ROOT) else self.file
        return f"{file}: {self.field}: {self.message}" if self.field else f"{file}: {self.message}"


class _Loader(yaml.SafeLoader):
    """YAML keeps the last of two equal keys without a word; here it is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"'{key.value}' is there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def mapping(file: Path, otherwise: str) -> dict[Any, Any] | Problem:
    """The mapping that a YAML file holds; `otherwise` is said of a file that holds something else."""
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), _Loader)  # noqa: S506  it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        return Problem(file, "", f"is no YAML: {line}{error.problem or error.context}")
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        return Problem(file, "", f"cannot be read: {' '.join(str(error).split())}")
    return data if isinstance(data, dict) else Problem(file, "", otherwise)


def problems_of(
    error: ValidationError, model: type[Contract], file: Path, data: Mapping[str, Any], layers: Path
) -> Iterator[Problem]:
    """Each problem of a contract, laid at the door of its own file or of the defaults it takes from its layer."""
    for one in error.errors():
        faults = one.get("ctx", {}).get("error")
        if isinstance(faults, Faults):
            yield from (Problem(file, field, message) for field, message in faults.found)
        elif one["type"] != "missing" and not _given(data, one["loc"]):
            layer = file.parent.name
            yield Problem(layers, f"{layer}.{_field(one['loc'])}", _message(one, model))
        else:
            yield Problem(file, _field(one["loc"]), _message(one, model))


def _given(data: Any, path: Sequence[int | str]) -> bool:
    """Whether the contract itself says something at that place."""
    for part in path:
        if not isinstance(data, Mapping):
            break
        if part not in data:
            # Pydantic marks a wrong key by a last part of its own, which is in nobody's data.
            return part == "[key]"
        data = data[part]
    return True


def _field(path: Sequence[int | str]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path if part != "[key]")
    return text.lstrip(".")


def _message(error: ErrorDetails, model: type[Contract]) -> str:
    if error["type"] == "extra_forbidden":
        *path, wrong = error["loc"]
        names = [field.alias or name for name, field in _model_at(model, path).model_fields.items()]
        return f"unknown field{suggest(str(wrong), names) or '; remove it'}"
    if error["type"] == "missing":
        also = " here or in layers.yaml" if error["loc"][0] in model.LAYERED else ""
        return f"is missing; add it{also}"
    if error["type"] == "string_type":
        return f"must be text, not {error['input']!r}; put it in quotes"
    return error["msg"].removeprefix("Value error, ")


def _model_at(model: type[BaseModel], path: Sequence[int | str]) -> type[BaseModel]:
    """The model that describes what is found at a path."""
    for part in path:
        fields = model.model_fields.items()
        annotation = next((field.annotation for name, field in fields if part in (name, field.alias)), None)
        model = _model_in(annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
