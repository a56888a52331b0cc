"""What waits for one table, and the columns that the table will have with it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyiceberg.schema import Schema

from firn.changes.decode.column_defaults import defaults_json
from firn.changes.decode.iceberg_fields import typed_json, widened_json
from firn.changes.decode.row_decoder import ChangeId, Decoder, Decoding, Why
from firn.changes.decode.types import Column
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import RowChange
from firn.changes.metadata_columns import APPEND_METADATA, ASKED_METADATA, HELD_METADATA, MIRROR_METADATA
from firn.config.modes import TableMode
from firn.config.names import TableName
from firn.errors import TerminalError
from firn.log.store_cache import Remembered
from firn.tables.planning import ColumnPlan, KeyChanged, TooManyColumns
from firn.tables.routing import Target
from firn.tables.settled_plan import RowJudge, settled
from firn.tables.table_plan import Planned
from firn.tables.table_state import PIPELINE_INPUT, TableState, gone_from
from firn_lake.fresh.pending import Look, NotFresh, Pending, told_apart
from firn_lake.long_history import told_on_main
from firn_lake.reading.files import Source
from firn_lake.reading.versions import Version

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from firn_sql.feed_plan import PipelineFeed

OWN: Final = {
    column.name: column for column in (*MIRROR_METADATA, HELD_METADATA, *APPEND_METADATA, *ASKED_METADATA.values())
}
"""Firn's own columns."""


@dataclass(frozen=True)
class Fed:
    """A row of an append table: of which change (decoded_rows), its columns by name, and of which that wait."""

    change: Sequence[Any]
    values: Mapping[str, Any]
    of: "Waiting"


@dataclass(frozen=True)
class Waiting:
    """What waits for one table, with how it is decoded: one for each stream that feeds it, of an append table for each
    range of its epochs. `due`: columns that the next commit renames first, old name -> new name; `feeds`: how changes
    come in, where pipelines bring them; `alters`: whether the commit makes the table know its columns otherwise."""

    pending: Pending
    target: Target
    plan: ColumnPlan
    decoding: Decoding
    mode: TableMode
    above: int
    due: Mapping[str, str]
    feeds: "tuple[PipelineFeed, ...]" = ()
    alters: bool = True

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self.pending.settings.name

    @property
    def metadata(self) -> list[Column]:
        """Firn's own columns that the rule of an append table asks for."""
        return [] if self.mode.keyed else [ASKED_METADATA[word] for word in self.target.rule.metadata]

    @cached_property
    def asked(self) -> frozenset[str]:
        """The names of these."""
        return frozenset(column.name for column in self.metadata)

    @cached_property
    def transactions(self) -> Mapping[ChangeId, str]:
        """The ids of the transactions of changes, where they tell one."""
        raw = (one for batch in self.pending.above(self.above) for one in batch.of(self.target.sources))
        return {(one["batch"], one["index"]): one["transaction"] for one in raw if one["transaction"] is not None}

    @property
    def key(self) -> list[Column]:
        """The columns of the table's key."""
        return [self.plan.columns[i] for i in self.decoding.key]

    @cached_property
    def decoder(self) -> Decoder:
        """What decodes the changes: one, which keeps what it has found out about their schemas."""
        return decoded_rows.decoder(self.decoding, mirror=self.mode.keyed)

    def decoded(self) -> Iterator[tuple[Sequence[Any], RowChange | None]]:
        """The good changes, as decoded rows and (of a mirror table) as the specification has them."""
        for batch in self.pending.above(self.above):
            with told_apart(f"what waits for {self.target.name}"):
                found = batch.decoded(self.target.sources, self.decoder)
            changes: Sequence[RowChange | None] = found.changes or [None] * len(found.rows)
            yield from zip(found.rows, changes, strict=True)

    def nulls(self) -> set[str]:
        """The required columns that a waiting row leaves null: the commit makes them optional."""
        required = [
            (i, column.name) for i, column in enumerate(self.plan.columns, decoded_rows.WIDTH) if column.required
        ]
        rows = [row for row, _ in self.decoded() if row[decoded_rows.OP] != "d"] if required else []
        return {name for i, name in required if any(row[i] is None for row in rows)}

    def truncates(self) -> list[RowChange]:
        """The truncates of a mirror table."""
        batches = self.pending.above(self.above) if self.target.events(self.above, "t") else []
        return [
            one
            for batch in batches
            for one in decoded_rows.truncates(batch.of(self.target.sources), self.decoding.names)
        ]


