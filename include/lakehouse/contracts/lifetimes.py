"""Who can live with it that a dataset's old rows go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakehouse.contracts.model import AnyContract, Gold, Silver


def readers_of_what_goes(contract: AnyContract, others: Iterable[AnyContract]) -> Iterator[str]:
    """Why the dataset's rows must stay: a reader that would not know what it lacks."""
    for reader in others:
        if contract.dataset not in reader.inputs:
            continue
        if isinstance(reader, Gold) and f"{contract.dataset}.{contract.time_partition}" not in reader.rebuild.values():
            yield (
                f"{reader.dataset} does not say which of its days come from which of {contract.time_partition}, and "
                f"would forget its old days; add rebuild: {{<its date>: {contract.dataset}.{contract.time_partition}}} "
                "to it, or remove rows"
            )
        if isinstance(reader, Silver) and reader.delivers == "changes" and not _by_time(reader):
            yield (
                f"{reader.dataset} cannot tell a record that is newer than all that went; make a timestamp the first "
                "of its newest_by, or remove rows"
            )


def _by_time(reader: Silver) -> bool:
    first = reader.columns.get(next(iter(reader.newest_by), ""))
    return first is not None and first.type == "timestamp"
