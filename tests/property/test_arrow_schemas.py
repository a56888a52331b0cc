"""Arrow and Iceberg, one from the other: nothing is lost one way, and only what is listed here the other."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types as t
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from firn_lake.schemas.arrow_schemas import BadArrowType, to_arrow, to_iceberg
from firn_lake.schemas.arrow_values import to_stored
from tests.soak import times

PRIMITIVES: list[t.IcebergType] = [
    t.BooleanType(), t.IntegerType(), t.LongType(), t.FloatType(), t.DoubleType(), t.DateType(),
    t.TimeType(), t.TimestampType(), t.TimestamptzType(), t.StringType(), t.UUIDType(), t.BinaryType(),
    t.DecimalType(38, 38), t.DecimalType(1, 0), t.FixedType(1), t.FixedType(16),
]  # fmt: skip
OF_FORMAT_3: list[t.IcebergType] = [
    t.TimestampNanoType(), t.TimestamptzNanoType(), t.GeometryType("EPSG:3857"),
    t.GeographyType("EPSG:4326", "planar"),
]  # fmt: skip
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5)


def structs(within: st.SearchStrategy[t.IcebergType]) -> st.SearchStrategy[t.StructType]:
    field = st.tuples(NAMES, within, st.booleans(), st.none() | st.text(max_size=5))
    fields = st.lists(field, min_size=1, max_size=4, unique_by=lambda one: one[0])
    return fields.map(
        lambda them: t.StructType(*(t.NestedField(0, name, kind, must, doc) for name, kind, must, doc in them))
    )


def nested(within: st.SearchStrategy[t.IcebergType]) -> st.SearchStrategy[t.IcebergType]:
    lists = st.builds(lambda kind, must: t.ListType(0, kind, must), within, st.booleans())
    maps = st.builds(lambda key, value, must: t.MapType(0, key, 0, value, must), within, within, st.booleans())
    return lists | maps | structs(within)


TYPES = st.recursive(st.sampled_from(PRIMITIVES + OF_FORMAT_3), nested, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Schemas with ids in no order, and identifier fields."""
    unknown = t.NestedField(0, "unknown", t.UnknownType())  # which is never required, nor a map's key
    fresh = assign_fresh_schema_ids(Schema(*draw(structs(TYPES)).fields, unknown, schema_id=draw(st.integers(0, 9))))
    moved = draw(st.permutations(range(1, fresh.highest_field_id + 1)))
    numbered = assign_fresh_schema_ids(fresh, iter(moved).__next__)
    keys = [one.field_id for one in numbered.fields if one.required and isinstance(one.field_type, t.LongType)]
    return Schema(*numbered.fields, schema_id=fresh.schema_id, identifier_field_ids=keys)


@given(schemas())
@settings(max_examples=times(30, 2_000, 60), deadline=None)
def test_iceberg_to_arrow_to_iceberg_is_the_same(schema: Schema) -> None:
    written = pa.ipc.read_schema(to_arrow(schema).serialize())  # it survives a file, too
    again = to_iceberg(written, format_version=3)
    assert again == schema
    assert (again.schema_id, again.identifier_field_ids) == (schema.schema_id, schema.identifier_field_ids)


@pytest.mark.parametrize("kind", PRIMITIVES, ids=str)
def test_pyiceberg_reads_it_the_same_way(kind: t.IcebergType) -> None:
    schema = Schema(t.NestedField(7, "a", kind, doc="text"), t.NestedField(8, "l", t.ListType(9, kind, True)))
    assert pyarrow_to_schema(to_arrow(schema)) == schema
    assert to_iceberg(schema_to_pyarrow(schema)) == schema


