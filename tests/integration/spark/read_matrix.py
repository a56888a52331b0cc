"""Which engine sees what of which Iceberg type in which format of tables: what the tables hold, and the part of
docs/types.md that says what was seen; docs/format-3.md's summary of it. read_tables.py makes the tables.

`make read-matrix` writes those parts by really reading; tests/integration/spark/test_read_matrix.py holds them to what
the engines that are here do, tests/unit/test_read_matrix_page.py to what this makes of them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pyiceberg import types as t

from tests.integration.spark.engine_types import told

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
PAGE, FORMAT_3 = DOCS / "types.md", DOCS / "format-3.md"
BEGIN, END = "<!-- read-matrix: by `make read-matrix` -->\n", "<!-- end of read-matrix -->\n"
FORMATS: Final = (2, 3)
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
VALUES: Final[Mapping[str, tuple[t.IcebergType | None, Sequence[Any]]]] = {
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
ADDED: Final = ", added later: default "
WHOLE: Final = "long, no row deleted"
_SOME: Final = '{"a": [1, null, "ünï"], "b": {"c": true}}'
# Those that only format 3 has. Moments in whole nanoseconds; a variant as the JSON that it stands for; a column that
# was added when two rows were there, which have its default.
ONLY_3: Final[Mapping[str, tuple[t.IcebergType | None, Sequence[Any]]]] = {
    WHOLE: (t.LongType(), [1, None]),
    "timestamp_ns": (t.TimestampNanoType(), [-(2**63) + 1, -1, 1_700_000_000_123_456_789, 2**63 - 1, None]),
    "timestamptz_ns": (t.TimestamptzNanoType(), [-(2**63) + 1, -1, 1_700_000_000_123_456_789, 2**63 - 1, None]),
    "variant": (None, [_SOME, "[]", '""', "9007199254740993", "false", None]),
    "unknown": (t.UnknownType(), [None, None]),
    f"int{ADDED}7": (t.IntegerType(), [7, 7, 1, None]),
    f"string{ADDED}ünï": (t.StringType(), ["ünï", "ünï", "", None]),
    f"decimal(9,2){ADDED}-0.50": (t.DecimalType(9, 2), [Decimal("-0.50"), Decimal("-0.50"), Decimal("1.00"), None]),
    f"date{ADDED}1969-12-31": (t.DateType(), [date(1969, 12, 31), date(1969, 12, 31), _LAST.date(), None]),
}
GONE: Final = 99  # `id` of a row that each table but WHOLE had, with the first value again, and that was deleted
WRONG: Final = "**WRONG: shows the deleted row**"
_NO: Final = "**no**: "
_UNREAD: Final = "not read yet"


def values_of(form: int) -> Mapping[str, tuple[t.IcebergType | None, Sequence[Any]]]:
    """By type: the type to PyIceberg (None: it has none), and what a table of it holds, by rising `id` from 0."""
    return VALUES if form <= 2 else {**VALUES, **ONLY_3}


@dataclass(frozen=True)
class Seen:
    """What an engine of a version saw on a day: of each type a cell of the page."""

    version: str
    day: str
    cells: Mapping[str, str]


def cells_of(seen: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The cells of the page for what engine_types.cell tells of each type."""
    return {kind: _cell(kind, one) for kind, one in seen.items()}


def _cell(kind: str, one: Mapping[str, Any]) -> str:
    if "error" in one:
        return f"{_NO}{_plain(one['error'])}"
    wanted = [told(kind, value) for value in {**VALUES, **ONLY_3}[kind][1]]
    found, name = one["values"], f"`{_plain(one['type'])}`"
    if len(found) > len(wanted):
        return f"{name}, {WRONG}"
    if found == wanted:
        return name
    pairs = zip_longest(wanted, found, fillvalue="no row")
    value, seen = next(pair for pair in pairs if pair[0] != pair[1])
    return f"{name}, **but** `{_plain(seen)}` for `{_plain(value)}`"


def _plain(text: Any) -> str:
    """Text for a cell of a table."""
    return str(text).replace("|", "\\|").replace("`", "'")


def page(form: int, found: Mapping[str, Seen]) -> str:
    """The part of docs/types.md for one format of tables."""
    there, kinds = [engine for engine in NAMES if engine in found], values_of(form)
    lines = [f"Tables of format {form}:", "", "| engine | version | read on |", "|---|---|---|"]
    lines += [f"| {NAMES[engine]} | {found[engine].version} | {found[engine].day} |" for engine in there]
    lines += [f"| {name} | | {_UNREAD} |" for engine, name in NAMES.items() if engine not in found]
    lines += ["", "| type | " + " | ".join(NAMES[engine] for engine in there) + " |", "|---" * (1 + len(there)) + "|"]
    lines += [
        f"| `{kind}` | " + " | ".join(found[engine].cells.get(kind, _UNREAD) for engine in there) + " |"
        for kind in kinds
    ]
    return "\n".join(lines) + "\n"


def who_reads(found: Mapping[str, Seen]) -> str:
    """The part of docs/format-3.md, of what was seen of tables of format 3."""
    lines = ["| engine | read on | deleted rows | can't read | reads other values of |", "|---|---|---|---|---|"]
    for engine in NAMES:
        if (seen := found.get(engine)) is None:
            lines.append(f"| {NAMES[engine]} | {_UNREAD} | | | |")
            continue
        cells = {f"`{kind}`": seen.cells.get(kind, _UNREAD) for kind in values_of(3)}
        refused = [kind for kind, cell in cells.items() if cell.startswith(_NO)]
        shown = [kind for kind, cell in cells.items() if cell.endswith(WRONG)]
        other = [kind for kind, cell in cells.items() if "**but**" in cell]
        left = set(cells) - set(refused)
        had_deleted = left - {f"`{WHOLE}`"}
        if not had_deleted:
            vectors, refused = "**not read**", [f"**any table {'that had deleted rows' if left else 'of format 3'}**"]
        elif shown:
            vectors = f"**WRONG: it shows them**{'' if had_deleted <= set(shown) else ', of ' + ', '.join(shown)}"
        else:
            vectors = "not shown"
        words = f"{NAMES[engine]} {seen.version} | {seen.day} | {vectors}"
        lines.append(f"| {words} | {', '.join(refused)} | {', '.join(other)} |")
    return "\n".join(lines) + "\n"


def written() -> dict[int, dict[str, Seen]]:
    """What docs/types.md says, by format and engine."""
    found: dict[int, dict[str, Seen]] = {}
    for part in between(PAGE).split("Tables of format ")[1:]:
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
    """Puts it into the pages; what was not read now stays as it is."""
    before = written()
    merged = before | {form: {**before.get(form, {}), **now} for form, now in found.items()}
    for file, text in pages(merged):
        head, _, rest = file.read_text().partition(BEGIN)
        file.write_text(f"{head}{BEGIN}{text}{END}{rest.partition(END)[2]}")


def pages(found: Mapping[int, Mapping[str, Seen]]) -> Iterator[tuple[Path, str]]:
    """Each page, and what is to be between its marks."""
    tables = "\n".join(page(*one) for one in sorted(found.items()))
    yield PAGE, f"\n{tables}\n"
    yield FORMAT_3, f"\n{who_reads(found.get(3, {}))}\n"


def between(file: Path) -> str:
    """What a page has between its marks."""
    return file.read_text().partition(BEGIN)[2].partition(END)[0]
