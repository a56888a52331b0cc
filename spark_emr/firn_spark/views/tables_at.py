"""The tables that a view reads, as they were when it was made and as they are to be, for one refresh of it in this
process: what is asked for is looked up by its values, or read as a whole once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.types import BINARY, Column
from firn.changes.metadata_columns import IDENTITY
from firn.config.names import TableName
from firn_spark.files import row_lookup
from firn_spark.files.held_files import HeldFiles
from firn_spark.pipelines import base_rows
from firn_spark.tables import deletes
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Table
from firn_spark.tables.held_columns import HeldColumns
from firn_spark.views.row_changes import RowChanges
from firn_sql.views import bags
from firn_sql.views.algebra import column, quoted
from firn_sql.views.refresh_cost import Facts
from firn_sql.views.refresh_port import AFTER, NOTHING, Span, Within, listed
from firn_sql.views.stored import Stored
from firn_sql.views.view_connection import Connection

_MOST_VALUES: Final = 100_000  # that rows are looked up by: for more all are read
_UUID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"  # as a column of them is read
_ID: Final = Column(IDENTITY, BINARY)
_TIMES: Final = {"timestamp": 1, "timestamptz": 1, "date": 86_400_000_000}  # microseconds of what files tell them in
_TIMES_IN_SQL: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})


@dataclass(frozen=True)
class TableAt:
    """A table that a view reads.

    columns  that SQL may name, and those of the key
    key      the columns that tell its rows apart
    called   what SQL calls columns that were renamed since it was written
    until    the snapshot that the view is to be of
    since    the one that it is of; None: none, or it is made again
    """

    name: TableName
    table: Table
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    until: int
    since: int | None = None
    called: Mapping[str, str] = field(default_factory=dict)

    @property
    def facts(self) -> Facts:
        """About how large it is."""
        return facts_of(self.table, self.until, tuple(map(self.in_sql, self.key)))

    def in_sql(self, column: str) -> str:
        """What SQL calls a column of the table."""
        return self.called.get(column, column)

    def needed(self, names: Collection[str]) -> list[Column]:
        """Those of the columns that SQL calls by these names."""
        return [one for one in self.columns if self.in_sql(one.name) in names]


class TablesAt:
    """A firn_sql.views.refresh_port.Sources, of tables by their names in lower case.

    needed   of each table the columns that the plan reads
    changed  of each table that has changed what has; None: nothing is known of before
    view     the view's own table, if it is there
    held     what was read of files before
    known    the files of tables
    """

    def __init__(
        self,
        spark: SparkSession,
        connection: Connection,
        tables: Mapping[str, TableAt],
        needed: Mapping[str, Collection[str]],
        changed: Mapping[str, RowChanges] | None,
        view: Table | None,
        stored: Stored,
        held: HeldColumns | None = None,
        known: HeldFiles | None = None,
    ) -> None:
        self._spark = spark
        self._connection = connection
        self._tables = tables
        self._needed = needed
        self._view = view
        self._stored = stored
        self._columns_held, self._files_held = held, known
        self._numbers = count()
        self._whole: dict[str, str] = {}
        self._empty: dict[str, str] = {}
        self._found: dict[tuple[str, tuple[str | None, ...], str], str] = {}  # what was looked up, for both cuts
        self._known: dict[tuple[str, tuple[str, ...]], list[tuple[Sequence[pa.Array], str]]] = {}  # the same, by values
        self._held: tuple[Column, list[pa.Table]] | None = None  # rows of the view, and the column that tells which
        self._changed = {name: self._net(name, found) for name, found in (changed or {}).items()}

    def rows(self, source: str, cut: int, columns: Sequence[str], within: Within | None) -> str:
        """As the port says. Those of before are those of now without what came, and with what went."""
        names = listed([quoted(one) for one in columns])
        if cut == NOTHING:
            if source not in self._empty:
                self._empty[source] = self._made(self._columns(source), [], self._tables[source])
            return f"SELECT {names} FROM {self._empty[source]}"
        found = f"SELECT {names} FROM {self._now(source, within)}"
        if cut == AFTER or source not in self._changed:
            return found
        gone, come = (f"SELECT {names} FROM {one}" for one in self._changed[source])
        if within is not None:
            found, gone, come = (_inside(one, columns, within) for one in (found, gone, come))
        return f"{_less(found, come, columns)} UNION ALL ({gone})"

    def changes(self, source: str, columns: Sequence[str]) -> tuple[str, str] | None:
        """As the port says."""
        if source not in self._changed:
            return None
        names = listed([quoted(one) for one in columns])
        gone, come = (f"SELECT {names} FROM {one}" for one in self._changed[source])
        return gone, come

    def count(self, source: str) -> int:
        """As the port says."""
        return self._tables[source].facts.rows

    def view_rows(self) -> str:
        """A SELECT of all rows of the view's table, in the types of Stored.rows."""
        its = [*self._stored.columns, _ID]
        rows = () if self._view is None else base_rows.every_row(self._spark, self._view, its)
        kinds = {self._stored.names[one]: self._stored.casts[one] for one in self._stored.written}
        cells = [f"CAST({quoted(one)} AS {kind}) AS {quoted(one)}" for one, kind in kinds.items()]
        return f"SELECT {', '.join([*cells, quoted(IDENTITY)])} FROM {self._made(its, rows)}"

    def all_held(self, columns: Sequence[str]) -> str | None:
        """As the port says."""
        if self._view is None or not self._stored.names.keys() >= set(columns):
            return None
        asked_for = {self._stored.names[one] for one in columns}
        its = [one for one in self._stored.columns if one.name in asked_for]
        every = base_rows.every_row(self._spark, self._view, its)
        return self._stored.held(f"SELECT * FROM {self._made(its, every)}", columns)

    def held(self, columns: Sequence[str], within: Within) -> str:
        """As the port says: rows of the view are looked up by who they are."""
        names = tuple(f"w{i}" for i in range(len(self._stored.ids)))
        asked_for = {self._stored.names[one] for one in columns}
        its = [one for one in self._stored.columns if one.name in asked_for]
        wanted = self._wanted(self.who(f"SELECT DISTINCT {{}} FROM {within.table}", names))
        its += [one for one in wanted.key[-1:] if one not in its]
        self._held = wanted.key[-1], []
        if self._view is not None:
            rows = self._rows_with(self._view, wanted, its, where=True)
            self._held = wanted.key[-1], rows
        return self._stored.held(f"SELECT * FROM {self._made(its, self._held[1])}", columns)

    def who(self, rows: str, names: Sequence[str] | None) -> pa.Table:
        """Who rows are, a SELECT with {} for what is asked of them: `id`, and `shown` if the view shows it. `names`: of
        the columns that have the values of Stored.ids; None: they are rows of the view's table."""
        shown, asked = (
            self._stored.shown,
            [f"{quoted(IDENTITY) if names is None else self._stored.identity(tuple(names))} AS id"],
        )
        if shown is not None:
            by = quoted(shown[1]) if names is None else names[self._stored.ids.index(shown[0])]
            asked.append(f"{by} AS shown")
        return self._connection.sql(rows.format(", ".join(asked))).to_arrow_table()

    def places_of(self, view: Table, rows: pa.Table) -> deletes.Places:
        """Where these rows (`who`) of the view are: of groups that is known, for they were looked up."""
        if not len(rows):
            return {}
        if self._held is not None:
            return _places(*self._held, rows)
        wanted = self._wanted(rows)
        if len(wanted.key) == 1:
            return _places(wanted.key[0], self._rows_with(view, wanted, wanted.key, where=True), rows)
        # All of the rows that show a value, if they are as many as those that go: who they are need not be read.
        shown = row_lookup.Wanted(wanted.key[:1], some=wanted.values[:1])
        found = self._rows_with(view, shown, shown.key, where=True)
        all_of = _as_often(rows["shown"], [one[shown.key[0].name] for one in found])
        known = pc.is_in(rows["shown"], value_set=all_of.cast(rows["shown"].type))
        places = [_places(shown.key[0], found, rows.filter(known))]
        if len(some := rows.filter(pc.invert(known))):
            wanted = self._wanted(some)
            places.append(_places(_ID, self._rows_with(view, wanted, [_ID], where=True), some))
        return deletes.together(places)

    def _wanted(self, rows: pa.Table) -> row_lookup.Wanted:
        """Rows of the view, by who they are: the last column tells it. What the view shows of that comes first, for
        pages are chosen by its bounds; where that is all, `_firn_id` is not looked at."""
        if self._stored.shown is None or rows["shown"].null_count:
            return row_lookup.Wanted([_ID], some=[rows["id"].unique()])
        shown = next(one for one in self._stored.columns if one.name == self._stored.shown[1])
        if len(self._stored.ids) == 1:
            return row_lookup.Wanted([shown], some=[rows["shown"].unique()])
        return row_lookup.Wanted([shown, _ID], some=[rows["shown"].unique(), rows["id"].unique()])

    def _net(self, name: str, found: RowChanges) -> tuple[str, str]:
        """Tables of what went and what came, without what did both."""
        at = self._tables[name]
        gone, come = (self._made(self._columns(name), some, at) for some in (found.gone, found.come))
        if not found.gone or not found.come:
            return gone, come
        columns = [quoted(at.in_sql(one.name)) for one in self._columns(name)]
        both = bags.counted([f"FROM {gone}"], [f"FROM {come}"], columns)
        self._connection.execute(f"CREATE TEMP TABLE {gone}_both AS {both}")
        for one, sign in ((gone, ""), (come, "-")):
            rows = bags.repeated(f"FROM {gone}_both", columns, sign)
            self._connection.execute(f"CREATE TEMP TABLE {one}_net AS {rows}")
        return f"{gone}_net", f"{come}_net"

    def _columns(self, source: str) -> list[Column]:
        return self._tables[source].needed(self._needed[source])

    def _now(self, source: str, within: Within | None) -> str:
        """A table of the connection with the rows that are to be, of those in `within` at least."""
        at = self._tables[source]
        if within is not None and source not in self._whole:
            names = tuple(one.column for one in within.values)
            asked = (source, names, within.table)
            if asked in self._found:
                return self._found[asked]
            by = {at.in_sql(one.name): one for one in at.columns}
            key = [by[name] for name in names if name in by]
            if isinstance(within, Span) and key:
                if (ends := self._ends(within, key[0])) is not None:
                    columns = self._columns(source)
                    between = base_rows.every_row(self._spark, at.table, columns, at.until, (key[0], *ends))
                    self._found[asked] = self._made(columns, between, at)
                    return self._found[asked]
                return self._every(source)
            values = self._values(within, key)
            if values is not None and len(values) == len(names):
                self._found[asked] = self._looked_up(source, key, values)
                return self._found[asked]
        return self._every(source)

    def _looked_up(self, source: str, key: Sequence[Column], values: Sequence[pa.Array]) -> str:
        """A table of the connection with the rows of these values of each column of the key, and perhaps with those of
        more of them: what was looked up before isn't looked up again."""
        known = self._known.setdefault((source, tuple(one.name for one in key)), [])
        for some, name in known:
            if all(pc.all(pc.is_in(a, value_set=b)).as_py() is not False for a, b in zip(values, some, strict=True)):
                return name
        at, columns = self._tables[source], self._columns(source)
        wanted = row_lookup.Wanted(key, some=values, snapshot=at.until)
        known.append((values, self._made(columns, self._rows_with(at.table, wanted, columns), at)))
        return known[-1][1]

    def _rows_with(
        self, table: Table, wanted: row_lookup.Wanted, columns: Sequence[Column], *, where: bool = False
    ) -> list[pa.Table]:
        held, known = self._columns_held, self._files_held
        return base_rows.rows_with(self._spark, table, wanted, columns, where=where, held=held, known=known)

    def _every(self, source: str) -> str:
        at = self._tables[source]
        if source not in self._whole:
            columns = self._columns(source)
            every = base_rows.every_row(self._spark, at.table, columns, at.until)
            self._whole[source] = self._made(columns, every, at)
        return self._whole[source]

    def _ends(self, within: Span, column: Column) -> tuple[int | None, int | None] | None:
        """The least and the greatest that a column may be, as files tell it; None if they don't."""
        kinds = {str(one) for one in self._connection.sql(f"SELECT * FROM {within.table}").types}
        if column.type.name not in _TIMES or not kinds <= _TIMES_IN_SQL:
            return None
        unit = _TIMES[column.type.name]
        least, most = (f"{end} // {unit}" for end in ("epoch_us(min(w0))", "epoch_us(max(w1))"))
        asked = f"SELECT {least}, {most} FROM (SELECT w0::TIMESTAMPTZ w0, w1::TIMESTAMPTZ w1 FROM {within.table})"
        ((low, high),) = self._connection.execute(asked).fetchall()
        return low, high

    def _values(self, within: Within, key: Sequence[Column]) -> list[pa.Array] | None:
        """What the columns of a look-up may be; None if they are too many, or of types that are not looked up by."""
        found = []
        for i, one in enumerate(key):
            asked = f"SELECT DISTINCT w{i} FROM {within.table} LIMIT {_MOST_VALUES + 1}"
            values = self._connection.sql(asked).to_arrow_table().column(0).combine_chunks()
            kind = arrow_type(one.type)
            if len(values) > _MOST_VALUES or not _says_all(values.type, kind):
                return None
            try:
                values = values.cast(kind)
            except pa.ArrowException:
                return None
            if one.type.name == "uuid":  # of which only such texts are asked for; another one equals none
                values = values.filter(pc.fill_null(pc.match_substring_regex(values, _UUID), True))
            found.append(values)
        return found

    def _made(self, columns: Sequence[Column], parts: Iterable[pa.Table], at: TableAt | None = None) -> str:
        """A table of the connection with these rows, part by part: it may be larger than memory. `at`: whose they are,
        in the names of SQL."""
        name = f"firn_rows_{next(self._numbers)}"
        schema = pa.schema([(one.name, arrow_type(one.type)) for one in columns])
        called = schema if at is None else pa.schema([each.with_name(at.in_sql(each.name)) for each in schema])
        batches = (
            batch.rename_columns(called.names)
            for part in parts for batch in part.select(schema.names).cast(schema).to_batches()
        )  # fmt: skip
        reader = pa.RecordBatchReader.from_batches(called, batches)
        self._connection.register("firn_reader", reader)
        self._connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM firn_reader")
        self._connection.unregister("firn_reader")
        return name