def state_of(table: "Table") -> TableState:
    """What the table's metadata says, as the commit job reads it."""
    metadata = table.metadata
    chain = told_on_main(metadata)
    names = {one.schema_id: {field.field_id: field.name for field in one.fields} for one in metadata.schemas}
    return TableState(
        location=metadata.location,
        properties=metadata.properties,
        fields=tuple(json.loads(table.schema().model_dump_json())["fields"]),
        snapshot_id=metadata.current_snapshot_id,
        ancestry=tuple(summary for _, summary in chain),
        partitioned_by=frozenset(field.source_id for spec in metadata.partition_specs for field in spec.fields),
        gone=gone_from(chain, names, metadata.current_schema_id, metadata.properties),
    )


def waiting(look: Look, name: TableName, state: TableState | None) -> list[Waiting]:
    """What waits for the table, stream by stream; nothing for a table that no stream feeds. `state`: as it is, None if
    there is none yet. Of a table of several shards it is asked by its rest. Raises NotFresh, StorageUnavailable."""
    own = state.properties.get("firn.stream") if state else None
    if state is not None and own is None and state.key() is None and not look.streams(name, None):
        return []
    found = []
    for stream in look.streams(name, own, made=state is not None):
        ranges = look.pending(stream)
        held = ranges[0].known.held().get(str(name))
        if held is not None:
            raise NotFresh(f"{name} is held, and its changes with it: {held.message}; {held.advice}")
        above = max(ranges[0].committed, state.progress(stream) if state else 0)
        mine = list[Waiting]()
        with told_apart(f"what waits for {name}"):
            for pending in _coming(ranges, name, above):
                if mine:
                    _check_unaltered(mine[-1])
                try:
                    mine.append(_planned(pending, pending.targets[name], state, above))
                except (KeyChanged, TooManyColumns, TerminalError) as error:
                    raise error if isinstance(error, NotFresh) else NotFresh(f"{name}: {error}") from error
        found += mine
    return found


def _coming(ranges: Sequence[Pending], name: TableName, above: int) -> list[Pending]:
    """Those with changes for the table; where nothing that is about it changes in between as one."""
    found: list[Pending] = []
    for one in ranges:
        if (target := one.targets.get(name)) is None or not target.events(above):
            continue
        if found and found[-1].is_alike(one, name):
            one = found.pop().with_next(one)
        found.append(one)
    return found


def _check_unaltered(earlier: Waiting) -> None:
    """Raises NotFresh unless the commit of this range leaves the table as the next one's plan takes it to be: only rows
    of an append table do not depend on those of the range before."""
    if earlier.mode.keyed or earlier.alters or earlier.due or earlier.nulls():
        raise NotFresh(
            f"the schema or the SQL of {earlier.target.name} was changed, and changes wait that are judged by the "
            "former: run firn flush, or read without fresh"
        )


class Coming(Protocol):
    """What the next commit makes of a table's columns: as Waiting has it."""

    @property
    def plan(self) -> ColumnPlan:
        """The columns."""

    @property
    def mode(self) -> TableMode:
        """The table's."""

    @property
    def due(self) -> Mapping[str, str]:
        """Columns that are renamed."""

    @property
    def metadata(self) -> Sequence[Column]:
        """Firn's own columns that its rule asks for."""

    def nulls(self) -> set[str]:
        """Required columns that are null in a row."""


