"""Partition values by Arrow, against Iceberg's specification and PyIceberg's transforms."""

import random
import uuid
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types
from pyiceberg.conversions import partition_to_py
from pyiceberg.transforms import parse_transform

from firn.changes.placement.murmur3 import murmur3
from firn.errors import TerminalError
from firn_spark.files import partition_values
from firn_spark.files.partition_values import NULL
from tests.soak import SEED

DICE = random.Random(SEED)


def whole(bits: int) -> list[int]:
    limit = 2 ** (bits - 1)
    return [0, 1, -1, limit - 1, 1 - limit, *(DICE.randrange(-(10**n), 10**n) for n in range(1, bits // 4))]


MOMENTS = [-1, 0, 1, -86_400_000_000, 86_399_999_999, *(DICE.randrange(-(6 * 10**16), 2 * 10**17) for _ in range(30))]
TEXTS = ["", "a", NULL, "iceberg", "é\n𝄞", "x" * 99, "a/b=c", *("".join(DICE.choices("aé𝄞 /", k=n)) for n in range(20))]
# type -> (Iceberg's, the file's, values as both know them)
VALUES: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "boolean": (types.BooleanType(), pa.bool_(), [True, False]),
    "int": (types.IntegerType(), pa.int32(), whole(32)),
    "long": (types.LongType(), pa.int64(), whole(64)),
    "date": (types.DateType(), pa.int32(), [-719_162, 2_932_896, *range(-800, 800, 37)]),
    "time": (types.TimeType(), pa.int64(), [0, 1, 86_399_999_999, 5_000_000]),
    "timestamp": (types.TimestampType(), pa.int64(), MOMENTS),
    "timestamptz": (types.TimestamptzType(), pa.int64(), MOMENTS),
    "string": (types.StringType(), pa.string(), TEXTS),
    "binary": (types.BinaryType(), pa.binary(), [text.encode() for text in TEXTS]),
    "float": (types.FloatType(), pa.float32(), [0.5, 0.0, 1e10, float("inf"), float("-inf"), -1.25]),
    "double": (types.DoubleType(), pa.float64(), [0.1, 0.0, 1e300, 5e-324, float("inf"), float("-inf"), -1.5]),
    "fixed[3]": (types.FixedType(3), pa.binary(3), [b"abc", b"\0\xff\0"]),
    "uuid": (types.UUIDType(), pa.binary(16), [uuid.UUID(int=DICE.getrandbits(128)).bytes for _ in range(9)]),
    "decimal(38, 2)": (
        types.DecimalType(38, 2), pa.decimal128(38, 2),
        [Decimal(n).scaleb(-2) for n in (0, 1, -1, 127, -127, 128, -128, 129, -129, 255, 256, 1420, -32_768, 10**20)]
        + [Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")],
    ),
}  # fmt: skip
FILE = {
    "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "uuid": pa.uuid(),
}  # fmt: skip
MOMENTS_OF = {"date", "timestamp", "timestamptz"}
TAKES = {
    "identity": set(VALUES) - {"fixed[3]"}, "bucket": set(VALUES) - {"boolean", "float", "double"},
    "truncate": {"int", "long", "string", "decimal", "binary"}, "year": MOMENTS_OF, "month": MOMENTS_OF,
    "day": MOMENTS_OF, "hour": MOMENTS_OF - {"date"},
}  # fmt: skip
SIZES = {"bucket": ("[1]", "[7]", "[16]"), "truncate": ("[1]", "[10]", "[16]")}
CASES = [
    (f"{name}{size}", kind)
    for name, kinds in TAKES.items()
    for size in SIZES.get(name, ("",))
    for kind in VALUES
    if kind in kinds or kind.partition("(")[0] in kinds
]


@pytest.mark.parametrize(("transform", "kind"), CASES, ids=[f"{one}-{kind}" for one, kind in CASES])
def test_each_transform_of_each_type_gives_what_pyiceberg_gives(transform: str, kind: str) -> None:
    of, held, values = VALUES[kind]
    # At its very end, truncate runs over a number's range in Java, and in Python there is none.
    ends = {"int": 1 - 2**31, "long": 1 - 2**63} if transform.startswith("truncate") else {}
    some = [*(v for v in values if v != ends.get(kind)), None]
    column = pa.array(some, held)
    column = pa.ExtensionArray.from_storage(FILE[kind], column) if kind == "uuid" else column.cast(FILE.get(kind, held))
    rows = pa.table({"v": column, "n": pa.arange(0, len(some))})
    theirs = parse_transform(transform)
    expected = list(map(theirs.transform(of), [uuid.UUID(bytes=v) if kind == "uuid" and v else v for v in some]))
    seen: dict[int, Any] = {}
    for [text], part in partition_values.parts(rows, [(transform, kind, ["v"])]):
        result = theirs.result_type(of)
        value = None if text is None else _read(text, result)
        seen |= dict.fromkeys(part["n"].to_pylist(), value)
        assert part["n"].to_pylist() == sorted(part["n"].to_pylist())
    assert [seen[n] for n in range(len(some))] == expected


def _read(text: str, kind: Any) -> Any:
    """As org.apache.iceberg.types.Conversions.fromPartitionString reads it, and write._partition puts it right."""
    if isinstance(kind, types.BooleanType):
        return text == "true"
    if isinstance(kind, types.BinaryType | types.FixedType):
        return bytes.fromhex(text)
    if partition_values.text_type(str(kind)) in ("int", "long"):
        return int(text)
    return text if isinstance(kind, types.StringType) else partition_to_py(kind, text)


# https://iceberg.apache.org/spec/#appendix-b-32-bit-hash-requirements
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ((34).to_bytes(8, "little"), 2017239379), ((1420).to_bytes(2, "big"), -500754589), (b"iceberg", 1210000089),
        (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340), (bytes(range(4)), -188683207),
    ],
)  # fmt: skip
def test_hashes_are_those_of_the_specification(data: bytes, expected: int) -> None:
    assert murmur3(data) == expected % 2**32


def test_zeroes_of_both_signs_and_nan_are_partitions_of_their_own() -> None:
    rows = pa.table({"v": pa.array([0.0, float("nan"), -0.0, None, float("nan"), 0.0])})
    found = {text: len(part) for [text], part in partition_values.parts(rows, [("identity", "double", ["v"])])}
    assert found == {"0": 2, "-0": 1, "NaN": 2, None: 1}


def test_nanoseconds_are_partitioned_by_their_microseconds() -> None:
    rows = pa.table({"v": pa.array([-1, 86_400_000_000_001], pa.timestamp("ns"))})
    for transform, expected in (("day", ["-1", "1"]), ("hour", ["-1", "24"]), ("identity", ["-1", "86400000000001"])):
        found = [text for [text], _ in partition_values.parts(rows, [(transform, "timestamp_ns", ["v"])])]
        assert found == expected, transform


@pytest.mark.parametrize(("kind", "bits"), [("int", 32), ("long", 64)])
def test_the_last_step_of_truncate_goes_round_as_in_java(kind: str, bits: int) -> None:
    """org.apache.iceberg.util.TruncateUtil: v - (((v % w) + w) % w), in the type's own arithmetic."""
    lowest = -(2 ** (bits - 1))
    rows = pa.table({"v": pa.array([lowest, lowest + 8], VALUES[kind][1])})
    found = [int(text) for [text], _ in partition_values.parts(rows, [("truncate[10]", kind, ["v"])])]
    assert found == [-lowest - 2, lowest + 8]


@pytest.mark.parametrize("day", [11_000_000, 12_000_000, 40_000_000, -12_700_000, 2**31 - 1, -(2**31)])
def test_years_and_months_have_no_end(day: int) -> None:
    """Days of other cycles of 400 years, which have 146,097 of them."""
    cycles, inside = divmod(day, 146_097)
    known = date.fromordinal(date(1970, 1, 1).toordinal() + inside)
    year = known.year - 1970 + 400 * cycles
    rows = pa.table({"v": pa.array([day], pa.int32()).cast(pa.date32())})
    for transform, expected in (("year", year), ("month", 12 * year + known.month - 1), ("day", day)):
        assert [text for [text], _ in partition_values.parts(rows, [(transform, "date", ["v"])])] == [str(expected)]


@pytest.mark.parametrize(
    ("text", "transform", "kind", "name"),
    [
        ("20000", "day", "timestamp", "2024-10-04"), ("-719163", "identity", "date", "-719163"),
        (None, "day", "date", "null"), ("2932897", "day", "timestamp", "2932897"),
        ("5", "month", "date", "5"), ("00ff", "identity", "binary", "00ff"),
    ],
)  # fmt: skip
def test_folders_are_named_for_people(text: str | None, transform: str, kind: str, name: str) -> None:
    assert partition_values.in_folder(text, transform, kind) == name


def test_what_nobody_should_be_partitioned_by_is_refused() -> None:
    for field, said in (
        (("zorder", "long"), "zorder, which"),
        (("identity", "fixed[3]"), "manifests that can't be read"),
    ):
        with pytest.raises(TerminalError, match=said):
            partition_values.check([field])
    partition_values.check([("void", "fixed[3]"), ("bucket[2]", "fixed[3]"), ("identity", "double")])


def test_rows_of_several_fields_come_together_and_in_their_order() -> None:
    rows = pa.table({"a": [1, 2, 1, None, 1], "b": ["x", "x", "x", "x", "y"], "n": [0, 1, 2, 3, 4]})
    found = partition_values.parts(
        rows, [("bucket[1]", "long", ["a"]), ("identity", "string", ["b"]), ("identity", "void", ())]
    )
    assert {tuple(values): part["n"].to_pylist() for values, part in found} == {
        ("0", "x", None): [0, 1, 2], (None, "x", None): [3], ("0", "y", None): [4],
    }  # fmt: skip
