"""How the rows of a view lie in its table: the columns that people see, those that the next refresh needs, and who each
row is (`_firn_id`)."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from firn.changes.decode.types import Column
from firn.changes.metadata_columns import IDENTITY, STATE
from firn.errors import TerminalError
from firn_sql.output_columns import column_kind
from firn_sql.output_types import NoColumnType, column_type, quoted
from firn_sql.transform import plain_type
from firn_sql.views.algebra import Filter, Plan, Project, Top, column
from firn_sql.views.no_rows import NoRows
from firn_sql.views.planner import SourceTable
from firn_sql.views.refresh import AFTER, Refresh

_WIDE: Final = frozenset({"hugeint", "uhugeint"})  # what sums of whole numbers are
_UNKNOWN: Final = frozenset({'"null"', "sqlnull", "null"})
_WHOLE: Final = ("INTEGER", "BIGINT")
_NESTED: Final = frozenset({"list", "array", "struct", "map", "union"})
_ID_BYTES: Final = 16


@dataclass(frozen=True)
class Stored:
    """The table of a view.

    columns  of it, without IDENTITY: what people see first
    names    plan column -> column of the table, which holds its values
    written  those of the plan's columns that the table's rows are written from
    kinds    plan column -> the type that the plan has it in, in DuckDB's words
    casts    plan column -> the type that the table has it in, the same
    ids      what tells rows apart: plan columns
    shape    of what the table holds for the next refresh: another one, and all of it is made again
    shown    of `ids` the first whole number that people see, as a column of the table beside it: rows often lie in its
             order, which they never do in that of `_firn_id`; None if there is none
    """

    columns: tuple[Column, ...]
    names: Mapping[str, str]
    written: tuple[str, ...]
    kinds: Mapping[str, str]
    casts: Mapping[str, str]
    ids: tuple[str, ...]
    shape: str
    shown: tuple[str, str] | None = None

    def rows(self, rows: str) -> str:
        """A SELECT of the table's rows, out of one of Plan.stored."""
        own = ((one, self.names[one]) for one in self.written)
        cells = [f"CAST({one} AS {self.casts[one]}) AS {quoted(name)}" for one, name in own]
        return f"SELECT {', '.join([*cells, f'{self.identity(self.ids)} AS {quoted(IDENTITY)}'])} FROM ({rows})"

    def held(self, rows: str, columns: Sequence[str]) -> str:
        """A SELECT of these columns of the plan, out of one of the table's rows."""
        cells = [f"CAST({quoted(self.names[one])} AS {self.kinds[one]}) AS {one}" for one in columns] or ["1"]
        return f"SELECT {', '.join(cells)} FROM ({rows})"

    def identity(self, values: tuple[str, ...]) -> str:
        """The expression of a row's `_firn_id`, out of columns that hold the values of `ids`: 16 bytes of the SHA-256
        of their texts, each with its length before it."""
        parts = [_text(value, self.kinds[one]) for one, value in zip(self.ids, values, strict=True)]
        return f"unhex(left(sha256({' || '.join(parts) or repr('')}), {2 * _ID_BYTES}))"


