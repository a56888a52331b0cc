"""How soon a commit in PostgreSQL is in a fresh read, where Firn reads the slot: pgbench at a steady rate beside it.

    python -m benchmarks.pulled --rate 500 --seconds 120 --work FOLDER

Each look commits a row of its own and reads its key until it is there: from the answer of the COMMIT to the row in
hand. One JSON line: seconds, and how many transactions a second pgbench made.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import firn_lake
from examples.sources import needs
from examples.sources.firn_up import FirnUp
from examples.sources.postgres import USER, Postgres
from firn.config.pull_source import PostgresAddress
from firn.errors import FirnError
from firn.log.freshness import percentile
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


def measured(server: Postgres, stack: FirnUp, work: Path, rate: int, seconds: int) -> dict[str, Any]:
    """Seconds of the looks, the first of which, up to the first commit, is by itself."""
    script, log = work / "write.sql", work / "pgbench.log"
    script.write_text(WRITE)
    lake = firn_lake.connect(stack.folder)
    address = PostgresAddress("127.0.0.1", server.port, USER, server.database, "disable")
    writer = Connection(address, server.password, "looks")
    first = look(writer, lake, 0)
    load = server.pgbench("-n", "-c", "4", "-R", str(rate), "-T", str(seconds), "-f", str(script), log=log)
    looks: list[tuple[float, int]] = []
    try:
        while load.poll() is None:
            looks.append((look(writer, lake, len(looks) + 1), 1))
            time.sleep(0.05)
    finally:
        with suppress(subprocess.TimeoutExpired):
            load.wait(30)
        writer.close()
    told = log.read_text()
    tps = re.search(r"tps = ([\d.]+)", told)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        "rate": rate, "seconds": seconds, "looks": len(looks), "first": round(first, 2),
        **{name: round(percentile(looks, share) or 0, 2) for name, share in shares.items()},
        "transactions": float(tps.group(1)) if tps else None,
    }  # fmt: skip


def look(writer: Connection, lake: Any, number: int) -> float:
    """Seconds from the commit of a row until a fresh read has it. Raises SystemExit if it does not come."""
    key = -1 - number
    writer.run("INSERT INTO items VALUES (:key, :number, 'look')", key=key, number=number)
    began = time.perf_counter()
    while time.perf_counter() - began < PATIENCE:
        with suppress(FirnError):  # until the first change there is no such table
            if lake.table("shop.items").read(filter=f"id = {key}", fresh=True).pylist():
                return time.perf_counter() - began
        time.sleep(0.02)
    raise SystemExit(f"look {number} did not come in {PATIENCE:.0f} s: see the logs")


if __name__ == "__main__":
    main()
