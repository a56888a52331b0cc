"""Questions that come over HTTP, and their answers: a query, and the changes, snapshots and columns of a table.

Nothing here logs, and no error that is raised here goes into a log with its text: it may hold what was asked.
"""

import json
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
import pyarrow as pa

from firn.errors import ConfigError, FirnError, RequestError, TransientError, UnknownOutcome, said
from firn.log.batches import UnreadableBatch
from firn.log.named_cuts import BadCutName, NoSuchCut
from firn.log.published_configs import CurrentConfig
from firn.log.store import Store, open_store
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.catalogs.reading_catalog import to_read
from firn_lake.changes.row_changes import BadColumn, NotOneLine
from firn_lake.encoding import CONTENT_TYPES, Format, encoded
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake
from firn_lake.lake_table import Moment
from firn_lake.query_protocol import Question, Refusal
from firn_lake.reading.read_recorder import OnRead, recorder
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import NoSuchColumn
from firn_lake.snapshot_pages import MOST_SNAPSHOTS, BadCursor, snapshot_page
from firn_lake.sql.duck import NOTES, SNAPSHOTS, Limits, bytes_of
from firn_lake.sql.query import streamed
from firn_lake.sql.query_errors import NotEncodable, QueryError, QueryTooLarge
from firn_lake.tables import TableNotFound, split_name
from firn_lake.timeline import MOST_COLUMNS, MOST_POINTS, column_page, timeline

T = TypeVar("T")

MOST_SQL: Final = 200_000
"""Characters of a query: both parsers take seconds for as many."""

# Error -> HTTP status and a word for machines; the first that fits.
ANSWERS: Final[tuple[tuple[type[FirnError], int, str], ...]] = (
    (QueryTooLarge, 413, "too_large"),
    (NotEncodable, 422, "not_encodable"),
    (QueryError, 400, "bad_query"),
    (TableNotFound, 404, "no_such_table"),
    (NoSuchMoment, 404, "no_such_moment"),
    (NoSuchCut, 404, "no_such_cut"),
    (BadCutName, 400, "bad_cut"),
    (NoSuchColumn, 400, "no_such_column"),
    (BadColumn, 400, "bad_column"),
    (BadCursor, 400, "bad_cursor"),
    (NotOneLine, 409, "no_steps"),
    (NotFresh, 409, "not_fresh"),
    (UnreadableFile, 500, "unreadable_file"),
    (UnreadableBatch, 500, "unreadable_batch"),
    (ConfigError, 503, "not_configured"),
)


class Query(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The body of POST /v1/query. `stream`: whose cut it is, where several streams have one of that number;
    `all_columns`: whether `*` holds Firn's own `_firn_…` columns too."""

    sql: str
    parameters: list[Any] | dict[str, Any] | None = None
    as_of: str | int | None = None
    cut: str | int | None = None
    stream: str | None = None
    fresh: bool = False
    all_columns: bool = False
    format: Format = "json"


class ChangesOf(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"from_": "from"}):
    """The parameters of GET /v1/tables/{table}/changes."""

    from_: str | None = None
    to: str | None = None
    steps: bool = False
    columns: str | None = None
    limit: int | None = None
    format: Format = "json"


class SnapshotsOf(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The parameters of GET /v1/tables/{table}/snapshots. `cursor`: `next` of the page before."""

    cursor: str = ""
    limit: int = 1_000
    order: Literal["oldest", "newest"] = "oldest"


class ColumnsOf(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The parameters of GET /v1/tables/{table}/columns. `cursor`: the field id that the page before ended with."""

    as_of: str | None = None
    like: str = ""
    cursor: int = -1
    limit: int = 500


class TimelineOf(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"from_": "from"}):
    """The parameters of GET /v1/tables/{table}/timeline."""

    from_: str | None = None
    to: str | None = None
    points: int = 200


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