def stored(owner: str, plan: Plan, tables: Mapping[str, SourceTable], connection: duckdb.DuckDBPyConnection) -> Stored:
    """How the view `owner` is stored. Raises TerminalError for a column of a type that tables do not have, and where
    the query does not bind."""
    try:
        relation = connection.sql(Refresh(connection, plan, NoRows(connection, tables)).whole(AFTER))
    except duckdb.Error as error:
        raise TerminalError(f"view {owner}: {error}".partition("\n")[0]) from error
    kinds = {
        one: "VARCHAR" if kind.id.lower() in _UNKNOWN else str(kind)
        for one, kind in zip(relation.columns, relation.types, strict=True)
    }
    seen = dict(zip(plan.root.columns, plan.names, strict=True))
    hidden = [one for one in plan.stored if one not in seen] if plan.holds else []
    shown = _shown(plan)
    own = [one for one in hidden if one not in shown]
    names = seen | {one: f"{STATE}{i}" for i, one in enumerate(own)}
    by_name = dict(zip(relation.columns, relation.types, strict=True))
    casts = {}
    for one, name in names.items():
        try:
            wide = by_name[one].id.lower() in _WIDE
            casts[one] = "DECIMAL(38, 0)" if wide else column_type(by_name[one], name)
        except NoColumnType as error:
            if one in own and isinstance(plan.root, Top):
                continue  # what was is computed then: as all rows are, before and now
            raise TerminalError(f"view {owner}: {error}") from error
    names = {one: name for one, name in names.items() if one in casts}
    cells = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(names[one])}" for one, kind in casts.items())
    schema = connection.sql(f"SELECT {cells}").to_arrow_table().schema
    columns = tuple(
        Column(field.name, column_kind(f"view {owner}", field.name, plain_type(field.type))) for field in schema
    )
    ids = plan.root.ids
    group = plan.group
    said = [[names[one], casts[one]] for one in names]
    written = tuple(names)
    names |= {one: seen[shown[one]] for one in hidden if one in shown}
    held = [] if group is None else [one.said for one in (*group.keys, *group.aggregates)]
    shape = hashlib.sha256(json.dumps([said, held, [kinds[one] for one in ids], plan.sums]).encode()).hexdigest()
    seen_ids = ((one, shown[one]) for one in ids if kinds[one] == casts.get(shown.get(one, "")) in _WHOLE)
    first = next(((one, names[by]) for one, by in seen_ids), None)
    return Stored(columns, names, written, kinds, casts, ids, shape, first)


def _shown(plan: Plan) -> Mapping[str, str]:
    """Columns of the groups of a view, or of first rows, that people see as they are, with the plan's column for it."""
    values, one = {name: column(name) for name in plan.root.columns}, plan.root
    while isinstance(one, Project | Filter | Top):
        if isinstance(one, Project):
            below = dict(zip(one.columns, one.values, strict=True))
            values = {name: value.over(below) for name, value in values.items()}
        one = one.input
    return {value.column: name for name, value in values.items() if value.column is not None}


def _text(value: str, kind: str) -> str:
    """A text of a value that no other value of its type has, and that equal ones have all, with its length before
    it."""
    word = kind.lower().partition("(")[0]
    nested = word.endswith("]") or word in _NESTED
    plain = _plain(value, duckdb.type(kind))
    text = f"hex({value})" if word == "blob" else f"CAST({f'to_json({plain})' if nested else plain} AS VARCHAR)"
    return f"CASE WHEN {value} IS NULL THEN 'n' ELSE strlen({text}) || ':' || {text} END"


def _plain(value: str, kind: Any, depth: int = 0) -> str:
    """A value as one of those that it equals: there are two zeros, several values that are not a number, and several
    ways to say a length of time. Texts of JSON are equal only where they are written alike, which to_json does not
    see."""
    word, inner = kind.id, f"e{depth}"
    if word in ("float", "double"):
        return f"CASE WHEN isnan({value}) THEN CAST('nan' AS {kind}) WHEN {value} = 0 THEN 0 ELSE {value} END"
    if word == "interval":
        return f"normalized_interval({value})"
    if str(kind) == "JSON":
        return f"CAST({value} AS VARCHAR)"
    if word not in ("list", "array", "struct", "map"):
        return value
    parts = [(name, part) for name, part in kind.children if name != "size"] if word != "struct" else kind.children
    if word in ("list", "array"):
        found = _plain(inner, parts[0][1], depth + 1)
        return value if found == inner else f"list_transform({value}, lambda {inner}: {found})"
    rows = value if word == "struct" else inner
    names = [(f"{rows}[{_word(name)}]", name, part) for name, part in parts]
    cells = [(one, _plain(one, part, depth + 1), name) for one, name, part in names]
    if all(one == made for one, made, _ in cells):
        return value
    packed = f"{{{', '.join(f'{_word(name)}: {made}' for _, made, name in cells)}}}"
    if word == "struct":
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE {packed} END"
    return f"list_transform(map_entries({value}), lambda {inner}: {packed})"


def _word(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
