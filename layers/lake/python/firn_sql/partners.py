"""The rows that a pipeline's rows are joined with: looked up by the values at hand, and numbered in an order that
follows from their values alone, so that whichever process joins an event gives it the same rows with the same numbers.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import duckdb
import pyarrow as pa

from firn.config.sql_text import SqlRefused
from firn_sql.isolation import TooLarge, isolate
from firn_sql.joins import Join, Key, conditions
from firn_sql.output_types import quoted
from firn_sql.parse_tree import Node, Text, all_nodes, parse, written

TABLE: Final = "_firn_join_{}"
PARTNER: Final = "_firn_partner_{}"
"""The column with the number of the row of a joined table, null where there is none."""
_FOUND: Final = "_firn_found"
_VALUE: Final = "_firn_value"


class Lookup(Protocol):
    """Whoever has the joined tables."""

    def __call__(self, place: int, columns: Sequence[str], keys: pa.Table, most: int) -> pa.Table:
        """These columns of all rows of the table of the join `place` whose values are among those of `keys`, a column
        for each of the join's, without nulls. Rows of other combinations may be among them. Raises TooLarge where these
        are more than `most` bytes."""
        ...


class Remembered:
    """A Lookup that is not asked again for a value of which there is too much: what is too much of one value is too
    much of any that it is among."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._too_much: dict[tuple[Any, ...], tuple[int, str]] = {}  # how much it is more than, by place and value

    def __call__(self, place: int, columns: Sequence[str], keys: pa.Table, most: int) -> pa.Table:
        """As Lookup says."""
        for one in _each(keys) if self._too_much else ():
            known, why = self._too_much.get((place, *one), (-1, ""))
            if most <= known:
                raise TooLarge(why)
        try:
            return self._lookup(place, columns, keys, most)
        except TooLarge as error:
            if len(keys) == 1:
                self._too_much[(place, *next(_each(keys)))] = most, str(error)
            raise


