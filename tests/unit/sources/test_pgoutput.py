"""pgoutput's messages: those that PostgreSQL 15 sent (tests/data/pgoutput), random ones, and broken ones."""

import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.sources.postgres import pgoutput
from firn.sources.postgres.pgoutput import Relation, UnreadableMessage
from firn.sources.postgres.row_form import UNCHANGED, RowForm, SourceColumn
from firn.sources.postgres.transaction_changes import ChangeReader, KnownTable
from firn.sources.postgres.type_catalog import PgType, TypeCatalog
from tests.unit.sources import wal
from tests.unit.sources.replay import Replay

DATA = Path(__file__).parents[2] / "data" / "pgoutput"
TYPES = TypeCatalog({int(oid): PgType(*one) for oid, one in json.loads((DATA / "types.json").read_text()).items()})
FINAL = json.loads((DATA / "final.json").read_text())
USUAL = DecodeSettings()
KEYS = {"keys": ("id",), "full": ("id",), "toasted_full": ("id",)}


def recorded() -> list[tuple[int, bytes]]:
    lines = (DATA / "recording.ndjson").read_text().splitlines()
    return [(one["lsn"], bytes.fromhex(one["data"])) for one in map(json.loads, lines)]


def replayed(reader: ChangeReader):
    """The tables after all changes, by their names without schema."""
    parsed = reader.take()
    assert parsed.rejected == []
    tables = Replay(USUAL).apply(map(msgspec.structs.asdict, parsed.changes())).tables
    return {name.partition(".")[2]: rows for name, rows in tables.items()}


def test_the_recorded_changes_lead_to_the_recorded_tables() -> None:
    reader = ChangeReader(USUAL, lambda table: KnownTable(TYPES, KEYS.get(table.table)), 1 << 20)
    relations: dict[str, Relation] = {}
    for lsn, data in recorded():
        message = pgoutput.decode(data)
        reader.read(lsn, data, message)
        if isinstance(message, Relation):
            relations[message.table] = message
    tables = replayed(reader)
    assert set(tables) == set(FINAL)
    for name, final in FINAL.items():
        known = {column.name: column for column in relations[name].columns}
        form = RowForm([known.get(column, SourceColumn(column, 25)) for column in final["columns"]], TYPES, USUAL)
        columns = columns_of(form.schema)
        codec = RowCodec(columns, columns, USUAL)
        wanted = []
        for row in final["rows"]:
            image = form.image([None if value is None else value.encode() for value in row])
            wanted.append(dict(zip(final["columns"], codec.decode(image).values, strict=True)))
        found = [{column: row.get(column) for column in final["columns"]} for row in tables[name].values()]
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), name


def test_what_was_recorded_holds_each_kind_of_change() -> None:
    reader = ChangeReader(USUAL, lambda table: KnownTable(TYPES, KEYS.get(table.table)), 1 << 20)
    for lsn, data in recorded():
        reader.read(lsn, data, pgoutput.decode(data))
    parsed = reader.take()
    assert set(parsed.op) == {"c", "u", "d", "t"}
    rows = list(parsed.changes())
    places = [(json.loads(row.order), row.tx_order) for row in rows]
    assert len(set(map(repr, places))) == len(rows)
    # One insert of several rows may be one record of the WAL: only the number tells them apart.
    assert len({repr(order) for order, _ in places}) < len(rows)
    # By commits, and inside of one by its own order.
    assert [place[0][0] for place in places] == sorted(place[0][0] for place in places)
    assert {row.table for row in rows if row.op == "t"} == {"rec.emptied_a", "rec.emptied_b"}
    assert not any(row.table.startswith("rec.parts_") for row in rows)
    full = [row for row in rows if row.table == "rec.toasted_full"]
    assert not any(b"__firn_unavailable__" in (row.after or b"") for row in full)
    assert any(b"__firn_unavailable__" in (row.after or b"") for row in rows if row.table == "rec.toasted")


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
values = st.one_of(st.none(), st.just(UNCHANGED), st.binary(max_size=30))
rows = st.lists(values, max_size=6).map(tuple)
oids = st.integers(1, 2**32 - 1)
columns = st.lists(st.builds(SourceColumn, names, oids, st.integers(-1, 2**31 - 1)), max_size=6).map(tuple)


