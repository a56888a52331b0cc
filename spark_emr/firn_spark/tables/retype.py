"""Another type for a column that Iceberg can't promote to it: its values are rewritten (docs/adr/0013-retype.md).

A source that alters a column, or a stream without schema whose later values need a wider type, must give the same table
however its changes are split. Readers see the old column until the last step, which swaps the names in one commit; each
step can be done again.

Another committer, that knows nothing of it, may land in between: rows that come after the UPDATE have nothing in the
new column. So the swap stands on the snapshot that the UPDATE made, or the UPDATE is done again; and whoever planned
before the swap is refused after it (tables.alterations).
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.changes.decode.iceberg_fields import column_of
from firn.changes.decode.texts import Change, changes_form, retyped
from firn.changes.decode.types import Column, Type, storable
from firn.changes.metadata_columns import HELD
from firn.config.names import RETYPED, quoted
from firn.errors import TerminalError
from firn.tables.table_state import HELD_IDS
from firn.tables.type_changes import TypeChange, summary
from firn_spark.tables import fence
from firn_spark.tables.alterations import altered
from firn_spark.tables.columns import iceberg_type, spark_type
from firn_spark.tables.evolve import Table, Tables, set_all
from firn_spark.tables.writing import FANOUT, own_order

Rewrite = Callable[[SparkSession, Table, Sequence[tuple[Column, Type]], Mapping[int, int], str], None]
"""Writes the values of columns (in the new type, and what that was) into those that are to be (RETYPED), in a snapshot
whose summary has this name; and the keys of HELD as they are to be."""

_EPOCH: Final = datetime(1970, 1, 1)
_SAYS = "spark.sql.iceberg.snapshot-property"  # of a session: what the summaries of Spark's own commits say
_UPDATES = 5


def retype(spark: SparkSession, tables: Tables, table: Table, columns: Sequence[Column], rewrite: Rewrite) -> Table:
    """The table with these columns in their new types. `rewrite`: of a table that Spark does not open.

    Raises fence.LostRace, fence.CommitUnknown, or what Iceberg raises if another writer comes between.
    """
    there = {field["name"]: field for field in table.state.fields}
    columns = [column for column in columns if column.name in there]
    if not columns:
        return table
    if table.branch is not None:  # main has the same columns, and would lose their values
        names = ", ".join(column.name for column in columns)
        raise TerminalError(f"{names} would need another type, and a rebuild in place keeps types: use --into NAME")
    old_types = {column.name: storable(column.type) for column in table.columns()[0]}
    new = [column for column in columns if column.name + RETYPED not in there]
    if new:
        update = table.java.updateSchema()
        for column in new:
            update = update.addColumn(None, column.name + RETYPED, iceberg_type(spark, column.type))
        update.commit()
        table = fence.unmoved(table, tables.look_again(table))
    ids = {field["name"]: int(field["id"]) for field in table.state.fields}
    moved = {ids[column.name]: ids[column.name + RETYPED] for column in columns}
    if table.unreadable:
        both_types = [(column, old_types[column.name]) for column in columns]
        if table.state.snapshot_id is not None:
            table = _updated(tables, table, lambda now, name: rewrite(spark, now, both_types, moved, name))
        return _swapped(spark, tables, table, columns, moved, old_types)
    values = [converted(spark, quoted(column.name), old_types[column.name], column.type) for column in columns]
    sets = [f"{quoted(column.name + RETYPED)} = {value}" for column, value in zip(columns, values, strict=True)]
    if HELD in ids:
        renamed = " ".join(f"WHEN {old} THEN {to}" for old, to in moved.items())
        sets.append(f"{HELD} = transform_keys({HELD}, (k, v) -> CASE k {renamed} ELSE k END)")
    if table.state.snapshot_id is not None:
        # The UPDATE writes all partitions: see writing. Left as it is where Iceberg's sort would not do.
        sort = {} if own_order(table) else {FANOUT: "false"}
        table = fence.unmoved(table, tables.set_properties(table, sort))
        table = _updated(tables, table, lambda now, name: _update(spark, now, sets, name))
    return _swapped(spark, tables, table, columns, moved, old_types)


def _swapped(
    spark: SparkSession,
    tables: Tables,
    table: Table,
    columns: Sequence[Column],
    moved: Mapping[int, int],
    old_types: Mapping[str, Type],
) -> Table:
    """The table whose new columns are called as the old ones were, which go."""
    both = table.java.newTransaction()
    update = both.updateSchema()
    for column in columns:
        update = update.deleteColumn(column.name)
        update = update.renameColumn(column.name + RETYPED, column.name)
    update.commit()
    held = [int(text) for text in table.state.properties.get(HELD_IDS, "").split(",") if text]
    if set(held) & set(moved):
        set_all(both.updateProperties(), {HELD_IDS: ",".join(str(moved.get(one, one)) for one in held)})
    told = [TypeChange(one.name, str(old_types[one.name]), str(storable(one.type))) for one in columns]
    return altered(spark, tables, table, both, summary(told))


def _update(spark: SparkSession, table: Table, sets: Sequence[str], name: str) -> None:
    spark.conf.set(f"{_SAYS}.{name}", "true")
    try:
        # Names are quoted, types are ours.
        spark.sql(f"UPDATE {table.sql} SET {', '.join(sets)}")  # noqa: S608
    finally:
        spark.conf.unset(f"{_SAYS}.{name}")


def _updated(tables: Tables, table: Table, update: Callable[[Table, str], None]) -> Table:
    """The table whose newest snapshot is an update of all its rows. Raises fence.LostRace where it never is."""
    for _ in range(_UPDATES):
        name = f"firn.update.{uuid.uuid4().hex}"  # other tables are updated in this session meanwhile
        update(table, name)
        table = fence.unmoved(table, tables.look_again(table))
        if name in table.state.ancestry[0]:
            return table
    raise fence.LostRace(f"{table.name} was committed to after each of {_UPDATES} updates of its rows")


def finish(spark: SparkSession, tables: Tables, table: Table, rewrite: Rewrite) -> Table:
    """The table without what a job that died left half-way: its columns get the types that were begun, and from there
    another one if they need it. Raises as `retype`."""
    fields = {field["name"]: field for field in table.state.fields}
    begun = {name.removesuffix(RETYPED): column_of(field) for name, field in fields.items() if name.endswith(RETYPED)}
    columns = [Column(name, half.type) for name, half in begun.items() if half is not None and name in fields]
    return table if table.branch is not None else retype(spark, tables, table, columns, rewrite)


def converted(spark: SparkSession, value: str, old: Type, new: Type) -> str:
    """SQL that turns `value` of type `old` into `new`: what becomes text, in the core's own words (changes.texts)."""
    if old == new:
        return value
    if old.fields and new.fields:
        before = dict(old.fields)
        parts = (
            f"{_literal(name)}, {converted(spark, f'{value}.{quoted(name)}', before[name], part)}"
            if name in before
            else f"{_literal(name)}, CAST(NULL AS {_sql_type(part)})"
            for name, part in new.fields
        )
        return f"CASE WHEN {value} IS NOT NULL THEN named_struct({', '.join(parts)}) END"
    if old.element is not None and new.element is not None and (old.holds("struct") or new.holds("map")):
        if changes_form(old, new):  # Spark runs no function of ours within a list
            raise TerminalError(f"a list of {old.element} can't become one of {new.element}: set the schema back")
        return f"transform({value}, x -> {converted(spark, 'x', old.element, new.element)})"
    if old.entry is not None and new.entry is not None:
        if changes_form(old, new):
            raise TerminalError(f"{old} can't become {new}: set the schema back")
        return f"transform_values({value}, (k, x) -> {converted(spark, 'x', old.entry[1], new.entry[1])})"
    if changes_form(old, new):
        return f"{_registered(spark, old, new)}({_passed(value, old)})"
    if old.element is not None and new.element is not None:
        return f"transform({value}, x -> {converted(spark, 'x', old.element, new.element)})"
    if new.name == "decimal":
        return f"CAST({value} AS DECIMAL({new.precision},{new.scale}))"
    return f"CAST({value} AS {new.name.upper()})"


