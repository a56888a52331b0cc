"""A table of many rows is filled while pgbench updates, deletes and inserts in it, a stream brings these changes, and
the backfill's job is killed; in the end every row is compared, and the log has to give the table again.

    python -m examples.backfill --rows 10000000 --kills 2       needs PostgreSQL (with test_decoding) and Java

Exit code 0: equal. 1: not equal, or something failed. 3: the machine lacks what the text says.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import duckdb

from examples.backfill.log_stream import SLOT, LogStream
from examples.sources import needs
from examples.sources.firn_up import FirnUp
from examples.sources.postgres import USER, Postgres
from firn.deployment.flush_run import flush
from firn.errors import FirnError
from firn.log.store import open_store, paths
from firn_lake.catalogs.stack_catalog import catalog_of
from firn_lake.tables import find_table

STREAM: Final = "shop"
CONFIG: Final = """
streams:
  shop:
    debezium: {decimal.handling.mode: string, time.precision.mode: isostring}
    commit: {every: 10s}
    tables:
      public.orders:
        to: shop.orders
        key: [id]
        columns: {customer: int, amount: 'decimal(12,2)', placed: timestamptz, updated: timestamp}
"""
SCHEMA: Final = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, status text, amount numeric(12,2),
                     placed timestamptz, updated timestamp, note text);
INSERT INTO orders SELECT n, n % 1000, (ARRAY['new', 'paid', 'sent'])[1 + n % 3], n % 1000000 / 100.0,
                          now() - n * interval '1 second', localtimestamp - n * interval '1 second', md5(n::text)
FROM generate_series(1, :rows) n;
CREATE SEQUENCE orders_id START 1000000001;
VACUUM ANALYZE orders;
"""
COLUMNS: Final = "id, customer, status, amount, placed, updated, note"


class Example:
    """PostgreSQL, `firn up` and the stream in one folder."""

    def __init__(self, folder: Path, rows: int, binaries: Path) -> None:
        folder.chmod(0o755)  # PostgreSQL may run as another user
        self.rows, self.folder = rows, folder
        self.postgres = Postgres(binaries, folder / "postgres", STREAM)
        self.firn = FirnUp(folder / "firn")
        self.told: dict[str, Any] = {"rows": rows}
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """A line with the time since the start."""
        print(f"{time.monotonic() - self._started:7.1f} s  {text}", file=sys.stderr, flush=True)

    def start(self) -> LogStream:
        """The table, the slot, the stack, and the stream on its way."""
        self.postgres.start()
        self.say(f"making {self.rows:,} rows")
        schema = self.folder / "schema.sql"
        schema.write_text(SCHEMA)
        self.postgres.run_file(schema, {"rows": self.rows})
        self.told["row_bytes"] = float(
            self.postgres.value("SELECT avg(pg_column_size(o.*)) FROM orders o TABLESAMPLE SYSTEM (1)")
        )
        self.postgres.run(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'test_decoding')")
        self.firn.config.write_text(CONFIG)
        self.firn.start()
        address = f"postgres://{USER}:{self.postgres.password}@127.0.0.1:{self.postgres.port}/{STREAM}"
        stream = LogStream(address, self.firn.stack().url, STREAM)
        stream.start()
        return stream

    def load(self, rate: int) -> "subprocess.Popen[bytes]":
        """pgbench on its way."""
        return self.postgres.pgbench(
            "-n", "-f", Path(__file__).with_name("load.sql"), "-c", "2", "-j", "1", "-T", "86400", "-R", str(rate),
            "-D", f"rows={self.rows}", log=self.folder / "pgbench.log",
        )  # fmt: skip

    def backfill(self, kills: int) -> None:
        """The command, again each time that its job was killed."""
        runs: list[dict[str, Any]] = []
        while True:
            killer = threading.Thread(target=self._kill, args=(len(runs) + 1, kills)) if len(runs) < kills else None
            if killer is not None:
                killer.start()
            words = ("backfill", STREAM, "--from", self.postgres.url, "--no-commit", "--json")
            command = [sys.executable, "-m", "firn_cli.main", *words, "--dir", str(self.firn.folder)]
            began = time.monotonic()
            done = subprocess.run(
                command, capture_output=True, text=True, check=False,
                env={**os.environ, "FIRN_SOURCE_PASSWORD": self.postgres.password},
            )  # fmt: skip
            runs.append({"code": done.returncode, "seconds": round(time.monotonic() - began, 1)})
            if killer is not None:
                killer.join()
            if done.returncode == 0:
                self.told["backfill"] = json.loads(done.stdout) | {"runs": runs}
                return
            if len(runs) > kills:
                raise FirnError(done.stderr)
            self.say(f"the job was killed: {done.stderr.splitlines()[0][:100]}")

    def _kill(self, number: int, kills: int) -> None:
        """SIGKILL of the job's processes once about so much of the table is staged."""
        store, wanted = open_store(self.firn.stack().staging), number / (kills + 2)
        while True:
            time.sleep(0.2)
            staged = len([path for path in paths(store, "backfills") if "/chunks/" in path])
            if staged >= wanted * max(1, self.rows / 200_000):
                break
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes()
                if b"backfill.py" in words and str(self.folder).encode() in words and b"java" in words:
                    os.kill(int(process.name), signal.SIGKILL)

    def compare(self) -> bool:
        """Row by row, by DuckDB: the source's rows as CSV, the table's as Iceberg has them."""
        final = self.folder / "final.csv"
        self.postgres.table("public.orders", final)
        rows = find_table(catalog_of(self.firn.stack()), "shop.orders").scan(
            selected_fields=tuple(name.strip() for name in COLUMNS.split(","))
        ).to_arrow_batch_reader()  # fmt: skip
        database = duckdb.connect(str(self.folder / "compare.db"))
        database.execute("SET TimeZone = 'UTC'")
        database.register("found", rows)
        database.execute(f"CREATE TABLE ours AS SELECT {COLUMNS} FROM found")  # noqa: S608
        kinds = ("BIGINT", "INTEGER", "VARCHAR", "DECIMAL(12,2)", "TIMESTAMPTZ", "TIMESTAMP", "VARCHAR")
        typed = ", ".join(f"'{name.strip()}': '{kind}'" for name, kind in zip(COLUMNS.split(","), kinds, strict=True))
        source = f"read_csv('{final}', header = true, nullstr = '\\N', columns = {{{typed}}})"
        database.execute(f"CREATE TABLE theirs AS SELECT {COLUMNS} FROM {source}")  # noqa: S608
        counts = [
            database.execute(f"SELECT count(*) FROM (FROM {a} EXCEPT ALL FROM {b})").fetchone()  # noqa: S608
            for a, b in (("theirs", "ours"), ("ours", "theirs"))
        ]
        missing, extra = (count[0] for count in counts if count is not None)
        total = database.execute("SELECT count(*) FROM theirs").fetchone()
        self.told |= {"final_rows": total[0] if total else 0, "missing": missing, "extra": extra}
        return not missing and not extra

    def stop(self) -> None:
        """End everything."""
        for part in (self.firn, self.postgres):
            with suppress(Exception):
                part.stop()