def facts_of(table: Table, snapshot: int, key: tuple[str, ...] = ()) -> Facts:
    """About how large a table is: what a snapshot says of itself, rows that are deleted among them."""
    newest = snapshot == table.state.snapshot_id and table.state.ancestry
    told = newest[0] if newest else table.java.snapshot(snapshot).summary()
    return Facts(int(told.get("total-records") or 0), key, bytes=int(told.get("total-files-size") or 0))


def _places(by: Column, found: Sequence[pa.Table], rows: pa.Table) -> deletes.Places:
    """Where rows (`TablesAt.who`) are, of those that were found with what `by` tells of them."""
    if not found:
        return {}
    names = [by.name, base_rows.FILE, base_rows.ROW]
    told = pa.concat_tables(one.select(names) for one in found).unify_dictionaries()
    own = rows["id" if by is _ID else "shown"].combine_chunks().cast(told[by.name].type)
    told = told.filter(pc.is_in(told[by.name], value_set=own))
    return deletes.by_file(told[base_rows.FILE], told[base_rows.ROW])


def _as_often(wanted: pa.ChunkedArray, found: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The values that both have equally often."""
    kind = wanted.type
    there = pa.chunked_array([part.cast(kind) for one in found for part in one.chunks], kind)
    sides = []
    for one in (wanted, there):
        counts = pc.value_counts(one)
        sides.append(pa.table({"value": counts.field(0), "count": counts.field(1)}))
    return sides[0].join(sides[1], ["value", "count"], join_type="inner", use_threads=False)["value"].combine_chunks()


def _says_all(value: pa.DataType, kind: pa.DataType) -> bool:
    """Whether whatever in a column of this `kind` equals a value of that type is that value, cast to the kind: not of a
    text that equals a number, which may be written in several ways, nor of numbers that are compared as floats."""
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        return False
    return value == kind or all(pa.types.is_integer(one) or pa.types.is_decimal(one) for one in (value, kind))


def _less(rows: str, come: str, columns: Sequence[str]) -> str:
    """Rows, each as often as there are more of it than of those that came. These are few: all rows are compared with
    them, and only those that are like one are counted."""
    listing = ", ".join(f"{quoted(one)} AS w{i}" for i, one in enumerate(columns))
    like = Within(tuple(map(column, columns)), f"(SELECT DISTINCT {listing} FROM ({come}))")
    both = bags.counted([_inside(rows, columns, like)], [come], [quoted(one) for one in columns])
    left = bags.repeated(both, [quoted(one) for one in columns])
    return f"({_inside(rows, columns, like, 'ANTI')}) UNION ALL ({left})"


def _inside(rows: str, columns: Sequence[str], within: Within, how: str = "SEMI") -> str:
    """Those of some rows that are in `within`; ANTI: the others. A table may have a column w0 too, so its columns get
    other names."""
    others = {one: f"x{i}" for i, one in enumerate(columns)}
    values = tuple(one.over({name: column(other) for name, other in others.items()}) for one in within.values)
    renamed = f"SELECT {listed([f'{quoted(one)} AS {other}' for one, other in others.items()])} FROM ({rows})"
    own = Within(values, within.table)
    found = (own.semi_join if how == "SEMI" else own.anti_join)(renamed, list(others.values()))
    return f"SELECT {listed([f'{other} AS {quoted(one)}' for one, other in others.items()])} FROM ({found})"
