"""The check of a view's SQL where people write it: nothing is known of tables but what firn.yaml says."""

import time
from contextlib import nullcontext

import pytest

from firn.config.reader import parse
from firn.errors import ConfigError
from firn_sql.configured import check_pipelines, check_sql, check_views

STREAMS = """
streams:
  shop:
    tables:
      public.orders: {to: shop.orders, key: [id], columns: {region: string, id: long}}
      public.customers: {to: shop.customers, key: [id]}
      public.lines: {to: shop.lines, mode: append}
views:
"""


def text(*sqls: str, full: bool = False) -> str:
    more = ", every: 1h" + (", refresh: full" if full else "")
    return STREAMS + "".join(f"  v.a{i}: {{sql: {sql!r}{more}}}\n" for i, sql in enumerate(sqls))


def problem(*sqls: str, full: bool = False) -> str:
    with pytest.raises(ConfigError) as raised:
        check_sql(parse(text(*sqls, full=full)))
    return str(raised.value)


GOOD = [
    "SELECT * FROM shop.orders",
    "SELECT region, sum(amount) AS s FROM shop.orders o JOIN shop.customers c ON o.cid = c.id GROUP BY region",
    "SELECT name, sum(amount) AS s FROM shop.lines o JOIN shop.customers c ON o.cid = c.id GROUP BY name",
    "SELECT a FROM shop.lines o JOIN shop.customers c ON cid = lid",
    "SELECT a FROM shop.lines, shop.customers WHERE cid = lid",
    "SELECT * FROM shop.customers WHERE EXISTS (SELECT 1 FROM shop.lines c WHERE c.id = cid)",
    "SELECT * FROM shop.customers WHERE a IN (SELECT * FROM shop.lines)",
    "WITH o AS (SELECT * FROM shop.orders) SELECT o.x, count(*) AS n FROM o GROUP BY ALL",
    "SELECT o.*, c.* FROM shop.orders o JOIN shop.customers c USING (id)",
    "SELECT * FROM shop.orders UNION ALL SELECT a, b FROM shop.customers",
    "SELECT lower(q) AS q, count(*) AS n FROM shop.orders GROUP BY q",
    "SELECT t.doc.a.b AS x, doc.c AS y FROM shop.lines t",
    "SELECT * EXCLUDE (a) REPLACE (b + 1 AS b) RENAME (c AS d) FROM shop.lines",
    "SELECT id FROM shop.lines QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1",
    'SELECT l."current_date" AS a, "now" AS b FROM shop.lines l',
    "SELECT a FROM shop.lines WHERE b > now() - INTERVAL 7 DAY AND d = current_date",
    "SELECT a, max(b) AS m FROM shop.lines GROUP BY a HAVING max(b) > Now()",
    "SELECT o.a FROM shop.lines o LEFT JOIN shop.customers c ON o.i = c.id AND c.b > now() WHERE o.b < localtimestamp",
    "SELECT a FROM shop.lines o WHERE EXISTS (SELECT 1 FROM shop.customers c WHERE c.id = o.a AND c.b > today())",
    'SELECT "größe", "a ""b""" AS c FROM "shop"."lines" -- a comment',
]


