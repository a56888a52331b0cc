"""What views cost: a refresh after some changes, beside a commit of nothing and beside the whole query. JSON lines.

    python -m benchmarks.views [--rows 10000000] [--changes 1000] [--runs 5] [--case groups|join|ages|fresh …]
                               [--alone] [--without spark|duckdb|script …] [--refreshes 100] [--work FOLDER]

A table of so many rows with a tenth as many groups, and a table with a row for each group. Each run commits changes of
random rows, then:

- `refresh`: the view by what changed; `empty`: a refresh after a snapshot that changed no row
- `spark`: INSERT OVERWRITE of the same query in the same session
- `duckdb`: the query over the table's Parquet files, deletes not looked at, and COPY of the result into one
- `script`: PyIceberg reads the columns, DuckDB computes, PyIceberg overwrites a table

`groups` is GROUP BY with a count, a sum and an average; `join` has all rows, each with its group's name. `ages` has 100
refreshes one after the other (`around`: the median of five around each); `fresh` has 5 and 20 views that are refreshed
by turns of the commit job. CPU seconds are those of this process and of the JVM (pairs.cpu) until both rest, each the
median of its runs; `ratio` is refresh less empty by another.
"""

import argparse
import cProfile
import json
import random
import time
from collections.abc import Callable, Collection
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import duckdb
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import functions as f

from benchmarks import pairs, spark
from benchmarks.firn_case import LOADED, STAGED
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import MIRROR_METADATA, POSITION, TIME
from firn.changes.positions import WIDTH
from firn.config.names import TableName
from firn.config.reader import parse
from firn.config.views import View
from firn.ingest import accept
from firn.log import cuts, epochs, published_configs
from firn.log.store import open_store
from firn.views.cut import ViewCut
from firn_spark import commit
from firn_spark.lake import SparkLake
from firn_spark.tables.evolve import Tables

STREAM: Final = "shop"
GROUPS: Final = "SELECT k, count(*) AS size, sum(amount) AS total, avg(amount) AS mean FROM shop.orders GROUP BY k"
JOIN: Final = "SELECT o.id, o.amount, c.name FROM shop.orders o JOIN shop.customers c ON o.k = c.id"
FRESH: Final = (
    "SELECT k % {n}00 AS part, count(*) AS size, sum(amount) AS total FROM shop.orders GROUP BY k % {n}00",
    "SELECT id, amount FROM shop.orders WHERE k % {n}0 = 0",
    "SELECT c.name, count(*) AS size, sum(o.amount) AS total FROM shop.orders o JOIN shop.customers c ON o.k = c.id "
    "WHERE o.amount > {n} GROUP BY c.name",
    "SELECT k, max(amount) AS top, {n} AS n FROM shop.orders GROUP BY k",
)
AGES: Final = (5, 10, 20, 30, 50, 75, 100)
_TABLES: Final = {
    "orders": (Column("id", Type("long"), required=True), Column("k", Type("long")),
               Column("amount", Type("decimal", precision=18, scale=2)), Column("note", Type("string"))),
    "customers": (Column("id", Type("long"), required=True), Column("name", Type("string"))),
}  # fmt: skip
_FIRST_LSN: Final = 24_000_000_000
_LONGEST_REST, _LOOK, _AT_REST = 20.0, 0.3, 0.02  # seconds: to wait, between two looks, of CPU in which nothing runs


def config(views: dict[str, str]) -> str:
    """firn.yaml with these views: name -> SQL."""
    said = {f"shop.{name}": {"sql": sql} for name, sql in views.items()}
    tables = "".join(
        f"      public.{name}: {{to: shop.{name}, key: [id], columns: {{{_kinds(columns)}}}}}\n"
        for name, columns in _TABLES.items()
    )
    return (
        f"streams:\n  {STREAM}:\n    envelope: debezium\n    debezium: {{decimal.handling.mode: string}}\n"
        f"    tables:\n{tables}views: {json.dumps(said)}\n"
    )


def _kinds(columns: tuple[Column, ...]) -> str:
    kinds = {"long": "long", "string": "string", "decimal": "'decimal(18,2)'"}
    return ", ".join(f"{one.name}: {kinds[one.type.name]}" for one in columns)