def answer(question: Question) -> Answer:
    """The answer to a question. Raises FirnError; `as_refusal` says what becomes of it."""
    lake = _lake(question.staging, question.catalog, question.warehouse)
    limits = Limits(question.seconds, question.rows, question.memory)
    match question.about:
        case "query":
            return answer_query(lake, read_query(question.body), limits, _recorder(question.staging))
        case "changes":
            return answer_changes(lake, question.table, question.parameters, limits)
        case "snapshots":
            return answer_snapshots(lake, question.table, question.parameters)
        case "schema":
            return answer_schema(lake, question.table, question.parameters.get("as_of"))
        case "columns":
            return answer_columns(lake, question.table, question.parameters)
        case "timeline":
            return answer_timeline(lake, question.table, question.parameters)
        case _:
            return answer_tables(lake)


@cache
def _store(staging: str) -> Store:
    return open_store(staging)


@cache
def _lake(staging: str, catalog: str, warehouse: str) -> Lake:
    """Opened once; each question sees what is committed by then."""
    return Lake(to_read(open_catalog(catalog, warehouse)), lambda: _store(staging))


def _recorder(staging: str) -> OnRead | None:
    """Leaves a record of what is read, for tables that are tiered by it; elsewhere than on S3 nothing is tiered."""
    if not staging.startswith("s3://"):
        return None
    return recorder(_store(staging), CurrentConfig(_store(staging)))


def read_query(body: bytes) -> Query:
    """The body of POST /v1/query. Raises RequestError 400."""
    try:
        asked = msgspec.json.decode(body, type=Query)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fields = ", ".join(Query.__struct_fields__)
        raise RequestError(400, "bad_request", f'{error}; write {{"sql": "SELECT …"}}, and of {fields}') from error
    if len(asked.sql) > MOST_SQL:
        raise RequestError(
            413, "too_large", f"the SQL has more than {MOST_SQL:,} characters: give long lists as parameters"
        )
    if asked.as_of is not None and asked.cut is not None:
        raise RequestError(400, "bad_request", "give as_of or cut, not both: a cut is a moment already")
    if asked.stream is not None and asked.cut is None:
        raise RequestError(400, "bad_request", "stream goes with cut: it says whose cut it is")
    if asked.fresh and (asked.as_of is not None or asked.cut is not None):
        raise RequestError(400, "bad_request", "fresh is now: leave as_of and cut out, or fresh")
    return asked


def answer_query(lake: Lake, asked: Query, limits: Limits, on_read: OnRead | None = None) -> Answer:
    """The rows of one SELECT, encoded as they come. `on_read` hears of each table that was read."""
    as_of: Moment = asked.as_of if asked.cut is None else lake.cut(asked.cut, asked.stream)
    fresh = lake.fresh(as_of) if asked.fresh else None
    moment, cut = lake.moment(as_of)

    def parts() -> Iterator[bytes]:
        query = streamed(
            lake.catalog, asked.sql, moment, cut, asked.parameters, limits, fresh=fresh, all_columns=asked.all_columns
        )
        read: tuple[str, ...] = ()
        with query as found:
            read = found.tables
            about = {"snapshots": json.loads(found.schema.metadata[SNAPSHOTS.encode()])}
            if notes := found.schema.metadata.get(NOTES.encode()):
                about["notes"] = json.loads(notes)
            batches = answered.counted(found.batches)
            yield from _at_most(limits, encoded(found.schema, batches, asked.format, about))
        if on_read is not None:
            for name in read:
                on_read(split_name(name))

    answered = Answer(asked.format, iter(()))
    answered.parts = parts()
    return answered


def answer_changes(lake: Lake, table: str, parameters: Mapping[str, str], limits: Limits) -> Answer:
    """The changes of a table; more than `limit` of them, or than the limits allow, are a QueryTooLarge."""
    asked = _parameters(parameters, ChangesOf)
    columns = asked.columns.split(",") if asked.columns else None
    changes = lake.table(table).changes(asked.from_, asked.to, steps=asked.steps, columns=columns)
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
    answered.parts = _at_most(limits, encoded(changes.schema, batches(), asked.format, about))
    return answered


