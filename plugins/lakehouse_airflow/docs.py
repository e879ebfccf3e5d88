"""What the Airflow UI says of a dataset's DAG and its tasks."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.advice import page
from lakehouse.contracts import AnyContract
from lakehouse.contracts.fields import write_duration
from lakehouse.naming import short_name


def of_dag(contract: AnyContract) -> str:
    """A dataset's page: whose it is, what it promises, and what to do when it does not keep it."""
    rows = {
        "owner": contract.owner,
        "SLA": f"{contract.sla.as_text(contract.timezone)}; severity {contract.sla.severity}",
        "made from": ", ".join(f"`{name}`" for name in contract.inputs) or "landing files",
        "contract": f"`{_file(contract)}`",
        "schedule": f"`{contract.schedule}` {contract.timezone}",
        "gates": _gates(contract),
        "maintenance": f"{contract.maintenance.tier}; snapshots kept {write_duration(contract.retention.history)}",
        "when it is late or fails": runbooks(),
    }
    table = [f"| {name} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join((f"### {contract.dataset}", contract.description, "", "| | |", "| --- | --- |", *table))


def of_task(contract: AnyContract, does: str | None) -> str:
    """What a step does, and what an operator asks first of the dataset that it is a step of."""
    facts = (
        f"owner **{contract.owner}**",
        contract.sla.as_text(contract.timezone),
        f"contract `{_file(contract)}`",
        runbooks(),
    )
    return f"{does or ''}\n\n{' · '.join(facts)}"


def runbooks() -> str:
    """The list of runbooks, in Markdown."""
    return link(page("README"))


def link(address: str) -> str:
    """As a link where it is read in a browser, else as its path in the repository."""
    return f"[runbooks]({address})" if "://" in address else f"`{address}`"


def tags(contract: AnyContract) -> list[str]:
    """By what a dataset's DAG is found: its layer, its owner, how often its table is looked after."""
    return [contract.layer, contract.owner, f"tier:{contract.maintenance.tier}"]


def _file(contract: AnyContract) -> str:
    return f"{contract.layer}/{short_name(contract.dataset)}.yaml"


def _gates(contract: AnyContract) -> str:
    return _listed(f"`{gate.title}`" + (" (warns)" if gate.severity == "warn" else "") for gate in contract.gates)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "those of its layer"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
