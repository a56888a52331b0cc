"""What `firn audit` costs: CPU seconds to look for the row of each event, beside the full rule for every key alone.

    python -m benchmarks.audit --events 200000 --runs 3 --work FOLDER

The embedded stack takes the events (60 % creates, 30 % updates, 10 % deletes) and commits them; then it is stopped, and
the table is audited in this process, by turns: `rows` and `deep` as the command does it, `full` and `full_deep` with
each change decoded and each key folded by itself. All four must find the same. One JSON line.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.fresh import embedded_stack
from firn.audit.ledger import read
from firn.audit.ledger_view import Keeping
from firn.client import StreamClient
from firn.deployment.flush_run import flush
from firn.deployment.stack import Stack
from firn_lake.audit.row_audit import Depth, audit_rows
from firn_lake.audit.table_histories import histories, loaded
from firn_lake.catalogs.stack_catalog import catalog_of

STREAM, TABLE = "shop", "shop.orders"
CONFIG = """
streams:
  shop:
    envelope: debezium
    tables:
      public.orders: {to: shop.orders, key: [id]}
"""
WAYS = {
    "rows": Depth(),
    "full": Depth(one_by_one=True),
    "deep": Depth(deep=True, share=1.0),
    "full_deep": Depth(deep=True, share=1.0, one_by_one=True),
}
_A_REQUEST = 2_000


def main() -> None:
    """One measurement."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--events", type=int, default=200_000)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--work", type=Path, required=True)
    given = arguments.parse_args()
    with embedded_stack(given.work.absolute(), CONFIG) as stack:
        sent(stack, given.events)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(given.runs):
        for name, depth in WAYS.items():
            seconds[name].append(audited(stack, depth, given.events))
    print(json.dumps({"events": given.events} | {name: median(some) for name, some in seconds.items()}), flush=True)


def sent(stack: Stack, count: int) -> None:
    """Posts the events, and commits them."""
    lines = list(events(count))
    with StreamClient(stack.url) as client:
        for first in range(0, count, _A_REQUEST):
            client.post(STREAM, b"\n".join(lines[first : first + _A_REQUEST]), key=str(first))
    flush(stack, STREAM, timeout=1_800)


def events(count: int) -> Iterator[bytes]:
    """Changes of a table of orders, in the source's order."""
    dice = random.Random(1)
    alive: list[int] = []
    for number in range(1, count + 1):
        chance = dice.random()
        source = {"connector": "postgresql", "schema": "public", "table": "orders", "ts_ms": 1_700_000_000_000 + number}
        source |= {"sequence": json.dumps([str(number - 1), str(number)]), "lsn": number}
        event: dict[str, Any] = {"before": None, "after": None, "source": source, "ts_ms": source["ts_ms"]}
        if chance >= 0.9 and alive:
            place = dice.randrange(len(alive))
            alive[place], alive[-1] = alive[-1], alive[place]
            event |= {"op": "d", "before": {"id": alive.pop()}}
        else:
            new = chance < 0.6 or not alive
            if new:
                alive.append(number)
            key = number if new else dice.choice(alive)
            row: dict[str, Any] = {
                "id": key,
                "customer": dice.randrange(10_000),
                "status": dice.choice(("new", "paid", "sent")),
            }
            row |= {"total": dice.randrange(100_000) / 100, "note": f"note {number} of a customer who writes much"}
            event |= {"op": "c" if new else "u", "after": row}
        yield json.dumps(event).encode()


def audited(stack: Stack, depth: Depth, events: int) -> float:
    """CPU seconds of one audit, which must find each row."""
    store, catalog, now = stack.store(), catalog_of(stack), datetime.now(UTC)
    began = time.process_time()
    ledger = read(store, STREAM, lambda names: histories(catalog, STREAM, names))
    tables = loaded(catalog, ledger.tables)
    (found,) = audit_rows(store, catalog, ledger, tables, now, Keeping(), depth)
    took = time.process_time() - began
    assert found.right, asdict(found)
    assert found.expected > events / 3, asdict(found)
    return took


if __name__ == "__main__":
    main()
