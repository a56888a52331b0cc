"""How soon a commit in PostgreSQL is in a fresh read, where Firn reads the slot: pgbench at a steady rate beside it.

    python -m benchmarks.pulled --rate 500 --seconds 120 --work FOLDER

Each look commits a row of its own and reads its key until it is there: from the answer of the COMMIT to the row in
hand. One JSON line: seconds, and how many transactions a second pgbench made. `staged` is the part until the row's plan
is done (which is when the pull has put it), `read` what one fresh read takes, `reads` how many a look made, and `cpu`
CPU seconds of the machine by kind of process, up to the end of the load.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import firn_lake
from examples.sources import needs
from examples.sources.firn_up import FirnUp
from examples.sources.postgres import USER, Postgres
from firn.config.pull_source import PostgresAddress
from firn.errors import FirnError
from firn.log import layout, pulls
from firn.log.freshness import percentile
from firn.log.store import Store, objects, open_store
from firn.sources.postgres.connection import Connection

PATIENCE = 60.0  # seconds for a row
SCHEMA = "CREATE TABLE items (id bigint PRIMARY KEY, n bigint, v text); CREATE PUBLICATION firn FOR TABLE items"
WRITE = """\\set id random(1, 100000)
INSERT INTO items VALUES (:id, 1, repeat('x', 80)) ON CONFLICT (id) DO UPDATE SET n = items.n + 1;
"""


def main() -> None:
    """One measurement."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rate", type=int, default=500)
    arguments.add_argument("--seconds", type=int, default=120)
    arguments.add_argument("--work", type=Path, required=True)
    given = arguments.parse_args()
    work = given.work.absolute()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    work.chmod(0o755)
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    programs = needs.postgres()
    if programs is None:
        raise SystemExit("no PostgreSQL here: install postgresql (its initdb)")
    server, stack = Postgres(programs, work / "database", "shop"), FirnUp(work / "firn")
    try:
        server.start()
        server.run(SCHEMA)
        server.run("SELECT pg_create_logical_replication_slot('firn_shop', 'pgoutput')")
        (work / "password").write_text(server.password)
        stack.config.write_text(firn_yaml(server, work / "password"))
        stack.start()
        print(json.dumps(measured(server, stack, work, given.rate, given.seconds)), flush=True)
    finally:
        stack.stop()
        server.stop()


def firn_yaml(server: Postgres, password: Path) -> str:
    """The stream that is pulled."""
    address = f"postgresql://{USER}@127.0.0.1:{server.port}/{server.database}"
    return f"""
streams:
  shop: {{tables: {{public.items: {{to: shop.items, key: [id]}}}}}}
sources:
  shop: {{postgres: '{address}', slot: firn_shop, stream: shop, secret: 'file:{password}'}}
"""


@dataclass(frozen=True)
class Look:
    """A row that was committed at `at` (seconds since 1970) before `lsn`: seconds until it was read, and those of each
    read."""

    at: float
    lsn: int
    seconds: float
    reads: tuple[float, ...]


def measured(server: Postgres, stack: FirnUp, work: Path, rate: int, seconds: int) -> dict[str, Any]:
    """Seconds of the looks, the first of which, up to the first commit, is by itself."""
    script, log = work / "write.sql", work / "pgbench.log"
    script.write_text(WRITE)
    lake = firn_lake.connect(stack.folder)
    address = PostgresAddress("127.0.0.1", server.port, USER, server.database, "disable")
    writer = Connection(address, server.password, "looks")
    first = look(writer, lake, 0)
    load = server.pgbench("-n", "-c", "4", "-R", str(rate), "-T", str(seconds), "-f", str(script), log=log)
    looks: list[Look] = []
    spent = CpuTimes(work)
    try:
        while load.poll() is None:
            spent.look()
            looks.append(look(writer, lake, len(looks) + 1))
            time.sleep(0.05)
    finally:
        with suppress(subprocess.TimeoutExpired):
            load.wait(30)
        writer.close()
    told = log.read_text()
    tps = re.search(r"tps = ([\d.]+)", told)
    return {
        "rate": rate, "seconds": seconds, "looks": len(looks), "first": round(first.seconds, 2),
        **shares(one.seconds for one in looks),
        "staged": shares(staged(open_store(stack.stack().staging), looks)),
        "read": shares(took for one in looks for took in one.reads),
        "reads": shares(len(one.reads) for one in looks),
        "transactions": float(tps.group(1)) if tps else None,
        "cpu": spent.by_kind(),
    }  # fmt: skip


