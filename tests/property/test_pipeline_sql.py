"""Transform is DuckDB's SELECT, row by row: for random queries of the grammar, random rows and random splits."""

import datetime as dt
from functools import cache
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from firn_sql.check import check
from firn_sql.transform import NOW, Transform
from tests.soak import times

COLUMNS = pa.schema(
    {
        "id": pa.int64(), "n": pa.int64(), "x": pa.float64(), "s": pa.string(), "seen": pa.timestamp("us", "UTC"),
        "l": pa.list_(pa.int64()), "o": pa.struct({"a": pa.int64(), "b": pa.string()}),
    }
)  # fmt: skip
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-3, 3),
        "n": st.none() | st.integers(-2, 2) | st.just(2**62),
        "x": st.none() | st.sampled_from([0.0, -1.5, 1e300, 2.5]),
        "s": st.none() | st.sampled_from(["1", "-2", "abc", "", "é", '{"a": 7}', "2020-02-30"]),
        "seen": st.none() | st.just(dt.datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=dt.UTC)),
        "l": st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3),
        "o": st.none() | st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.none() | st.sampled_from(["1", "q"])}),
    }
)


def some(*sql: str) -> st.SearchStrategy[str]:
    return st.sampled_from(sql)


def numbers(depth: int) -> st.SearchStrategy[str]:
    plain = some(
        "id", "n", "o.a", "1", "length(s)", "clicks.id", "CAST(s AS INTEGER)", "l[1]", "round(list_max(l))::INT"
    )
    if depth == 0:
        return plain
    one, text = numbers(depth - 1), texts(depth - 1)
    return plain | st.one_of(
        *(st.builds(sql.format, one, one) for sql in ("({} + {})", "({} * {})", "({} // {})", "COALESCE({}, {})")),
        *(st.builds(sql.format, text) for sql in ("TRY_CAST({} AS BIGINT)", "date_part('day', CAST({} AS DATE))")),
        st.builds("-({})".format, one),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, conditions(depth - 1), one, one),
    )


def texts(depth: int) -> st.SearchStrategy[str]:
    plain = some("s", "o.b", "'x'", "upper(s)", "s->>'$.a'", "CAST(seen AS VARCHAR)", "regexp_replace(s, 'a|1', '_')")
    if depth == 0:
        return plain
    one = texts(depth - 1)
    return plain | st.one_of(
        *(st.builds(sql.format, one, one) for sql in ("({} || {})", "NULLIF({}, {})")),
        st.builds("CAST({} AS VARCHAR)".format, numbers(depth - 1)),
        st.builds("substr({}, 1, 2)".format, one),
    )


def conditions(depth: int) -> st.SearchStrategy[str]:
    plain = some("n > 0", "s LIKE '%a%'", "n IS NULL", "id IN (1, 2)", "x <= 1.5", "list_contains(l, 1)")
    if depth == 0:
        return plain
    one, number = conditions(depth - 1), numbers(depth - 1)
    return plain | st.one_of(
        *(st.builds(sql.format, one, one) for sql in ("({} AND {})", "({} OR {})")),
        st.builds("NOT {}".format, one),
        st.builds("{} > {}".format, number, number),
        st.builds("{} = {}".format, texts(depth - 1), texts(0)),
    )


ITEMS = st.one_of(
    numbers(2),
    texts(2),
    conditions(1),
    some("x / 2", "{'p': n, 'q': s}", "[id, n]", "now()", "current_timestamp", "o"),
    some("list_transform(l, lambda v: v + 1)", "CAST(x AS INTEGER)", "CAST(n AS SMALLINT)"),
)
WHERE = st.just("") | conditions(2).map(" WHERE {}".format)


def named(items: list[str]) -> str:
    return ", ".join(f"{item} AS k{place}" for place, item in enumerate(items))


def lists(most: int) -> st.SearchStrategy[str]:
    return st.lists(ITEMS, min_size=1, max_size=most).map(named)


