"""docs/lake.md and examples/lake, run as they stand over a small lake with the shop's orders."""

import importlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from firn.ingest import accept
from firn.log import published_configs
from firn.log.store import open_store
from firn_lake.catalogs.catalog import open_catalog

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "lake.md").read_text()
COLUMNS = pa.schema(
    [("order_id", pa.int64()), ("customer_id", pa.int64()), ("status", pa.string()), ("total", pa.decimal128(10, 2))]
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a stopped stack's files in .firn: two snapshots of shop.orders."""
    stack = tmp_path / ".firn"
    stack.mkdir()
    catalog = open_catalog(f"sqlite:///{stack}/catalog.db", f"file://{stack}/warehouse", {})
    fill(catalog)
    catalog.close()
    wait(stack)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(catalog: Catalog) -> None:
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", COLUMNS, properties={"firn.key": '["order_id"]', "firn.mode": "mirror"})
    table.append(orders((1, "new"), (2, "paid"), (3, "new")))
    with table.transaction() as both:
        both.delete("order_id in (1, 3)")
        both.append(orders((1, "paid"), (4, "new")))


def wait(stack: Path) -> None:
    """An order that is acknowledged and not committed."""
    store = open_store(f"file://{stack}/staging")
    text = "streams: {shop: {tables: {public.orders: {to: shop.orders, key: [order_id]}}}}\n"
    config = published_configs.publish(store, text)
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": '["7", "8"]', "lsn": 8}
    row = {"order_id": 9, "customer_id": 7, "status": "new", "total": None}
    event = {"op": "c", "before": None, "after": row, "source": source}
    answer = accept.accept(store, config, "shop", json.dumps(event).encode(), now=datetime.now(UTC))
    assert answer.accepted == 1


def orders(*rows: tuple[int, str]) -> pa.Table:
    told = [
        {"order_id": number, "customer_id": 7, "status": status, "total": Decimal(number * 10)}
        for number, status in rows
    ]
    return pa.Table.from_pylist(told, COLUMNS)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{re.escape(kind)}\n(.*?)```", PAGE, re.DOTALL)


def test_the_pages_python_runs_from_top_to_bottom(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    told = []
    for block in blocks("python run"):
        exec(block, names)
        told.append(capsys.readouterr().out)
    names["lake"].close()  # type: ignore[attr-defined]
    assert "['shop.orders']" in told[0]
    assert told[1].split() == ["2", *(str(batch) for batch in map(int, told[1].split()[1:]))]
    assert told[2].split() == ["3", "3", "3"]
    assert told[3] == "[{'status': 'new', 'orders': 2}, {'status': 'paid', 'orders': 1}]\n"
    assert told[4] == "[{'order_id': 1, 'before': 'new', 'after': 'paid'}]\n"
    assert told[5] == ("[{'order_id': 9, 'customer_id': 7, 'status': 'new', 'total': None}]\n[{'orders': 4}]\n")
    assert sorted(told[6].splitlines())[1:] == [
        "insert 4 None -> new",
        "update 1 new -> paid",
        "{'insert': 1, 'update': 1, 'delete': 1}",
    ]
    assert told[7].endswith("[]\n")
    pruned = next(one for one in told if "bytes) are read" in one)
    assert pruned.startswith("2 of 2 files (")
    changed = next(one for one in told if "would be partitioned by" in one)
    assert changed.startswith(
        "shop.orders would be partitioned by bucket(4, customer_id), not nothing, from here on; 2 "
    )
    refs, goals, loaded = told[-3:]
    assert refs.splitlines() == [
        "[('audit', 'branch'), ('before-import', 'tag'), ('main', 'branch')]",
        "3 {'insert': 0, 'update': 0, 'delete': 0}",
    ]
    assert goals == "[{'region': 'west', 'day': datetime.date(2026, 1, 15), 'goal': Decimal('50.00')}]\n"
    assert loaded == "2 0 0\n"


def test_the_pages_commands_run(folder: Path) -> None:
    told = []
    for block in blocks("sh run"):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
        assert done.returncode == 0, done.stderr
        told.append((block, done))
    diff = next(done for block, done in told if "firn diff" in block)
    assert diff.stdout.strip() == "[]"
    assert "its first kept one is of" in diff.stderr
    prune = next(done for block, done in told if "firn explain" in block)
    assert "read" in prune.stdout
    assert "files (" in prune.stderr


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("first_table", ["shop.orders: 3 rows, key (order_id)", "2 orders are paid", "3 orders in all"]),
        ("time_travel", ["append: 2 new, 1 paid", ": 1 new, 2 paid"]),
        ("hybrid", ["committed: 1 new, 2 paid", "fresh: 2 new, 2 paid"]),
        ("diff", ["+ 4 is new", "~ 1 was new, is paid", "- 3 was new"]),
    ],
)
def test_an_example_tells(folder: Path, capsys: pytest.CaptureFixture[str], name: str, expected: list[str]) -> None:
    importlib.import_module(f"examples.lake.{name}").main(".firn")
    told = capsys.readouterr().out
    for line in expected:
        assert line in told, told


def test_the_example_that_follows_keeps_an_exact_copy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follow = importlib.import_module("examples.lake.follow").main
    follow(".firn", "copy.sqlite")
    catalog = open_catalog(f"sqlite:///{folder}/.firn/catalog.db", f"file://{folder}/.firn/warehouse", {})
    table = catalog.load_table("shop.orders")
    table.delete("order_id = 2")
    table.append(orders((5, "new")))
    catalog.close()
    follow(".firn", "copy.sqlite")
    follow(".firn", "copy.sqlite")
    database = sqlite3.connect("copy.sqlite")
    assert database.execute("SELECT * FROM orders ORDER BY 1").fetchall() == [(1, "paid"), (4, "new"), (5, "new")]
    database.close()
    assert len(capsys.readouterr().out.splitlines()) == 2
