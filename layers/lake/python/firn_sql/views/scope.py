"""What names mean within a SELECT of a view: columns of what stands in FROM, and aliases of the SELECT itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from firn_sql.parse_tree import Node, Text, offset
from firn_sql.views.algebra import GUESSED, Expression, column_node, replaced

_EXTRACT: Final[Node] = {
    "class": "FUNCTION", "type": "FUNCTION", "alias": "", "function_name": "struct_extract", "schema": "",
    "filter": None, "order_bys": {"type": "ORDER_MODIFIER", "orders": []}, "distinct": False, "is_operator": False,
    "export_state": False, "catalog": "", "qualified_name": {"path": ["struct_extract"]},
}  # fmt: skip


class Perhaps(str):
    """The name of a column that may be there or not: of a table whose columns are not all known (SourceTable.open)."""


class Undecided(Exception):
    """Whether a query is refused depends on columns that are not known here."""


@dataclass(frozen=True)
class Item:
    """A column that a name may mean. table: what stands before the dot, "" for one that USING made of two."""

    table: str
    name: str
    value: Expression
    hidden: bool = False  # not part of `*`

    @property
    def is_sure(self) -> bool:
        """Whether it is there."""
        return not isinstance(self.name, Perhaps)

    @property
    def guessed(self) -> Expression:
        """Its value, perhaps another one's."""
        return self.value if self.is_sure else Expression({**self.value.node, GUESSED: True})


@dataclass(frozen=True)
class Scope:
    """The columns of what stands in FROM, in the order of `*`; `aliases`: of the SELECT, in lower case."""

    text: Text
    items: tuple[Item, ...]
    outer: "Scope | None" = None
    aliases: Mapping[str, Expression] = field(default_factory=dict)

    def with_aliases(self, names: Sequence[str], values: Sequence[Expression]) -> "Scope":
        """It with the names that the SELECT gives its columns."""
        pairs = zip(names, values, strict=True)
        return replace(self, aliases={name.lower(): one for name, one in pairs if not isinstance(name, Perhaps)})

    def resolved(self, node: Node, *, alias_first: bool = False) -> Expression:
        """An expression with the plan's columns in place of names. Raises SqlRefused."""

        def named(one: Node) -> Node | None:
            return self._column(one, alias_first).node if one.get("class") == "COLUMN_REF" else None

        return Expression(replaced(node, named))

    def is_outer(self, node: Node) -> bool:
        """Whether this reference to a column is to one of the query around this one."""
        return self._found(node["column_names"]) is None and self.outer is not None

    def star(self, node: Node) -> list[tuple[str, Expression]]:
        """What `*` gives: names and values. Raises SqlRefused."""
        table = node.get("relation_name", "").lower()
        here = [one for one in self.items if (one.table.lower() == table if table else not one.hidden)]
        if not here:
            raise self.text.refuse(offset(node, 0), f"there is no {table or 'table'} in FROM", "write what FROM names")
        names = {one.name.lower() for one in here}
        left_out = {one.lower() for one in node.get("exclude_list", ())}
        values = {one["key"].lower(): one["value"] for one in node.get("replace_list", ())}
        renamed = {one["key"]["column"].lower(): one["value"] for one in node.get("rename_list", ())}
        for one in (*left_out, *values, *renamed):
            if one not in names:
                raise self.text.refuse(offset(node, 0), f"* has no column {one[:60]!r}", "write one that FROM has")
        return [
            (renamed.get(one.name.lower(), one.name),
             self.resolved(values[one.name.lower()]) if one.name.lower() in values else one.guessed)
            for one in here if one.name.lower() not in left_out
        ]  # fmt: skip

    def _column(self, node: Node, alias_first: bool) -> Expression:
        path = node["column_names"]
        alias = self.aliases.get(path[0].lower()) if len(path) == 1 else None
        if alias_first and alias is not None:
            return alias
        found = self._found(path, node)
        if found is not None and (alias is None or found[1]):
            if alias is not None and alias.said != found[0].said:
                raise self.text.refuse(
                    offset(node, 0), f"{path[0][:60]!r} is a column of FROM and an AS of this SELECT",
                    "write table.column, or call the other one otherwise",
                )  # fmt: skip
            return found[0]
        if alias is not None:
            return alias
        if self.outer is not None:
            return self.outer._column(node, False)
        raise self.text.refuse(
            offset(node, 0), f"there is no column {'.'.join(path)[:60]!r} in FROM", "write one that a table of it has"
        )

    def _found(self, path: Sequence[str], node: Node | None = None) -> tuple[Expression, bool] | None:
        """A column, and whether it is surely there."""
        low = [one.lower() for one in path]
        for depth in range(len(low) - 1, -1, -1):
            table, name = ".".join(low[:depth]), low[depth]
            here = [
                one for one in self.items
                if one.name.lower() == name and (one.table.lower() == table if depth else not one.hidden)
            ]  # fmt: skip
            sure = [one for one in here if one.is_sure]
            if here and not sure:
                many = len(here) > 1 or (self.outer is not None and not depth)
                return _within(here[0].guessed if many else here[0].value, path[depth + 1 :]), False
            here = sure
            if len(here) > 1:
                where = " and ".join(dict.fromkeys(one.table for one in here))
                raise self.text.refuse(
                    offset(node or {}, 0), f"{path[depth][:60]!r} is a column of {where[:100]}", "write table.column"
                )
            if here:
                return _within(here[0].value, path[depth + 1 :]), True
        return None


def _within(value: Expression, fields: Sequence[str]) -> Expression:
    """A field of a struct."""
    for one in fields:
        text = {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "literal": {"kind": "STRING", "text": one}}
        arguments = [{"name": "", "expression": value.node}, {"name": "", "expression": text}]
        value = Expression({**_EXTRACT, "arguments": arguments})
    return value


def of_columns(table: str, names: Sequence[str], columns: Sequence[str]) -> tuple[Item, ...]:
    """The items of a table: what it calls its columns, and what the plan does."""
    return tuple(Item(table, name, Expression(column_node(one))) for name, one in zip(names, columns, strict=True))
