"""An answer to a question about tables: bytes in parts, and how many rows they hold."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from firn_lake.changes.row_changes import Changes
from firn_lake.encoding import CONTENT_TYPES, Format, encoded
from firn_lake.question_parameters import ChangesOf, Query
from firn_lake.reading.read_recorder import OnRead
from firn_lake.sql.duck import NOTES, SNAPSHOTS, Limits, bytes_of
from firn_lake.sql.query import Tables, streamed_over
from firn_lake.sql.query_errors import QueryTooLarge
from firn_lake.tables import split_name


@dataclass
class Answer:
    """What is answered: bytes of a content type, in parts that are made as they are read, and `rows` of them by then.
    Reading them raises FirnError."""

    format: Format
    parts: Iterator[bytes]
    rows: int = 0

    @property
    def content_type(self) -> str:
        """The HTTP header."""
        return CONTENT_TYPES[self.format]

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, their rows counted as they pass."""
        for batch in batches:
            self.rows += batch.num_rows
            yield batch


def answer_rows(tables: Tables, asked: Query, limits: Limits, on_read: OnRead | None = None) -> Answer:
    """The rows of one SELECT over these tables, encoded as they come. `on_read` hears of each table that was read."""

    def parts() -> Iterator[bytes]:
        query = streamed_over(tables, asked.sql, asked.parameters, limits, all_columns=asked.all_columns)
        read: tuple[str, ...] = ()
        with query as found:
            read = found.tables
            about = {"snapshots": json.loads(found.schema.metadata[SNAPSHOTS.encode()])}
            if notes := found.schema.metadata.get(NOTES.encode()):
                about["notes"] = json.loads(notes)
            batches = answered.counted(found.batches)
            yield from at_most(limits, encoded(found.schema, batches, asked.format, about))
        if on_read is not None:
            for name in read:
                for identifier in tables.tables_of(split_name(name)):
                    on_read(identifier)

    answered = Answer(asked.format, iter(()))
    answered.parts = parts()
    return answered


def answer_row_changes(changes: Changes, table: str, asked: ChangesOf, limits: Limits) -> Answer:
    """The changes of a table; more than `limit` of them, or than the limits allow, are a QueryTooLarge."""
    most = min(limit for limit in (asked.limit, limits.rows) if limit is not None)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in answered.counted(changes):
            if answered.rows > most:
                raise QueryTooLarge(
                    f"there are more than {most:,} changes between these two moments: choose them nearer to each other "
                    f"(GET /v1/tables/{table}/snapshots lists those there are)"
                )
            yield batch

    about = {"table": table, "from": changes.from_, "to": changes.to, "key": list(changes.key)}
    answered = Answer(asked.format, iter(()))
    answered.parts = at_most(limits, encoded(changes.schema, batches(), asked.format, about))
    return answered


def at_most(limits: Limits, parts: Iterator[bytes]) -> Iterator[bytes]:
    """The parts of an answer that is no longer than the limits allow. Raises QueryTooLarge."""
    size, most = 0, bytes_of(limits.memory) if limits.memory is not None else None
    for part in parts:
        size += len(part)
        if most is not None and size > most:
            raise QueryTooLarge(f"the answer is larger than {limits.memory}: choose fewer rows or columns")
        yield part


def in_json(value: Any, rows: int) -> Answer:
    """A value as JSON."""
    return Answer("json", iter([msgspec.json.encode(value)]), rows)
