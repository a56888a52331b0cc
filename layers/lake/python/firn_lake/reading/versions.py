"""A table as it was at one moment: its snapshot, the schema it is read with, and the files in it."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundIsNull,
    BoundNotNull,
    BoundPredicate,
    Not,
    Or,
)
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyparsing import ParseException

from firn.changes.metadata_columns import is_own
from firn.errors import TerminalError
from firn.tables.snapshot_history import AsOf, NoSuchMoment
from firn_lake.reading import nano_filters  # noqa: F401 (as it is imported)
from firn_lake.reading.files import Source
from firn_lake.reading.manifests import KNOWN, Planner
from firn_lake.reading.moments import snapshot_at, snapshot_in
from firn_lake.reading.unreadable import UnreadableFile, reading
from firn_lake.tables import shown
from firn_lake.variant_type import VariantType

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from firn.log.cuts import Cut


class NoSuchColumn(TerminalError):
    """The table has no such column then; the text names those it has."""


class BadFilter(TerminalError):
    """The filter can't be read, or does not fit the table."""


@dataclass(frozen=True)
class Version:
    """A table at one moment. `snapshot` is None if it has no row yet. `note`: what whoever asked for a cut has to know:
    a view is of an earlier one."""

    name: str
    source: Source
    snapshot: "Snapshot | None"
    schema: Schema
    note: str = ""

    @property
    def id(self) -> int | None:
        """The snapshot's id."""
        return self.snapshot.snapshot_id if self.snapshot else None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, Firn's own among them."""
        return tuple(field.name for field in self.schema.fields)

    def select(self, columns: Sequence[str] | None, metadata: bool) -> Schema:
        """The schema of these columns, in this order; None: all, and Firn's own `_firn_…` ones if `metadata` says so.

        Raises NoSuchColumn.
        """
        if columns is None:
            columns = [name for name in self.columns if metadata or not is_own(name)]
        elif isinstance(columns, str):
            raise NoSuchColumn(f"columns={columns!r}: write a list of names, such as [{columns!r}]")
        fields = {field.name: field for field in self.schema.fields}
        for name in columns:
            if name not in fields:
                raise NoSuchColumn(f"{self._shown} has no column {name!r}{self._instead(str(name))}")
        if not columns:
            raise NoSuchColumn(f"no columns of {self._shown} are asked for: it has {', '.join(self.columns)}")
        return Schema(*(fields[name] for name in dict.fromkeys(columns)))

    def bound(self, text: str | BooleanExpression | None) -> BooleanExpression:
        """The filter, bound to the columns of this moment. Raises BadFilter."""
        if text is None:
            return AlwaysTrue()
        expression = self.parsed(text)
        try:
            found = bind(self.schema, expression, case_sensitive=True)
        except (ValueError, TypeError) as error:
            kinds = ", ".join(f"{field.name} ({field.field_type})" for field in self.schema.fields)
            raise BadFilter(f"the filter {text!s} does not fit {self._shown}: {error}. Its columns: {kinds}") from error
        for name in _compared_variants(found):
            raise BadFilter(
                f"the filter {text!s} compares {name} of {self._shown}, which is a variant: a filter may say that it "
                f"is null, or is not. SQL looks into it, such as WHERE {name}->>'status' = 'paid'"
            )
        return found

    def parsed(self, text: str | BooleanExpression) -> BooleanExpression:
        """The filter as an expression of columns' names, whatever the table has. Raises BadFilter."""
        try:
            return parse(text) if isinstance(text, str) else text
        except ParseException as error:
            raise BadFilter(
                f"the filter {text!r} can't be read at character {error.loc + 1}: write such as \"status = 'paid' and "
                "amount >= 10\", with and, or, not, in (…), is null, like '…%'"
            ) from error

    def files(self, text: str | BooleanExpression | None = None) -> Iterable[FileScanTask]:
        """The data files that may hold rows that fit the filter, and the files of deletes that each has.

        Raises BadFilter, UnreadableFile, StorageUnavailable.
        """
        if self.snapshot is None:
            return ()
        expression = AlwaysTrue() if text is None else self.parsed(text)
        self.bound(expression)
        # PyIceberg plans by the current schema: a filter on a column that had another name then would not be found.
        planner = Planner(at_schema(self.source.metadata, self.schema), self.source.io, expression)
        with reading(self.snapshot.manifest_list, self.name, self.id):
            try:
                return planner.plan_files(KNOWN.listed(self.source.io, self.snapshot))
            except ValueError as error:
                if "equality deletes" in str(error):
                    raise equality_deletes(self.name, self.id) from error
                raise

    @property
    def _shown(self) -> str:
        return f"{self.name} at snapshot {self.id}" if self.snapshot else self.name

    def _instead(self, name: str) -> str:
        near = difflib.get_close_matches(name.casefold(), [one.casefold() for one in self.columns], 1)
        meant = [one for one in self.columns if near and one.casefold() == near[0]]
        return (f"; do you mean {meant[0]!r}?" if meant else "") + f" It has {', '.join(self.columns)}"