def as_it_will_be(name: TableName, version: Version | None, some: Sequence[Coming]) -> Version:
    """The table with the columns that the waiting changes bring, widen or leave null."""
    fields = [] if version is None else json.loads(version.schema.model_dump_json())["fields"]
    names = {old: new for one in some for old, new in one.due.items()}
    there = {name: {**field, "name": name} for field in fields for name in [names.get(field["name"], field["name"])]}
    ids = count(1 + (0 if version is None else version.source.metadata.last_column_id))
    changed = version is None or bool(names)
    for one in some:
        for column in one.plan.widened:
            there[column.name]["type"] = widened_json(there[column.name]["type"], column.type, ids)
            changed = True
        own = one.mode.columns
        for column in (*one.plan.added, *(own if version is None else ()), *one.metadata):
            if column.name not in there:
                told = {} if version is None else defaults_json(column)  # what its rows have, which lack the column
                there[column.name] = {
                    "id": next(ids), "name": column.name, "required": False, "type": typed_json(column.type, ids)
                } | told  # fmt: skip
                changed = True
        for null in one.nulls() if version is not None else ():
            changed |= there[null]["required"]
            there[null]["required"] = False
    if not changed and version is not None:
        return version
    if version is None:
        return _unmade(name, Schema.model_validate({"type": "struct", "fields": [*there.values()]}))
    number = 1 + max(one.schema_id for one in version.source.metadata.schemas)
    schema = Schema.model_validate({"type": "struct", "schema-id": number, "fields": [*there.values()]})
    schemas = [*version.source.metadata.schemas, schema]
    then = version.source.metadata.model_copy(update={"schemas": schemas, "current_schema_id": number})
    return replace(version, schema=schema, source=replace(version.source, metadata=then))


def _unmade(name: TableName, schema: Schema) -> Version:
    """A table that no commit has made yet."""
    from pyiceberg.io import load_file_io
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    form = max(2, *(schema.find_type(one).minimum_format_version() for one in schema.field_ids))
    of = {"format-version": str(form)}
    made = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"memory://{name.slug}", of)
    return Version(str(name), Source(load_file_io(), made, str(name), None), None, made.schema())


_decodings: Final = Remembered[tuple[str, TableName, int], Decoding]()


def _remembered(pending: Pending, target: Target, found: Decoding) -> Decoding:
    """One object as long as it is the same: what was decoded with it need not be decoded again."""
    known = _decodings.of(pending.store)
    key = (pending.settings.name, target.name, pending.number)
    decoding = known.setdefault(key, found)
    if decoding != found:
        decoding = known[key] = found
    return decoding


class _Judge(RowJudge):
    """Asks batches that remember how they were decoded."""

    def __init__(self, pending: Pending, target: Target, above: int) -> None:
        self._waiting = pending.above(above)
        super().__init__(batch.of(target.sources) for batch in self._waiting)
        self._pending, self._target = pending, target

    def rejected(self, plan: Planned) -> Mapping[ChangeId, Why]:
        """As Judge says."""
        decoding = _remembered(self._pending, self._target, plan.decoding)
        decoder = decoded_rows.decoder(decoding, mirror=plan.mode.keyed)
        sources = self._target.sources
        each = (batch.decoded(sources, decoder).rejected for batch in self._waiting)
        return {change: why for some in each for change, why in some.items()}


def _planned(pending: Pending, target: Target, state: TableState | None, above: int) -> Waiting:
    feeds = None
    if target.joins:
        raise NotFresh(
            f"rows of {target.name} are joined with {', '.join(map(str, sorted(target.joins)))} as that is when they "
            "are committed: run firn flush, or read without fresh"
        )
    if target.feeds:
        from firn_sql.feed_plan import plan_feeds  # with DuckDB, which most tables can do without

        feeds = plan_feeds(target.above(above), pending.settings, state)
        found = feeds.planned
        alters = (
            found.alters or state is None or feeds.properties != {PIPELINE_INPUT: state.properties.get(PIPELINE_INPUT)}
        )
    else:
        judge = _Judge(pending, target, above)
        exact = all(n > above for n, _ in pending.batches)
        found = settled(target.above(above), pending.settings, state, judge, exact=exact)
        alters = found.alters or state is None
    plan = found.columns
    if feeds is not None and state is None and (pending.committed or pending.before):
        raise NotFresh(
            f"{target.name} has not been made yet, and the next commit makes it of the whole log: run firn flush, or "
            "read without fresh"
        )
    if plan.retyped:
        names = ", ".join(f"{column.name} ({column.type})" for column in plan.retyped)
        raise NotFresh(
            f"changes wait that give columns of {target.name} another type: {names}. The next commit does it: run firn "
            "flush, or read without fresh"
        )
    if found.mode.keyed and plan.unwritable and state is not None and state.records:
        names = ", ".join(sorted(plan.unwritable))
        raise NotFresh(
            f"{target.name} has columns that Firn has no type for ({names}): only a commit keeps their values. Run "
            "firn flush, or read without fresh"
        )
    decoding = _remembered(pending, target, found.decoding)
    return Waiting(pending, target, plan, decoding, found.mode, above, found.due, feeds.feeds if feeds else (), alters)
