"""Every SQL that a pipeline can't have gets its own reason, with line and column, before any job sees it."""

import pytest

from firn.config.reader import parse
from firn.config.sql_text import MAX_BYTES, SqlRefused
from firn.errors import ConfigError
from firn_sql.check import check
from firn_sql.configured import check_pipelines
from firn_sql.mirrors import key_columns

DEEP = 5_000
REFUSED = {
    "several events": [
        "SELECT sum(a) FROM c",
        "SELECT count(*) FROM c",
        "SELECT count(DISTINCT a) FROM c",
        "SELECT avg(a) AS b FROM c",
        "SELECT string_agg(a, ',') FROM c",
        "SELECT list(a) FROM c",
        "SELECT array_agg(a) FROM c",
        "SELECT max(a) FROM c",
        "SELECT first(a) FROM c",
        "SELECT any_value(a) FROM c",
        "SELECT sum(a) FILTER (WHERE b) FROM c",
        "SELECT json_group_array(a) FROM c",
        "SELECT median(a) FROM c",
        "SELECT histogram(a) FROM c",
        "SELECT a FROM c GROUP BY a",
        "SELECT a FROM c GROUP BY ALL",
        "SELECT a FROM c GROUP BY ROLLUP (a)",
        "SELECT a FROM c GROUP BY GROUPING SETS ((a), ())",
        "SELECT a FROM c HAVING a > 1",
        "SELECT row_number() OVER () FROM c",
        "SELECT a, lag(a) OVER (ORDER BY b) FROM c",
        "SELECT sum(a) OVER (PARTITION BY b) FROM c",
        "SELECT rank() OVER w FROM c WINDOW w AS (ORDER BY a)",
        "SELECT a FROM c QUALIFY row_number() OVER () = 1",
        "SELECT a FROM c ORDER BY a",
        "SELECT a FROM c ORDER BY ALL",
        "SELECT a FROM (SELECT a FROM c ORDER BY a)",
        "SELECT a FROM c LIMIT 5",
        "SELECT a FROM c LIMIT 10%",
        "SELECT a FROM c OFFSET 5",
        "SELECT DISTINCT a FROM c",
        "SELECT DISTINCT ON (a) a FROM c",
        "SELECT ALL a FROM c",
        "WITH w AS (SELECT DISTINCT a FROM c) SELECT * FROM w",
        "SELECT a FROM c USING SAMPLE 10%",
        "SELECT a FROM c TABLESAMPLE 10%",
        "SELECT a FROM c USING SAMPLE 3 ROWS",
        "SELECT approx_count_distinct(a) FROM c",
        "SELECT arg_max(a, b) FROM c",
        "SELECT quantile_cont(a, 0.5) FROM c",
    ],
    "other tables": [
        "SELECT a FROM c, d",
        "SELECT a FROM c JOIN d ON true",
        "SELECT a FROM c CROSS JOIN d",
        "SELECT a FROM c, c AS e",
        "SELECT a FROM c NATURAL JOIN c AS e",
        "SELECT a FROM c LEFT JOIN d USING (a)",
        "SELECT a FROM c ASOF JOIN d USING (a)",
        "SELECT a FROM c SEMI JOIN d USING (a)",
        "SELECT a FROM c POSITIONAL JOIN d",
        "SELECT a FROM c LATERAL JOIN d",
        "SELECT (SELECT max(a) FROM c) FROM c",
        "SELECT a FROM c WHERE a IN (SELECT a FROM c)",
        "SELECT a FROM c WHERE EXISTS (SELECT 1 FROM c)",
        "SELECT a FROM c WHERE a = ANY (SELECT a FROM c)",
        "SELECT a FROM c WHERE a = ANY([1, 2])",
        "SELECT ARRAY(SELECT a FROM c) FROM c",
        "SELECT a FROM c UNION SELECT a FROM c",
        "SELECT a FROM c UNION ALL SELECT a FROM c",
        "SELECT a FROM c EXCEPT SELECT b FROM c",
        "SELECT a FROM c INTERSECT SELECT b FROM c",
        "SELECT a FROM c UNION BY NAME SELECT b FROM c",
        "WITH RECURSIVE w AS (SELECT a FROM c UNION ALL SELECT a FROM w) SELECT a FROM w",
        "WITH RECURSIVE w AS (SELECT a FROM c) SELECT a FROM w, w AS v",
        "WITH w AS (SELECT a FROM c) SELECT a FROM w, c",
        "WITH c AS (SELECT a FROM c) SELECT a FROM c",
        "SELECT a FROM information_schema.tables, c",
        "SELECT a FROM c JOIN duckdb_settings() ON true",
        "SELECT a FROM c, pg_catalog.pg_tables",
        "SELECT a FROM c, UNNEST(c.l) AS t(x)",
        "SELECT a FROM c CROSS JOIN UNNEST(l)",
        "SELECT a FROM c AS t(x, y)",
        "WITH w(x) AS (SELECT a FROM c) SELECT x FROM w",
        "SELECT a FROM c AT (VERSION => 1)",
        "SELECT a FROM (VALUES (1)) AS v(a)",
        "SELECT a FROM range(5)",
        "SELECT 1",
        "SELECT 1 FROM (SELECT 2)",
        "SELECT a FROM generate_series(1, 10)",
        "SELECT * FROM c PIVOT (sum(a) FOR b IN (1))",
        "SELECT a FROM a.b.c.d.e",
        "SELECT a FROM 'file.parquet'",
        'SELECT a FROM "*"',
    ],
    "files": [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT a FROM c, read_text('/etc/passwd')",
        "SELECT * FROM glob('*')",
        "SELECT * FROM read_parquet('s3://x')",
        "SELECT * FROM c JOIN read_json('x') ON true",
        "SELECT a FROM sniff_csv('x')",
        "SELECT * FROM parquet_metadata('x')",
        "SELECT a FROM query('SELECT 1')",
        "SELECT * FROM iceberg_scan('x')",
        "SELECT read_blob('x') FROM c",
        "SELECT * FROM query_table('c')",
        "SELECT * FROM pragma_version()",
    ],
    "system": [
        "SELECT getenv('HOME') FROM c",
        "SELECT current_setting('threads') FROM c",
        "SELECT version() FROM c",
        "SELECT current_database() FROM c",
        "SELECT current_user FROM c",
        "SELECT current_schema FROM c",
        "SELECT pg_typeof(a) FROM c",
        "SELECT current_query() FROM c",
        "SELECT txid_current() FROM c",
        "SELECT getvariable('x') FROM c",
        "SELECT pg_sleep(10) FROM c",
        "SELECT sleep_ms(10) FROM c",
        "SELECT write_log('x') FROM c",
        "SELECT json_serialize_sql('SELECT 1') FROM c",
        "SELECT json_execute_serialized_sql(a) FROM c",
        "SELECT has_table_privilege('x', 'y') FROM c",
        "SELECT inet_client_addr() FROM c",
        "SELECT session_user FROM c",
    ],
    "clock and chance": [
        "SELECT random() FROM c",
        "SELECT uuid() FROM c",
        "SELECT gen_random_uuid() FROM c",
        "SELECT nextval('s') FROM c",
        "SELECT setseed(0.5) FROM c",
        "SELECT today() FROM c",
        "SELECT current_date FROM c",
        "SELECT current_time FROM c",
        "SELECT localtimestamp FROM c",
        "SELECT age(a) FROM c",
        "SELECT get_current_time() FROM c",
        "SELECT hash(a) FROM c",
        "SELECT error('x') FROM c",
        "SELECT uuidv7() FROM c",
        "SELECT ago(a) FROM c",
    ],
    "memory": [
        "SELECT repeat('x', 1000000000) FROM c",
        "SELECT lpad(a, 1000000000, 'x') FROM c",
        "SELECT rpad(a, b, 'x') FROM c",
        "SELECT range(1000000000) FROM c",
        "SELECT generate_series(1, 1000000000) FROM c",
        "SELECT list_resize(a, 100000000) FROM c",
        "SELECT format('{:1000000000}', a) FROM c",
        "SELECT printf('%1000000000d', a) FROM c",
        "SELECT bar(a, 0, 1, 1000000) FROM c",
        "SELECT to_base(a, 2, 1000000000) FROM c",
        "SELECT levenshtein(a, b) FROM c",
        "SELECT list_transform(a, lambda x: list_transform(a, lambda y: x + y)) FROM c",
        "SELECT a || a AS b0, " + ", ".join(f"b{n} || b{n} AS b{n + 1}" for n in range(40)) + " FROM c",
    ],
    "statements": [
        "COPY c TO 'x'",
        "ATTACH 'x' AS y",
        "PRAGMA threads=4",
        "SET threads = 4",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CREATE TABLE x AS SELECT a FROM c",
        "CREATE MACRO f(a) AS a",
        "DROP TABLE c",
        "DELETE FROM c",
        "UPDATE c SET a = 1",
        "CALL pragma_version()",
        "EXPLAIN SELECT a FROM c",
        "EXPORT DATABASE 'x'",
        "CHECKPOINT",
        "VACUUM",
        "BEGIN",
        "PREPARE p AS SELECT a FROM c",
        "EXECUTE p",
        "USE x",
        "DESCRIBE c",
        "SUMMARIZE c",
        "FROM c",
        "FROM c SELECT a",
        "SELECT a FROM c; SELECT a FROM c",
        "SELECT a FROM c; DROP TABLE c",
        "SELECT a FROM c;;; COPY c TO 'x'",
        "INSERT INTO w.x VALUES (1)",
        "INSERT INTO w.x DEFAULT VALUES",
        "INSERT INTO w.x (a) SELECT a FROM c",
        "INSERT INTO x SELECT a FROM c",
        "INSERT INTO a.b.c SELECT a FROM c",
        "INSERT w.x SELECT a FROM c",
        "INSERT OR REPLACE INTO w.x SELECT a FROM c",
        "INSERT INTO w.x SELECT a FROM c ON CONFLICT DO NOTHING",
        "INSERT INTO w.x SELECT a FROM c RETURNING a",
        "INSERT INTO w.x BY NAME SELECT a FROM c",
        'INSERT INTO w."a.b" SELECT a FROM c',
        "WITH w AS (SELECT a FROM c) INSERT INTO x.y SELECT a FROM w",
        "WITH w AS (DELETE FROM c RETURNING a) SELECT a FROM w",
        "TABLE c",
        "VALUES (1)",
        "(SELECT a FROM c)",
        "PIVOT c ON a",
        "UNPIVOT c ON a INTO NAME n VALUE v",
        "SHOW TABLES",
    ],
    "expressions": [
        "SELECT ? FROM c",
        "SELECT $1 FROM c",
        "SELECT $name FROM c",
        "SELECT #1 FROM c",
        "SELECT COLUMNS('a.*') FROM c",
        "SELECT COLUMNS(*) + 1 FROM c",
        "SELECT * LIKE 'a%' FROM c",
        "SELECT *, * FROM c",
        "SELECT *COLUMNS(a) FROM c",
        "SELECT a COLLATE nocase FROM c",
        "SELECT a::geometry FROM c",
        "SELECT a::nothing FROM c",
        "SELECT CAST(a AS ENUM('x')) FROM c",
        "SELECT a.lower() FROM c",
        "SELECT main.lower(a) FROM c",
        "SELECT lowr(a) FROM c",
        "SELECT nothing_like_it(a) FROM c",
        "SELECT list_transform(a, x -> x + 1) FROM c",
        "SELECT _firn_row FROM c",
        "SELECT a AS _firn_id FROM c",
        "SELECT c._firn_pos FROM c",
        "WITH _firn_x AS (SELECT a FROM c) SELECT a FROM _firn_x",
        "SELECT coalesce(*) FROM c",
        "SELECT unnest(a, recursive := true) FROM c",
        "SELECT lower(DISTINCT a) FROM c",
        "SELECT lower(a ORDER BY b) FROM c",
        "SELECT grouping(a) FROM c",
        "SELECT DEFAULT FROM c",
    ],
    "text": [
        "",
        " \n\t",
        "-- only a comment",
        "/* only a comment */",
        ";",
        "SELECT",
        "SELECT FROM c",
        "SELECT a, FROM",
        "SELECT a FROM",
        "INSERT",
        "INSERT INTO",
        "INSERT INTO w.x",
        "SELECT 'abc FROM c",
        'SELECT "abc FROM c',
        "SELECT a FROM c /* x",
        "SELECT a /* /* */ */ FROM c",
        "SELECT a FROM c WHERE",
        "SELECT a FROM c)",
        "SELECT (a FROM c",
        "SELECT a b c FROM c",
        "SELECT '\0' FROM c",
        "SELECT a\0 FROM c",
        "SELECT\N{NO-BREAK SPACE}a FROM c",
        "SELECT a FROM c\N{ZERO WIDTH SPACE}",
        "SELECT a FROM c -- x\rLIMIT 1",
        "SELECT \N{LEFT DOUBLE QUOTATION MARK}a FROM c",
        "SELECT `a` FROM c",
        "SELECT E'a\\n' FROM c",
        "SELECT $$a$$ FROM c",
        "SELECT $x$a$x$ FROM c",
        "SELECT X'00' FROM c",
        "SELECT U&'a' FROM c",
        "SELECT \ud800 FROM c",
        'SELECT "" FROM c',
        "SELECT a \\ b FROM c",
        "SELECT a FROM c WHERE a == = b",
        "SELEC a FROM c",
        "SELECT a FROM c FOR UPDATE",
        "SELECT '" + "x" * MAX_BYTES + "' FROM c",
        "SELECT a FROM c -- " + "x" * 1_000_000,
        "SELECT " + "a, " * 50_000 + "a FROM c",
        "SELECT " + "é" * 60_000 + " FROM c",
    ],
    "depth": [
        "SELECT " + "(" * DEEP + "1" + ")" * DEEP + " FROM c",
        "SELECT " + "NOT " * DEEP + "a FROM c",
        "SELECT " + "- " * DEEP + "a FROM c",
        "SELECT " + " + ".join(["a"] * DEEP) + " FROM c",
        "SELECT " + "||".join(["a"] * DEEP) + " FROM c",
        "SELECT a" + "::INT" * DEEP + " FROM c",
        "SELECT " + "CASE WHEN a THEN " * 2_000 + "1" + " END" * 2_000 + " FROM c",
        "SELECT " + "[" * DEEP + "]" * DEEP + " FROM c",
        "SELECT a" + "[1]" * DEEP + " FROM c",
        "SELECT a" + "->'b'" * 4_000 + " FROM c",
        "SELECT a FROM " + "(SELECT a FROM " * 200 + "c" + ")" * 200,
        "SELECT a::" + "STRUCT(a " * DEEP + "INT" + ")" * DEEP + " FROM c",
        "SELECT " + "lower(" * DEEP + "a" + ")" * DEEP + " FROM c",
        "WITH w0 AS (SELECT a FROM c), "
        + ", ".join(f"w{n + 1} AS (SELECT a FROM w{n})" for n in range(900))
        + " SELECT a FROM w900",
        "SELECT a" + " IS NULL" * DEEP + " FROM c",
        "SELECT " + "-" * 90_000 + "1 FROM c",
    ],
}
EACH = [pytest.param(sql, id=f"{kind}: {sql[:60]!r}") for kind, all_of_it in REFUSED.items() for sql in all_of_it]


