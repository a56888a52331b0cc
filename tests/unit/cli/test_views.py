"""`firn views list` and `explain` as people call them, over a lake in files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firn.log import published_configs
from firn.log.store import Store
from firn.views.renamed_columns import COLUMNS
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog
from firn_sql.views import fill_way
from firn_sql.views.refresh_way import WAY

CONFIG = """
streams:
  shop:
    tables:
      public.orders: {to: shop.orders, key: [id]}
      public.customers: {to: shop.customers, key: [id]}
      public.later: {to: shop.later, key: [id]}
views:
  web.revenue:
    sql: |
      SELECT c.region, count(*) AS n, sum(o.amount) AS s
      FROM shop.orders o JOIN shop.customers c ON o.cid = c.id GROUP BY ALL
    every: 60s
  web.best: {sql: "SELECT cid, max(amount) AS m FROM shop.orders GROUP BY cid ORDER BY m DESC LIMIT 10"}
  web.early: {sql: SELECT a FROM shop.later}
  web.all: {sql: SELECT id FROM shop.orders WHERE id NOT IN (SELECT id FROM shop.customers), refresh: full}
  web.wrong: {sql: SELECT nothing FROM shop.orders}
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, addresses: dict[str, str], store: Store) -> Run:
    """Runs a command on a folder with two tables -> (exit code, standard output, standard error)."""
    published_configs.publish(store, CONFIG)
    catalog = open_catalog(addresses["catalog_uri"], addresses["warehouse"], {})
    catalog.create_namespace("shop")
    for name, rows in (
        ("orders", {"id": range(100), "cid": [i % 10 for i in range(100)], "amount": range(100)}),
        ("customers", {"id": range(10), "region": ["eu"] * 10}),
    ):
        table = pa.table({column: list(values) for column, values in rows.items()})
        made = catalog.create_table(
            f"shop.{name}", table.schema, properties={"firn.key": '["id"]', "firn.mode": "mirror"}
        )
        made.append(table)
    catalog.close()

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--dir", str(tmp_path)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def told(run: Run, name: str) -> Any:
    code, out, err = run("views", "explain", name, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_list_has_each_view_with_what_it_reads(run: Run) -> None:
    code, out, _ = run("views", "list", "--json")
    assert code == 0
    found = {one["view"]: one for one in json.loads(out)}
    assert list(found) == ["web.revenue", "web.best", "web.early", "web.all", "web.wrong"]
    one = found["web.revenue"]
    assert (one["stream"], one["every"], one["reads"]) == ("shop", "60s", ["shop.orders", "shop.customers"])
    assert [found[name]["refresh"] for name in ("web.best", "web.all")] == ["incremental", "full"]
    code, out, _ = run("views", "list")
    assert code == 0
    assert "shop.orders, shop.customers" in out


def test_an_explanation_says_how_each_part_is_kept(run: Run) -> None:
    found = told(run, "web.revenue")
    assert (found["sums"], found["why_no_sums"]) == (True, None)
    assert [(one["depth"], one["part"], one["kept"]) for one in found["parts"]] == [
        (0, "group by customers.region", "sums of what changed"),
        (1, "inner join on orders.cid = customers.id", "rows of touched join values, before and now"),
        (2, "shop.orders", "what changed in it"),
        (2, "shop.customers", "what changed in it"),
    ]
    assert found["tables"] == [
        {"table": "shop.orders", "key": ["id"], "rows": 100},
        {"table": "shop.customers", "key": ["id"], "rows": 10},
    ]
    assert [one["changed"] for one in found["costs"]] == ["shop.orders", "shop.customers"]
    assert found["costs"][0]["reads"] == {"shop.customers": 20}
    assert found["costs"][0]["by"] == {"shop.customers": [["id"]]}


def test_how_all_of_a_view_is_made_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(run, "web.revenue")["fill"].startswith(
        "in one process: its tables count for 110 rows, and tasks are not"
    )
    monkeypatch.setattr(fill_way, "LEAST", 100)
    assert told(run, "web.revenue")["fill"] == "in 1 parts, by tasks: its tables count for 110 rows"
    why = "all of it is made in one process: its tables count for 100 rows, but LIMIT goes by all rows"
    assert why in " ".join(run("views", "explain", "best")[2].split())
    assert told(run, "web.early")["fill"] is told(run, "web.all")["fill"] is None


def test_an_explanation_for_people_fits_a_terminal(run: Run) -> None:
    code, out, err = run("views", "explain", "best")
    err = " ".join(err.split())
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "the first 10 rows" in out
    assert "what changed in it, or all rows" in out
    assert "an estimate for 1,000 changed rows" in err
    assert "10 rows of a value are assumed" in err
    assert (
        "if shop.orders changes, whole query: what changed costs about as much as reading 400,125 rows, the whole"
        in err
    )
    assert "no sums are kept: its rows are not groups" in err


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("amount > epoch(now())", "row by row, and as time passes rows whose orders.amount it has passed"),
        ("CAST(amount AS DATE) = today()", "row by row, and as time passes rows whose CAST(orders.amount AS DATE) it"),
        ("now() < to_timestamp(amount)", "row by row, and as time passes of all rows those whose to_timestamp(orders."),
        (
            "epoch(now()) - amount < 9",
            "all rows at each refresh: write a column > now() - INTERVAL …, with now() on one",
        ),
    ],
)
def test_what_goes_by_the_time_is_told(run: Run, store: Store, condition: str, kept: str) -> None:
    more = f"  web.recent: {{sql: SELECT id FROM shop.orders WHERE {condition}, every: 1h}}\n"
    published_configs.publish(store, CONFIG + more)
    [one] = [one for one in told(run, "web.recent")["parts"] if one["part"].startswith("where")]
    assert one["kept"].startswith(kept)


