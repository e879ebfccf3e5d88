"""Whether a publish leaves a table in a state that should not wait for its next turn of maintenance.

Asked after every publish, so it must be cheap: the number of files is in the snapshot's own summary, and the ledger is
asked only for a table that has that many files at all.
"""

from __future__ import annotations

from lakehouse.contracts.model import Contract
from lakehouse.ledger import health as measures
from lakehouse.naming import critical_run_id


def run_at_once(contract: Contract, files: int) -> str | None:
    """The id of the run that maintenance should have at once; None where it can wait.

    The id is the same until the table is looked at again: however many publishes ask for it, there is one run.
    """
    limit = contract.maintenance.critical_files
    if files < limit:
        return None
    looked_at, had = measures.newest_files(contract.dataset)
    return critical_run_id(contract.dataset, looked_at) if files - had >= limit else None
