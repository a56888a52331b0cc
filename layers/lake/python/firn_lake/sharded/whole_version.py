"""All shards of a table as they were at one moment.

The rest leads: its snapshot is the moment, its columns are those of all, and it names a snapshot of each other shard
(firn.tables.shard_cut). So a row that moves is in exactly one of them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysFalse, BooleanExpression
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.schema import Schema

from firn.changes.placement.shard_map import ShardMap
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.config.whole_tables import Whole
from firn.tables.shard_cut import At, cut_in, map_told, sharding_in, version_in
from firn.tables.shard_names import SHARD_OF, SHARDS_AT, SHARDS_MAP
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.reading.pruning import Pruned, PrunedFile, prune
from firn_lake.reading.rows import BATCH_SIZE, Batches, Rows
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import Version, version_of
from firn_lake.schemas.arrow_types import cast
from firn_lake.sharded.placed_rows import Keep
from firn_lake.sharded.shard_choice import may_fit, shards_of
from firn_lake.sharded.shard_columns import as_shard_has, filter_in_shard
from firn_lake.tables import TableNotFound, identifier_text

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

Load = Callable[[tuple[str, ...]], "Table"]
ReadShard = Callable[[Schema, BooleanExpression | None], Rows]


@dataclass(frozen=True)
class Part:
    """One shard at the moment. `schema`: the columns that are asked for, as it has them; `files`: which of its files
    may hold rows."""

    shard: str
    version: Version
    schema: Schema
    files: BooleanExpression

    @property
    def rows(self) -> Rows:
        """Those that may fit."""
        return Rows(self.version, self.schema, files=self.files)


@dataclass(frozen=True)
class ShardCut:
    """Where the shards were at a snapshot of the rest's.

    leading  the snapshot that says so: itself, or the newest before
    under    the version of the map then: which shard a row belonged to, and where each lay
    at       the other shards that had a table, by name
    """

    leading: "Snapshot | None"
    under: MapVersion
    at: Mapping[str, At]

    @property
    def map(self) -> ShardMap:
        """That of the version."""
        return self.under.map

    @property
    def by_table(self) -> dict[str, At]:
        """The same by their tables."""
        return {self.map.homes[shard].table: at for shard, at in self.at.items()}


class Shards:
    """The tables of all shards, opened as they are needed."""

    def __init__(self, whole: Whole, load: Load, rest: "Table") -> None:
        """Raises TableNotFound if the rest's table is that of no shards: no commit has made it so yet."""
        sharding = sharding_in(rest.properties)
        if sharding is None:
            raise TableNotFound(f"{whole.name} is not in the lake yet: no commit has made its shards")
        self.whole, self.rest = whole, rest
        self._sharding = sharding
        self._maps: dict[int, MapVersion] = {}
        self._load = load
        self._opened: dict[str, Table] = {}

    @property
    def name(self) -> str:
        """What all are read as."""
        return identifier_text(self.whole.name.identifier)

    @property
    def opened(self) -> list[tuple[str, ...]]:
        """The identifiers of those that were looked at."""
        return [table.name() for table in (self.rest, *self._opened.values())]

    def table(self, name: str) -> "Table":
        """One of them but the rest's. Raises UnreadableFile if it is not there, or was not made for this."""
        if name not in self._opened:
            try:
                found = self._load(TableName.parse(name).identifier)
            except NoSuchTableError as error:
                raise UnreadableFile(f"{name}, a shard of {self.name}, is not in the lake any more") from error
            if found.properties.get(SHARD_OF) != str(self.whole.rest):
                raise UnreadableFile(f"{name} is no shard of {self.name}: it was made again, or by somebody else")
            self._opened[name] = found
        return self._opened[name]

    def cut_at(self, snapshot: "Snapshot | None") -> ShardCut:
        """Where the shards were at a snapshot of the rest's."""
        at = snapshot
        while at is not None:
            told = _told(at)
            if SHARDS_AT in told:
                under, found = self._under(at), cut_in([told], "")
                return ShardCut(at, under, {name: one for name, one in found.items() if name in under.map.homes})
            at = self._before(at)
        return ShardCut(None, MapVersion(self._sharding.map), {})

    @property
    def ever(self) -> frozenset[str]:
        """The tables of all shards that there are, and of those that there were. Raises as cut_at."""
        return self.cut_at(self.rest.current_snapshot()).under.ever | {str(one) for one in self.whole.shards}

    def _under(self, leading: "Snapshot") -> MapVersion:
        """The map that a snapshot is under. The snapshot that has it may have expired: its number says which it is, and
        a newer one may have it too."""
        number = version_in([_told(leading)])
        if number not in self._maps:
            told = [_told(one) for one in (*self._line(leading), *self.rest.metadata.snapshots)]
            mine = [one for one in told if version_in([one]) == number]
            if number > 1 and not any(SHARDS_MAP in one for one in mine):
                raise NoSuchMoment(
                    f"version {number} of the map of the shards of {self.name}, which counted at that moment, has "
                    "expired with the snapshot that had it: read it at a newer one"
                )
            try:
                self._maps[number] = map_told(mine, self._sharding)
            except ValueError as error:
                raise UnreadableFile(f"{self.name}: {error}") from error
        return self._maps[number]

    def _line(self, snapshot: "Snapshot") -> "Iterator[Snapshot]":
        at: Snapshot | None = snapshot
        while at is not None:
            yield at
            at = self._before(at)

    def _before(self, snapshot: "Snapshot") -> "Snapshot | None":
        parent = snapshot.parent_snapshot_id
        return None if parent is None else self.rest.snapshot_by_id(parent)

    def snapshot(self, name: str, at: At) -> "Snapshot":
        """That of a shard's table. Raises NoSuchMoment if it has expired."""
        found = self.table(name).snapshot_by_id(at.snapshot)
        if found is None:
            raise NoSuchMoment(
                f"snapshot {at.snapshot} of {name}, which {self.name} had at that moment, has expired: read it at a "
                "newer one"
            )
        return found


