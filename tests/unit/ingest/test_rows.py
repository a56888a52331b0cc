"""Plain rows: whatever is in them they are rows, and their table, op and place follow from request and settings."""

import dataclasses
import io
import json
import resource
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from firn.changes.envelopes.limits import LIMITS
from firn.changes.envelopes.parser import parse
from firn.changes.positions import position
from firn.config.model import Config
from firn.config.reader import parse as read_config
from firn.errors import RequestError
from firn.ingest import reading
from firn.ingest.accept import Accepted, accept
from firn.ingest.queue import Message, take
from firn.ingest.reprocess import retake
from firn.log import layout
from firn.log.dead_letters.letters import DeadLetter, read_dead, rebuilt, staged_change
from firn.log.store import Store, get

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
TABLES = """
    tables:
      users: {to: web.users, key: [id]}
      'raw_*': {to: 'web.{table}', mode: append}
      secret: {ignore: true}
"""


def config(settings: str = "", tables: str = TABLES) -> Config:
    return read_config(f"streams:\n  web:\n    envelope: rows\n{settings}{tables}")


def post(store: Store, body: Any, table: str | None = "users", *, by: Config | None = None, **how: Any) -> Accepted:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return accept(store, by or config(), "web", text, now=NOW, table=table, **how)


def staged(store: Store, done: Accepted) -> list[dict[str, Any]]:
    data = get(store, layout.staged_path(done.batch_id))
    assert data is not None
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).to_pylist()
    return rows


LOOKALIKES = [
    {"value": 1}, {"value": {"id": 1}, "key": {"id": 1}}, {"ts_ms": 1}, {"schema": {}, "payload": {"id": 2}},
    {"schema": None, "payload": None}, {"__op": "d", "__deleted": "true", "id": 3}, {"status": "BEGIN", "id": "4"},
    {"op": "c", "after": None, "source": {"table": "x"}}, {"specversion": "1.0", "data": {}}, {"tableChanges": []}, {},
]  # fmt: skip


@pytest.mark.parametrize("body", [json.dumps(LOOKALIKES), "\n".join(map(json.dumps, LOOKALIKES))])
def test_whatever_a_row_looks_like_it_is_a_row(body: str) -> None:
    store = MemoryStore()
    done = post(store, body.encode())
    assert (done.accepted, done.rejected, done.ignored) == (len(LOOKALIKES), 0, {})
    rows = staged(store, done)
    assert [json.loads(row["after"]) for row in rows] == LOOKALIKES
    assert {(row["table"], row["op"], row["connector"]) for row in rows} == {("users", "c", "rows")}
    alone = [post(store, one).accepted for one in LOOKALIKES]
    assert alone == [1] * len(LOOKALIKES)


def test_what_is_no_row_is_a_dead_letter_of_its_table() -> None:
    store = MemoryStore()
    done = post(store, b'{"id": 1}\nnull\n[{"id": 2}]\n"x"\n{"id": \n{"id": 3}')
    assert (done.accepted, [(e.index, e.reason) for e in done.errors]) == (
        2,
        [(1, "not_an_object"), (2, "not_an_object"), (3, "not_an_object"), (4, "bad_json")],
    )
    letters = read_dead(store, layout.batch_dead_path(done.batch_id))
    assert {letter.table for letter in letters} == {"users"}
    assert [letter.original for letter in letters] == [b"null", b'[{"id": 2}]', b'"x"', b'{"id":']


def test_rows_go_to_the_table_that_the_request_names() -> None:
    store = MemoryStore()
    assert {row["table"] for row in staged(store, post(store, [{"id": 1}], "raw_a.b/c é"))} == {"raw_a.b/c é"}
    for table, code in (("user", "unknown_table"), ("secret", "unknown_table"), ("", "unknown_table")):
        with pytest.raises(RequestError) as raised:
            post(store, [{"id": 1}], table)
        assert (raised.value.status, raised.value.code) == (404, code)


