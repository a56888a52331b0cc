"""What a notebook shows: bounded, and nothing of the data is markup. And firn_lake starts no Java."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn_lake.lake import Lake
from firn_lake.notebook import MOST_ROWS, html_table

EVIL = "<script>alert(1)</script>&\"'"


def test_nothing_of_the_data_is_markup_and_the_size_is_bounded() -> None:
    html = html_table(EVIL, [EVIL] * 50, ([EVIL * 100] * 50 for _ in range(1000)), EVIL)
    assert "<script" not in html
    assert html.count("<tr>") == MOST_ROWS + 1
    assert "the first 20 are shown; 20 more columns" in html
    assert len(html) < 300_000


def test_a_lake_its_tables_and_their_moments_show_themselves(catalog: Catalog, orders: Table) -> None:
    lake = Lake(catalog)
    rows = pa.table({"id": list(range(100)), EVIL: [EVIL] * 100})
    catalog.create_table(("shop", "<b>evil"), rows.schema).append(rows)
    shown = lake._repr_html_()
    assert "<td>shop.orders</td>" in shown
    assert "<td>shop.&lt;b&gt;evil</td>" in shown
    table = lake.table("shop.orders")
    assert "5 rows, key (id), snapshot" in table._repr_html_()
    assert "<td>amount</td><td>double</td>" in table._repr_html_()
    first = table.snapshots()[0]
    assert f"snapshot {first.id} (month-end)" in first._repr_html_()
    then = table.read(as_of=first.id)._repr_html_()
    assert then.count("<tr>") == 4
    evil = lake.table('shop."<b>evil"').read()._repr_html_()
    assert "<script" not in evil
    assert evil.count("<tr>") == MOST_ROWS + 1
    assert "<td>1</td>" in lake.sql("SELECT min(id) AS least FROM shop.orders")._repr_html_()


def test_reading_a_lake_needs_no_java(catalog: Catalog, orders: Table) -> None:
    program = (
        "import sys, firn_lake; from firn_lake.catalogs.catalog import open_catalog; from firn_lake.lake import Lake; "
        "import os; os.environ['JAVA_HOME'] = '/nonexistent'; "
        f"lake = Lake(open_catalog({catalog.properties['uri']!r}, {catalog.properties['warehouse']!r}, {{}})); "
        "assert lake.sql('SELECT count(*) AS n FROM shop.orders').pylist() == [{'n': 5}]; "
        "assert lake.table('shop.orders').read().count() == 5; "
        "assert not [one for one in ('pyspark', 'py4j', 'jpype') if one in sys.modules]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PATH": "/nonexistent"}, check=False
    )
    assert done.returncode == 0, done.stderr


# What DuckDB's Python package looks at to know that it runs in a notebook. Its __main__ has no file either.
NOTEBOOK = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
sys.modules["ipywidgets"] = None  # not installed
"""


def test_a_notebook_without_widgets_queries_and_compares(catalog: Catalog, orders: Table, tmp_path: Path) -> None:
    (uri, warehouse) = (catalog.properties[name] for name in ("uri", "warehouse"))
    program = NOTEBOOK + dedent(f"""
        import duckdb, pyarrow as pa, firn_lake
        from firn_lake.changes.row_diff import matched
        try:
            duckdb.connect().execute("SET enable_progress_bar = false")
        except duckdb.InvalidInputException:
            print("refused")
        lake = firn_lake.connect({uri!r}, warehouse={warehouse!r}, env={{}})
        print(lake.sql("SELECT count(*) AS n FROM shop.orders").pylist())
        row = pa.RecordBatch.from_pydict({{"id": [1]}})
        print([batch.num_rows for batch in matched([row], [], row.schema, [0])])
        """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines() == ["refused", "[{'n': 5}]", "[1]"], done.stderr
