"""Lines of wal2json as pgoutput's messages; tests/integration/sources/test_wal2json.py compares the two for real."""

import json
import random
from contextlib import suppress

import pytest

from firn.sources.postgres import pgoutput
from firn.sources.postgres.pgoutput import UnreadableMessage
from firn.sources.postgres.row_form import UNCHANGED, SourceColumn
from firn.sources.postgres.wal2json_lines import CatalogColumn, CatalogTable, LineReader
from tests.soak import times

AT = {"xid": 7, "timestamp": "2026-03-01 12:00:00.123456+00", "lsn": "1/10"}
ID = {"name": "id", "type": "integer", "typeoid": 23}
TEXT = {"name": "v", "type": "text", "typeoid": 25}
BOTH = (CatalogColumn("id", 23, -1, True, False, True), CatalogColumn("v", 25, -1, True, True, False))
ITEMS = CatalogTable(16384, "public", "items", False, "d", BOTH)


def line(action: str, table: str = "items", **more) -> bytes:
    return json.dumps({"action": action, "schema": "public", "table": table, **AT, **more}).encode()


def read(*lines: bytes, catalog=None, wants=lambda _: True) -> list[pgoutput.Message]:
    tables = {("public", "items"): ITEMS} if catalog is None else catalog
    reader = LineReader(lambda schema, table: tables.get((schema, table)), wants)
    return [message for _, _, message in reader.messages((number, one) for number, one in enumerate(lines))]


def value(column: dict, text) -> dict:
    return column | {"value": text}


def test_a_transaction_and_its_changes() -> None:
    found = read(
        json.dumps({"action": "B", **AT, "nextlsn": "1/20"}).encode(),
        line("I", columns=[value(ID, 1), value(TEXT, "x")], pk=[ID]),
        line("U", columns=[value(ID, 1)], identity=[value(ID, 1)], pk=[ID]),
        line("D", identity=[value(ID, 1)], pk=[ID]),
        line("T"),
        json.dumps({"action": "C", **AT, "nextlsn": "1/20"}).encode(),
    )
    begin, relation, insert, update, delete, truncate, commit = found
    assert begin == pgoutput.Begin(2**32 + 16, 1_772_366_400_123, 7)
    assert relation.columns == (SourceColumn("id", 23), SourceColumn("v", 25))
    assert (relation.key, relation.identity) == ((0,), "d")
    assert insert.new == (b"1", b"x")
    assert update.new == (b"1", UNCHANGED)
    assert (delete.old, delete.old_is_key) == ((b"1", None), True)
    assert truncate.relations == (16384,)
    assert commit == pgoutput.Commit(2**32 + 16, 2**32 + 32, 1_772_366_400_123)


@pytest.mark.parametrize(
    ("column", "said", "modifier", "text"),
    [
        ({"type": "numeric(10,2)", "typeoid": 1700}, 1.5, (10 << 16 | 2) + 4, b"1.5"),
        ({"type": "numeric(3,-2)", "typeoid": 1700}, 12300, (3 << 16 | 0x7FE) + 4, b"12300"),
        ({"type": "numeric", "typeoid": 1700}, "NaN", -1, b"NaN"),
        ({"type": "bit(4)", "typeoid": 1560}, "1010", 4, b"1010"),
        ({"type": "bit varying(6)[]", "typeoid": 1563}, "{11}", 6, b"{11}"),
        ({"type": "bytea", "typeoid": 17}, "00ff", -1, b"\\x00ff"),
        ({"type": "secret", "typeoid": 16388}, "\\x00ff", -1, b"\\x00ff"),
        ({"type": "boolean", "typeoid": 16}, True, -1, b"t"),
        ({"type": "text", "typeoid": 25}, "true", -1, b"true"),
        ({"type": "text", "typeoid": 25}, None, -1, None),
    ],
)
def test_a_value_is_the_text_of_its_output_function(column: dict, said, modifier: int, text: bytes | None) -> None:
    [relation, insert] = read(line("I", "gone", columns=[{"name": "c", **column, "value": said}]))
    assert relation.columns[0].modifier == modifier
    assert insert.new == (text,)


def test_what_is_generated_dropped_or_came_later_is_not_sent() -> None:
    columns = (
        *BOTH,
        CatalogColumn("twice", 23, -1, False, False, False),
        CatalogColumn("at", 23, -1, True, False, False),
    )
    catalog = {("public", "items"): CatalogTable(1, "public", "items", False, "d", columns)}
    gone, twice = {"name": "gone", "type": "text", "typeoid": 25}, {"name": "twice", "type": "integer", "typeoid": 23}
    said = [value(ID, 1), value(gone, "g"), value(twice, 2)]
    [relation, update] = read(line("U", columns=said, identity=[value(ID, 1)], pk=[ID]), catalog=catalog)
    assert [one.name for one in relation.columns] == ["id", "v", "gone"]
    assert update.new == (b"1", UNCHANGED, b"g")


def test_a_partition_goes_by_its_roots_name_and_is_not_truncated_by_itself() -> None:
    catalog = {("public", "p1"): CatalogTable(2, "public", "p", True, "d", BOTH)}
    found = read(line("I", "p1", columns=[value(ID, 1), value(TEXT, "x")], pk=[ID]), line("T", "p1"), catalog=catalog)
    assert (found[0].schema, found[0].table) == ("public", "p")
    assert found[2] == pgoutput.Skipped("public.p", "truncated_partition")


def test_what_the_stream_does_not_take_is_left_out_and_counted() -> None:
    found = read(line("I", columns=[value(ID, 1)]), line("T"), wants=lambda name: name != "public.items")
    assert found == [pgoutput.Skipped("public.items", "filtered_table")] * 2


@pytest.mark.parametrize("seed", range(times(3, 60)))
def test_a_line_that_is_broken_stops_the_source_and_nothing_else_comes_of_it(seed: int) -> None:
    draw = random.Random(seed)
    good = [
        json.dumps({"action": "B", **AT, "nextlsn": "1/20"}).encode(),
        line("U", columns=[value(ID, 1), value(TEXT, "\u00e9\n")], identity=[value(ID, 2)], pk=[ID]),
        line("T"),
    ]
    for _ in range(300):
        one = bytearray(draw.choice(good))
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(one))
            one[at : at + draw.randrange(3)] = draw.randbytes(draw.randrange(3))
        with suppress(UnreadableMessage):
            read(bytes(one))


def test_a_text_that_is_no_utf8_is_left_to_its_row() -> None:
    broken = line("I", columns=[value(ID, 1), value(TEXT, "xyz")]).replace(b"xyz", b"x\xffz")
    assert read(broken)[1].new == (b"1", b"\xff")
