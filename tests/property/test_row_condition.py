"""A condition of `delete_when` says of a row what DuckDB says of it, nulls and what is not there included."""

import json
from functools import cache

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.config.condition_text import parse
from tests.row_conditions import conditions
from tests.soak import times

ROWS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-2, 2) | st.sampled_from([0.5, -1.5, 2**53 + 1]),
        "m": st.none() | st.integers(-2, 2),
        "s": st.none() | st.sampled_from(["", "a", "ab", "abc", "é", "Ab", "a%b", "a\nb"]),
        "t": st.none() | st.sampled_from(["", "a", "b", "ab"]),
        "b": st.none() | st.booleans(),
        "o": st.none() | st.fixed_dictionaries({}, optional={"x": st.none() | st.integers(0, 1)}),
    },
)
CONDITIONS = conditions(
    3,
    numbers=["n", "m", "o.x", '"n"', "0", "-1", "+2", "0.5", "1e0", "9007199254740993"],
    texts=["s", "t", "'a'", "''", "'ab'", "'é'"],
    fields=["n", "m", "s", "t", "b", "o", "o.x"],
    letters="ab%_A",
)


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@settings(max_examples=times(17, 5_000, 200), deadline=None)
@given(CONDITIONS, ROWS)
def test_a_condition_is_true_where_it_is_in_duckdb(text: str, row: dict[str, object]) -> None:
    kinds = json.dumps({"n": "DECIMAL(38,2)", "m": "DECIMAL(38,2)", "s": "VARCHAR", "t": "VARCHAR", "b": "BOOLEAN",
                        "o": {"x": "DECIMAL(38,2)"}})  # fmt: skip
    whole = json.dumps({name: row.get(name) for name in ("n", "m", "s", "t", "b", "o")})
    query = f"SELECT coalesce({text}, false) FROM (SELECT unnest(from_json('{whole}'::JSON, '{kinds}')))"
    (told,) = database().execute(query).fetchone() or (None,)
    assert parse(text).holds(json.dumps(row).encode()) is told
