"""Staged objects as raw changes (packed.py), with what they say about their tables: fetched, read and placed, by
executors, readers and the job's own process alike."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from firn.changes.merge.ordering import Order
from firn.log import layout
from firn.log.store import Store, get
from firn.tables.batch_facts import SAID_BY, Facts
from firn_spark.staged.facts import facts_of
from firn_spark.staged.packed import CHANGES, STAGED
from firn_spark.staged.placing import placed, placed_at_once

_FETCHES_AT_ONCE = 8
_BYTES = 8 * 1024 * 1024  # of changes of small objects, in memory
_TOGETHER = 2_000  # changes of small objects: to put more together costs more than it saves


@dataclass(frozen=True)
class SealedBatch:
    """One staged batch of an epoch, and the generation that it counts under (firn.log.generations). `place` numbers
    the batches of the range in the order they were sealed."""

    epoch: int
    place: int
    batch: str
    path: str
    bytes: int
    generation: int = 0


def bodies(
    store: Store, staging: str, batches: Sequence[SealedBatch], *, whole: bool = True
) -> Iterator[tuple[SealedBatch, bytes]]:
    """The objects of the batches, some fetched ahead. `store`: the one at `staging`; `whole`: as for `raw_changes`."""

    def fetch(batch: SealedBatch) -> bytes | None:
        body = get(store, batch.path)
        if body is None and whole:
            raise FileNotFoundError(
                f"{batch.path} of epoch {batch.epoch} is missing from {staging}: restore it (bucket versioning), "
                "never skip it: its sender was told 202"
            )
        return body

    with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
        for first in range(0, len(batches), _FETCHES_AT_ONCE):
            some = batches[first : first + _FETCHES_AT_ONCE]
            for batch, body in zip(some, pool.map(fetch, some), strict=True):
                if body is not None:
                    yield batch, body


@dataclass(frozen=True)
class StagedRows:
    """The changes of a staged object, or of several of one epoch (packed.CHANGES), and what each of the objects says
    about its tables: facts with their `batch`."""

    epoch: int
    changes: pa.Table
    said: Facts


def rows_of_all(objects: Iterable[tuple[SealedBatch, bytes]], order: Order) -> Iterator[StagedRows]:
    """The changes of staged objects and their facts, in order, those of small objects together: the work for an object,
    however small, costs as much as some hundred changes. `order`: the stream's; the generation is each batch's own."""
    some: list[_Object] = []
    rows = size = 0
    for batch, body in objects:
        one = _object(batch, body)
        if not one.rows:
            continue
        rows, size = rows + one.rows, size + one.table.nbytes
        if some and (rows > _TOGETHER or size > _BYTES or not one.goes_with(some[0])):
            yield from _rows(some, order)
            some, rows, size = [], one.rows, one.table.nbytes
        some.append(one)
    if some:
        yield from _rows(some, order)


def rows_of(batch: SealedBatch, body: bytes, order: Order) -> StagedRows:
    """The same of one object."""
    return next(_rows([_object(batch, body)], order))


@dataclass(frozen=True)
class _Object:
    """`table`: what is in its file."""

    batch: SealedBatch
    table: pa.Table

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def goes_with(self, other: "_Object") -> bool:
        mine, its = self.batch, other.batch
        return (mine.epoch, mine.generation) == (its.epoch, its.generation)


def _object(batch: SealedBatch, body: bytes) -> _Object:
    # pq.read_table takes twice as long
    return _Object(batch, pq.ParquetFile(pa.BufferReader(body)).read(use_threads=False))


def _rows(some: Sequence[_Object], order: Order) -> Iterator[StagedRows]:
    first, sizes = some[0].batch, [one.rows for one in some]
    columns, by = _staged(some), replace(order, generation=first.generation)
    if len(some) == 1:
        places = placed(columns, first.place, by, layout.accepted(first.batch))
    else:
        found = placed_at_once(columns, by, sizes, [layout.accepted(one.batch.batch) for one in some])
        if found is None:  # request by request it turns out what is the matter
            for one in some:
                yield from _rows([one], order)
            return
        places = found
    changes = {**columns, **places}
    said, bad = _said(some, changes)
    if bad:
        changes |= _with_faults(changes, bad)
    names = [pa.repeat(pa.scalar(one.batch.batch, pa.string()), one.rows) for one in some]
    changes["epoch"] = pa.repeat(pa.scalar(first.epoch, pa.int64()), sum(sizes))
    changes["batch"] = pa.concat_arrays(names)
    yield StagedRows(first.epoch, pa.table([changes[name] for name in CHANGES.names], schema=CHANGES), said)


def _said(some: Sequence[_Object], columns: Mapping[str, pa.Array]) -> tuple[Facts, dict[int, tuple[str, str]]]:
    """The facts of each object on its own, since how objects are grouped must not change the tables; and the places of
    the changes that can't be asked, with code and text. `columns`: of all objects, placed."""
    said: Facts = []
    bad: dict[int, tuple[str, str]] = {}
    begin = 0
    for one in some:
        mine, wrong = facts_of({name: columns[name].slice(begin, one.rows) for name in SAID_BY})
        said += [fact | {"batch": one.batch.batch} for fact in mine]
        bad |= {begin + row: (why.code, str(why)) for row, why in wrong.items()}
        begin += one.rows
    return said, bad


def _with_faults(changes: Mapping[str, pa.Array], bad: Mapping[int, tuple[str, str]]) -> dict[str, pa.Array]:
    """The faults, and more of them: the first of a change counts."""
    codes, texts = changes["fault"].to_pylist(), changes["fault_text"].to_pylist()
    for row, why in bad.items():
        if codes[row] is None:
            codes[row], texts[row] = why
    return {"fault": pa.array(codes, pa.string()), "fault_text": pa.array(texts, pa.string())}


def _staged(objects: Sequence["_Object"]) -> dict[str, pa.Array]:
    """All columns of staged objects; what says nothing is not in the files (docs/architecture.md)."""
    rows = sum(one.rows for one in objects)
    columns = {}
    for name, kind in STAGED.items():
        if name == "index" or any(name in one.table.column_names for one in objects):
            chunks = [chunk for one in objects for chunk in _column(one.table, name, kind).chunks]
            columns[name] = chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, kind).combine_chunks()
        else:
            columns[name] = _unsaid(name, rows)
    return columns


def _column(table: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    if name in table.column_names:
        return table.column(name).cast(kind)
    return pa.chunked_array([_unsaid(name, table.num_rows)])


def _unsaid(name: str, rows: int) -> pa.Array:
    if name == "index":
        return pa.array(range(rows), STAGED[name])
    return pa.repeat(False, rows) if name == "flat" else pa.nulls(rows, STAGED[name])