# Arrow's type, and what comes back after it was Iceberg's. What differs is what is lost.
BACK: list[tuple[pa.DataType, pa.DataType]] = [
    (pa.bool_(), pa.bool_()), (pa.bool8(), pa.bool_()),
    (pa.int8(), pa.int32()), (pa.int16(), pa.int32()), (pa.int32(), pa.int32()), (pa.int64(), pa.int64()),
    (pa.uint8(), pa.int32()), (pa.uint16(), pa.int32()), (pa.uint32(), pa.int64()),
    (pa.uint64(), pa.decimal128(20, 0)),
    (pa.float16(), pa.float32()), (pa.float32(), pa.float32()), (pa.float64(), pa.float64()),
    (pa.string(), pa.string()), (pa.large_string(), pa.string()), (pa.string_view(), pa.string()),
    (pa.json_(), pa.string()), (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
    (pa.run_end_encoded(pa.int32(), pa.int16()), pa.int32()),
    (pa.binary(), pa.binary()), (pa.large_binary(), pa.binary()), (pa.binary_view(), pa.binary()),
    (pa.binary(7), pa.binary(7)), (pa.uuid(), pa.uuid()),
    (pa.date32(), pa.date32()), (pa.date64(), pa.date32()),
    (pa.time32("s"), pa.time64("us")), (pa.time32("ms"), pa.time64("us")), (pa.time64("us"), pa.time64("us")),
    (pa.time64("ns"), pa.time64("us")),
    *((pa.timestamp(unit), pa.timestamp("us")) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp(unit, zone), pa.timestamp("us", "UTC"))
      for unit in ("s", "ms", "us", "ns") for zone in ("UTC", "Europe/Berlin", "+02:00")),
    (pa.decimal32(5, 2), pa.decimal128(5, 2)), (pa.decimal64(18, 0), pa.decimal128(18, 0)),
    (pa.decimal128(38, 2), pa.decimal128(38, 2)), (pa.decimal256(38, 2), pa.decimal128(38, 2)),
    (pa.decimal128(3, -2), pa.decimal128(5, 0)), (pa.decimal128(3, 5), pa.decimal128(5, 5)),
]  # fmt: skip


def around(kind: pa.DataType, back: pa.DataType, form: str) -> tuple[pa.DataType, pa.DataType]:
    """A type that has `kind` in it, and what comes back of that."""
    match form:
        case "list":
            return pa.list_(kind), pa.list_(back)
        case "large":
            return pa.large_list(kind), pa.list_(back)
        case "view":
            return pa.list_view(kind), pa.list_(back)
        case "fixed":
            return pa.list_(kind, 2), pa.list_(back)
        case "struct":
            return pa.struct([("f", kind)]), pa.struct([("f", back)])
        case "map":
            return pa.map_(pa.string_view(), kind), pa.map_(pa.string(), back)
        case _:
            return kind, back


FORMS = st.sampled_from(["", "list", "large", "view", "fixed", "struct", "map"])


@given(st.sampled_from(BACK), FORMS, FORMS, st.booleans())
@settings(max_examples=times(80, 5_000, 200), deadline=None)
def test_arrow_to_iceberg_to_arrow_loses_only_what_is_listed(
    pair: tuple[pa.DataType, pa.DataType], inner: str, outer: str, nullable: bool
) -> None:
    kind, back = around(*around(*pair, inner), outer)
    schema = pa.schema([pa.field("a", kind, nullable, {"doc": "text"}), pa.field("b", pa.int8())])
    found = to_arrow(to_iceberg(schema))
    assert found.field("a").type.equals(back)
    assert (found.field("a").nullable, found.field("a").metadata[b"doc"]) == (nullable, b"text")
    assert found.names == ["a", "b"]


@pytest.mark.parametrize(("kind", "back"), BACK, ids=[str(kind) for kind, _ in BACK])
def test_what_came_back_stays(kind: pa.DataType, back: pa.DataType) -> None:
    assert to_arrow(to_iceberg(pa.schema([("a", back)]))).field("a").type == back


REFUSED = [
    (pa.duration("s"), "a is duration[s], which Iceberg has no type for: cast it to int64"),
    (pa.month_day_nano_interval(), "a is month_day_nano_interval, which Iceberg has no type for: store months, days"),
    (pa.sparse_union([pa.field("x", pa.int8())]), "make it a struct with a field for each kind"),
    (pa.decimal256(39, 0), "a is decimal256(39, 0), and a decimal of Iceberg has at most 38 digits"),
    (pa.decimal128(30, -9), "at most 38 digits"),
    (pa.null(), "a is null throughout, and a table of format 2 has no type for that"),
    (pa.list_(pa.struct([("f", pa.null())])), "a.element.f is null throughout"),
]


@pytest.mark.parametrize(("kind", "text"), REFUSED, ids=[str(kind) for kind, _ in REFUSED])
def test_what_iceberg_has_no_type_for_is_refused_by_name(kind: pa.DataType, text: str) -> None:
    with pytest.raises(BadArrowType) as refused:
        to_iceberg(pa.schema([("a", kind)]))
    assert text in str(refused.value)