class WholeVersion:
    """All shards at one moment. `version`: the columns, and which moment it is."""

    def __init__(self, shards: Shards, at: Version) -> None:
        """`at`: the rest at that moment."""
        self.shards, self.cut = shards, shards.cut_at(at.snapshot)
        leading = self.cut.leading
        if leading is not None and at.snapshot is not None:
            # Where they differ, a commit that rewrites a column of all shards is under way.
            same = leading.schema_id == at.snapshot.schema_id
            at = replace(version_of(shards.rest, at.snapshot if same else leading), note=at.note)
        self._rest = at
        self.version = replace(at, name=shards.name)

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The identifiers of the tables of all shards, whether they are made or not: those that were shards once, and
        those that are by now, too. What narrows one of them narrows the rows that it had or came to have."""
        return [TableName.parse(one).identifier for one in sorted(self.cut.under.ever | self.shards.ever)]

    def read(self, schema: Schema, files: BooleanExpression) -> Batches:
        """Rows with these columns, of which some may not fit `files`."""
        return WholeRows(self, schema, files=files)

    @property
    def made(self) -> list[str]:
        """The shards that have a table at that moment, the rest first."""
        return [self.cut.map.rest, *sorted(self.cut.at)]

    def chosen(self, text: "str | BooleanExpression | None") -> frozenset[str]:
        """The shards that may hold rows that fit a filter, made or not."""
        return shards_of(rewrite_not(self.version.bound(text)), self.version.schema, self.cut.map)

    def fitting(self, text: "str | BooleanExpression | None") -> Callable[[Any], bool]:
        """Whether a row that has a value, as it came, in the map's column may fit a filter."""
        where = rewrite_not(self.version.bound(text))
        return partial(may_fit, where, self.version.schema, self.cut.map)

    def needed(self, where: BooleanExpression) -> list[str]:
        """Those that are made and may hold rows that fit a filter, which is bound."""
        chosen = shards_of(where, self.version.schema, self.cut.map)
        return [name for name in self.made if name in chosen]

    def parts(
        self, schema: Schema, files: "str | BooleanExpression | None", only: Collection[str] | None = None
    ) -> Iterator[Part]:
        """What is read of each shard that a filter needs. `only`: of these; None: of all. Raises UnreadableFile,
        NoSuchMoment, StorageUnavailable."""
        where = rewrite_not(self.version.bound(files))
        for shard in self.needed(where):
            part = self._part(shard, schema, where) if only is None or shard in only else None
            if part is not None and not isinstance(part.files, AlwaysFalse):
                yield part

    def reading_as(self, version: Version) -> "WholeVersion":
        """The same shards, read with the columns of `version`, which is the rest with more or wider ones."""
        found = copy(self)
        found._rest, found.version = replace(version, name=self._rest.name), replace(version, name=self.version.name)
        return found

    def in_its_columns(self, shard: str) -> tuple[Version, ReadShard]:
        """One of `made` with its own numbers of the columns of all, and how rows are read that may fit an expression,
        with some of these. Raises as of_shard."""
        at = self.of_shard(shard)

        def read(schema: Schema, files: BooleanExpression | None) -> Rows:
            where = filter_in_shard(rewrite_not(self.version.bound(files)), self.version.schema, at.schema)
            return Rows(at, schema, files=where)

        if shard == self.cut.map.rest:
            return at, read
        schema = as_shard_has(self.version.schema, at.schema, at.name, at.source.metadata.last_column_id + 1)
        return replace(at, schema=schema), read

    def prune(self, text: "str | BooleanExpression", *, footers: bool) -> "PrunedWhole":
        """Which shards, and which of their files, a read with this filter reads."""
        where = rewrite_not(self.version.bound(text))
        needed = self.needed(where)
        files: list[PrunedFile] = []
        for shard in needed:
            part = self._part(shard, self.version.schema, where)
            files += prune(part.version, part.files, footers=footers).files
        homes = self.cut.map.homes
        read, left = (tuple(homes[one].table for one in some) for some in (needed, self._others(needed)))
        return PrunedWhole(self.version.name, self.version.id, str(text), files, read, left)

    def of_shard(self, shard: str) -> Version:
        """One of `made` at the moment. Raises UnreadableFile, NoSuchMoment."""
        if shard == self.cut.map.rest:
            return self._rest
        name = self.cut.map.homes[shard].table
        return version_of(self.shards.table(name), self.shards.snapshot(name, self.cut.at[shard]))

    def _others(self, some: Sequence[str]) -> list[str]:
        return [one for one in self.made if one not in some]

    def _part(self, shard: str, schema: Schema, where: BooleanExpression) -> Part:
        at = self.of_shard(shard)
        if shard == self.cut.map.rest:
            return Part(shard, at, schema, filter_in_shard(where, at.schema, at.schema))
        its = as_shard_has(schema, at.schema, at.name, at.source.metadata.last_column_id + 1)
        return Part(shard, at, its, filter_in_shard(where, self.version.schema, at.schema))


