"""The properties that a dataset's tables have because their contract says so."""

from __future__ import annotations

from lakehouse.contracts.model import Contract, Silver

COMMON = {
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # Dropped columns are found by the sizes of a file's columns: by itself Iceberg notes those of the first hundred.
    "write.metadata.metrics.max-inferred-column-defaults": "1000",
    # An audit branch is moved to main as it is: rows must be where their partition says, however few they are.
    "write.distribution-mode": "hash",
}
# Iceberg's own, for files that are large enough to be cut between them.
_ROW_GROUP_BYTES = 128 << 20


def wanted(contract: Contract, table: str) -> dict[str, str]:
    """What a table of the dataset, or a companion, should have; others that it has are left alone."""
    own = isinstance(contract, Silver) and table == contract.dataset
    # Writers aim at the size that maintenance measures by; else what they write would be rewritten.
    target = contract.maintenance.target_bytes
    sizes = {
        "write.target-file-size-bytes": str(target),
        # A file is cut only between row groups: one that is a single one fits to few others when files are packed.
        "write.parquet.row-group-size-bytes": str(min(_ROW_GROUP_BYTES, target // 4)),
    }
    return {**COMMON, **sizes, **(modes(contract) if own and isinstance(contract, Silver) else {})}


def modes(contract: Silver) -> dict[str, str]:
    """How a row's change is written."""
    mode = contract.update_mode.replace("_", "-")
    return {f"write.{verb}.mode": mode for verb in ("merge", "update", "delete")}
