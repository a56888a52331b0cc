"""Tables of the catalog that care looks after though no stream feeds them: `care.also` in firn.yaml.

    care:
      also: [reports.*, shop.by_day]

Without it none is touched. A namespace is written out, so that nobody's tables are named by mistake.
"""

from dataclasses import dataclass

from firn.config.names import TableName, is_reserved, starred


@dataclass(frozen=True)
class UnfedTables:
    """Names of tables, and patterns: `*` in a table's name is any text. None: no table is anybody's but its owner's."""

    patterns: tuple[str, ...] = ()

    def names(self, table: TableName) -> bool:
        """Whether a table is named. One that is called as Firn's own tables are never is."""
        return not is_reserved(table.table) and any(_matches(pattern, table) for pattern in self.patterns)


def is_pattern(table: TableName) -> bool:
    """Whether a name stands for several tables."""
    return "*" in table.table


def _matches(pattern: str, table: TableName) -> bool:
    namespace, _, name = pattern.partition(".")
    return namespace == table.namespace and starred(name).fullmatch(table.table) is not None
