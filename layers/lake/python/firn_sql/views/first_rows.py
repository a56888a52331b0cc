"""The first rows of an order as they are now, told by what they were and by what changed."""

import duckdb

from firn_sql.views import rendered
from firn_sql.views.algebra import Top
from firn_sql.views.refresh_port import Delta, listed


def by_change(connection: duckdb.DuckDBPyConnection, node: Top, before: str, below: Delta) -> str | None:
    """A SELECT of the first rows; None if what changed does not tell them: others, that are not known, may be among
    them. All others come after the last that there was. So as many as are asked for must be known that don't.

    before  a table of what they were
    below   what changed in the rows that they are the first of
    """
    columns = listed(node.every)
    gone = " AND ".join(f"b.{one} IS NOT DISTINCT FROM g.{one}" for one in node.ids) or "TRUE"
    left = f"SELECT {columns} FROM {before} b ANTI JOIN {below.gone} g ON {gone}"
    known = f"{left} UNION ALL SELECT {columns} FROM {below.come}"
    ((held,),) = connection.execute(f"SELECT count(*) FROM {before}").fetchall()
    if node.offset or not node.limit:
        return None
    if held == node.limit:
        by = ", ".join(node.orders)
        last = f"SELECT {columns} FROM {before} ORDER BY {by} LIMIT 1 OFFSET {held - 1}"
        some = f"SELECT *, FALSE AS firn_last FROM ({known}) UNION ALL SELECT *, TRUE FROM ({last})"
        numbered = f"SELECT firn_last, row_number() OVER (ORDER BY {by}, firn_last) AS firn_n FROM ({some})"
        ((number,),) = connection.execute(f"SELECT firn_n FROM ({numbered}) WHERE firn_last").fetchall()
        if number <= node.limit:
            return None
    return rendered.top(node, known)
