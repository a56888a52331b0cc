"""Runs the SQL of a pipeline on Arrow rows, so that each output row knows the row that it is of.

A hidden column with the number of its row goes through every SELECT of DuckDB's parse tree, and so does the time of
acceptance where the SQL asks for now(). One thread and no moved conditions: what a row gives depends on the row alone.
"""

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from firn.config.names import is_left_out
from firn.config.sql_text import SqlRefused
from firn_sql.check import HIDDEN, IS_NOW, Checked
from firn_sql.failing_rows import WHICH, question
from firn_sql.isolation import TooLarge, by_halves, isolate, reason
from firn_sql.output_types import NoColumnType, column_type, quoted
from firn_sql.parse_tree import Node, all_nodes, offset, written
from firn_sql.partners import TABLE, Lookup, Partners, Remembered
from firn_sql.result_batches import batches_of

NOW: Final = "_firn_now"
"""The column of `rows` that now() reads: timestamp[us, UTC]."""
ROW: Final = "_firn_row"
MOST_OF_ONE: Final = 128_000_000  # bytes that a row may give, and that it may be joined with of one table
MOST_TOGETHER: Final = 32_000_000  # the same of several rows, or twice their own: what is more is run by halves
BYTES_OF_A_ROW: Final = 128  # that a row counts for at least: who it is stands beside it
_SOURCE: Final = "_firn_source"
_UNKNOWN: Final = frozenset({'"null"', "sqlnull", "null"})  # DuckDB's words for a type of which nothing is known
_BATCH: Final = 65_536
_FEWEST_ASKED: Final = 4  # rows: fewer are quicker tried
_SHOWN: Final = 20  # rows of a batch whose own reason is looked up, by expression: that takes milliseconds each
# Conditions run as they are written: moved or reordered, a cast would fail for rows that another condition keeps out.
NOT_OPTIMIZED: Final = "filter_pushdown,expression_rewriter,reorder_filter,statistics_propagation"


@dataclass(frozen=True)
class Result:
    """What rows became.

    rows    Transform.schema, in the order of the input
    origin  int64: of each of them the place of its input row, never falling
    number  int32: its place among the rows of that input row, from 0
    failed  place of an input row -> why it gives no rows: a cast, an overflow, too many rows
    """

    rows: pa.Table
    origin: pa.Array
    number: pa.Array
    failed: dict[int, str]