class Partners:
    """The joined tables of one SQL, as tables of its connection."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, text: Text, joins: Sequence[Join], schemas: Mapping[str, pa.Schema]
    ) -> None:
        """`schemas`: of the tables, by their names. Raises SqlRefused for a column that its table does not have."""
        self._connection = connection
        self._text = text
        self._joins = joins
        self._columns = [_columns(one, schemas[one.table], text) for one in joins]
        self._keys: list[str] = []
        self.hidden = [PARTNER.format(place) for place in range(len(joins))]
        self.forget()

    def bind(self, tree: Node) -> None:
        """`tree`: of the SELECT, as it runs; values of two types are compared by what they are in it from now on: a
        type that holds all of both there may not be. Raises SqlRefused where they can't be compared."""
        nodes = []
        node = tree["from_table"]
        while node["type"] == "JOIN":
            nodes.append(node)
            node = node["left"]
        for place, (one, join) in enumerate(zip(self._joins, reversed(nodes), strict=True)):
            select = copy.deepcopy({**tree, "select_list": [], "from_table": join["left"], "where_clause": None})
            select["select_list"] = [copy.deepcopy(key.left) | {"alias": f"w{i}"} for i, key in enumerate(one.keys)]
            inner = written(select)
            kinds = self._kinds(place, one, inner)
            told = [_in_kind(f"w{i}", *kinds[i]) for i in range(len(kinds))]
            named = ", ".join(f"{value} AS w{i}" for i, value in enumerate(told))
            there = " AND ".join(f"w{i} IS NOT NULL" for i in range(len(told)))
            self._keys.append(f"SELECT DISTINCT * FROM (SELECT {named} FROM ({inner})) WHERE {there}")  # noqa: S608 (names are quoted)
            for key, equal, kind in zip(one.keys, conditions(join["condition"]), kinds, strict=True):
                side = "left" if equal["left"]["column_names"] == key.left["column_names"] else "right"
                equal[side] = _value_in_kind(key.left, *kind)

    def _kinds(self, place: int, one: Join, inner: str) -> list[tuple[str, str]]:
        """DuckDB's types of the values on the left and of the table's columns, by key."""
        right = self._connection.sql(f"SELECT {_listed(key.column for key in one.keys)} FROM {TABLE.format(place)}")  # noqa: S608
        left = self._connection.sql(inner)
        mine, theirs = (some.to_arrow_table().schema.types for some in (left, right))
        for i, key in enumerate(one.keys):
            if not _comparable(mine[i], theirs[i]):
                raise self._refuse_types(key, one, theirs[i], str(left.types[i]), str(right.types[i]))
        own = [str(right.types[i] if pa.types.is_null(kind) else left.types[i]) for i, kind in enumerate(mine)]
        return list(zip(own, map(str, right.types), strict=True))

    def _refuse_types(self, key: Key, one: Join, kind: pa.DataType, mine: str, theirs: str) -> SqlRefused:
        column = key.left["column_names"][-1]
        why = f"{'.'.join(key.left['column_names'])} is {mine}, and {one.alias}.{key.column} is {theirs}"
        if not _looked_up_by(kind):
            return self._text.refuse(key.at, f"{why}: rows are not looked up by such values", "join by another column")
        cast = f"TRY_CAST({column} AS {theirs}) AS its_{column}"
        return self._text.refuse(key.at, why, f"write a SELECT in place of the source, which gives {cast}")

    def find(self, source: str, rows: pa.Table, lookup: Lookup, most: int) -> None:
        """Makes the tables those of what these rows touch. Raises what `lookup` raises."""
        for place, columns in enumerate(self._columns):
            keys = self._values(place, source, rows)
            found = lookup(place, columns.names, keys, most) if len(keys) else columns.empty_table()
            self._connection.register(_FOUND, found.select(columns.names).cast(columns))
            sorted_rows = self._connection.sql(f"SELECT * FROM {_FOUND} ORDER BY ALL").to_arrow_table()  # noqa: S608
            self._connection.unregister(_FOUND)
            del found
            self._register(place, sorted_rows)

    def forget(self) -> None:
        """Lets go of the rows that were found."""
        for place, columns in enumerate(self._columns):
            self._register(place, columns.empty_table())

    def _values(self, place: int, source: str, rows: pa.Table) -> pa.Table:
        def attempt(some: pa.Table) -> pa.Table:
            self._connection.register(source, some)
            return self._connection.sql(self._keys[place]).to_arrow_table()

        try:
            parts = [attempt(rows)]
        except duckdb.Error as error:  # a cast that fails on the left: the SQL itself finds these rows again
            parts, _ = isolate(rows, attempt, error)
        found = pa.concat_tables(parts) if parts else attempt(rows.slice(0, 0))
        return found.rename_columns([key.column for key in self._joins[place].keys])

    def _register(self, place: int, rows: pa.Table) -> None:
        numbered = rows.append_column(PARTNER.format(place), pa.arange(0, len(rows)))
        self._connection.register(TABLE.format(place), numbered)


def _in_kind(value: str, own: str, kind: str) -> str:
    """A value of the type `own` in another type, null where that does not have it."""
    if own == kind:
        return value
    cast = f"TRY_CAST({value} AS {kind})"
    return f"CASE WHEN TRY_CAST({cast} AS {own}) = {value} THEN {cast} END"


def _value_in_kind(column: Node, own: str, kind: str) -> Node:
    """The same of a column."""
    found: Node = parse(f"SELECT {_in_kind(_VALUE, own, kind)}")["select_list"][0]
    for node, _ in list(all_nodes(found)):
        if node.get("column_names") == [_VALUE]:
            node.clear()
            node.update(copy.deepcopy(column))
    return found


def _columns(join: Join, schema: pa.Schema, text: Text) -> pa.Schema:
    by = {field.name.lower(): field for field in reversed(schema)}
    found = []
    for name, at in join.columns:
        if name.lower() not in by:
            few = ", ".join(field.name for field in schema)[:200]
            raise text.refuse(at, f"{join.table} has no column {name[:60]!r}", f"write one that it has: {few}")
        found.append(by[name.lower()])
    return pa.schema(found)


def _each(keys: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(_comparable_values(column) for column in keys.columns), strict=True)


def _comparable_values(column: pa.ChunkedArray) -> list[Any]:
    """Days and moments as numbers: Python has none of the year 10000, and no nanoseconds."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def _looked_up_by(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind))


def _comparable(value: pa.DataType, kind: pa.DataType) -> bool:
    """Whether whatever in a column of this kind equals such a value is that value, cast to the kind."""
    if not _looked_up_by(kind):
        return False
    if pa.types.is_null(value) or value == kind:
        return True
    return all(pa.types.is_integer(one) or pa.types.is_decimal(one) for one in (value, kind))
