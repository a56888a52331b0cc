"""Rows of files of Arrow's types as row images, decoded into the types that firn.yaml declares: the same values."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.types import Column, parse, storable
from firn_spark.backfill.arrow_rows import NoColumn, images_of_rows, schema_json
from firn_spark.files import values

_DAY = st.dates().map(lambda one: one.toordinal() - 719_163)
_MOMENT = st.datetimes(timezones=st.just(UTC)).map(lambda one: one - datetime(1970, 1, 1, tzinfo=UTC))
_AT = _MOMENT.map(lambda since: (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
_CENTS = st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2))
_BYTES = st.binary(min_size=2, max_size=2)


def entries(keys: st.SearchStrategy[Any], values_of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys, st.none() | values_of, max_size=3).map(lambda some: list(some.items()))


COLUMNS: dict[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "f": ("fixed[2]", pa.binary(2), _BYTES),
    "fs": ("list<fixed[2]>", pa.list_(pa.binary(2)), st.lists(st.none() | _BYTES, max_size=3)),
    "m": ("map<string, decimal(9,2)>", pa.map_(pa.string(), pa.decimal128(9, 2)), entries(st.text(max_size=3), _CENTS)),
    "n": ("map<long, timestamptz>", pa.map_(pa.int64(), pa.timestamp("us", "UTC")), entries(st.integers(0, 9), _AT)),
    "o": (
        "list<map<fixed[2], map<date, binary>>>",
        pa.list_(pa.map_(pa.binary(2), pa.map_(pa.date32(), pa.binary()))),
        st.lists(st.none() | entries(_BYTES, entries(_DAY, st.binary(max_size=3))), max_size=2),
    ),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | one[2] for name, one in COLUMNS.items()}), max_size=4)


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_maps_and_bytes_of_one_length_are_what_the_file_has(rows: list[dict[str, Any]]) -> None:
    kinds = {name: parse(one[0]) for name, one in COLUMNS.items()}
    arrays = {
        name: pa.chunked_array([values.typed([row[name] for row in rows], kind).cast(COLUMNS[name][1])])
        for name, kind in kinds.items()
    }
    file = pa.table(arrays)
    sent = columns_of(schema_json(file.schema, kinds).encode())
    codec = RowCodec([Column(name, storable(kind)) for name, kind in kinds.items()], sent, DecodeSettings())
    assert [codec.decode(image).values for image in images_of_rows(file)] == [
        [row[name] for name in COLUMNS] for row in rows
    ]


@pytest.mark.parametrize(
    ("there", "kind"),
    [
        ("fixed[2]", pa.binary(3)),
        ("fixed[2]", pa.binary()),
        ("map<string, int>", pa.map_(pa.string(), pa.int64())),
        ("map<int, int>", pa.map_(pa.string(), pa.int32())),
        ("map<string, int>", pa.string()),
        ("list<fixed[2]>", pa.list_(pa.binary(3))),
    ],
)
def test_a_file_whose_values_do_not_all_fit_is_refused(there: str, kind: pa.DataType) -> None:
    with pytest.raises(NoColumn, match="write the files with the table's type"):
        schema_json(pa.schema([("x", kind)]), {"x": parse(there)})


def test_a_map_that_nobody_declares_is_its_json_text() -> None:
    file = pa.table({"x": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))})
    sent = columns_of(schema_json(file.schema, {}).encode())
    assert [str(one.type) for one in sent] == ["string"]
    (image,) = images_of_rows(file)
    assert json.loads(RowCodec(sent, sent, DecodeSettings()).decode(image).values[0]) == [["a", 1]]


def test_nan_and_infinity_within_lists_maps_and_structs_are_no_nulls() -> None:
    numbers = [1.5, math.nan, math.inf, -math.inf, None]
    file = pa.table(
        {
            "l": pa.array([numbers], pa.list_(pa.float32())),
            "m": pa.array(
                [[(str(place), one) for place, one in enumerate(numbers)]], pa.map_(pa.string(), pa.float64())
            ),
            "d": pa.array([{"a": math.nan}], pa.struct([("a", pa.float64())])),
        }
    )
    kinds = {"l": parse("list<float>"), "m": parse("map<string, double>"), "d": parse("string")}
    sent = columns_of(schema_json(file.schema, kinds).encode())
    (image,) = images_of_rows(file)
    found = RowCodec([Column(*one) for one in kinds.items()], sent, DecodeSettings()).decode(image).values
    assert repr(found[0]) == repr(numbers)
    assert repr([one for _, one in found[1]]) == repr(numbers)
    assert json.loads(found[2]) == {"a": "NaN"}


def test_what_python_can_not_tell_of_a_list_is_refused_and_not_cut_off() -> None:
    with pytest.raises(NoColumn, match="a value can't be kept"):
        list(images_of_rows(pa.table({"x": pa.array([[1]], pa.list_(pa.timestamp("ns")))})))
