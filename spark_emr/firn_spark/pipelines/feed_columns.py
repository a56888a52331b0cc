"""Changes on their way through pipelines into an append table: decoded, run through the SQL, each row with who it is.

One way for every process that does it (column_decoder.Columns): the job's own, its readers and Spark's tasks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import META, Decoding
from firn.changes.metadata_columns import TRANSACTION
from firn.log import layout
from firn_spark.merge.append_columns import FIRST, AppendColumns, first_names
from firn_spark.merge.shared_decoding import ID, PLACE, Shared, as_staged, found_in, together
from firn_sql.bound_sql import rows_for
from firn_sql.check import HIDDEN
from firn_sql.feed_plan import PipelineFeed
from firn_sql.isolation import TooLarge, by_halves
from firn_sql.output_columns import dropped, fitted
from firn_sql.partners import Lookup, Remembered
from firn_sql.transform import MOST_TOGETHER, NOW

MOST_GIVEN: Final = 4_000_000_000  # bytes that changes which come together may give, whatever each of them gives
SHARE: Final = 256_000  # the most that one of them may give after that
_CROWDED: Final = (
    f"the events beside it gave more than {MOST_GIVEN:,} bytes of rows, and it is one of those that give more than "
    f"{SHARE:,}; firn dead replay brings it without them"
)
FAILED: Final = "pipeline_failed"  # reason of a dead letter
COUNTED = "_counted"  # whether a row is the first of its change
Why = dict[tuple[str, int], tuple[str, str]]


@dataclass(frozen=True)
class FeedColumns:
    """How changes become rows of a table that pipelines feed. Goes to other processes. A change of which one feed can
    make nothing gives no row at all: as a dead letter it comes again, and all feeds take it then. `letters`: whether
    one that is joined may be a dead letter for what others beside it give (MOST_GIVEN); a table that is made again has
    them all."""

    own: AppendColumns
    feeds: tuple[PipelineFeed, ...]
    letters: bool = True

    def schema(self, decoding: Decoding) -> pa.Schema:
        """Those of AppendColumns, then COUNTED."""
        return self.own.schema(decoding).append(pa.field(COUNTED, pa.bool_()))

    def shared(self, _decoding: Decoding) -> Shared | None:
        """As column_decoder.Columns says: where all feeds read their changes alike."""
        first, *others = (feed.decoding for feed in self.feeds)
        return self.own.shared(first) if all(one == first for one in others) else None

    def split(self, parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table]]:
        """As column_decoder.Columns says."""
        for some, rows, why in self._parts(parts, decoding):
            yield rows, as_staged(some.filter(_are(some, why)) if why else some.slice(0, 0))

    def why(self, odd: pa.Table, decoding: Decoding) -> Why:
        """Why no row was made of these changes. One that gives rows now gave too many beside others."""
        found: Why = {}
        for some, _, why in self._parts([odd], decoding):
            found |= {place: why.get(place, (FAILED, _CROWDED)) for place in _places(some)}
        return found

    def changes_in(self, rows: pa.Table) -> int:
        """Of how many changes these rows are the first."""
        return int(pc.sum(rows[COUNTED]).as_py() or 0)

    def _parts(self, parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table, Why]]:
        """Changes in parts of which a process can hold what they give, each with its rows and with why others give
        none: halves of what gives too much, down to one change, which is then a dead letter."""
        return (found for changes in together(parts) for found in self._bounded(changes, decoding))

    def _bounded(self, changes: pa.Table, decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table, Why]]:
        """The same of changes that come together: once they have given MOST_GIVEN, each may give its SHARE alone."""
        given, joined = 0, self.letters and any(feed.joined for feed in self.feeds)
        known = [Remembered(feed.look_up) if feed.joined else None for feed in self.feeds]

        def attempt(some: pa.Table) -> tuple[pa.Table, Why]:
            most = min(SHARE * len(some), MOST_TOGETHER) if joined and given >= MOST_GIVEN else None
            return self._through(some, decoding, known, most)

        for _, some, made in by_halves(changes, attempt):
            if isinstance(made, TooLarge):
                text = f"{made}: {_CROWDED}" if joined and given >= MOST_GIVEN else str(made)
                yield some, self.schema(decoding).empty_table(), dict.fromkeys(_places(some), (FAILED, text))
            else:
                given += made[0].nbytes
                yield some, *made
            del some, made  # while the caller has them

    def _through(
        self, changes: pa.Table, decoding: Decoding, known: Sequence[Lookup | None], most: int | None
    ) -> tuple[pa.Table, Why]:
        """The rows of these changes, and why others give none. `known`: by feed who has the tables of its joins;
        `most`: as for Transform.attempt. Raises TooLarge."""
        why: Why = {}
        found: list[pa.Table] = []
        for feed, lookup in zip(self.feeds, known, strict=True):
            found.append(self._fed(feed, changes, decoding, why, lookup, most))
            if len(changes) > 1 and sum(one.nbytes for one in found) > 4 * max(MOST_TOGETHER, changes.nbytes):
                raise TooLarge
        rows = pa.concat_tables([self.schema(decoding).append(pa.field(PLACE, pa.int64())).empty_table(), *found])
        if len(self.feeds) > 1:
            rows = rows.take(pc.sort_indices(rows[PLACE]))
        if why:
            bad = pc.indices_nonzero(_are(changes, why)).cast(pa.int64())
            rows = rows.filter(pc.invert(pc.is_in(rows[PLACE], value_set=bad)))
        places = rows[PLACE].combine_chunks()
        if len(rows):
            first = pc.not_equal(places.slice(1), places.slice(0, len(rows) - 1))
            counted = pa.concat_arrays([pa.array([True]), first])
            rows = rows.set_column(rows.schema.get_field_index(COUNTED), COUNTED, counted)
        return rows.drop_columns([PLACE]), why

    def _fed(
        self, feed: PipelineFeed, changes: pa.Table, decoding: Decoding, why: Why, lookup: Lookup | None,
        most: int | None,
    ) -> pa.Table:  # fmt: skip
        """The rows that one feed makes, with COUNTED false and PLACE; `why` gets those that it can't."""
        schema = self.schema(decoding).append(pa.field(PLACE, pa.int64()))
        mine = pc.is_in(changes["table"], value_set=pa.array(sorted(feed.sources), pa.string()))
        places = pc.indices_nonzero(mine).cast(pa.int64())
        found = found_in(
            changes if len(places) == len(changes) else changes.take(places), feed.decoding, self.own.stream
        )
        if len(places) != len(changes):
            found = found.set_column(found.schema.get_field_index(PLACE), PLACE, places.take(found[PLACE]))
        if found["_code"].null_count < len(found):
            for one in found.filter(pc.is_valid(found["_code"])).select([*META[1:3], *META[8:10]]).to_pylist():
                why.setdefault((one["_batch"], one["_index"]), (one["_code"], one["_message"]))
            found = found.filter(pc.is_null(found["_code"]))
        if not feed.pipeline:
            first = first_names(found) if self.own.first else pa.nulls(len(found), pa.string())
            found = found.append_column(FIRST, first)
        else:
            found = _run(feed, found, decoding, why, lookup, most)
        if TRANSACTION in schema.names:
            found = found.append_column(TRANSACTION, changes["transaction"].take(found[PLACE]))
        found = found.append_column(COUNTED, pa.repeat(pa.scalar(False), len(found)))
        return found.select(schema.names).cast(schema)


