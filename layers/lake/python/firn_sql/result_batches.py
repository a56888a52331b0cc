"""The rows of a DuckDB result, as Arrow reads them."""

from collections.abc import Iterator, Mapping
from typing import Final

import duckdb
import pyarrow as pa

_KINDS: Final[Mapping[str, type[duckdb.Error]]] = {
    "Out of Memory": duckdb.OutOfMemoryException,
    "INTERRUPT": duckdb.InterruptException,
    "INTERNAL": duckdb.InternalException,
    "FATAL": duckdb.FatalException,
}


def batches_of(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a result that is run while it is read. Raises duckdb.Error: what fails behind the first 2,048 rows
    Arrow tells as an OSError with DuckDB's text."""
    try:
        yield from reader
    except (OSError, pa.ArrowException) as error:
        text = str(error)
        kind = next((one for begin, one in _KINDS.items() if text.startswith(begin)), duckdb.Error)
        raise kind(text) from error