def test_a_stream_of_one_table_needs_no_name_and_one_of_several_says_so() -> None:
    store = MemoryStore()
    one = config(tables="    tables: {'x*': {ignore: true}, users: {to: web.users, key: [id]}}\n")
    assert staged(store, post(store, {"id": 1}, None, by=one))[0]["table"] == "users"
    pattern = config(tables="    tables: {'*': {to: 'web.{table}', mode: append}}\n")
    ignored = config(tables="    tables: {x: {ignore: true}, '*': {to: 'web.{table}', mode: append}}\n")
    for several in (config(), pattern, ignored):
        with pytest.raises(RequestError, match=r"streams/web/tables/TABLE.*table_by") as raised:
            post(store, {"id": 1}, None, by=several)
        assert (raised.value.status, raised.value.code) == (400, "no_table")


def test_a_row_may_name_its_table_itself() -> None:
    store, by = MemoryStore(), config("    table_by: type\n")
    rows: list[Any] = [
        {"type": "users", "id": 1}, {"type": "raw_x"}, {"type": 5}, {"id": 1}, {"type": ""}, {"type": "other"}, "x",
    ]  # fmt: skip
    done = post(store, rows, None, by=by)
    assert [row["table"] for row in staged(store, done)] == ["users", "raw_x"]
    assert done.ignored == {"filtered_table": 1}
    reasons = [(error.index, error.reason) for error in done.errors]
    assert reasons == [(2, "missing_table"), (3, "missing_table"), (4, "missing_table"), (6, "not_an_object")]
    assert "`table_by` is 'type'" in done.errors[0].message
    named = staged(store, post(store, [{"type": "raw_x", "id": 1}], "users", by=by))
    assert [row["table"] for row in named] == ["users"], "what the request says counts"


def test_events_that_name_their_tables_are_not_posted_to_one() -> None:
    other = read_config("streams: {web: {tables: {'*': {to: 'web.{table}'}}}}")
    with pytest.raises(RequestError, match="write `envelope: rows`") as raised:
        post(MemoryStore(), [{"id": 1}], "users", by=other)
    assert (raised.value.status, raised.value.code) == (400, "not_rows")


@pytest.mark.parametrize(
    ("settings", "deletes"),
    [
        ("    op_field: op\n", ["d", "D", "delete", "DELETE"]),
        ("    op_field: op\n    delete_when: [true]\n", [True, "true"]),
        ("    op_field: op\n    delete_when: [True, 7, gone]\n", [True, "true", 7, "7", "gone"]),
        ("    op_field: op\n    delete_when: ['True', '7']\n", ["True", 7, "7"]),
    ],
)
def test_a_field_of_the_row_tells_deletes(settings: str, deletes: list[Any]) -> None:
    values = [
        "d",
        "D",
        "delete",
        "DELETE",
        "del",
        True,
        False,
        "true",
        "True",
        7,
        "7",
        7.5,
        "gone",
        None,
        [],
        ["d"],
        {"d": 1},
    ]
    store = MemoryStore()
    rows = [{"id": 1, "op": value} for value in values] + [{"id": 1}]
    found = staged(store, post(store, rows, by=config(settings)))
    gone = [row["op"] == "d" for row in found]
    assert gone == [
        any(value is one or (value == one and type(value) is type(one)) for one in deletes) for value in values
    ] + [False]
    for row, sent in zip(found, rows, strict=True):
        image, other = ("before", "after") if row["op"] == "d" else ("after", "before")
        assert (json.loads(row[image]), row[other]) == (sent, None)


def test_without_order_by_a_row_stands_where_it_came() -> None:
    store = MemoryStore()
    first = staged(store, post(store, [{"id": 1}] * 12, random=lambda n: b"\xff" * n))
    places = [position("rows", "c", row["order"], 0) for row in first]
    assert None not in places
    assert sorted(places, key=lambda one: one or b"") == places
    assert len(set(places)) == 12
    later = accept(store, config(), "web", b'{"id": 1}', now=NOW.replace(microsecond=1000), table="users")
    (next_one,) = [position("rows", "d", row["order"], 0) for row in staged(store, later)]
    assert next_one is not None
    assert places[-1] is not None
    assert next_one > places[-1]
    named = staged(store, post(store, [{"id": 1}], by=config("    order_by: at\n")))
    assert named[0].get("order") is None, "its own field says where it stands"


