"""Partition values by Arrow, against Iceberg's specification and PyIceberg's transforms."""

import random
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types
from pyiceberg.conversions import partition_to_py
from pyiceberg.transforms import parse_transform

from firn_spark.driver import partition_values
from firn_spark.driver.partition_values import NULL, murmur3
from firn_spark.not_eligible import Unfit
from tests.soak import SEED

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
SIZES = {"bucket": ("[1]", "[7]", "[16]"), "truncate": ("[1]", "[10]", "[16]")}
CASES = [
    (f"{name}{size}", kind)
    for name, kinds in partition_values._TAKES.items()
    for size in SIZES.get(name, ("",))
    for kind in VALUES
    if kind.partition("(")[0] in kinds
]


@pytest.mark.parametrize(("transform", "kind"), CASES, ids=[f"{one}-{kind}" for one, kind in CASES])
def test_each_transform_of_each_type_gives_what_pyiceberg_gives(transform: str, kind: str) -> None:
    of, held, values = VALUES[kind]
    # At its very end, truncate runs over a number's range in Java, and in Python there is none.
    some = [*(v for v in values if not (transform.startswith("truncate") and kind == "long" and v == 1 - 2**63)), None]
    column = pa.array(some, held)
    column = pa.ExtensionArray.from_storage(FILE[kind], column) if kind == "uuid" else column.cast(FILE.get(kind, held))
    rows = pa.table({"v": column, "n": pa.arange(0, len(some))})
    theirs = parse_transform(transform)
    expected = list(map(theirs.transform(of), [uuid.UUID(bytes=v) if kind == "uuid" and v else v for v in some]))
    seen: dict[int, Any] = {}
    for [text], part in partition_values.parts(rows, [(transform, kind, "v")]):
        result = theirs.result_type(of)
        value = None if text is None else _read(text, result)
        seen |= dict.fromkeys(part["n"].to_pylist(), value)
        assert part["n"].to_pylist() == sorted(part["n"].to_pylist())
    assert [seen[n] for n in range(len(some))] == expected


def _read(text: str, kind: Any) -> Any:
    """As org.apache.iceberg.types.Conversions.fromPartitionString reads it, and write._partition puts it right."""
    if isinstance(kind, types.DateType):
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    if isinstance(kind, types.BooleanType):
        return text == "true"
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


def test_what_has_no_text_is_sparks() -> None:
    for field in (("identity", "double"), ("identity", "timestamptz"), ("truncate[3]", "binary"), ("day", "?")):
        with pytest.raises(Unfit, match="partitioned by"):
            partition_values.check([field])
    partition_values.check([("void", "double"), ("bucket[2]", "decimal(9, 2)")])
    late = EPOCH + timedelta(days=2_932_896)
    days = pa.table({"v": pa.array([(late - EPOCH).days + 1], pa.int32()).cast(pa.date32())})
    with pytest.raises(Unfit, match="partitioned by"):
        list(partition_values.parts(days, [("identity", "date", "v")]))


def test_rows_of_several_fields_come_together_and_in_their_order() -> None:
    rows = pa.table({"a": [1, 2, 1, None, 1], "b": ["x", "x", "x", "x", "y"], "n": [0, 1, 2, 3, 4]})
    found = partition_values.parts(
        rows, [("bucket[1]", "long", "a"), ("identity", "string", "b"), ("void", "void", "")]
    )
    assert {tuple(values): part["n"].to_pylist() for values, part in found} == {
        ("0", "x", None): [0, 1, 2], (None, "x", None): [3], ("0", "y", None): [4],
    }  # fmt: skip