def _literal(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _sql_type(kind: Type) -> str:
    """The type in Spark's SQL, whatever the parts of a struct are called."""
    if kind.element is not None:
        return f"array<{_sql_type(kind.element)}>"
    if kind.entry is not None:
        return f"map<{', '.join(map(_sql_type, kind.entry))}>"
    if kind.fields:
        return f"struct<{', '.join(f'{quoted(name)}: {_sql_type(part)}' for name, part in kind.fields)}>"
    return str(spark_type(kind).simpleString())


def _registered(spark: SparkSession, old: Type, new: Type) -> str:
    """The name of the SQL function that does it. Registered again it is the same."""
    name = "firn_" + re.sub(r"\W+", "_", f"{old} to {new}")

    def convert(value: Any) -> Any:
        return None if value is None else _change(old, new)(_stored(value, old))

    spark.udf.register(name, convert, _ddl(new))
    return name


@lru_cache
def _change(old: Type, new: Type) -> Change:
    return retyped(old, new)  # made by the worker: it can't be sent to it


def _ddl(kind: Type) -> str:
    return kind.name if kind.element is None else f"array<{_ddl(kind.element)}>"


def _passed(value: str, kind: Type) -> str:
    """SQL for the value as Python gets it whole: to a timestamp with zone it would apply the machine's own zone, and a
    map comes as its entries, since Spark's bytes are no key of Python's."""
    if not (kind.holds("timestamptz") or kind.holds("map")):
        return value
    if kind.element is not None:
        return f"transform({value}, x -> {_passed('x', kind.element)})"
    if kind.entry is not None:
        key, item = (_passed(f"x.{name}", part) for name, part in zip(("key", "value"), kind.entry, strict=True))
        return f"transform(map_entries({value}), x -> struct({key} AS key, {item} AS value))"
    if kind.fields:
        parts = (f"{_literal(name)}, {_passed(f'{value}.{quoted(name)}', part)}" for name, part in kind.fields)
        return f"CASE WHEN {value} IS NOT NULL THEN named_struct({', '.join(parts)}) END"
    return f"unix_micros({value})"


def _stored(value: Any, kind: Type) -> Any:
    """A value as Spark gives it to Python (`_passed`), as the codec has it."""
    if value is None:
        return None
    if kind.element is not None:
        return [_stored(item, kind.element) for item in value]
    if kind.entry is not None:
        return [tuple(map(_stored, entry, kind.entry)) for entry in value]
    if kind.fields:
        return {name: _stored(value[name], part) for name, part in kind.fields}
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    return value.toordinal() - _EPOCH.toordinal() if isinstance(value, date) else value