def _run(
    feed: PipelineFeed, found: pa.Table, decoding: Decoding, why: Why, lookup: Lookup | None, most: int | None
) -> pa.Table:
    """Decoded changes through the SQL: the table's columns, and what stands beside them."""
    sql = feed.bound
    columns = {column.name: found[f"c{i}"] for i, column in enumerate(feed.decoding.columns)}
    # At once: a table without columns has no rows. What begins with _firn_ is not seen.
    time = {NOW: _accepted(found["_batch"])} if sql.transform.has_now else {HIDDEN: found[PLACE]}
    source = pa.table(columns | time)
    try:
        made = sql.transform.attempt(rows_for(sql, source), lookup, most)
    except TooLarge as error:
        raise TooLarge(f"pipeline {feed.pipeline}: {error}") from None
    cells, unfit = fitted(made.rows, decoding.columns)
    failed = dict(made.failed) | {made.origin[place].as_py(): text for place, text in unfit.items()}
    if failed:
        some = found.select(["_batch", "_index"]).take(pa.array(sorted(failed), pa.int64())).to_pylist()
        for place, one in zip(sorted(failed), some, strict=True):
            why.setdefault((one["_batch"], one["_index"]), (FAILED, f"pipeline {feed.pipeline}: {failed[place]}"))
    names = pc.binary_join_element_wise(
        found[ID].take(made.origin), feed.pipeline, made.number.cast(pa.string()), "/"
    )  # the names of pipelines and numbers have no stroke
    beside: dict[str, Any] = {name: found[name].take(made.origin) for name in ("_op", "_ts", "_pos", "_table", PLACE)}
    # What the row was before may hold what the SQL leaves out.
    beside |= {"_before": pa.nulls(len(made.origin), pa.string()), ID: names}
    # An event that comes again is joined with another snapshot: the table has all of its rows if it has the first.
    first = pc.binary_join_element_wise(found[ID].take(made.origin), feed.pipeline, "0", "/") if feed.joined else None
    beside |= {FIRST: pa.nulls(len(made.origin), pa.string()) if first is None else first}
    rows = pa.table(beside | {f"c{i}": cell for i, cell in enumerate(cells)})
    return dropped(rows, list(unfit))


def _accepted(batches: pa.ChunkedArray) -> pa.ChunkedArray:
    """When each batch was received (timestamp[us, UTC])."""
    coded = batches.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
    times = pa.array([layout.accepted(one) * 1000 for one in coded.dictionary.to_pylist()], pa.int64())
    return pa.chunked_array([times.take(coded.indices).cast(pa.timestamp("us", "UTC"))])


def _are(changes: pa.Table, places: Mapping[tuple[str, int], Any]) -> pa.Array:
    """Which changes are those, by batch and index."""
    return pa.array([one in places for one in _places(changes)], pa.bool_())


def _places(changes: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(changes["batch"].to_pylist(), changes["index"].to_pylist(), strict=True)
