"""TPC-H's queries as views of the real job: after each refresh each is DuckDB's answer over the same changes.

FIRN_TPCH is a folder with dbgen's tables as Parquet (`CALL dbgen(sf=1)`, then COPY of each); without it, the small
tables of tests/property/test_views_tpch.py. FIRN_TPCH_REFRESHES (default 50): how many. Each refresh tells in a line
of JSON what it took: `-s` shows them.
"""

import json
import math
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.firn_case import LOADED
from benchmarks.pairs import cpu
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import MIRROR_METADATA, POSITION, TIME
from firn.changes.positions import WIDTH
from firn.config.names import TableName
from firn_spark.tables.evolve import Tables
from firn_spark.views import refreshed as refreshed_view
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_views import refreshed
from tests.property.test_views_tpch import MADE, QUERIES
from tests.soak import LONG, long_only

pytestmark = [pytest.mark.spark, long_only]

DATA = os.environ.get("FIRN_TPCH", "")
REFRESHES = int(os.environ.get("FIRN_TPCH_REFRESHES", "50" if LONG else "3"))
WHOLE_EVERY = 10  # refreshes, after which all rows of the tables are compared too
KEYS = {name: key for name, (_, key) in MADE.items()} | {"lineitem": ("l_orderkey", "l_linenumber")}
POST = 2_500  # events in a request
SPARSE = "({0} // 8 * 32 + {0} % 8)"  # as dbgen's keys of orders: those in between are for new ones


