"""Values by which rows join, in types that may be of two kinds on the two sides."""

from collections.abc import Sequence

import duckdb


def alike(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str], sides: Sequence[str], some: Sequence[str]
) -> Sequence[str]:
    """SELECTs of values by which rows join, in the types in which `=` compares those of the two sides: of a text and
    something else that is the other. Whatever of either side equals a value is found by it then, also where several
    values of a side equal one of the other: a text may say the same number in several ways.

    names  their columns
    sides  SELECTs of no such values, of the one side and of the other
    """
    kinds = [list(map(str, connection.sql(one).types)) for one in sides]
    united = list(map(str, connection.sql(" UNION ALL ".join(sides)).types))
    others = [next((one[i] for one in kinds if one[i] != "VARCHAR"), "VARCHAR") for i in range(len(names))]
    wanted = [
        other if any(one[i] == "VARCHAR" for one in kinds) else both
        for i, (other, both) in enumerate(zip(others, united, strict=True))
    ]
    listing = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in zip(names, wanted, strict=True))
    return [f"SELECT {listing} FROM ({rows})" for rows in some]
