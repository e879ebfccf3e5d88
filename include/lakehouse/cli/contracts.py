"""Commands on contracts: check, schema, reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer

from lakehouse.contracts.load import load
from lakehouse.naming import LAYERS, tables_of
from lakehouse.settings import ROOT, settings

contracts = typer.Typer(no_args_is_help=True)
REFERENCE = ROOT / "include/docs/contracts.md"


@contracts.command()
def check() -> None:
    """Say all that is wrong with the contracts, one line each: file, field, fix. Exits with 1 if anything is."""
    folder = settings().contracts
    found = load(folder)
    for problem in found.problems:
        typer.echo(str(problem))
    for name in _orphans(folder):
        typer.echo(f"{name}: its contract is gone; the table stays")
    if found.problems:
        raise typer.Exit(1)
    typer.echo(f"{len(found.contracts)} contracts, nothing wrong.")


@contracts.command()
def schema() -> None:
    """Write the JSON Schema that editors use, beside the contracts."""
    from lakehouse.contracts.schema import SCHEMA_FILE, json_schema

    _write(settings().contracts / SCHEMA_FILE, json_schema())


@contracts.command()
def reference() -> None:
    """Write the reference page of all fields."""
    from lakehouse.contracts.reference import reference as page

    _write(REFERENCE, page())


def _orphans(folder: Path) -> Iterator[str]:
    """Tables of the layers for which there is no contract, not even a broken one; none where no catalog answers."""
    files = [f"{layer}.{file.stem}" for layer in LAYERS for file in (folder / layer).glob("*.yaml")]
    known = {table for dataset in files for table in tables_of(dataset)}
    yield from sorted(set(_tables()) - known)


def _tables() -> Iterator[str]:
    """The layers' tables in the catalog."""
    # These take a second to import, and only this command needs them.
    from pyiceberg.exceptions import NoSuchNamespaceError, RESTError
    from requests import RequestException

    from lakehouse.catalog import CatalogUnreachable, catalog

    for layer in LAYERS:
        try:
            yield from (".".join(name) for name in catalog().list_tables(layer))
        except NoSuchNamespaceError:
            continue
        except (CatalogUnreachable, RequestException, RESTError):
            typer.echo(
                f"The catalog at {settings().catalog_uri} does not answer; its tables were not looked at.", err=True
            )
            return


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {file}")
