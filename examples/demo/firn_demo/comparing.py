"""Is a table equal to PostgreSQL's own final state? Row by row, every column by its type."""

import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

NULL = r"\N"


@dataclass(frozen=True)
class Comparison:
    """`equal` of the source's `expected` rows are in the table as they are; `extra` rows should not be there."""

    table: str
    equal: int
    expected: int
    extra: int

    @property
    def ok(self) -> bool:
        """Nothing differs."""
        return self.equal == self.expected and self.extra == 0

    def line(self) -> str:
        """For people."""
        extra = f", {self.extra:,} rows too many" if self.extra else ""
        return f"{self.table} {self.equal}/{self.expected} rows equal{extra}"


def compare(name: str, table: pa.Table, final: Path) -> Comparison:
    """Compare `table`'s columns with those of the CSV (COPY … CSV HEADER, NULL as \\N), as multisets of rows.

    Firn's own columns (`_firn_…`) are not the source's and are left out. A column that only one side has makes every
    row differ.
    """
    columns, rows = _read(final)
    ours = [column for column in table.column_names if not column.startswith("_firn_")]
    if sorted(ours) != sorted(columns):
        return Comparison(name, 0, len(rows), table.num_rows)
    parsers = [_parser(table.schema.field(column).type) for column in columns]
    expected = Counter(
        tuple(None if text == NULL else parse(text) for parse, text in zip(parsers, row, strict=True)) for row in rows
    )
    found = Counter(zip(*(table.column(column).to_pylist() for column in columns), strict=True))
    return Comparison(name, (expected & found).total(), expected.total(), (found - expected).total())


def _read(file: Path) -> tuple[list[str], list[list[str]]]:
    packed = file.read_bytes()
    text = (gzip.decompress(packed) if file.suffix == ".gz" else packed).decode()
    lines = csv.reader(io.StringIO(text, newline=""))
    return next(lines), list(lines)


def _parser(kind: pa.DataType) -> Callable[[str], Any]:
    """How PostgreSQL's text of a column becomes the Python value that Arrow gives for `kind`."""
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_boolean(kind):
        return lambda text: text == "t"
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_date(kind):
        return date.fromisoformat
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat
    if pa.types.is_fixed_size_binary(kind):
        return lambda text: UUID(text).bytes
    if str(kind) == "extension<arrow.uuid>":
        return UUID
    return str
