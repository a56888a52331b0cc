"""Data files of a table, written a bounded number of rows at a time; no commit knows them yet."""

import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import _dataframe_to_data_files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

_AT_ONCE: Final = 128 * 1024 * 1024
"""Bytes of rows in memory that become one file (in a partitioned table, one file of each partition in them)."""


def write_files(metadata: "TableMetadata", io: "FileIO", batches: Iterable[pa.RecordBatch]) -> "list[DataFile]":
    """The rows as data files under the table's current schema and partitioning: at most `_AT_ONCE` in memory.

    batches  as firn_lake.arrow_types.arrow_schema(metadata.schema()) has them

    What was written is removed if something goes wrong. Raises what the storage raises.
    """
    written: list[DataFile] = []
    name, counter = uuid.uuid4(), itertools.count(0)
    try:
        for rows in _together(batches):
            written.extend(_dataframe_to_data_files(metadata, rows, io, write_uuid=name, counter=counter))
    except BaseException:
        remove_files(io, written)
        raise
    return written


def remove_files(io: "FileIO", files: "Sequence[DataFile]") -> None:
    """Removes files that no commit took. One that can't be removed is only in the way."""
    for file in files:
        with suppress(Exception):
            io.delete(file.file_path)


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= _AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
