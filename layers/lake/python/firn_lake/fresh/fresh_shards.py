"""A table of several shards with what waits for it, read as one or shard by shard.

What waits is folded once over all shards, as a commit does it (docs/adr/0104-shards.md). The whole is then what is
stored at the cut without the keys that are replaced, and the new rows: where they lie is of no matter. A shard is the
part of that which the map of the next commit places in it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema

from firn.changes.placement.map_changes import copies, named_in
from firn.config.map_document import MapVersion
from firn.config.model import Config, StreamConfig, TableRule
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.config.whole_tables import Whole, whole_tables
from firn.errors import TerminalError
from firn.log import shard_maps
from firn.tables import shard_cut
from firn.tables.shard_names import SHARD_OF, SHARDS
from firn_lake.fresh.fresh_rows import FreshRows
from firn_lake.fresh.merge_pending import mirrored
from firn_lake.fresh.pending import Look, NotFresh
from firn_lake.fresh.pending_table import Waiting, as_it_will_be, state_of, waiting
from firn_lake.fresh.stored_shards import StoredShards
from firn_lake.reading.rows import BATCH_SIZE, Rows
from firn_lake.reading.versions import Version, version_at
from firn_lake.sharded.placed_rows import Keep, with_value
from firn_lake.sharded.whole_version import Shards, WholeRows, WholeVersion

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from firn.changes.decode.types import Column
    from firn.changes.merge.fold import Row
    from firn_lake.fresh.stored_rows import Stored
    from firn_lake.reading.read_recorder import OnRead


class FreshShards:
    """What the names of one table of several shards have in common."""

    def __init__(
        self, catalog: "Catalog", look: Look, whole: Whole, rest: "Table | None", on_read: "OnRead | None" = None
    ) -> None:
        """`look` was begun before `rest` was loaded; None: no commit has made it yet. Raises NotFresh."""
        self.catalog, self.look, self.whole, self.rest = catalog, look, whole, rest
        self._on_read = on_read
        self._stream, self._rule = _rule_of(look.config, whole)
        self.state = state_of(rest) if rest is not None else None
        try:
            shard_cut.check(whole.rest, self._rule, self.state)
        except TerminalError as why:
            raise NotFresh(str(why)) from why
        if rest is not None:
            self._tell(rest.name())

    @cached_property
    def waits(self) -> Waiting | None:
        """What waits for all of them. Raises NotFresh, StorageUnavailable."""
        return next(iter(waiting(self.look, self.whole.rest, self.state)), None)

    @cached_property
    def stored(self) -> WholeVersion | None:
        """All of them as the rest names them now; None if no commit has made them. Raises NoSuchMoment, UnreadableFile,
        StorageUnavailable."""
        if self.rest is None:
            return None
        return WholeVersion(Shards(self.whole, self._load, self.rest), version_at(self.rest, None))

    @cached_property
    def coming(self) -> WholeVersion | None:
        """The same with the columns that what waits brings or widens. Raises NotFresh too."""
        if self.stored is None or self.waits is None or self.rest is None:
            return self.stored
        schema, now = self.rest.schema(), {field.name: field for field in self.rest.schema().fields}
        for field in self.stored.version.schema.fields:
            if field.name not in now or now[field.name].field_id != field.field_id:
                raise NotFresh(
                    f"a commit is rewriting the column {field.name} of the shards of {self.whole.name}: run firn "
                    "flush, or read it without fresh"
                )
        version = replace(self.stored.version, schema=schema)
        return self.stored.reading_as(as_it_will_be(self.whole.name, version, [self.waits]))

    @cached_property
    def version(self) -> Version:
        """The columns of all, and the snapshot of the rest on which all stand. Raises NotFresh."""
        if self.coming is not None:
            return self.coming.version
        if self.waits is None:
            raise NotFresh(f"nothing waits for {self.whole.name}, and no commit has made it")
        return as_it_will_be(self.whole.name, None, [self.waits])

    @cached_property
    def maps(self) -> tuple[MapVersion, MapVersion]:
        """The map of what is stored, and that under which the last of what waits will be. Raises NotFresh."""
        before = MapVersion(self._sharding.map) if self.stored is None else self.stored.cut.under
        waits, rest = self.waits, str(self.whole.rest)
        if waits is None:
            return before, before
        batches = (n for n, batch in waits.pending.batches if n > waits.above and batch.of(waits.target.sources))
        number = max([before.number, *(waits.pending.maps.get(n, {}).get(rest, 1) for n in batches)])
        return before, before if number == before.number else self._version_of_map(number)

    def newest_tables(self) -> Mapping[str, TableName]:
        """The tables of all shards by the newest map in the log. Raises NotFresh, StorageUnavailable."""
        numbers = shard_maps.newest(self.look.store, self._stream)
        return self._version_of_map(numbers.get(str(self.whole.rest), 1)).tables

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """As WholeVersion says, those of the next map too."""
        known = [*self.stored.tables] if self.stored is not None else [one.identifier for one in self.whole.shards]
        return sorted({*known, *(TableName.parse(one).identifier for one in self.maps[1].ever)})

    @property
    def opened(self) -> list[tuple[str, ...]]:
        """The identifiers of those that were looked at."""
        return [] if self.stored is None else self.stored.shards.opened

    @property
    def _sharding(self) -> Sharding:
        if self._rule.shard is None:
            raise NotFresh(f"{self.whole.rest} has no shards in the published configuration")
        return self._rule.shard

    def _version_of_map(self, number: int) -> MapVersion:
        try:
            return shard_maps.read(self.look.store, self._stream.name, str(self.whole.rest), self._sharding, number)
        except TerminalError as why:
            raise NotFresh(str(why)) from why

    def _load(self, identifier: tuple[str, ...]) -> "Table":
        found = self.catalog.load_table(identifier)
        self._tell(identifier)
        return found

    def _tell(self, identifier: tuple[str, ...]) -> None:
        if self._on_read is not None:
            self._on_read(identifier)


class _NameOfShards:
    """A name that shards are read by, as FreshTable."""

    def __init__(self, shards: FreshShards) -> None:
        self.of = shards

    @property
    def table(self) -> "Table | None":
        """The rest, which leads; None: no commit has made it."""
        return self.of.rest

    @property
    def is_as_stored(self) -> bool:
        """Whether nothing waits. Raises NotFresh, StorageUnavailable."""
        return self.of.waits is None


class FreshWhole(_NameOfShards):
    """All shards under the name that they are read by as one."""

    @property
    def version(self) -> Version:
        """As FreshShards says."""
        return self.of.version

    @property
    def shards(self) -> list[tuple[str, ...]]:
        """The identifiers of the tables that it is made of, or was or comes to be."""
        return self.of.tables

    def read(
        self,
        schema: Schema,
        where: "str | BooleanExpression | None" = None,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
    ) -> Rows | FreshRows:
        """As FreshTable says. Shards that the filter does not need are opened only to look for newer rows of keys that
        waiting changes would bring into its rows."""
        of, whole = self.of, self.of.coming
        if of.waits is None and whole is not None:
            return WholeRows(whole, schema, where, batch_size, limit)
        if whole is None:
            return _fresh(of, of.version, schema, where, batch_size, limit)
        stored = partial(StoredShards, whole, whole.chosen(where), whole.fitting(where))
        rows = partial(_whole_rows, whole, where, batch_size)
        return _fresh(of, of.version, schema, where, batch_size, limit, stored=stored, rows=rows)


class FreshShard(_NameOfShards):
    """One of the shards: what the map of the next commit places in it. Its columns are those of all, and the snapshot
    that it stands on is the rest's."""

    def __init__(self, shards: FreshShards, place: TableName) -> None:
        super().__init__(shards)
        self._place = place

    shards: tuple[tuple[str, ...], ...] = ()
    """Rows that come into it from others are its own."""

    @property
    def version(self) -> Version:
        """As FreshShards says, under its own name."""
        return replace(self.of.version, name=str(self._place))

    def read(
        self,
        schema: Schema,
        where: "str | BooleanExpression | None" = None,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
    ) -> Rows | FreshRows:
        """As FreshTable says. Raises NotFresh if no shard lies there (any more)."""
        of, whole = self.of, self.of.coming
        _, after = of.maps
        name = next((one for one, place in after.tables.items() if place == self._place), None)
        if name is None:
            raise NotFresh(
                f"{self._place} is no shard of {of.whole.name} by the map of what waits: read that, or the table as it "
                "is without fresh"
            )
        column, kind = after.map.column, after.map.kind

        def keep(row: "Row") -> bool:
            return after.map.place(row.values) == name

        if whole is None:
            return _fresh(of, self.version, schema, where, batch_size, limit, keep=keep)
        only = {one: None if fits is None else with_value(column, kind, fits) for one, fits in self._sources(name)}
        if of.waits is None:
            if not only:
                raise NotFresh(f"nothing waits for {self._place}, and no commit has made it")
            return WholeRows(whole, schema, where, batch_size, limit, only=only)
        fitting = whole.fitting(where)

        def fits(value: Any) -> bool:
            return after.map.of(value) == name and fitting(value)

        stored = partial(StoredShards, whole, whole.chosen(where) & only.keys(), fits)
        rows = partial(self._rows, whole, only, where, batch_size)
        return _fresh(of, self.version, schema, where, batch_size, limit, keep=keep, stored=stored, rows=rows)

    def _sources(self, name: str) -> list[tuple[str, Callable[[Any], bool] | None]]:
        """The shards as they are stored whose rows are this one's by the next map, each with which of them by the value
        of the map's column (None: all)."""
        stored = self.of.stored
        if stored is None:
            return []
        before, after = (one.map for one in self.of.maps)
        moves: dict[str, set[str]] = {}
        for copy in copies(before, after):
            moves.setdefault(copy.source, set()).add(copy.target)
        found: list[tuple[str, Callable[[Any], bool] | None]] = []
        for source in stored.made:
            targets, stays = moves.get(source, set()), named_in(after, before, source) == name
            if stays and not targets:
                found.append((source, None))
            elif stays or name in targets:
                found.append((source, _placed(after.of, name, targets, stays=stays)))
        return found

    def _rows(
        self,
        whole: WholeVersion,
        only: Mapping[str, Keep | None],
        where: "str | BooleanExpression | None",
        batch_size: int,
        schema: Schema,
    ) -> "Iterator[pa.RecordBatch]":
        column = next(field for field in whole.version.schema.fields if field.name == self.of.maps[1].map.column)
        some = schema if column in schema.fields else Schema(*schema.fields, column)
        for batch in WholeRows(whole, some, where, batch_size, only=only):
            yield batch.select([field.name for field in schema.fields])


