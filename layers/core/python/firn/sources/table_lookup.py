"""What a pull asks of a table whose changes come: its types, the key that tells its rows apart, whether its name is its
own."""

from collections.abc import Callable, Collection

from firn.config.model import StreamConfig, TableRule
from firn.errors import EventError
from firn.sources.column_watch import ColumnWatch
from firn.sources.database_port import SourceDatabase, SourceStopped
from firn.sources.postgres.pgoutput import Relation
from firn.sources.postgres.transaction_changes import KnownTable, Refusal


def look_up(
    database: SourceDatabase, stream: StreamConfig, publication: str, watch: ColumnWatch
) -> Callable[[Relation], KnownTable]:
    """What a ChangeReader looks tables up by. It raises SourceStopped, TransientError."""

    def known(relation: Relation) -> KnownTable:
        name = f"{relation.schema}.{relation.table}"
        refusal = _namesake(database, relation, publication)
        if refusal is None:
            watch.look(name, (column.name for column in relation.columns), database.columns(relation))
            refusal = _unfollowed_key(database, stream, relation, name)
        return KnownTable(database.types(relation), _key(database, stream, relation, name), refusal)

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


def _unfollowed_key(database: SourceDatabase, stream: StreamConfig, relation: Relation, name: str) -> Refusal | None:
    """Which changes can't be taken because of a `key` whose old values they do not hold: of an update nobody could tell
    whether the key changed, and which row a delete means. None if there is no such key.

    Raises SourceStopped while changes to come lack them too.
    """
    try:
        rule = stream.rule_for(name)
    except EventError:
        return None
    if rule is None or not rule.keyed or not rule.key or relation.identity == "f":
        return None
    said = {relation.columns[place].name for place in relation.key}
    if _holds(rule, said):
        return None
    told = (
        f"the rule of {name} has the key [{', '.join(rule.key)[:200]}], and its changes hold the old values of "
        f"{', '.join(sorted(said))[:200] or 'no column'} alone (its replica identity)"
    )
    now = database.table(relation.schema, relation.table)
    if now is not None and now.identity != "f" and not _holds(rule, {one.name for one in now.columns if one.key}):
        raise SourceStopped(
            f"{told}: run ALTER TABLE … REPLICA IDENTITY FULL, or write the columns of its identity as key, or mode: "
            "append, into the rule in firn.yaml"
        )
    return Refusal(
        "no_key", f"{told}; it has another identity by now: read the table again with `firn backfill --replace`", "ud"
    )


def _holds(rule: TableRule, identity: Collection[str]) -> bool:
    """Whether these columns of the source hold all of the rule's key."""
    return {name.casefold() for name in rule.key or ()} <= {name.casefold() for name in identity}


def _namesake(database: SourceDatabase, relation: Relation, publication: str) -> Refusal | None:
    """Why no change of the table can be taken: another one has its name, "a.b"."c" and "a"."b.c". None if it can.

    Raises SourceStopped while both are published.
    """
    if "." not in relation.schema + relation.table:
        return None
    own, called = (relation.schema, relation.table), database.namesakes(relation, publication)
    others = [f'"{schema}"."{table}"' for schema, table in called if (schema, table) != own]
    if not others:
        return None
    text = f'"{own[0]}"."{own[1]}" and {", ".join(others)} are both called {".".join(own)[:200]} here'
    if own in called:
        way = f"take one of them out of the publication {publication}, or rename it" if publication else "rename one"
        raise SourceStopped(f"{text}: {way}")
    why = f"{text}, and this one is not in the publication {publication} any more"
    return Refusal("ambiguous_table", why)
