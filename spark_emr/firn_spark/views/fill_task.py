"""What Spark's tasks do for a fill in parts: some read rows of tables and cut them by their parts, and others run the
view's query over a part and write its files. They travel packed, as slices do."""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.types import Column
from firn.errors import TerminalError
from firn_spark.arrow import Batches
from firn_spark.files.row_lookup import Files, Wanted
from firn_spark.files.write import Layout, NewFile, ordered, write_rows
from firn_spark.not_eligible import Unfit
from firn_spark.pipelines.base_rows import every_row_in
from firn_spark.slices import by_partition
from firn_spark.slices.decoding import body_of
from firn_spark.slices.tasks import result
from firn_spark.staged.packed import rows_in
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.fence import LostRace
from firn_spark.views.view_files import portions
from firn_sql.result_batches import batches_of
from firn_sql.views.algebra import quoted
from firn_sql.views.stored import Stored
from firn_sql.views.view_connection import Connection, connected, failures

MEMORY: Final = 300_000_000  # bytes that a part's query holds: several are run at once
_CUT_AT_ONCE: Final = 32 * 1024 * 1024  # bytes of rows
_BATCH: Final = 65_536  # rows
ROWS: Final = "firn_rows"  # what rows are called while they are seen
READ: Final = pa.schema({"reads": pa.binary()})  # a pickled (number of an input, Share)
# slice    the label of a part
# input    the number of an input; null where the part is only named
# body     rows of it
# failure  why they could not be read: pickled
_FAILURES: Final = (TerminalError, Unfit, LostRace, pa.ArrowException)  # that another try would end in too
CUT: Final = pa.schema({"slice": pa.int32(), "input": pa.int32(), "body": pa.binary(), "failure": pa.binary()})


Share = tuple[Sequence[str], int, int]  # files, and of their row groups which one in how many (every_row_in)


@dataclass(frozen=True)
class PartInput:
    """Rows of a table as the query of a part reads them. Goes to the executors.

    name     what the query calls it
    schema   of its rows, in the names of SQL
    numbers  SQL of the number of each of the rows that ROWS are, by which they are cut; "" if they are not
    files    that are planned; `ids`: row_lookup.ids_of
    columns  that are read of these, as the schema has them
    """

    name: str
    schema: pa.Schema
    numbers: str
    files: Files = field(default_factory=lambda: Files(Wanted(())))
    ids: Mapping[str, int] = field(default_factory=dict)
    columns: Sequence[Column] = ()

    def rows(self, share: Share) -> Iterator[pa.Table]:
        """Those of some of the files. Raises as base_rows.all_rows."""
        paths, *some = share
        schema = pa.schema([pa.field(one.name, arrow_type(one.type)) for one in self.columns])
        for part in every_row_in(replace(self.files, files=paths), self.ids, self.columns, *some):
            yield part.select(schema.names).cast(schema).rename_columns(self.schema.names)


@dataclass(frozen=True)
class Fill:
    """What all parts of a fill have in common. Goes to the executors.

    owner   the view
    inputs  by their numbers
    rows    SELECT over the inputs
    parts   by label: the number of each, and of inputs that are not cut what it reads
    """

    owner: str
    inputs: Sequence[PartInput]
    rows: str
    parts: Mapping[int, tuple[int, Sequence[tuple[int, Share]]]]


@dataclass(frozen=True)
class Written:
    """How what a Fill gives (Stored.rows) is written. Goes to the executors.

    layout  of the view's new files
    worth   rows of a partition that are worth a file of their own; 0: the view has no partitions
    """

    stored: Stored
    layout: Layout
    worth: int


def cutting(fill: Fill) -> Batches:
    """Reads rows of inputs (READ) and cuts them by parts (CUT)."""
    labels = list(fill.parts)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _numbering() as connection:
            try:
                for batch in batches:
                    for reads in batch.column("reads"):
                        number, share = pickle.loads(reads.as_py())  # noqa: S301 (of our own job)
                        one = fill.inputs[number]
                        for some in _together(one.rows(share)):
                            yield _cut(connection, some, one.numbers, number, labels)
            except _FAILURES as why:
                yield _failed(labels[0], _pickled(fill.owner, why))

    return run


def adding(fill: Fill, into: Fill) -> Batches:
    """Runs the query over parts (CUT), and cuts what it gives by the parts of another fill, whose one input it is."""
    labels, (one,) = list(into.parts), into.inputs

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _numbering() as connection:
            try:
                for _, part in _loaded(fill, batches):
                    for some in _together(part.sums()):
                        yield _cut(connection, some, one.numbers, 0, labels)
            except _FAILURES as why:
                yield _failed(labels[0], _pickled(fill.owner, why))

    return run