def answer_snapshots(lake: Lake, table: str, parameters: Mapping[str, str]) -> Answer:
    """A page of the snapshots that are still kept. Raises FirnError."""
    asked, one = _parameters(parameters, SnapshotsOf), lake.table(table)
    limit = max(1, min(asked.limit, MOST_SNAPSHOTS))
    page = snapshot_page(one.iceberg, asked.cursor, limit, newest_first=asked.order == "newest")
    told = {"table": one.name, "total": page.total, "snapshots": page.snapshots, "next": page.next}
    return _told(told, len(page.snapshots))


def answer_schema(lake: Lake, table: str, as_of: str | None) -> Answer:
    """The columns with their types, as they were at `as_of`, and the key. Raises FirnError."""
    one = lake.table(table)
    columns = [{"name": name, "type": kind} for name, kind in one.columns(as_of).items()]
    return _told({"table": one.name, "key": one.key, "columns": columns}, len(columns))


def answer_columns(lake: Lake, table: str, parameters: Mapping[str, str]) -> Answer:
    """A page of the columns, with what they were (docs/console.md). Raises FirnError."""
    asked = _parameters(parameters, ColumnsOf)
    limit = max(1, min(asked.limit, MOST_COLUMNS))
    found = column_page(lake.table(table).iceberg, asked.as_of, asked.like, asked.cursor, limit)
    return _told(found, len(found["columns"]))


def answer_timeline(lake: Lake, table: str, parameters: Mapping[str, str]) -> Answer:
    """The snapshots, summed up to few points (docs/console.md). Raises FirnError."""
    asked = _parameters(parameters, TimelineOf)
    points = max(1, min(asked.points, MOST_POINTS))
    found = timeline(lake.table(table).iceberg, asked.from_, asked.to, points)
    return _told(found, len(found["points"]))


def answer_tables(lake: Lake) -> Answer:
    """All tables, by name. Raises FirnError."""
    tables = lake.tables()
    return _told({"tables": tables}, len(tables))


def as_refusal(error: BaseException) -> Refusal:
    """The HTTP answer to an error of these questions. What has none is a 500 that tells nothing but its type."""
    kind = type(error).__name__
    if isinstance(error, RequestError):
        return Refusal(error.status, error.code, str(error), error.retry_after, kind)
    if isinstance(error, TransientError | UnknownOutcome):
        return Refusal(503, "storage_unavailable", "the storage did not answer; retry", 1, kind)
    for type_, status, code in ANSWERS:
        if isinstance(error, type_):
            return Refusal(status, code, said(str(error)), 1 if status == 503 else None, kind)
    if isinstance(error, RecursionError):
        return Refusal(400, "bad_query", "what is asked is too deeply nested: write it flatter", kind=kind)
    if isinstance(error, MemoryError):
        return Refusal(413, "too_large", "the query took more memory than there was: have it keep less", kind=kind)
    at = tuple(f"{Path(one.filename).name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__))
    return Refusal(500, "internal", f"this can't be answered, by a fault of Firn's ({kind})", None, kind, at)


def _parameters(given: Mapping[str, str], kind: type[T]) -> T:
    """A query string's parameters. Raises RequestError 400."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        fields = ", ".join(one.encode_name for one in msgspec.structs.fields(kind))  # type: ignore[arg-type]
        raise RequestError(400, "bad_request", f"{error}; the parameters are {fields}") from error


def _at_most(limits: Limits, parts: Iterator[bytes]) -> Iterator[bytes]:
    """The parts of an answer that is no longer than the limits allow. Raises QueryTooLarge."""
    size, most = 0, bytes_of(limits.memory) if limits.memory is not None else None
    for part in parts:
        size += len(part)
        if most is not None and size > most:
            raise QueryTooLarge(f"the answer is larger than {limits.memory}: choose fewer rows or columns")
        yield part


def _told(value: Any, rows: int) -> Answer:
    return Answer("json", iter([msgspec.json.encode(value)]), rows)
