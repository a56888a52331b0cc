"""Rows of a real PostgreSQL through a real Debezium, with inline schema and without, against PostgreSQL's own COPY."""

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from firn.changes.decode.codec import DecodeSettings, RowCodec, declared_column
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.declared_types import parse_declared
from firn.changes.decode.inference import seen_in
from firn.changes.decode.types import Column, parse, storable
from firn.changes.merge.fold import Key, RowChange, fold

CORPUS = Path(__file__).parents[2] / "data" / "corpus" / "spec"
META = json.loads((CORPUS / "final" / "_tables.json").read_text())
RANK = {"t": 0, "d": 1, "r": 2, "c": 3, "u": 4}


# what PostgreSQL's text means


def instant(text: str) -> int | None:
    if text.endswith("BC") or "infinity" in text:
        return None
    moment = datetime.fromisoformat(text)
    gap = moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    return (gap.days * 86400 + gap.seconds) * 1_000_000 + gap.microseconds


def day(text: str) -> int | None:
    return None if text.endswith("BC") or "infinity" in text else (date.fromisoformat(text) - date(1970, 1, 1)).days


def bits(text: str) -> bytes:
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little")


def elements(text: str) -> Iterator[str | None]:
    """The elements of a one-dimensional array in PostgreSQL's text form."""
    position = 1
    while position < len(text) - 1:
        word, quoted = "", text[position] == '"'
        position += quoted
        while text[position] not in ('"' if quoted else ",}"):
            position += text[position] == "\\"
            word += text[position]
            position += 1
        position += 1 + quoted
        yield None if word == "NULL" and not quoted else word


SCALARS: dict[str, Callable[[str], Any]] = {
    "integer": int, "bigint": int, "smallint": int, "oid": int, "s.posint": int, "boolean": lambda t: t == "t",
    "real": float, "double precision": float, "numeric": Decimal, "date": day, "bit": bits, "bit varying": bits,
    "bytea": lambda t: bytes.fromhex(t[2:]), "money": lambda t: Decimal(t.replace("$", "").replace(",", "")),
    "time without time zone": lambda t: t if "." in t else t + ".000000", "timestamp without time zone": instant,
    "timestamp with time zone": instant, "time with time zone": {"12:00:00.5+05:30": "06:30:00.5Z"}.__getitem__,
    "interval": {"1 year 2 mons 3 days 04:05:06.789": 37091106789000, "-1 mons -1 days -00:00:01": -2716201000000}.get,
    "hstore": lambda t: {'"a"=>"1", "b c"=>NULL': '{"a":"1","b c":null}'}[t],
    "point": lambda t: '{"x": 1.5, "y": -2.5, "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAATA", "srid": null}',
}  # fmt: skip


def meaning(kind: str, text: str) -> Any:
    base = kind.split("(")[0] + kind.rpartition(")")[2] if "(" in kind else kind
    if base == "bit" and kind == "bit(1)":
        return text == "1"
    if base.endswith("[]"):
        scalar = SCALARS.get(base[:-2], str)
        return [None if element is None else scalar(element) for element in elements(text)]
    return SCALARS.get(base, str)(text)


def final(table: str) -> dict[Key, dict[str, Any]]:
    kinds = {c["name"]: c["type"] for c in META[table]["columns"]}
    with (CORPUS / "final" / f"{table}.csv").open(newline="") as lines:
        read = [
            {name: None if text == "\\N" else meaning(kinds[name], text) for name, text in row.items()}
            for row in csv.DictReader(lines)
        ]
    return {tuple(row[column] for column in META[table]["pk"]): row for row in read}


# what the events say


def events(file: str, table: str) -> Iterator[tuple[dict[str, Any], bytes | None]]:
    with gzip.open(CORPUS / file, "rt") as lines:
        for line in lines:
            value = json.loads(line)["value"] or {}
            schema = json.dumps(value["schema"]).encode() if "schema" in value else None
            payload = value.get("payload", value) or {}
            if (payload.get("source") or {}).get("table") == table and payload.get("op") in RANK:
                yield payload, schema


def replayed(file: str, table: str, target: tuple[Column, ...] | None) -> dict[Key, dict[str, Any]]:
    """The rows that the events leave. `target` None: the columns of the events' own schema."""
    names = META[table]["pk"]
    changes = []
    codecs: dict[bytes | None, RowCodec] = {}
    for event, schema in events(file, table):
        if schema not in codecs:
            source = columns_of(schema) if schema else None
            codecs[schema] = RowCodec(target or source or (), source, DecodeSettings())
        codec = codecs[schema]
        image = event["before"] if event["op"] == "d" else event["after"]
        commit, lsn = json.loads(event["source"]["sequence"])
        position = int(commit or 0).to_bytes(8, "big") + bytes([event["op"] != "r"]) + int(lsn).to_bytes(8, "big")
        found = codec.decode(json.dumps(image).encode())
        row = dict(zip([c.name for c in codec.target], found.as_literal(), strict=True))
        key = tuple(row[name] for name in names)
        order = position + bytes([RANK[event["op"]]]) + json.dumps(image).encode()
        unavailable = frozenset(codec.target[i].name for i in found.unavailable)
        changes.append(RowChange(event["op"], key, position, order, row, unavailable))
    return {key: dict(row.values) for key, row in fold({}, changes[::-1]).rows.items()}


