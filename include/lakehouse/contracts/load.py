"""Reading a folder of contracts: all that is right, and all that is wrong, in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakehouse.contracts.gates import elsewhere
from lakehouse.contracts.model import MODELS, AnyContract, Bronze, Gold, Silver
from lakehouse.contracts.nesting import torn
from lakehouse.contracts.old_rows import readers_of_what_goes
from lakehouse.contracts.places import may_share
from lakehouse.contracts.problems import Problem, mapping, problems_of
from lakehouse.contracts.sla import without_rival
from lakehouse.errors import LakehouseError, suggest
from lakehouse.settings import settings

LAYERS_FILE = "layers.yaml"
_NONE_BACK = ", which brings back none that went"  # what was read as a whole lacks them then, too


@dataclass(frozen=True)
class Loaded:
    """The contracts that can be used, and what keeps the others from it."""

    contracts: dict[str, AnyContract]
    problems: tuple[Problem, ...]


class ContractNotFound(LakehouseError, LookupError):
    """No valid contract has that name."""


def load(folder: Path) -> Loaded:
    """Every contract under `folder` that is right, and every problem with the others."""
    defaults, problems = _layers(folder / LAYERS_FILE)
    problems += _misplaced(folder)
    found: dict[str, AnyContract] = {}
    for layer, file in _files(folder):
        result = _read(file, layer, folder / LAYERS_FILE, defaults.get(layer, {}))
        if isinstance(result, list):
            problems += result
        else:
            found[result.dataset] = result
    known = {f"{layer}.{file.stem}": file for layer, file in _files(folder)}
    wrong = [Problem(known[name], field, message) for name, field, message in _relations(found, known)]
    bad = {problem.file for problem in wrong}
    good = {name: contract for name, contract in found.items() if known[name] not in bad}
    # A default that is wrong is found once by each contract that takes it.
    return Loaded(good, tuple(dict.fromkeys([*problems, *wrong])))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for layer in MODELS:
        for file in sorted((folder / layer).glob("*.yaml")):
            yield layer, file


def _misplaced(folder: Path) -> list[Problem]:
    """Files that look like contracts, in places where nobody would ever read them."""
    read = {file for _, file in _files(folder)}
    found = sorted({*folder.glob("*/*.yaml"), *folder.glob("*/*.yml")} - read)
    return [Problem(file, "", _unread(file)) for file in found]


def _unread(file: Path) -> str:
    if file.parent.name in MODELS:
        return f"is not read; rename it to {file.stem}.yaml"
    return f"is not read: folder '{file.parent.name}' is no layer{suggest(file.parent.name, MODELS)}"


def _layers(file: Path) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """Each layer's defaults; a part that is wrong is left out."""
    given = mapping(file, "is no mapping; it begins with a layer, such as bronze:") if file.exists() else {}
    if isinstance(given, Problem):
        return {}, [given]
    good: dict[str, dict[str, Any]] = {}
    problems = []
    for layer, defaults in given.items():
        if layer not in MODELS:
            problems.append(Problem(file, str(layer), f"is no layer{suggest(str(layer), MODELS)}"))
        elif not isinstance(defaults or {}, dict):
            problems.append(Problem(file, layer, "is no mapping; write fields and their defaults under it"))
        else:
            good[layer] = defaults or {}
    return good, problems


def _merged(defaults: Any, given: Any) -> Any:
    if isinstance(defaults, dict) and isinstance(given, dict):
        return {k: _merged(defaults.get(k), given.get(k, defaults.get(k))) for k in {**defaults, **given}}
    return given


def _read(file: Path, layer: str, layers: Path, defaults: dict[str, Any]) -> AnyContract | list[Problem]:
    data = mapping(file, "is no contract; it begins with dataset: <layer>.<name>")
    if isinstance(data, Problem):
        return [data]
    if layer == "gold" and "sql" not in data:
        sql = file.with_suffix(".sql")
        if not sql.exists():
            return [Problem(file, "sql", f"there is no {sql.name} beside the contract; write the query there")]
        data["sql"] = sql.read_text(encoding="utf-8", errors="replace")
    try:
        contract = MODELS[layer].model_validate(_merged(without_rival(defaults, data), data))
    except ValidationError as error:
        return list(problems_of(error, MODELS[layer], file, data, layers))
    if contract.dataset != f"{layer}.{file.stem}":
        return [Problem(file, "dataset", f"is '{contract.dataset}', but the file's place says '{layer}.{file.stem}'")]
    return contract


def _relations(found: dict[str, AnyContract], known: dict[str, Path]) -> Iterator[tuple[str, str, str]]:
    """Problems between contracts, as (dataset, field, message): inputs or columns that are not there, circles."""
    for name, contract in found.items():
        if isinstance(contract, Silver) and contract.delivers == "snapshot":
            yield from _repeats_taken(contract, found)
            yield from _snapshots_mixed(contract, found)
        for field, message in _of_others(contract, found, known):
            yield name, field, message


