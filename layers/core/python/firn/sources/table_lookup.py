"""What a pull asks of a table whose changes come: its types, the key that tells its rows apart, whether its name is its
own."""

from collections.abc import Callable

from firn.config.model import StreamConfig
from firn.errors import EventError
from firn.sources.column_watch import ColumnWatch
from firn.sources.database_port import SourceDatabase, SourceStopped
from firn.sources.postgres.pgoutput import Relation
from firn.sources.postgres.transaction_changes import KnownTable


def look_up(
    database: SourceDatabase, stream: StreamConfig, publication: str, watch: ColumnWatch
) -> Callable[[Relation], KnownTable]:
    """What a ChangeReader looks tables up by. It raises SourceStopped, TransientError."""

    def known(relation: Relation) -> KnownTable:
        name = f"{relation.schema}.{relation.table}"
        refused = _refused(database, relation, publication)
        if not refused:
            watch.look(name, (column.name for column in relation.columns), database.columns(relation))
        return KnownTable(database.types(relation), _key(database, stream, relation, name), refused)

    return known


def _key(database: SourceDatabase, stream: StreamConfig, relation: Relation, name: str) -> tuple[str, ...] | None:
    """The columns of the key that the table's target has, None: those of the replica identity."""
    key: tuple[str, ...] | None = None
    keyed = False
    try:
        rule = stream.rule_for(name)
        key, keyed = (None, stream.wants(name)) if rule is None else (rule.key, rule.keyed)
    except EventError:
        pass  # each of its changes says so
    if key is None and relation.identity == "f":
        key = database.primary_key(relation)
        if keyed and (gone := set(key or ()) - {column.name for column in relation.columns}):
            raise SourceStopped(
                f"the primary key of {name} has {', '.join(sorted(gone))[:200]}, which changes of it lack: "
                "a column was renamed after them, or is not in the publication. The rest is no key: "
                "write key: [...] into its rule in firn.yaml, with the names that the changes have, and publish it"
            )
    return key


def _refused(database: SourceDatabase, relation: Relation, publication: str) -> str:
    """Why no change of the table can be taken: another one has its name, "a.b"."c" and "a"."b.c". "" if it can.

    Raises SourceStopped while both are published.
    """
    if "." not in relation.schema + relation.table:
        return ""
    own, called = (relation.schema, relation.table), database.namesakes(relation, publication)
    others = [f'"{schema}"."{table}"' for schema, table in called if (schema, table) != own]
    if not others:
        return ""
    text = f'"{own[0]}"."{own[1]}" and {", ".join(others)} are both called {".".join(own)[:200]} here'
    if own in called:
        way = f"take one of them out of the publication {publication}, or rename it" if publication else "rename one"
        raise SourceStopped(f"{text}: {way}")
    return f"{text}, and this one is not in the publication {publication} any more"
