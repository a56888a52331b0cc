"""What a MySQL or MariaDB says of the tables that are to be read: columns, keys, sizes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from firn.backfill.mysql_cells import MysqlColumn
from firn.backfill.mysql_connection import Session
from firn.errors import ConfigError

_NAMED: Final = 10  # at most, in a text


@dataclass(frozen=True)
class MysqlTable:
    """`key`: the primary key, else a unique one without nulls, as the connector takes it; `rows`, `row_bytes`: by the
    server's estimate."""

    database: str
    name: str
    columns: tuple[MysqlColumn, ...]
    key: tuple[str, ...]
    rows: int
    row_bytes: int

    @property
    def source(self) -> str:
        """The name that the stream knows it by."""
        return f"{self.database}.{self.name}"


_TABLES: Final = """
SELECT table_schema, table_name, table_rows, avg_row_length FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
ORDER BY table_schema, table_name
"""
_COLUMNS: Final = """
SELECT column_name, column_type, is_nullable FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
# Parts of functional indexes have no column; a part of a column's text (sub_part) tells no rows apart.
_INDEXES: Final = """
SELECT s.index_name, s.column_name, c.is_nullable, s.sub_part FROM information_schema.statistics s
LEFT JOIN information_schema.columns c ON c.table_schema = s.table_schema AND c.table_name = s.table_name
     AND c.column_name = s.column_name
WHERE s.table_schema = %s AND s.table_name = %s AND s.non_unique = 0
ORDER BY s.index_name <> 'PRIMARY', s.index_name, s.seq_in_index
"""
_READS: Final = re.compile(r"GRANT (.+) ON (\*|`(?:[^`]|``)*`)\.\* TO ", re.IGNORECASE)


def find_mysql_tables(session: Session, database: str, wanted: Sequence[str]) -> list[MysqlTable]:
    """The tables of these names (`database.table`), or all of `database`. Raises ConfigError for one that is not there
    or may not be read, and if others may be there that the user does not see; TransientError."""
    known = {f"{row[0]}.{row[1]}": row for row in session.rows(_TABLES)}
    if not wanted and not _sees_all(session, database):
        raise ConfigError(
            f"the user may not read all of {database}, and does not see what it may not read: GRANT SELECT ON "
            f"`{database}`.* TO it, or name the tables that are to be read"
        )
    found = []
    for source in wanted or [name for name, row in known.items() if row[0] == database]:
        if source not in known:
            near = ", ".join(list(known)[:_NAMED]) or "no tables"
            raise ConfigError(
                f"the user sees no table {source}; it sees {near}. If it is there: GRANT SELECT ON it to the user"
            )
        schema, name, rows, size = known[source]
        columns = tuple(MysqlColumn(row[0], row[1], row[2] == "YES") for row in session.rows(_COLUMNS, schema, name))
        key = _key(session.rows(_INDEXES, schema, name))
        found.append(MysqlTable(schema, name, columns, key, int(rows or 0), int(size or 0)))
    return found


def _key(rows: Sequence[Sequence[object]]) -> tuple[str, ...]:
    indexes: dict[str, list[tuple[str, bool]]] = {}
    for index, column, nullable, part in rows:
        fits = column is not None and nullable == "NO" and part is None
        indexes.setdefault(str(index), []).append((str(column), fits))
    return next((tuple(name for name, _ in index) for index in indexes.values() if all(fit for _, fit in index)), ())


def _sees_all(session: Session, database: str) -> bool:
    """Whether the user may read every table of the database, those that it is not told of too."""
    for (grant,) in session.rows("SHOW GRANTS"):
        found = _READS.match(str(grant))
        if found is None or not ({"SELECT", "ALL PRIVILEGES"} & {word.strip().upper() for word in found[1].split(",")}):
            continue
        if found[2] == "*" or _covers(found[2][1:-1].replace("``", "`"), database):
            return True
    return False


def _covers(pattern: str, database: str) -> bool:
    r"""Whether a grant's database is this one: % and _ in it stand for any, unless \ is before them."""
    parts: Mapping[str, str] = {"%": ".*", "_": "."}
    words = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join(re.escape(word[1]) if len(word) == 2 else parts.get(word, re.escape(word)) for word in words)
    return re.fullmatch(regex, database, re.DOTALL) is not None
