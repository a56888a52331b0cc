"""What the lake's Python side costs beside bare pyarrow and bare PyIceberg. A table for people, then one JSON line.

    python -m benchmarks.read --rows 4000000 --partitions 2000 --runs 5

Each case has a bare one, run right after it: Parquet files decoded batch by batch, by who knows nothing of tables,
deletes or schemas; all of them in memory; the same read of the newest snapshot; PyIceberg's own opening of a catalog
and planning of files; the same look-up in files without Bloom filters. Figures are medians of the runs.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog

import firn_lake
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.writing.partitioning import spec_for

FILES = 4
BATCH = 10_000
DAY = datetime(2026, 1, 1, tzinfo=UTC)
ONE_DAY = "placed_at >= '2026-03-01T00:00:00+00:00' and placed_at < '2026-03-02T00:00:00+00:00'"


@dataclass
class Pair:
    """A case and its bare one: wall and CPU milliseconds of each run. `share`: of the bare one's work that it does."""

    name: str
    title: str
    case: Callable[[], object]
    bare: Callable[[], object]
    share: float = 1.0
    times: list[tuple[float, float]] = field(default_factory=list)
    bare_times: list[tuple[float, float]] = field(default_factory=list)

    def run(self, *, bare_first: bool) -> None:
        """Once each. The second one finds memory that the first one has let go: they take turns at being first."""
        if bare_first:
            self.bare_times.append(_timed(self.bare))
        self.times.append(_timed(self.case))
        if not bare_first:
            self.bare_times.append(_timed(self.bare))

    def told(self) -> dict[str, float]:
        """Medians in milliseconds, the case's quickest run, and the case by the bare one."""
        wall, cpu = (median(column) for column in zip(*self.times, strict=True))
        bare_wall, bare_cpu = (median(column) for column in zip(*self.bare_times, strict=True))
        return {
            "wall": wall,
            "cpu": cpu,
            "bare wall": bare_wall,
            "bare cpu": bare_cpu,
            "least": min(wall for wall, _ in self.times),
            "by wall": wall / bare_wall / self.share,
            "by cpu": cpu / bare_cpu / self.share,
        }


