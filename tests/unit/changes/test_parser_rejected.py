"""What is not a change is counted or rejected by reason, and a row is never mistaken for an envelope."""

import json
from typing import Any

import pytest

from firn.changes.envelopes import parser
from firn.changes.envelopes.parser import parse
from tests.unit.changes.debezium_events import (
    ROW,
    SCHEMA,
    SOURCE,
    VALUES,
    body,
    cloudevent,
    event,
    ndjson,
    one,
    record,
    rejected,
    row,
    source,
    wrapped,
)

# --- what is not a change


MARKERS = {
    "heartbeat": {"ts_ms": 1795216233547},
    "transaction": {"status": "BEGIN", "id": "7:1", "event_count": None, "data_collections": None, "ts_ms": 1},
    "message": {
        "op": "m",
        "ts_ms": 1,
        "source": source(schema="", table=""),
        "message": {"prefix": "p", "content": ""},
    },
    "schema_change": {"source": SOURCE, "databaseName": "shop", "schemaName": None, "ddl": "x", "tableChanges": []},
    "tombstone": None,
}


@pytest.mark.parametrize("reason", MARKERS)
@pytest.mark.parametrize("good", list(VALUES.values()), ids=list(VALUES))
def test_markers_are_counted_in_every_envelope(reason: str, good: Any) -> None:
    marker = MARKERS[reason]
    shapes = [marker, wrapped(marker, None), record(marker), record(wrapped(marker, None))]
    for shape in shapes:
        for events in ([shape], [good, shape, good], [shape, shape, good]):
            parsed = parse(body(*events), "auto")
            assert parsed.ignored == {reason: events.count(shape)}
            assert [events[i] for i in parsed.index] == [e for e in events if e is good]
            assert parsed.rejected == []


@pytest.mark.parametrize("envelope", ["flat", "auto"])
def test_a_flattened_message_is_ignored_as_elsewhere(envelope: str) -> None:
    message = {"id": 2, "__op": "m", "__table": "t", "ts": 6}
    for events in ([message], [row(), message, row()], [record(message), record(row())]):
        parsed = parse(body(*events), envelope)
        assert (parsed.ignored, set(parsed.op), parsed.rejected) == ({"message": 1}, {"c"} & {*parsed.op}, [])
    # What is said to be deleted is deleted, whatever else the row says, alone and among others.
    for said in ({"__op": "m"}, {"__op": "x"}, {"__op": None}, {"__op": ""}):
        assert one(row(__deleted="true", **said), envelope).op == "d"
        assert parse(body(row(), row(__deleted="true", **said)), envelope).op == ["c", "d"]


def test_with_an_inline_schema_its_name_tells_a_heartbeat_from_a_row() -> None:
    heartbeat = {"type": "struct", "name": "io.debezium.connector.common.Heartbeat"}
    assert parse(body(wrapped({"ts_ms": 1}, heartbeat)), "auto").ignored == {"heartbeat": 1}
    assert [r.code for r in parse(body(wrapped({"ts_ms": 1})), "auto").rejected] == ["missing_op"]


def test_a_heartbeat_that_a_converter_emptied_is_told_by_its_topic() -> None:
    heartbeat = record(None, {"serverName": "shop"}, "__debezium-heartbeat.shop")
    assert parse(body(heartbeat, record(event())), "auto").ignored == {"heartbeat": 1}


def test_what_only_resembles_a_marker_is_not_guessed_at() -> None:
    assert rejected({"ts_ms": 1, "n": 2})[0] == "missing_op"
    assert rejected({"status": "OPEN", "id": "7"})[0] == "missing_op"
    assert rejected({"status": "BEGIN", "id": "7", "total": 1})[0] == "missing_op"
    assert rejected({"tableChanges": [], "ddl": "", "n": 1})[0] == "missing_op"


# --- rows that look like envelopes


LOOKALIKES = {
    "op": "m", "source": "web", "value": {"op": "c"}, "key": 1, "schema": {"type": "struct"}, "payload": {"op": "d"},
    "before": 1, "after": 2, "ts_ms": 5, "status": "BEGIN", "specversion": "1.0", "ddl": "x", "tableChanges": [],
    "destination": "a.b.c", "headers": [], "message": "m",
}  # fmt: skip