def shares(values: Iterable[float]) -> dict[str, float]:
    """The percentiles that are told."""
    found = [(value, 1) for value in values]
    wanted = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(percentile(found, share) or 0, 2) for name, share in wanted.items()}


def look(writer: Connection, lake: Any, number: int) -> Look:
    """The way of a row from its commit into a fresh read. Raises SystemExit if it does not come."""
    key = -1 - number
    writer.run("INSERT INTO items VALUES (:key, :number, 'look')", key=key, number=number)
    at, began = time.time(), time.perf_counter()
    lsn = int(writer.run("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")[0][0])
    reads: list[float] = []
    while (start := time.perf_counter()) - began < PATIENCE:
        with suppress(FirnError):  # until the first change there is no such table
            rows = lake.table("shop.items").read(filter=f"id = {key}", fresh=True).pylist()
            reads.append(time.perf_counter() - start)
            if rows:
                return Look(at, lsn, time.perf_counter() - began, tuple(reads))
        time.sleep(0.02)
    raise SystemExit(f"look {number} did not come in {PATIENCE:.0f} s: see the logs")


def staged(store: Store, looks: Iterable[Look]) -> list[float]:
    """Seconds until the plan of each look's row was done. At most those of the first plan that ends behind it."""
    done = {one.path: one.modified.timestamp() for one in objects(store, layout.pull_prefix("shop", "shop"))}
    plans = [plan for path in sorted(done) if path.endswith(".plan") and (plan := pulls.read(store, path))]
    found = []
    for one in looks:
        ends = (done.get(plan.path.removesuffix(".plan") + ".done") for plan in plans if plan.upto_lsn >= one.lsn)
        if (end := next(ends, None)) is not None:
            found.append(max(0.0, end - one.at))
    return found


class CpuTimes:
    """CPU seconds by kind of process (Linux: /proc), since it was made: of those whose command or environment names
    `work`, of PostgreSQL's, and of this one. What a process spends between its last look and its end is not seen. A job
    is two: its JVM (`jobs`) and its Python (`drivers`)."""

    KINDS = (
        ("java", "jobs"),
        ("pyspark", "jobs"),
        ("spark_emr/", "drivers"),
        ("firn_local", "stack"),
        ("pgbench", "pgbench"),
    )

    def __init__(self, work: Path) -> None:
        self._mark = str(work).encode()
        self._spent: dict[tuple[str, str], tuple[str, float, float]] = {}
        self.look()
        self._spent = {key: (kind, now, now) for key, (kind, _, now) in self._spent.items()}

    def look(self) -> None:
        """Read them."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError, IndexError):
                words = (process / "stat").read_text().rpartition(")")[2].split()
                key = process.name, words[19]
                now = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
                kind = self._kind(process)
                if kind:
                    self._spent[key] = (kind, self._spent.get(key, (kind, 0.0, now))[1], now)

    def _kind(self, process: Path) -> str:
        if int(process.name) == os.getpid():
            return "reads"
        if os.readlink(process / "cwd").endswith("/database/data"):
            return "postgres"
        command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        if self._mark not in command + environment:
            return ""
        if b"firn_local.zygote" in command:  # named after its function, or what functions are forked from
            return (process / "comm").read_text().strip()
        program = command.decode(errors="replace")
        return next((kind for word, kind in self.KINDS if word in program), "")

    def by_kind(self) -> Mapping[str, float]:
        """CPU seconds."""
        found: dict[str, float] = {}
        for kind, before, now in self._spent.values():
            found[kind] = found.get(kind, 0.0) + now - before
        return {kind: round(seconds, 1) for kind, seconds in sorted(found.items())}


if __name__ == "__main__":
    main()
