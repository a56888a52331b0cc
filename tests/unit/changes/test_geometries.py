"""Geometries in columns that are declared for them: what Debezium's objects become, with a schema and without one."""

import json
from typing import Any

import pytest

from firn.changes.decode.codec import RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.declared_types import parse_declared
from firn.changes.decode.source_encodings import DecodeSettings, declared_column
from firn.changes.decode.types import parse
from firn.errors import EventError
from tests.mariadb_corpus import CORPUS, final, records

EWKB = "AQEAACDmEAAAAAAAAAAA+D8AAAAAAAAEwA=="  # SRID=4326;POINT(1.5 -2.5)
ISO = bytes.fromhex("0101000000000000000000f83f00000000000004c0")
FAR_AWAY = {"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": 4326}
KIND_OF = {"wkb": ISO, "struct<wkb: wkb, srid: int>": {"wkb": ISO, "srid": 4326}}
BOTH = pytest.mark.parametrize("schema", [True, False])


def codec(kind: str, schema: bool) -> RowCodec:
    told, precision = parse_declared(kind)
    target = [declared_column("g", told, precision, DecodeSettings())]
    field = {"field": "g", "type": "struct", "name": "io.debezium.data.geometry.Geometry", "optional": True}
    row = {"type": "struct", "fields": [field], "field": "after"}
    source = columns_of(json.dumps({"type": "struct", "fields": [row]}).encode()) if schema else None
    return RowCodec(target, source, DecodeSettings())


def decoded(kind: str, schema: bool, value: Any) -> Any:
    return codec(kind, schema).decode(json.dumps({"g": value}).encode())


@BOTH
@pytest.mark.parametrize("kind", KIND_OF)
def test_a_geometry_becomes_its_wkb(kind: str, schema: bool) -> None:
    assert decoded(kind, schema, {"wkb": EWKB, "srid": 4326}).values == [KIND_OF[kind]]
    assert decoded(kind, schema, None).values == [None]


@BOTH
def test_a_point_keeps_its_members_where_these_are_declared(schema: bool) -> None:
    value = {"x": 1.5, "y": -2, "wkb": EWKB, "srid": None}
    found = decoded("struct<x: double, y: double, wkb: wkb>", schema, value)
    assert found.values == [{"x": 1.5, "y": -2.0, "wkb": ISO}]


def test_without_a_word_of_it_a_geometry_stays_its_text() -> None:
    found = decoded("string", True, {"wkb": EWKB, "srid": 4326})
    assert json.loads(found.values[0]) == {"wkb": EWKB, "srid": 4326}


@BOTH
@pytest.mark.parametrize("kind", KIND_OF)
def test_the_far_away_point_says_that_the_value_is_unavailable(kind: str, schema: bool) -> None:
    found = decoded(kind, schema, FAR_AWAY)
    assert (found.values, found.unavailable) == ([None], (0,))


@BOTH
@pytest.mark.parametrize("kind", KIND_OF)
@pytest.mark.parametrize("wkb", ["AQ==", "AQEAAAA", "no base64!", 5, {}, EWKB + "AA==", EWKB[:-8]])
def test_what_is_no_geometry_is_refused_by_the_columns_name(kind: str, schema: bool, wkb: Any) -> None:
    with pytest.raises(EventError, match="g") as refused:
        decoded(kind, schema, {"wkb": wkb, "srid": 4326})
    assert refused.value.code == "type_mismatch"
    assert str(wkb) not in str(refused.value) or wkb in (5, {})


@pytest.mark.parametrize("word", ["geometry", "geography", "geometry(srid:4326)", "Geography(OGC:CRS84, spherical)"])
def test_icebergs_own_types_are_refused_with_what_to_write(word: str) -> None:
    with pytest.raises(ValueError, match=r"Spark 4\.0 opens no table .*; write wkb .*struct<wkb: wkb, srid: int>"):
        parse_declared(word)
    with pytest.raises(ValueError, match="write wkb"):
        parse(f"list<{word}>")


def test_every_geometry_of_mariadb_is_the_sources() -> None:
    names = ("p", "ls", "pg", "g", "mp", "gc", "psrid")
    target = [declared_column("id", parse("int"), None, DecodeSettings())]
    target += [declared_column(name, parse("struct<wkb: wkb, srid: int>"), None, DecodeSettings()) for name in names]
    decoder, rows = RowCodec(target, None, DecodeSettings()), {}
    for record in records(CORPUS / "plain.ndjson.gz"):
        value = record["value"] or {}
        if value.get("source", {}).get("table") == "t_geo" and value.get("after"):
            key, *shapes = decoder.decode(json.dumps(value["after"]).encode()).as_literal()
            rows[key,] = dict(zip(names, shapes, strict=True))

    def text(shape: Any) -> str | None:
        return None if shape is None else f"SRID={shape['srid'] or 0};{shape['wkb'].hex()}"

    found = {key: {name: text(shape) for name, shape in row.items()} for key, row in rows.items()}
    assert found == {key: {name: row[name] for name in names} for key, row in final("t_geo").items()}
    assert len(found) > 1