COLUMNS = [
    *({name: value} for name, value in LOOKALIKES.items()),
    LOOKALIKES,
    {"key": 1, "value": 2},
    {"schema": None, "payload": None},
    {"op": "c", "source": SOURCE},
]


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_row_is_not_mistaken_for_an_envelope_by_its_columns(columns: dict[str, Any]) -> None:
    assert json.loads(one(event(after=columns)).after or b"") == columns
    assert json.loads(one(event("d", before=columns)).before or b"") == columns
    change = one(cloudevent(data={"before": None, "after": columns}))
    assert json.loads(change.after or b"") == columns
    metadata = {name: value for name, value in row().items() if name.startswith("__")}
    for flattened in ({**columns, **metadata}, {**metadata, **columns}):
        for shape in (flattened, wrapped(flattened), record(flattened)):
            parsed = parse(body(event(), shape, row(), event()), "auto")
            assert (parsed.flat, parsed.op, parsed.ignored) == ([False, True, True, False], ["c"] * 4, {})
            assert json.loads(parsed.after[1] or b"") == flattened
        assert one(flattened, "flat").table == "orders"


# --- what can't be taken


BROKEN = [
    (5, "not_an_object", ""),
    ("text", "not_an_object", ""),
    ([], "not_an_object", ""),
    ({}, "missing_op", "op"),
    ({**event(), "op": None}, "missing_op", "op"),
    ({k: v for k, v in event().items() if k != "op"}, "missing_op", "op"),
    ({**event(), "op": "x" * 999}, "unknown_op", "x"),
    ({**event(), "op": 5}, "bad_event", "op"),
    ({**event(), "op": ["c"]}, "bad_event", "op"),
    (event(source=None), "missing_table", "source"),
    ({k: v for k, v in event().items() if k != "source"}, "missing_table", "source"),
    (event(source=[1]), "bad_event", "source"),
    (event(source={}), "missing_table", "table"),
    (event(source=source(table=None)), "missing_table", "table"),
    (event(source=source(table="")), "missing_table", "table"),
    (event(source=source(table=5)), "bad_event", "source.table"),
    (event(source=source(schema=[5])), "bad_event", "source.schema"),
    (event(source=source(connector=5)), "bad_event", "source.connector"),
    (event(source=source(ts_ms="now")), "bad_event", "source.ts_ms"),
    (event(source=source(ts_ms=2**63)), "bad_event", "source.ts_ms"),
    (event(source=source(ts_ms=253402300800000)), "bad_event", "source.ts_ms"),  # year 10000: no table holds it
    (row(__source_ts_ms=-62135596800001), "bad_event", "__source_ts_ms"),
    (row(__source_ts_ms=None, __ts_ms=2**62), "bad_event", "__ts_ms"),
    (cloudevent(iodebeziumtsms=str(2**62)), "bad_event", "iodebeziumtsms"),
    (event(source=source(sequence=[1, 2])), "bad_event", "source.sequence"),
    (event(source=source(sequence=None, lsn="x")), "bad_event", "source.lsn"),
    (event(transaction={"total_order": "x"}), "bad_event", "transaction.total_order"),
    (event(transaction={"total_order": 2**64}), "bad_event", "transaction.total_order"),
    (event(after=5), "bad_event", "after"),
    (event(after="text"), "bad_event", "after"),
    (event(after=True), "bad_event", "after"),
    (event("d", before=[1]), "bad_event", "before"),
    (event("d", before=True), "bad_event", "before"),
    (event(after=None), "missing_image", "after"),
    (event("u", after=None, before=ROW), "missing_image", "after"),
    (event("d", before=None), "missing_image", "before"),
    (wrapped([event()]), "not_an_object", "payload"),
    (record([event()]), "not_an_object", "value"),
    (record(event(), destination=5), "bad_event", "destination"),  # type: ignore[arg-type]
    ({"op": "c", "__table": "orders"}, "missing_table", "source"),
    (row(__op=None), "missing_op", "__op"),
    ({**row(), "__op": "x"}, "unknown_op", "__op"),
    (row(__op=5), "bad_event", "__op"),
    (row(__table=None), "missing_table", "__table"),
    (row(__table=5), "bad_event", "__table"),
    (row(__lsn="x"), "bad_event", "__lsn"),
    (row(__source_ts_ms=1.5), "bad_event", "__source_ts_ms"),
    (cloudevent(iodebeziumop=None), "missing_op", "iodebeziumop"),
    (cloudevent(specversion="0.3"), "bad_event", "specversion"),
    (cloudevent(iodebeziumtable=None), "missing_table", "table"),
    (cloudevent(iodebeziumlsn="x"), "bad_event", "iodebeziumlsn"),
    (cloudevent(iodebeziumtsms="x"), "bad_event", "iodebeziumtsms"),
    (cloudevent(data=None), "missing_image", "after"),
    (cloudevent(data="text"), "bad_event", "data"),
    (cloudevent(data={"after": 5}), "bad_event", "after"),
    (cloudevent(data={"schema": SCHEMA, "payload": 5}), "bad_event", "data.payload"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "code", "named"), BROKEN)
