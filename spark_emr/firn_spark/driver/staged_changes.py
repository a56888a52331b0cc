"""Raw changes of sealed batches in this process: read and placed by the code that the executors run."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import ChangeId, Decoding
from firn.changes.merge.ordering import Order
from firn.changes.redelivery import Early
from firn.commit.staged_changes import facts_of, once, schema_texts
from firn.log.store import Store
from firn.quarantine.rules import High, Span
from firn.tables.batch_facts import TableFacts
from firn_spark.merge import column_decoder
from firn_spark.merge.column_decoder import Columns
from firn_spark.merge.shared_decoding import DecodedOnce
from firn_spark.not_eligible import TooMany, Unfit
from firn_spark.staged.facts import said_by_others
from firn_spark.staged.kept_generations import early_of
from firn_spark.staged.packed import CHANGES, in_order_of_tables
from firn_spark.staged.read import SealedBatch, bodies, rows_of_all
from firn_spark.staged.span import span_of_all

Change = dict[str, Any]
Parts = Sequence[tuple[Sequence[SealedBatch], Order]]  # batches, and what the stream says about their order
MOST_MADE = 512 * 1024 * 1024  # bytes of rows that the job's process holds, where changes give many each
_MANY = 4  # rows of a change, on average: of fewer the changes themselves are the bound
_DECODED_AT_ONCE = 2_000  # changes, or those of one object: to put large ones together costs more than it saves


@dataclass(frozen=True)
class Split:
    """Some changes of one table: those decoded to columns (column_decoder.Columns), and the others as they were staged
    (packed.CHANGES)."""

    plain: pa.Table
    odd: pa.Table


class Part:
    """Some changes of one table: how many, as they were staged, and by columns."""

    def __init__(
        self, count: int, raw: Callable[[bytes | None], pa.Table], split: Callable[[Columns, Decoding, int], Split]
    ) -> None:
        """`raw`: the changes (packed.CHANGES), those up to a position, or all."""
        self.count = count
        self.split = split
        self._raw = raw

    @cached_property
    def columns(self) -> pa.Table:
        """All that was staged and told of them."""
        return self._raw(None)

    @cached_property
    def rows(self) -> list[Change]:
        """A dict each. Ten times as large as the columns."""
        found: list[Change] = self.columns.to_pylist()
        return found

    def rows_upto(self, position: bytes) -> list[Change]:
        """The same of those up to a position."""
        found: list[Change] = self._raw(position).to_pylist()
        return found


class Staged(Protocol):
    """The changes of some batches, by source table."""

    def of(self, sources: Sequence[str], above: int = 0, upto: int | None = None) -> Part:
        """The changes of some source tables, in epochs above `above` and up to `upto` (None: all), epoch by epoch;
        those of one table in the order in which they arrived."""

    def span(self, high: High | None) -> Span:
        """What the changes say about their source's time."""

    def early(self, until: int) -> Early:
        """The changes that may have come before (firn.changes.redelivery)."""

    def told(
        self, sources: Sequence[str], above: int, without: frozenset[ChangeId], upto: int | None = None
    ) -> Mapping[str, TableFacts]:
        """What the changes that `of` gives say of their columns, but for some of them (settled_plan.Judge.told)."""

    @property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables."""

    @property
    def schemas(self) -> Mapping[str, str]:
        """The inline schemas by id."""


class Said:
    """What changes say about their tables. `counts`: changes by table, epoch and op; `said`: facts of objects."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int, str]] = Counter()
        self.said: list[Mapping[str, Any]] = []

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """The facts, by source table."""
        return facts_of(self.counts, self.said)

    @cached_property
    def schemas(self) -> Mapping[str, str]:
        """The inline schemas by id."""
        return schema_texts(self.said)

    def count(self, sources: Sequence[str], above: int, upto: int | None) -> int:
        """How many changes there are of some source tables in epochs above `above` and up to `upto`."""
        mine, counts = frozenset(sources), self.counts.items()
        return sum(n for (table, epoch, _), n in counts if table in mine and is_between(epoch, above, upto))


