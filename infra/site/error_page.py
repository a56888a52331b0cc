"""The reference of what Firn refuses, by code: answers over HTTP, found in the code that gives them, and the reasons of
dead letters, from their registry."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from firn.log.dead_letters.reasons import ADVICE
from firn_lake.http_api import ANSWERS
from infra.site.source_pages import ROOT

_ROOTS: Final = ("layers/core/python/firn", "layers/lake/python/firn_lake", "functions")
_HEAD: Final = """# Errors and dead letters

Generated from the code. What is refused as a whole is answered with its status and
`{"error": CODE, "message": TEXT}`; the text says what is wrong and what to do. Nothing of such a request was taken, and
no dead letter is made. An answer with `Retry-After` is worth another try.

## Answers over HTTP

| status | `error` | what to do |
|---|---|---|
"""
_REASONS: Final = """
## Reasons of dead letters

An event that can't be applied waits as a dead letter with its reason and bytes; the others of its request go on.
[dead-letters.md](../dead-letters.md) says how to correct and replay them.

| reason | what to do |
|---|---|
"""
WHAT_TO_DO: Final = {
    "backlog_full": "wait for `Retry-After`: commits lag behind; `firn status` says by how much",
    "bad_column": "name columns that the table has; `GET /v1/tables/{table}/schema` lists them",
    "bad_cursor": "give `next` of a page as `cursor`, or leave it out",
    "bad_cut": "give the number of a cut, or the name under which it was kept",
    "bad_idempotency_key": "send a key of 1 to 255 printable characters",
    "bad_json": "send JSON in UTF-8, or NDJSON with a value a line",
    "bad_path": "percent-encode the names in the path as UTF-8",
    "bad_query": "correct the SQL; the text quotes DuckDB",
    "bad_request": "correct the fields that the text names",
    "body_too_large": "send smaller batches, or raise `max_body` of the stream",
    "charset": "send UTF-8",
    "configuration_changed": "ask again: what may be read was published anew while the answer was written",
    "content_encoding": "send `gzip`, `zstd` or nothing as Content-Encoding",
    "content_type": "send `application/json` or `application/x-ndjson`",
    "empty": "send at least one event",
    "event_too_large": "leave the largest column out, or raise `MaxEventBytes`",
    "inflates_too_large": "send smaller batches, or raise `MaxInflatedBytes`",
    "internal": "report it: it is a fault of Firn's. The type is in the text, the place in the log",
    "invalid_rows": "correct the rows that the answer lists; the schema says `invalid: refuse`",
    "idempotency_conflict": "use a new idempotency key: this one came with another body",
    "method_not_allowed": "use the method that the text names",
    "no_steps": "leave `steps` out, or choose moments that a chain of kept snapshots connects",
    "no_such_column": "name columns that the table has",
    "no_such_cut": "the text lists the cuts there are",
    "no_such_moment": "the text says which moments can be read",
    "no_such_path": "the text says what is there",
    "not_granted": "ask for a key with the right that the text names (docs/console.md)",
    "no_such_table": "the text lists tables that are near; `GET /v1/tables` has all",
    "no_table": "name the table in the path, or write `table_by` of the stream",
    "not_accepted": "send by the way that the stream takes; `accept` in firn.yaml says which",
    "not_configured": "look into the function's log: firn.yaml is missing or wrong there",
    "not_encodable": "select the column as text (`c::VARCHAR`), or ask for another format",
    "not_fresh": "leave `fresh` out, or ask again",
    "not_rows": "a table in the path is for plain rows: post to the stream, or write `envelope: rows`",
    "not_started": "ask again: the process for queries did not start",
    "not_utf8": "send JSON in UTF-8",
    "outside_writer": "send it as one who may write it; `rows` and `tables` of the writer in firn.yaml say who",
    "query_crashed": "write the query differently: it crashed its process",
    "quota_used": "wait for `Retry-After`, or raise the quota that the text names",
    "rate_exceeded": "wait for `Retry-After`: the stream, or its writer, takes so many bytes a second",
    "storage_full": "raise the writer's `storage`, or delete rows of its tables; what was accepted is kept",
    "storage_unavailable": "retry: nothing was taken, the storage did not answer",
    "too_large": "have the query read less, or use Python, Spark or Trino on the same tables",
    "too_many_columns": "send fewer columns, or raise `MaxColumns`",
    "too_many_events": "send smaller batches, or raise `MaxEvents`",
    "too_many_members": "compress the body as one",
    "too_many_tables": "send fewer tables in a request, or raise `MaxTables`",
    "too_much_rejected": "look whether `envelope` in firn.yaml is what the source sends; split the batch",
    "too_much_repeated": "have the emitter send fewer rows an event",
    "unauthorized": "send the right key or signature; the function's log says what is missing",
    "unknown_batch": "use the id that the answer to a POST has",
    "unknown_stream": "post to a stream of firn.yaml; `GET /v1/streams` lists them",
    "unknown_table": "add a rule for the table to firn.yaml, or post to one that has a rule",
    "unreadable_batch": "look into the staging bucket: the batch that the text names is missing or damaged",
    "unreadable_body": "compress the body again: it is cut off or damaged",
    "unreadable_file": "look into the warehouse: the file that the text names is missing or damaged",
}


@cache
def answers() -> dict[str, set[int]]:
    """The codes of answers over HTTP, each with the statuses that it comes with."""
    found: dict[str, set[int]] = {}
    for status, code in _raised():
        found.setdefault(code, set()).add(status)
    for _, status, code in ANSWERS:
        found.setdefault(code, set()).add(status)
    return found


def _raised() -> Iterator[tuple[int, str]]:
    for root in _ROOTS:
        for file in sorted((ROOT / root).rglob("*.py")):
            if file.name != "client.py":  # what a sender says to itself is no answer
                yield from _raised_in(file)


def _raised_in(file: Path) -> Iterator[tuple[int, str]]:
    """Every call whose first arguments are a status and a code: RequestError(404, "unknown_table", …) and its kin."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            given = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
            if len(given) == 2 and isinstance(given[0], int) and 400 <= given[0] < 600 and isinstance(given[1], str):
                yield given[0], given[1]


def page() -> str:
    """The page's Markdown."""
    rows = sorted((min(statuses), code, statuses) for code, statuses in answers().items())
    told = "".join(
        f"| {', '.join(map(str, sorted(statuses)))} | `{code}` | {WHAT_TO_DO[code]} |\n" for _, code, statuses in rows
    )
    return _HEAD + told + _REASONS + "".join(f"| `{code}` | {text} |\n" for code, text in sorted(ADVICE.items()))