def run(example: Example, given: argparse.Namespace) -> bool:
    """-> whether table, source and log are equal."""
    stream = example.start()
    example.say(f"pgbench writes {given.rate} transactions a second")
    load = example.load(given.rate)
    try:
        time.sleep(3)
        example.backfill(given.kills)
        example.say(f"staged: {json.dumps(example.told['backfill'])}")
        time.sleep(2)
    finally:
        load.terminate()
        load.wait()
    stream.finish(300)
    example.told["changes"] = stream.sent
    example.say(f"the stream brought {stream.sent:,} changes")
    began = time.monotonic()
    flush(example.firn.stack(), STREAM, timeout=7_200)
    example.told["committed_after"] = round(time.monotonic() - began, 1)
    example.say("all is committed")
    same = example.compare()
    example.say(
        f"{example.told['final_rows']:,} rows, {example.told['missing']:,} missing, {example.told['extra']:,} extra"
    )
    for name, *words in (("audit", STREAM), ("rebuild", "shop.orders", "--check")):
        if name not in given.then:
            continue
        command = [sys.executable, "-m", "firn_cli.main", name, *words, "--dir", str(example.firn.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        example.told[name] = done.returncode == 0
        example.say(f"firn {name}: {(done.stdout + done.stderr).strip()[:300]}")
        same = same and done.returncode == 0
    return same


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the example. -> the exit code."""
    parser = argparse.ArgumentParser(prog="examples.backfill", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rate", type=int, default=100, help="pgbench's transactions a second")
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument(
        "--then", nargs="*", choices=("audit", "rebuild"), default=[],
        help="account for every row; and have the log give the table again",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    binaries = needs.postgres()
    if binaries is None:
        print("this example needs PostgreSQL: initdb, postgres, pgbench and psql", file=sys.stderr)
        return needs.SKIPPED
    folder = Path(tempfile.mkdtemp(prefix="firn-backfill-"))
    example = Example(folder, given.rows, binaries)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        same = run(example, given)
    finally:
        example.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(example.told, indent=None if given.json else 1))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
