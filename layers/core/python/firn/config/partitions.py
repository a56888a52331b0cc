"""`partition_by` entries: Iceberg's partition transforms by the names that its specification gives them."""

import re
from dataclasses import dataclass
from typing import Literal

from firn.config.names import quoted

Transform = Literal["identity", "bucket", "truncate", "year", "month", "day", "hour"]

_PLAIN: dict[str, Transform] = {
    "identity": "identity", "year": "year", "month": "month", "day": "day", "hour": "hour",
    # Spark's own spelling of the same.
    "years": "year", "months": "month", "days": "day", "hours": "hour",
}  # fmt: skip
_SIZED: dict[str, Transform] = {"bucket": "bucket", "truncate": "truncate"}
_CALL = re.compile(r"\s*([A-Za-z]+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_SIZE = re.compile(r"(\d{1,9})\s*,\s*(.+)", re.DOTALL)
_MAX_SIZE = 2**31 - 1
_HOW = "write a column, identity(col), bucket(16, col), truncate(8, col), year(col), month(col), day(col) or hour(col)"
# The types that a transform takes, https://iceberg.apache.org/spec/#partition-transforms; identity takes all but
# lists, maps and fixed.
_FINE = frozenset({"timestamp_ns", "timestamptz_ns"})
_MOMENTS = _FINE | {"timestamp", "timestamptz"}
_TAKES: dict[Transform, frozenset[str]] = {
    "bucket": _MOMENTS | {"int", "long", "decimal", "date", "time", "string", "uuid", "binary", "fixed"},
    "truncate": frozenset({"int", "long", "decimal", "string", "binary"}),
    "year": _MOMENTS | {"date"}, "month": _MOMENTS | {"date"}, "day": _MOMENTS | {"date"}, "hour": _MOMENTS,
}  # fmt: skip


@dataclass(frozen=True)
class Partition:
    """One field of a table's partition spec. `size` is the number of buckets or the width of truncate, else None."""

    transform: Transform
    column: str
    size: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        return (
            f"{self.transform}({self.column})" if self.size is None else f"{self.transform}({self.size}, {self.column})"
        )

    @property
    def iceberg(self) -> str:
        """The transform as Iceberg writes it: `bucket[16]`."""
        return self.transform if self.size is None else f"{self.transform}[{self.size}]"

    @property
    def sql(self) -> str:
        """As Spark's `PARTITIONED BY` wants it: ``days(`created_at`)``, ``bucket(16, `customer_id`)``."""
        column = quoted(self.column)
        if self.transform == "identity":
            return column
        if self.size is not None:
            return f"{self.transform}({self.size}, {column})"
        return f"{self.transform}s({column})"


def parse(text: str) -> Partition:
    """`day(created_at)` -> Partition("day", "created_at"). Names with odd characters: bare, or in backquotes or quotes.

    Raises ValueError, whose text says what to write instead.
    """
    call = _CALL.fullmatch(text)
    if call is None:
        if "(" in text and not _is_quoted(text.strip()):
            raise ValueError(f"{text!r} is not a partition; {_HOW}")
        return Partition("identity", _column(text))
    name, inside = call.group(1).lower(), call.group(2)
    if name in _PLAIN:
        return Partition(_PLAIN[name], _column(inside))
    if name in _SIZED:
        sized = _SIZE.fullmatch(inside)
        if sized is None or not 0 < int(sized.group(1)) <= _MAX_SIZE:
            raise ValueError(f"{text!r} needs a number above 0 and a column; write {name}(16, {_guess_column(inside)})")
        return Partition(_SIZED[name], _column(sized.group(2)), int(sized.group(1)))
    raise ValueError(f"{text!r}: {name} is not a partition transform; {_HOW}")


def misfit(partition: Partition, kind: str) -> str | None:
    """What is wrong with a partition of a column of this type (Type.name), and what can be had; None for nothing."""
    column = partition.column
    if kind in ("list", "map", "variant"):
        return f"{column} is a {kind}, which nothing can be partitioned by"
    if kind == "fixed" and partition.transform != "bucket":  # Iceberg 1.11 can't read the manifests that it writes then
        return f"{column} is fixed, whose values no table can be partitioned by; write bucket(16, {column})"
    if kind in _FINE and partition.transform == "identity":  # PyIceberg reads no manifests of such
        return f"{column} is {kind}, of which each value would be a partition; write hour({column}) or day({column})"
    if partition.transform == "identity" or kind in _TAKES[partition.transform]:
        return None
    sizes: dict[str, int] = {"bucket": 16, "truncate": 8}
    fitting = (Partition(name, column, sizes.get(name)) for name, kinds in _TAKES.items() if kind in kinds)
    return f"{partition}: {column} is {kind}; write {', '.join([column, *map(str, fitting)])}"


def in_words(transform: str, column: str) -> str:
    """An Iceberg transform, as its metadata spell it (`bucket[16]`), and its column as an entry: `bucket(16, id)`."""
    name, bracket, size = transform.rstrip("]").partition("[")
    if bracket:
        return f"{name}({size}, {column})"
    return column if name == "identity" else f"{name}({column})"


def _is_quoted(text: str) -> bool:
    return len(text) > 2 and text[0] == text[-1] and text[0] in "`\"'"


def _column(text: str) -> str:
    text = text.strip()
    name = text[1:-1] if _is_quoted(text) else text
    if not name:
        raise ValueError(f"a partition needs a column; {_HOW}")
    return name


def _guess_column(inside: str) -> str:
    words = [word.strip() for word in inside.split(",") if not word.strip().lstrip("-").isdigit()]
    return words[0] if words and words[0] else "col"
