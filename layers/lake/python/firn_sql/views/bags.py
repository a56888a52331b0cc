"""Rows that one of two bags has more often than the other, as SQL. By counts of equal rows: EXCEPT ALL numbers all rows
of both, which takes several times as long, of a few rows too."""

from collections.abc import Sequence

from firn_sql.views.refresh_port import listed

COUNT = "_firn_n"


def counted(more: Sequence[str], less: Sequence[str], columns: Sequence[str]) -> str:
    """A SELECT of the different rows of some SELECTs with how much more often (COUNT) the first ones have them than the
    others: not those that both have as often."""
    names = listed(columns)
    sides = [
        f"SELECT {names}, {sign} AS {COUNT} FROM ({one})" for sign, some in ((1, more), (-1, less)) for one in some
    ]
    rows = " UNION ALL ".join(sides)
    return f"SELECT {names}, CAST(sum({COUNT}) AS BIGINT) AS {COUNT} FROM ({rows}) GROUP BY ALL HAVING {COUNT} <> 0"


def repeated(rows: str, columns: Sequence[str], sign: str = "", *, once: bool = False) -> str:
    """Rows of `counted` that the first ones have more often, as often as they do; "-": the others. `once`: none is
    there more than once."""
    names, number = listed(columns), f"{sign}{COUNT}"
    if once:
        return f"SELECT {names} FROM ({rows}) WHERE {number} > 0"
    return f"SELECT {names} FROM (SELECT *, unnest(range({number})) FROM ({rows}) WHERE {number} > 0)"