def test_why_no_sums_are_kept_is_told(run: Run) -> None:
    assert "web.all" in run("views", "explain", "all")[2]
    assert told(run, "all")["why_no_sums"] == "refresh: full makes all of it again each time"


def test_a_table_that_is_not_there_yet_is_told(run: Run) -> None:
    assert told(run, "web.early")["tables"] == [{"table": "shop.later", "key": [], "rows": None}]
    assert "not there yet: shop.later" in run("views", "explain", "web.early")[2]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "there is no view 'nothing': the configuration has web.all, web.best"),
        ("web.wrong", "web.wrong can't be kept by what changed: line 1, column 8: there is no column 'nothing'"),
    ],
)
def test_what_is_wrong_is_told(run: Run, name: str, said: str) -> None:
    code, _, err = run("views", "explain", name)
    assert code == 1
    assert said in " ".join(err.split())


TYPED = """
streams:
  shop:
    envelope: rows
    tables:
      public.orders: {to: shop.orders, key: [id]}
      events:
        to: shop.events
        mode: append
        schema: {fields: [{name: day, type: date}, {name: who, type: string}]}
        unknown: drop
      public.some: {to: shop.some, key: [id], columns: {id: long, v: string}}
views:
"""


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT cid,\n sum(who) AS s FROM shop.orders JOIN shop.events ON cid = day GROUP BY cid", None),
        ("SELECT day,\n sum(who) AS s FROM shop.events GROUP BY day",
         "line 2, column 2: DuckDB says: Binder Error: No function matches the given name and argument types "
         "'sum(VARCHAR)'"),
        ("SELECT nobody FROM shop.events", "line 1, column 8: there is no column 'nobody'"),
        ("SELECT id, amount + v AS x FROM shop.orders JOIN shop.some USING (id)", None),
        ("SELECT id, v + INTERVAL '1 day' AS x FROM shop.some", "line 1, column 14: DuckDB says: Binder Error: No f"),
        ("SELECT id, other + 1 AS x FROM shop.some", ""),
        ("SELECT id, CAST('ß' || amount AS TIMESTAMP) + amount AS x FROM shop.orders",
         "line 1, column 45: DuckDB says: Binder Error: No function matches"),
        ("SELECT window_start, sum(who) AS s FROM tumble(shop.events, day, INTERVAL '1 day') GROUP BY window_start",
         "line 1, column 1: Binder Error: No function matches the given name and argument types 'sum(VARCHAR)'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("full", [False, True])
def test_what_duckdb_can_t_bind_is_told_with_its_place(
    run: Run, store: Store, sql: str, said: str | None, full: bool
) -> None:
    """By the tables' columns, or by those that firn.yaml declares."""
    if full and "tumble" in sql:
        return
    how = ", refresh: full" if full else ""
    published_configs.publish(store, f"{TYPED}  v.a: {{sql: {json.dumps(sql)}{how}}}\n")
    code, _, err = run("views", "explain", "v.a")
    err = " ".join(err.split())
    if said is None and not (full and "shop.some" in sql):
        assert (code, "DuckDB says" in err) == (1, True), err
    elif not said or (full and "shop.some" in sql):  # of whose columns not all are known
        assert code == 0, err
    else:
        assert code == 1
        assert said in err or full, err
        assert "line" in err


def test_an_explanation_follows_columns_that_were_renamed(run: Run, store: Store, addresses: dict[str, str]) -> None:
    sql = "SELECT cid, max(amount) AS m FROM shop.orders GROUP BY cid"
    config = published_configs.publish(store, f"{TYPED}  v.a: {{sql: {json.dumps(sql)}}}\n")
    [view] = config.streams["shop"].views
    catalog = open_catalog(addresses["catalog_uri"], addresses["warehouse"], {})
    orders = catalog.load_table("shop.orders")
    ids = {one.name: one.field_id for one in orders.schema().fields}
    catalog.create_namespace("v")
    made = catalog.create_table("v.a", pa.table({"cid": [1], "m": [1]}).schema)
    said = {"firn.view.sql": view.sha, COLUMNS: json.dumps({"shop.orders": ids}), WAY: "by change: it is cheap"}
    made.append(pa.table({"cid": [1], "m": [1]}), snapshot_properties=said)
    with orders.update_schema() as update:
        update.rename_column("amount", "price")
    catalog.close()
    found = told(run, "v.a")
    assert found["costs"][0]["by"] == {"shop.orders": [["cid"]]}
    assert found["last"] == "by change: it is cheap", "what the newest refresh says of itself"
    assert "the last refresh: by change: it is cheap" in run("views", "explain", "v.a")[2]


def test_without_views_there_is_nothing_to_list(run: Run, store: Store) -> None:
    published_configs.publish(store, CONFIG.partition("views:")[0])
    assert "docs/views.md says how to write them" in run("views", "list")[2]
    assert "there are none" in run("views", "explain", "x")[2]


def test_publishing_refuses_what_the_planner_refuses(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "firn.yaml"
    file.write_text(CONFIG.replace("count(*)", "random()"))
    code, _, err = run("publish", str(file))
    assert code == 1
    assert "firn.yaml:10: views.web.revenue.sql: line 1, column 18: random gives another value" in " ".join(err.split())
