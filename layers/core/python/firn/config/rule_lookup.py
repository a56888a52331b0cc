"""Which rule takes a source table, by its name as firn.yaml writes it and as events bring it. Pure."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from firn.config.names import starred
from firn.errors import EventError

if TYPE_CHECKING:
    from firn.config.model import TableRule


class SourceNames:
    """Source tables that are named one by one."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._bare: dict[str, list[str]] = {}
        for name in sorted(self._names):
            _, dot, bare = name.partition(".")
            if dot:
                self._bare.setdefault(bare, []).append(name)

    def find(self, table: str) -> str | None:
        """The one of these names that a source table has; None if it is none of them.

        A `table` without schema, as flattened events name it, is compared with the part after each name's first dot.
        Raises EventError("ambiguous_table") if that fits names of several schemas: to guess would mix tables.
        """
        if table in self._names:
            return table
        same = self._bare.get(table, ()) if "." not in table else ()
        if len(same) > 1:
            raise EventError(
                "ambiguous_table",
                f"the event says table {table!r} without its schema, which fits {', '.join(same)}; "
                "have the source send the schema (Debezium: transforms.unwrap.add.fields=op,lsn,schema,table)",
            )
        return same[0] if same else None


class RuleLookup:
    """The rules of one stream."""

    def __init__(self, rules: "Iterable[TableRule]") -> None:
        rules = tuple(rules)
        self._exact = {rule.source: rule for rule in rules if not rule.is_pattern}
        self._names = SourceNames(self._exact)
        patterns = sorted((r for r in rules if r.is_pattern), key=lambda r: -len(r.source.replace("*", "")))
        self._patterns = [(_Matches(rule.source), rule) for rule in patterns]

    def find(self, table: str) -> "TableRule | None":
        """The rule for a source table, one that says `ignore: true` included.

        An exact rule wins; then the pattern with the most literal characters (the first in the file among equals).
        Raises EventError("ambiguous_table") as SourceNames.find.
        """
        name = self._names.find(table)
        if name is not None:
            return self._exact[name]
        return next((rule for pattern, rule in self._patterns if pattern(table)), None)


class _Matches:
    """A pattern in which `*` stands for any run of characters, dots included."""

    def __init__(self, pattern: str) -> None:
        self._whole = starred(pattern)
        self._bare = starred(pattern.partition(".")[2] or pattern)

    def __call__(self, table: str) -> bool:
        return (self._whole if "." in table else self._bare).fullmatch(table) is not None
