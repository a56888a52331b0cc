"""Partition specs: built, checked against a table's columns, and changed. The words are those of firn.yaml.

>>> partition_by(bucket(16, "customer_id")) == partition_by("bucket(16, customer_id)")
True
>>> table.partition([day("created_at")])  # what is written from now on
"""

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import IcebergType

from firn.changes.metadata_columns import is_own
from firn.config.partitions import Partition, in_words, parse
from firn.config.partitions import Transform as Name
from firn.errors import TerminalError, TransientError
from firn_lake.reading.manifests import KNOWN
from firn_lake.tables import shown
from firn_lake.writing.commit import writable

if TYPE_CHECKING:
    from pyiceberg.table import Table

NAMES: Final[tuple[Name, ...]] = ("identity", "bucket", "truncate", "year", "month", "day", "hour")
_SUFFIX: Final = {"identity": "", "bucket": "_bucket", "truncate": "_trunc"}  # as Iceberg's builder names fields
_PLAIN: Final[dict[str, Callable[[], Transform[Any, Any]]]] = {
    "identity": IdentityTransform,
    "year": YearTransform, "month": MonthTransform, "day": DayTransform, "hour": HourTransform,
}  # fmt: skip
_SIZE: Final = 16  # for the text of errors


class BadPartition(TerminalError):
    """No such partition can be had of the table; the text names the columns, or the transforms of the column's type."""


class TableMoved(TransientError):
    """Another writer changed the table meanwhile: nothing was done, try again."""


def identity(column: str) -> Partition:
    """A partition for each value."""
    return Partition("identity", column)


def bucket(count: int, column: str) -> Partition:
    """`count` partitions, by a hash of the value. Raises BadPartition for a count below 1."""
    return _sized("bucket", count, column)


def truncate(width: int, column: str) -> Partition:
    """By the first `width` characters, or by numbers cut to multiples of it. Raises BadPartition for less than 1."""
    return _sized("truncate", width, column)


def year(column: str) -> Partition:
    """A partition a year, of a date or a timestamp; UTC."""
    return Partition("year", column)


def month(column: str) -> Partition:
    """A partition a month, of a date or a timestamp; UTC."""
    return Partition("month", column)


def day(column: str) -> Partition:
    """A partition a day, of a date or a timestamp; UTC."""
    return Partition("day", column)


def hour(column: str) -> Partition:
    """A partition an hour, of a timestamp; UTC."""
    return Partition("hour", column)


def partition_by(*entries: str | Partition) -> tuple[Partition, ...]:
    """The entries as firn.yaml's `partition_by` has them, parsed. Raises BadPartition, which says what to write."""
    try:
        found = tuple(parse(one) if isinstance(one, str) else one for one in entries)
    except ValueError as error:
        raise BadPartition(str(error)) from error
    twice = next((one for number, one in enumerate(found) if one in found[:number]), None)
    if twice is not None:
        raise BadPartition(f"{str(twice)!r} is there twice")
    return found


def spec_for(schema: Schema, entries: Iterable[str | Partition]) -> PartitionSpec:
    """The spec of a new table with these columns; fields are named as the commit job names them (`id_bucket`).

    Raises BadPartition.
    """
    fields = []
    for number, one in enumerate(checked(schema, partition_by(*entries))):
        name = one.column + _SUFFIX.get(one.transform, f"_{one.transform}")
        source = schema.find_field(one.column).field_id
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START + number, transform_of(one), name))
    return PartitionSpec(*fields)


def checked(schema: Schema, wanted: Sequence[Partition]) -> Sequence[Partition]:
    """The same, if a table with these columns can be partitioned so. Raises BadPartition."""
    names = [name for name in (field.name for field in schema.fields) if not is_own(name)]
    times: dict[str, Partition] = {}
    for one in wanted:
        if one.column not in names:
            near = difflib.get_close_matches(one.column, names, 1)
            meant = f"; do you mean {near[0]!r}?" if near else "."
            raise BadPartition(f"{one}: there is no column {one.column!r}{meant} Columns: {', '.join(names)}")
        kind = schema.find_type(one.column)
        if not transform_of(one).can_transform(kind):
            raise BadPartition(f"{one}: {one.column} is {kind}, which can have {_valid(kind, one.column)}")
        if isinstance(transform_of(one), TimeTransform) and (other := times.setdefault(one.column, one)) is not one:
            raise BadPartition(f"{other} and {one}: one of a column is enough, and Iceberg allows no more; keep {one}")
    return wanted


def transform_of(one: Partition) -> Transform[Any, Any]:
    """Iceberg's transform."""
    if one.size is not None:
        return BucketTransform(one.size) if one.transform == "bucket" else TruncateTransform(one.size)
    return _PLAIN[one.transform]()


