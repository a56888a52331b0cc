"""Questions that come over HTTP, and their answers: a query, and the changes, snapshots and columns of a table.

Nothing here logs, and no error that is raised here goes into a log with its text: it may hold what was asked.
"""

import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from firn.config.reader_scopes import Everything
from firn.errors import ConfigError, FirnError, RequestError, TransientError, UnknownOutcome, said
from firn.log.batches import UnreadableBatch
from firn.log.named_cuts import BadCutName, NoSuchCut
from firn.log.published_configs import CurrentConfig
from firn.log.store import Store, open_store
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.answers import Answer, answer_row_changes, answer_rows, in_json
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.catalogs.reading_catalog import to_read
from firn_lake.changes.row_changes import BadColumn, NotOneLine
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake
from firn_lake.lake_table import Moment
from firn_lake.query_protocol import Question, Refusal
from firn_lake.question_parameters import (
    ChangesOf,
    ColumnsOf,
    Query,
    SnapshotsOf,
    TimelineOf,
    read_parameters,
    read_query,
)
from firn_lake.reading.read_recorder import OnRead, recorder
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import NoSuchColumn
from firn_lake.receipt_answers import answer_letters, answer_receipt
from firn_lake.scoped_answers import answer_scoped
from firn_lake.scoped_lake import ScopedLake
from firn_lake.snapshot_pages import MOST_SNAPSHOTS, BadCursor, snapshot_page
from firn_lake.sql.duck import Limits
from firn_lake.sql.query import Tables
from firn_lake.sql.query_errors import NotEncodable, QueryError, QueryTooLarge
from firn_lake.tables import TableNotFound, fed_as, uncounted
from firn_lake.timeline import MOST_COLUMNS, MOST_POINTS, ROW_COUNTS, column_page, timeline
from firn_lake.whole_table import WholeTable

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


def answer(question: Question) -> Answer:
    """The answer to a question. Raises FirnError; `as_refusal` says what becomes of it."""
    lake = _lake(question.staging, question.catalog, question.warehouse)
    limits = Limits(question.seconds, question.rows, question.memory)
    if not isinstance(question.scope, Everything):
        return answer_scoped(ScopedLake(lake, question.scope), question, limits, _recorder(question.staging))
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
        case "batch":
            return answer_receipt(_store(question.staging), *_heard_of(lake, question.table), question.parameters)
        case "dead":
            return answer_letters(_store(question.staging), *_heard_of(lake, question.table), question.parameters)
        case _:
            return answer_tables(lake)


def _heard_of(lake: Lake, name: str) -> tuple[str, str | None, None]:
    one = lake.table(name)
    return one.name, fed_as(one.leading, whole=isinstance(one, WholeTable)), None


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


def answer_query(lake: Lake, asked: Query, limits: Limits, on_read: OnRead | None = None) -> Answer:
    """The rows of one SELECT, encoded as they come. `on_read` hears of each table that was read."""
    as_of: Moment = asked.as_of if asked.cut is None else lake.cut(asked.cut, asked.stream)
    fresh = lake.fresh(as_of) if asked.fresh else None
    moment, cut = lake.moment(as_of)
    tables = Tables(lake.catalog, moment, cut, fresh, wholes=lake.wholes)
    return answer_rows(tables, asked, limits, on_read)


def answer_changes(lake: Lake, table: str, parameters: Mapping[str, str], limits: Limits) -> Answer:
    """The changes of a table; more than `limit` of them, or than the limits allow, are a QueryTooLarge."""
    asked = read_parameters(parameters, ChangesOf)
    columns = asked.columns.split(",") if asked.columns else None
    changes = lake.table(table).changes(asked.from_, asked.to, steps=asked.steps, columns=columns)
    return answer_row_changes(changes, table, asked, limits)


def answer_snapshots(lake: Lake, table: str, parameters: Mapping[str, str]) -> Answer:
    """A page of the snapshots that are still kept. Raises FirnError."""
    asked, one = read_parameters(parameters, SnapshotsOf), lake.table(table)
    limit = max(1, min(asked.limit, MOST_SNAPSHOTS))
    page = snapshot_page(one.leading, asked.cursor, limit, newest_first=asked.order == "newest")
    snapshots = page.snapshots if one.counts_rows else list(map(uncounted, page.snapshots))
    told = {"table": one.name, "total": page.total, "snapshots": snapshots, "next": page.next}
    return in_json(told, len(page.snapshots))


def answer_schema(lake: Lake, table: str, as_of: str | None) -> Answer:
    """The columns with their types, as they were at `as_of`, and the key. Raises FirnError."""
    one = lake.table(table)
    columns = [{"name": name, "type": kind} for name, kind in one.columns(as_of).items()]
    return in_json({"table": one.name, "key": one.key, "columns": columns}, len(columns))


def answer_columns(lake: Lake, table: str, parameters: Mapping[str, str]) -> Answer:
    """A page of the columns, with what they were (docs/console.md). Raises FirnError."""
    asked = read_parameters(parameters, ColumnsOf)
    limit = max(1, min(asked.limit, MOST_COLUMNS))
    one = lake.table(table)
    found = column_page(one.leading, asked.as_of, asked.like, asked.cursor, limit)
    return in_json(found | {"table": one.name}, len(found["columns"]))


def answer_timeline(lake: Lake, table: str, parameters: Mapping[str, str]) -> Answer:
    """The snapshots, summed up to few points (docs/console.md). Raises FirnError."""
    asked = read_parameters(parameters, TimelineOf)
    points = max(1, min(asked.points, MOST_POINTS))
    one = lake.table(table)
    found = timeline(one.leading, asked.from_, asked.to, points)
    if not one.counts_rows:
        found["points"] = [point | dict.fromkeys(ROW_COUNTS) for point in found["points"]]
    return in_json(found | {"table": one.name}, len(found["points"]))


def answer_tables(lake: Lake) -> Answer:
    """All tables, by name. Raises FirnError."""
    tables = lake.tables()
    return in_json({"tables": tables}, len(tables))


def as_refusal(error: BaseException) -> Refusal:
    """The HTTP answer to an error of these questions. What has none is a 500 that tells nothing but its type."""
    kind = type(error).__name__
    if isinstance(error, RequestError):
        return Refusal(error.status, error.code, str(error), error.retry_after, getattr(error, "kind", kind))
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