def load(lake: spark.Lake, rows: int) -> None:
    """Both tables, as a bulk load would write them."""
    groups, position = max(1, rows // 10), bytes(WIDTH - 5) + (23_000_000_000).to_bytes(5) + b"\2"
    some = lake.spark.range(0, rows, numPartitions=8)
    of = {
        "orders": some.select(
            "id", f.expr(f"pmod(xxhash64(id), {groups})").alias("k"),
            f.expr("cast(pmod(xxhash64(id, 1), 100000) / 100 as decimal(18,2))").alias("amount"),
            f.concat(f.lit("note "), f.hex(f.xxhash64("id"))).alias("note"),
        ),
        "customers": lake.spark.range(0, groups, numPartitions=2).select(
            "id", f.concat(f.lit("customer "), f.hex(f.xxhash64("id"))).alias("name")
        ),
    }  # fmt: skip
    for name, columns in _TABLES.items():
        mine = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": STREAM, "firn.source": f"public.{name}"}
        Tables(lake.spark).create(
            TableName.parse(f"shop.{name}"), lake.warehouse, list(columns), MIRROR_METADATA, [], mine
        )
        told = f.concat(f.lit(position), f.unhex(f.lpad(f.hex(f.xxhash64("id")), 16, "0")))
        of[name].select("*", told.alias(POSITION), f.lit(LOADED).alias(TIME)).writeTo(f"firn.shop.{name}").append()


class Shop:
    """The tables, and changes of them. `views`: those that the commit job refreshes itself."""

    def __init__(self, lake: spark.Lake, rows: int, views: dict[str, str]) -> None:
        self.lake, self.rows, self.spark = lake, rows, lake.spark
        self.staging = f"file://{lake.folder}/staging"
        self.store = open_store(self.staging)
        self.config = published_configs.publish(self.store, config(views))
        self.lines: list[dict[str, Any]] = []
        self.engine = SparkLake(self.store, self.staging, lake.warehouse, lake.catalog_uri, self.spark)
        self._now, self._lsn, self._dice = STAGED, _FIRST_LSN, random.Random(1)

    def change(self, count: int) -> int:
        """Commits changes of so many random rows, nine in ten of orders. -> the epoch."""
        lines = []
        for n in range(count):
            self._lsn += 100
            table = "customers" if n % 10 == 9 else "orders"
            lines.append(json.dumps(self._event(table)))
        self._now += timedelta(seconds=1)
        answer = accept.accept(self.store, self.config, STREAM, "\n".join(lines).encode(), now=self._now)
        assert not answer.rejected, answer
        self._now += timedelta(seconds=1)
        found = epochs.candidates(self.store, STREAM, self._now, above=cuts.newest(self.store, STREAM))
        sealed = epochs.seal(self.store, STREAM, found, now=self._now, config=self.config.sha, nonce=str(found.next_n))
        assert sealed is not None
        return sealed.n

    def _event(self, table: str) -> dict[str, Any]:
        groups, dice = max(1, self.rows // 10), self._dice
        row: dict[str, Any] = {"id": dice.randrange(groups), "name": f"renamed {self._lsn}"}
        if table == "orders":
            row = {"id": dice.randrange(self.rows), "k": dice.randrange(groups), "note": f"changed {self._lsn}"}
            row["amount"] = f"{dice.randrange(100_000) / 100:.2f}"
        source = {
            "connector": "postgresql", "schema": "public", "table": table, "ts_ms": 1_780_000_000_000,
            "sequence": json.dumps([str(self._lsn - 50), str(self._lsn)]), "lsn": self._lsn,
        }  # fmt: skip
        return {"op": "u", "before": None, "after": row, "source": source, "ts_ms": 1_780_000_000_000}

    def commit(self, n: int) -> None:
        """Runs the commit job on an epoch."""
        self.lines = []
        where = self.lake.warehouse, self.lake.catalog_uri
        assert commit.run(STREAM, self.staging, *where, n, n, spark=self.spark, log=self.lines.append) == 0, self.lines

    def cut(self) -> ViewCut:
        """What views are to be of: the tables as they are."""
        tables = {TableName.parse(f"shop.{name}"): self.table(f"shop.{name}") for name in _TABLES}
        return ViewCut({STREAM: 0}, {name: frozenset({int(one.head().snapshotId())}) for name, one in tables.items()})

    def table(self, name: str) -> Any:
        """A table as it is now (firn_spark.tables.evolve.Table)."""
        return Tables(self.spark).load(TableName.parse(name))

    def refresh(self, view: View, at: ViewCut) -> dict[str, Any]:
        """Refreshes a view by itself. -> how. Raises AssertionError where that failed."""
        found = self.engine.refresh(STREAM, self.config.streams[STREAM], view, at)
        assert found is not None, view
        assert found.status == "committed", found
        return found.way

    def care(self, view: View) -> None:
        """What a job does for a view after it has refreshed it. Raises AssertionError where that failed."""
        for line in self.engine.care(STREAM, view.table, self.config.care_of(view.table), self._now):
            assert line["status"] != "not compacted", line

    def append_nothing(self) -> None:
        """A snapshot of orders that changes no row."""
        self.table("shop.orders").java.newAppend().commit()

    def files(self, name: str) -> list[str]:
        """A table's data files."""
        rows = self.spark.sql(f"SELECT file_path FROM firn.{name}.files WHERE content = 0").collect()
        return [row[0].removeprefix("file://").removeprefix("file:") for row in rows]


def view_of(name: str, sql: str) -> View:
    """A view that the commit job doesn't know."""
    (view,) = parse(config({name: sql})).streams[STREAM].views
    return view


def by_spark(shop: Shop, name: str, sql: str) -> Callable[[], Any]:
    """INSERT OVERWRITE."""
    query = sql.replace("shop.", "firn.shop.")
    target = f"firn.shop.{name}_by_spark"
    shop.spark.sql(f"CREATE TABLE IF NOT EXISTS {target} USING iceberg AS {query} LIMIT 0")
    return lambda: shop.spark.sql(f"INSERT OVERWRITE {target} {query}")


def by_duckdb(shop: Shop, name: str, sql: str) -> Callable[[], Any]:
    """DuckDB over the files."""
    files = {one: shop.files(one) for one in ("shop.orders", "shop.customers")}
    query = sql
    for one, paths in files.items():
        query = query.replace(one, f"read_parquet({paths})")
    target = shop.lake.folder / f"{name}.parquet"

    def run() -> None:
        with closing(duckdb.connect()) as connection:
            connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")

    return run


def by_script(shop: Shop, name: str, sql: str) -> Callable[[], Any]:
    """What a user would write."""
    catalog = SqlCatalog("firn", uri=shop.lake.catalog_uri, warehouse=shop.lake.warehouse)
    target = f"shop.{name}_by_script"
    columns = {"orders": ("id", "k", "amount") if "o.id" in sql else ("k", "amount"), "customers": ("id", "name")}

    def run() -> None:
        with closing(duckdb.connect()) as connection:
            query = sql
            for one, some in columns.items():
                if f"shop.{one}" in sql:
                    scan = catalog.load_table(f"shop.{one}").scan(selected_fields=some)
                    connection.register(one, scan.to_arrow_batch_reader())
                    query = query.replace(f"shop.{one}", one)
            rows = connection.sql(query).to_arrow_table()
            catalog.create_table_if_not_exists(target, rows.schema).overwrite(rows)

    return run


OTHERS: Final = {"spark": by_spark, "duckdb": by_duckdb, "script": by_script}


def compared(shop: Shop, name: str, sql: str, changes: int, runs: int, others: Collection[str], profile: str) -> None:
    """A refresh beside all else."""
    view = view_of(name, sql)
    with Peak() as peak:
        told = measured("fill", lambda: shop.refresh(view, shop.cut()))
    tell(name, what="fill", peak_mb=peak.most, before_mb=peak.before, **told)
    spent: dict[str, list[float]] = {}
    for n in range(-1, runs):
        shop.commit(shop.change(changes))
        at = shop.cut()
        told = measured("refresh", partial(shop.refresh, view, at))
        assert "whole" not in told, told
        if profile and n < 0:
            shop.commit(shop.change(changes))
            at, profiler = shop.cut(), cProfile.Profile(time.process_time)
            profiler.runcall(shop.refresh, view, at)
            profiler.dump_stats(f"{profile}-{name}")
        shop.append_nothing()
        at = shop.cut()
        empty = measured("empty", partial(shop.refresh, view, at))
        found = {"refresh": told, "empty": empty}
        # The others cost the same each time, and much.
        for other in others if n < min(runs, 1) else ():
            found[other] = measured(other, OTHERS[other](shop, name, sql))
        if n >= 0:  # the first warms all up
            for one, each in found.items():
                spent.setdefault(one, []).append(each["cpu"])
                tell(name, what=one, run=n, **each)
    cpu = {one: median(each) for one, each in spent.items()}
    own = cpu["refresh"] - cpu["empty"]
    tell(name, cpu=cpu, net=round(own, 3), ratio={one: round(own / cpu[one], 4) for one in OTHERS if one in cpu})


def aged(shop: Shop, changes: int, refreshes: int) -> None:
    """Refreshes, each with the care that a job takes of the view after it: whether the later ones cost more."""
    view = view_of("aged", GROUPS)
    spent: dict[str, list[float]] = {"refresh": [], "care": []}
    shop.refresh(view, shop.cut())
    for _ in range(refreshes):
        shop.commit(shop.change(changes))
        at = shop.cut()
        spent["refresh"].append(measured("refresh", partial(shop.refresh, view, at))["cpu"])
        spent["care"].append(measured("care", partial(shop.care, view))["cpu"])
    for what, each in spent.items():
        around = {n: median(each[max(0, min(n + 2, refreshes) - 5) : n + 2]) for n in AGES if n <= refreshes}
        first, last = around.get(AGES[0], 0.0), around[max(around)] if around else 0.0
        ratio = round(last / first, 2) if first else None
        tell("ages", what=what, cpu=each, mean=round(sum(each) / len(each), 3), around=around, ratio=ratio)


def fresh(session: Any, base: Path, work: Path, rows: int, changes: int, runs: int) -> None:
    """Turns of the commit job."""
    for count in (5, 20):
        lake = spark.restored(session, base, work / "runs" / f"views-fresh-{count}")
        views = {f"v{n}": FRESH[n % len(FRESH)].format(n=n + 2) for n in range(count)}
        shop = Shop(lake, rows, views)
        shop.commit(shop.change(changes))
        for n in range(runs):
            sealed = shop.change(changes)
            told = measured("job", partial(shop.commit, sealed))
            lines = [line for line in shop.lines if line.get("mode") == "view"]
            assert len(lines) == count, lines
            assert not any("whole" in line["way"] for line in lines), lines
            each = sorted(line["seconds"] for line in lines)
            tell("fresh", views=count, run=n, turn=round(sum(each), 3), longest=each[-1], **told)


def measured(what: str, run: Callable[[], Any]) -> dict[str, Any]:
    """CPU seconds of something, of the process alone too, and wall seconds. What the JVM still compiles of what ran
    before is not among them, and what it compiles afterwards is."""
    rest()
    began, own, before = time.perf_counter(), time.process_time(), pairs.cpu()
    found = run()
    seconds, without_jvm = time.perf_counter() - began, time.process_time() - own
    rest()
    told = {"cpu": round(pairs.cpu() - before, 3), "without_jvm": round(without_jvm, 3), "seconds": round(seconds, 3)}
    return told | (found if isinstance(found, dict) and what != "job" else {})


def rest() -> None:
    """Waits until next to nothing is computed any more, some seconds at most."""
    end = time.monotonic() + _LONGEST_REST
    while time.monotonic() < end:
        before = pairs.cpu()
        time.sleep(_LOOK)
        if pairs.cpu() - before <= _AT_REST:
            return


def tell(case: str, **told: Any) -> None:
    """A line."""
    print(json.dumps({"case": case} | told), flush=True)


class Peak:
    """The resident memory of this process alone, in MB: before, and the most."""

    def __enter__(self) -> "Peak":
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
        self.before = _memory("VmRSS:")
        return self

    def __exit__(self, *_: object) -> None:
        self.most = _memory("VmHWM:")


def _memory(word: str) -> int:
    return int(Path("/proc/self/status").read_text().partition(word)[2].split()[0]) // 1024


def main() -> None:
    """Runs the cases."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--changes", type=int, default=1_000)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--case", action="append", choices=("groups", "join", "ages", "fresh"))
    arguments.add_argument("--alone", action="store_true", help="without Spark's, DuckDB's and the script's")
    arguments.add_argument("--without", action="append", default=[], choices=OTHERS)
    arguments.add_argument("--refreshes", type=int, default=100)
    arguments.add_argument("--profile", default="", help="where the CPU seconds of one refresh of each case go")
    arguments.add_argument("--work", type=Path, default=spark.CACHE, help="where tables are made, and kept for later")
    given = arguments.parse_args()
    session, work = spark.start(), given.work.resolve()
    base = spark.base_lake(session, f"views-{given.rows}", lambda lake: load(lake, given.rows), work)
    cases = given.case or ["groups", "join", "ages", "fresh"]
    for case in cases:
        if case == "fresh":
            fresh(session, base, work, given.rows, 2 * given.changes, given.runs)
            continue
        shop = Shop(spark.restored(session, base, work / "runs" / f"views-{case}"), given.rows, {})
        if case == "ages":
            aged(shop, given.changes, given.refreshes)
        else:
            sql = GROUPS if case == "groups" else JOIN
            others = [] if given.alone else [one for one in OTHERS if one not in given.without]
            compared(shop, case, sql, given.changes, given.runs, others, given.profile)
    session.stop()


if __name__ == "__main__":
    main()
