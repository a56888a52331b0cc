"""The rows of a view that go and those that come: told by what changed in its tables, or by the whole query."""

from dataclasses import dataclass

from firn.changes.metadata_columns import IDENTITY
from firn_sql.views import bags
from firn_sql.views.algebra import quoted
from firn_sql.views.refresh import AFTER, Refresh
from firn_sql.views.stored import Stored
from firn_sql.views.view_connection import Connection


@dataclass(frozen=True)
class Delta:
    """Rows of a view's table.

    gone  a SELECT with {} for what is asked of those that go, and of its columns those that have the values of
          Stored.ids; None: it gives rows of the table
    come  a SELECT of those that come
    """

    gone: tuple[str, tuple[str, ...] | None]
    come: str


def changing(how: Stored, run: Refresh) -> Delta | None:
    """What changes in the view, by what changed in its tables."""
    found = run.delta()
    if found is None:
        return None
    return Delta((f"SELECT {{}} FROM {found.gone}", how.ids), how.rows(f"SELECT * FROM {found.come}"))


def differing(how: Stored, run: Refresh, held: str, connection: Connection) -> Delta | None:
    """The same, by the whole query. held: a SELECT of all rows of the view's table, in the types of Stored.rows."""
    names = [quoted(one) for one in (*(each.name for each in how.columns), IDENTITY)]
    differing = bags.counted([held], [how.rows(run.whole(AFTER))], names)
    connection.execute(f"CREATE TEMP TABLE firn_differing AS {differing}")
    if not connection.execute("SELECT 1 FROM firn_differing LIMIT 1").fetchall():
        return None
    gone, come = (bags.repeated("FROM firn_differing", names, sign) for sign in ("", "-"))
    return Delta((f"SELECT {{}} FROM ({gone})", None), come)
