"""Decoding by columns gives the rows that decoding one by one gives, dead letters and all: for drawn images, and for
every corpus in every encoding."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.decode.codec import DecodeSettings, declared_column
from firn.changes.decode.row_decoder import READ, AppendDecoder, Decoder, Decoding, MirrorDecoder
from firn.changes.decode.types import Column, Encoding, Type, decimal, parse, storable
from firn.changes.envelopes.parser import parse as parse_events
from firn.changes.merge.ordering import Order
from firn.log.batches import BatchMeta, write_batch
from firn.tables.batch_facts import TableFacts, collected
from firn.tables.planning import plan_columns
from firn_spark.staged import columnar
from firn_spark.staged.decode import decoded, decoded_schema
from firn_spark.staged.packed import CHANGES
from firn_spark.staged.read import SealedBatch, rows_of
from firn_sql.nano_texts import row_values
from tests.property.test_codec import JSON, SETTINGS, TYPES
from tests.soak import times

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "data" / "corpus" / "spec"
META = json.loads((CORPUS / "final" / "_tables.json").read_text())
DECODERS = [MirrorDecoder, AppendDecoder]
READ_SCHEMA = pa.schema([CHANGES.field(name) for name in READ])


def one_by_one(batch: pa.RecordBatch, decoding: Decoding, decoder: Callable[[Decoding], Decoder]) -> list[str]:
    one = decoder(decoding)
    rows = [row for change in batch.to_pylist() for row in one.rows(change)]
    if not rows:
        return []
    schema = decoded_schema(decoding)
    arrays = [pa.array(v, field.type) for v, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return sorted(map(repr, row_values(pa.RecordBatch.from_arrays(arrays, schema=schema))))


def by_columns(batch: pa.RecordBatch, decoding: Decoding, decoder: Callable[[Decoding], Decoder]) -> list[str]:
    found = list(decoded([batch], decoding, decoder))
    assert all(part.schema == decoded_schema(decoding) for part in found)
    return sorted(repr(row) for part in found for row in row_values(part))


# values of the forms that vectors take, to their very ends and one beyond


def around(low: int, high: int) -> st.SearchStrategy[Any]:
    return st.sampled_from([low - 1, low, high, high + 1, 0]) | st.integers(low - 1, high + 1)


def forms(*likely: str, pattern: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(likely) | st.from_regex(pattern, fullmatch=True)


MICROS = around(-62_135_596_800_000_000, 253_402_300_799_999_999)
NANOS = around(-(2**63), 2**63 - 1) | around(-(2**63) // 1000, 2**63 // 1000)
NANO_TIMES = forms(
    "1677-09-21T00:12:43.145224191", "1677-09-21T00:12:43.145224192Z", "2262-04-11T23:47:16.854775807",
    "2262-04-11T23:47:16.854775808Z", "1969-12-31T23:59:59.999999999Z", "2024-02-29T23:59:59.1234567890",
    "2299-12-31T00:00:00Z", "1700-01-01 00:00:00+00", "2024-02-30T00:00:00Z",
    pattern=r"(1[67]|2[012])[0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,10})?(Z|\+00)?",
)  # fmt: skip
MILLIS = around(-62_135_596_800_000, 253_402_300_799_999)
TIMES = forms(
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0000-12-31T00:00:00Z", "2024-02-30T00:00:00Z",
    "2024-02-29T23:59:59.1234567Z", "2024-02-29T23:59:59.1234560Z", "2024-02-29T23:59:59Z\n", "2024-02-29 23:59:59Z",
    "2024-02-29 23:59:59.5+00", "2024-02-29T23:59:59+01", "0000-01-01 00:00:00+00",
    "2024-02-29T23:59:60Z", "2024-02-29T24:00:00Z", "2024-02-29T23:59:59", "2024-02-29T23:59:59.1", "2024-02-29T23:59",
    pattern=r"[012][0-9]{3}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,7})?(Z|\+00)?",
)  # fmt: skip
DAYS = forms("2024-02-30", "0000-01-01", "2024-02-29Z", pattern=r"[012][0-9]{3}-[01][0-9]-[0-3][0-9]")
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat() + "Z")
LOCAL = st.datetimes().map(lambda moment: moment.isoformat())
NUMBERS = forms(
    "0", "-0", "-0.00", "0.5", ".5", "5.", "99.99", "-99.99", "99.999", "100.00", "0100.00", "099.99", "1e1", "+1.50",
    "12345", "-12345", "012345", "0.123", "1.123", "00.12", " 1.5", "1.5\n", "NaN", "1.50",
    pattern=r"-?[0-9]{0,5}(\.[0-9]{0,4})?(e1)?",
)  # fmt: skip
UUIDS = st.uuids().map(str) | st.uuids().map(lambda it: str(it).upper()) | st.sampled_from(["", "0" * 36])
REALS = st.floats(allow_nan=False) | around(-(2**53), 2**53) | st.sampled_from([-0.0, 1e308, 2.0**60, "NaN"])
PLAIN = {
    "boolean": st.booleans() | st.integers(0, 2),
    "int": around(-(2**31), 2**31 - 1),
    "long": around(-(2**63), 2**63 - 1),
    "float": REALS | st.floats(width=32, allow_nan=False),
    "double": REALS,
    "date": around(-719_162, 2_932_896) | st.dates().map(str) | DAYS,
    "timestamp": MICROS | MILLIS | TIMES | LOCAL,
    "timestamptz": MICROS | MILLIS | TIMES | MOMENTS,
    "timestamp_ns": NANOS | MICROS | MILLIS | NANO_TIMES | LOCAL,
    "timestamptz_ns": NANOS | MICROS | MILLIS | NANO_TIMES | MOMENTS,
    "string": st.text(max_size=8) | st.integers(),
    "uuid": UUIDS,
    "decimal": NUMBERS | st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str) | st.integers(),
}
# Of columns that an image does not name (Column.default).
DEFAULTS = {"long": -5, "string": "ä", "timestamptz": 1, "date": 2, "boolean": False, "uuid": "0" * 36, "binary": b"\0"}
KINDS = TYPES.map(storable) | st.sampled_from(
    [decimal(4, 2), decimal(5, 0), decimal(3, 3), *map(parse, ("long", "timestamptz", "timestamp", "string", "uuid"))]
)


@st.composite
def columns(draw: Any, settings: DecodeSettings) -> list[Column]:
    kinds = draw(st.lists(KINDS, min_size=1, max_size=3))
    names = ["id", "b", "c"]
    declared = [declared_column(name, kind, None, settings) for name, kind in zip(names, kinds, strict=False)]
    inferred = [Column(column.name, column.type, source=Encoding("any")) for column in declared]
    key, *others = declared if draw(st.booleans()) else inferred
    usual = [draw(st.sampled_from([None, DEFAULTS.get(column.type.name)])) for column in others]
    return [key, *(replace(column, default=one) for column, one in zip(others, usual, strict=True))]


def plain(kind: Type) -> Any:
    return PLAIN.get(kind.name, JSON)


@st.composite
def images(draw: Any, columns: list[Column], odd: bool) -> str:
    row = {}
    for column in columns:
        if draw(st.integers(0, 9)):
            row[column.name] = draw(st.none() | plain(column.type) | JSON if odd else plain(column.type))
    spaces = draw(st.sampled_from([None, None, 1])) if odd else None
    text = json.dumps(row, ensure_ascii=draw(st.booleans()), indent=spaces)
    if odd and not draw(st.integers(0, 9)):
        text = draw(
            st.sampled_from([json.dumps(text), "{}" + text, text + "{", "}", "", "[]", "null", text[:-1], " " + text])
        )
    return text.encode(errors="replace").decode()


@st.composite
def batches(draw: Any, columns: list[Column]) -> pa.RecordBatch:
    odd = draw(st.booleans())
    rows = []
    for index in range(draw(st.integers(1, 6))):
        op = draw(st.sampled_from("cuuudr" if not odd else "cuuddrt"))
        image = images(columns, odd)
        before, after = (draw(image), None) if op == "d" else (None, draw(image))
        if op == "u" and draw(st.booleans()):
            before = after if draw(st.booleans()) else draw(image)
        if odd:
            before, after = (draw(st.sampled_from([it, it, it, None])) for it in (before, after))
        key = draw(st.none() | image) if op == "d" else None
        rows.append(
            {"epoch": 1, "batch": "b", "index": index, "op": op, "ts": index, "pos": b"p", "ord": bytes([1, index]),
             "fault": draw(st.sampled_from([None, None, None, "bad_position"])) if odd else None, "fault_text": "why",
             "tx_order": None, "occurrence": 0, "origin": None, "flat": False, "key": key, "before": before,
             "after": after, "schema_id": None}
        )  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, READ_SCHEMA)


@settings(max_examples=times(17, 5_000, 300))
@given(st.data(), SETTINGS, st.sampled_from(DECODERS), st.booleans())
def test_whatever_the_images_hold_columns_say_what_rows_say(
    data: Any, settings: DecodeSettings, decoder: Callable[[Decoding], Decoder], snapshot_reads: bool
) -> None:
    target = tuple(data.draw(columns(settings)))
    no_key = data.draw(st.sampled_from([None, None, None, "there is none"]))
    decoding = Decoding(target, (0,), settings, snapshot_reads=snapshot_reads, no_key=no_key)
    batch = data.draw(batches(list(target)))
    assert by_columns(batch, decoding, decoder) == one_by_one(batch, decoding, decoder)


WITH_VECTORS = [name for name in PLAIN if name not in ("float", "decimal")]
KIND_AND_TIME = st.tuples(
    st.sampled_from([*map(parse, WITH_VECTORS), decimal(4, 2), decimal(5, 0), decimal(3, 3)]),
    st.sampled_from([None, 3]),
    st.sampled_from(["adaptive", "isostring"]),
    st.booleans(),
)


@settings(max_examples=times(33, 5_000, 500))
@given(st.data(), KIND_AND_TIME)
def test_a_column_of_one_class_is_what_its_cells_are(data: Any, drawn: tuple[Type, int | None, Any, bool]) -> None:
    kind, precision, time, any_source = drawn
    said = DecodeSettings(decimal="string", time=time, out_of_range="dead_letter")
    column = Column("x", kind, source=Encoding("any")) if any_source else declared_column("x", kind, precision, said)
    one = data.draw(plain(kind))
    alike = plain(kind).filter(lambda value: value.__class__ is one.__class__) | st.none()
    cells = [one, *data.draw(st.lists(alike, max_size=2))]
    empty = dict.fromkeys(READ) | {"epoch": 1, "batch": "b", "op": "c", "ord": b"\1", "flat": False}
    rows = [empty | {"index": i, "after": json.dumps({"x": cell})} for i, cell in enumerate(cells)]
    batch = pa.RecordBatch.from_pylist(rows, READ_SCHEMA)
    decoding = Decoding((column,), (), said)
    assert by_columns(batch, decoding, AppendDecoder) == one_by_one(batch, decoding, AppendDecoder)


def lines(file: str) -> list[bytes]:
    with gzip.open(CORPUS / file) as text:
        return text.read().splitlines()


def raw_of(file: str) -> tuple[pa.Table, dict[str, TableFacts]]:
    """A corpus as staged, in objects of 700 events; and what it says about its tables."""
    events = lines(file)
    found: list[pa.Table] = []
    said: list[dict[str, Any]] = []
    for place in range(0, len(events), 700):
        body = b"[" + b",".join(events[place : place + 700]) + b"]"
        meta = BatchMeta(1, "shop", f"shop.{place}", "2026-03-01T12:30:00.000Z", "sha", 1, 0, {}, {})
        staged = write_batch(parse_events(body, "auto"), meta)
        rows = rows_of(SealedBatch(1, place, f"shop.{place}", "p", len(staged)), staged, Order())
        found.append(rows.changes)
        said += rows.said
    every = dict.fromkeys(("flat", "schema_id")) | {"epoch": 1}
    return pa.concat_tables(found), collected([every | fact for fact in said], [])


def decodings(table: str, facts: TableFacts) -> Iterator[Decoding]:
    key = META.get(table.removeprefix("s."), {}).get("pk") or []
    for settings_ in (DecodeSettings(), DecodeSettings(out_of_range="dead_letter", decimal="string")):
        plan = plan_columns((), (), facts.seen, key)
        names = [column.name for column in plan.columns]
        ordinals = tuple(names.index(name) for name in key if name in names)
        yield Decoding(plan.columns, ordinals, settings_, facts.schemas, facts.bad_schemas)


@pytest.mark.parametrize("file", ["plain", "schema", "flat", "cloudevents"])
def test_every_corpus_in_every_encoding_is_the_same_both_ways(file: str) -> None:
    changes, facts = raw_of(f"{file}.ndjson.gz")
    rows = 0
    for table, said in facts.items():
        part = changes.filter(pa.compute.equal(changes["table"], table)).select(list(READ)).combine_chunks()
        for decoding in decodings(table, said):
            for decoder in DECODERS if decoding.key else [AppendDecoder]:
                for batch in part.to_batches():
                    expected = one_by_one(batch, decoding, decoder)
                    assert by_columns(batch, decoding, decoder) == expected, table
                    rows += len(expected)
    assert rows > 100


def test_what_is_plain_never_goes_through_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would hold for a decoder by columns that leaves everything to the rows."""
    columns = tuple(
        declared_column(name, parse(kind), None, DecodeSettings(decimal="string"))
        for name, kind in (("id", "long"), ("at", "timestamptz"), ("amount", "decimal(12,2)"), ("note", "string"))
    )
    row = {"id": 1, "at": 1_760_000_000_000_000, "amount": "12.50", "note": None}
    empty = dict.fromkeys(READ) | {"epoch": 1, "batch": "b", "index": 0, "ord": b"\1", "flat": False}
    image = json.dumps(row)
    rows = [
        empty | {"op": "c", "after": image},
        empty | {"op": "u", "before": image, "after": image},
        empty | {"op": "d", "before": json.dumps({"id": 1})},
    ]
    monkeypatch.setattr(columnar.Columnar, "_by_rows", None)
    found = by_columns(
        pa.RecordBatch.from_pylist(rows, READ_SCHEMA), Decoding(columns, (0,), DecodeSettings()), MirrorDecoder
    )
    assert len(found) == 3


def test_a_key_that_changes_among_keys_that_do_not_is_a_move() -> None:
    columns = tuple(declared_column(name, parse("long"), None, DecodeSettings()) for name in ("id", "n"))
    empty = dict.fromkeys(READ) | {"epoch": 1, "batch": "b", "op": "u", "pos": b"p", "flat": False}
    images = [json.dumps({"id": number, "n": 1}) for number in range(4)]
    rows = [
        empty | {"index": i, "ord": bytes([1, i]), "before": images[before], "after": images[after]}
        for i, (before, after) in enumerate([(0, 0), (1, 2), (3, 3)])
    ]
    batch = pa.RecordBatch.from_pylist(rows, READ_SCHEMA)
    decoding = Decoding(columns, (0,), DecodeSettings())
    found = by_columns(batch, decoding, MirrorDecoder)
    assert found == one_by_one(batch, decoding, MirrorDecoder)
    assert len(found) == 4
