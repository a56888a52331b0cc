"""A stream with schemas: what does not fit is named in the answer, a dead letter or a refusal, and nothing else is."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from firn.config.model import Config
from firn.config.reader import parse
from firn.errors import RequestError
from firn.ingest.accept import Accepted, accept, accept_messages
from firn.log import layout
from firn.log.dead_letters.letters import read_dead
from firn.log.store import Store, get

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
FIELDS = """{fields: [{name: id, type: int64, required: true}, {name: plan, type: string, default: free},
          {name: at, type: timestamp}]}"""


def config(rule: str = "", settings: str = "") -> Config:
    return parse(f"""
streams:
  web:
    envelope: rows
{settings}    tables:
      users:
        to: web.users
        key: [id]
        schema: {FIELDS}
{rule}
      logs: {{to: web.logs, mode: append}}
""")


def post(store: Store, body: Any, by: Config | None = None, table: str | None = "users", **how: Any) -> Accepted:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return accept(store, by or config(), "web", text, now=NOW, table=table, **how)


def staged(store: Store, done: Accepted) -> list[str]:
    data = get(store, layout.staged_path(done.batch_id))
    assert data is not None
    return [row["after"] or row["before"] for row in pq.read_table(io.BytesIO(data)).to_pylist()]


def test_rows_that_do_not_fit_are_dead_letters_and_the_others_go_on() -> None:
    store = MemoryStore()
    bad = [{"id": "1"}, {"plan": "x"}, {"id": None}, {"id": 2**63}, {"id": 2, "at": "yesterday"}]
    done = post(store, [{"id": 1}, *bad, {"id": 3, "other": [1]}])
    assert (done.accepted, done.rejected) == (2, 5)
    assert [(e.index, e.reason) for e in done.errors] == [
        (1, "type_mismatch"), (2, "missing_field"), (3, "missing_field"), (4, "type_mismatch"), (5, "type_mismatch"),
    ]  # fmt: skip
    assert done.errors[0].message == "column id: not an integer"
    assert done.errors[1].message == "column id: is missing or null, and the schema requires it"
    assert staged(store, done) == ['{"id": 1}', '{"id": 3, "other": [1]}'], "as they were sent; the job fills defaults"
    letters = read_dead(store, layout.batch_dead_path(done.batch_id))
    assert [json.loads(letter.original) for letter in letters] == bad
    assert {letter.table for letter in letters} == {"users"}
    assert all(letter.change is not None and letter.change.order for letter in letters), "they keep their place"


def test_the_answer_says_by_which_schema_and_again_for_the_same_key() -> None:
    store = MemoryStore()
    first = post(store, [{"id": 1}, {"id": "x"}], key="k")
    rule = config().streams["web"].tables[0]
    assert rule.schema is not None
    assert first.schema == {"users": rule.schema.version}
    again = post(store, [{"id": 1}, {"id": "x"}], config(settings="    max_tables: 7\n"), key="k")
    assert msgspec.structs.replace(again, duplicate=False) == first
    assert post(store, [{"id": "all bad"}]).schema == first.schema
    assert "schema" not in json.loads(msgspec.json.encode(post(store, [{"id": 1}], table="logs")))


def test_another_schema_is_another_version_and_other_words_for_it_are_not() -> None:
    def version(text: str) -> str:
        by = parse(f"streams: {{w: {{envelope: rows, tables: {{t: {{to: w.t, mode: append, schema: {text}}}}}}}}}")
        schema = by.streams["w"].tables[0].schema
        assert schema is not None
        return schema.version

    same = [
        "{fields: [{name: id, type: int64}, {name: at, type: timestamp, unit: ms}]}",
        '{"fields": [{"type": "long", "name": "id", "required": false}, '
        '{"name": "at", "type": "timestamp", "unit": "millisecond"}]}',
    ]
    assert len(set(map(version, same))) == 1
    others = ["{fields: [{name: id, type: int64}]}", "{fields: [{name: id, type: int32}]}",
              "{fields: [{name: id, type: int64, required: true}]}", "{fields: [{name: id, type: int64, default: 1}]}",
              "{fields: [{name: id, type: timestamp}]}",
              "{fields: [{name: id, type: timestamp, unit: s}]}"]  # fmt: skip
    assert len(set(map(version, others))) == len(others)


def test_a_strict_schema_refuses_the_whole_request() -> None:
    store = MemoryStore()
    strict = config("        invalid: refuse\n")
    with pytest.raises(RequestError) as refused:
        post(store, [{"id": 1}, *({"id": "x"} for _ in range(12))], strict)
    assert (refused.value.status, refused.value.code) == (400, "invalid_rows")
    text = str(refused.value)
    assert text.startswith("12 of the rows do not fit the schema, and nothing was taken: 1: type_mismatch: column id")
    assert text.endswith("; and 2 more")
    assert list(store.list().collect()) == []
    assert post(store, [{"id": 1}], strict).accepted == 1
    from_queue = accept_messages(
        store, strict, "web", [b'{"id": 1}', b'[{"id": 2}, {"id": "x"}]'], tables=["users"] * 2, now=NOW
    )
    assert [(e.index, e.reason) for e in from_queue.errors] == [(1, "invalid_rows")], (
        "of a queue the message is refused"
    )


@pytest.mark.parametrize(("unknown", "accepted"), [("keep", 2), ("drop", 2), ("reject", 1)])
def test_what_becomes_of_fields_that_the_schema_does_not_name(unknown: str, accepted: int) -> None:
    by = config(f"        unknown: {unknown}\n", "    table_by: kind\n    op_field: op\n")
    done = post(MemoryStore(), [{"id": 1, "kind": "users", "op": "c"}, {"id": 1, "kind": "users", "x": 1}], by, None)
    assert done.accepted == accepted
    assert [(e.reason, e.message) for e in done.errors] == [
        ("unknown_field", "the row: it has the field 'x', which the schema does not name")
    ][: 2 - accepted]


def test_a_delete_needs_no_more_than_its_key() -> None:
    by = config("        unknown: reject\n", "    op_field: gone\n    delete_when: [true]\n")
    done = post(MemoryStore(), [{"id": 1, "gone": True, "why": "x"}, {"id": "x", "gone": True}, {"gone": False}], by)
    assert (done.accepted, [e.reason for e in done.errors]) == (1, ["type_mismatch", "missing_field"])


HOSTILE = [
    b'{"id": 1, "at": "\\ud800"}', b'{"id": 1e400}', b'{"id": NaN}', b'{"id": 9223372036854775808}',
    b'{"id": 1, "plan": "\\ud800"}', b'{"id": 1, "plan": "' + b"\\" * 3 + b'"}', b'{"id": ' + b"1" * 5_000 + b"}",
    b'{"id": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", b'{"id": 1, "plan": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}",
    b'{"id": 1, "at": "2026-01-01T00:00:60Z"}', b'{"id": 1, "at": "2026-01-01T00:00:00.123456789Z"}', b'{"id": true}',
    b'{"id": "1"}', b"[]", b"null", b'"x"', b'{"id": 1',
]  # fmt: skip


@pytest.mark.parametrize("row", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_row_costs_only_itself(row: bytes) -> None:
    done = post(MemoryStore(), b"\n".join([b'{"id": 1}', row, b'{"id": 2}']))
    assert (done.accepted, done.rejected) == (2, 1)


def test_a_row_of_ten_megabytes_is_read_or_refused_by_name() -> None:
    long = json.dumps({"id": 1, "plan": "x" * 900_000}).encode()
    assert post(MemoryStore(), long).accepted == 1
    with pytest.raises(RequestError) as refused:
        post(MemoryStore(), json.dumps({"id": 1, "plan": "x" * 60_000_000}).encode())
    assert refused.value.code == "event_too_large"


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":\n1}\n{"id": 2}{"id": 3}', b'{"id": 1}{"id": 2}', b'{"id": 1}\r\n{"id": 2}\r\n',
        b'[{"id": 1},\n{"id": 2}]',
        b'\n {"id": 1}\n\n{"id": 2}', b'[{"id": 1, "x": [{}, {}]}, {"id": 2, "x": "}, {"}]',
        b'{"id": 1, "x": {"a": {}\n}}',
    ],
    ids=range(7),
)  # fmt: skip
def test_however_rows_are_laid_out_each_is_itself(body: bytes) -> None:
    store = MemoryStore()
    plain = accept(MemoryStore(), config(), "web", body, now=NOW, table="logs")
    done = post(store, body)
    found = [json.loads(row) for row in staged(store, done)]
    assert [row["id"] for row in found] == list(range(1, plain.accepted + 1))
    assert done.rejected == 0
