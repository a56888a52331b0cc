"""Changes on their way through pipelines into an append table: decoded, run through the SQL, each row with who it is.

One way for every process that does it (column_decoder.Columns): the job's own, its readers and Spark's tasks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import META, READ, AppendDecoder, Decoding
from firn.changes.merge import decoded_rows
from firn.log import layout
from firn_spark.merge.append_columns import FIRST, ID, AppendColumns
from firn_spark.staged.decode import decoded
from firn_sql.bound_sql import bound, rows_for
from firn_sql.feed_plan import PipelineFeed
from firn_sql.output_columns import dropped, fitted
from firn_sql.source_types import source_schema
from firn_sql.transform import NOW

FAILED: Final = "pipeline_failed"  # reason of a dead letter
COUNTED = "_counted"  # whether a row is the first of its change
_PLACE = "_place"  # of the change in its part
_AT_ONCE: Final = 16_384  # changes: of fewer the SQL's own start is what costs
Why = dict[tuple[str, int], tuple[str, str]]


@dataclass(frozen=True)
class FeedColumns:
    """How changes become rows of a table that pipelines feed. Goes to other processes. A change of which one feed can
    make nothing gives no row at all: as a dead letter it comes again, and all feeds take it then."""

    own: AppendColumns
    feeds: tuple[PipelineFeed, ...]

    def schema(self, decoding: Decoding) -> pa.Schema:
        """Those of AppendColumns, then COUNTED."""
        return self.own.schema(decoding).append(pa.field(COUNTED, pa.bool_()))

    def split(self, parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table]]:
        """As column_decoder.Columns says."""
        for changes in _together(parts):
            rows, why = self._through(changes, decoding)
            yield rows, changes.filter(_are(changes, why)) if why else changes.slice(0, 0)

    def why(self, odd: pa.Table, decoding: Decoding) -> Why:
        """Why no row was made of these changes."""
        return {place: said for part in _together([odd]) for place, said in self._through(part, decoding)[1].items()}

    def changes_in(self, rows: pa.Table) -> int:
        """Of how many changes these rows are the first."""
        return int(pc.sum(rows[COUNTED]).as_py() or 0)

    def _through(self, changes: pa.Table, decoding: Decoding) -> tuple[pa.Table, Why]:
        why: Why = {}
        found = [self._fed(feed, changes, decoding, why) for feed in self.feeds]
        rows = pa.concat_tables([self.schema(decoding).append(pa.field(_PLACE, pa.int64())).empty_table(), *found])
        if len(self.feeds) > 1:
            rows = rows.take(pc.sort_indices(rows[_PLACE]))
        if why:
            bad = pc.indices_nonzero(_are(changes, why)).cast(pa.int64())
            rows = rows.filter(pc.invert(pc.is_in(rows[_PLACE], value_set=bad)))
        places = rows[_PLACE].combine_chunks()
        if len(rows):
            first = pc.not_equal(places.slice(1), places.slice(0, len(rows) - 1))
            counted = pa.concat_arrays([pa.array([True]), first])
            rows = rows.set_column(rows.schema.get_field_index(COUNTED), COUNTED, counted)
        return rows.drop_columns([_PLACE]), why

    def _fed(self, feed: PipelineFeed, changes: pa.Table, decoding: Decoding, why: Why) -> pa.Table:
        """The rows that one feed makes, with COUNTED false and _PLACE; `why` gets those that it can't."""
        schema = self.schema(decoding).append(pa.field(_PLACE, pa.int64()))
        mine = pc.is_in(changes["table"], value_set=pa.array(sorted(feed.sources), pa.string()))
        places = pc.indices_nonzero(mine).cast(pa.int64())
        raw = (changes if len(places) == len(changes) else changes.take(places)).select(READ)
        batches = list(decoded(raw.combine_chunks().to_batches(), feed.decoding, AppendDecoder))
        if not batches:
            return schema.empty_table()
        found = pa.Table.from_batches(batches)
        found = found.append_column(_PLACE, places if _are_in_order(found, raw) else _places(found, changes))
        if found["_code"].null_count < len(found):
            for one in found.filter(pc.is_valid(found["_code"])).select([*META[1:3], *META[8:10]]).to_pylist():
                why.setdefault((one["_batch"], one["_index"]), (one["_code"], one["_message"]))
            found = found.filter(pc.is_null(found["_code"]))
        rows = list(zip(*(found[name].to_pylist() for name in META), strict=True))
        names = pa.array([decoded_rows.identity(row, self.own.stream) for row in rows], pa.string())
        found = found.append_column(ID, names)
        if not feed.pipeline:
            first = [decoded_rows.first_identity(row) for row in rows] if self.own.first else [None] * len(rows)
            found = found.append_column(FIRST, pa.array(first, pa.string()))
        else:
            found = _run(feed, found, decoding, why)
        found = found.append_column(COUNTED, pa.repeat(pa.scalar(False), len(found)))
        return found.select(schema.names).cast(schema)


