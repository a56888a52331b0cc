"""Readers who may read some tables, of them some columns and rows, and try to read more: over HTTP, through the query
function and its worker, over tables that PyIceberg wrote.

Each try is told what it would be told of a lake that holds nothing but what it may read.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.log.published_configs import publish
from firn.log.store import paths
from firn_lake import query_responses
from firn_lake.query_process import QueryProcess
from tests.attacks.scoped_lake_twins import ALL, KEYS, NUMBER, WORD, Answered, Lakes, made, readers_config
from tests.soak import LONG, few_cases


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakes]:
    """Made once: what a try changes it puts back."""
    process = QueryProcess()
    yield made(process, tmp_path_factory.mktemp("scoped"))
    process.close()


def nothing_hidden(answered: Answered) -> None:
    everything = " ".join([answered.body, json.dumps(answered.headers), answered.log]).lower()
    assert WORD not in everything
    assert str(NUMBER)[:8] not in everything
    assert "vaults" not in everything


# A query, and whether what it is told does not depend on time: then it is compared with what the twin tells.
SEEN: Final = "shop.orders"
TRICKS: Final = [
    "SELECT * FROM shop.orders ORDER BY id",
    "SELECT count(*) AS n FROM shop.orders",
    "SELECT count(*) AS n FROM shop.orders WHERE id > 4",
    "SELECT max(id) AS n, min(status) AS s, sum(amount) AS a, max(number) AS x FROM orders",
    "SELECT approx_count_distinct(status) AS n FROM orders",
    "SELECT * FROM shop.orders WHERE true OR id IN (SELECT id FROM shop.orders) ORDER BY id",
    "SELECT a.id, b.id AS other FROM shop.orders a CROSS JOIN shop.orders b ORDER BY 1, 2",
    "WITH t AS (SELECT * FROM shop.orders) SELECT count(*) AS n FROM t",
    "WITH orders AS (SELECT * FROM shop.orders) SELECT * FROM orders ORDER BY id",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t, orders WHERE n < 3) SELECT count(*) AS c FROM t",
    "SELECT (SELECT string_agg(status, ',' ORDER BY id) FROM shop.orders) AS s",
    "SELECT * FROM (FROM shop.orders) ORDER BY id",
    "FROM shop.orders ORDER BY ALL",
    'SELECT * FROM "shop"."orders" ORDER BY id',
    'SELECT * FROM SHOP."ORDERS" ORDER BY id',
    "SELECT * FROM shop.orders o, LATERAL (SELECT o.status AS t) ORDER BY id",
    "SELECT COLUMNS('.*') FROM shop.orders ORDER BY id",
    "SELECT COLUMNS(c -> c LIKE '%a%') FROM shop.orders ORDER BY ALL",
    "SELECT * EXCLUDE (id) FROM shop.orders ORDER BY ALL",
    "SELECT * REPLACE (status || 'x' AS status) FROM shop.orders ORDER BY id",
    "SELECT to_json(o) AS j FROM shop.orders o ORDER BY id",
    "SELECT o FROM shop.orders o ORDER BY o.id",
    "SELECT struct_pack(*COLUMNS(*)) AS s FROM shop.orders o ORDER BY o.id",
    "SELECT o.* FROM shop.orders o ORDER BY id",
    "SELECT unnest(o) FROM shop.orders o ORDER BY ALL",
    "SELECT row_number() OVER (ORDER BY id) AS n, lead(status) OVER (ORDER BY id) AS s FROM shop.orders ORDER BY 1",
    "SELECT * FROM shop.orders WHERE id >= 0 OFFSET 4",
    "SELECT * FROM shop.orders USING SAMPLE 100 PERCENT (bernoulli)",
    "SELECT histogram(status) AS h FROM shop.orders",
    "SELECT list(status ORDER BY id) AS l FROM shop.orders",
    "SELECT arg_max(status, id) AS s FROM shop.orders",
    "SELECT * FROM shop.orders UNION ALL BY NAME SELECT * FROM shop.orders ORDER BY ALL",
    "SELECT * FROM shop.orders EXCEPT SELECT * FROM shop.orders WHERE id < 5",
    "SELECT * FROM shop.orders SEMI JOIN acme.notes USING (id) ORDER BY id",
    "SELECT * FROM shop.orders ANTI JOIN acme.notes USING (id) ORDER BY id",
    "SELECT * FROM shop.orders FULL JOIN acme.notes USING (id) ORDER BY id",
    "SELECT * FROM shop.orders POSITIONAL JOIN acme.notes ORDER BY ALL",
    "SELECT * FROM (PIVOT shop.orders ON status USING count(id)) ORDER BY ALL",
    "SELECT * FROM (UNPIVOT (SELECT id, status FROM shop.orders) ON status) ORDER BY ALL",
    "SELECT * FROM (SUMMARIZE SELECT id, status FROM shop.orders) ORDER BY ALL",
    "SUMMARIZE shop.orders",
    "DESCRIBE shop.orders",
    "DESCRIBE SELECT * FROM shop.orders",
    "SHOW TABLES",
    "SHOW ALL TABLES",
    "SELECT table_schema, table_name FROM information_schema.tables, shop.orders WHERE id = 1 ORDER BY ALL",
    "SELECT column_name FROM information_schema.columns, shop.orders o WHERE o.id = 1 ORDER BY ALL",
    "SELECT schema_name FROM information_schema.schemata, shop.orders o WHERE o.id = 1 ORDER BY ALL",
    "SELECT table_name, estimated_size FROM duckdb_tables(), shop.orders o WHERE o.id = 1 ORDER BY ALL",
    "SELECT view_name, sql FROM duckdb_views(), shop.orders o WHERE o.id = 1 AND NOT internal ORDER BY ALL",
    "SELECT column_name FROM duckdb_columns(), shop.orders o WHERE o.id = 1 AND NOT internal ORDER BY ALL",
    "SELECT * FROM duckdb_secrets()",
    "SELECT name FROM duckdb_databases(), shop.orders o WHERE o.id = 1",
    "SELECT * FROM pragma_table_info('shop.orders'), shop.orders o WHERE o.id = 1",
    "SELECT * FROM pragma_storage_info('shop.orders'), shop.orders o WHERE o.id = 1",
    "SELECT * FROM pragma_show('orders')",
    "SELECT * FROM sqlite_master",
    "SELECT relname FROM pg_catalog.pg_class, shop.orders o WHERE o.id = 1 ORDER BY ALL",
    "FROM query('SELECT * FROM shop.orders')",
    "FROM query_table('shop.orders')",
    "FROM query_table(['shop.orders', 'vault.ledger'])",
    "FROM query('SELECT * FROM vault.ledger')",
    "SELECT * FROM firn_table_0_0",
    "SELECT o.id FROM firn_table_0_0 t, shop.orders o ORDER BY 1",
    "SELECT * FROM firn_table_1_0, shop.orders",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM vault.ledger'))",
    "SELECT json_serialize_plan('SELECT * FROM shop.orders') AS j",
    # What fails tells a value: of what may be read only.
    "SELECT CAST(status AS INTEGER) FROM shop.orders WHERE id > 900",
    "SELECT CAST(number AS INTEGER) AS n FROM shop.orders ORDER BY 1",
    "SELECT id FROM shop.orders WHERE CAST(number AS INTEGER) > 0 ORDER BY 1",
    "SELECT id FROM shop.orders WHERE TRY_CAST(number AS INTEGER) IS NULL ORDER BY 1",
    "SELECT 1 / amount AS n FROM shop.orders ORDER BY id",
    "SELECT id // (id - 918273645) AS n FROM shop.orders ORDER BY 1",
    "SELECT error(status) FROM shop.orders WHERE id > 100",
    "SELECT CASE WHEN id > 100 THEN error(status) ELSE status END AS s FROM shop.orders ORDER BY 1",
    "SELECT id::TINYINT AS n FROM shop.orders ORDER BY 1",
    "SELECT id FROM shop.orders WHERE id::TINYINT > 0 ORDER BY 1",
    "SELECT sum(id::TINYINT) AS n FROM shop.orders",
    "SELECT strptime(status, '%Y') FROM shop.orders WHERE id > 4",
    "SELECT status::DATE FROM shop.orders WHERE length(status) > 5",
    "SELECT (SELECT status FROM shop.orders WHERE id > 4) AS s",
    "SELECT (SELECT status FROM shop.orders) AS s",
    "SELECT json_extract(status, '$') FROM shop.orders WHERE id > 4",
    "SELECT regexp_matches(status, status || '(') FROM shop.orders WHERE id > 4",
    "SELECT id FROM shop.orders WHERE status LIKE 'z%'",
    "SELECT id FROM shop.orders WHERE amount > 9",
    "SELECT id FROM shop.orders WHERE status IN ('a', 'z') OR id = 5",
    "SELECT factorial(id::INTEGER) AS n FROM shop.orders WHERE id < 3 OR id > 10 ORDER BY 1",
    "SELECT repeat('x', id::INTEGER)::VARCHAR AS n FROM shop.orders WHERE id > 10",
    "SELECT list_extract([1], id) AS n FROM shop.orders ORDER BY id",
    "SELECT amount * 10000000000000000000000000000000 AS n FROM shop.orders WHERE amount > 9",
    # Columns that are not there.
    "SELECT card FROM shop.orders",
    "SELECT tenant_id FROM shop.orders",
    'SELECT "Tenant_ID" FROM shop.orders',
    "SELECT o.card FROM shop.orders o",
    "SELECT id FROM shop.orders WHERE card IS NOT NULL",
    "SELECT id FROM shop.orders WHERE tenant_id = 8",
    "SELECT id FROM shop.orders ORDER BY card",
    "SELECT count(*) FROM shop.orders GROUP BY tenant_id",
    "SELECT id FROM shop.orders QUALIFY row_number() OVER (PARTITION BY tenant_id ORDER BY id) = 1",
    "SELECT _firn_before FROM shop.orders",
    "SELECT COLUMNS('_firn_.*') FROM shop.orders",
    "SELECT COLUMNS('card') FROM shop.orders",
    "SELECT * EXCLUDE (card) FROM shop.orders",
    "SELECT rowid FROM shop.orders",
    "SELECT filename FROM shop.orders",
    "SELECT card FROM (SELECT * FROM shop.orders)",
    "SELECT a.id FROM shop.orders a JOIN shop.orders b USING (tenant_id)",
    "SELECT * FROM shop.orders NATURAL JOIN shop.orders b ORDER BY id",
    "SELECT struct_extract(o, 'card') FROM shop.orders o",
    "SELECT o['card'] FROM shop.orders o",
    # Files, networks, settings, and what else is no table.
    "SELECT * FROM read_parquet('{warehouse}/vault/ledger/data/*.parquet')",
    "SELECT * FROM '{warehouse}/vault/ledger/data/x.parquet'",
    "SELECT * FROM read_text('{warehouse}/../acme.key')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM glob('{warehouse}/**')",
    "SELECT * FROM read_csv('/proc/self/environ')",
    "SELECT * FROM read_json('file:///etc/hostname')",
    "SELECT * FROM parquet_metadata('{warehouse}/vault/ledger/data/x.parquet')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM iceberg_scan('{warehouse}/vault/ledger')",
    "SELECT * FROM sqlite_scan('{warehouse}/../catalog.db', 'iceberg_tables')",
    "SELECT getenv('HOME') AS h",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT current_setting('secret_directory') IS NULL AS s",
    "SELECT current_database() AS d, current_schema() AS s",
    "ATTACH '{warehouse}/../catalog.db' AS x",
    "COPY shop.orders TO '/tmp/x.csv'",
    "CREATE TABLE t AS SELECT * FROM shop.orders",
    "INSTALL httpfs",
    "LOAD sqlite",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "CALL pragma_database_size()",
    "SELECT 1; SELECT * FROM vault.ledger",
    "EXPORT DATABASE '/tmp/x'",
    "CREATE MACRO f() AS TABLE SELECT * FROM vault.ledger",
    "SELECT * FROM shop.orders FOR VERSION AS OF 'main' ORDER BY id",
    "SELECT * FROM shop.orders FOR TIMESTAMP AS OF '2999-01-01' ORDER BY id",
]  # fmt: skip


@few_cases(36)
@pytest.mark.parametrize("sql", TRICKS)
def test_sql_is_told_what_a_lake_of_that_part_alone_tells(lakes: Lakes, sql: str) -> None:
    sql = sql.replace("{warehouse}", f"{lakes.folder}/whole/warehouse")
    answered = lakes.sql(sql)
    assert answered.alike == lakes.ask_twin("/v1/query", {"sql": sql}).alike
    nothing_hidden(answered)


@pytest.mark.parametrize("before", ["EXPLAIN", "EXPLAIN ANALYZE", "explain  analyze"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM shop.orders",
        "SELECT id FROM shop.orders WHERE status > 'z'",
        "SELECT count(*) FROM shop.orders a JOIN shop.orders b USING (id)",
        "SELECT id FROM shop.orders WHERE CAST(number AS INTEGER) > 0",
    ],
)
def test_a_plan_counts_no_row_that_is_left_out(lakes: Lakes, before: str, sql: str) -> None:
    def plan(answered: Answered) -> str:
        assert answered.status == 200, answered.body
        return re.sub(r"\d+\.\d+s|[─-╿\s]+|T\d+|0x[0-9a-f]+", "", answered.body)

    answered = lakes.sql(f"{before} {sql}")
    assert sorted(re.findall(r"[\d,]+ ?Rows?|[\d,]+rows?", plan(answered))) == sorted(
        re.findall(r"[\d,]+ ?Rows?|[\d,]+rows?", plan(lakes.ask_twin("/v1/query", {"sql": f"{before} {sql}"})))
    )
    nothing_hidden(answered)


HIDDEN: Final = {
    "vault.ledger": "vault.nobody",
    "VAULT.Ledger": "VAULT.Nobody",
    '"vault"."ledger"': '"vault"."nobody"',
    "ledger": "nobody",
    "staff": "stuff",
    "shop.staff": "shop.stuff",
    "notes__deletes": "notes__nothing",
    "acme.notes__deletes": "acme.notes__nothing",
    "acme.NOTES__DELETES": "acme.NOTES__NOTHING",
    "orders__deletes": "orders__nothing",
    "acme._firn_state": "acme._firn_mist!".rstrip("!"),
    '"shop.staff"': '"shop.stuff"',
    "shop.orders.staff": "shop.orders.stuff",
    "vault.ledger.x": "vault.nobody.x",
}
PATHS: Final = ("schema", "snapshots", "columns", "timeline", "changes")
_QUERIES: Final = (
    "SELECT * FROM {}",
    "SELECT id FROM shop.orders WHERE id IN (SELECT id FROM {})",
    "SELECT 1 FROM {} FOR VERSION AS OF 'main'",
    "EXPLAIN SELECT * FROM {}",
    "DESCRIBE {}",
)
_NAMES: Final = (
    "../vault/ledger", "shop/../../vault.ledger", "vault%2Eledger", "shop.orders\x00vault.ledger", "*", "*.*", "%", "",
    "shop.orders;vault.ledger", "shop.orders' OR '1'='1", "vault", "..", "shop.orders/data", "ｖault.ledger",
    "a" * 5_000,
)  # fmt: skip


def in_turn(*parts: Iterable[Any]) -> list[Any]:
    """Each with each in the long run; in CI each value of the first with one of each other, by turns."""
    first, *others = map(list, parts)
    if LONG:
        return [pytest.param(*one) for one in product(first, *others)]
    return [pytest.param(one, *(other[n % len(other)] for other in others)) for n, one in enumerate(first)]


@pytest.mark.parametrize(("hidden", "path"), in_turn(HIDDEN, PATHS))
def test_a_table_out_of_the_scope_is_one_that_does_not_exist(lakes: Lakes, hidden: str, path: str) -> None:
    nowhere = HIDDEN[hidden]
    answered = lakes.ask(f"/v1/tables/{quote(hidden)}/{path}")
    other = lakes.ask(f"/v1/tables/{quote(nowhere)}/{path}")
    assert answered.status == 404
    assert answered.body.replace(hidden.replace('"', ""), "#") == other.body.replace(nowhere.replace('"', ""), "#")
    nothing_hidden(answered)


@pytest.mark.parametrize(("hidden", "sql"), in_turn(HIDDEN, _QUERIES))
def test_sql_knows_no_table_out_of_the_scope(lakes: Lakes, hidden: str, sql: str) -> None:
    nowhere = HIDDEN[hidden]
    answered, other = lakes.sql(sql.format(hidden)), lakes.sql(sql.format(nowhere))
    assert answered.status in (400, 404)

    body = answered.body
    for word, instead in zip(re.findall(r"\w+", hidden), re.findall(r"\w+", nowhere), strict=True):
        body = body.replace(word, instead)
    assert body == other.body
    nothing_hidden(answered)


@pytest.mark.parametrize(("name", "path"), in_turn(_NAMES, PATHS))
def test_no_name_of_a_table_leads_out(lakes: Lakes, name: str, path: str) -> None:
    answered = lakes.ask(f"/v1/tables/{quote(name, safe='')}/{path}")
    assert answered.status == 404
    nothing_hidden(answered)


_ASKED: Final[list[dict[str, str]]] = [
        {}, {"columns": "id,card"}, {"columns": "tenant_id"}, {"columns": "_firn_before"}, {"like": "card"},
        {"like": "tenant"}, {"as_of": "main"}, {"as_of": "2001-01-01"}, {"as_of": "1"}, {"from": "main"},
        {"from": "2001-01-01"}, {"steps": "true"}, {"order": "newest"}, {"cursor": "0.0.0"}, {"cursor": "x"},
        {"limit": "1"}, {"limit": "100000"}, {"format": "csv"}, {"format": "arrow"}, {"format": "parquet"},
        {"metadata": "true"}, {"fresh": "true"}, {"points": "1"}, {"to": "shops"},
]  # fmt: skip


@pytest.mark.parametrize(("query", "path"), in_turn(_ASKED, PATHS) + in_turn(_ASKED, (*PATHS[1:], PATHS[0])))
def test_what_is_told_of_a_table_holds_nothing_that_is_left_out(lakes: Lakes, path: str, query: dict[str, str]) -> None:
    answered = lakes.ask(f"/v1/tables/shop.orders/{path}", **query)
    assert answered.status < 500
    nothing_hidden(answered)
    if answered.status != 200 or answered.headers["Content-Type"] != "application/json":
        return
    names = re.findall(r'"(?:name|id|card|tenant_id|_firn_before)":"?(card|tenant_id|_firn_before)?', answered.body)
    assert not any(names)
    if path in ("snapshots", "timeline"):
        counts = re.findall(r'"(?:added|deleted|rows)":(\w+)', answered.body)
        assert set(counts) == {"null"}


@pytest.mark.parametrize("form", ["csv", "arrow", "parquet"])
def test_no_format_holds_more(lakes: Lakes, form: str) -> None:
    for answered in (
        lakes.sql("SELECT * FROM shop.orders ORDER BY id", format=form, all_columns=True),
        lakes.ask("/v1/tables/shop.orders/changes", format=form),
    ):
        content = answered.body.encode("latin-1" if form != "csv" else "utf-8")
        if form != "csv":
            opened = pa.ipc.open_stream(content).read_all() if form == "arrow" else pq.read_table(io.BytesIO(content))
            assert {"id", "status", "amount", "number"} <= set(opened.column_names) <= {
                "id", "status", "amount", "number", "_change", "_before"
            }  # fmt: skip
            assert sorted(opened.column("id").to_pylist()) == [1, 2, 3, 4]
            answered = answered._replace(body=f"{opened.schema} {opened.to_pylist()}")
        nothing_hidden(answered)


def test_changes_are_those_of_what_may_be_read(lakes: Lakes) -> None:
    first, *_, last = (one["id"] for one in lakes.ask("/v1/tables/shop.orders/snapshots").told["snapshots"])
    told = lakes.ask("/v1/tables/shop.orders/changes").told
    assert sorted(row["id"] for row in told["rows"]) == [1, 2, 3, 4]
    assert set(told["rows"][0]) == {"_change", "id", "status", "amount", "number", "_before"}
    told = lakes.ask("/v1/tables/shop.orders/changes", **{"from": str(first)}, steps="true").told
    assert [(row["id"], row["_snapshot"]) for row in told["rows"]] == [(4, last)]
    told = lakes.ask("/v1/tables/shop.orders/changes", columns="status").told
    assert set(told["rows"][0]) == {"_change", "id", "status", "_before"}
    for columns in ("card", "tenant_id", "id,card"):
        answered = lakes.ask("/v1/tables/shop.orders/changes", columns=columns)
        assert (answered.status, answered.told["error"]) == (400, "no_such_column")
        assert answered.told["message"].endswith("It has id, status, amount, number")


def test_a_list_of_tables_is_that_of_the_scope(lakes: Lakes) -> None:
    answered = lakes.ask("/v1/tables")
    assert [one["name"] for one in answered.told["tables"]] == ["acme.notes", "shop.orders"]
    notes, orders = answered.told["tables"]
    assert (notes["rows"], notes["key"]) == (2, ["id"])
    assert notes["size_bytes"] > 0
    assert [orders[name] for name in ("rows", "size_bytes", "files", "source", "stream")] == [None] * 5
    nothing_hidden(answered)


@pytest.mark.parametrize(
    "moment",
    [
        {"cut": 5, "stream": "vaults"}, {"cut": "vaults-end"}, {"cut": "vaults-end", "stream": "vaults"}, {"cut": 6},
        {"cut": 5}, {"cut": 1}, {"cut": 5, "stream": "shop"}, {"cut": 1, "stream": "vaults"}, {"cut": "nothing"},
        {"cut": "shop-end", "stream": "vaults"}, {"cut": "../vaults-end"}, {"as_of": "vaults-end"}, {"as_of": "x"},
        {"as_of": "2001-01-01"}, {"as_of": 17}, {"stream": "vaults"}, {"as_of": "main", "cut": 5},
        {"fresh": True, "as_of": "main"}, {"cut": "9" * 30, "stream": "shop"}, {"cut": 5, "stream": "../vaults"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("sql", ["SELECT 1 AS one", "SELECT count(*) AS n FROM shop.orders"])
def test_moments_of_others_are_none(lakes: Lakes, moment: dict[str, Any], sql: str) -> None:
    answered = lakes.sql(sql, **moment)
    if answered.status == 200:  # a moment that is never looked at
        assert (sql, "cut" in moment) == ("SELECT 1 AS one", False)
    else:
        assert answered.status in (400, 404)
        body = answered.body
        nothing_hidden(answered._replace(body=body))


def test_a_cut_of_a_table_in_the_scope_is_read(lakes: Lakes) -> None:
    for moment in ({"cut": 1, "stream": "shop"}, {"cut": "shop-end"}):
        answered = lakes.sql("SELECT count(*) AS n FROM shop.orders", **moment)
        assert (answered.status, answered.told["rows"]) == (200, [{"n": 3}])
        nothing_hidden(answered)


def test_each_snapshot_is_read_in_the_scope(lakes: Lakes) -> None:
    table = lakes.catalog.load_table("shop.orders")
    for one in table.history():
        sql = f"SELECT * FROM shop.orders FOR VERSION AS OF {one.snapshot_id}"
        for answered in (lakes.sql(sql), lakes.sql("SELECT * FROM orders", as_of=one.snapshot_id)):
            assert answered.status == 200
            assert {row["id"] for row in answered.told["rows"]} <= {1, 2, 3, 4}
            nothing_hidden(answered)
    hidden = lakes.catalog.load_table("vault.ledger").history()[0].snapshot_id
    for answered in (
        lakes.sql("SELECT * FROM orders", as_of=hidden),
        lakes.sql(f"SELECT * FROM shop.orders FOR VERSION AS OF {hidden}"),
    ):
        assert (answered.status, answered.told["error"]) == (404, "no_such_moment")


def test_fresh_reads_are_of_the_scope(lakes: Lakes) -> None:
    answered = lakes.sql("SELECT * FROM shop.orders ORDER BY id", fresh=True)
    assert [row["id"] for row in answered.told["rows"]] == [1, 2, 3, 4]
    nothing_hidden(answered)
    answered = lakes.sql("SELECT * FROM vault.ledger", fresh=True)
    assert (answered.status, answered.told["error"]) == (404, "no_such_table")
    nothing_hidden(answered)


@pytest.mark.parametrize(
    "key",
    [
        None, "", "acme", "acme.", f"acme.{'k' * 30}", KEYS["acme"][:-1], KEYS["acme"] + "x", KEYS["acme"].upper(),
        f"other.{KEYS['acme'].partition('.')[2]}", f"nobody.{KEYS['acme'].partition('.')[2]}", f" {ALL} x", ALL[:-1],
        f"acme.{ALL}", f"{KEYS['acme']} {KEYS['other']}", "*.*", "acme.*", "\x00", "é" * 40,
    ],
)  # fmt: skip
def test_no_other_key_reads(lakes: Lakes, key: str | None) -> None:
    for path, body in (("/v1/tables", None), ("/v1/query", {"sql": "SELECT * FROM acme.notes"})):
        answered = lakes.ask(path, body, key=key)
        assert (answered.status, answered.told["error"]) == (401, "unauthorized")
        nothing_hidden(answered)
        assert not any(known in answered.log for known in (*KEYS.values(), ALL))


def test_each_reader_reads_its_own(lakes: Lakes) -> None:
    def names(key: str) -> list[str]:
        return [one["name"] for one in lakes.ask("/v1/tables", key=key).told["tables"]]

    assert names(KEYS["other"]) == ["vault.ledger"]
    assert names(KEYS["gone"]) == ["acme.notes"]
    assert {"vault.ledger", "shop.staff"} < set(names(ALL))


def test_a_result_goes_when_its_grant_may_have(lakes: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_responses, "INLINE_BYTES", 100)

    def result(key: str) -> tuple[str, float]:
        from datetime import UTC, datetime

        answered = lakes.ask("/v1/query", {"sql": "SELECT *, range(500) AS r FROM acme.notes"}, key=key)
        left = datetime.fromisoformat(answered.told["expires_at"]) - datetime.now(UTC)
        return answered.told["url"], left.total_seconds()

    (mine, seconds), (gone, _), (everything, longer) = result(KEYS["acme"]), result(KEYS["gone"]), result(ALL)
    assert "/results/readers/acme/" in mine
    assert "/results/readers/gone/" in gone
    assert seconds <= 300 < longer
    try:
        publish(lakes.store, readers_config(lakes.folder, granted=False))
        assert [path.partition("/")[2].partition("/")[0] for path in paths(lakes.store, "results")] == [
            everything.rpartition("/")[2]
        ]
        assert lakes.ask("/v1/tables", key=KEYS["gone"]).status == 401
        (lakes.folder / "acme.key").write_text("acme." + "n" * 30)
        lakes.whole.readers._senders._secrets._kept.clear()
        assert lakes.ask("/v1/tables").status == 401
    finally:
        publish(lakes.store, readers_config(lakes.folder))
        lakes.whole.readers._senders._secrets._kept.clear()


def test_a_condition_that_does_not_fit_gives_nothing(lakes: Lakes) -> None:
    text = readers_config(lakes.folder)
    try:
        for condition in ("tenant = 7", "card = 7", "tenant_id LIKE 'x'", "card", "tenant_id = '7'"):
            publish(lakes.store, text.replace("tenant_id = 7", condition.replace("'", "''")))
            answered = lakes.sql("SELECT * FROM shop.orders")
            assert (answered.status, answered.told["error"]) == (503, "not_configured")
            nothing_hidden(answered)
            assert lakes.ask("/v1/tables").status == 200
            assert lakes.sql("SELECT count(*) AS n FROM acme.notes").told["rows"] == [{"n": 2}]
    finally:
        publish(lakes.store, text)


def test_without_query_auth_nobody_reads_everything(lakes: Lakes) -> None:
    text = readers_config(lakes.folder)
    try:
        publish(lakes.store, re.sub(r"  auth: .*all\.key'}\n", "", text))
        assert lakes.ask("/v1/tables").status == 200
        for key in (None, ALL):
            assert lakes.ask("/v1/tables", key=key).status == 401
    finally:
        publish(lakes.store, text)


def test_a_broken_file_is_not_named(lakes: Lakes) -> None:
    (path, *_) = (lakes.folder / "whole/warehouse/shop/orders/data").glob("*.parquet")
    content = path.read_bytes()
    try:
        path.unlink()
        for answered in (
            lakes.sql("SELECT * FROM shop.orders"),
            lakes.ask("/v1/tables/shop.orders/changes"),
        ):
            assert (answered.status, answered.told["error"]) == (500, "unreadable_file")
            assert "parquet" not in answered.body + answered.log
            assert str(lakes.folder) not in answered.body + answered.log
    finally:
        path.write_bytes(content)