def test_a_broken_event_is_rejected_by_name_and_the_good_ones_land(broken: Any, code: str, named: str) -> None:
    assert rejected(broken)[0] == code
    assert named in rejected(broken)[1]
    for good in VALUES.values():
        for text in (body(good, broken, good), ndjson(good, broken, good)):
            parsed = parse(text, "auto", "ndjson" if text.startswith(b"{") else "auto")
            assert parsed.index == [0, 2]
            assert [(r.index, r.code) for r in parsed.rejected] == [(1, code)]


def test_an_event_is_what_it_is_whatever_comes_beside_it() -> None:
    """Read alone, and by one decode with others."""
    named, silent = row(__connector="mysql", __lsn=None), row()
    no_telling = {**row(), "__lsn": None}
    for alone in (silent, no_telling, {**row(), "__file": "b.1", "__pos": 1}, {**no_telling, "__file": "b.1"}):
        for beside in (row(), named, row(__connector="db2"), {**named, "__connector": ""}):
            parsed = parse(body(beside, alone), "flat")
            assert (parsed.connector[-1], parsed.order[-1]) == (one(alone, "flat").connector, one(alone, "flat").order)
    for odd in (cloudevent(__op="c", __table="t"), event(specversion="1.0"), cloudevent(__deleted=5)):
        for good in (cloudevent(), event()):
            alone, among = parse(body(odd), "auto"), parse(body(good, odd), "auto")
            assert (alone.flat, [r.code for r in alone.rejected]) == (among.flat[1:], [r.code for r in among.rejected])
    # With a sequence nothing asks for the LSN.
    assert one(event(source=source(lsn="x"))).order == one(event()).order


def test_a_declared_envelope_takes_no_other_and_says_what_it_sees() -> None:
    assert "envelope: flat" in rejected(row(), "debezium")[1]
    assert "envelope: cloudevents" in rejected(cloudevent(), "debezium")[1]
    assert "envelope: debezium" in rejected(event(), "flat")[1]
    assert rejected(event(), "cloudevents")[0] == "bad_event"


def test_a_delete_without_the_row_needs_the_key() -> None:
    change = one(record(event("d", before=None), {"id": 1}))
    assert (change.before, change.key) == (None, b'{"id": 1}')


def test_one_bad_event_among_a_thousand_costs_only_itself() -> None:
    events = [event() for _ in range(1000)]
    events[500] = event(source=source(ts_ms="x"))
    parsed = parse(body(*events), "debezium")
    assert (len(parsed), [r.index for r in parsed.rejected]) == (999, [500])


def test_an_unknown_envelope_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="debezium, flat, cloudevents, rows, "):
        parse(b"[]", "xml")


def test_connectors_that_nobody_has_heard_of_do_not_pile_up_in_memory() -> None:
    for i in range(300):
        assert one(event(source=source(connector=f"acme-{i}"))).connector == f"acme-{i}"
    assert parser._decoder.cache_info().currsize < 300
