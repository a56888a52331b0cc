"""Limits are exact: what is at one is taken, what is over it is a 413 that names it."""

import json
from typing import Any

import pytest

from firn.changes.envelopes import json_text
from firn.changes.envelopes.limits import LARGE, EventLimits
from firn.changes.envelopes.parser import parse
from firn.errors import RequestError
from tests.attacks.hostile_bodies import array, cloudevent, encoded, event, flat

LIMITS = EventLimits(events=20, alone=5, tables=3, columns=10, size=100_000)
LAST = encoded(event(2))


def refused(body: bytes) -> str:
    with pytest.raises(RequestError) as caught:
        parse(body, "auto", "auto", LIMITS)
    assert caught.value.status == 413
    return caught.value.code


@pytest.fixture(params=[1, json_text.COUNTED], ids=["a large body", "a small body"])
def _counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether events are counted before they are decoded, or after."""
    monkeypatch.setattr(json_text, "COUNTED", request.param)


@pytest.mark.usefixtures("_counted")
@pytest.mark.parametrize(
    "one", [event(1), flat(1), cloudevent(1), {"value": event(1)}, {"schema": None, "payload": event(1)}]
)
@pytest.mark.parametrize("lines", [True, False])
def test_events_of_one_shape_up_to_the_limit_are_taken(one: dict[str, Any], lines: bool) -> None:
    def body(count: int) -> bytes:
        return b"\n".join([encoded(one)] * count) if lines else array(encoded(one), count)

    assert len(parse(body(20), "auto", "auto", LIMITS)) == 20
    assert refused(body(21)) == "too_many_events"


@pytest.mark.usefixtures("_counted")
@pytest.mark.parametrize(
    "other", [b"{}", b"1", b'"x"', b"[1,2]", b'{"op":"x"}', b'"\\ud800"', LAST.replace(b"postgresql", b"oracle")]
)
@pytest.mark.parametrize("first", [True, False])
def test_events_that_are_read_one_by_one_have_a_limit_of_their_own(other: bytes, first: bool) -> None:
    def body(count: int) -> bytes:
        return array(other, count, *([LAST] if first else []))

    found = parse(body(4), "auto", "auto", LIMITS)
    assert len(found) + len(found.rejected) == 4 + first
    assert refused(body(30)) == "too_many_events"


@pytest.mark.usefixtures("_counted")
@pytest.mark.parametrize("between", [b"\n", b"\r\n", b"\n\n \n", b"\n" * 100, b"\r", b" "])
def test_what_stands_between_events_is_no_event(between: bytes) -> None:
    assert len(parse(between.join([LAST] * 20) + between, "auto", "auto", LIMITS)) == 20
    assert refused(between.join([LAST] * 21)) == "too_many_events"


@pytest.mark.usefixtures("_counted")
def test_events_over_several_lines_are_read_whole_beside_others() -> None:
    written = json.dumps(event(1), indent=1).encode()
    found = parse(b"\n".join([written, encoded(flat(2)), written]), "auto", "auto", LIMITS)
    assert (len(found), found.rejected) == (3, [])


def wide(columns: int, name: str = "after", width: int = 4_000) -> bytes:
    return encoded(
        event(1) | {name: {f"c{n}": "x" * width for n in range(columns)}, "op": "u", "after": {"id": 1}}
        if name == "before"
        else event(1) | {name: {f"c{n}": "x" * width for n in range(columns)}}
    )


@pytest.mark.parametrize("name", ["after", "before"])
def test_columns_of_a_large_image_are_counted(name: str) -> None:
    assert len(parse(wide(10, name), "auto", "auto", LIMITS)) == 1
    assert refused(wide(11, name)) == "too_many_columns"
    assert refused(array(LAST, 3, wide(11, name))) == "too_many_columns"


def test_nobody_looks_into_a_small_image() -> None:
    assert len(wide(100, width=10)) < LARGE
    assert len(parse(wide(100, width=10), "auto", "auto", LIMITS)) == 1


def test_what_is_nested_or_in_texts_is_no_column() -> None:
    row = {"id": 1, "a": [{"b": 1, "c": 2}] * 4_000, "t": '{"x":1,' * 50}
    assert len(parse(encoded(event(1) | {"after": row}), "auto", "auto", LIMITS)) == 1


def test_a_schema_has_a_limit_too() -> None:
    fields = [{"field": f"c{n}", "type": "int32", "optional": True} for n in range(1_000)]
    assert refused(encoded({"schema": {"fields": fields}, "payload": event(1)})) == "too_many_columns"


def test_an_event_has_a_most_of_bytes() -> None:
    assert len(parse(encoded(event(1, v="x" * 99_000)), "auto", "auto", LIMITS)) == 1
    assert refused(encoded(event(1, v="x" * 101_000))) == "event_too_large"
    assert refused(array(LAST, 2, encoded(flat(1) | {"v": "x" * 101_000}))) == "event_too_large"


def test_what_is_rejected_has_a_most_of_bytes_too() -> None:
    broken = encoded(event(1, v="x" * 30_000) | {"op": "x"})
    assert len(parse(array(broken, 3), "auto", "auto", LIMITS).rejected) == 3
    assert refused(array(broken, 4)) == "too_much_rejected"


def test_many_events_with_large_documents_and_few_columns_are_taken() -> None:
    documents = [event(n) | {"after": {"id": n, "items": [{"a": 1}] * 5_001}} for n in range(60)]
    assert len(parse(b"\n".join(map(encoded, documents)), "debezium")) == 60


def test_nested_values_beyond_counting_are_refused_with_what_helps() -> None:
    limits = EventLimits()
    image = encoded({"id": 1, "items": [{"a": 1}] * 200_001})
    with pytest.raises(RequestError, match="split the request") as error:
        limits.check_columns([[image] * 10], [])
    assert (error.value.status, error.value.code) == (413, "too_many_columns")