def filling(fill: Fill, how: Written) -> Batches:
    """Runs the query over parts (CUT), and writes what it gives (slices.tasks.result)."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for number, part in _loaded(fill, batches):
                yield from part.results(how, number)
        except _FAILURES as why:
            yield result(failure=_pickled(fill.owner, why))

    return run


@contextmanager
def _numbering() -> Iterator[Connection]:
    """A connection that gives numbers of rows in their order."""
    with connected(MEMORY, threads=1) as connection:
        connection.execute("SET preserve_insertion_order = true")
        yield connection


def _together(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(one.nbytes for one in held) >= _CUT_AT_ONCE:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _cut(connection: Connection, rows: pa.Table, numbers: str, number: int, labels: Sequence[int]) -> pa.RecordBatch:
    connection.register(ROWS, rows)
    asked = f"SELECT CAST(n % {len(labels)} AS INTEGER) AS n FROM ({numbers})"
    parts = connection.sql(asked).to_arrow_table()["n"].combine_chunks()
    connection.unregister(ROWS)
    order = pc.sort_indices(parts)
    rows, first, cells = rows.take(order), 0, list[tuple[int, bytes]]()
    for one in pc.value_counts(parts.take(order)).to_pylist():
        cells.append((labels[one["values"]], body_of(rows.slice(first, one["counts"]))))
        first += one["counts"]
    slices, bodies = ([one[i] for one in cells] for i in (0, 1))
    more = {"input": [number] * len(cells), "failure": [None] * len(cells)}
    return pa.RecordBatch.from_pydict({"slice": slices, "body": bodies, **more}, CUT)


def _loaded(fill: Fill, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, "_Part"]]:
    """The parts that rows (CUT) are of, with all that they read, and their numbers. Raises what could not be read."""
    with ExitStack() as held:
        parts: dict[int, _Part] = {}
        for batch in batches:
            names = (batch.column(one).to_pylist() for one in ("slice", "input", "failure"))
            for label, number, failure, body in zip(*names, batch.column("body"), strict=True):
                if failure is not None:
                    raise pickle.loads(failure)  # noqa: S301 (our own executors wrote it)
                if label not in parts:  # one, as a rule
                    parts[label] = _Part(held.enter_context(connected(MEMORY, threads=1)), fill)
                if number is not None:
                    parts[label].take(number, pa.Table.from_batches([rows_in(body.as_buffer())]))
        for label in sorted(parts):
            number, files = fill.parts[label]
            for which, share in files:
                for rows in fill.inputs[which].rows(share):
                    parts[label].take(which, rows)
            yield number, parts.pop(label)


class _Part:
    """One part, whose rows lie in tables of a connection: they may be larger than memory."""

    def __init__(self, connection: Connection, fill: Fill) -> None:
        self._connection = connection
        self._fill = fill
        for one in fill.inputs:
            with self._seen(one.schema.empty_table()):
                connection.execute(f"CREATE TEMP TABLE {one.name} AS SELECT * FROM {ROWS}")

    def take(self, number: int, rows: pa.Table) -> None:
        """Rows of an input are in the part."""
        with failures(self._fill.owner), self._seen(rows):
            self._connection.execute(f"INSERT INTO {self._fill.inputs[number].name} SELECT * FROM {ROWS}")

    def sums(self) -> Iterator[pa.Table]:
        """What the query gives."""
        with failures(self._fill.owner):
            for batch in batches_of(self._connection.sql(self._fill.rows).to_arrow_reader(_BATCH)):
                yield pa.Table.from_batches([batch])

    def results(self, how: Written, number: int) -> Iterator[pa.RecordBatch]:
        """The files of what the query gives, and how many rows they have."""
        count, new = 0, list[NewFile]()
        with failures(self._fill.owner):
            for rows in portions(self._connection, how.layout, how.stored, self._fill.rows):
                count += len(rows)
                here, rest = [rows], list[tuple[str, pa.Table]]()
                if how.worth:
                    here, rest = by_partition.placed(how.layout, rows, number, how.worth)
                for one in here:
                    new += write_rows(how.layout, ordered(how.layout, one))
                for name, part in rest:
                    yield result(name=name, body=body_of(part))
        yield result(done=pickle.dumps((new, count)))

    @contextmanager
    def _seen(self, rows: pa.Table) -> Iterator[None]:
        self._connection.register(ROWS, rows)
        try:
            yield
        finally:
            self._connection.unregister(ROWS)


def _failed(label: int, failure: bytes) -> pa.RecordBatch:
    cells = {"slice": [label], "input": [None], "body": [None], "failure": [failure]}
    return pa.RecordBatch.from_pydict(cells, CUT)


def _pickled(owner: str, why: Exception) -> bytes:
    if isinstance(why, pa.ArrowException):
        why = TerminalError(f"view {owner}: rows that Arrow can't take: {str(why).splitlines()[0]}")
    return pickle.dumps(why)


def numbers_of(names: Mapping[str, str], number: str) -> str:
    """PartInput.numbers: `number` of rows whose columns a plan calls by other names. names: of the plan -> of SQL."""
    columns = ", ".join(f"{quoted(name)} AS {column}" for column, name in names.items())
    return f"SELECT {number} AS n FROM (SELECT {columns} FROM {ROWS})"