def test_a_key_stands_for_rows_of_one_table() -> None:
    store = MemoryStore()
    first = post(store, [{"id": 1}], key="k")
    again = post(store, [{"id": 1}], key="k")
    assert (again.batch_id, again.duplicate) == (first.batch_id, True)
    with pytest.raises(RequestError) as raised:
        post(store, [{"id": 1}], "raw_x", key="k")
    assert raised.value.code == "idempotency_conflict"


def test_queue_messages_name_their_tables() -> None:
    store = MemoryStore()
    messages = [
        Message("a", b'[{"id": 1}, {"id": 2}]', "users"), Message("b", b'{"id": 3}', "raw_x"),
        Message("c", b'{"id": 4}'), Message("d", b'{"id": 5}', "user"), Message("e", b"{", "users"),
    ]  # fmt: skip
    done = take(store, config(), "web", messages, now=NOW).batch
    assert done is not None
    rows = staged(store, done)
    assert [(row["table"], json.loads(row["order"])[1]) for row in rows] == [("users", 0), ("users", 1), ("raw_x", 2)]
    letters = read_dead(store, layout.batch_dead_path(done.batch_id))
    told = [(letter.index, letter.reason, letter.table) for letter in letters]
    assert told == [(3, "no_table", None), (4, "unknown_table", "user"), (5, "bad_json", "users")]


def test_a_corrected_letter_takes_the_place_of_the_row() -> None:
    store = MemoryStore()
    done = post(store, b'{"id": 1}\n{"id": 2,}\n{"id": 3}')
    (letter,) = read_dead(store, layout.batch_dead_path(done.batch_id))
    parsed, kept = retake(letter, config().streams["web"], b'{"id": 2}')
    assert kept is None
    assert (parsed.table, parsed.after) == (["users"], [b'{"id": 2}'])
    assert parsed.order == [f'["{done.batch_id.rpartition(".")[2]}",1]']


def letter_of(done: Accepted, row: dict[str, Any], *, batch: str = "", reason: str = "type_mismatch") -> DeadLetter:
    """The letter that a job makes of the first row of a batch."""
    read = config("    op_field: op\n")
    text = json.dumps(row).encode()
    parsed = reading.read(text, read.streams["web"], "auto", LIMITS, done.batch_id, "users")
    change = staged_change(next(iter(parsed.changes())))
    return DeadLetter(reason, "", "web", "users", batch or done.batch_id, 0, NOW, rebuilt(change), change, 0)


def test_the_letter_of_a_row_holds_the_row_and_nothing_else() -> None:
    done = post(MemoryStore(), [{"id": 1, "n": "bad"}])
    for row in ({"id": 1, "n": "bad"}, {"id": 1, "op": "d"}):
        assert json.loads(letter_of(done, row).original) == row


def test_a_row_that_is_corrected_after_another_replay_keeps_its_place() -> None:
    store = MemoryStore()
    first = post(store, [{"id": 1, "n": "bad"}])
    later = accept(store, config(), "web", b'{"id": 2}', now=NOW.replace(hour=20), table="users")
    letter = letter_of(first, {"id": 1, "n": "bad"}, batch=later.batch_id)
    parsed, _ = retake(letter, config().streams["web"], b'{"id": 1, "n": 3}')
    assert parsed.order == [f'["{first.batch_id.rpartition(".")[2]}",0]']
    assert parsed.after == [b'{"id": 1, "n": 3}']


def test_a_corrected_row_goes_where_it_says() -> None:
    done = post(MemoryStore(), [{"id": 1}])
    settings = config("    table_by: type\n").streams["web"]
    letter = letter_of(done, {"id": 1, "type": "users"})
    for text, table in ((b'{"id": 1, "type": "raw_x"}', "raw_x"), (b'{"id": 1}', "users")):
        assert retake(letter, settings, text).parsed.table == [table]


def test_many_of_what_is_no_row_are_refused_before_they_are_read() -> None:
    body = b"[" + b"1," * 7_000_000 + b"1]"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RequestError) as raised:
        post(MemoryStore(), body)
    assert raised.value.code == "too_many_events"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "KB"


