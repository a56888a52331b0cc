"""What the SQL of a table is made of in any dialect: `ddl` has the dialects."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, MapType, NestedField, StructType
from sqlglot import exp

from firn.config.names import OWN
from firn.errors import TerminalError

Dialect = Literal["spark", "trino"]

_NEAREST: Final = {"spark": {"uuid": "STRING", "time": "STRING", "fixed": "BINARY"}, "trino": {"fixed": "VARBINARY"}}
# Properties that say how the table is written. Those of Firn tie a table to its stream, and places belong to one table.
_WORTH: Final = ("write.", "read.", "commit.", "history.")
_PLACES: Final = frozenset(
    {"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"}
)
_PERIODS: Final = {YearTransform: "year", MonthTransform: "month", DayTransform: "day", HourTransform: "hour"}


class NotInDialect(TerminalError):
    """The engine has nothing near what the table has; the text names it."""


@dataclass(frozen=True)
class Described:
    """What of a table goes into its SQL. `name`: namespace and table, each a part of its own."""

    name: tuple[str, ...]
    schema: Schema
    spec: PartitionSpec
    order: SortOrder
    properties: Mapping[str, str]
    format_version: int = 2


class Writer:
    """Writes what both dialects say alike, and collects what they can't."""

    dialect: Dialect
    types: Mapping[str, str]

    def __init__(self, table: Described, metadata: bool) -> None:
        self.table = table
        self.notes: list[str] = []
        self.fields = [one for one in table.schema.fields if metadata or not one.name.startswith(OWN)]
        self._with_own = metadata

    @property
    def name(self) -> str:
        """The table's name."""
        return ".".join(map(self.quoted, self.table.name))

    def quoted(self, name: str) -> str:
        """A name as an identifier."""
        return exp.to_identifier(name, quoted=True).sql(self.dialect)

    def text(self, value: str) -> str:
        """A value as a string."""
        return exp.Literal.string(value).sql(self.dialect)

    def columns(self) -> str:
        """All columns in brackets."""
        lines = []
        for one in self.fields:
            comment = f" COMMENT {self.text(one.doc)}" if one.doc else ""
            kind = self.type(one.field_type, one.name)
            lines.append(f"  {self.quoted(one.name)} {kind}{' NOT NULL' * one.required}{comment}")
        return "(\n" + ",\n".join(lines) + "\n)"

    def type(self, kind: IcebergType, path: str) -> str:
        """The engine's type; notes what is not quite the same."""
        if isinstance(kind, StructType):
            return self.struct(kind, path)
        if isinstance(kind, ListType):
            self.note_required(kind.element_required, f"{path}.element")
            return self.array(self.type(kind.element_type, f"{path}.element"))
        if isinstance(kind, MapType):
            self.note_required(kind.value_required, f"{path}.value")
            return self.mapping(self.type(kind.key_type, f"{path}.key"), self.type(kind.value_type, f"{path}.value"))
        if isinstance(kind, DecimalType):
            return f"DECIMAL({kind.precision},{kind.scale})"
        word = "fixed" if isinstance(kind, FixedType) else str(kind)
        if word in self.types:
            return self.types[word]
        nearest = _NEAREST[self.dialect].get(word)
        if nearest is None:
            raise NotInDialect(f"{path} is {kind}, and {self.dialect} has nothing for that: leave the column out")
        self.notes.append(f"{path} is {kind} in Iceberg, for which {self.dialect} has only {nearest}")
        return nearest

    def struct(self, kind: StructType, path: str) -> str:
        """The type of a struct."""
        raise NotImplementedError

    def array(self, element: str) -> str:
        """The type of a list."""
        raise NotImplementedError

    def mapping(self, key: str, value: str) -> str:
        """The type of a map."""
        raise NotImplementedError

    def path(self, field_id: int) -> list[str]:
        """The names that lead to a field: a name may hold dots itself."""
        return list(_path(self.table.schema.fields, field_id))

    def partitions(self) -> Iterator[tuple[Transform[Any, Any], list[str]]]:
        """The partition fields that still count, with their sources; notes names that the engine does not give."""
        for one in self.table.spec.fields:
            path = self.path(one.source_id)
            if isinstance(one.transform, VoidTransform) or not self.is_shown(path):
                continue
            usual = ".".join(path) + _ending(one.transform)
            if one.name != usual:
                self.notes.append(f"the partition field {one.name} will be called {usual}")
            yield one.transform, path

    def sorted_by(self, column: Callable[[Transform[Any, Any], list[str]], str]) -> Iterator[str]:
        """The fields of the sort order, as SQL."""
        for one in self.table.order.fields:
            path = self.path(one.source_id)
            if self.is_shown(path):
                nulls = one.null_order.value.replace("-", " ").upper()
                yield f"{column(one.transform, path)} {one.direction.value.upper()} {nulls}"

    def kept_properties(self) -> dict[str, str]:
        """The properties that another table of its kind should have."""
        found = {}
        for name, value in sorted(self.table.properties.items()):
            own = not self._with_own and f".column.{OWN}" in name
            if name.startswith(_WORTH) and name not in _PLACES and not own:
                found[name] = value
        return found

    def noted(self, statement: str) -> str:
        """The statement after comments of what differs."""
        lines = (" ".join(note.split()) for note in dict.fromkeys(self.notes))
        return "".join(f"-- {line}\n" for line in lines) + statement

    def is_shown(self, path: list[str]) -> bool:
        """Whether the column is one of the new table's."""
        return any(path[0] == one.name for one in self.fields)

    def note_required(self, required: bool, path: str) -> None:
        """Notes what is required, where the dialect can't say so."""
        if required:
            self.notes.append(f"{path} is never null, which {self.dialect} can't say")


def _ending(how: Transform[Any, Any]) -> str:
    """What Iceberg adds to a column's name to call a partition field by it."""
    if isinstance(how, BucketTransform | TruncateTransform):
        return "_bucket" if isinstance(how, BucketTransform) else "_trunc"
    return "" if isinstance(how, IdentityTransform) else f"_{period(how)}"


def period(how: Transform[Any, Any]) -> str:
    """The word for a transform by time."""
    return _PERIODS[type(how)]


def _path(fields: tuple[NestedField, ...], field_id: int) -> Iterator[str]:
    for one in fields:
        if one.field_id == field_id:
            yield one.name
            return
        if isinstance(one.field_type, StructType):
            below = list(_path(one.field_type.fields, field_id))
            if below:
                yield one.name
                yield from below
                return
