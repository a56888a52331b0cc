"""Changes of an append table by columns: a row for each, with who it is (decoded_rows.identity)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import META, Decoding
from firn.changes.decode.types import Column
from firn.changes.merge import decoded_rows
from firn.changes.metadata_columns import BEFORE, IDENTITY, OP, POSITION, SOURCE, STREAM, TIME, TRANSACTION
from firn_spark.merge.decision import decoded as decoded_one_by_one
from firn_spark.merge.shared_decoding import ID, PLACE, Shared, as_staged, found_in
from firn_spark.staged.decode import decoded_schema

FIRST = "_first"  # of a table that may know changes by it, the first identity; ID is the identity
_KEPT = ("_op", "_ts", "_pos", "_before")  # of META, beside the columns


@dataclass(frozen=True)
class AppendColumns:
    """How changes of a stream are decoded to columns (column_decoder.Columns). `first`: the table may hold changes by
    their first identity; `metadata`: what its rule asks for (metadata_columns.ASKED_METADATA); `tables`: how many
    tables take the same changes (routing.tables_of)."""

    stream: str
    first: bool
    metadata: tuple[str, ...] = ()
    tables: int = 1

    @property
    def own(self) -> "AppendColumns":
        """How changes come in that no pipeline brings (FeedColumns.own)."""
        return self

    def schema(self, decoding: Decoding) -> pa.Schema:
        """Of the good ones: ID, FIRST (null, if it is not asked for), some of META, then c0, c1, …"""
        told = decoded_schema(decoding, (*_KEPT, "_table") if "source" in self.metadata else _KEPT)
        named = [(TRANSACTION, pa.string())] if "transaction" in self.metadata else []
        return pa.schema([(ID, pa.string()), (FIRST, pa.string()), *named, *told])

    def why(self, odd: pa.Table, decoding: Decoding) -> dict[tuple[str, int], tuple[str, str]]:
        """Why no row was made of these changes, by batch and index: code and message."""
        _, bad = decoded_one_by_one(odd.to_pylist(), decoding, mirror=False)
        return decoded_rows.why_of(bad)

    def changes_in(self, rows: pa.Table) -> int:
        """Of how many changes these rows are."""
        return len(rows)

    def shared(self, decoding: Decoding) -> Shared | None:
        """As column_decoder.Columns says."""
        return Shared(decoding, self.stream, self.tables) if self.tables > 1 else None

    def split(self, parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Changes, a part of them (packed.CHANGES) at a time: the good ones decoded, and the others as they are."""
        schema = self.schema(decoding)
        for changes in parts:
            found = found_in(changes, decoding, self.stream)
            good, odd = found, pa.array([], pa.int64())
            if found["_code"].null_count < len(found):
                good = found.filter(pc.is_null(found["_code"]))
                odd = found[PLACE].filter(pc.is_valid(found["_code"])).combine_chunks()
            beside = {FIRST: self._first(good)}
            if TRANSACTION in schema.names:
                beside[TRANSACTION] = changes["transaction"].take(good[PLACE])
            told = [beside[name] if name in beside else good[name] for name in schema.names]
            yield pa.table(told, schema=schema), as_staged(changes.take(odd))

    def _first(self, good: pa.Table) -> pa.Array:
        if not self.first:
            return pa.nulls(len(good), pa.string())
        return first_names(good)


def first_names(found: pa.Table) -> pa.Array:
    """The first identities of good rows (shared_decoding.found_in)."""
    rows = zip(*(found[name].to_pylist() for name in META), strict=True)
    return pa.array([decoded_rows.first_identity(row) for row in rows], pa.string())


def once(good: pa.Table) -> pa.Table:
    """Of each identity the first change, in their order."""
    numbered = pa.table({ID: good[ID], "_row": pa.arange(0, len(good))})
    firsts = numbered.group_by(ID, use_threads=False).aggregate([("_row", "min")])["_row_min"]
    return good if len(firsts) == len(good) else good.take(firsts.take(pc.sort_indices(firsts)))


def names_of(good: pa.Table) -> pa.Array:
    """All that the table may know these changes by."""
    every = pa.chunked_array([*good[ID].chunks, *good[FIRST].chunks], pa.string())
    return pc.unique(every).drop_null()


def without(good: pa.Table, there: pa.Array) -> pa.Table:
    """Those that a table which holds these of the names does not have."""
    known = pc.or_(pc.is_in(good[ID], value_set=there), pc.is_in(good[FIRST], value_set=there))
    return good.filter(pc.invert(known))


def nulls(good: pa.Table, columns: Sequence[Column]) -> list[int]:
    """The required columns that hold a null."""
    return [i for i, column in enumerate(columns) if column.required and good[f"c{i}"].null_count]


def cells(good: pa.Table, columns: Sequence[Column], by: AppendColumns) -> dict[str, Any]:
    """The rows as the table has them: Arrow arrays by name. `by`: how they were decoded."""
    found = {column.name: good[f"c{i}"] for i, column in enumerate(columns)}
    own = {OP: good["_op"], POSITION: good["_pos"], BEFORE: good["_before"], IDENTITY: good[ID]}
    if "source" in by.metadata:
        own[SOURCE] = good["_table"]
    if TRANSACTION in good.column_names:
        own[TRANSACTION] = good[TRANSACTION]
    if "stream" in by.metadata:
        own[STREAM] = pa.repeat(pa.scalar(by.stream, pa.string()), len(good))
    return found | own | {TIME: pc.multiply(good["_ts"], 1000)}
