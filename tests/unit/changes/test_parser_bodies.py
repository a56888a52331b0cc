"""Bodies: how many events there are, and what happens when there are none to be found."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.envelopes import registry
from firn.changes.envelopes.limits import LIMITS
from firn.changes.envelopes.parser import _one_by_one, parse
from firn.errors import RequestError
from tests.unit.changes.debezium_events import SOURCE, body, cloudevent, event, ndjson, record, row, source, wrapped


def test_one_object_an_array_ndjson_and_text_on_several_lines_are_read() -> None:
    events = [event(), event("u"), event("d")]
    bodies = [
        body(*events),
        ndjson(*events),
        ndjson(*events).replace(b"\n", b"\r\n\r\n"),
        ndjson(*events).strip(),
        b" \n\t" + json.dumps(events, indent=1).encode() + b"\n ",
        b"\n".join(json.dumps(e, indent=1).encode() for e in events),
        b"\xef\xbb\xbf" + body(*events),
    ]
    for text in bodies:
        assert parse(text, "auto").op == ["c", "u", "d"]
        assert parse(text, "debezium").index == [0, 1, 2]
    assert parse(json.dumps(event()).encode(), "auto", "json").op == ["c"]


def test_an_empty_array_holds_nothing() -> None:
    assert (len(parse(b"[]", "auto")), parse(b"[]", "auto").rejected) == (0, [])


def test_a_line_that_is_an_array_is_no_event() -> None:
    parsed = parse(ndjson([event()], event()), "debezium", "ndjson")
    assert (parsed.index, [r.code for r in parsed.rejected]) == ([1], ["not_an_object"])


def test_events_of_different_shapes_in_one_request_are_each_read_as_what_they_are() -> None:
    mixed: list[Any] = [
        event(),
        row(),
        wrapped(event("u")),
        cloudevent(),
        record(event("d"), {"id": 1}),
        None,
        record(None),
    ]
    for turn in range(len(mixed)):
        turned = mixed[turn:] + mixed[:turn]
        for text in (body(*turned), ndjson(*turned)):
            parsed = parse(text, "auto")
            assert [turned[i] for i in parsed.index] == [e for e in turned if e not in (None, record(None))]
            assert parsed.flat == ["__op" in turned[i] for i in parsed.index]
            assert (parsed.ignored, parsed.rejected) == ({"tombstone": 2}, [])


def test_sources_of_different_connectors_in_one_request_are_each_read_by_their_own_rules() -> None:
    mysql = source(connector="mysql", db="shop", schema=None, file="b.000010", pos=4, row=1)
    parsed = parse(body(event(), event(source=mysql), event(source=source(connector="acme")), event()), "auto")
    assert parsed.connector == ["postgresql", "mysql", "acme", "postgresql"]
    assert parsed.order == ['["90","100"]', '["b.000010",4,1]', None, '["90","100"]']
    assert parsed.table == ["public.orders", "shop.orders", "public.orders", "public.orders"]


# --- bodies that can't be read


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "empty"),
        (b" \n\t\r\n" * 100, "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"\xff\xfe{}", "not_utf8"),
        (b'{"op":"c","note":"\xe9"}', "not_utf8"),
        (body(event()).replace(b'"a"', b'"\xc3"'), "not_utf8"),
        (b"a" * (1 << 20) + b"\xc3", "not_utf8"),
        (b"hello", "bad_json"),
        (b"<xml/>", "bad_json"),
        (b'{"op":', "bad_json"),
        (body(event())[:-1], "bad_json"),
        (body(event())[:-20], "bad_json"),
        (body(event(), event()).replace(b"}, {", b"}, x {"), "bad_json"),
        (body(event()) + b"x", "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b"\x00\x01\x02", "bad_json"),
    ],
)
@pytest.mark.parametrize("envelope", registry.KNOWN.names)
def test_a_body_of_which_nothing_can_be_read_is_refused(text: bytes, code: str, envelope: str) -> None:
    with pytest.raises(RequestError) as error:
        parse(text, envelope)
    assert (error.value.status, error.value.code) == (400, code)


def test_utf8_is_checked_across_the_pieces_it_is_checked_in() -> None:
    start = (1 << 20) - len(json.dumps(event()).encode()) % 2
    for shift in range(4):
        note = "x" * (start + shift) + "€" * 10
        (change,) = parse(json.dumps(event(after={"note": note}), ensure_ascii=False).encode(), "auto").changes()
        assert json.loads(change.after or b"")["note"] == note


def test_a_broken_line_costs_only_itself() -> None:
    lines = ndjson(event(), event("u"), event("d")).splitlines()
    for broken in (b'{"op":"c"', b"x", b'{"op":"c",}', lines[0][:-5], b'{"op":"c","note":"\\ud800"}'):
        parsed = parse(b"\n".join([lines[0], broken, lines[1], b"", lines[2]]), "auto")
        assert (parsed.index, parsed.op) == ([0, 2, 3], ["c", "u", "d"])
        assert [(r.index, r.original) for r in parsed.rejected] == [(1, broken)]


def test_a_lone_surrogate_in_a_name_is_an_error_of_this_event() -> None:
    text = body(event(), event(source=source(table="@@")), event()).replace(b"@@", b"\\ud800")
    parsed = parse(text, "auto")
    assert (parsed.index, [r.code for r in parsed.rejected]) == ([0, 2], ["bad_json"])


@pytest.mark.parametrize(
    ("text", "envelope", "code"),
    [
        (body(event(source=source(table="@@"))).replace(b"@@", b"\\ud800")[1:-1], "auto", "bad_json"),
        (b'{"operation":"INSERT","table":"a","newRow":{"id":1,"v":"\\udc00"}}', "seed", "bad_json"),
        (b'{"op":"c","source":{"connector":"mongodb","collection":"a"},"after":"{\\"id\\":1}x"}', "auto", "bad_json"),
        (
            b'{"op":"c","source":{"connector":"mongodb","collection":"a"},"after":"{\\"id\\":1}x"}',
            "debezium",
            "bad_json",
        ),
        (b'{"Records":[{"kinesis":{"data":"aGVsbG8="}}]}', "auto", "bad_json"),
    ],
    ids=["half a pair in a name", "in a value", "a document", "a document by its stream", "a record's data"],
)
def test_an_event_alone_that_is_json_is_a_dead_letter_whatever_is_in_it(text: bytes, envelope: str, code: str) -> None:
    parsed = parse(text, envelope)
    assert (len(parsed), [one.code for one in parsed.rejected]) == (0, [code])
    assert parsed == _one_by_one(text, envelope, LIMITS, array=False)


def deep(depth: int) -> bytes:
    return json.dumps(event(after={"n": "@"})).encode().replace(b'"@"', b"[" * depth + b"]" * depth)


@pytest.mark.parametrize("depth", [1_500, 100_000])
def test_an_event_that_is_nested_too_deeply_is_rejected_and_the_others_land(depth: int) -> None:
    good = json.dumps(event(after={"text": '"]},{[\\'})).encode()
    for text in (
        b"[" + b" ,\n".join([good, deep(depth), good]) + b" ]\n",
        b"\n".join([good, deep(depth), good]),
    ):
        parsed = parse(text, "auto")
        assert parsed.index == [0, 2]
        assert [(r.index, r.code, r.original) for r in parsed.rejected] == [(1, "too_deep", deep(depth))]


def test_an_array_that_is_nested_too_deeply_and_does_not_end_is_refused() -> None:
    for text in (b"[" + deep(5_000), b"[" + deep(5_000) + b"] x", b"[" + deep(5_000) + b',"]'):
        with pytest.raises(RequestError):
            parse(text, "auto")


@pytest.mark.parametrize("number", ["1" + "0" * 50_000, "-" + "9" * 50_000, "1e999999999", "-0.0", "1E-999999"])
def test_huge_numbers_are_errors_of_their_event_or_travel_untouched(number: str) -> None:
    in_row = json.dumps(event(after={"n": "@"})).replace('"@"', number).encode()
    in_time = json.dumps(event(source=source(ts_ms="@"))).replace('"@"', number).encode()
    good = json.dumps(event()).encode()
    for text in (b"[" + b",".join([good, in_row, in_time]) + b"]", b"\n".join([good, in_row, in_time])):
        parsed = parse(text, "auto")
        assert parsed.index == [0, 1]
        assert parsed.after[1] == b'{"n": ' + number.encode() + b"}"
        assert [(r.index, r.code) for r in parsed.rejected] == [(2, "bad_event")]


def test_of_a_member_that_is_there_twice_the_last_counts() -> None:
    text = json.dumps(event()).replace('"op": "c"', '"op": "u", "op": "c"').encode()
    assert parse(text, "auto").op == ["c"]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
NAMES = [*event(), *row(), *cloudevent(), *SOURCE, "key", "value", "schema", "payload", "destination"]
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES), inner), max_leaves=12
)


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_any_json_beside_a_good_event_is_taken_ignored_or_rejected(value: Any) -> None:
    for envelope in registry.KNOWN.names:
        parsed = parse(body(value, event(), value), envelope)
        assert len(parsed) + sum(parsed.ignored.values()) + len(parsed.rejected) == 3
        assert all(r.code != "bad_json" for r in parsed.rejected)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    for envelope in registry.KNOWN.names:
        for whole in (text, b"[" + text + b"]", b'{"op":"c"}\n' + text):
            try:
                parse(whole, envelope)
            except RequestError as error:
                assert error.status == 400  # noqa: PT017
