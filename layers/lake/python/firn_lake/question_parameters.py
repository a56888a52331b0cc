"""What comes over HTTP with a question about tables: the body of a query, and the parameters of the other paths."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec

from firn.errors import RequestError
from firn_lake.encoding import Format

T = TypeVar("T")

MOST_SQL: Final = 200_000
"""Characters of a query: both parsers take seconds for as many."""


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


class BatchOf(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The parameters of GET /v1/tables/{table}/batch."""

    id: str


class LettersOf(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The parameters of GET /v1/tables/{table}/dead. `day`: the newest to look at, `next` of the answer before."""

    day: str = ""


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


def read_parameters(given: Mapping[str, str], kind: type[T]) -> T:
    """A query string's parameters. Raises RequestError 400."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        fields = ", ".join(one.encode_name for one in msgspec.structs.fields(kind))  # type: ignore[arg-type]
        raise RequestError(400, "bad_request", f"{error}; the parameters are {fields}") from error
