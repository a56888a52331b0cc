"""What firn.yaml says of tables before they are there: the columns that it declares, with their types."""

from contextlib import suppress
from dataclasses import replace

from firn.changes.decode.types import BINARY, Column, storable
from firn.changes.metadata_columns import IDENTITY
from firn.config.model import Config, TableRule
from firn.config.modes import VIEW
from firn.config.sql_text import SqlRefused
from firn_sql.views.planner import SourceTable
from firn_sql.views.source_tables import source_table


def declared_tables(config: Config) -> dict[str, SourceTable]:
    """By their names in lower case; those of which nothing is said are left out. A column has no type here where two
    rules say different ones, or a rule renames it; and where a key is not declared whole, rows are told apart by
    what SQL does not see."""
    found: dict[str, SourceTable] = {}
    for stream in config.streams.values():
        for rule in stream.targets:
            if (rule.columns or rule.schema) and rule.mode != VIEW and not rule.is_pattern:
                name = str(rule.target(rule.source)).lower()
                with suppress(SqlRefused):  # columns that SQL can't tell apart: a job says so, if the table has both
                    own = _of_rule(rule)
                    found[name] = own if name not in found else _of_both(found[name], own)
    return found


def _of_rule(rule: TableRule) -> SourceTable:
    declared = {name: Column(name, storable(one.type)) for name, one in rule.columns.items()}
    declared |= {one.name: one for one in (rule.schema.columns() if rule.schema is not None else ())}
    key = rule.key if rule.keyed and rule.key and {*rule.key} <= {*declared} else (IDENTITY,)
    if key == (IDENTITY,):
        declared[IDENTITY] = Column(IDENTITY, BINARY)
    table = source_table(list(declared.values()), key)
    renamed = {*rule.renames, *rule.renames.values()}
    columns = {name: "" if name in renamed else kind for name, kind in table.columns.items()}
    return replace(table, columns=columns, open=rule.schema is None or not rule.schema.closed)


def _of_both(one: SourceTable, other: SourceTable) -> SourceTable:
    columns = {**one.columns, **other.columns}
    for name in one.columns.keys() & other.columns:
        columns[name] = one.columns[name] if one.columns[name] == other.columns[name] else ""
    if one.key == other.key:
        return SourceTable(columns, one.key, open=True)
    return SourceTable(columns | {IDENTITY: "BLOB"}, (IDENTITY,), open=True)
