"""Answers to a reader of some tables. No text of an error tells what is not in the reader's scope."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from firn.errors import ConfigError, FirnError, RequestError, TransientError, UnknownOutcome
from firn.log.batches import UnreadableBatch
from firn.log.named_cuts import BadCutName, NoSuchCut
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.answers import Answer, answer_row_changes, answer_rows, in_json
from firn_lake.changes.row_changes import BadColumn, NotOneLine
from firn_lake.fresh.pending import NotFresh
from firn_lake.query_protocol import Question
from firn_lake.question_parameters import ChangesOf, ColumnsOf, SnapshotsOf, TimelineOf, read_parameters, read_query
from firn_lake.reading.read_recorder import OnRead
from firn_lake.reading.row_filter import UnfitRows
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import NoSuchColumn
from firn_lake.receipt_answers import answer_letters, answer_receipt
from firn_lake.scoped_lake import ScopedLake
from firn_lake.snapshot_pages import MOST_SNAPSHOTS, BadCursor
from firn_lake.sql.duck import Limits
from firn_lake.sql.query_errors import QueryError
from firn_lake.tables import TableNotFound
from firn_lake.timeline import MOST_COLUMNS, MOST_POINTS

# Their texts are made of what the reader asked and may read.
_AS_THEY_ARE: Final = (
    QueryError, TableNotFound, NoSuchColumn, BadColumn, BadCursor, NotOneLine, RequestError, TransientError,
    UnknownOutcome,
)  # fmt: skip
_ASK: Final = "tell those who run this lake"
_TOLD: Final[tuple[tuple[tuple[type[FirnError], ...], int, str, str], ...]] = (
    ((NoSuchMoment,), 404, "no_such_moment", "a table of this question has no such moment that is kept; "
     "GET /v1/tables/{table}/snapshots lists those there are"),
    ((NoSuchCut, BadCutName), 404, "no_such_cut", "there is no such cut of a table that you may read"),
    ((NotFresh,), 409, "not_fresh", "the newest rows can't be read now; ask without fresh"),
    ((UnreadableFile, UnreadableBatch), 500, "unreadable_file", f"a table of this question can't be read: {_ASK}"),
    ((UnfitRows, ConfigError), 503, "not_configured", f"what you may read of a table does not fit it: {_ASK}"),
)  # fmt: skip


def answer_scoped(lake: ScopedLake, question: Question, limits: Limits, on_read: OnRead | None = None) -> Answer:
    """The answer to a question of such a reader. Raises FirnError."""
    answers: dict[str, Callable[[], Answer]] = {
        "query": lambda: _query(lake, question, limits, on_read),
        "changes": lambda: _changes(lake, question, limits),
        "snapshots": lambda: _snapshots(lake, question),
        "schema": lambda: _schema(lake, question),
        "columns": lambda: _columns(lake, question),
        "timeline": lambda: _timeline(lake, question),
        "tables": lambda: _tables(lake),
        "batch": lambda: answer_receipt(lake.store, *lake.heard_of(question.table), question.parameters),
        "dead": lambda: answer_letters(lake.store, *lake.heard_of(question.table), question.parameters),
    }
    with _in_scope():
        found = answers[question.about]()
    found.parts = _parts(found.parts)
    return found


def _parts(parts: Iterator[bytes]) -> Iterator[bytes]:
    with _in_scope():
        yield from parts


@contextmanager
def _in_scope() -> Iterator[None]:
    try:
        yield
    except _AS_THEY_ARE:
        raise
    except FirnError as error:
        for types, status, code, text in _TOLD:
            if isinstance(error, types):
                raise _Told(status, code, text, type(error).__name__) from error
        raise _Told(500, "internal", f"this can't be answered: {_ASK}", "") from error


class _Told(RequestError):
    def __init__(self, status: int, code: str, text: str, kind: str) -> None:
        super().__init__(status, code, text, 1 if status == 503 else None)
        self.kind = kind


def _query(lake: ScopedLake, question: Question, limits: Limits, on_read: OnRead | None) -> Answer:
    asked = read_query(question.body)
    tables = lake.at(asked.as_of, asked.cut, asked.stream, fresh=asked.fresh)
    return answer_rows(tables, asked, limits, on_read)


def _changes(lake: ScopedLake, question: Question, limits: Limits) -> Answer:
    asked = read_parameters(question.parameters, ChangesOf)
    columns = asked.columns.split(",") if asked.columns else None
    table = lake.table(question.table)
    changes = table.changes(asked.from_, asked.to, steps=asked.steps, columns=columns)
    return answer_row_changes(changes, question.table, asked, limits)


def _snapshots(lake: ScopedLake, question: Question) -> Answer:
    asked = read_parameters(question.parameters, SnapshotsOf)
    limit = max(1, min(asked.limit, MOST_SNAPSHOTS))
    page = lake.table(question.table).snapshots(asked.cursor, limit, newest_first=asked.order == "newest")
    return _listed(page, "snapshots")


def _schema(lake: ScopedLake, question: Question) -> Answer:
    return _listed(lake.table(question.table).schema(question.parameters.get("as_of")), "columns")


def _columns(lake: ScopedLake, question: Question) -> Answer:
    asked = read_parameters(question.parameters, ColumnsOf)
    limit = max(1, min(asked.limit, MOST_COLUMNS))
    return _listed(lake.table(question.table).columns(asked.as_of, asked.like, asked.cursor, limit), "columns")


def _timeline(lake: ScopedLake, question: Question) -> Answer:
    asked = read_parameters(question.parameters, TimelineOf)
    points = max(1, min(asked.points, MOST_POINTS))
    return _listed(lake.table(question.table).timeline(asked.from_, asked.to, points), "points")


def _tables(lake: ScopedLake) -> Answer:
    return _listed({"tables": lake.tables()}, "tables")


def _listed(told: dict[str, Any], rows: str) -> Answer:
    return in_json(told, len(told[rows]))
