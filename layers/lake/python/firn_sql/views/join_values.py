"""Values by which rows join, in types that may be of two kinds on the two sides."""

from collections.abc import Sequence

import duckdb


def alike(connection: duckdb.DuckDBPyConnection, names: Sequence[str], some: Sequence[str]) -> Sequence[str]:
    """SELECTs of values by which rows join, in types of which a UNION ALL makes what `=` compares: of a text and
    something else that is the other, and a text may say the same in several ways. names: their columns."""
    kinds = [list(map(str, connection.sql(one).types)) for one in some]
    others = [next((one[i] for one in kinds if one[i] != "VARCHAR"), "VARCHAR") for i in range(len(names))]
    if all(other == one[i] or one[i] != "VARCHAR" for one in kinds for i, other in enumerate(others)):
        return some
    return [
        f"SELECT {', '.join(_as(name, one[i], others[i]) for i, name in enumerate(names))} FROM ({rows})"
        for one, rows in zip(kinds, some, strict=True)
    ]


def _as(name: str, kind: str, other: str) -> str:
    return f"CAST({name} AS {other}) AS {name}" if kind == "VARCHAR" != other else name
