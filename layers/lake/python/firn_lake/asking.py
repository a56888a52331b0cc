"""Questions that come over HTTP, and their answers: a query, and the changes, snapshots and columns of a table.

Nothing here logs, and no error that is raised here goes into a log with its text: it may hold what was asked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import pyarrow as pa

from firn.errors import FirnError, RequestError
from firn.staging.batch import UnreadableBatch
from firn.staging.kept import BadCutName, NoSuchCut
from firn_lake.changes.between import BadColumn, NotOneLine
from firn_lake.encoding import CONTENT_TYPES, Format, encoded
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake
from firn_lake.lake_table import Moment
from firn_lake.reading.moments import NoSuchMoment
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import NoSuchColumn
from firn_lake.sql.duck import SNAPSHOTS, Limits, QueryError, QueryTooLarge
from firn_lake.tables import TableNotFound

# Error -> HTTP status and a word for machines; the first that fits.
_ANSWERS: Final[tuple[tuple[type[FirnError], int, str], ...]] = (
    (QueryTooLarge, 413, "too_large"),
    (QueryError, 400, "bad_query"),
    (TableNotFound, 404, "no_such_table"),
    (NoSuchMoment, 404, "no_such_moment"),
    (NoSuchCut, 404, "no_such_cut"),
    (BadCutName, 400, "bad_cut"),
    (NoSuchColumn, 400, "no_such_column"),
    (BadColumn, 400, "bad_column"),
    (NotOneLine, 409, "no_steps"),
    (NotFresh, 409, "not_fresh"),
    (UnreadableFile, 500, "unreadable_file"),
    (UnreadableBatch, 500, "unreadable_batch"),
)


class Query(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The body of POST /v1/query. `stream`: whose cut it is, where several streams have one of that number."""

    sql: str
    parameters: list[Any] | dict[str, Any] | None = None
    as_of: str | int | None = None
    cut: str | int | None = None
    stream: str | None = None
    fresh: bool = False
    format: Format = "json"


class ChangesOf(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"from_": "from"}):
    """The parameters of GET /v1/tables/{table}/changes."""

    from_: str | None = None
    to: str | None = None
    steps: bool = False
    columns: str | None = None
    limit: int | None = None
    format: Format = "json"


@dataclass(frozen=True)
class Answer:
    """What is answered: so many rows, as bytes of a content type. `tables`: those that a query has read, by name."""

    content: bytes
    format: Format
    rows: int
    tables: tuple[str, ...] = ()

    @property
    def content_type(self) -> str:
        """The HTTP header."""
        return CONTENT_TYPES[self.format]


def read_query(body: bytes) -> Query:
    """The body of POST /v1/query. Raises RequestError 400."""
    try:
        asked = msgspec.json.decode(body, type=Query)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fields = ", ".join(Query.__struct_fields__)
        raise RequestError(400, "bad_request", f'{error}; write {{"sql": "SELECT …"}}, and of {fields}') from error
    if asked.as_of is not None and asked.cut is not None:
        raise RequestError(400, "bad_request", "give as_of or cut, not both: a cut is a moment already")
    if asked.stream is not None and asked.cut is None:
        raise RequestError(400, "bad_request", "stream goes with cut: it says whose cut it is")
    if asked.fresh and (asked.as_of is not None or asked.cut is not None):
        raise RequestError(400, "bad_request", "fresh is now: leave as_of and cut out, or fresh")
    return asked


def answer_query(lake: Lake, asked: Query, limits: Limits) -> Answer:
    """Run the query. Raises FirnError; `as_request_error` says what becomes of it."""
    as_of: Moment = asked.as_of if asked.cut is None else lake.cut(asked.cut, asked.stream)
    found = lake.sql(
        asked.sql, as_of, parameters=asked.parameters, seconds=limits.seconds, rows=limits.rows, memory=limits.memory,
        fresh=asked.fresh,
    )  # fmt: skip
    table = found.arrow()
    snapshots = json.loads((table.schema.metadata or {})[SNAPSHOTS.encode()])
    return replace(_answer(table, asked.format, {"snapshots": snapshots}), tables=tuple(snapshots))


def answer_changes(lake: Lake, table: str, parameters: Mapping[str, str], most: int) -> Answer:
    """The changes of a table; more than `limit` of them, or than `most`, are a QueryTooLarge. Raises FirnError."""
    try:
        asked = msgspec.convert(parameters, ChangesOf, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(
            400, "bad_request", f"{error}; the parameters are from, to, steps, columns, limit, format"
        ) from error
    columns = asked.columns.split(",") if asked.columns else None
    changes = lake.table(table).changes(asked.from_, asked.to, steps=asked.steps, columns=columns)
    limit = most if asked.limit is None else min(asked.limit, most)
    found: list[pa.RecordBatch] = []
    for batch in changes:
        found.append(batch)
        if sum(one.num_rows for one in found) > limit:
            raise QueryTooLarge(
                f"there are more than {limit:,} changes between these two moments: choose them nearer to each other "
                f"(GET /v1/tables/{table}/snapshots lists those there are)"
            )
    about = {"table": table, "from": changes.from_, "to": changes.to, "key": list(changes.key)}
    return _answer(pa.Table.from_batches(found, changes.schema), asked.format, about)


def answer_snapshots(lake: Lake, table: str) -> Answer:
    """The snapshots that are still kept, oldest first. Raises FirnError."""
    one = lake.table(table)
    snapshots = one.snapshots()
    return _told({"table": one.name, "snapshots": snapshots}, len(snapshots))


def answer_schema(lake: Lake, table: str, as_of: str | None) -> Answer:
    """The columns with their types, as they were at `as_of`, and the key. Raises FirnError."""
    one = lake.table(table)
    columns = [{"name": name, "type": kind} for name, kind in one.columns(as_of).items()]
    return _told({"table": one.name, "key": one.key, "columns": columns}, len(columns))


def answer_tables(lake: Lake) -> Answer:
    """All tables, by name. Raises FirnError."""
    tables = lake.tables()
    return _told({"tables": tables}, len(tables))


def as_request_error(error: FirnError) -> RequestError | None:
    """The HTTP answer to an error of these questions; None for one that is not theirs."""
    for kind, status, code in _ANSWERS:
        if isinstance(error, kind):
            return RequestError(status, code, str(error))
    return None


def _answer(table: pa.Table, form: Format, about: Mapping[str, Any]) -> Answer:
    return Answer(encoded(table, form, about), form, table.num_rows)


def _told(value: Any, rows: int) -> Answer:
    return Answer(msgspec.json.encode(value), "json", rows)
