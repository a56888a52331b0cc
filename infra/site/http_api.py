"""The HTTP API as OpenAPI 3.1: its paths are the functions' own routes, its shapes the types that they answer with.

A route without a line in OPERATIONS, and a line without a route, stop the build. The gate holds the running stack to
this description (tests/e2e/test_http_api.py). https://spec.openapis.org/oas/v3.1.1
"""

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, get_args

import msgspec

import firn
from firn.audit.batch_status import BatchStatus
from firn.audit.table_receipts import TableLetters, TableReceipt
from firn.ingest.accept import Accepted
from firn_lake.encoding import Format
from firn_lake.query_requests import ROUTES as QUERY_ROUTES
from firn_lake.question_parameters import Query
from firn_lake.tables import SnapshotSummary, TableSummary
from infra.site.error_page import answers
from infra.site.source_pages import ROOT

Json = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """What a route's code does not say of itself. `names`: of the *s in its path. `body`: media type -> schema.
    `headers`: of the request, name -> what it is. `query`: of the request, name -> schema. `answer`: schema of a 200
    (of a 202 for posts to streams), or several media types'. `errors`: statuses that it may answer besides."""

    id: str
    summary: str
    names: tuple[str, ...] = ()
    body: Mapping[str, Json] | None = None
    headers: Mapping[str, str] | None = None
    query: Mapping[str, Json] | None = None
    answer: Json | None = None
    status: int = 200
    errors: tuple[int, ...] = ()
    media: tuple[str, ...] = ("application/json",)


_TEXT: Final[Json] = {"type": "string"}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(of: Json | str) -> Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{of}"} if isinstance(of, str) else of}


_ANY_EVENTS: Final[Json] = {"type": ["object", "array"], "description": "An event or a row, or an array of them."}
_LINES: Final[Json] = {"type": "string", "description": "A JSON value a line."}
_EVENTS: Final = {"application/json": _ANY_EVENTS, "application/x-ndjson": _LINES}
_POST_HEADERS: Final = {
    "Idempotency-Key": "A retry under the same key is the same request: it is staged once, and answered as before.",
    "X-Firn-Writer": "Which of the stream's writers sends it; `?writer=NAME` says the same.",
    "Content-Encoding": "`gzip`, `zstd` or `identity`.",
}
_RESULTS: Final = (
    "application/json",
    "text/csv",
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.parquet",
)
_HEALTH: Final = _object(status={"const": "ok"}, config=_TEXT)
_STREAMS: Final = _object(streams=_list("Stream"))
_COLUMN: Final = _object(name=_TEXT, type=_TEXT)
_READING: Final = (400, 401, 404, 413, 429, 500, 503)

OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("POST", "streams/*"): Operation(
        "postEvents",
        "Post events to a stream",
        ("stream",),
        _EVENTS,
        _POST_HEADERS,
        answer={"$ref": "#/components/schemas/Accepted"},
        status=202,
        errors=(400, 401, 403, 404, 409, 413, 415, 429, 503),
    ),
    ("POST", "streams/*/tables/*"): Operation(
        "postRows",
        "Post plain rows of one source table",
        ("stream", "table"),
        _EVENTS,
        _POST_HEADERS,
        answer={"$ref": "#/components/schemas/Accepted"},
        status=202,
        errors=(400, 401, 403, 404, 409, 413, 415, 429, 503),
    ),
    ("GET", "streams"): Operation(
        "listStreams", "The streams that the caller may post to", answer=_STREAMS, errors=(400, 401, 503)
    ),
    ("GET", "batches/*"): Operation(
        "getBatch",
        "What became of an accepted batch",
        ("batch",),
        answer={"$ref": "#/components/schemas/BatchStatus"},
        errors=(400, 401, 404, 503),
    ),
    ("GET", "tables/*/health"): Operation(
        "getTableHealth",
        "How a table is, and what is due of its maintenance",
        ("table",),
        answer={"type": "object"},
        errors=(400, 401, 404, 503),
    ),
    ("GET", "health"): Operation(
        "getHealth", "Whether a POST would find storage and a configuration", answer=_HEALTH, errors=(400, 503)
    ),
    ("POST", "query"): Operation(
        "query",
        "Run one SELECT over the tables",
        body={"application/json": {"$ref": "#/components/schemas/Query"}},
        answer={"$ref": "#/components/schemas/Rows"},
        errors=(*_READING, 409, 422),
        media=_RESULTS,
    ),
    ("GET", "tables"): Operation(
        "listTables", "All tables", errors=_READING, answer=_object(tables=_list("TableSummary"))
    ),
    ("GET", "tables/*/changes"): Operation(
        "getChanges",
        "What changed in a table between two moments",
        ("table",),
        errors=(*_READING, 409, 422),
        query={
            "from": _TEXT,
            "to": _TEXT,
            "steps": {"type": "boolean"},
            "columns": _TEXT,
            "limit": {"type": "integer", "minimum": 1},
            "format": {"type": "string", "enum": list(get_args(Format))},
        },
        answer={"type": "object"},
        media=_RESULTS,
    ),
    ("GET", "tables/*/snapshots"): Operation(
        "listSnapshots",
        "The moments of a table that can be read, by page",
        ("table",),
        query={
            "cursor": _TEXT,
            "limit": {"type": "integer"},
            "order": {"type": "string", "enum": ["oldest", "newest"]},
        },
        errors=_READING,
        answer=_object(
            table=_TEXT,
            total={"type": "integer"},
            snapshots=_list("SnapshotSummary"),
            next={"type": ["string", "null"]},
        ),
    ),
    ("GET", "tables/*/columns"): Operation(
        "listColumns",
        "The columns of a table by field id, with what they were",
        ("table",),
        query={"as_of": _TEXT, "like": _TEXT, "cursor": {"type": "integer"}, "limit": {"type": "integer"}},
        errors=_READING,
        answer=_object(table=_TEXT, key=_list(_TEXT), columns=_list({"type": "object"})),
    ),
    ("GET", "tables/*/timeline"): Operation(
        "getTimeline",
        "The snapshots of a table, summed up to few points",
        ("table",),
        query={"from": _TEXT, "to": _TEXT, "points": {"type": "integer"}},
        errors=_READING,
        answer=_object(table=_TEXT, snapshots={"type": "integer"}, points=_list({"type": "object"})),
    ),
    ("GET", "tables/*/batch"): Operation(
        "getTableBatch",
        "What became of a batch in a table",
        ("table",),
        query={"id": _TEXT},
        errors=_READING,
        answer={"$ref": "#/components/schemas/TableReceipt"},
    ),
    ("GET", "tables/*/dead"): Operation(
        "listTableLetters",
        "How many events for a table are dead letters, by day and reason",
        ("table",),
        query={"day": _TEXT},
        errors=_READING,
        answer={"$ref": "#/components/schemas/TableLetters"},
    ),
    ("GET", "tables/*/schema"): Operation(
        "getSchema",
        "The columns of a table, at any moment",
        ("table",),
        query={"as_of": _TEXT},
        errors=_READING,
        answer=_object(table=_TEXT, key=_list(_TEXT), columns=_list(_COLUMN)),
    ),
}
_WHY: Final = {
    400: "The request can't be read; nothing was taken.",
    401: "The caller may not.",
    403: "The stream takes no requests, or the writer may not write one of the changes.",
    404: "There is no such thing; the text lists what there is.",
    405: "Another method works here.",
    409: "It conflicts with an earlier request, or with what is kept.",
    413: "More than a limit; the text names it.",
    415: "A content type or encoding that is not read.",
    422: "The format can't hold a column of the answer.",
    429: "Too much at once; `Retry-After` says when to come again. Nothing was taken.",
    500: "A fault of Firn's, or a damaged file; the text says which.",
    503: "The storage did not answer, or nothing is configured; try again.",
}
_BY_HAND: Final[Json] = {
    "Error": {
        "type": "object",
        "properties": {"error": _TEXT, "message": _TEXT, "retry_after": {"type": "integer"}},
        "required": ["error", "message"],
        "description": "Every refusal. `error` is a word for machines, `message` says what to do.",
    },
    "Stream": _object(
        name=_TEXT,
        envelope=_TEXT,
        tables=_list(_object(source=_TEXT, to=_TEXT, mode=_TEXT, key={"type": ["array", "null"], "items": _TEXT})),
    ),
    "Rows": {
        "type": "object",
        "description": "Rows with their columns, and the snapshots that were read; or a link to a result over 4 MB.",
        "properties": {
            "snapshots": {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
            "notes": {"type": "array", "items": {"type": "string"}},
            "columns": {"type": "array", "items": {"type": "object", "properties": {"name": _TEXT, "type": _TEXT}}},
            "rows": {"type": ["array", "integer"]},
            "url": _TEXT,
            "expires_at": _TEXT,
            "bytes": {"type": "integer"},
            "format": _TEXT,
        },
    },
}


class NoOperation(Exception):
    """A route and its description do not match."""


def ingest_routes() -> Mapping[str, Mapping[str, Callable[..., Any]]]:
    """The routes of the ingest function."""
    routes: Mapping[str, Mapping[str, Callable[..., Any]]] = _function("ingest_http").ROUTES
    return routes


def _function(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"function_{name}", ROOT / "functions" / name / "app.py")
    if spec is None or spec.loader is None:
        raise NoOperation(f"functions/{name}/app.py is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Readers of some tables are not told what tells of others' rows.
_NOT_TOLD: Final = {"TableSummary": ("size_bytes", "files"), "SnapshotSummary": ("added", "deleted")}


def document() -> Json:
    """The whole description. Raises NoOperation."""
    routes = {
        (method, path) for table in (ingest_routes(), QUERY_ROUTES) for path, found in table.items() for method in found
    }
    if without := routes ^ OPERATIONS.keys():
        raise NoOperation(f"infra/site/http_api.py and the functions' routes differ by {sorted(without)}")
    paths: dict[str, Json] = {}
    for (method, path), one in OPERATIONS.items():
        names = iter(one.names)
        whole = "/v1/" + "/".join(f"{{{next(names)}}}" if part == "*" else part for part in path.split("/"))
        paths.setdefault(whole, {})[method.lower()] = _operation(one)
    _, shapes = msgspec.json.schema_components(
        [Accepted, BatchStatus, Query, TableSummary, SnapshotSummary, TableReceipt, TableLetters],
        ref_template="#/components/schemas/{name}",
    )
    for name, fields in _NOT_TOLD.items():
        told = shapes[name]["properties"]
        told |= {field: {"anyOf": [told[field], {"type": "null"}]} for field in fields}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Firn",
            "version": firn.__version__,
            "summary": "Post changes and rows, and read the tables they become.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8181", "description": "the embedded stack"}],
        "paths": paths,
        "components": {"schemas": {**shapes, **_BY_HAND}, "securitySchemes": _SECURITY},
        "security": [{}, {"apiKey": []}, {"bearer": []}],
    }