@pytest.mark.parametrize("sql", GOOD)
def test_what_may_be_right_passes(sql: str) -> None:
    check_sql(parse(text(sql)))


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT a FRM shop.orders JOIN shop.customers", "nothing says which tables it reads"),
        ("SELECT a b c FROM shop.orders", "DuckDB can't read it: syntax error"),
        ("SELECT foo(a) AS b FROM shop.orders", "line 1, column 8: foo is not one of the functions that views have"),
        (
            "SELECT now() AS b FROM shop.orders",
            "column 8: now is another time at each refresh, and stands outside of a",
        ),
        ("SELECT current_date AS b FROM shop.lines", "column 8: now is another time at each refresh"),
        ("SELECT a FROM shop.lines GROUP BY a, today()", "column 38: now is another time at each refresh"),
        ("SELECT count(*) FILTER (b > now()) AS n FROM shop.lines", "column 29: now is another time at each refresh"),
        ("SELECT a FROM shop.lines GROUP BY a HAVING max(b - now()) > 1", "column 52: now is another time"),
        ("SELECT a FROM shop.lines QUALIFY lag(a, 1, now()) OVER () = 1", "column 44: now is another time"),
        ("SELECT a FROM shop.lines ORDER BY now() LIMIT 1", "column 35: now is another time at each refresh"),
        ("SELECT a FROM tumble(shop.lines, now(), INTERVAL 1 DAY)", "column 34: now is another time at each refresh"),
        ("SELECT a FROM shop.lines WHERE b > current_time", "column 36: current_time reads the clock in a way of its"),
        (
            "SELECT a AS current_date FROM shop.lines WHERE b > current_date",
            "the time here, and there is a column that",
        ),
        (
            "SELECT o.a AS x FROM shop.lines o FULL JOIN shop.lines c ON o.i = c.i AND o.a > now()",
            "a FULL join compares the time with what it also joins by; write it in the WHERE of a side",
        ),
        (
            "SELECT o.a AS x FROM shop.lines o LEFT JOIN shop.lines c ON o.i = c.i AND o.a > now()",
            "a LEFT join compares the time with what it also joins by",
        ),
        ("SELECT read_csv('x') AS b FROM shop.lines", "read_csv reads what is no table of Firn"),
        ("SELECT a FROM shop.orders, read_csv('x')", "TABLE_FUNCTION can't stand in FROM of a view"),
        ("SELECT a FROM shop.lines o JOIN shop.customers c ON o.x < c.y", "nothing makes equal: each change could"),
        ("SELECT a FROM shop.lines o LEFT JOIN shop.customers c ON o.x < c.y", "a join compares nothing with ="),
        ("SELECT a FROM shop.orders o JOIN shop.customers c ON region = region", "two tables are joined that nothing"),
        ("SELECT a FROM shop.orders WHERE a NOT IN (SELECT b FROM shop.lines)", "(SELECT …), or refresh: full beside"),
        ("SELECT a, b, count(*) AS n FROM shop.orders GROUP BY a", "a column is neither in GROUP BY"),
        ("SELECT _firn_ts AS t FROM shop.lines", "there is no column '_firn_ts' in FROM; write one that a table of it"),
        ("SELECT upper(region) AS id FROM shop.orders GROUP BY id", "'id' is a column of FROM and an AS of this"),
        ("SELECT 1 AS a, 2 AS A FROM shop.lines", "it gives two columns 'A'; write AS another name"),
        (
            "SELECT a FROM shop.customers, (shop.orders JOIN shop.lines USING (id))",
            "it reads 'shop.orders', which does not stand right",
        ),
        ("SELECT a FROM shop.orders, (FROM shop.lines)", "it reads 'shop.lines', which does not stand right after"),
        ("SELECT a FROM shop.orders WHERE a IN (TABLE shop.lines)", "it reads 'shop.lines', which does not stand"),
        ("SELECT a FROM shop.orders, (SELECT 1 AS b, c FROM x) y", "'x' has no namespace"),
        ("SELECT a FROM shop.orders TABLESAMPLE 10%", "a part or an earlier state of a table is not kept"),
        ("SELECT a FROM shop.orders " + "UNION ALL SELECT a FROM shop.orders " * 30, "more than 30 SELECTs"),
        ("SELECT " + "(" * 900 + "a" + ")" * 900 + " AS a FROM shop.orders", "line 1, column"),
        ("SELECT " + "-" * 0 + "abs(" * 300 + "a" + ")" * 300 + " AS a FROM shop.orders", "nested more than 100 deep"),
    ],
)
def test_what_is_wrong_whatever_the_columns_are_is_refused_with_its_place(sql: str, told: str) -> None:
    try:
        found = problem(sql)
    except BaseException as error:  # the reader's own refusals come first
        if not isinstance(error, ConfigError):
            raise
        found = str(error)
    assert told in found
    assert found.startswith("firn.yaml:9: views.v.a0.sql: line 1, column ")
    assert "; " in found


WRONG_TYPES = [
    (
        "SELECT region, sum(region) AS s FROM shop.orders GROUP BY region",
        "column 16: DuckDB says: Binder Error: No func",
    ),
    ("SELECT id, region + INTERVAL 1 DAY AS x FROM shop.orders", "column 19: DuckDB says: Binder Error: No function"),
]


@pytest.mark.parametrize(("sql", "told"), WRONG_TYPES)
def test_types_that_firn_yaml_declares_are_looked_at(sql: str, told: str) -> None:
    found = problem(sql)
    assert found.startswith("firn.yaml:9: views.v.a0.sql: line 1, column ")
    assert told in found
    assert found.endswith("correct it there: a cast, or another column")


SUMS = """
streams: {shop: {tables: {t: {to: a.t, key: [id], columns: {id: long, x: string}}}}}
views: {v.s: {sql: "SELECT id, sum(x) AS s FROM a.t GROUP BY id"}}
"""


@pytest.mark.parametrize(("old", "new", "is_refused"), [
    ("", "", True),
    ("x: string", "x: long", False),
    ("x: string", "y: string", False),  # the table may have x too
    ("columns:", "renames: {x: y}, columns:", False),
    ("t: {to", "u: {to: a.t, key: [id], columns: {x: long}}, t: {to", False),  # which of the two the table has
    ("x: string", "x: string, X: string", False),  # a job says it, if the table has both
])  # fmt: skip
def test_nothing_is_refused_for_a_type_that_is_not_sure(old: str, new: str, is_refused: bool) -> None:
    with pytest.raises(ConfigError, match="Binder") if is_refused else nullcontext():
        check_sql(parse(SUMS.replace(old, new, 1)))


def test_a_view_over_a_view_knows_its_columns() -> None:
    base = "SELECT region, count(*) AS n FROM shop.orders GROUP BY region"
    check_sql(parse(text("SELECT region, n + 1 AS m FROM v.a1", base)))
    told = problem("SELECT regions FROM v.a1", base)
    assert told == "firn.yaml:9: views.v.a0.sql: line 1, column 8: there is no column 'regions' in FROM; write one " \
        "that a table of it has"  # fmt: skip
    check_sql(parse(text("SELECT anything FROM v.a1", "SELECT * FROM shop.lines")))
    assert "'n' is a column of a and b" in problem("SELECT n FROM v.a1 a JOIN v.a1 b USING (region)", base)


