"""What waits for the tables of pipelines: changes on their way through SQL into an append table, and a mirror that
rests on a mirror, as the next commits will make them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.changes.decode.types import Column, storable
from firn.changes.merge import decoded_rows
from firn.changes.metadata_columns import POSITION, TIME
from firn.config.pipelines import Pipeline
from firn.config.sql_text import SqlRefused
from firn.errors import TerminalError
from firn.log import layout
from firn.tables.table_state import TableState
from firn_lake.fresh.pending import NotFresh
from firn_lake.fresh.pending_table import Fed
from firn_lake.fresh.plain_values import plain, typed
from firn_lake.reading.lineage import changes_nothing, holds_nothing
from firn_sql.bound_sql import Bound, bound, rows_for
from firn_sql.check import check
from firn_sql.feed_plan import PipelineFeed
from firn_sql.mirrors import key_columns
from firn_sql.output_columns import fitted
from firn_sql.source_types import arrow_type, source_schema
from firn_sql.transform import NOW

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from firn_lake.fresh.pending_table import Waiting

BASE, PIPELINE = "firn.base", "firn.pipeline"  # in a snapshot of a pipeline's mirror: of which base and SQL it is


def fed(waiting: "Waiting") -> dict[str, Fed]:
    """The rows that waiting changes become, by identity, whichever way they come in."""
    found: dict[str, Fed] = {}
    failed: set[tuple[str, int]] = set()
    for feed in waiting.feeds:
        for name, row in _through(waiting, feed, failed):
            found.setdefault(name, row)
    return {
        name: row
        for name, row in found.items()
        if (row.change[decoded_rows.BATCH], row.change[decoded_rows.INDEX]) not in failed
    }


def _through(waiting: "Waiting", feed: PipelineFeed, failed: set[tuple[str, int]]) -> Iterator[tuple[str, Fed]]:
    decoder = decoded_rows.decoder(feed.decoding, mirror=False)
    raw = [one for batch in waiting.pending.above(waiting.above) for one in batch.of(sorted(feed.sources))]
    rows, bad = decoded_rows.decoded_by(decoder, raw)
    failed.update((row[decoded_rows.BATCH], row[decoded_rows.INDEX]) for row in bad)
    names = [decoded_rows.identity(row, waiting.stream) for row in rows]
    if not feed.pipeline:
        for name, row in zip(names, rows, strict=True):
            yield name, Fed(row, decoded_rows.values_of(row, feed.decoding), waiting)
        return
    sql = bound(feed.pipeline, feed.sql, source_schema(feed.decoding.columns))
    columns = feed.decoding.columns
    values = {one.name: [row[decoded_rows.WIDTH + i] for row in rows] for i, one in enumerate(columns)}
    times = pa.array([layout.accepted(row[decoded_rows.BATCH]) * 1000 for row in rows], pa.int64())
    source = as_source(columns, values)
    times = times.cast(pa.timestamp("us", "UTC"))
    source = pa.table([*source.columns, times], [*source.column_names, NOW])  # of rows without columns too
    made, unfit, cells = _run(sql, source, waiting.plan.columns)
    for place in {*made.failed, *(made.origin[one].as_py() for one in unfit)}:
        failed.add((rows[place][decoded_rows.BATCH], rows[place][decoded_rows.INDEX]))
    for at, (origin, number) in enumerate(zip(made.origin.to_pylist(), made.number.to_pylist(), strict=True)):
        if at not in unfit:
            told = {name: column[at] for name, column in cells.items()}
            # What the row was before may hold what the SQL leaves out.
            change = [*rows[origin]]
            change[decoded_rows.BEFORE] = None
            yield f"{names[origin]}/{feed.pipeline}/{number}", Fed(change, told, waiting)


def as_source(columns: Sequence[Column], values: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Values as the decoders give them, as SQL reads them."""
    arrays = {one.name: _array(values[one.name], one) for one in columns}
    return pa.table(list(arrays.values()), schema=source_schema(columns))


def _array(values: Sequence[Any], column: Column) -> pa.Array:
    kind = storable(column.type)
    return pa.array(values, arrow_type(kind)) if "uuid" in str(kind) else typed(values, kind, arrow_type(kind))


def _run(sql: Bound, source: pa.Table, columns: Sequence[Column]) -> tuple[Any, dict[int, str], dict[str, list[Any]]]:
    made = sql.transform.run(rows_for(sql, source))
    arrays, unfit = fitted(made.rows, columns)
    cells = {
        one.name: array.to_pylist() if "uuid" in str(one.type) else plain(array, storable(one.type))
        for one, array in zip(columns, arrays, strict=True)
    }
    return made, unfit, cells


@dataclass(frozen=True)
class Following:
    """A pipeline's mirror beside its base, as both are committed. `renamed`: the base's key, as the mirror has it."""

    pipeline: Pipeline
    sql: Bound
    renamed: Mapping[str, str]

    def rows(
        self, made: Mapping[str, Sequence[Any]], base: Sequence[Column], columns: Sequence[Column]
    ) -> dict[str, Any]:
        """The mirror's rows out of new rows of the base, by column."""
        made_of, unfit, cells = _run(self.sql, as_source(base, made), columns)
        kept = [at for at in range(len(made_of.origin)) if at not in unfit]
        found = {name: [values[at] for at in kept] for name, values in cells.items()}
        origin = made_of.origin.to_pylist()
        return found | {name: [made[name][origin[at]] for at in kept] for name in (POSITION, TIME)}


def following(
    pipeline: Pipeline, base: "TableMetadata", columns: Sequence[Column], key: Sequence[str], state: TableState | None
) -> Following:
    """`columns`: of the base with what waits; `state`: the mirror's. Raises NotFresh where only a commit can tell."""
    told = next((one for one in (state.ancestry if state else ()) if BASE in one), None)
    again = "run firn flush, or read without fresh"
    if told is None:
        raise NotFresh(f"{pipeline.target} has not been made out of its base yet, which the next commit does: {again}")
    if told.get(PIPELINE) != pipeline.sha:
        raise NotFresh(f"the SQL of {pipeline.target} was changed, and the next commit makes all of it again: {again}")
    if not _is_of(base, int(told[BASE])):
        raise NotFresh(f"{pipeline.target} is behind its base, and is brought up by the next commit: {again}")
    try:
        renamed = key_columns(check(pipeline.sql), key)
        return Following(pipeline, bound(pipeline.name, pipeline.sql, source_schema(columns)), renamed)
    except (SqlRefused, TerminalError) as error:
        raise NotFresh(f"{pipeline.target}: {error}") from error


def _is_of(base: "TableMetadata", snapshot: int) -> bool:
    """Whether the base's rows are still those of this snapshot."""
    at = base.current_snapshot()
    while at is not None and at.snapshot_id != snapshot:
        if not (changes_nothing(at) or holds_nothing(at)) or at.parent_snapshot_id is None:
            return False
        at = base.snapshot_by_id(at.parent_snapshot_id)
    return at is not None
