"""JSON that is nested deeper than readers bear is told before it is read: at ingest, and again by jobs."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from firn.changes.decode import nesting
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.nesting import MOST, is_too_deep, too_deep
from firn.changes.merge.nested_updates import applied
from firn.changes.merge.ordering import PLACED_BY, Order
from firn.commit.staged_changes import raw_changes, raw_columns, said_by
from firn.config.reader import parse
from firn.errors import EventError, RequestError
from firn.ingest.accept import Accepted, accept, accept_messages
from firn.log import layout
from firn.log.dead_letters.letters import read_dead
from firn.log.store import get
from firn_spark.staged import placing
from tests.attacks.poisons import change, parsed_of

NOW = datetime(2026, 11, 26, tzinfo=UTC)
DEPTHS = (MOST - 1, MOST, 1_000, 100_000)
CONFIG = parse(
    "streams: {web: {envelope: rows, tables: {users: {to: web.users, key: [id]}}}, shop: {envelope: debezium, "
    "unavailable_value: x, tables: {public.t: {to: shop.t, key: [id]}}}}"
)


def nested(depth: int, pair: str = "[]") -> str:
    open_, close = ("[", "]") if pair == "[]" else ('{"a":', "}")
    return open_ * depth + "1" + close * depth


def row(number: int, depth: int, pair: str = "[]") -> str:
    """A row of so many levels more than its own."""
    return f'{{"id": {number}, "deep": {nested(depth, pair)}}}'


def debezium(number: int, image: str, member: str = "after") -> str:
    images = {"before": "null", "after": '{"id": 1}'} | {member: image}
    told = {"connector": "postgresql", "schema": "public", "table": "t", "ts_ms": 1, "sequence": f'["1","{number}"]'}
    source = json.dumps(told)
    return f'{{"op": "u", "before": {images["before"]}, "after": {images["after"]}, "source": {source}, "ts_ms": 1}}'


def among(depth: int, pair: str, member: str) -> str:
    return "\n".join(debezium(n, row(n, depth if n == 2 else 0, pair), member) for n in (1, 2, 3))


BODIES: dict[str, tuple[str, Callable[[int, str], str]]] = {
    "rows, a line each": ("web", lambda depth, pair: "\n".join([row(1, 0), row(2, depth, pair), row(3, 0)])),
    "rows in an array": ("web", lambda depth, pair: f"[{row(1, 0)}, {row(2, depth, pair)}, {row(3, 0)}]"),
    "rows after": ("shop", lambda depth, pair: among(depth, pair, "after")),
    "rows before": ("shop", lambda depth, pair: among(depth, pair, "before")),
    "records with keys": (
        "shop",
        lambda depth, pair: json.dumps([{"key": {"id": n}, "value": n} for n in (1, 2, 3)])
        .replace('"value": 1', f'"value": {debezium(1, row(1, 0))}')
        .replace('"key": {"id": 2}', f'"key": {row(2, depth, pair)}')
        .replace('"value": 2', f'"value": {debezium(2, row(2, 0))}')
        .replace('"value": 3', f'"value": {debezium(3, row(3, 0))}'),
    ),
}  # fmt: skip


def sent(store: Any, stream: str, body: str, *, queue: bool = False) -> Accepted:
    if queue:
        return accept_messages(store, CONFIG, stream, [body.encode()], now=NOW, tables=["users"])
    return accept(store, CONFIG, stream, body.encode(), now=NOW, table="users" if stream == "web" else None)


@pytest.mark.parametrize(("pair", "queue"), [("[]", False), ("{}", True)])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("of", BODIES)
def test_what_is_nested_too_deeply_is_one_dead_letter_wherever_it_is(
    of: str, depth: int, pair: str, queue: bool
) -> None:
    stream, made = BODIES[of]
    store = MemoryStore()
    done = sent(store, stream, made(depth, pair), queue=queue)
    deep = depth + 1 > MOST
    assert (done.accepted, [one.index for one in done.errors]) == ((2, [1]) if deep else (3, []))
    assert {one.reason for one in done.errors} == ({"too_deep"} if deep else set())
    letters = read_dead(store, layout.batch_dead_path(done.batch_id))
    for letter in letters:
        key = (letter.change.key or "") if letter.change else ""
        assert nested(depth, pair) in letter.original.decode() + key
    changes = raw_changes(get(store, layout.staged_path(done.batch_id)) or b"", 1, done.batch_id, 0, Order())
    assert [one["fault"] for one in changes] == [None] * done.accepted


def test_the_answer_says_where_it_is() -> None:
    done = sent(MemoryStore(), "web", f'{{"id": 1, "a": {{"b": [{nested(850)}]}}}}')
    assert done.errors[0].message == (
        "`after`, below a.b, is nested more than 800 levels deep: have the source send that as text"
    )


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "body", [lambda d: nested(d), lambda d: nested(d, "{}"), lambda d: "[" * d, lambda d: '{"a":' * d]
)
def test_a_body_of_nothing_but_nesting_is_refused(body: Callable[[int], str], depth: int) -> None:
    for stream in ("web", "shop"):
        taken = 0
        with suppress(RequestError):
            taken = sent(MemoryStore(), stream, body(depth)).accepted
        assert taken <= int(stream == "web" and depth <= MOST)


@pytest.mark.parametrize("depth", [100, 700, 900, 2_000])
def test_a_document_that_an_update_makes_too_deep_is_one_dead_letter(depth: int) -> None:
    """Of MongoDB: a path of 99 steps, to a value of so many levels."""
    config = parse("streams: {m: {envelope: debezium, tables: {db.c: {to: m.c, key: [_id]}}}}")
    source = {"connector": "mongodb", "db": "db", "collection": "c", "ts_ms": 1, "ord": 1, "rs": "r"}
    update = {"updatedFields": f'{{"{".".join("a" * 99)}": {nested(depth)}}}', "removedFields": None}
    event = {
        "op": "u",
        "before": '{"_id": 1}',
        "after": None,
        "updateDescription": update,
        "source": source,
        "ts_ms": 1,
    }
    events = [{"key": {"id": "1"}, "value": event}] * 2
    done = accept(MemoryStore(), config, "m", json.dumps(events).encode(), now=NOW)
    assert (done.accepted, {one.reason for one in done.errors}) == (0, {"too_deep"})


def test_steps_that_make_a_value_too_deep_leave_it_as_it_was() -> None:
    steps = json.dumps([["set", ["a"] * 99, json.loads(nested(750))]])
    assert applied('{"b": 1}', [steps]) == '{"b": 1}'
    assert applied('{"b": 1}', [json.dumps([["set", ["a"] * 99, json.loads(nested(600))]])]) != '{"b": 1}'


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("member", ["after", "before", "key"])
def test_what_is_staged_already_is_told_by_a_job_before_it_reads_it(member: str, depth: int) -> None:
    events = [change("public.t", n, {"id": n}) | {member: row(n, depth if n == 300 else 0)} for n in range(1, 400)]
    data, batch = parsed_of("shop", events, NOW)
    deep = {299} if depth + 1 > MOST else set()
    changes = raw_changes(data, 1, batch, 0, Order())
    assert {one["index"] for one in changes if one["fault"] == "too_deep"} == deep
    assert {one["index"] for one in changes if one["fault"]} == deep
    said = said_by(changes)
    assert said
    columns = raw_columns(data, 1, batch, 0, Order())
    kinds = {"index": pa.int32(), "occurrence": pa.int32(), "generation": pa.int64(), "tx_order": pa.int64(),
             "emitted": pa.int64(), "ts": pa.int64()}  # fmt: skip
    there = {"occurrence": [None] * 399, "generation": [None] * 399}
    arrays = {name: pa.array((columns | there)[name], kinds.get(name, pa.string())) for name in (*PLACED_BY, "ts")}
    assert (placing.placed_at_once(arrays, Order(), [399], [0]) is None) == bool(deep)


def test_an_inline_schema_is_told_before_it_is_read() -> None:
    with pytest.raises(EventError, match="nested more than 800 levels deep"):
        columns_of(f'{{"type": "struct", "fields": {nested(801)}}}'.encode())


TEXTS = st.lists(st.sampled_from(["[", "]", "{", "}", '"', "\\", '\\"', "[[[", '"a":', "1", ",", '"[{"']), max_size=24)


@given(TEXTS.map("".join))
def test_levels_are_counted_as_brackets_outside_of_strings(text: str) -> None:
    depth, deepest, inside, escaped = 0, 0, False, False
    for sign in text:
        if inside:
            inside, escaped = escaped or sign != '"', not escaped and sign == "\\"
        elif sign == '"':
            inside = True
        else:
            depth += (sign in "[{") - (sign in "]}")
            deepest = max(deepest, depth)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "MOST", 2)
        assert is_too_deep(text) == is_too_deep(text.encode()) == (deepest > 2 and len(text) > 2)


@pytest.mark.parametrize("unit", ["[", "[]", '"[', '\\"[', '{"a":', '[1,"a"],', '"\\', '"a":[{}],'])
def test_it_takes_time_by_the_texts_length(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    began = time.process_time()
    is_too_deep(text)
    too_deep({"after": [text.encode()]})
    assert time.process_time() - began < 3


def test_brackets_in_texts_and_beside_one_another_are_no_levels() -> None:
    assert not is_too_deep(json.dumps({"a": "[" * 5_000, "b": [[]] * 5_000, 'c"[': "\\"}))
    assert is_too_deep('{"a": ' + nested(MOST) + "}")
    assert not is_too_deep('{"a": ' + nested(MOST - 1) + "}")