class Transform:
    """Checked SQL, bound to the columns of its source; to be made once, and run for each batch.

    `schema` is that of its output; `unknown` are the columns of it that hold nothing but nulls of no known type
    (pa.null() in the source). A caller from several threads waits for its turn.
    """

    def __init__(
        self,
        checked: Checked,
        columns: pa.Schema,
        memory: int = 1_000_000_000,
        joined: Mapping[str, pa.Schema] = MappingProxyType({}),
    ) -> None:
        """columns  those of the source, in the order of `*`; names that begin with _firn_ are not seen by the SQL
        memory   bytes that DuckDB may take
        joined   the columns of the tables that it joins, by their names

        Raises SqlRefused if the SQL does not bind to these columns, or gives what no table can have.
        """
        self._checked = checked
        self._turn = threading.Lock()
        self._most = self._left = 0  # bytes that a try may give, and of these those that it has not given yet
        self._columns = _visible(checked, columns)
        self._connection = _connected(memory)
        self._connection.register(_SOURCE, self._input(columns.empty_table(), pa.arange(0, 0)))
        self.unknown: frozenset[str] = frozenset()
        self._partners = Partners(self._connection, checked.text, checked.joins, joined)
        tree = _rewritten(checked, self._partners.hidden)
        self._sql = self._bound(written(tree))
        if checked.joins:
            self._partners.bind(tree)
            self._sql = self._bound(written(tree))
        self._question = question(tree, ROW)
        self._nothing = self._connection.sql(self._sql).to_arrow_table()
        found = self._nothing.schema
        self.schema: pa.Schema = pa.schema(
            [pa.field(one.name, plain_type(one.type)) for one in found if one.name not in (ROW, *self._partners.hidden)]
        )

    @property
    def has_now(self) -> bool:
        """Whether it reads NOW."""
        return self._checked.now is not None

    def run(self, rows: pa.Table, lookup: Lookup | None = None) -> Result:
        """The rows that these give. `rows`: the columns of the source, in any order, and NOW if the SQL has now();
        `lookup`: has the tables that it joins.

        Deterministic, and the same for any split of the rows. Raises duckdb.Error where DuckDB itself is broken, and
        what `lookup` raises.
        """
        known = None if lookup is None else Remembered(lookup)
        parts = [(start, made) for start, _, made in by_halves(rows, lambda some: self.attempt(some, known))]
        if len(parts) == 1 and isinstance(parts[0][1], Result):
            return parts[0][1]
        good = [(start, made) for start, made in parts if isinstance(made, Result)]
        failed = {start: str(made) for start, made in parts if isinstance(made, TooLarge)}
        failed |= {start + place: why for start, made in good for place, why in made.failed.items()}
        return Result(
            pa.concat_tables([self.schema.empty_table(), *(made.rows for _, made in good)]),
            pa.concat_arrays([pa.array([], pa.int64()), *(pc.add(made.origin, start) for start, made in good)]),
            pa.concat_arrays([pa.array([], pa.int32()), *(made.number for _, made in good)]),
            failed,
        )

    def attempt(self, rows: pa.Table, lookup: Lookup | None = None, most: int | None = None) -> Result:
        """The same in one try, for a caller who tries halves. Raises TooLarge where the rows give more than `most`
        bytes and twice their own, or are joined with more of one table. None: what a process is to hold of so many."""
        if lookup is None and self._checked.joins:
            raise ValueError("the SQL joins tables, and nothing says who has them")
        most = most or (MOST_OF_ONE if len(rows) == 1 else MOST_TOGETHER)
        most = max(most, 2 * rows.nbytes, 2 * BYTES_OF_A_ROW * len(rows))
        with self._turn:
            table = self._input(rows, pa.arange(0, rows.num_rows))
            self._left = self._most = most
            try:
                if lookup is not None:
                    self._partners.find(_SOURCE, table, lookup, most)
                return self._result(*self._ran(table))
            finally:
                self._partners.forget()

    def _ran(self, table: pa.Table) -> tuple[list[pa.Table], dict[int, str]]:
        """What the rows give, and why others give nothing, by their places in the table."""
        try:
            return [self._attempt(table)], {}
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                raise
            return self._apart(table, error)

    def _apart(self, table: pa.Table, error: Exception) -> tuple[list[pa.Table], dict[int, str]]:
        """What the rows that can run give, and why the others can't: by DuckDB's own answer if that holds."""
        found = self._asked(table)
        if not found:
            return isolate(table, self._attempt, error)
        failed: dict[int, str] = {}
        shown: dict[str, int] = {}
        for place, which in found:
            if shown.setdefault(which, 0) < _SHOWN:
                try:
                    self._attempt(table.slice(place, 1))
                except duckdb.Error as own:
                    failed[place] = reason(own)
                else:
                    return isolate(table, self._attempt, error)
            else:
                failed[place] = f"{which} fails, as in {_SHOWN} rows before it in its batch"
            shown[which] += 1
        rest = pc.invert(pc.is_in(table[ROW], value_set=pa.array(list(failed), pa.int64())))
        remaining = table.filter(rest)
        try:
            return [self._attempt(remaining)], failed
        except duckdb.Error as again:
            good, more = isolate(remaining, self._attempt, again)
            places = remaining[ROW].to_pylist()
            return good, failed | {places[place]: why for place, why in more.items()}

    def _asked(self, table: pa.Table) -> list[tuple[int, str]]:
        """The rows that fail and what does in each, as far as DuckDB can tell; [] if it can't."""
        if self._question is None or table.num_rows < _FEWEST_ASKED:
            return []
        self._connection.register(_SOURCE, table)
        try:
            answer = self._connection.sql(self._question.sql).to_arrow_table()
        except duckdb.Error:
            return []
        bad = answer.filter(pc.greater_equal(answer[WHICH], 0))
        names = [self._question.names[which] for which in bad[WHICH].to_pylist()]
        return sorted(zip(bad[ROW].to_pylist(), names, strict=True))

    def _input(self, rows: pa.Table, places: pa.Array) -> pa.Table:
        arrays = [rows.column(name) for name in self._columns]
        names = [*self._columns]
        if self.has_now:
            kind = pa.timestamp("us", "UTC")
            has = NOW in rows.column_names
            if not has and rows.num_rows:
                raise ValueError(f"the SQL has now(), and the rows have no column {NOW}")
            arrays.append(rows.column(NOW).cast(kind) if has else pa.chunked_array([], kind))
            names.append(NOW)
        return pa.table([*arrays, places], [*names, ROW])

    def _bound(self, inner: str) -> str:
        """The SQL with each column in a type that tables have."""
        try:
            relation = self._connection.sql(inner)
            found = list(zip(relation.columns, relation.types, strict=True))
        except duckdb.Error as error:
            raise self._refuse(
                reason(error),
                "write what fits the columns of the source, or declare their types under columns: in its rule",
            ) from None
        hidden = (ROW, *self._partners.hidden)
        shown = [(name, kind) for name, kind in found if name not in (*hidden, NOW)]
        self._check_names([name for name, _ in shown])
        self.unknown = frozenset(name for name, kind in shown if kind.id.lower() in _UNKNOWN)
        try:
            columns = [f"CAST({quoted(name)} AS {column_type(kind, name)}) AS {quoted(name)}"
                       for name, kind in shown]  # fmt: skip
        except NoColumnType as error:
            raise self._refuse(error.reason, error.instead, error.column) from None
        return f"SELECT {', '.join([*columns, *map(quoted, hidden)])} FROM ({inner})"  # noqa: S608 (names are quoted)

    def _check_names(self, names: list[str]) -> None:
        if not names and self._columns:  # of a source that has none yet, `*` gives none
            raise self._refuse("it gives no columns", "write at least one")
        seen: dict[str, str] = {}
        for name in names:
            if name.lower() in seen:
                raise self._refuse(f"it gives two columns {seen[name.lower()]!r} and {name!r}", "write AS another name")
            seen[name.lower()] = name
            if not name.strip() or is_left_out(name):
                raise self._refuse(f"a column can't be called {name!r}", "write AS another name")

    def _refuse(self, why: str, instead: str, column: str = "") -> SqlRefused:
        """An error; at the expression of an output column if that is found by its name."""
        places = (offset(one, 0) for one in self._checked.tree["select_list"] if column and one.get("alias") == column)
        return self._checked.text.refuse(next(places, 0), why, instead)

    def _attempt(self, table: pa.Table) -> pa.Table:
        """What these rows give, with ROW. Raises duckdb.Error, TooLarge."""
        self._connection.register(_SOURCE, table)
        reader = self._connection.sql(self._sql).to_arrow_reader(_BATCH)
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        try:
            for batch in batches_of(reader):
                batches.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if max(size, rows * BYTES_OF_A_ROW) > self._left:
                    why = f"it gives more than {self._most // BYTES_OF_A_ROW:,} rows or {self._most:,} bytes"
                    raise TooLarge(why)
        finally:
            reader.close()  # else the connection takes no other query
        self._left -= max(size, rows * BYTES_OF_A_ROW)
        return pa.Table.from_batches(batches, reader.schema)

    def _result(self, parts: list[pa.Table], failed: dict[int, str]) -> Result:
        table = pa.concat_tables(parts) if parts else self._nothing
        if self._checked.joins:  # stable: what one row and its partners give keeps its order
            table = table.take(pc.sort_indices(table, [(one, "ascending") for one in (ROW, *self._partners.hidden)]))
        origin = table.column(ROW).combine_chunks() if table.num_rows else pa.array([], pa.int64())
        if len(origin) > 1 and not _is_sorted(origin):
            order = pc.sort_indices(origin)  # stable: the rows of one row keep their order
            table, origin = table.take(order), origin.take(order)
        rows = pa.table([table.column(field.name).cast(field.type) for field in self.schema], self.schema)
        return Result(rows, origin, _numbers(origin), failed)