def _run(feed: PipelineFeed, found: pa.Table, decoding: Decoding, why: Why) -> pa.Table:
    """Decoded changes through the SQL: the table's columns, and what stands beside them."""
    sql = bound(feed.pipeline, feed.sql, source_schema(feed.decoding.columns))
    columns = {column.name: found[f"c{i}"] for i, column in enumerate(feed.decoding.columns)}
    source = pa.table(columns | {NOW: _accepted(found["_batch"])})  # at once: a table without columns has no rows
    made = sql.transform.run(rows_for(sql, source))
    cells, unfit = fitted(made.rows, decoding.columns)
    failed = dict(made.failed) | {made.origin[place].as_py(): text for place, text in unfit.items()}
    if failed:
        some = found.select(["_batch", "_index"]).take(pa.array(sorted(failed), pa.int64())).to_pylist()
        for place, one in zip(sorted(failed), some, strict=True):
            why.setdefault((one["_batch"], one["_index"]), (FAILED, f"pipeline {feed.pipeline}: {failed[place]}"))
    names = pc.binary_join_element_wise(
        found[ID].take(made.origin), feed.pipeline, made.number.cast(pa.string()), "/"
    )  # the names of pipelines and numbers have no stroke
    beside: dict[str, Any] = {name: found[name].take(made.origin) for name in ("_op", "_ts", "_pos", "_table", _PLACE)}
    # What the row was before may hold what the SQL leaves out.
    beside |= {"_before": pa.nulls(len(made.origin), pa.string()), ID: names}
    beside |= {FIRST: pa.nulls(len(made.origin), pa.string())}
    rows = pa.table(beside | {f"c{i}": cell for i, cell in enumerate(cells)})
    return dropped(rows, list(unfit))


def _accepted(batches: pa.ChunkedArray) -> pa.ChunkedArray:
    """When each batch was received (timestamp[us, UTC])."""
    coded = batches.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
    times = pa.array([layout.accepted(one) * 1000 for one in coded.dictionary.to_pylist()], pa.int64())
    return pa.chunked_array([times.take(coded.indices).cast(pa.timestamp("us", "UTC"))])


def _together(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Parts of changes (packed.CHANGES), so large that the SQL's own start counts little."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= _AT_ONCE:
            yield pa.concat_tables(held)
            held = []
    if sum(map(len, held)):
        yield pa.concat_tables(held)


def _are(changes: pa.Table, places: Mapping[tuple[str, int], Any]) -> pa.Array:
    """Which changes are those, by batch and index."""
    there = zip(changes["batch"].to_pylist(), changes["index"].to_pylist(), strict=True)
    return pa.array([one in places for one in there], pa.bool_())


def _are_in_order(found: pa.Table, raw: pa.Table) -> bool:
    """Whether decoded rows are of all these changes, in their order: what is not plain comes behind the rest."""
    return bool(found["_index"].equals(raw["index"]) and found["_batch"].equals(raw["batch"]))


def _places(found: pa.Table, changes: pa.Table) -> pa.Array:
    """The places of the changes that decoded rows are of: they may be in another order, and some left out."""
    there = zip(changes["batch"].to_pylist(), changes["index"].to_pylist(), strict=True)
    numbers = {one: number for number, one in enumerate(there)}
    mine = zip(found["_batch"].to_pylist(), found["_index"].to_pylist(), strict=True)
    return pa.array([numbers[one] for one in mine], pa.int64())