def _whole_rows(
    whole: WholeVersion, where: "str | BooleanExpression | None", batch_size: int, schema: Schema
) -> WholeRows:
    return WholeRows(whole, schema, where, batch_size)


def _placed(of: Callable[[Any], str], name: str, targets: set[str], *, stays: bool) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        shard = of(value)
        return shard == name if shard in targets else stays

    return fits


def _fresh(
    of: FreshShards,
    version: Version,
    schema: Schema,
    where: "str | BooleanExpression | None",
    batch_size: int,
    limit: int | None,
    *,
    stored: "Callable[[Sequence[Column], str | None], Stored] | None" = None,
    keep: "Callable[[Row], bool] | None" = None,
    rows: "Callable[[Schema], Iterable[pa.RecordBatch]] | None" = None,
) -> FreshRows:
    if of.waits is None:
        raise NotFresh(f"nothing waits for {version.name}, and no commit has made it")
    made = mirrored(of.catalog, of.rest, of.state, of.waits, version, where, stored=stored, keep=keep)
    return FreshRows(version, schema, where, made, batch_size, limit, rows)


def _rule_of(config: Config, whole: Whole) -> tuple[StreamConfig, TableRule]:
    for stream in config.streams.values():
        for rule in stream.tables:
            if rule.shard is not None and not rule.ignore and rule.shard.tables[rule.shard.rest] == whole.rest:
                return stream, rule
    raise NotFresh(f"the published configuration has no rule with shards for {whole.rest}")


def sharded(
    config: Config, identifier: tuple[str, ...], table: "Table | None", newest: Callable[[Whole], Collection[TableName]]
) -> tuple[Whole, bool] | None:
    """The shards of which an identifier names all (then True) or one; None for another table. `table`: of that name;
    `newest`: the tables of all shards by the newest map. Raises NotFresh for a shard of none that is configured."""
    if len(identifier) != 2:
        return None
    wholes, name = whole_tables(config), TableName(*identifier)
    if table is None:
        if identifier in wholes:
            return wholes[identifier], True
        mine = (one for one in wholes.values() if name in one.shards or name in newest(one))
        found = next(mine, None)
    else:
        of = str(name) if SHARDS in table.properties else table.properties.get(SHARD_OF)
        found = next((one for one in wholes.values() if (str(one.rest) == of if of else name in one.shards)), None)
        if found is None and of is not None:
            raise NotFresh(
                f"{name} is a shard of {of}, and the published configuration has no rule with shards for that: read it "
                "without fresh, or correct firn.yaml"
            )
    return None if found is None else (found, False)