def _connected(memory: int) -> duckdb.DuckDBPyConnection:
    settings: dict[str, Any] = {
        "threads": 1,
        "memory_limit": f"{max(memory, 100_000_000)}B",
        "enable_external_access": False,
        "python_enable_replacements": False,
        "preserve_insertion_order": True,
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
    }
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET disabled_optimizers = '{NOT_OPTIMIZED}'")
    connection.execute("SET lock_configuration = true")
    return connection


def _visible(checked: Checked, columns: pa.Schema) -> list[str]:
    """The columns that the SQL sees. Raises SqlRefused for one that differs from another by case alone, and is used."""
    names = [name for name in columns.names if not name.startswith(HIDDEN)]
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.lower(), []).append(name)
    doubled = {low: found for low, found in alike.items() if len(found) > 1}
    if doubled:
        others = {one.alias for one in checked.joins}
        for node, _ in all_nodes(checked.tree):
            parts = [part.lower() for part in node.get("column_names", ())]
            parts = [] if len(parts) > 1 and parts[0] in others else parts
            used = next((low for low in doubled if low in parts or node.get("class") == "STAR"), None)
            if used is not None:
                raise checked.text.refuse(
                    int(node.get("query_location", 0)),
                    f"the source has the columns {' and '.join(doubled[used])}, and SQL can't tell them apart",
                    "have the source call one otherwise, or leave both out",
                )
    return [name for name in names if name.lower() not in doubled]