class WholeRows(Rows):
    """The rows of all shards at one moment. `snapshot`: the rest's."""

    def __init__(
        self,
        whole: WholeVersion,
        schema: Schema,
        where: "str | BooleanExpression | None" = None,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
        files: "BooleanExpression | None" = None,
        only: Mapping[str, Keep | None] | None = None,
    ) -> None:
        """As for Rows. `only`: of these shards, and of each which rows (None: all of it), by columns of `schema`."""
        super().__init__(whole.version, schema, where, batch_size, limit, files)
        self._whole, self._only = whole, only

    def arrow(self) -> pa.Table:
        """All rows, in memory."""
        return Batches.arrow(self)

    def count(self) -> int:
        """How many rows there are: without a filter from metadata and the files of deletes alone."""
        if self._limit is not None or self._keep is not None or self._only is not None:
            return Batches.count(self)
        return sum(part.rows.count() for part in self._whole.parts(self._schema, None))

    def _found(self) -> Iterator[pa.RecordBatch]:
        if self._limit == 0:
            return
        self.opened = (0, 0)
        for part in self._whole.parts(self._read_as, self._files, self._only):
            mine = None if self._only is None else self._only[part.shard]
            rows, (files, size) = part.rows, self.opened
            for batch in rows:
                self.opened = files + rows.opened[0], size + rows.opened[1]
                found = batch if mine is None else batch.filter(mine(batch))
                found = found if self._keep is None else found.filter(self._keep)
                if found.num_rows:
                    yield cast([found.column(name) for name in self.schema.names], self.schema)


@dataclass(frozen=True)
class PrunedWhole(Pruned):
    """What a filter leaves of all shards. `files`: of those that are opened; `shards`: their tables; `left_out`: the
    tables of those that the map leaves out, of which nothing is read."""

    shards: tuple[str, ...] = field(default=(), repr=False)
    left_out: tuple[str, ...] = field(default=(), repr=False)

    def plain(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return super().plain() | {"shards": list(self.shards), "shards_left_out": list(self.left_out)}

    def __str__(self) -> str:
        total = len(self.shards) + len(self.left_out)
        return f"{len(self.shards):,} of {total:,} shards are opened, and of these {super().__str__()}"


def _told(snapshot: "Snapshot") -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}