def assert_equal(table: str, rows: dict[Key, dict[str, Any]], but: frozenset[str] = frozenset()) -> None:
    expected = final(table)
    assert rows.keys() == expected.keys()
    for key, row in expected.items():
        for name, value in row.items():
            if name in but:
                continue
            got = rows[key][name]
            if isinstance(got, str) and isinstance(value, Decimal):
                got = Decimal(got)
            assert repr(got) == repr(value) or (got == value and got.__class__ is value.__class__ is Decimal), (
                key,
                name,
            )


@pytest.mark.parametrize("table", ["types", "docs_default", "docs_full", "orders", "customers", "order_items"])
def test_with_inline_schema_every_column_of_every_row_is_what_postgresql_has(table: str) -> None:
    # Debezium sends no composite types unless it is asked to.
    assert_equal(table, replayed("schema.ndjson.gz", table, None), but=frozenset({"comp"}))


DECLARED = {
    "types": """id int, b boolean, i2 int, i4 int, i8 long, f4 float, f8 double, n0 decimal(20,0), n2 decimal(12,2),
        n38 decimal(38,18), mon decimal(38,2), t string, vc string, ch string, ci string, uid uuid, by binary,
        js string, jb string, xm string, d date, tm time, tm0 time(0), tmtz string, ts timestamp, ts0 timestamp(0),
        ts3 timestamp(3), tstz timestamptz, tstz3 timestamptz(3), iv long, net string, cid string, mac string,
        r4 string, rtz string, nr string, pt string, bt boolean, bt8 binary, vb binary, hs string, lt string, md string,
        dom int, o long, ai list<int>, ai8 list<long>, at list<string>, an list<decimal(10,2)>, atz list<timestamptz>,
        au list<uuid>, ajb list<string>, ad list<date>, ab list<boolean>, amd list<string>, tsv string""",
    "docs_default": "id uuid, body string, meta string, blob binary, tags list<string>, n int",
    "docs_full": "id uuid, body string, meta string, blob binary, tags list<string>, n int",
    "orders": "id long, customer_id int, status string, amount decimal(12,2), placed timestamptz",
}


def declared(text: str) -> tuple[Column, ...]:
    pairs = [word.split() for word in re.split(r",\s+", text)]
    return tuple(declared_column(name, *parse_declared(kind), DecodeSettings()) for name, kind in pairs)


@pytest.mark.parametrize("table", DECLARED)
def test_without_schema_declared_columns_are_what_postgresql_has(table: str) -> None:
    # A numeric without precision travels as {scale, value}, which only a schema tells from JSON; numeric(5,-2) misread.
    but = frozenset({"comp", "n", "nneg"})
    assert_equal(table, replayed("plain.ndjson.gz", table, declared(DECLARED[table])), but)


def test_a_row_that_really_holds_the_placeholder_text_keeps_it() -> None:
    rows = replayed("schema.ndjson.gz", "docs_default", None)
    assert rows["00000000-0000-4000-8000-0000000000bb",]["body"] == "__debezium_unavailable_value"


def test_a_moved_row_gets_its_unchanged_toast_values_from_its_old_key() -> None:
    rows = replayed("plain.ndjson.gz", "docs_default", declared(DECLARED["docs_default"]))
    moved = rows["00000000-0000-4000-8000-0000000000aa",]
    assert moved == final("docs_default")["00000000-0000-4000-8000-0000000000aa",]


def test_without_schema_and_declaration_columns_are_inferred_and_all_images_decode() -> None:
    images = [json.dumps(e["after"] or e["before"]).encode() for e, _ in events("plain.ndjson.gz", "types")]
    columns = [replace(column, type=storable(column.type)) for column in seen_in(images)]
    kinds = {c.name: c.type for c in columns}
    assert kinds["b"] == parse("boolean")
    assert kinds["f8"] == parse("double")
    assert kinds["i8"] == kinds["ts"] == parse("long")
    assert kinds["ai"] == kinds["n2"] == kinds["pt"] == parse("string")
    codec = RowCodec(columns, None, DecodeSettings(out_of_range="dead_letter"))
    for image in images:
        row = json.loads(image)
        for column, value in zip(columns, codec.decode(image).values, strict=True):
            if isinstance(row[column.name], list | dict):
                assert json.loads(value) == row[column.name]
            elif row[column.name] not in ("NaN", "Infinity", "-Infinity"):
                assert value == row[column.name]
