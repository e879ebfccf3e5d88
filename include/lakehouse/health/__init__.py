"""The health of a table, from its metadata alone: no Spark, and no data file is read."""

from lakehouse.health.measured import health
from lakehouse.health.model import PartitionHealth, TableHealth

__all__ = ["PartitionHealth", "TableHealth", "health"]