_SECURITY: Final[Json] = {
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "Where firn.yaml says by: api_key.",
    },
    "bearer": {"type": "http", "scheme": "bearer", "description": "The same key as a bearer token."},
}


def _operation(one: Operation) -> Json:
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in one.names
    ]
    parameters += [{"name": name, "in": "query", "schema": shape} for name, shape in (one.query or {}).items()]
    parameters += [
        {"name": name, "in": "header", "schema": _TEXT, "description": text}
        for name, text in (one.headers or {}).items()
    ]
    found: Json = {"operationId": one.id, "summary": one.summary, "responses": dict(_responses(one))}
    if parameters:
        found["parameters"] = parameters
    if one.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": shape} for kind, shape in one.body.items()},
        }
    return found


def _responses(one: Operation) -> Iterator[tuple[str, Json]]:
    content = {kind: {"schema": one.answer if kind == "application/json" else {}} for kind in one.media}
    yield (
        str(one.status),
        {"description": "Taken and stored." if one.status == 202 else "The answer.", "content": content},
    )
    for status in sorted({*one.errors, 405}):
        yield (
            str(status),
            {
                "description": _WHY[status],
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        )


_HEAD: Final = """# HTTP API

Generated from the functions' routes. The whole description, for clients and generators: [openapi.json](openapi.json)
(OpenAPI 3.1); the gate holds the running stack to it. [http.md](../http.md) explains reading,
[configuration.md](../configuration.md#who-may-post) who may post. Every refusal is
`{"error": CODE, "message": TEXT}`: [errors](errors.md).

"""


def page() -> str:
    """The page's Markdown."""
    return _HEAD + "\n".join(
        line for path, methods in document()["paths"].items() for line in _described(path, methods)
    )


def _described(path: str, methods: Json) -> Iterator[str]:
    for method, one in methods.items():
        yield f"## {method.upper()} `{path}`\n"
        yield one["summary"] + ".\n"
        if one.get("parameters"):
            yield "| parameter | in | |\n|---|---|---|"
            for each in one["parameters"]:
                kind = each["schema"].get("enum") or each["schema"].get("type", "")
                shown = ", ".join(f"`{word}`" for word in kind) if isinstance(kind, list) else kind
                yield f"| `{each['name']}` | {each['in']} | {each.get('description', shown)} |"
            yield ""
        if "requestBody" in one:
            yield "Body: " + ", ".join(f"`{kind}`" for kind in one["requestBody"]["content"]) + ".\n"
        yield "| status | |\n|---|---|"
        for status, answer in one["responses"].items():
            codes = sorted(code for code, statuses in answers().items() if int(status) in statuses)
            told = f" `{'`, `'.join(codes)}`" if status in ("405", "409", "422") and codes else ""
            yield f"| {status} | {answer['description']}{told} |"
        yield ""