def test_there_are_many() -> None:
    assert len(EACH) > 200
    assert len({param.values[0] for param in EACH}) == len(EACH)


@pytest.mark.parametrize("sql", EACH)
def test_it_is_refused_with_its_place_and_what_to_write(sql: str) -> None:
    with pytest.raises(SqlRefused) as raised:
        check(sql)
    refused = raised.value
    lines = sql.replace("\r\n", "\n").split("\n")
    assert 1 <= refused.line <= len(lines)
    assert 1 <= refused.column <= len(lines[refused.line - 1]) + 1
    assert str(refused) == f"line {refused.line}, column {refused.column}: {refused.reason}; {refused.instead}"
    assert 0 < len(refused.reason) < 700
    assert refused.instead


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT id,\n  sum(a) AS a\nFROM c", "line 2, column 3: sum looks at several rows"),
        ("INSERT INTO w.x SELECT ä, getenv('x') FROM c", "line 1, column 27: getenv tells of the machine"),
        ("SELECT a FROM c\nLIMIT 3", "line 2, column 7: LIMIT counts rows"),
        ("SELECT a FROM c WHERE b > random()", "column 27: random gives another value each time"),
        ("SELECT lowr(a) FROM c", "lowr is not one of the functions that pipelines have; write lower"),
        ("SELECT a FROM c, d", "line 1, column 18: it reads c and d, and a pipeline reads one source table"),
        ("SELECT * FROM read_csv('x')", "nothing says which source table it reads"),
        ("SELECT a FROM c JOIN read_csv('x') ON true", "column 22: a pipeline joins tables of Firn alone; write"),
        ("SELECT k.a FROM c k RIGHT JOIN s.d ON k.a = d.a", "column 21: a RIGHT JOIN gives rows that no event made"),
        ("SELECT k.a FROM c k FULL JOIN s.d ON k.a = d.a", "a FULL JOIN gives rows that no event made; write JOIN"),
        ("SELECT k.a FROM c k SEMI JOIN s.d ON k.a = d.a", "a SEMI JOIN is not for pipelines"),
        ("SELECT k.a FROM c k CROSS JOIN s.d", "a CROSS JOIN says no columns that are equal"),
        ("SELECT k.a FROM c k NATURAL JOIN s.d", "a NATURAL JOIN says no columns that are equal"),
        ("SELECT k.a FROM c k ASOF JOIN s.d ON k.a >= d.a", "a ASOF JOIN says no columns that are equal"),
        ("SELECT k.a FROM c k JOIN s.d USING (a)", "USING leaves open which table a column is of"),
        ("SELECT k.a FROM c k JOIN s.d ON k.a > d.a", "column 33: ON takes columns that are equal; write k.column"),
        ("SELECT k.a FROM c k JOIN s.d ON k.a = d.a AND d.b", "ON takes columns that are equal"),
        ("SELECT k.a FROM c k JOIN s.d ON k.a = d.a OR k.b = d.b", "ON takes columns that are equal"),
        ("SELECT k.a FROM c k JOIN s.d ON k.a + 1 = d.a", "ON takes columns that are equal"),
        ("SELECT k.a FROM c k JOIN s.d ON k.a = k.b", "a column of the joined table and one to the left of it"),
        ("SELECT k.a FROM c k JOIN s.d ON a = d.a", "ON takes columns that are equal"),
        ("SELECT b FROM c k JOIN s.d ON k.a = d.a", "column 8: 'b' does not say which table it is of; write one of k"),
        ("SELECT s.d.b FROM c k JOIN s.d ON k.a = d.a", "'s.d.b' does not say which table it is of"),
        ("SELECT k FROM c k JOIN s.d ON k.a = d.a", "'k' does not say which table it is of"),
        ("SELECT d FROM c k JOIN s.d ON k.a = d.a", "'d' does not say which table it is of"),
        ("SELECT * FROM c k JOIN s.d ON k.a = d.a", "columns of the joined table; write k.*"),
        ("SELECT d.* FROM c k JOIN s.d ON k.a = d.a", "* beside a join would change with the columns of the joined"),
        ("SELECT k.a FROM c k JOIN s.d k ON k.a = k.a", "two tables are called 'k'"),
        ("SELECT 1 FROM (SELECT a FROM c) JOIN s.d ON a = d.a", "the SELECT on the left has no name"),
        ("SELECT q.a FROM (SELECT k.a FROM c k JOIN s.d ON k.a = d.a) q", "a join stands in a SELECT within another"),
        ("WITH q AS (SELECT k.a FROM c k JOIN s.d ON k.a = d.a) SELECT a FROM q", "a join stands in a SELECT within"),
        ("SELECT k.a FROM c k JOIN s.d ON k.a = d._firn_pos", "names that begin with _firn_ are Firn's own"),
        ("SELECT d._firn_id FROM c k JOIN s.d ON k.a = d.a", "names that begin with _firn_ are Firn's own"),
        ("SELECT k.a FROM c k JOIN s.d AT (VERSION => 1) ON k.a = d.a", "a joined table stands alone"),
        ("SELECT a FROM c; DROP TABLE c", "line 1, column 18: a second statement begins here"),
        ("COPY c TO 'x'", "a pipeline can't begin with COPY; write INSERT INTO"),
        ("SELECT 'a\n\nFROM c", "line 1, column 8: a text begins here and does not end"),
        ("SELECT a /* x */ FROM c /* y", "line 1, column 25: a comment begins here"),
        ("SELECT a\0 FROM c", "line 1, column 9: the character NUL is no part of SQL"),
        ("SELECT 'x' || '\0' FROM c", "line 1, column 16: the character NUL"),
        ("SELECT\N{NO-BREAK SPACE}a FROM c", "the character U+00A0 looks like a space"),
        ("SELECT " + "lower(" * 200 + "a" + ")" * 200 + " FROM c", "nested more than 100 deep"),
        ("SELECT '" + "x" * 200_000 + "' FROM c", "the SQL has 200,016 bytes, and 100,000 are the most"),
        ("WITH RECURSIVE w AS (SELECT a FROM c UNION ALL SELECT a FROM w) SELECT a FROM w", "may never end"),
        ("SELECT list_transform(l, x -> x + 1) AS m FROM c", "write lambda x: …"),
        ("SELECT CAST(a AS text_array) FROM c", "text_array is not a type of pipelines"),
        ("SELECT a FROM c FOR UPDATE", "DuckDB can't read it"),
    ],
)  # fmt: skip
def test_the_reason_says_what_and_where(sql: str, told: str) -> None:
    with pytest.raises(SqlRefused) as raised:
        check(sql)
    assert told in str(raised.value)


