"""Parquet's rows as values that `encoded` takes."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.readers.arrow import values

_BATCH_BYTES = 8 << 20
_MOST_ROWS = 4096


def rows(file: mmap) -> Iterator[Any]:
    """Each row; raises where the file is no Parquet or a damaged one."""
    parquet = pq.ParquetFile(
        pa.BufferReader(file),
        pre_buffer=False,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",  # nanoseconds in 64 bits end in 2262, and later times would become others
    )
    for number in range(parquet.num_row_groups):  # one by one: damage in one of them takes no rows of others
        at_once = _rows_at_once(parquet.metadata.row_group(number))
        for batch in parquet.iter_batches(at_once, row_groups=[number], use_threads=False):
            yield from values(batch.to_struct_array())


def _rows_at_once(group: pq.RowGroupMetaData) -> int:
    """As many as fit a batch on average, from 1 to 4,096."""
    fitting: int = group.num_rows * _BATCH_BYTES // max(1, group.total_byte_size)
    return max(1, min(_MOST_ROWS, fitting))
