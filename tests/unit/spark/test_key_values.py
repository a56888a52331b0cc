"""Values of keys by Arrow: equal where the specification's keys are, in an order, and back."""

import math
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from firn.changes.decode.iceberg_fields import typed_json
from firn.changes.decode.types import parse
from firn.changes.merge.fold import key_of
from firn_spark.files import values

FLOATS = [float("-inf"), -1e300, -1.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1.5, float("inf"), float("nan")]
KEYS: list[tuple[str, list[Any]]] = [
    ("double", [*FLOATS, None]),
    ("float", [-1.5, -0.0, 0.0, 0.25, float("inf"), float("nan"), None]),
    ("boolean", [False, True, None]),
    ("binary", [b"", b"\0", b"\xff", None]),
    ("list<double>", [[], [None], [0.0], [-0.0], [float("nan")], [1.0, 2.0], None]),
    ("list<list<binary>>", [[[b"\xff"], None], [[]], []]),
    ("list<decimal(9,2)>", [[Decimal("1.5")], [Decimal("1.50")], [Decimal("0")]]),
    ("list<uuid>", [["00000000-0000-0000-0000-00000000000f"]]),
    ("list<timestamptz>", [[-62_135_596_800_000_000, 0]]),
    ("list<string>", [["é\n", "'"], ["[1]"]]),
]


@pytest.mark.parametrize(("text", "some"), KEYS, ids=[text for text, _ in KEYS])
def test_what_is_equal_as_a_key_is_equal_to_arrow_and_comes_back(text: str, some: list[Any]) -> None:
    kind = parse(text)
    known = [key_of([one]) for one in some]
    column = values.keyed([key for (key,) in known], kind)
    wanted = values.sought(column, kind)
    assert wanted.type == values.key_type(kind)
    assert [(key,) for key in values.keys(pa.chunked_array([column]), kind)] == known
    assert len(pc.unique(wanted)) == len(set(known))
    field = values.file_field({"name": "k", "type": _type_json(text), "id": 1, "required": False})
    in_file = pa.chunked_array([values.written(some, kind, field)])
    assert values.found(in_file, kind).to_pylist() == wanted.to_pylist()


def test_floats_rise_as_their_numbers_do() -> None:
    found = values.keyed(FLOATS, parse("double")).to_pylist()
    assert found == sorted(found)
    assert len(set(found)) == len(FLOATS) - 1
    assert math.isnan(values.keys(pa.chunked_array([pa.array(found[-1:])]), parse("double"))[0])


@pytest.mark.parametrize(("text", "value"), [("double", 5), ("list<int>", "[1]"), ("boolean", 1), ("uuid", b"")])
def test_iceberg_is_not_asked_for_what_its_bounds_cannot_tell(text: str, value: Any) -> None:
    assert values.literal(value, parse(text)) is None


def _type_json(text: str) -> Any:
    return typed_json(parse(text), count(2))
