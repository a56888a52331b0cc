"""New tenants become shards by themselves: which of those that a range has left in the rest, and the version of the map
that lists them (docs/adr/0104-shards.md). Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from firn.changes.placement.map_changes import admit, waiting
from firn.changes.placement.shard_map import Home
from firn.config import reach
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.config.sharding import MOST, Sharding

MOST_MOVED: Final = 1_000_000
"""Rows of a large rest that new tenants may have there, all together: of more somebody decides (firn shards split)."""
NEW_TENANTS: Final = "new tenants: "
"""How a version begins to say why it was made, if by this."""


def admitted(
    now: MapVersion,
    of: Sharding,
    values: Iterable[Any],
    databases: Sequence[str],
    is_free: Callable[[Home], bool],
    made_at: str,
    whole: TableName,
) -> MapVersion | None:
    """The version after the newest, `now`, that lists tenants of the rest; None if nobody waits, or there is no room.

    values     of the shard's column in rows that are in the rest
    databases  as for reach.barred: whoever would lie elsewhere stays in the rest
    is_free    whether a table of a new shard may lie there: nobody else's does, and there is such a warehouse
    whole      what all shards are read as: a tenant's table of that name would be read instead
    """
    taken = {home.place for home in (*now.map.homes.values(), Home(str(whole)))}
    spelled = {Home(table).place: table for table in now.ever}  # some catalogs keep names in lower case

    def fits(name: str) -> bool:
        try:
            home = of.home(name)
        except ValueError:  # a name that is too long, or Firn's own
            return False
        place = TableName.parse(home.table)
        if home.place in taken or spelled.get(home.place, home.table) != home.table:
            return False
        return reach.barred(place.namespace, databases) is None and is_free(home)

    names = waiting(now.map, values, fits)[: MOST - len(now.map.shards)]
    if not names:
        return None
    after = admit(now.map, {name: of.home(name) for name in names})
    return now.next(after, made_at, f"{NEW_TENANTS}{', '.join(names)}")