class Held(Said):
    """A Staged that this process holds."""

    def __init__(
        self,
        store: Store,
        staging: str,
        parts: Parts,
        *,
        whole: bool,
        most: int | None = None,
        seen: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`whole`: as for read.bodies; `most`: bytes, None for no bound; `seen`: hears how many changes more are read.
        Raises as read.raw_changes, and Unfit."""
        super().__init__()
        self._tables: dict[str, list[_OfTable]] = {}
        self._decoded = DecodedOnce()
        self.bytes = 0
        for batches, order in parts:
            for rows in rows_of_all(bodies(store, staging, batches, whole=whole), order):
                changes, tables = in_order_of_tables(rows.changes)
                ops = changes.group_by(["table", "op"], use_threads=False).aggregate([([], "count_all")]).to_pylist()
                for one in ops:
                    self.counts[one["table"], rows.epoch, one["op"]] += one["count_all"]
                slim = _Slim(changes)
                for name, first, count in tables:
                    self._tables.setdefault(name, []).append(_OfTable(slim, rows.epoch, first, count))
                self.bytes += slim.bytes
                self.said += [fact | {"epoch": rows.epoch} for fact in rows.said]
                seen(len(rows.changes))
                if most is not None and self.bytes > most:
                    raise Unfit(f"more than {most} bytes of changes in one process")

    def of(self, sources: Sequence[str], above: int = 0, upto: int | None = None) -> Part:
        """As Staged says."""

        def split(columns: Columns, decoding: Decoding, most: int) -> Split:
            plain, odd = self.split(sources, above, upto, columns, decoding, most)
            return Split(
                pa.concat_tables([columns.schema(decoding).empty_table(), *plain]),
                pa.concat_tables([CHANGES.empty_table(), *odd]),
            )

        return Part(self.count(sources, above, upto), lambda high: self.raw(sources, above, upto, high), split)

    def raw(self, sources: Sequence[str], above: int, upto: int | None, high: bytes | None) -> pa.Table:
        """Those changes as they were staged: up to a position, which what has none is below, or all."""
        found = pa.concat_tables([CHANGES.empty_table(), *(one.changes() for one in self._of(sources, above, upto))])
        return found if high is None else found.filter(pc.fill_null(pc.less_equal(found["pos"], high), True))

    def split(
        self, sources: Sequence[str], above: int, upto: int | None, columns: Columns, decoding: Decoding, most: int
    ) -> tuple[list[pa.Table], list[pa.Table]]:
        """Those changes in parts: by columns, and the others. Raises TooMany for more than `most` of the others, and
        Unfit for rows that too_many says."""
        plain: list[pa.Table] = []
        odd: list[pa.Table] = []
        rows = size = 0
        parts, count = self._parts(sources, above, upto), self.count(sources, above, upto)
        if (by := columns.shared(decoding)) is not None:
            parts = self._decoded.parts((tuple(sources), above, upto), parts, by)
        for some, others in columns.split(parts, decoding):
            plain.append(some)
            rows, size = rows + len(some), size + some.nbytes
            too_many(rows, size, count)
            if len(others):
                odd.append(others)
            if sum(map(len, odd)) > most:
                raise TooMany(f"more than {most} changes that are not plain")
        return plain, odd

    def told(
        self, sources: Sequence[str], above: int, without: frozenset[ChangeId], upto: int | None = None
    ) -> Mapping[str, TableFacts]:
        """As Staged says."""
        return facts_of({}, self.said_without(sources, above, without, upto))

    def said_without(
        self, sources: Sequence[str], above: int, without: frozenset[ChangeId], upto: int | None
    ) -> list[Mapping[str, Any]]:
        """The facts of it, each once."""
        parts = (one.changes() for one in self._of(sources, above, upto))
        return once(fact for part in parts for fact in said_by_others(part, without, self.schemas))

    def _of(self, sources: Sequence[str], above: int, upto: int | None) -> list["_OfTable"]:
        every = (one for source in sources for one in self._tables.get(source, ()))
        found = [one for one in every if is_between(one.epoch, above, upto)]
        return sorted(found, key=lambda one: one.epoch) if len(sources) > 1 else found

    def _parts(self, sources: Sequence[str], above: int, upto: int | None) -> Iterator[pa.Table]:
        """The changes in parts of a size that is decoded at once: small objects together, large ones alone."""
        parts: list[pa.Table] = []
        for one in self._of(sources, above, upto):
            if parts and sum(map(len, parts)) + one.rows > _DECODED_AT_ONCE:
                yield pa.concat_tables(parts)
                parts = []
            parts.append(one.changes())
        if parts:
            yield pa.concat_tables(parts)

    def span(self, high: High | None) -> Span:
        """As Staged says."""
        slim = (one for tables in self._tables.values() for one in tables)
        return span_of_all((batch for one in slim for batch in one.changes().to_batches()), high)

    def early(self, until: int) -> Early:
        """As Staged says."""
        slim = (one for tables in self._tables.values() for one in tables)
        return reduce(or_, (early_of(one.some("table", "ord", "ts"), until) for one in slim), Early())


def is_between(epoch: int, above: int, upto: int | None) -> bool:
    """Whether an epoch is above `above` and, unless that is None, up to `upto`."""
    return epoch > above and (upto is None or epoch <= upto)


def too_many(rows: int, size: int, changes: int) -> None:
    """Raises Unfit where changes gave many rows each, and of so many bytes that slices are to have them."""
    if rows > _MANY * changes and size > MOST_MADE:
        raise Unfit(f"{changes} changes give more than {MOST_MADE} bytes of rows")


class _Slim:
    """Changes (packed.CHANGES) without what says nothing: of a column of one value that value, and positions only in
    the orders that begin with them. To touch new memory costs as much as to decode."""

    def __init__(self, changes: pa.Table) -> None:
        placed = not changes["pos"].null_count
        self._columns: dict[str, pa.ChunkedArray | pa.Scalar] = {}
        for name in changes.column_names:
            if not (name == "pos" and placed):
                self._columns[name] = _one_value(changes[name])
        if isinstance(names := self._columns["batch"], pa.ChunkedArray):
            self._columns["batch"] = names.dictionary_encode()
        self.bytes = sum(one.nbytes for one in self._columns.values() if isinstance(one, pa.ChunkedArray))

    def column(self, field: pa.Field, first: int, rows: int) -> Any:
        """So many rows of a column."""
        held = self._columns.get(field.name)
        if isinstance(held, pa.Scalar):
            return pa.repeat(held, rows)
        if held is None:
            return column_decoder.position(self.column(CHANGES.field("ord"), first, rows))
        return held.slice(first, rows).cast(field.type)


@dataclass(frozen=True)
class _OfTable:
    """Those changes of `of` that are of one table: so many from `first` on."""

    of: _Slim
    epoch: int
    first: int
    rows: int

    def changes(self) -> pa.Table:
        """All columns again."""
        return pa.table(self.some(*CHANGES.names), schema=CHANGES)

    def some(self, *names: str) -> dict[str, Any]:
        """Some columns."""
        return {name: self.of.column(CHANGES.field(name), self.first, self.rows) for name in names}


def _one_value(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Scalar:
    """The value of a column that has only one, else the column."""
    if column.null_count == len(column):
        return pa.scalar(None, column.type)
    if column.null_count or len(column) < 2 or column[0] != column[-1]:
        return column
    first = column[0]
    return first if pc.all(pc.equal(column, first)).as_py() else column