class Tpch:
    """The tables as DuckDB has them, which is what is expected, and the changes of them."""

    def __init__(self, run: duckdb.DuckDBPyConnection) -> None:
        self.run = run
        self.lsn = 24_000_000_000
        self.keys: dict[str, tuple[str, ...]] = {}
        for name, (made, count) in MADE.items():
            if DATA:
                run.execute(f"CREATE TABLE {name} AS FROM '{DATA}/{name}.parquet'")
            else:
                run.execute(f"CREATE TABLE {name} AS {made}")
                for column in {"orders": ["o_orderkey"], "lineitem": ["l_orderkey"]}.get(name, []):
                    run.execute(f"UPDATE {name} SET {column} = {SPARSE.format(column)}")
            key = ["l_orderkey", "l_linenumber"] if name == "lineitem" else run.table(name).columns[:count]
            self.keys[name] = tuple(key)
        self.orders = run.execute("SELECT count(*) FROM orders").fetchall()[0][0]

    def columns(self, table: str) -> dict[str, str]:
        """Their types, as firn.yaml has them."""
        kinds = {"BIGINT": "long", "INTEGER": "int", "VARCHAR": "string", "DATE": "date"}
        found = self.run.table(table)
        return {
            name: kinds.get(str(kind), str(kind).lower().replace(" ", ""))
            for name, kind in zip(found.columns, found.types, strict=True)
        }

    def config(self) -> str:
        """firn.yaml with all tables and views."""
        tables = {
            f"tpch.{name}": {"to": f"tpch.{name}", "key": list(key), "columns": self.columns(name)}
            for name, key in self.keys.items()
        }
        some = "|".join(MADE)
        views = {
            f"views.q{n}": {"sql": re.sub(r"(?<=from )(.*?)(?= where| group)", partial(_named, some), sql)}
            for n, sql in QUERIES.items()
        }
        stream = {"envelope": "debezium", "debezium": {"decimal.handling.mode": "string"}, "tables": tables}
        return json.dumps(
            {"warehouse": "file:///x", "catalog": {"type": "sql"}, "streams": {"spec": stream}} | {"views": views}
        )

    def first(self) -> list[dict[str, Any]]:
        """A change of each table that changes nothing, so that a cut names it."""
        found: list[dict[str, Any]] = []
        for table in MADE:
            found += self._events("u", table, f"SELECT * FROM {table} LIMIT 1")
        return found

    def change(self, n: int) -> list[dict[str, Any]]:
        """As TPC-H's refresh functions: new orders with their lines and as many that go, a thousandth of all; and some
        rows of all kinds change. -> the events."""
        run, count, events = self.run.execute, max(10, self.orders // 1000), list[dict[str, Any]]()
        by = partial("ORDER BY hash({}, {}) LIMIT {}".format)
        run(
            "CREATE OR REPLACE TEMP TABLE made AS SELECT o_orderkey AS key FROM orders WHERE o_orderkey + 8 NOT IN "
            f"(SELECT o_orderkey FROM orders) AND o_orderkey % 32 < 24 {by('o_orderkey', n, count)}"
        )
        for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            rows = f"SELECT * REPLACE ({key} + 8 AS {key}) FROM {table} WHERE {key} IN (SELECT key FROM made)"
            run(f"CREATE OR REPLACE TEMP TABLE more AS {rows}")
            run(f"INSERT INTO {table} FROM more")
            events += self._events("c", table, "FROM more")
        some = by("o_orderkey", n + 1000, count)
        run(f"CREATE OR REPLACE TEMP TABLE ended AS SELECT o_orderkey AS key FROM orders {some}")
        for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            events += self._events("d", table, f"FROM {table} WHERE {key} IN (SELECT key FROM ended)")
            run(f"DELETE FROM {table} WHERE {key} IN (SELECT key FROM ended)")
        few = max(2, count // 10)
        for share, table, key, values in (
            (1, "lineitem", "l_orderkey, l_linenumber", "l_discount = 0.06, l_quantity = 1 + (l_quantity + 7) % 50, "
             "l_shipdate = l_shipdate + 30, l_returnflag = CASE l_returnflag WHEN 'R' THEN 'A' ELSE 'R' END"),
            (1, "lineitem", "l_orderkey, l_linenumber, 1", "l_quantity = 60, l_partkey = 1 + (l_partkey + 3) % 50, "
             "l_commitdate = l_receiptdate - 1, l_shipmode = 'MAIL'"),
            (1, "orders", "o_orderkey", f"o_custkey = (SELECT c_custkey FROM customer ORDER BY hash(c_custkey, {n}) "
             "LIMIT 1), o_orderpriority = '1-URGENT', o_totalprice = o_totalprice + 1000"),
            (5, "customer", "c_custkey", "c_nationkey = (c_nationkey + 5) % 12, c_mktsegment = 'BUILDING', c_acctbal = "
             "c_acctbal + 1"),
            (20, "part", "p_partkey", "p_brand = 'Brand#12', p_type = 'PROMO ANODIZED TIN', p_container = 'SM CASE'"),
            (100, "supplier", "s_suppkey", "s_nationkey = (s_nationkey + 1) % 12"),
        ):  # fmt: skip
            keys = ", ".join(self.keys[table])
            run(f"CREATE OR REPLACE TEMP TABLE few AS SELECT {keys} FROM {table} {by(key, n, max(1, few // share))}")
            run(f"UPDATE {table} SET {values} WHERE ({keys}) IN (FROM few)")
            events += self._events("u", table, f"FROM {table} WHERE ({keys}) IN (FROM few)")
        return events

    def _events(self, op: str, table: str, rows: str) -> list[dict[str, Any]]:
        events, found = list[dict[str, Any]](), self.run.execute(rows)
        names = [name for name, *_ in found.description or ()]
        for row in found.fetchall():
            self.lsn += 100
            cells = {name: _json(cell) for name, cell in zip(names, row, strict=True)}
            key = {name: cells[name] for name in self.keys[table]}
            told = event(op, self.lsn, *((None, key) if op == "d" else (cells, None)), table=table)
            told["source"]["schema"] = "tpch"
            events.append(told)
        return events

    def hashed(self, table: str) -> tuple[int, int]:
        """How many rows it has, and the sum of their hashes: the same bag has the same."""
        columns = ", ".join(self.columns(table))
        [found] = self.run.execute(f"SELECT count(*), sum(hash({columns})::HUGEINT) FROM {table}").fetchall()
        return found


def _json(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, int | str) else str(cell)


def _named(some: str, found: re.Match[str]) -> str:
    return re.sub(rf"\b({some})\b", r"tpch.\1", found[0])


def loaded(lake: Lake, tpch: Tpch, folder: Path) -> None:
    """All tables, as a backfill would have written them: before any change."""
    position = bytes(WIDTH - 5) + (23_000_000_000).to_bytes(5) + b"\2"
    for name, key in tpch.keys.items():
        tpch.run.execute(f"COPY {name} TO '{folder}/{name}.parquet' (FORMAT parquet, COMPRESSION zstd)")
        columns = [Column(one, _type(kind), required=one in key) for one, kind in tpch.columns(name).items()]
        mine = {
            "firn.key": json.dumps(key),
            "firn.mode": "mirror",
            "firn.stream": "spec",
            "firn.source": f"tpch.{name}",
        }
        Tables(lake.spark).create(TableName("tpch", name), lake.warehouse, columns, MIRROR_METADATA, [], mine)
        rows = lake.spark.read.parquet(f"file://{folder}/{name}.parquet")
        parts = max(1, tpch.run.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] // 1_000_000)
        told = f.concat(f.lit(position), f.unhex(f.lpad(f.hex(f.xxhash64(*key)), 16, "0")))
        rows = rows.repartitionByRange(parts, key[0]).sortWithinPartitions(*key)
        rows.select("*", told.alias(POSITION), f.lit(LOADED).alias(TIME)).writeTo(f"firn.tpch.{name}").append()
        (folder / f"{name}.parquet").unlink()


def _type(kind: str) -> Type:
    if not kind.startswith("decimal"):
        return Type(kind)
    precision, scale = map(int, kind[8:-1].split(","))
    return Type("decimal", precision=precision, scale=scale)


def same(one: Any, other: Any) -> bool:
    """Whether two rows are: floats to 1e-9."""
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True)
    )


