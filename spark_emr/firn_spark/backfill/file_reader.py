"""Chunks out of files: row groups of Parquet, whole files of CSV and of NDJSON."""

import gzip
import io
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn.backfill.chunk_plan import Chunk
from firn.changes.decode.connect_schema import columns_of
from firn.errors import TerminalError
from firn.log.store import ObjectFile, Store
from firn_spark.backfill.arrow_rows import NoColumn, csv_reader, images_of_rows
from firn_spark.backfill.chunk_reader import ReadChunk, Work
from firn_spark.backfill.file_source import files_of, kind_of
from firn_spark.backfill.staged_file import StagedFile

_LONGEST: Final = 16_000_000  # bytes of a line


class BadLine(TerminalError):
    """A line of a file is no row."""


class FileReader:
    """As chunk_reader.ChunkReader. Rows are older than everything that the stream tells, or with `position` "now" stand
    at the floor: what the tables had when the job began is older, and what the stream brings from then on newer."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._opened: Store | None = None

    def read(self, chunk: Chunk) -> ReadChunk:
        """All of the chunk's rows."""
        if self._opened is None:
            self._opened = files_of(self._work.request.source)[0]
        table = self._work.plan.tables[chunk.table]
        now = self._work.request.position == "now"
        connector, order = ("postgresql", f'["{self._work.floor}","{self._work.floor}"]') if now else ("firn", "[0,0]")
        file = StagedFile(table.name, table.schema, connector, order, None, keyed=False)
        for image in self._images(self._opened, chunk, table.schema):
            file.add(image)
        file.flush()
        return ReadChunk(file, chunk.relation, counted=(file.rows, ""), as_sent=False)

    def close(self) -> None:
        """Nothing stays open."""
        self._opened = None

    def _images(self, store: Store, chunk: Chunk, schema: str) -> Iterator[bytes]:
        path = chunk.relation
        match kind_of(path):
            case "parquet":
                first, _, end = chunk.where.partition("-")
                with pq.ParquetFile(pa.PythonFile(ObjectFile(store, path), "r")) as file:
                    for group in range(int(first), int(end)):
                        yield from images_of_rows(file.read_row_group(group))
            case "csv":
                types = {column.name: column.type for column in columns_of(schema.encode())}
                try:
                    for batch in csv_reader(store, path, types):
                        yield from images_of_rows(pa.Table.from_batches([batch]))
                except pa.ArrowInvalid as error:
                    raise NoColumn(f"{path}: {str(error).splitlines()[0][:200]}") from None
            case _:
                yield from _lines(store, path)


def _lines(store: Store, path: str) -> Iterator[bytes]:
    raw: Any = io.BufferedReader(ObjectFile(store, path), 1 << 20)
    lines = gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw
    is_json = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    number = 0
    while line := lines.readline(_LONGEST + 1):
        number += 1
        if len(line) > _LONGEST:
            raise BadLine(f"{path}, line {number}: it has more than {_LONGEST:,} bytes")
        row = line.strip()
        try:
            if row:
                is_json(row)
                yield row
        except (msgspec.MsgspecError, UnicodeError):
            raise BadLine(f"{path}, line {number}: it is no JSON object; correct it, and begin anew") from None