@st.composite
def messages(draw) -> tuple[bytes, pgoutput.Message]:
    match draw(st.integers(0, 6)):
        case 0:
            lsn, xid = draw(st.integers(0, 2**63 - 1)), draw(st.integers(0, 2**31 - 1))
            return wal.begin(lsn, xid), pgoutput.Begin(lsn, 1_767_139_200_000, xid)
        case 1:
            lsn = draw(st.integers(0, 2**62))
            return wal.commit(lsn, lsn + 48), pgoutput.Commit(lsn, lsn + 48, 1_767_139_200_000)
        case 2:
            told = draw(columns)
            key = tuple(place for place in range(len(told)) if draw(st.booleans()))
            one = Relation(draw(oids), draw(names), draw(names), draw(st.sampled_from("dfin")), told, key)
            return wal.relation(one), one
        case 3:
            oid, new = draw(oids), draw(rows)
            return wal.insert(oid, new), pgoutput.Insert(oid, new)
        case 4:
            oid, new, old, mark = draw(oids), draw(rows), draw(st.none() | rows), draw(st.sampled_from([b"K", b"O"]))
            return wal.update(oid, new, old, mark), pgoutput.Update(oid, old, old is not None and mark == b"K", new)
        case 5:
            oid, old, mark = draw(oids), draw(rows), draw(st.sampled_from([b"K", b"O"]))
            return wal.delete(oid, old, mark), pgoutput.Delete(oid, old, mark == b"K")
        case _:
            some = tuple(draw(st.lists(oids, max_size=4)))
            return wal.truncate(*some), pgoutput.Truncate(some)


@settings(deadline=None)
@given(messages())
def test_every_message_is_read_as_it_was_written_and_no_piece_of_it_is(message) -> None:
    data, wanted = message
    assert pgoutput.decode(data) == wanted
    for end in range(len(data)):
        with pytest.raises(UnreadableMessage):
            pgoutput.decode(data[:end])
    with pytest.raises(UnreadableMessage):
        pgoutput.decode(data + b"\0")


@settings(deadline=None)
@given(
    st.binary(max_size=60)
    | st.tuples(st.sampled_from(b"BCRYIUDTOM"), st.binary(max_size=60)).map(lambda p: bytes([p[0]]) + p[1])
)
def test_any_bytes_are_a_message_or_unreadable(data: bytes) -> None:
    with suppress(UnreadableMessage):
        pgoutput.decode(data)


def test_a_row_that_can_not_be_taken_is_a_dead_letter_and_the_others_go_on() -> None:
    reader = ChangeReader(USUAL, lambda table: KnownTable(TYPES), 100)
    rows = [(b"1", b"good"), (b"2", b"\xff"), (b"3", b"x" * 200), (b"4", b"good")]
    messages = [wal.begin(500), wal.relation(wal.ITEMS), *(wal.insert(wal.ITEMS.oid, row) for row in rows)]
    for lsn, data in enumerate(messages):
        reader.read(lsn, data, pgoutput.decode(data))
    parsed = reader.take()
    assert parsed.index == [0, 3]
    assert parsed.tx_order == [1, 4]
    assert [(one.index, one.code) for one in parsed.rejected] == [(1, "bad_image"), (2, "event_too_large")]
    assert "xxx" not in parsed.rejected[1].message
    original = json.loads(parsed.rejected[0].original)
    assert original["source"] == {"connector": "postgresql", "table": "public.items", "sequence": ["500", "3"]}


def test_a_change_of_nothing_that_was_told_stops_the_reading() -> None:
    reader = ChangeReader(USUAL, lambda table: KnownTable(TYPES), 100)
    with pytest.raises(UnreadableMessage, match="did not say which it is"):
        reader.read(1, b"", pgoutput.Insert(7, (b"1",)))
    reader.read(1, b"", wal.ITEMS)
    with pytest.raises(UnreadableMessage, match="outside of a transaction"):
        reader.read(1, b"", pgoutput.Insert(wal.ITEMS.oid, (b"1", None)))
