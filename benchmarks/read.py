"""What the lake's Python side costs beside bare pyarrow over the same files. One JSON line.

    python -m benchmarks.read --rows 4000000 --runs 5

Seconds are medians of the runs, each of which does everything once. `bare` decodes the same Parquet files batch by
batch and knows nothing of tables, deletes or schemas; `arrow` is the same with all rows in memory. `then` reads the
snapshot before the last, `changes` the last commit, a quarter of the rows; `table` opens one.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import firn_lake
from firn_lake.catalog import open_catalog
from firn_lake.lake_table import LakeTable

FILES = 4
BATCH = 10_000


def main() -> None:
    """One measurement."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=4_000_000)
    arguments.add_argument("--runs", type=int, default=5)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="firn-read-") as folder:
        print(json.dumps(measured(Path(folder), given.rows, given.runs)), flush=True)


def measured(folder: Path, rows: int, runs: int) -> dict[str, Any]:
    """The medians, rows a second, and what of bare pyarrow's speed the lake has."""
    address = f"sqlite:///{folder}/catalog.db"
    files = fill(folder, address, rows)
    lake = firn_lake.connect(address, warehouse=f"file://{folder}/warehouse", env={})
    table = lake.table("bench.orders")
    before, last = (one.id for one in table.snapshots()[-2:])
    cases: dict[str, Callable[[], int]] = {
        "bare": lambda: sum(len(batch) for path in files for batch in pq.ParquetFile(path).iter_batches(BATCH)),
        "read": lambda: sum(len(batch) for batch in table.read(batch_size=BATCH)),
        "then": lambda: sum(len(batch) for batch in table.read(as_of=before, batch_size=BATCH)),
        "bare arrow": lambda: len(pa.concat_tables([pq.ParquetFile(path).read() for path in files])),
        "arrow": lambda: len(table.read().arrow()),
        "sql": lambda: int(lake.sql("SELECT sum(amount) > 0 FROM bench.orders").count()),
        "changes": lambda: sum(len(batch) for batch in table.changes(before, last)),
        "table": lambda: opened(lake),
    }
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(runs):
        for name, case in cases.items():  # in turn, so that a slow moment of the machine hits all alike
            began = time.perf_counter()
            case()
            seconds[name].append(time.perf_counter() - began)
    lake.close()
    medians = {name: median(found) for name, found in seconds.items()}
    return {
        "rows": rows,
        "seconds": {name: round(found, 4) for name, found in medians.items()},
        "rows a second": round(rows / medians["read"]),
        "read by bare": round(medians["bare"] / medians["read"], 2),
        "arrow by bare": round(medians["bare arrow"] / medians["arrow"], 2),
        "a row then by a row now": round(medians["then"] / medians["read"] * FILES / (FILES - 1), 2),
    }


def opened(lake: firn_lake.Lake) -> int:
    """Opens a table: the catalog's row and the table's metadata."""
    table: LakeTable = lake.table("bench.orders")
    return len(table.name)


def fill(folder: Path, address: str, rows: int) -> list[str]:
    """A table of `rows` orders in FILES commits. -> its files."""
    catalog = open_catalog(address, f"file://{folder}/warehouse", {})
    catalog.create_namespace("bench")
    each = rows // FILES
    table, files = None, []
    for number in range(FILES):
        data = orders(number * each, each)
        table = table or catalog.create_table("bench.orders", data.schema, properties={"firn.key": '["order_id"]'})
        files.append(f"{folder}/orders-{number}.parquet")
        # As Spark writes them: PyIceberg's files say that their text is Arrow's large one.
        pq.write_table(data, files[-1], compression="zstd", row_group_size=1_000_000)
        table.add_files([f"file://{files[-1]}"])
    catalog.close()
    return files


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