def configured(sql: str, more: str = "") -> str:
    body = "\n".join(f"          {line}" for line in sql.splitlines())
    rules = "{clicks: {to: web.clicks, key: [id]}, c: {to: web.c, key: [id]}, logs: {to: web.logs, mode: append}}"
    return f"streams:\n  web:\n    tables: {rules}\n    pipelines:\n      clean:\n        sql: |\n{body}\n{more}"


def test_a_file_with_such_sql_is_refused_where_it_is_written_with_both_lines() -> None:
    text = configured("INSERT INTO web.clean\nSELECT id, sum(name) AS name FROM clicks")
    config = parse(text)  # which knows nothing of functions
    with pytest.raises(ConfigError) as raised:
        check_pipelines(config, "conf/firn.yaml")
    assert str(raised.value).startswith(
        "conf/firn.yaml:6: streams.web.pipelines.clean.sql: line 2, column 12: sum looks at several rows"
    )


@pytest.mark.parametrize(
    ("select", "more", "told"),
    [
        ("id, now() AS at", "", "sql: line 1, column 30: now() would be another time at each recomputation"),
        ("id, UNNEST(l) AS x", "", "sql: line 1, column 30: UNNEST makes several rows of one"),
        ("name", "", "sql: line 1, column 26: the key column id does not pass through unchanged"),
        ("id + 0 AS id", "", "the key column id does not pass through unchanged"),
        ("* EXCLUDE (id)", "", "the key column id does not pass through unchanged"),
        ("* REPLACE (lower(id) AS id)", "", "the key column id does not pass through unchanged"),
        ("o.id AS k", "", "the key column id does not pass through unchanged"),
        (
            "id AS k",
            "        key: [id2]\n",
            "key: the SQL calls the key of clicks [k]; write that",
        ),
    ],
)
def test_a_mirror_needs_its_key_and_nothing_that_changes_by_itself(select: str, more: str, told: str) -> None:
    text = configured(f"INSERT INTO web.clean SELECT {select} FROM clicks".replace("clean SELECT", "m SELECT"), more)
    with pytest.raises(ConfigError) as raised:
        check_pipelines(parse(text + "        mode: mirror\n"))
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("select", "key"),
    [
        ("SELECT * FROM clicks", "id"),
        ("SELECT id AS k, lower(name) AS name FROM clicks WHERE a > 1", "k"),
        ("SELECT * RENAME (id AS k) FROM clicks", "k"),
        ("SELECT k AS j FROM (SELECT ID AS k FROM clicks) AS x", "j"),
        ("WITH w AS (SELECT id, a FROM clicks), v AS (SELECT * FROM w) SELECT v.* FROM v", "id"),
        ("WITH w AS (SELECT * RENAME (id AS k) FROM clicks) SELECT w.k AS id FROM w", "id"),
    ],
)
def test_a_key_may_be_renamed(select: str, key: str) -> None:
    check_pipelines(parse(configured(f"INSERT INTO web.m {select}", "        mode: mirror\n")))
    assert key_columns(check(select), ["id"]) == {"id": key}
