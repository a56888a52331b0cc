"""Staged changes to slices, on the executors: plain ones decoded to columns and cut by key, the others as they are.

They travel packed, some thousand in a row: Spark moves and keeps rows one by one.
"""

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn.changes.decode.row_decoder import Decoding
from firn_spark.arrow import Batches, map_in_arrow
from firn_spark.driver import column_decoder
from firn_spark.driver import columnar_merge as by_columns
from firn_spark.driver.mirror_commit import together
from firn_spark.merge.mirror import Survey
from firn_spark.not_eligible import Unfit
from firn_spark.slices.key_ranges import cut
from firn_spark.staged.frames import packed_changes
from firn_spark.staged.packed import CHANGES, bytes_of, rows_in, unpacked

PLAIN, ODD, SEEN = "plain", "odd", "seen"
# kind     PLAIN: decoded changes of a slice; ODD: others as they were staged; SEEN: a _Told
# slice    of PLAIN: its label
SLICED = pa.schema({"kind": pa.string(), "slice": pa.int32(), "body": pa.binary()})
_KEYS = pa.schema({"keys": pa.binary(), "bytes": pa.int64()})
_AT_ONCE = 100_000  # changes that are cut together
_BYTES_AT_ONCE = 32 * 1024 * 1024
_SAMPLED = 30_000  # keys
_LOOKED_AT = 2_000_000  # changes, about, that are sampled from


@dataclass(frozen=True)
class Seen:
    """What is seen of plain changes, of which there are none in `plain`, and the others as they were staged
    (packed.CHANGES). `largest`: bytes of the largest slice."""

    seen: Survey
    plain: pa.Table
    odd: pa.Table
    largest: int


@dataclass(frozen=True)
class _Told:
    """A Survey of plain changes, and their bytes by slice; how many others there are, and of how many bytes."""

    plain: Survey
    slices: dict[int, int]
    others: int
    bytes: int


def sampled(mine: DataFrame, decoding: Decoding, changes: int) -> tuple[pa.Table, float]:
    """Keys of some of about so many changes, and how many bytes each of them has, decoded. A Spark job."""
    rows = packed_changes(mine)
    looked = min(changes, _LOOKED_AT)
    some = rows.sample(looked / changes, seed=1) if looked < changes else rows
    step = max(1, looked // _SAMPLED)
    names = by_columns.key_names(decoding)

    def keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in unpacked(batches):
            few = pa.Table.from_batches([each.take(pa.arange(0, each.num_rows, step))])
            for plain, _ in column_decoder.split([few], decoding):
                told = {"keys": [body_of(plain.select(names))], "bytes": [plain.nbytes]}
                yield pa.RecordBatch.from_pydict(told, _KEYS)

    found = map_in_arrow(some, keys, _KEYS).collect()
    every = pa.concat_tables([by_columns.keys_of((), decoding), *(table_of(row["keys"]) for row in found)])
    return every, sum(row["bytes"] for row in found) / max(1, len(every))


def sliced(mine: DataFrame, decoding: Decoding, bounds: pa.Table, labels: Sequence[int]) -> DataFrame:
    """The changes (packed.PACKED) by slices: SLICED. `labels`: of the slices."""
    return map_in_arrow(packed_changes(mine), _slicing(decoding, bounds, labels), SLICED)


def seen_in(rows: DataFrame, decoding: Decoding, most: int, most_bytes: int) -> Seen:
    """What was seen (SLICED, persisted by the caller). Raises Unfit for more than `most` changes that are not plain, or
    more bytes of them."""
    nothing = column_decoder.schema(decoding).empty_table()
    told: list[_Told] = [pickle.loads(body) for body in _bodies(rows, SEEN)]  # noqa: S301 (our own executors wrote it)
    surveys = [by_columns.survey(nothing, decoding), *(one.plain for one in told)]
    count, size = sum(one.others for one in told), sum(one.bytes for one in told)
    if count > most:
        raise Unfit(f"more than {most} changes that are not plain")
    if size > most_bytes:
        raise Unfit(f"more than {most_bytes} bytes of changes that are not plain")
    odd = [table_of(body) for body in _bodies(rows, ODD)] if count else []
    slices = sum((Counter(one.slices) for one in told), Counter[int]())
    others = pa.concat_tables([CHANGES.empty_table(), *odd])
    return Seen(reduce(together, surveys), nothing, others, max(slices.values(), default=0))


def _bodies(rows: DataFrame, kind: str) -> list[bytes]:
    return [row["body"] for row in rows.where(f.col("kind") == kind).select("body").collect()]


def body_of(rows: pa.Table) -> bytes:
    """Rows packed."""
    whole = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return bytes_of(whole[0])


def table_of(body: bytes | pa.Buffer) -> pa.Table:
    """Rows unpacked."""
    return pa.Table.from_batches([rows_in(body)])


def _slicing(decoding: Decoding, bounds: pa.Table, labels: Sequence[int]) -> Batches:
    schema = column_decoder.schema(decoding)

    def packed(plain: Sequence[pa.Table], others: tuple[int, int]) -> pa.RecordBatch:
        rows = pa.concat_tables([schema.empty_table(), *plain])
        kinds, slices, bodies, sizes = [SEEN], [0], [b""], {}
        for number, part in cut(rows, bounds):
            sizes[labels[number]] = part.nbytes
            kinds, slices, bodies = [*kinds, PLAIN], [*slices, labels[number]], [*bodies, body_of(part)]
        bodies[0] = pickle.dumps(_Told(by_columns.survey(rows, decoding), sizes, *others))
        return pa.RecordBatch.from_pydict({"kind": kinds, "slice": slices, "body": bodies}, SLICED)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.Table] = []
        others = (0, 0)
        parts = (pa.Table.from_batches([each]) for each in unpacked(batches))
        for plain, odd in column_decoder.split(parts, decoding):
            if len(odd):
                yield pa.RecordBatch.from_pydict({"kind": [ODD], "slice": [0], "body": [body_of(odd)]}, SLICED)
            held.append(plain)
            others = (others[0] + len(odd), others[1] + odd.nbytes)
            if sum(map(len, held)) >= _AT_ONCE or sum(one.nbytes for one in held) >= _BYTES_AT_ONCE:
                yield packed(held, others)
                held, others = [], (0, 0)
        if held:
            yield packed(held, others)

    return run


def labels_of(rows: DataFrame, slices: int) -> list[int]:
    """A number for each slice, such that Spark's hash sends each of them to a partition of its own."""
    if slices == 1:
        return [0]
    numbers = rows.sparkSession.range(0, 20 * slices + 64, 1, 1)
    placed = numbers.select("id", f.expr(f"pmod(hash(cast(id as int)), {slices})").alias("place"))
    found = {row["place"]: row["id"] for row in placed.collect()}
    return [int(found[place]) for place in range(slices)]
