"""How old views are under a steady load: the embedded stack, plain rows over HTTP at a fixed rate. One JSON line.

    python -m benchmarks.view_ages [--views 20] [--rate 2000] [--seconds 60] --work FOLDER

Two requests a second carry half of the rate each: random rows of 50,000 keys, over which there are views of four kinds
(groups kept as sums, a filter, a join with groups, maxima of groups). A row's age in a view is from when its batch was
accepted to the view's first snapshot of a cut that has it: of every batch in every view.
"""

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.fresh import PATIENCE, embedded_stack, quantile
from firn.client import StreamClient
from firn.config.names import TableName
from firn.deployment.flush_run import flush
from firn.deployment.stack import Stack
from firn.log import cuts, epochs, layout, published_configs
from firn.views import view_state
from firn.views.cut import told
from firn.views.due import Under
from firn.views.view_sources import sources_of
from firn_lake.catalogs.stack_catalog import catalog_of

STREAM: Final = "shop"
KEYS: Final = 50_000
JOINED: Final = 10_000  # values of the column that the views group and join by
KINDS: Final = (
    "SELECT k % {n}00 AS part, count(*) AS size, sum(amount) AS total FROM shop.orders GROUP BY k % {n}00",
    "SELECT id, amount FROM shop.orders WHERE k % {n}0 = 0",
    "SELECT c.name, count(*) AS size, sum(o.amount) AS total FROM shop.orders o JOIN shop.customers c ON o.k = c.id "
    "WHERE o.amount > {n} GROUP BY c.name",
    "SELECT k, max(amount) AS top, {n} AS n FROM shop.orders GROUP BY k",
)
CONFIG: Final = """
streams:
  shop:
    envelope: rows
    tables:
      orders: {to: shop.orders, key: [id], columns: {id: long, k: long, amount: "decimal(12,2)"}}
      customers: {to: shop.customers, key: [id], columns: {id: long, name: string}}
views:
"""
_AT_ONCE: Final = 5_000


def config(views: int) -> str:
    """firn.yaml with so many."""
    made = ((n, json.dumps(KINDS[n % len(KINDS)].format(n=n + 1))) for n in range(views))
    return CONFIG + "".join(f"  web.v{n}: {{sql: {sql}}}\n" for n, sql in made)


def rows(dice: random.Random, keys: range | list[int]) -> bytes:
    """Orders with these keys, as NDJSON."""
    made = ({"id": key, "k": dice.randrange(JOINED), "amount": dice.randrange(10_000) / 100} for key in keys)
    return "\n".join(map(json.dumps, made)).encode()


def measure(stack: Stack, views: int, rate: int, seconds: float) -> dict[str, Any]:
    """The load, then the wait until the views have all of it."""
    dice = random.Random(7)
    with StreamClient(stack.url) as client:
        customers = ({"id": key, "name": f"n{key % 500}"} for key in range(JOINED))
        client.post(STREAM, "\n".join(map(json.dumps, customers)).encode(), key="customers", table="customers")
        for first in range(0, KEYS, _AT_ONCE):
            body = rows(dice, range(first, first + _AT_ONCE))
            client.post(STREAM, body, key=f"first-{first}", table="orders")
        flush(stack, STREAM, timeout=PATIENCE)
        _until_all_have(stack, views)
        began = time.time()
        for n in range(int(seconds * 2)):
            time.sleep(max(0.0, began + n / 2 - time.time()))
            body = rows(dice, [dice.randrange(KEYS) for _ in range(rate // 2)])
            client.post(STREAM, body, key=f"load-{n}", table="orders")
        ended = time.time()
    flush(stack, STREAM, timeout=PATIENCE)
    _until_all_have(stack, views)
    found = sorted(ages(stack, views, began, ended))
    return {
        "views": views, "seconds": round(ended - began, 1), "batches": len(found) // views, "p50": quantile(found, 0.5),
        "p99": quantile(found, 0.99), "most": found[-1][0] if found else None,
        "refreshes": [len(one) for one in _refreshes(stack, views)],
    }  # fmt: skip


def ages(stack: Stack, views: int, began: float, ended: float) -> list[tuple[float, int]]:
    """Of each batch of the load, in each view: its age in seconds, and its events."""
    store = stack.store()
    sealed = epochs.read_range(store, STREAM, 1, cuts.newest(store, STREAM))
    batches = [(epoch.n, layout.accepted(one.id) / 1000, one.events) for epoch in sealed for one in epoch.batches]
    return [
        (next(at for at, cut in refreshes if cut >= n) - accepted, events)
        for refreshes in _refreshes(stack, views)
        for n, accepted, events in batches
        if began <= accepted <= ended
    ]


def _refreshes(stack: Stack, views: int) -> list[list[tuple[float, int]]]:
    """Of each view when it was refreshed, and the cut that it was of, the oldest first."""
    catalog, found = catalog_of(stack), []
    for n in range(views):
        table = catalog.load_table(TableName("web", f"v{n}").identifier)
        mine = []
        for one in table.metadata.snapshots:
            said = told((one.summary.additional_properties,)) if one.summary else None
            mine += [] if said is None else [(one.timestamp_ms / 1000, said.epochs[STREAM])]
        found.append(sorted(mine))
    return found


def _until_all_have(stack: Stack, views: int) -> None:
    """Waits until each view has all that changes it."""
    store, deadline = stack.store(), time.monotonic() + PATIENCE
    config = published_configs.current(store)
    sources = sources_of(config, STREAM)
    while sources is not None and time.monotonic() < deadline:
        newest = cuts.last(store, STREAM)
        under = Under(sources, {STREAM: newest} if newest is not None else {}, config.sha)
        if not any(one.behind for one in under.standings(view_state.read(store, STREAM))):
            return
        time.sleep(0.5)
    raise TimeoutError(f"some of {views} views are not refreshed after {PATIENCE:.0f} s: see firn status")


def main() -> None:
    """One number of views."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--views", type=int, default=20)
    arguments.add_argument("--rate", type=int, default=2_000, help="rows a second")
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--work", type=Path, required=True)
    given = arguments.parse_args()
    with embedded_stack(given.work.absolute(), config(given.views)) as stack:
        print(json.dumps(measure(stack, given.views, given.rate, given.seconds)), flush=True)


if __name__ == "__main__":
    main()