def _compared_variants(where: BooleanExpression) -> Iterator[str]:
    """The columns of variants that a bound filter asks for more than null."""
    if isinstance(where, And | Or):
        yield from _compared_variants(where.left)
        yield from _compared_variants(where.right)
    elif isinstance(where, Not):
        yield from _compared_variants(where.child)
    elif isinstance(where, BoundPredicate) and not isinstance(where, BoundIsNull | BoundNotNull):
        field = where.term.ref().field
        if isinstance(field.field_type, VariantType):
            yield field.name


def version_at(table: "Table", as_of: AsOf, cut: "Cut | None" = None) -> Version:
    """The table as `as_of` or `cut` says. Raises NoSuchMoment.

    A branch, and None, are read with the table's schema of today; all else with that of its snapshot, as Iceberg says.
    """
    found, note = (snapshot_at(table, as_of), "") if cut is None else snapshot_in(table, cut)
    snapshot = table.current_snapshot() if found is None else table.snapshot_by_id(found)
    ref = table.metadata.refs.get(as_of.strip()) if isinstance(as_of, str) else None
    today = cut is None and (as_of is None or (ref is not None and ref.snapshot_ref_type.value == "branch"))
    version = version_of(table, snapshot, table.schema() if today else None)
    return replace(version, note=note) if note else version


def version_named(table: "Table", which: int | str) -> Version:
    """The table at a snapshot, by its id or (a text) the name of a tag or branch. Raises NoSuchMoment."""
    refs = table.metadata.refs
    if isinstance(which, str) and which in refs:
        return version_at(table, which)
    number = int(which) if str(which).isdecimal() else None
    snapshot = None if number is None else table.snapshot_by_id(number)
    if snapshot is None:
        raise NoSuchMoment(
            f"{shown(table)} has no version {which!r}, or it has expired; it has the tags and branches "
            f"{', '.join(sorted(refs)) or '(none)'}, and firn history {shown(table)} lists its snapshots"
        )
    return version_of(table, snapshot)


def version_of(table: "Table", snapshot: "Snapshot | None", schema: Schema | None = None) -> Version:
    """The table at a snapshot. `schema`: what to read it with; None: the one it was written with."""
    if schema is None:
        by_id = table.schemas()
        written = snapshot.schema_id if snapshot else None
        schema = by_id[written] if written in by_id else table.schema()
    name = shown(table)
    source = Source(table.io, table.metadata, name, snapshot.snapshot_id if snapshot else None)
    return Version(name, source, snapshot, schema)


def at_schema(metadata: "TableMetadata", schema: Schema) -> "TableMetadata":
    """The metadata as if `schema` were the table's current one."""
    if metadata.current_schema_id == schema.schema_id:
        return metadata
    return metadata.model_copy(update={"current_schema_id": schema.schema_id})


def equality_deletes(table: str, snapshot: int | None) -> UnreadableFile:
    """The error for files of deletes by value, which Firn never writes and does not read."""
    return UnreadableFile(
        f"snapshot {snapshot} of {table} has equality deletes, which another writer made: they are read by Spark only. "
        "Compact the table there (CALL system.rewrite_data_files), then read it here"
    )