SIMPLE = st.builds("SELECT {} FROM clicks{}".format, lists(3), WHERE)
STARS = st.builds(
    "SELECT {} FROM clicks{}".format,
    some("*", "* EXCLUDE (l)", "clicks.*", "* REPLACE (upper(s) AS s)", "* RENAME (n AS m)", "1 AS one, *"),
    WHERE,
)
WITHS = st.builds(
    "WITH w AS (SELECT *, {} FROM clicks{}) SELECT id, k0 FROM w AS clicks{}".format, lists(2), WHERE, WHERE
)
NESTED = st.builds(
    "SELECT c.id AS i, q FROM (SELECT id, o.a AS q, {} FROM clicks AS clicks{}) AS c WHERE {}".format,
    lists(2), WHERE, some("c.id > 0", "q IS NULL", "CAST(q AS VARCHAR) = '1'", "k0 IS NOT NULL"),
)  # fmt: skip
LISTS = st.builds(
    "SELECT id, UNNEST({}) AS u, n FROM clicks{}".format,
    some("l", "[n, id]", "list_transform(l, lambda v: v + 1)", "CASE WHEN n > 0 THEN l END", "[CAST(s AS INTEGER)]"),
    WHERE,
)
QUERIES = st.one_of(SIMPLE, STARS, WITHS, NESTED, LISTS)


@cache
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
    connection.execute("SET TimeZone = 'UTC'")
    # It moves cheap conditions before dear ones, and then a cast fails or not as it finds best.
    connection.execute("SET disabled_optimizers = 'filter_pushdown,reorder_filter'")
    return connection


def plain(sql: str, rows: pa.Table) -> list[dict[str, Any]] | None:
    """What DuckDB itself gives; None if it fails."""
    duck().register("clicks", rows)
    try:
        return duck().sql(sql).to_arrow_table().to_pylist()
    except duckdb.Error:
        return None


def as_of_acceptance(sql: str) -> str:
    return sql.replace("now()", f'"{NOW}"').replace("current_timestamp", f'"{NOW}"')


def in_plain_types(rows: list[dict[str, Any]]) -> str:
    return repr([{name: value for name, value in row.items() if name != NOW} for row in rows])


@settings(max_examples=times(10, 3_000, 60), deadline=None)
@given(sql=QUERIES, rows=st.lists(ROWS, min_size=1, max_size=6), cuts=st.sets(st.integers(0, 6), max_size=3))
def test_it_gives_what_duckdb_gives_of_each_row_alone(sql: str, rows: list[dict[str, Any]], cuts: set[int]) -> None:
    times_ = [dt.datetime(2025, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=hour) for hour in range(len(rows))]
    table = pa.Table.from_pylist(rows, COLUMNS).append_column(NOW, pa.array(times_, pa.timestamp("us", "UTC")))
    alone = [plain(as_of_acceptance(sql), table.slice(place, 1)) for place in range(len(rows))]
    transform = Transform(check(sql), COLUMNS)

    whole = transform.run(table)
    assert set(whole.failed) == {place for place, found in enumerate(alone) if found is None}
    expected = [(place, number, row) for place, found in enumerate(alone) for number, row in enumerate(found or ())]
    assert in_plain_types(whole.rows.to_pylist()) == in_plain_types([row for _, _, row in expected])
    assert whole.origin.to_pylist() == [place for place, _, _ in expected]
    assert whole.number.to_pylist() == [number for _, number, _ in expected]
    assert whole.rows.schema == transform.schema
    if None not in alone:
        assert in_plain_types(plain(as_of_acceptance(sql), table) or []) == in_plain_types(whole.rows.to_pylist())

    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [transform.run(table.slice(start, end - start)) for start, end in pairwise(edges)]
    assert repr(pa.concat_tables(part.rows for part in parts).to_pylist()) == repr(whole.rows.to_pylist())
    starts = zip(edges, parts, strict=False)
    assert {start + place: why for start, part in starts for place, why in part.failed.items()} == whole.failed