def _rewritten(checked: Checked, partners: list[str]) -> Node:
    """`partners`: the columns that number the rows of joined tables."""
    tree = copy.deepcopy(checked.tree)
    node, place = tree["from_table"], len(checked.joins)
    while node["type"] == "JOIN":
        place -= 1
        _read_as(node["right"], TABLE.format(place))
        node = node["left"]
    hidden = [ROW, NOW] if checked.now is not None else [ROW]
    for node, _ in list(all_nodes(tree)):
        if node.get("type") == "SELECT_NODE":
            if not any(one["class"] == "STAR" for one in node["select_list"]):
                node["select_list"] += [_column(name) for name in hidden]
        elif node.get("type") == "BASE_TABLE":
            path = node["qualified_name"]["path"]
            if ".".join(path) == checked.source:
                _read_as(node, _SOURCE)
        elif node.get(IS_NOW):
            alias = node.get("alias", "")
            node.clear()
            node.update(_column(NOW), alias=alias)
    tree["select_list"] += [_column(name) for name in partners]
    return tree


def _read_as(node: Node, name: str) -> None:
    """Makes a table of the tree one of the connection, which the SQL goes on calling as it does."""
    alias = node.get("alias") or node["qualified_name"]["path"][-1]
    node.update(alias=alias, table_name=name, schema_name="", catalog_name="", qualified_name={"path": [name]})


def _column(name: str) -> Node:
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [name]}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """DuckDB's Arrow type as Firn's tables have it."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, plain_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", "UTC" if kind.tz else None)
    if pa.types.is_large_string(kind):
        return pa.string()
    return kind


def _is_sorted(values: pa.Array) -> bool:
    return bool(pc.all(pc.greater_equal(values.slice(1), values.slice(0, len(values) - 1))).as_py())


def _numbers(origin: pa.Array) -> pa.Array:
    """0, 1, … within each run of equal values."""
    if len(origin) == 0:
        return pa.array([], pa.int32())
    encoded = pc.run_end_encode(origin)
    if len(encoded.values) == len(origin):
        return pa.repeat(pa.scalar(0, pa.int32()), len(origin))
    starts = pa.concat_arrays([pa.array([0], pa.int32()), encoded.run_ends[:-1]])
    begins = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(encoded.run_ends, starts))
    return pc.subtract(pa.arange(0, len(origin)).cast(pa.int32()), begins)