def differing(lake: Lake, tpch: Tpch) -> list[str]:
    """The views that are not what DuckDB answers."""
    found = []
    for n, sql in QUERIES.items():
        rows = lake.catalog.load_table(("views", f"q{n}")).scan().to_arrow()
        names = [name for name in rows.column_names if not name.startswith("_firn_")]
        there = sorted((tuple(row[name] for name in names) for row in rows.to_pylist()), key=repr)
        wanted = sorted(tpch.run.execute(sql).fetchall(), key=repr)
        if len(there) != len(wanted) or not all(map(same, there, wanted)):
            found.append(f"q{n}: {there[:3]} instead of {wanted[:3]}")
    return found


def hashed(lake: Lake, tpch: Tpch, table: str) -> tuple[int, int]:
    """The same of the lake's table, by PyIceberg."""
    columns, count, total = list(tpch.columns(table)), 0, 0
    scan = lake.catalog.load_table(("tpch", table)).scan(selected_fields=tuple(columns))
    with duckdb.connect(config={"threads": 1}) as run:
        for batch in scan.to_arrow_batch_reader():
            run.register("batch", batch)
            [some] = run.execute(f"SELECT count(*), sum(hash({', '.join(columns)})::HUGEINT) FROM batch").fetchall()
            run.unregister("batch")
            count, total = count + some[0], total + (some[1] or 0)
    return count, total


def test_tpch_queries_follow_its_refresh_functions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: dict[str, float] = {}
    real = refreshed_view.refresh

    def refresh(context: Any, view: Any, *rest: Any, **more: Any) -> Any:
        before = cpu()
        try:
            return real(context, view, *rest, **more)
        finally:
            spent[view.table.table] = round(cpu() - before, 2)

    monkeypatch.setattr(refreshed_view, "refresh", refresh)
    with duckdb.connect(str(tmp_path / "expected.db"), config={"threads": 2, "memory_limit": "2GB"}) as run:
        tpch, equal = Tpch(run), 0
        lake = Lake(spark, tmp_path, tpch.config())
        loaded(lake, tpch, tmp_path)
        for n in range(REFRESHES + 1):
            events = tpch.change(n) if n else tpch.first()
            lake.post(events, at_once=POST)
            spent.clear()
            sealed, before = lake.seal(), cpu()
            assert lake.commit(sealed) == 0, lake.lines
            total, ways = round(cpu() - before, 1), refreshed(lake)
            wrong = differing(lake, tpch)
            if n % WHOLE_EVERY == 0 or n == REFRESHES:
                wrong += [name for name in MADE if hashed(lake, tpch, name) != tpch.hashed(name)]
            whole = {name: way["whole"] for name, way in ways.items() if "whole" in way}
            print(json.dumps({"refresh": n, "events": len(events), "cpu": total, "views": dict(spent), "whole": whole,
                              "wrong": wrong}), flush=True)  # fmt: skip
            assert not wrong, wrong
            assert not n or not whole, whole
            equal += 1
        print(json.dumps({"equal": equal - 1, "orders": tpch.orders}), flush=True)
