"""Which tables of a PostgreSQL a backfill reads: those that the stream brings, under the names that it brings them by.

Nothing is left out silently: a table that the stream takes and that can't be read ends the plan before any work.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from firn.backfill.backfill_request import Request
from firn.backfill.postgres_cells import quoted
from firn.backfill.postgres_connection import Session
from firn.backfill.postgres_tables import Entry, Published, Relation, Table, entries, publications, table_of
from firn.errors import ConfigError

Takes = Callable[[str], object | None]  # whether the stream takes a source table: not None
_EVERYTHING: Final = Published(None, "")
_NAMED: Final = 10  # at most, in a text


def chosen_tables(session: Session, request: Request, takes: Takes) -> list[tuple[Table, Published]]:
    """The tables of a request that the stream takes, each with what of it.

    Raises ConfigError: a table that is not there, that the stream does not bring or brings under other names, or that
    the user may not read whole. TransientError.
    """
    known, sent = entries(session), publications(session)
    mine: Mapping[str, Published] | None = None
    if request.publication:
        mine = sent.get(request.publication)
        if mine is None:
            raise ConfigError(
                f"the publication {request.publication} of the source has no tables: see firn sources add"
            )
    partitions = _Partitions(known, sent if mine is None else {request.publication: mine})
    if request.tables:
        names: Sequence[str] = request.tables
        for name in names:
            _expect_sent(name, known, request.publication, mine, partitions)
            if takes(name) is None:
                raise ConfigError(f"no rule of stream {request.stream} takes {name}: see tables: in firn.yaml")
    elif mine is None:
        names = [name for name, one in known.items() if not one.ancestors and not one.extension and takes(name)]
        for name in names:
            partitions.expect_one(name)
    else:
        names = [name for name in mine if name in known and takes(name)]
        for name in filter(takes, partitions.sent_apart(mine)):
            if any(one in mine and not takes(one) for one in partitions.of(name)):
                partitions.expect_one(name)
    if twice := next((name for name in names if known[name].twice), None):
        raise ConfigError(f"the source has two tables called {twice}, by where the dot stands: rename one of them")
    found = [table_of(session, known[name]) for name in names]
    if lacking := list(_lacking(session, found)):
        raise ConfigError(_told(lacking))
    return [(table, _EVERYTHING if mine is None else mine[table.source]) for table in found]


def _expect_sent(
    name: str,
    known: Mapping[str, Entry],
    publication: str,
    mine: Mapping[str, Published] | None,
    partitions: "_Partitions",
) -> None:
    """Raises ConfigError for a table that was named and that the stream does not bring under this name."""
    if name not in known:
        near = ", ".join([one for one, entry in known.items() if not entry.ancestors][:_NAMED]) or "no tables"
        raise ConfigError(f"the source has no table {name} that could be read; it has {near}")
    if mine is not None and name in mine:
        return
    partitions.expect_one(name)
    above = known[name].ancestors
    if mine is None and above and not partitions.is_sent(name):
        raise ConfigError(f"{name} is a partition of {above[-1]}: name that, and all of its partitions are read")
    if mine is not None:
        root = next((one for one in above if one in mine), "")
        if root:
            raise ConfigError(
                f"{name} is a partition of {root}, by whose name publication {publication} sends it: name that"
            )
        schema, table = known[name].schema, known[name].name
        raise ConfigError(
            f"the publication {publication} lacks {name}, so the stream brings nothing of it: "
            f"ALTER PUBLICATION {quoted(publication)} ADD TABLE {quoted(schema)}.{quoted(table)}"
        )


class _Partitions:
    """Partitioned tables, and by whose names publications send their rows."""

    def __init__(self, known: Mapping[str, Entry], sent: Mapping[str, Mapping[str, Published]]) -> None:
        self._sent = sent
        self._of: dict[str, list[str]] = {name: [] for name, one in known.items() if one.partitioned}
        for name, one in known.items():
            for root in one.ancestors:
                if root in self._of:
                    self._of[root].append(name)

    def of(self, name: str) -> Sequence[str]:
        """The partitions of a table, and theirs."""
        return self._of.get(name, ())

    def is_sent(self, name: str) -> bool:
        """Whether a publication sends a table under its own name."""
        return any(name in tables for tables in self._sent.values())

    def sent_apart(self, tables: Mapping[str, Published]) -> list[str]:
        """Partitioned tables whose partitions are sent under their own names."""
        return [name for name, parts in self._of.items() if name not in tables and any(one in tables for one in parts)]

    def expect_one(self, name: str) -> None:
        """Raises ConfigError if a table is partitioned, and its partitions are sent and not the table."""
        if self.is_sent(name):
            return
        for publication, tables in self._sent.items():
            if name in self.sent_apart(tables):
                parts = [one for one in self.of(name) if one in tables]
                more = " …" if len(parts) > _NAMED else ""
                raise ConfigError(
                    f"the publication {publication} sends the rows of {name} under the names of its partitions "
                    f"({', '.join(parts[:_NAMED])}{more}), so a stream of it has no table {name}: ALTER PUBLICATION "
                    f"{quoted(publication)} SET (publish_via_partition_root = true), and begin again; or let "
                    "firn.yaml take the partitions, and name them"
                )


def _lacking(session: Session, tables: Sequence[Table]) -> Iterator[tuple[str, str]]:
    """What the user can't read -> (the table, what to run)."""
    user = ""
    for table in tables:
        for relation in table.relations:
            rights = relation.rights
            if rights is None or (rights.usage and rights.select and not rights.filtered):
                continue
            user = user or quoted(session.value("SELECT current_user::text"))
            yield table.source, _remedy(relation, user)


def _remedy(relation: Relation, user: str) -> str:
    rights = relation.rights
    if rights is None or not rights.usage:
        schema = quoted(rights.schema) if rights else ""
        return f"GRANT USAGE ON SCHEMA {schema} TO {user}; GRANT SELECT ON {relation.name} TO {user}"
    if not rights.select:
        return f"GRANT SELECT ON {relation.name} TO {user}"
    return f"ALTER ROLE {user} BYPASSRLS (row-level security hides rows of {relation.name} from it)"


def _told(lacking: Sequence[tuple[str, str]]) -> str:
    tables = list(dict.fromkeys(table for table, _ in lacking))
    todo = list(dict.fromkeys(remedy for _, remedy in lacking))
    more = f"; and so on, {len(todo)} in all" if len(todo) > _NAMED else ""
    return (
        f"the user may not read all of {', '.join(tables[:_NAMED])}, which the stream takes: nothing was read. "
        f"{'; '.join(todo[:_NAMED])}{more}. Or name the tables that are to be read"
    )