def described(spec: PartitionSpec, schema: Schema) -> tuple[str, ...]:
    """A spec's fields in the words of firn.yaml; those that hold nothing any more (version 1's void) are left out."""
    return tuple(_entry(field, schema) for field in spec.fields if not isinstance(field.transform, VoidTransform))


@dataclass(frozen=True)
class SpecChange:
    """How a table's partitioning changed, or would. Entries are those of `partition_by`; `files`: the data files there
    are, by how they are partitioned. They stay as they are, and are read as well as new ones, until they are rewritten.
    """

    table: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    files: dict[tuple[str, ...], int]
    done: bool

    @property
    def old_files(self) -> int:
        """Data files that are partitioned otherwise than new ones."""
        return sum(count for entries, count in self.files.items() if entries != self.after)

    def __str__(self) -> str:
        if self.before == self.after:
            return f"{self.table} is partitioned by {_words(self.after)} already"
        what = "is" if self.done else "would be"
        stay = f"; {self.old_files:,} older files stay as they are until they are rewritten" if self.old_files else ""
        return f"{self.table} {what} partitioned by {_words(self.after)}, not {_words(self.before)}, from here on{stay}"


def repartition(table: "Table", by: Iterable[str | Partition], *, dry_run: bool = False) -> SpecChange:
    """Partitions what is written from now on by all of these entries, in one commit of metadata; () is by nothing.

    No snapshot is made and no file is touched: progress, cuts and earlier moments stay as they are.

    Raises BadPartition, CannotWrite, TableMoved.
    """
    schema, spec = table.schema(), table.spec()
    wanted = checked(schema, partition_by(*by))
    before = described(spec, schema)
    kept = [entry for entry in before if entry in map(str, wanted)]
    after = (*kept, *(str(one) for one in wanted if str(one) not in kept))
    if after != before and not dry_run:
        writable(table)
        try:
            with _SpecUpdate(Transaction(table, autocommit=True)) as update:
                for field in spec.fields:
                    if _entry(field, schema) not in kept and not isinstance(field.transform, VoidTransform):
                        update.remove_field(field.name)
                for one in wanted:
                    if str(one) not in kept:
                        update.add_field(one.column, transform_of(one))
        except ValueError as error:
            raise BadPartition(f"{shown(table)}: {error}") from error
        except CommitFailedException as error:
            raise TableMoved(f"{shown(table)} changed meanwhile: {error}; try again") from error
    return SpecChange(shown(table), before, after, _files(table), after != before and not dry_run)


class _SpecUpdate(UpdateSpec):
    """A field that a spec of the table had before keeps its id, as the specification asks ("Partition Evolution").
    PyIceberg 0.12 sees to it in format 2 alone."""

    def _partition_field(self, transform_key: tuple[int, Transform[Any, Any]], name: str | None) -> PartitionField:
        metadata = self._transaction.table_metadata
        if metadata.format_version > 2:
            for known in (field for spec in metadata.specs().values() for field in spec.fields):
                if (known.source_id, repr(known.transform)) == (transform_key[0], repr(transform_key[1])):
                    return known
        return super()._partition_field(transform_key, name)


def _files(table: "Table") -> dict[tuple[str, ...], int]:
    """Live data files by how they are partitioned, from the list of manifests alone."""
    snapshot, found = table.current_snapshot(), dict[tuple[str, ...], int]()
    for one in KNOWN.listed(table.io, snapshot) if snapshot is not None else ():
        if one.content == ManifestContent.DATA:
            entries = described(table.specs()[one.partition_spec_id], table.schema())
            found[entries] = found.get(entries, 0) + (one.added_files_count or 0) + (one.existing_files_count or 0)
    return {entries: count for entries, count in found.items() if count}


def _entry(field: PartitionField, schema: Schema) -> str:
    return in_words(str(field.transform), schema.find_column_name(field.source_id) or field.name)


def _valid(kind: IcebergType, column: str) -> str:
    every = (Partition(one, column, _SIZE if one in ("bucket", "truncate") else None) for one in NAMES)
    valid = [str(one) if one.transform != "identity" else f"{column} itself" for one in every
             if transform_of(one).can_transform(kind)]  # fmt: skip
    return ", ".join(valid) or "no partition"


def _sized(name: Name, size: int, column: str) -> Partition:
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 2**31:
        raise BadPartition(f"{name}({size!r}, {column!r}) needs a number above 0 first; write {name}(16, {column!r})")
    return Partition(name, column, size)


def _words(entries: Sequence[str]) -> str:
    return ", ".join(entries) or "nothing"