def test_format_3_has_types_for_more() -> None:
    schema = pa.schema([("a", pa.timestamp("ns")), ("b", pa.timestamp("ns", "Asia/Tokyo")), ("c", pa.null())])
    assert [str(field.field_type) for field in to_iceberg(schema, 3).fields] == [
        "timestamp_ns", "timestamptz_ns", "unknown",
    ]  # fmt: skip


def test_ids_that_are_not_all_there_are_numbered_anew() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), metadata={"PARQUET:field_id": "7"}), pa.field("b", pa.int8())])
    assert [field.field_id for field in to_iceberg(schema).fields] == [1, 2]


INTEGERS = {f"{sign}int{bits}": (bits, sign) for bits in (8, 16, 32, 64) for sign in ("", "u")}


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, as `pa.array` takes them and `to_pylist` gives them."""
    name = str(kind)
    if name in INTEGERS:
        bits, sign = INTEGERS[name]
        return st.integers(0, 2**bits - 1) if sign else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if pa.types.is_decimal(kind):
        whole = st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1)
        return whole.map(lambda n: Decimal(n).scaleb(-kind.scale))
    if pa.types.is_floating(kind):
        return st.floats(width=min(kind.bit_width, 32) if kind.bit_width < 64 else 64, allow_nan=False)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_date(kind):
        return st.dates()
    if pa.types.is_time(kind):
        return st.times().map(
            lambda one: one.replace(microsecond=0 if kind.unit == "s" else one.microsecond // 1000 * 1000)
        )
    if pa.types.is_timestamp(kind):
        return st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(
            lambda one: one.replace(microsecond=0)
        )
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if "binary" in name:
        return st.binary(max_size=4)
    return st.text(max_size=4)


PLAIN = [
    kind for kind, _ in BACK
    if not isinstance(kind, pa.BaseExtensionType) and not pa.types.is_run_end_encoded(kind)
    and not (pa.types.is_timestamp(kind) and kind.tz) and kind != pa.decimal128(3, 5)
]  # fmt: skip


@given(st.data(), st.sampled_from(PLAIN), FORMS, st.integers(0, 2))
@settings(max_examples=times(60, 5_000, 150), deadline=None)
def test_values_are_stored_as_they_were(data: st.DataObject, kind: pa.DataType, form: str, first: int) -> None:
    of_kind = values(kind.value_type if pa.types.is_dictionary(kind) else kind)
    one: st.SearchStrategy[Any] = st.none() | of_kind
    if form in ("list", "large", "view", "fixed"):
        one = st.none() | st.lists(one, min_size=2 if form == "fixed" else 0, max_size=2)
    elif form == "struct":
        one = st.none() | st.fixed_dictionaries({"f": one})
    elif form == "map":
        one = st.none() | st.lists(st.tuples(st.text(max_size=2), one), max_size=2)
    told = data.draw(st.lists(one, max_size=4))
    array = pa.array(told, around(kind, kind, form)[0]).slice(first)  # a slice has offsets
    found = to_stored(pa.table({"a": array})).column("a")
    found.validate(full=True)
    assert found.to_pylist() == array.to_pylist()
    assert found.type == to_arrow(to_iceberg(pa.schema([("a", array.type)]))).field("a").type


@pytest.mark.parametrize(
    "array",
    [pa.array([1001], pa.timestamp("ns")), pa.array([1001], pa.time64("ns")), pa.array([2**62], pa.timestamp("s"))],
    ids=str,
)
def test_a_value_that_does_not_fit_exactly_is_refused(array: pa.Array) -> None:
    with pytest.raises(pa.ArrowInvalid):
        to_stored(pa.table({"a": array}))


def test_encoded_values_are_stored_plain() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1, None], pa.int8()))
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
    moments = pa.array([dt.datetime(2026, 1, 1)] * 3, pa.timestamp("s")).cast(pa.timestamp("s", "Europe/Berlin"))
    rows = to_stored(pa.table({"runs": runs, "flags": flags, "json": pa.array(["{}"] * 3, pa.json_()), "at": moments}))
    assert rows.column("runs").to_pylist() == [1, 1, None]
    assert rows.column("flags").to_pylist() == [True, False, None]
    assert rows.column("json").to_pylist() == ["{}"] * 3
    assert rows.column("at").cast(pa.int64()).to_pylist() == [1767225600000000] * 3
