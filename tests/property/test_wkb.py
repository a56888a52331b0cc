"""Geometries as sources write them become WKB of ISO, whatever they are made of."""

import json
import struct
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firn.changes.decode.converters import converter
from firn.changes.decode.exact_values import convert_exactly
from firn.changes.decode.types import Encoding, parse
from firn.changes.decode.values import Refused
from firn.changes.decode.wkb import MAX_DEPTH, iso_wkb, wkb_of

KINDS = {"point": [1], "points": [2, 8], "rings": [3, 17], "parts": [4, 5, 6, 7, 9, 10, 11, 12, 15, 16]}
Shape = tuple[int, Any]  # kind, and its coordinates, points, rings or parts


def shapes() -> st.SearchStrategy[Shape]:
    point = st.lists(st.floats(width=64), min_size=4, max_size=4)
    points = st.lists(point, max_size=3)
    flat = st.one_of(
        st.tuples(st.sampled_from(KINDS["point"]), point),
        st.tuples(st.sampled_from(KINDS["points"]), points),
        st.tuples(st.sampled_from(KINDS["rings"]), st.lists(points, max_size=2)),
    )
    return st.recursive(flat, lambda inner: st.tuples(st.sampled_from(KINDS["parts"]), st.lists(inner, max_size=3)))


def written(shape: Shape, z: bool, m: bool, order: str, srid: int | None, *, flags: bool) -> bytes:
    """The shape in WKB: of PostGIS (`flags`), else of ISO."""
    kind, what = shape
    code = kind
    if flags:
        code |= (0x8000_0000 if z else 0) | (0x4000_0000 if m else 0) | (0x2000_0000 if srid is not None else 0)
    else:
        code += 1000 * z + 2000 * m
    out = bytes([order == "<"]) + struct.pack(f"{order}I", code)
    if flags and srid is not None:
        out += struct.pack(f"{order}I", srid)

    def several(things: list[Any], one: Any) -> bytes:
        return struct.pack(f"{order}I", len(things)) + b"".join(map(one, things))

    def point(of: list[float]) -> bytes:
        return struct.pack(f"{order}{2 + z + m}d", *of[: 2 + z + m])

    if kind in KINDS["point"]:
        return out + point(what)
    if kind in KINDS["points"]:
        return out + several(what, point)
    if kind in KINDS["rings"]:
        return out + several(what, lambda ring: several(ring, point))
    return out + several(what, lambda part: written(part, z, m, order, None, flags=flags))


ORDERS = st.sampled_from("<>")
SRIDS = st.none() | st.integers(0, 2**32 - 1)


@given(shapes(), st.booleans(), st.booleans(), ORDERS, SRIDS)
def test_what_postgis_writes_becomes_what_iso_writes(
    shape: Shape, z: bool, m: bool, order: str, srid: int | None
) -> None:
    theirs = written(shape, z, m, order, srid, flags=True)
    iso = written(shape, z, m, order, srid, flags=False)
    assert iso_wkb(theirs) == iso
    assert iso_wkb(iso) == iso


@given(shapes(), st.booleans(), ORDERS, SRIDS, st.data())
def test_every_form_of_a_value_gives_the_same_bytes(
    shape: Shape, z: bool, order: str, srid: int | None, data: st.DataObject
) -> None:
    theirs = written(shape, z, False, order, srid, flags=True)
    text = b64encode(theirs).decode()
    member = {"x": 1.5, "y": 2, "wkb": text, "srid": srid}
    forms = [text, text.rstrip("="), urlsafe_b64encode(theirs).decode(), theirs.hex(), theirs.hex().upper(), member]
    form = data.draw(st.sampled_from([*forms, json.dumps(member)]))
    kind, source = parse("binary"), Encoding("geometry")
    assert converter(kind, source)(form) == iso_wkb(theirs)
    assert convert_exactly(kind, source, json.dumps(form).encode(), nulls=True) == iso_wkb(theirs)


@given(shapes(), st.booleans(), ORDERS, SRIDS, st.data())
def test_bytes_that_are_cut_or_have_more_behind_are_refused(
    shape: Shape, z: bool, order: str, srid: int | None, data: st.DataObject
) -> None:
    whole = written(shape, z, False, order, srid, flags=True)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for wrong in (cut, whole + data.draw(st.binary(min_size=1, max_size=9))):
        with pytest.raises(Refused):
            iso_wkb(wrong)


@given(st.binary(max_size=60))
@example(b"\x01\x02\x00\x00\x00\xff\xff\xff\xff")  # four thousand million points
@example(b"\x01\x03\x00\x00\x00\xff\xff\xff\xff")
@example(b"\x01\x07\x00\x00\x00\xff\xff\xff\xff")
@example(b"\x01\x01\x00\x00\xc0" + bytes(32))
@example(b"\x01\xa1\x0f\x00\x00" + bytes(32))  # kind 4001
@example(b"\x01\xe9\x03\x00\x80" + bytes(32))  # a Z by both
def test_any_bytes_are_a_geometry_or_refused(data: bytes) -> None:
    try:
        found = iso_wkb(data)
    except Refused:
        return
    assert iso_wkb(found) == found


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20), lambda x: st.lists(x, max_size=2)
       | st.dictionaries(st.sampled_from(["wkb", "srid", "type"]), x, max_size=2)))  # fmt: skip
@example("{" * 100_000)
@example('{"wkb":' * 100_000)
@example({"type": "Point", "coordinates": [1, 2]})
@example("POINT (1 2)")
@example("0 1")
def test_no_other_value_is_a_geometry(value: Any) -> None:
    with pytest.raises(Refused):
        wkb_of(value)


def nested(depth: int) -> bytes:
    return b"\x01\x07\x00\x00\x00\x01\x00\x00\x00" * depth + b"\x01\x07\x00\x00\x00\x00\x00\x00\x00"


def test_collections_may_be_in_one_another_to_a_bound() -> None:
    assert iso_wkb(nested(MAX_DEPTH - 2)) == nested(MAX_DEPTH - 2)
    for depth in (MAX_DEPTH, 400_000):
        with pytest.raises(Refused, match=f"more than {MAX_DEPTH} deep"):
            iso_wkb(nested(depth))


@pytest.mark.parametrize(
    ("ewkb", "text"),
    [
        ("0101000020E6100000000000000000F83F00000000000004C0", "POINT (1.5 -2.5)"),  # SRID=4326
        ("01010000A0E6100000000000000000F03F00000000000000400000000000000840", "POINT Z (1 2 3)"),
        ("0020000001000010E63FF80000000000004004000000000000", "POINT (1.5 2.5)"),  # big-endian
        ("0107000020110F000001000000010100000000000000000000000000000000000000", "GEOMETRYCOLLECTION (POINT (0 0))"),
    ],
)
def test_duckdb_reads_what_becomes_of_postgis(ewkb: str, text: str) -> None:
    data = iso_wkb(bytes.fromhex(ewkb))
    assert duckdb.sql("SELECT ST_AsText(ST_GeomFromWKB(?::BLOB))", params=[data]).fetchall() == [(text,)]
