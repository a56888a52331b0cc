"""Rows and the windows of time that they are in, as SQL."""

from firn_sql.views.algebra import Hops, Sessions, moment
from firn_sql.views.sources import listed


def hopped(node: Hops, rows: str) -> str:
    """Each of some rows once for each window that it is in."""
    start, end = node.columns[-2:]
    own = [one for one in node.every if one not in (start, end)]
    there = f"SELECT {listed(own)}, {node.newest} AS firn_newest FROM ({rows}) WHERE isfinite({moment(node.time)})"
    each = f"SELECT {listed(own)}, firn_newest - {node.hop.times('firn_n.n')} AS {start} FROM ({there})"
    each += f", range({node.number}) firn_n(n)"
    each = f"SELECT *, {start} + {node.hop.times(node.number)} AS {end} FROM ({each})"
    return f"SELECT {listed(node.every)} FROM ({each})"


def in_sessions(node: Sessions, rows: str) -> str:
    """Rows, all of some keys, with their sessions."""
    start, end = node.columns[-2:]
    by = [f"({one.sql})" for one in node.keys]
    each = f"PARTITION BY {', '.join(by)} ORDER BY firn_at" if by else "ORDER BY firn_at"
    of_one = f"PARTITION BY {', '.join([*by, start])}"
    rows = f"SELECT *, {moment(node.time)} AS firn_at FROM ({rows}) WHERE isfinite({moment(node.time)})"
    follows = f"firn_at <= lag(firn_at) OVER ({each}) + {node.gap.times(1)}"
    rows = f"SELECT *, CASE WHEN {follows} THEN NULL ELSE firn_at END AS firn_first FROM ({rows})"
    rows = f"SELECT *, max(firn_first) OVER ({each}) AS {start} FROM ({rows})"
    rows = f"SELECT *, max(firn_at) OVER ({of_one}) + {node.gap.times(1)} AS {end} FROM ({rows})"
    return f"SELECT {listed(node.every)} FROM ({rows})"