def test_rows_that_name_no_table_are_no_way_around_the_bound_of_letters() -> None:
    limits = dataclasses.replace(LIMITS, size=1_000)
    with pytest.raises(RequestError) as raised:
        post(
            MemoryStore(),
            [{"id": n, "v": "x" * 100} for n in range(20)],
            None,
            by=config("    table_by: type\n"),
            limits=limits,
        )
    assert raised.value.code == "too_much_rejected"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(VALUES, min_size=1, max_size=12), st.booleans())
def test_many_rows_at_once_are_what_each_is_alone(values: list[Any], array: bool) -> None:
    texts = [json.dumps(value) for value in values]
    whole = parse(
        (f"[{','.join(texts)}]" if array else "\n".join(texts)).encode(), "rows", "json" if array else "ndjson", LIMITS
    )
    alone = [parse(text.encode(), "rows", "ndjson", LIMITS) for text in texts]
    assert whole.index == [place for place, one in enumerate(alone) if len(one)]
    assert [msgspec.json.decode(row or b"") for row in whole.after] == [
        value for value in json.loads(f"[{','.join(texts)}]") if isinstance(value, dict)
    ]
    assert [one.index for one in whole.rejected] == [place for place, one in enumerate(alone) if one.rejected]


def test_a_row_of_a_table_that_takes_patches_is_an_update() -> None:
    tables = """
    tables:
      users: {to: web.users, key: [id], update: patch}
      whole: {to: web.whole, key: [id]}
      clicks: {to: web.clicks, mode: append}
"""
    by, store = config("    table_by: t\n    op_field: op\n", tables), MemoryStore()
    rows = [{"t": "users", "id": 1}, {"t": "users", "id": 1, "op": "d"}, {"t": "whole", "id": 1}, {"t": "clicks"}]
    done = post(store, [*rows, {"t": "none"}], None, by=by)
    assert [(row["table"], row["op"]) for row in staged(store, done)] == [
        ("users", "u"), ("users", "d"), ("whole", "c"), ("clicks", "c"),
    ]  # fmt: skip


def test_a_condition_says_which_rows_are_deletes() -> None:
    """Evaluated as rows come: what the log holds are deletes, for job, fresh reads and audit alike."""
    by = config("    delete_when: \"status = 'gone' OR meta.deleted\"\n")
    store = MemoryStore()
    sent = [
        {"id": 1, "status": "gone"}, {"id": 2, "status": "here"}, {"id": 3, "meta": {"deleted": True}}, {"id": 4},
        {"id": 5, "status": ["gone"], "meta": "x"},
    ]  # fmt: skip
    found = staged(store, post(store, sent, by=by))
    assert [row["op"] for row in found] == ["d", "c", "d", "c", "c"]
    assert [(row["before"], row["after"]) for row in found[:2]] == [
        (json.dumps(sent[0]), None), (None, json.dumps(sent[1]))
    ]  # fmt: skip
    lines = b"\n".join([b'{"id": 1, "status": "go\\u006ee"}', b'{"id": 2, "status": ' + b"[" * 790 + b"]" * 790 + b"}"])
    assert [row["op"] for row in staged(store, post(store, lines, by=by))] == ["d", "c"]


def test_a_row_that_a_condition_deletes_need_not_fit_the_schema() -> None:
    tables = "\n    tables: {users: {to: web.users, key: [id], unknown: reject, schema: {fields: ["
    tables += "{name: id, type: int64, required: true}, {name: n, type: int64, required: true}]}}}\n"
    done = post(MemoryStore(), [{"id": 1, "gone": True}, {"id": 2}], by=config("    delete_when: gone\n", tables))
    assert (done.accepted, done.rejected) == (1, 1)


@pytest.mark.parametrize("envelope", ["auto", "debezium"])
def test_an_event_of_debeziums_without_an_order_has_none_by_auto_either(envelope: str) -> None:
    known = read_config(f"streams: {{s: {{envelope: {envelope}, tables: {{'*': {{to: 'l.{{table}}'}}}}}}}}")
    source = {"connector": "spanner", "table": "t"}
    event = {"op": "u", "before": {"id": 1, "v": None}, "after": {"id": 1, "v": 2}, "source": source}
    batch = layout.batch_id("s", NOW, bytes(8))
    assert reading.read(json.dumps(event).encode(), known.streams["s"], "auto", LIMITS, batch).order == [None]
