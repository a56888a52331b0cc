"""Changes of an append table by columns: a row for each, with who it is (decoded_rows.identity)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import META, READ, AppendDecoder, Decoding
from firn.changes.decode.types import Column
from firn.changes.merge import decoded_rows
from firn.changes.metadata_columns import BEFORE, IDENTITY, OP, POSITION, SOURCE, STREAM, TIME
from firn_spark.merge.decision import decoded as decoded_one_by_one
from firn_spark.staged.decode import decoded, decoded_schema

ID, FIRST = "_id", "_first"  # identity and, of a table that may know changes by it, the first identity
_KEPT = ("_op", "_ts", "_pos", "_before")  # of META, beside the columns


@dataclass(frozen=True)
class AppendColumns:
    """How changes of a stream are decoded to columns (column_decoder.Columns). `first`: the table may hold changes by
    their first identity; `metadata`: what its rule asks for (metadata_columns.ASKED_METADATA)."""

    stream: str
    first: bool
    metadata: tuple[str, ...] = ()

    @property
    def own(self) -> "AppendColumns":
        """How changes come in that no pipeline brings (FeedColumns.own)."""
        return self

    def schema(self, decoding: Decoding) -> pa.Schema:
        """Of the good ones: ID, FIRST (null, if it is not asked for), some of META, then c0, c1, …"""
        told = decoded_schema(decoding, (*_KEPT, "_table") if "source" in self.metadata else _KEPT)
        return pa.schema([(ID, pa.string()), (FIRST, pa.string()), *told])

    def why(self, odd: pa.Table, decoding: Decoding) -> dict[tuple[str, int], tuple[str, str]]:
        """Why no row was made of these changes, by batch and index: code and message."""
        _, bad = decoded_one_by_one(odd.to_pylist(), decoding, mirror=False)
        return decoded_rows.why_of(bad)

    def changes_in(self, rows: pa.Table) -> int:
        """Of how many changes these rows are."""
        return len(rows)

    def split(self, parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Changes, a part of them (packed.CHANGES) at a time: the good ones decoded, and the others as they are."""
        schema = self.schema(decoding)
        for changes in parts:
            raw = changes.select(READ).combine_chunks().to_batches()
            batches = list(decoded(raw, decoding, AppendDecoder))
            if not batches:
                continue
            found = pa.Table.from_batches(batches)
            bad = found.filter(pc.is_valid(found["_code"])).select(["_batch", "_index"]).to_pylist()
            good = found.filter(pc.is_null(found["_code"])) if bad else found
            rows = list(zip(*(good[name].to_pylist() for name in META), strict=True))
            names = [decoded_rows.identity(row, self.stream) for row in rows]
            first = [decoded_rows.first_identity(row) for row in rows] if self.first else [None] * len(rows)
            columns = {ID: pa.array(names, pa.string()), FIRST: pa.array(first, pa.string())}
            told = [columns[name] if name in columns else good[name] for name in schema.names]
            yield pa.table(told, schema=schema), changes.filter(_are(changes, bad))


def _are(changes: pa.Table, places: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Which changes are those, by batch and index."""
    if not places:
        return pa.repeat(False, len(changes))
    wanted = {(one["_batch"], one["_index"]) for one in places}
    there = zip(changes["batch"].to_pylist(), changes["index"].to_pylist(), strict=True)
    return pa.array([one in wanted for one in there], pa.bool_())


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
    if "stream" in by.metadata:
        own[STREAM] = pa.repeat(pa.scalar(by.stream, pa.string()), len(good))
    return found | own | {TIME: pc.multiply(good["_ts"], 1000)}
