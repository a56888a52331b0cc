"""How soon a row is in a fresh read once its POST was answered: the embedded stack, and 5,000 changes that wait.

    python -m benchmarks.newest --rows 200000 --waiting 5000 --requests 100 --looks 300 --work FOLDER

Rows are committed first, then changes are posted that no commit takes, in so many requests. Each look posts one more
change and reads its key at once: from the answer of the POST to the row in hand. `committed` is the same look without
what waits, `sql` the same by SQL; all three in turn, in one process that is already running. One JSON line.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import firn_lake
from benchmarks.fresh import embedded_stack
from firn.client import StreamClient
from firn.deployment.flush_run import flush
from firn.deployment.stack import Stack
from firn.log import backlog
from firn.log.freshness import percentile

STREAM, TABLE = "shop", "shop.orders"
# Nothing is committed by itself while the looks last.
CONFIG = """
streams:
  shop:
    envelope: debezium
    commit: {every: 1h, size: 10GB, linger: 0s}
    tables:
      public.orders: {to: shop.orders, key: [id]}
"""


def main() -> None:
    """One measurement."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=200_000)
    arguments.add_argument("--waiting", type=int, default=5_000)
    arguments.add_argument("--requests", type=int, default=100)
    arguments.add_argument("--looks", type=int, default=300)
    arguments.add_argument("--work", type=Path, required=True)
    given = arguments.parse_args()
    work = given.work.absolute()
    with embedded_stack(work, CONFIG) as stack:
        print(json.dumps(measured(stack, work, given.rows, given.waiting, given.requests, given.looks)), flush=True)


def event(number: int, key: int) -> bytes:
    """A change of one row, in the source's order by `number`."""
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "ts_ms": 1_700_000_000_000 + number}
    source |= {"sequence": json.dumps([str(number - 1), str(number)]), "lsn": number}
    row = {"id": key, "status": "paid", "total": number, "note": f"note {number} of a customer who writes much"}
    return json.dumps({"op": "u", "before": None, "after": row, "source": source, "ts_ms": source["ts_ms"]}).encode()


def measured(stack: Stack, work: Path, rows: int, waiting: int, requests: int, looks: int) -> dict[str, Any]:
    """Milliseconds of each kind of look."""
    dice = random.Random(1)
    number = 1_000
    with StreamClient(stack.url) as client:
        for first in range(0, rows, 2_000):
            keys = range(first, min(rows, first + 2_000))
            client.post(STREAM, b"\n".join(event(number := number + 1, key) for key in keys), key=f"base-{first}")
        flush(stack, STREAM, timeout=600)
        for request in range(requests):
            changes = [event(number := number + 1, dice.randrange(2 * rows)) for _ in range(waiting // requests)]
            client.post(STREAM, b"\n".join(changes), key=f"waits-{request}")
        lake = firn_lake.connect(work / "stack")
        table = lake.table(TABLE)
        looked: dict[str, list[tuple[float, int]]] = {"fresh": [], "sql": [], "committed": [], "first": []}

        def timed(kind: str, look: Callable[[], Any]) -> Any:
            began = time.perf_counter()
            found = look().pylist()
            looked[kind].append((1000 * (time.perf_counter() - began), 1))
            return found

        for look in range(-1, looks):
            key = dice.randrange(2 * rows)
            number += 1
            client.post(STREAM, event(number, key), key=f"look-{look}")
            where = f"id = {key}"
            found = timed("fresh" if look >= 0 else "first", partial(table.read, filter=where, fresh=True))
            assert [row["total"] for row in found] == [number], found
            if look >= 0:
                text = f"SELECT total FROM shop.orders WHERE {where}"
                assert timed("sql", partial(lake.sql, text, fresh=True)) == [{"total": number}]
                timed("committed", partial(table.read, filter=where))
    left = backlog.look(stack.store(), STREAM, datetime.now(UTC)).events
    assert left >= waiting, f"only {left} changes wait: a commit took the others"
    return {"rows": rows, "waiting": left, "requests": requests, "looks": looks} | {
        kind: {name: round(percentile(found, share) or 0, 1) for name, share in (("p50", 0.5), ("p99", 0.99))}
        for kind, found in looked.items()
    }


if __name__ == "__main__":
    main()
