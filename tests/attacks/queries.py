"""Queries that somebody could send to stop the query function or to take its machine, and what each may be answered."""

from typing import Final, NamedTuple

LONG: Final = "repeat('x', 100_000_000)"
MANY: Final = "range(500_000_000)"


class Attack(NamedTuple):
    """A SELECT and the statuses that are right for it. `short`: it runs in CI, and not only in the long run."""

    sql: str
    statuses: tuple[int, ...] = (413,)
    short: bool = False
    format: str = "json"


# Those that took the machine when the function ran them itself, with what they took then.
KNOWN: Final = {
    "a list of numbers (6.4 GB)": Attack(f"SELECT {MANY} AS x", short=True),
    "lpad (3.1 GB)": Attack("SELECT lpad('x', 1_500_000_000, 'y') AS x", short=True),
    "levenshtein (29 s)": Attack("SELECT levenshtein(repeat('a', 200_000), repeat('b', 200_000)) AS x", short=True),
    "format (29 s)": Attack("SELECT format('{:>2000000000}', 1) AS x", short=True),
    "wide rows (3.2 GB)": Attack("SELECT repeat('x', 900_000) || i AS x FROM range(900) t(i)", (200, 413), short=True),
    "a long literal (30 s)": Attack(f"SELECT [{','.join(map(str, range(150_000)))}] AS x", short=True),
    "brackets": Attack(f"SELECT {'(' * 50_000}1{')' * 50_000} AS x", (400, 413), short=True),
    "lists in lists": Attack(f"SELECT {'[' * 900}1{']' * 900} AS x", (400, 413), short=True),
    "many conditions": Attack(f"SELECT {' OR '.join(['1 = 2'] * 20_000)} AS x", (200, 400, 413)),
    "many unions": Attack(" UNION ALL ".join(["SELECT 1 AS x"] * 5_000), (200, 400, 413)),
    "many subqueries": Attack(f"{'SELECT * FROM (' * 400}SELECT 1 AS x{')' * 400}", (200, 400, 413)),
    "casts in casts": Attack(f"SELECT {'CAST(' * 900}1{' AS INT)' * 900} AS x", (200, 400, 413)),
    "minus": Attack(f"SELECT {'- ' * 90_000}1 AS x", (400, 413)),
    "not": Attack(f"SELECT {'NOT ' * 40_000}true AS x", (400, 413)),
    "arrows": Attack(f"SELECT x{'.a' * 50_000} FROM (SELECT 1 AS x) t", (400, 413)),
}

