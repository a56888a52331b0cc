"""Whose fault a failure is: an event's, if it fails alone in a pure step; nobody's, if the machine or the plan does."""

from typing import Any

import pytest

from firn.changes.decode.codec import RowCodec
from firn.changes.decode.poison import poison, poisoned
from firn.changes.decode.row_decoder import READ, Decoding, MirrorDecoder
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import LONG, STRING, Column
from firn.changes.merge.decoded_rows import decoded
from firn.changes.merge.ordering import PLACED_BY, Order, placed
from firn.errors import ConfigError, EventError, StorageUnavailable, UnknownOutcome
from firn.tables.batch_facts import SAID_BY, collected, facts_in

DECODING = Decoding((Column("id", LONG), Column("v", STRING)), (0,), DecodeSettings())


class Fails(Exception):
    """A mistake of Firn's own."""


def raw(index: int, image: str, **more: Any) -> dict[str, Any]:
    usual = dict.fromkeys((*READ, *PLACED_BY, *SAID_BY))
    told = {"epoch": 1, "batch": "b", "index": index, "op": "c", "ts": 5, "table": "t", "flat": False, "after": image}
    return usual | told | {"ord": b"\1%d" % index} | more


def columns(rows: list[dict[str, Any]], *names: str) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in names}


def test_want_of_memory_and_storage_are_no_events_fault() -> None:
    def step(error: Exception) -> None:
        raise error

    for error in (MemoryError(), StorageUnavailable("away"), UnknownOutcome("lost"), OSError("disk"), ConfigError("x")):
        with pytest.raises(type(error)):
            poison(error)
        with pytest.raises(type(error)):
            poisoned([error], step)


def test_any_other_failure_is_internal_and_what_is_known_keeps_its_reason() -> None:
    why = poison(KeyError("m"))
    assert (why.code, str(why)) == ("internal", "Firn fails on this event alone: KeyError: 'm'")
    assert poison(EventError("bad_image", "no")).code == "bad_image"
    assert len(str(poison(ValueError("x\n" * 10_000)))) < 300


def test_only_those_that_fail_alone_are_poison() -> None:
    assert set(poisoned([0, 1, 0, 2], lambda n: 1 / (n % 2))) == {0, 2, 3}


def test_an_op_that_is_none_and_a_time_beyond_all_have_no_place() -> None:
    rows = [raw(0, "{}", order='["1","1"]', connector="postgresql"), raw(1, "{}", op="m"), raw(2, "{}", ts=2**62)]
    found = placed(columns(rows, *PLACED_BY, "ts"), 0, Order())
    assert found["fault"] == [None, "unknown_op", "bad_event"]
    assert [where is None for where in found["pos"]] == [False, True, True]


def test_what_fails_in_the_order_key_is_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    from firn.changes.merge import ordering

    real = ordering.order_key

    def fails(where: bytes | None, op: str, content: bytes) -> bytes:
        if b"poison" in content:
            raise Fails
        return real(where, op, content)

    monkeypatch.setattr(ordering, "order_key", fails)
    rows = [
        raw(n, image, order=f'["{n}","1"]', connector="postgresql") for n, image in enumerate(("{}", "poison", "{}"))
    ]
    found = placed(columns(rows, *PLACED_BY), 0, Order())
    assert found["fault"] == [None, "internal", None]
    assert sorted(found["ord"])[0] == found["ord"][1]


def test_facts_are_those_of_the_others() -> None:
    rows = [raw(0, '{"id": 1}'), raw(1, '{"id": 2, "": 3}'), raw(2, '{"id": 3}', key='{"\\ud800": 1}')]
    said, bad = facts_in(columns(rows, *SAID_BY))
    assert {place: why.code for place, why in bad.items()} == {1: "bad_image", 2: "internal"}
    assert said == facts_in(columns(rows[:1], *SAID_BY))[0]


def test_a_failure_that_is_no_single_events_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    from firn.tables import batch_facts

    real = batch_facts.seen_in

    def fails(images: list[bytes], *, flat: bool) -> Any:
        if len(images) > 1:
            raise Fails
        return real(images, flat=flat)

    monkeypatch.setattr(batch_facts, "seen_in", fails)
    with pytest.raises(Fails):
        facts_in(columns([raw(0, '{"id": 1}'), raw(1, '{"id": 2}')], *SAID_BY))


def test_a_schema_that_breaks_its_reader_is_a_bad_one() -> None:
    said = {"table": "t", "flat": False, "schema_id": "s", "fact": "schema", "epoch": 1}
    deep = '{"type":"struct","fields":' + "[" * 100_000 + "]" * 100_000 + "}"
    facts = collected([said | {"value": deep}], [])["t"]
    assert (facts.schemas, list(facts.bad_schemas)) == ({}, ["s"])


def broken(self: MirrorDecoder, change: dict[str, Any]) -> Any:
    if "poison" in change["after"]:
        raise Fails
    yield self._row(change, change["op"], [1, "x"])


def test_what_fails_in_decoding_is_one_rejected_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MirrorDecoder, "_rows", broken)
    good, bad = decoded([raw(0, "fine"), raw(1, "poison"), raw(2, "fine")], DECODING, mirror=True)
    assert [row[2] for row in good] == [0, 2]
    assert [(row[2], row[8]) for row in bad] == [(1, "internal")]


def test_columns_that_no_event_can_be_read_by_are_no_events_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: RowCodec, *_: Any, **__: Any) -> None:
        raise Fails

    monkeypatch.setattr(RowCodec, "__init__", fails)
    with pytest.raises(Fails):
        decoded([raw(0, '{"id": 1}')], DECODING, mirror=True)


def test_what_decodes_and_can_not_be_written_is_one_rejected_row() -> None:
    def write(rows: list[list[Any]]) -> None:
        if any("poison" in str(row) for row in rows):
            raise Fails

    images = ['{"id": 1, "v": "a"}', '{"id": 2, "v": "poison"}', '{"id": 3, "v": "c"}']
    changes = [raw(n, image) for n, image in enumerate(images)]
    good, bad = decoded(changes, DECODING, mirror=True, fit=write)
    assert [row[2] for row in good] == [0, 2]
    assert [(row[2], row[8]) for row in bad] == [(1, "internal")]


def test_both_rows_of_a_changed_key_go_together() -> None:
    def write(rows: list[list[Any]]) -> None:
        if any(row[-1] == "poison" for row in rows):
            raise Fails

    moved = raw(0, '{"id": 2, "v": "poison"}', op="u", before='{"id": 1, "v": "a"}')
    good, bad = decoded([moved], DECODING, mirror=True, fit=write)
    assert good == []
    assert len(bad) == 1