def test_a_view_over_one_that_is_refused_is_checked_too() -> None:
    told = problem("SELECT random() AS r FROM v.a1", "SELECT foo(a) AS b FROM shop.lines").splitlines()
    assert [line.partition(".sql")[0] for line in told] == ["firn.yaml:9: views.v.a0", "firn.yaml:10: views.v.a1"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM shop.orders WHERE a NOT IN (SELECT b FROM shop.lines)",
        "SELECT (SELECT max(b) FROM shop.lines) AS m, mode(a) AS o FROM shop.orders",
        "SELECT a FROM shop.orders EXCEPT SELECT a FROM shop.lines",
        "SELECT a, count(*) AS n FROM shop.orders GROUP BY ROLLUP (a)",
        "SELECT list_transform(l, lambda x: x + 1) AS l, unnest(l) AS e FROM shop.orders",
        "SELECT a FROM shop.orders o ASOF JOIN shop.lines l ON o.id = l.id AND o.at >= l.at",
    ],
)
def test_what_is_made_whole_each_time_may_say_nearly_all(sql: str) -> None:
    check_sql(parse(text(sql, full=True)))
    assert "or refresh: full beside the SQL" in problem(sql)


def test_a_view_that_is_made_again_each_time_may_have_the_time_anywhere() -> None:
    check_sql(parse(text("SELECT now() - a AS age, current_date FROM shop.orders GROUP BY ALL", full=True)))


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT random() AS r FROM shop.orders", "random gives another value each time"),
        ("SELECT current_time AS r FROM shop.orders", "current_time reads the clock in a way of its own"),
        ("SELECT age(a) AS r FROM shop.orders", "age reads the clock in a way of its own"),
        ("SELECT a FROM shop.orders, read_parquet('x')", "read_parquet reads what is no table of Firn"),
        ("SELECT a FROM shop.orders, glob('/*')", "glob reads what is no table of Firn"),
        ("SELECT getenv('HOME') AS h FROM shop.orders", "getenv tells of the machine or session"),
        ("SELECT a FROM shop.orders USING SAMPLE 3", "a part or an earlier state of a table is not kept"),
        ("WITH RECURSIVE r AS (SELECT a FROM shop.orders UNION ALL SELECT a + 1 FROM r) SELECT a FROM r", "RECURSIVE"),
        ("SELECT _firn_pos AS p FROM shop.orders", "names that begin with _firn_ are Firn's own"),
        ("SELECT a AS _firn_p FROM shop.orders", "names that begin with _firn_ are Firn's own"),
        ("SELECT a FROM shop.orders, (FROM shop.lines)", "it reads 'shop.lines', which does not stand right after"),
        ("SELECT repeat(a, 10) AS r FROM shop.orders", "repeat can make a huge value out of a small one"),
    ],
)
def test_what_no_refresh_could_keep_is_refused_there_too(sql: str, told: str) -> None:
    assert told in problem(sql, full=True)


def test_pipelines_and_views_are_told_together() -> None:
    pipelines = "    pipelines:\n      p: {sql: INSERT INTO shop.p SELECT sum(a) AS a FROM public.lines}\nviews:\n"
    config = parse(text("SELECT foo(a) AS b FROM shop.lines").replace("views:\n", pipelines))
    with pytest.raises(ConfigError) as raised:
        check_sql(config, "x.yaml")
    assert [line.partition(".sql")[0] for line in str(raised.value).splitlines()] == [
        "x.yaml:9: streams.shop.pipelines.p",
        "x.yaml:11: views.v.a0",
    ]
    for one in (check_pipelines, check_views):
        with pytest.raises(ConfigError):
            one(config)


def test_a_check_of_much_costs_little() -> None:
    columns = ", ".join(f"{'a' * 10}{i}" for i in range(6_000))
    wide = f"SELECT {columns} FROM shop.lines"
    assert 90_000 < len(wide) < 100_000
    joined = f"SELECT {', '.join(f'a{i} AS b{i}' for i in range(300))} FROM shop.lines t0 " + " ".join(
        f"JOIN shop.lines t{i} ON t{i}.x = t0.x" for i in range(1, 39)
    )
    ands = "SELECT a FROM shop.lines WHERE " + " AND ".join(f"a{i} = 1" for i in range(4_000))
    for sql in (wide, joined, ands):
        started = time.process_time()
        check_sql(parse(text(sql)))
        assert time.process_time() - started < 20


def test_a_thousand_views_are_checked_in_seconds() -> None:
    chain = [f"SELECT a, b + 1 AS b FROM v.a{i + 1}" if i < 299 else "SELECT a, b FROM shop.lines" for i in range(300)]
    started = time.process_time()
    check_sql(parse(text(*chain)))
    assert time.process_time() - started < 20
    assert "views.v.a0.sql: line 1, column 8: there is no column 'c'" in problem("SELECT c FROM v.a1", *chain[1:])
