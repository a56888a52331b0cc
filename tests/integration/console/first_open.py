"""How long a table of 100,000 snapshots takes to open for the first time, in a browser, on a stack just started.

    python -m tests.integration.console.first_open [--snapshots 100000]

Its rows, then its time travel on a second stack: each time the query function and its worker start only when the page
asks. Told beside are the seconds of a processor that these two took: on a machine with other work they say more than
the clock. Needs Chromium and Playwright (`make setup-tests`). Exit code 1 if either page takes more than 3 s.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from firn.deployment.target import find_stack
from firn_lake.catalogs.stack_catalog import catalog_of
from tests.integration.console.conftest import Console, started_browser
from tests.integration.console.footprint import resident, stack_url
from tests.unit.lake.long_table import lengthened

MOST_SECONDS: Final = 3.0
_ROWS: Final = pa.table({"id": list(range(1_000)), "status": ["paid"] * 1_000})
_CONFIG: Final = "streams: {shop: {envelope: debezium, tables: {'*': {to: 'shop.{table}'}}}}\n"
# View -> its address, and the text that is there once it can be used.
PAGES: Final = {"rows": ("", "rows 1 to 200"), "time travel": ("?view=time", "{:,} snapshots")}


def opened(browser: Any, view: str, snapshots: int) -> tuple[float, float]:
    """Seconds until the view is there, and seconds of a processor that the query function took with its worker."""
    address, text = PAGES[view]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "firn.yaml").write_text(_CONFIG)
        firn = str(Path(sys.executable).parent / "firn")
        command = [firn, "up", "--port", "0", "--no-schedules", "--dir", "stack", "--config", "firn.yaml"]
        with (root / "up.log").open("wb") as log:
            stack = subprocess.Popen(command, stdout=log, stderr=log, cwd=root)
        try:
            url = stack_url(root / "stack" / "stack.json", stack)
            catalog = catalog_of(find_stack(root / "stack"))
            catalog.create_namespace("shop")
            table = catalog.create_table("shop.orders", _ROWS.schema, properties={"firn.key": '["id"]'})
            table.append(_ROWS)
            lengthened(catalog, table, snapshots)
            console = Console(browser.new_page(viewport={"width": 1350, "height": 940}), url)
            console.page.set_default_timeout(60_000)
            console.open()
            began = time.perf_counter()
            page = console.open(f"tables/shop.orders{address}", "shop.orders")
            page.get_by_text(text.format(snapshots)).first.wait_for()
            seconds = time.perf_counter() - began
            page.close()
            asked = [name for name in resident(stack.pid) if name.startswith("Query") or "query_worker" in name]
            return seconds, sum(map(_cpu, asked))
        finally:
            stack.send_signal(signal.SIGINT)
            stack.wait(60)


def _cpu(name: str) -> float:
    told = Path(f"/proc/{name.split()[-1]}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measures, prints, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", type=int, default=100_000)
    snapshots = parser.parse_args().snapshots
    slow = False
    with started_browser() as browser:
        for view in PAGES:
            seconds, cpu = opened(browser, view, snapshots)
            slow = slow or seconds > MOST_SECONDS
            load = os.getloadavg()[0]
            print(f"{view}: {seconds:.2f} s, {cpu:.2f} s of a processor (load {load:.1f})", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
