"""Which engine sees what of which Iceberg type: a table of each type, and the part of docs/types.md that says so.

`make read-matrix` writes that part by really reading; tests/integration/spark/test_read_matrix.py holds it to what the
engines that are here do.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tests.integration.spark.engine_types import told

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "types.md"
BEGIN, END = "<!-- read-matrix: by `make read-matrix` -->\n", "<!-- end of read-matrix -->\n"
FORMATS: Final = (2,)
NAMES: Final = {
    "spark": "Spark", "trino": "Trino", "duckdb": "DuckDB", "pyiceberg": "PyIceberg", "polars": "Polars",
    "daft": "Daft", "firn": "Firn's SQL",
}  # fmt: skip
_FIRST, _LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)
_STRUCT: Final = t.StructType(t.NestedField(10, "a", t.IntegerType()), t.NestedField(11, "b", t.StringType()))
_INNER: Final = t.StructType(
    t.NestedField(12, "d", t.DecimalType(5, 2)),
    t.NestedField(13, "l", t.ListType(14, t.TimestampType(), element_required=False)),
)
# What a table of each type holds: its ends, what is odd in it, and null at last.
VALUES: Final[Mapping[str, tuple[t.IcebergType, Sequence[Any]]]] = {
    "boolean": (t.BooleanType(), [True, False, None]),
    "int": (t.IntegerType(), [-(2**31), 2**31 - 1, None]),
    "long": (t.LongType(), [-(2**63), 2**63 - 1, None]),
    "float": (t.FloatType(), [1.5, -0.0, float("nan"), float("-inf"), None]),
    "double": (t.DoubleType(), [0.1, -0.0, float("nan"), float("inf"), None]),
    "decimal(9,2)": (t.DecimalType(9, 2), [Decimal("-1234567.89"), Decimal("0.00"), None]),
    "decimal(38,10)": (t.DecimalType(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001"), None]),
    "date": (t.DateType(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None]),
    "time": (t.TimeType(), [time(0), time(23, 59, 59, 999_999), None]),
    "timestamp": (t.TimestampType(), [_FIRST, datetime(1969, 12, 31, 23, 59, 59, 1), _LAST, None]),
    "timestamptz": (t.TimestamptzType(), [_FIRST.replace(tzinfo=UTC), _LAST.replace(tzinfo=UTC), None]),
    "string": (t.StringType(), ["", "ünï 🏔 \\ '\"\n", None]),
    "uuid": (t.UUIDType(), [UUID(int=0), UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), None]),
    "fixed[3]": (t.FixedType(3), [b"\x00\x00\x00", b"\x00\xff\x01", None]),
    "binary": (t.BinaryType(), [b"", b"\x00\xff", None]),
    "struct<a: int, b: string>": (_STRUCT, [{"a": 1, "b": "x"}, {"a": None, "b": ""}, None]),
    "list<int>": (t.ListType(15, t.IntegerType(), element_required=False), [[1, None, 3], [], None]),
    "map<string, int>": (
        t.MapType(16, t.StringType(), 17, t.IntegerType(), value_required=False), [[("k", 1), ("", None)], [], None],
    ),
    "list<struct<d: decimal(5,2), l: list<timestamp>>>": (
        t.ListType(18, _INNER, element_required=False),
        [[{"d": Decimal("1.50"), "l": [_FIRST, None]}, None], [{"d": None, "l": []}], None],
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What an engine of a version saw on a day: of each type a cell of the page."""

    version: str
    day: str
    cells: Mapping[str, str]


def make_tables(catalog: Catalog, form: int) -> dict[str, str]:
    """A table of each type in the namespace `matrix`. -> the name of each, by type."""
    catalog.create_namespace_if_not_exists("matrix")
    names = {}
    for number, (kind, (iceberg, values)) in enumerate(VALUES.items()):
        schema = Schema(t.NestedField(1, "id", t.LongType()), t.NestedField(2, "v", iceberg))
        table = catalog.create_table(("matrix", f"t{number}_{form}"), schema, properties={"format-version": str(form)})
        rows = [{"id": n, "v": value} for n, value in enumerate(values)]
        table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))
        names[kind] = f"matrix.t{number}_{form}"
    return names


def cells_of(seen: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The cells of the page for what engine_types.cell tells of each type."""
    return {kind: _cell(kind, one) for kind, one in seen.items()}


def _cell(kind: str, one: Mapping[str, Any]) -> str:
    if "error" in one:
        return f"**no**: {_plain(one['error'])}"
    wanted = [told(kind, value) for value in VALUES[kind][1]]
    if one["values"] == wanted:
        return f"`{_plain(one['type'])}`"
    pairs = zip_longest(wanted, one["values"], fillvalue="no row")
    value, seen = next(pair for pair in pairs if pair[0] != pair[1])
    return f"`{_plain(one['type'])}`, **but** `{_plain(seen)}` for `{_plain(value)}`"


def _plain(text: Any) -> str:
    """Text for a cell of a table."""
    return re.sub(r"/\S+/", "…/", str(text)).replace("|", "\\|").replace("`", "'")


def page(form: int, found: Mapping[str, Seen]) -> str:
    """The part of docs/types.md for one format of tables."""
    there = [engine for engine in NAMES if engine in found]
    lines = [f"Tables of format {form}:", "", "| engine | version | read on |", "|---|---|---|"]
    lines += [f"| {NAMES[engine]} | {found[engine].version} | {found[engine].day} |" for engine in there]
    lines += [f"| {name} | | not read yet |" for engine, name in NAMES.items() if engine not in found]
    lines += ["", "| type | " + " | ".join(NAMES[engine] for engine in there) + " |", "|---" * (1 + len(there)) + "|"]
    lines += [f"| `{kind}` | " + " | ".join(found[engine].cells[kind] for engine in there) + " |" for kind in VALUES]
    return "\n".join(lines) + "\n"


def written() -> dict[int, dict[str, Seen]]:
    """What the page says, by format and engine."""
    found: dict[int, dict[str, Seen]] = {}
    for part in PAGE.read_text().partition(BEGIN)[2].partition(END)[0].split("Tables of format ")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
        at = next(n for n, row in enumerate(rows) if row[0] == "type")
        engines = {name: engine for engine, name in NAMES.items()}
        columns = list(zip(*(row for row in rows[at:] if not row[0].startswith("---")), strict=True))
        kinds = [kind.strip("`") for kind in columns[0][1:]]
        cells = {column[0]: dict(zip(kinds, column[1:], strict=True)) for column in columns[1:]}
        found[int(part[0])] = {
            engines[name]: Seen(version, day, cells[name]) for name, version, day in rows[2:at] if name in cells
        }
    return found


def write(found: Mapping[int, Mapping[str, Seen]]) -> None:
    """Puts it into the page; what was not read now stays as it is."""
    before = written()
    merged = {form: {**before.get(form, {}), **now} for form, now in found.items()}
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    tables = "\n".join(page(*one) for one in sorted(merged.items()))
    PAGE.write_text(f"{head}{BEGIN}\n{tables}\n{END}{rest.partition(END)[2]}")
