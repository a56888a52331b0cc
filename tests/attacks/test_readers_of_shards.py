"""The same readers where the table that they may read in part is several tables: they are told what they would be told
of one, and of the shards nothing at all (test_readers_with_scopes)."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from firn.log.published_configs import publish
from firn_lake.query_process import QueryProcess
from tests.attacks.scoped_lake_twins import ALL, KEYS, SHARDED, SHARDS, WORD, Lakes, made, readers_config
from tests.attacks.test_readers_with_scopes import (
    _ASKED,
    _QUERIES,
    PATHS,
    TRICKS,
    in_turn,
    nothing_hidden,
)
from tests.soak import few_cases


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakes]:
    """Made once: what a try changes it puts back."""
    process = QueryProcess()
    yield made(process, tmp_path_factory.mktemp("sharded"), sharded=True)
    process.close()


@few_cases(24)
@pytest.mark.parametrize("sql", TRICKS)
def test_sql_is_told_what_one_table_tells(lakes: Lakes, sql: str) -> None:
    sql = sql.replace("{warehouse}", f"{lakes.folder}/whole/warehouse")
    answered = lakes.sql(sql)
    assert answered.alike == lakes.ask_twin("/v1/query", {"sql": sql}).alike
    nothing_hidden(answered)


def test_who_may_read_everything_reads_it_by_each_path(lakes: Lakes) -> None:
    for path in PATHS:
        answered = lakes.ask(f"/v1/tables/shop.orders/{path}", key=ALL)
        assert answered.status == 200, answered.body
        assert answered.told.get("table") in ("shop.orders", None)
    tables = {one["name"]: one for one in lakes.ask("/v1/tables", key=ALL).told["tables"]}
    assert (tables["shop.orders"]["rows"], len(tables["shop.orders"]["shards"])) == (6, 3)
    answered = lakes.ask("/v1/query", {"sql": "SELECT count(*) AS n FROM shop.orders"}, key=ALL)
    assert answered.told["rows"] == [{"n": 6}]
    assert list(answered.told["snapshots"]) == ["shop.orders"]


_SHARDS = [f"{WORD}a.orders", f"{WORD}b.orders", f"{WORD}rest.orders", f"{WORD}A.Orders", f'"{WORD}a"."orders"']


@pytest.mark.parametrize(("shard", "path"), in_turn(_SHARDS, PATHS))
def test_a_shard_is_no_table(lakes: Lakes, shard: str, path: str) -> None:
    answered, other = (
        lakes.ask(f"/v1/tables/{quote(one)}/{path}") for one in (shard, shard.lower().replace(WORD, "qqq"))
    )
    assert answered.status == 404
    assert answered.body.lower().replace(WORD, "qqq") == other.body.lower()


@pytest.mark.parametrize(("shard", "sql"), in_turn(_SHARDS, _QUERIES))
def test_sql_knows_no_shard(lakes: Lakes, shard: str, sql: str) -> None:
    answered, other = lakes.sql(sql.format(shard)), lakes.sql(sql.format(shard.replace(WORD, "qqq")))
    assert answered.status in (400, 404)
    assert answered.body.replace(WORD, "qqq") == other.body


@pytest.mark.parametrize(("query", "path"), in_turn(_ASKED, PATHS) + in_turn(_ASKED, (*PATHS[1:], PATHS[0])))
def test_what_is_told_holds_nothing_of_shards(lakes: Lakes, path: str, query: dict[str, str]) -> None:
    answered = lakes.ask(f"/v1/tables/shop.orders/{path}", **query)
    assert answered.status < 500
    nothing_hidden(answered)
    assert '"total":3' in answered.body or '"total":' not in answered.body or path == "columns"


def test_the_list_and_the_changes_are_those_of_one_table(lakes: Lakes) -> None:
    notes, orders = lakes.ask("/v1/tables").told["tables"]
    assert (notes["name"], orders["name"], orders["shards"]) == ("acme.notes", "shop.orders", [])
    assert [orders[name] for name in ("rows", "size_bytes", "files", "source", "stream")] == [None] * 5
    told = lakes.ask("/v1/tables/shop.orders/changes").told
    assert sorted(row["id"] for row in told["rows"]) == [1, 2, 3, 4]
    assert set(told["rows"][0]) == {"_change", "id", "status", "amount", "number", "_before"}


def test_each_moment_is_read_in_the_scope(lakes: Lakes) -> None:
    ids = [one["id"] for one in lakes.ask("/v1/tables/shop.orders/snapshots").told["snapshots"]]
    for moment, count in ((ids[0], 3), (ids[1], 3), (ids[2], 4)):
        answered = lakes.sql(f"SELECT id FROM shop.orders FOR VERSION AS OF {moment}")
        assert len(answered.told["rows"]) == count
        nothing_hidden(answered)
    asked: list[dict[str, Any]] = [{"cut": 1, "stream": "shop"}, {"cut": "shop-end"}, {"as_of": ids[0]}]
    for one in asked:
        answered = lakes.sql("SELECT count(*) AS n FROM shop.orders", **one)
        assert (answered.status, answered.told["rows"]) == (200, [{"n": 3}])
        nothing_hidden(answered)
    shard = lakes.catalog.load_table(f"{WORD}a.orders").history()[0].snapshot_id
    answered = lakes.sql(f"SELECT * FROM shop.orders FOR VERSION AS OF {shard}")
    assert (answered.status, answered.told["error"]) == (404, "no_such_moment")
    nothing_hidden(answered)
    fresh = lakes.sql("SELECT count(*) AS n FROM shop.orders", fresh=True)
    assert (fresh.status, fresh.told["rows"]) == (200, [{"n": 4}])
    nothing_hidden(fresh)


@pytest.mark.parametrize("shard", [*SHARDS.values(), f"{WORD}rest"])
def test_a_shard_that_is_broken_or_gone_is_not_named(lakes: Lakes, shard: str) -> None:
    asked = (lambda: lakes.sql("SELECT * FROM shop.orders"), lambda: lakes.ask("/v1/tables/shop.orders/changes"))
    paths = list((lakes.folder / f"whole/warehouse/{shard}/orders/data").glob("*.parquet"))
    contents = {path: path.read_bytes() for path in paths}
    try:
        for path in paths:
            path.unlink()
        for ask in asked:
            answered = ask()
            assert (answered.status, answered.told["error"]) == (500, "unreadable_file")
            nothing_hidden(answered)
            assert "parquet" not in answered.body + answered.log
    finally:
        for path, content in contents.items():
            path.write_bytes(content)
    lakes.catalog.rename_table(f"{shard}.orders", f"{shard}.other")
    try:
        for ask in asked:
            answered = ask()
            assert answered.status in (404, 500)
            nothing_hidden(answered)
    finally:
        lakes.catalog.rename_table(f"{shard}.other", f"{shard}.orders")


@pytest.mark.parametrize(
    ("tables", "narrowed", "ids"),
    [
        (f"['acme.*', '{WORD}*.*']", "", None),
        ("['acme.*']", "", None),
        (f"['acme.*', {WORD}rest.orders]", "", None),
        (f"['*.*', '{WORD}a.*']", f"columns: {{'{WORD}a.*': [id, status]}}", [1, 2, 3, 4]),
        (f"['*.*', {WORD}a.orders]", f"rows: {{{WORD}a.orders: 'id < 3'}}", [1, 2]),
        (f"['*.orders', '{WORD}*.orders']", f"rows: {{'{WORD}*.orders': 'tenant_id = 7'}}", [1, 2, 3, 4]),
    ],
)
def test_who_reads_shards_only_in_part_reads_the_whole_no_further(
    lakes: Lakes, tables: str, narrowed: str, ids: list[int] | None
) -> None:
    text = readers_config(lakes.folder, streams=SHARDED)
    begin, _, end = text.partition("      tables: ['acme.*', shop.orders]\n")
    end = "\n".join(line for line in end.split("\n") if "shop.orders: " not in line)
    try:
        publish(lakes.store, f"{begin}      tables: {tables}\n      {narrowed}\n{end}")
        answered = lakes.sql("SELECT * FROM shop.orders ORDER BY id")
        if ids is None:
            assert (answered.status, answered.told["error"]) == (404, "no_such_table")
            assert "shop.orders" not in [one["name"] for one in lakes.ask("/v1/tables").told["tables"]]
        else:
            assert [row["id"] for row in answered.told["rows"]][: len(ids)] == ids
            assert ("card" in answered.body) == (not narrowed.startswith("columns"))
    finally:
        publish(lakes.store, text)
    assert lakes.ask("/v1/tables", key=KEYS["gone"]).status == 200
