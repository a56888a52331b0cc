"""Reading takes memory by the batch and the row group, not by the file or the table."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn_lake.catalogs.catalog import open_catalog
from tests.soak import LONG, few_cases, long_only

_MB = 1024 * 1024
# A row is 256 bytes that do not compress: 100 MB in one file, 1 GB in `make soak`.
_ROWS = 4_000_000 if LONG else 400_000
_READ = """
import json, resource
import duckdb, firn_lake, pyarrow, pyarrow.compute
lake = firn_lake.connect({folder!r})
table = lake.table("shop.big")
table.read(limit=1).count()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
found = {what}
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([found, pyarrow.default_memory_pool().max_memory(), after - before]))
"""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(32_768, marks=long_only, id="row groups of 8 MB"),
        pytest.param(400_000, id="row groups of 100 MB"),
    ],
)
def big(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of a lake with one table of one file."""
    folder = tmp_path_factory.mktemp("big")
    catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
    catalog.create_namespace_if_not_exists("shop")
    schema = pa.schema([("id", pa.int64()), ("body", pa.binary())])
    table = catalog.create_table("shop.big", schema, properties={"firn.key": '["id"]'})
    path = folder / "big.parquet"
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, _ROWS, request.param):
            ids = range(first, min(_ROWS, first + request.param))
            rows = pa.table({"id": ids, "body": [os.urandom(256) for _ in ids]}, schema)
            writer.write_table(rows, row_group_size=request.param)
    table.add_files([f"file://{path}"])
    yield folder
    catalog.close()
    path.unlink()


def run(folder: Path, what: str) -> tuple[object, int]:
    """(what the expression gives, the most bytes that Arrow had at once), in a process of its own."""
    code = _READ.format(folder=str(folder), what=what)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    found, arrow, grown = json.loads(done.stdout)
    print(f"Arrow had at most {arrow / _MB:.0f} MB, the process grew by {grown / _MB:.0f} MB")
    return found, arrow


@few_cases(1)
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("sum(batch.num_rows for batch in table.read())", _ROWS),
        ("table.read(filter='id >= 1000', batch_size=100).count()", _ROWS - 1000),
        ("lake.sql('SELECT count(body) AS n FROM big').pylist()", [{"n": _ROWS}]),
        ("table.changes(None).counts()", {"insert": _ROWS, "update": 0, "delete": 0}),
    ],
)
def test_a_large_file_is_read_in_much_less(big: Path, what: str, expected: object) -> None:
    found, most = run(big, what)
    assert found == expected
    assert most < 60 * _MB, f"{most / _MB:.0f} MB"