# Fifty and more of duckdb_functions(): those that make much of little, or look at each against each.
FUNCTIONS: Final = {
    "range": Attack(f"SELECT count(*) AS x FROM {MANY} a, {MANY} b"),
    "generate_series": Attack("SELECT generate_series(1, 2_000_000_000) AS x"),
    "generate_series of moments": Attack(
        "SELECT generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2026-01-01', INTERVAL 1 MILLISECOND) AS x"
    ),
    "repeat": Attack("SELECT repeat('x', 3_000_000_000) AS x", (400, 413)),
    "repeat of a list": Attack("SELECT repeat([1, 2, 3], 900_000_000) AS x", (400, 413)),
    "rpad": Attack("SELECT rpad('x', 1_900_000_000, 'y') AS x"),
    "printf": Attack("SELECT printf('%1900000000d', 1) AS x"),
    "bar": Attack("SELECT bar(1, 0, 1, 1_000_000_000) AS x", (400, 413)),
    "replace": Attack("SELECT length(replace(repeat('x', 1_000_000), 'x', repeat('y', 5_000))) AS x"),
    "translate": Attack(f"SELECT length(translate({LONG}, 'x', 'yz')) AS x", (200, 413)),
    "concat": Attack(f"SELECT concat({', '.join([LONG] * 30)}) AS x"),
    "concat_ws": Attack(f"SELECT concat_ws({LONG}, {', '.join(['1'] * 40)}) AS x"),
    "string_agg": Attack("SELECT string_agg(repeat('x', 100_000), ',') AS x FROM range(40_000)"),
    "list": Attack("SELECT list(i) AS x FROM range(300_000_000) t(i)"),
    "listagg": Attack("SELECT listagg(repeat('x', 1_000_000), ',') AS x FROM range(4_000)"),
    "histogram": Attack("SELECT histogram(i) AS x FROM range(100_000_000) t(i)"),
    "map_from_entries": Attack("SELECT map_from_entries(list((i, i))) AS x FROM range(100_000_000) t(i)"),
    "mode": Attack("SELECT mode(i) AS x FROM range(300_000_000) t(i)"),
    "quantile_disc": Attack("SELECT quantile_disc(i, 0.5) AS x FROM range(500_000_000) t(i)"),
    "median": Attack("SELECT median(hash(i)) AS x FROM range(500_000_000) t(i)"),
    "mad": Attack("SELECT mad(i) AS x FROM range(400_000_000) t(i)"),
    "max of many": Attack("SELECT max(i, 900_000) AS x FROM range(300_000_000) t(i)", (200, 413)),
    "arg_max of many": Attack("SELECT arg_max(repeat('x', 10_000), i, 900_000) AS x FROM range(10_000_000) t(i)"),
    "approx_top_k": Attack("SELECT approx_top_k(i, 100_000) AS x FROM range(50_000_000) t(i)", (200, 400, 413)),
    "entropy": Attack("SELECT entropy(i) AS x FROM range(200_000_000) t(i)"),
    "bitstring_agg": Attack(
        "SELECT bit_count(bitstring_agg(i, 0, 20_000_000_000)) AS x FROM range(2) t(i)", (200, 400, 413)
    ),
    "bitstring": Attack("SELECT bit_count(bitstring('1', 2_000_000_000)) AS x", (200, 400, 413)),
    "count of distinct": Attack("SELECT count(DISTINCT i) AS x FROM range(500_000_000) t(i)"),
    "json_group_array": Attack("SELECT json_group_array(repeat('x', 10_000)) AS x FROM range(400_000)"),
    "json_array in itself": Attack(
        "WITH RECURSIVE t AS (SELECT json_array(1) AS x, 0 AS n UNION ALL "
        "SELECT json_array(x, x), n + 1 FROM t WHERE n < 60) SELECT max(length(x)) AS x FROM t"
    ),
    "json of depth": Attack(
        "SELECT json_structure(repeat('[', 2_000_000) || repeat(']', 2_000_000)) AS x", (200, 400, 413), short=True
    ),
    "json_transform": Attack(
        "SELECT json_transform(repeat('[', 100_000) || repeat(']', 100_000), '\"JSON\"') AS x", (200, 400, 413)
    ),
    "json_extract": Attack("SELECT json_extract('{}', '$' || repeat('.a', 5_000_000)) AS x", (200, 400, 413)),
    "json_merge_patch": Attack(
        "SELECT json_merge_patch(x, x) AS x "
        "FROM (SELECT repeat('{\"a\":', 500_000) || '1' || repeat('}', 500_000) AS x)",
        (200, 400, 413),
    ),
    "json_serialize_sql": Attack(
        "SELECT json_serialize_sql('SELECT ' || repeat('(', 1_000_000)) AS x", (200, 400, 413)
    ),
    "json_execute_serialized_sql": Attack(
        f"FROM json_execute_serialized_sql(json_serialize_sql('SELECT {MANY} AS x'))"
    ),
    "query": Attack(f"FROM query('SELECT {MANY} AS x')"),
    "query of long text": Attack(
        "FROM query('SELECT ' || repeat('(', 50_000) || '1' || repeat(')', 50_000))", (400, 413)
    ),
    "regexp_matches": Attack(
        "SELECT regexp_matches(repeat('a', 20_000_000), '((a{1,9}){1,9}){1,9}$') AS x", (200, 400, 413)
    ),
    "regexp_extract_all": Attack(f"SELECT regexp_extract_all({LONG}, '.') AS x"),
    "regexp_replace": Attack(f"SELECT length(regexp_replace({LONG}, 'x', repeat('y', 100), 'g')) AS x"),
    "regexp_split_to_array": Attack(f"SELECT regexp_split_to_array({LONG}, 'x') AS x"),
    "string_split": Attack(f"SELECT string_split({LONG}, 'x') AS x"),
    "damerau_levenshtein": Attack("SELECT damerau_levenshtein(repeat('a', 60_000), repeat('b', 60_000)) AS x"),
    "jaro_winkler_similarity": Attack(
        "SELECT jaro_winkler_similarity(repeat('ab', 400_000), repeat('ba', 400_000)) AS x", (200, 413)
    ),
    "jaccard": Attack(f"SELECT jaccard({LONG}, {LONG}) AS x", (200, 413)),
    "to_base64": Attack(f"SELECT to_base64(({LONG} || {LONG} || {LONG})::BLOB) AS x", (200, 413)),
    "hex": Attack(f"SELECT hex(hex(hex(hex({LONG})))) AS x"),
    "bin": Attack(f"SELECT bin({LONG}) AS x", (200, 413)),
    "url_encode": Attack("SELECT length(url_encode(url_encode(repeat('%', 200_000_000)))) AS x", (200, 413)),
    "strftime": Attack("SELECT length(strftime(DATE '2026-01-01', repeat('%A', 50_000_000))) AS x", (200, 400, 413)),
    "nfc_normalize": Attack("SELECT length(nfc_normalize(repeat('é', 100_000_000))) AS x", (200, 413)),
    "icu_sort_key": Attack("SELECT length(icu_sort_key(repeat('é', 50_000_000), 'de')) AS x", (200, 413)),
    "sha256": Attack(f"SELECT sha256({LONG} || i) AS x FROM range(100) t(i)"),
    "list_resize": Attack("SELECT list_resize([1], 2_000_000_000, 0) AS x", (400, 413), short=True),
    "list_transform": Attack("SELECT list_transform(range(2_000_000), lambda a: list_sum(range(a))) AS x", (413,)),
    "list_reduce": Attack("SELECT list_reduce(range(1_000_000)::VARCHAR[], lambda a, b: a || b) AS x", (413,)),
    "list_sort": Attack("SELECT list_sort(list_transform(range(200_000_000), lambda a: hash(a)))[1] AS x"),
    "list_distinct": Attack("SELECT len(list_distinct(range(200_000_000))) AS x"),
    "list_aggregate": Attack("SELECT list_aggregate(range(200_000_000), 'string_agg', ',') AS x"),
    "list_intersect": Attack("SELECT list_intersect(range(100_000_000), range(100_000_000)) AS x"),
    "list_zip": Attack("SELECT list_zip(range(100_000_000), range(100_000_000)) AS x"),
    "list_concat": Attack(
        "WITH RECURSIVE t AS (SELECT [1] AS x, 0 AS n UNION ALL SELECT list_concat(x, x), n + 1 FROM t WHERE n < 40) "
        "SELECT max(len(x)) AS x FROM t"
    ),
    "arrays": Attack("SELECT range(100_000)::INT[100000] AS x FROM range(20_000)"),
    "list_cosine_similarity": Attack(
        "SELECT list_cosine_similarity(range(100_000_000)::DOUBLE[], range(100_000_000)::DOUBLE[]) AS x", (200, 413)
    ),
    "unnest": Attack(
        "SELECT count(DISTINCT x || y) AS x "
        "FROM (SELECT unnest(range(30_000)) AS x), (SELECT unnest(range(30_000)) AS y)"
    ),
    "recursion": Attack("WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT max(x) AS x FROM t"),
    "recursion that grows": Attack(
        "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t, range(10)) SELECT max(x) AS x FROM t",
        short=True,
    ),
    "a window": Attack(
        "SELECT max(x) AS x FROM (SELECT count(i) OVER (ORDER BY hash(i) ROWS 1_000_000 PRECEDING) AS x "
        "FROM range(100_000_000) t(i))"
    ),
    "a sort": Attack("SELECT i FROM range(500_000_000) t(i) ORDER BY hash(i) OFFSET 400_000_000 LIMIT 1"),
    "a join": Attack(
        "SELECT count(*) AS x FROM range(1_000_000) a(i) "
        "JOIN range(1_000_000) b(j) ON levenshtein(i::VARCHAR, j::VARCHAR) < 2"
    ),
    "tablesample": Attack(
        "SELECT count(*) AS x FROM (SELECT repeat('x', 1_000) FROM range(50_000_000) USING SAMPLE 9_000_000 ROWS)",
        (200, 400, 413),
    ),
    "a pivot": Attack(
        "SELECT * FROM (PIVOT (SELECT i, i AS j FROM range(20_000) t(i)) "
        "ON i IN (SELECT i FROM range(20_000) t(i)) USING sum(j))",
        (400, 413),
    ),
    "factorial": Attack("SELECT factorial(1_000_000_000) AS x", (400, 413)),
    "bignum": Attack("SELECT (repeat('9', 2_000_000)::BIGNUM)::VARCHAR AS x", (200, 400, 413)),
    "decimals": Attack("SELECT sum(9e37::DECIMAL(38, 0)) AS x FROM range(1_000_000)", (400, 413)),
    "sleep_ms": Attack("SELECT sleep_ms(600_000) AS x"),
    "pg_sleep": Attack("SELECT pg_sleep(600) AS x"),
    "repeat_row": Attack("FROM repeat_row(1, 2, num_rows = 2_000_000_000)"),
    "gen_random_uuid": Attack("SELECT max(gen_random_uuid()) AS x FROM range(2_000_000_000)"),
    "test_all_types": Attack("FROM test_all_types()", (422,)),
    "test_vector_types": Attack("FROM test_vector_types(NULL::INT[][][][][][][][][])", (200, 400, 413)),
    "wide rows as Parquet": Attack(
        "SELECT repeat('x', 900_000) || i AS x FROM range(900) t(i)", (200, 413), format="parquet"
    ),
    "wide rows as Arrow": Attack(
        "SELECT repeat('x', 900_000) || i AS x FROM range(900) t(i)", (200, 413), format="arrow"
    ),
    "many rows as CSV": Attack("SELECT i AS a, i AS b, i AS c FROM range(1_000_000) t(i)", (200,), format="csv"),
    "many rows as JSON": Attack("SELECT i AS a, i AS b, i AS c FROM range(1_000_000) t(i)", (200,), format="json"),
}