def main() -> None:
    """One measurement."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=4_000_000)
    arguments.add_argument("--partitions", type=int, default=2_000)
    arguments.add_argument("--runs", type=int, default=5)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="firn-read-") as folder:
        pairs = measured(Path(folder), given.rows, given.partitions, given.runs)
    print(
        f"{given.rows:,} rows in {FILES} files, {given.partitions:,} partitions; medians of {given.runs} runs, beside "
        f"others' work: load {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores"
    )
    print(f"  {'ms':<52}{'wall':>10}{'CPU':>10}{'bare wall':>11}{'bare CPU':>10}{'by bare':>9}{'CPU by':>8}")
    found = {pair.name: {name: round(value, 3) for name, value in pair.told().items()} for pair in pairs}
    for pair in pairs:
        told = found[pair.name]
        figures = "".join(f"{told[of]:{width},.1f}" for of, width in
                          (("wall", 10), ("cpu", 10), ("bare wall", 11), ("bare cpu", 10)))  # fmt: skip
        print(f"  {pair.title:<52}{figures}{told['by wall']:9.2f}{told['by cpu']:8.2f}")
    print(json.dumps({"rows": given.rows, "pairs": found}), flush=True)


def measured(folder: Path, rows: int, partitions: int, runs: int) -> list[Pair]:
    """All pairs, run."""
    address, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    catalog = open_catalog(address, warehouse, {})
    catalog.create_namespace("bench")
    files = fill(catalog, folder, rows)
    fill_days(catalog, folder, partitions)
    wanted = fill_keyed(catalog, folder, rows // 4)
    catalog.close()
    lake = firn_lake.connect(address, warehouse=warehouse, env={})
    table, days = lake.table("bench.orders"), lake.table("bench.days")
    keyed, plain = lake.table("bench.keyed"), lake.table("bench.plain")
    before = table.snapshots()[-2].id
    iceberg = days.iceberg

    def read(as_of: int | None = None) -> int:
        return sum(len(batch) for batch in table.read(as_of=as_of, batch_size=BATCH))

    def opened() -> int:
        with firn_lake.connect(address, warehouse=warehouse, env={}) as again:
            return len(again.table("bench.orders").name)

    def opened_bare() -> int:
        again = load_catalog("firn", type="sql", uri=address, warehouse=warehouse)
        found = len(again.load_table("bench.orders").name())
        again.close()
        return found

    look_up = f"key = '{wanted}'"
    pairs = [
        Pair("batches", "batches, by pyarrow's of the same files", read,
             lambda: sum(len(batch) for path in files for batch in pq.ParquetFile(path).iter_batches(BATCH))),
        Pair("arrow", "all as Arrow, by pyarrow's", lambda: len(table.read().arrow()),
             lambda: len(pa.concat_tables([pq.ParquetFile(path).read() for path in files]))),
        Pair("earlier", "a row at the snapshot before, by a row now", lambda: read(before), read, (FILES - 1) / FILES),
        Pair("open", "connect and open a table, by load_catalog, load_table", opened, opened_bare),
        Pair("prune", "prune, warm, by plan_files", lambda: days.prune(ONE_DAY),
             lambda: list(iceberg.scan(row_filter=ONE_DAY).plan_files())),
        Pair("day", "read one day, by plan_files alone", lambda: days.read(filter=ONE_DAY).arrow(),
             lambda: list(iceberg.scan(row_filter=ONE_DAY).plan_files())),
        Pair("look-up", "look up a random key, by without Bloom filters", lambda: keyed.read(filter=look_up).arrow(),
             lambda: plain.read(filter=look_up).arrow()),
    ]  # fmt: skip
    for run in range(runs + 1):
        for pair in pairs:  # in turn, so that a slow moment of the machine hits all alike
            pair.run(bare_first=run % 2 == 0)
        if not run:  # to warm up
            for pair in pairs:
                pair.times.clear()
                pair.bare_times.clear()
    lake.close()
    return pairs


def _timed(case: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds: wall, and CPU of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    case()
    return (time.perf_counter() - wall) * 1_000, (time.process_time() - cpu) * 1_000


def fill(catalog: Catalog, folder: Path, rows: int) -> list[str]:
    """bench.orders: `rows` orders in FILES commits. -> its files."""
    each = rows // FILES
    table, files = None, []
    for number in range(FILES):
        data = orders(number * each, each)
        table = table or catalog.create_table("bench.orders", data.schema, properties={"firn.key": '["order_id"]'})
        files.append(f"{folder}/orders-{number}.parquet")
        # As Spark writes them: PyIceberg's files say that their text is Arrow's large one.
        pq.write_table(data, files[-1], compression="zstd", row_group_size=1_000_000)
        table.add_files([f"file://{files[-1]}"])
    return files


def fill_days(catalog: Catalog, folder: Path, partitions: int) -> None:
    """bench.days: a file of four orders a day, partitioned by it."""
    schema = catalog.load_table("bench.orders").schema()
    made = catalog.create_table("bench.days", schema, partition_spec=spec_for(schema, ["day(placed_at)"]))
    files = []
    for number in range(partitions):
        data = orders(number * 4, 4)
        at = pa.array([DAY + timedelta(days=number)] * 4, pa.timestamp("us", "UTC"))
        files.append(f"{folder}/day-{number}.parquet")
        pq.write_table(data.set_column(data.schema.get_field_index("placed_at"), "placed_at", at), files[-1])
    made.add_files([f"file://{path}" for path in files])


def fill_keyed(catalog: Catalog, folder: Path, rows: int) -> str:
    """bench.keyed and bench.plain: random keys in ten files, with Bloom filters and without. -> one of the keys."""
    dice, each = random.Random(1), rows // 10
    keys = [[f"{dice.getrandbits(128):032x}" for _ in range(each)] for _ in range(10)]
    for name, more in (("keyed", {"bloom_filter_options": {"key": {"ndv": each, "fpp": 0.01}}}), ("plain", {})):
        table = None
        for number, some in enumerate(keys):
            data = orders(number * each, each).append_column("key", [some])
            table = table or catalog.create_table(f"bench.{name}", data.schema)
            path = f"{folder}/{name}-{number}.parquet"
            pq.write_table(data, path, compression="zstd", row_group_size=1_000_000, **more)
            table.add_files([f"file://{path}"])
    return keys[5][each // 2]


def orders(first: int, count: int) -> pa.Table:
    """Eight columns, as orders have them."""
    ids = pa.arange(first, first + count)
    strings = ids.cast(pa.string())
    return pa.table(
        {
            "order_id": ids,
            "customer_id": pc.bit_wise_and(ids, 0xFFFF),
            "status": pa.array(["new", "paid", "sent", "gone"]).take(pc.bit_wise_and(ids, 3)),
            "amount": pc.divide(ids.cast(pa.float64()), 100.0),
            "placed_at": ids.cast(pa.timestamp("us", "UTC")),
            "note": pc.binary_join_element_wise("order number", strings, " "),
            "city": pc.utf8_slice_codeunits(strings, 0, 3),
            "paid": pc.equal(pc.bit_wise_and(ids, 1), 1),
        }
    )


if __name__ == "__main__":
    main()