def _of_others(
    contract: AnyContract, found: dict[str, AnyContract], known: dict[str, Path]
) -> Iterator[tuple[str, str]]:
    """What is wrong with one contract because of others, as (field, message)."""
    for source in contract.inputs:
        if source not in known:
            yield "reads", f"no dataset '{source}'{suggest(source, known)}"
    if isinstance(contract, Silver) and contract.reads in found:
        yield from _torn_intervals(contract, found[contract.reads])
    if isinstance(contract, Gold):
        yield from _rebuild_columns(contract, found)
    yield from _gates_elsewhere(contract, found, known)
    if contract.retention.rows:
        yield from (("retention.rows", told + _NONE_BACK) for told in readers_of_what_goes(contract, found.values()))
    if isinstance(contract, Bronze) and contract.source.kept is not None:
        yield from _shared_files(contract, found)
    if circle := _circle(contract.dataset, found):
        yield "reads", f"goes in a circle: {' → '.join(circle)}; remove one of these"


def _torn_intervals(contract: Silver, source: AnyContract) -> Iterator[tuple[str, str]]:
    """Records of an interval that lies in two of silver's would be in neither."""
    if shared := torn(contract, source):
        told = f"two intervals share {shared} of {source.dataset}, and neither would take all of it"
        fix = f"write the timezone of {source.dataset}, {source.timezone}, and a schedule of whole intervals of its"
        yield "schedule", f"{told}; {fix}"


def _repeats_taken(contract: Silver, found: dict[str, AnyContract]) -> Iterator[tuple[str, str, str]]:
    """A table that is again as it was some days ago comes in the same bytes as then."""
    source = found.get(contract.reads)
    if isinstance(source, Bronze) and source.source.recognise == "dataset":
        told = f"{contract.dataset} is delivered as whole snapshots, which may repeat: write recognise: interval"
        yield source.dataset, "source.recognise", told


def _snapshots_mixed(contract: Silver, found: dict[str, AnyContract]) -> Iterator[tuple[str, str, str]]:
    """Of two whole snapshots in one interval, one would bring back what the other lacks."""
    source = found.get(contract.reads)
    if source and not torn(contract, source) and torn(source, contract):
        told = f"an interval has several snapshots of {source.dataset}, and each is the whole table"
        yield contract.dataset, "schedule", f"{told}; write the schedule of {source.dataset}, {source.schedule}"


def _shared_files(contract: Bronze, found: dict[str, AnyContract]) -> Iterator[tuple[str, str]]:
    """Landing files have a lifetime only where nobody else may read them."""
    name = "delete_after" if contract.source.archive_after is None else "archive_after"
    for other in (one for one in found.values() if isinstance(one, Bronze) and one.dataset != contract.dataset):
        if may_share(contract.source.path, other.source.path):
            told = f"{other.dataset} may read the same files; give {contract.dataset} a folder of its own, or remove"
            yield f"source.{name}", f"{told} {name}"


def _rebuild_columns(contract: Gold, found: dict[str, AnyContract]) -> Iterator[tuple[str, str]]:
    for own, path in contract.rebuild.items():
        dataset, _, column = path.rpartition(".")
        source = found.get(dataset)
        if isinstance(source, Silver | Gold) and column not in source.columns:
            yield f"rebuild.{own}", f"{dataset} has no column '{column}'{suggest(column, source.columns)}"


def _gates_elsewhere(
    contract: AnyContract, found: dict[str, AnyContract], known: dict[str, Path]
) -> Iterator[tuple[str, str]]:
    """Gates that compare with a dataset or a column that is not there."""
    for position, gate in enumerate(contract.gates):
        field, dataset, column = elsewhere(gate) or ("", "", None)
        if dataset and dataset not in known:
            yield f"gates[{position}].{field}", f"no dataset '{dataset}'{suggest(dataset, known)}"
        elif column and dataset in found and column not in found[dataset].column_names:
            hint = suggest(column, found[dataset].column_names)
            yield f"gates[{position}].{field}", f"{dataset} has no column '{column}'{hint}"


def _circle(name: str, found: dict[str, AnyContract]) -> list[str] | None:
    """The way from a dataset through its inputs back to itself."""
    pending = [(source, [name]) for source in found[name].inputs]
    while pending:
        current, so_far = pending.pop()
        if current == name:
            return [*so_far, name]
        if current in found and current not in so_far:
            pending += [(source, [*so_far, current]) for source in found[current].inputs]
    return None


@lru_cache(maxsize=4)
def _cached(folder: Path, _stamp: tuple[tuple[str, int], ...]) -> Loaded:
    return load(folder)


def loaded(folder: Path | None = None) -> Loaded:
    """The contracts in use; read again only when a file has changed."""
    folder = folder or settings().contracts
    files = [file for pattern in ("*.yaml", "*/*.yaml", "*/*.yml", "*/*.sql") for file in folder.glob(pattern)]
    return _cached(folder, tuple(sorted((str(f), f.stat().st_mtime_ns) for f in files)))


def contracts(layer: str | None = None) -> list[AnyContract]:
    """The valid contracts, of one layer or all."""
    return [c for c in loaded().contracts.values() if layer in (None, c.layer)]


def contract(dataset: str) -> AnyContract:
    """The contract of one dataset; `ContractNotFound` says what is wrong with its file, if there is one."""
    everything = loaded()
    if dataset in everything.contracts:
        return everything.contracts[dataset]
    layer, _, name = dataset.partition(".")
    wrong = [str(p) for p in everything.problems if p.file.parent.name == layer and p.file.stem == name]
    hint = suggest(dataset, everything.contracts)
    raise ContractNotFound("; ".join(wrong) or f"no contract for '{dataset}'{hint}")
