"""How fresh many tables of one stream are, of which few change at a time: the anchor of benchmarks/simulate.py.

    python -m benchmarks.tenants [--tables 200] [--seconds 60] [--rate 890] --work FOLDER

The embedded stack. All tables get twenty rows and are committed first. Then come ten requests a second. In each ten
seconds the changes are of 40 tables: of one that always changes, and of 39 others, each of which sends a fiftieth of
what that one does. `table`: seconds from acceptance to the snapshot of the change's table; `others`: the same without
the one that always changes; `cut`: to the cut that has it. `rounds`: what the job says of each commit; `cpu`: CPU
seconds of the load by kind of process; `puts`: objects that the load left in staging and warehouse, by what they are.
One JSON line.
"""

import argparse
import json
import random
import re
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any, Final

from benchmarks.change_line import FIRST_LSN, change_line
from benchmarks.fresh import REQUESTS_A_SECOND, SENDERS, Seen, embedded_stack, quantile, send
from benchmarks.many import CONFIG, names
from benchmarks.pulled import CpuTimes
from benchmarks.scale_load import HOT, WINDOW, windows
from firn.client import StreamClient
from firn.config.names import TableName
from firn.deployment.flush_run import flush
from firn.deployment.stack import Stack
from firn.log import cuts, epochs, layout
from firn.log.batches import read_meta
from firn.tables.table_state import epoch_of
from firn_lake.catalogs.stack_catalog import catalog_of

STREAM: Final = "bank"
_ROWS: Final = 20
_AT_ONCE: Final = 2_500
_NOTE: Final = "n" * 60
_SETUP: Final = 1_800.0


class Changes:
    """Events of the tables, in the order of one source."""

    def __init__(self, tables: int) -> None:
        self._tables, self._n, self._of = tables, 0, Counter[int]()

    def change(self, table: int, op: str, key: int) -> bytes:
        """One event."""
        self._n += 1
        lsn = FIRST_LSN + 100 * self._n
        return change_line(self._n, f"accounts_{table}", key, op, key * 37 % 10**8, key % 500, _NOTE, lsn - 50, lsn)

    def next(self, table: int) -> bytes:
        """Of ten changes of a table two create a row, one deletes a row just created, seven update one of the first."""
        self._of[table] += 1
        n = self._of[table]
        place = n % 10
        row = n % _ROWS if place > 2 else _ROWS + n // 10 * 2 + min(place, 1)
        return self.change(table, "u" if place > 2 else "d" if place == 2 else "c", table + self._tables * row)


def bodies(changes: Changes, tables: int, seconds: float, rate: int) -> Iterator[bytes]:
    """The requests of the load."""
    shown = windows(tables, int(seconds / WINDOW) + 1)
    dice, owed = random.Random(11), 0.0
    for n in range(int(seconds * REQUESTS_A_SECOND)):
        active = shown[int(n / REQUESTS_A_SECOND / WINDOW)]
        owed += rate / REQUESTS_A_SECOND
        chosen = dice.choices(active, [HOT] + [1] * (len(active) - 1), k=int(owed))
        owed -= int(owed)
        yield b"".join(map(changes.next, chosen))


def measure(stack: Stack, work: Path, tables: int, seconds: float, rate: int) -> dict[str, Any]:
    """The tables, the load, and the wait until all of it is in cuts."""
    changes = Changes(tables)
    with StreamClient(stack.url) as client:
        keys = [(t, t + tables * row) for t in range(tables) for row in range(_ROWS)]
        for first in range(0, len(keys), _AT_ONCE):
            body = b"".join(changes.change(t, "c", key) for t, key in keys[first : first + _AT_ONCE])
            client.post(STREAM, body, key=f"first-{first}")
    flush(stack, STREAM, timeout=_SETUP)
    store, before = stack.store(), objects(work)
    first_cut, cpu, seen = cuts.newest(store, STREAM), CpuTimes(work), Seen()
    todo: Queue[tuple[int, bytes] | None] = Queue(maxsize=50)
    begun = time.time()
    args = (stack.url, todo, seen, time.monotonic() + 0.5)
    senders = [threading.Thread(target=send, args=args, daemon=True) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    for item in (*enumerate(bodies(changes, tables, seconds, rate)), *[None] * SENDERS):
        todo.put(item)
    for sender in senders:
        sender.join()
    ended = time.time()
    cpu.look()
    flush(stack, STREAM, timeout=_SETUP)
    cpu.look()
    after = objects(work)
    found = ages(stack, tables, first_cut)
    return {
        "tables": tables, "rate": rate, "seconds": round(ended - begun, 1), "drained": round(time.time() - ended, 1),
        "events": sum(n for _, n in seen.accepted.values()), "requests": len(seen.accepted),
        "refused": sum(seen.refused.values()),
        **{name: {"p50": quantile(one, 0.5), "p99": quantile(one, 0.99)} for name, one in found.items()},
        "rounds": rounds(work, first_cut), "cpu": cpu.by_kind(),
        "puts": {kind: after[kind] - before[kind] for kind in sorted(after)},
    }  # fmt: skip


def ages(stack: Stack, tables: int, above: int) -> dict[str, list[tuple[float, int]]]:
    """(seconds, events) of what was staged after the cut `above`: until the table's snapshot, and until the cut."""
    store, catalog = stack.store(), catalog_of(stack)
    snapshots: dict[str, list[tuple[int, float]]] = {}
    for name in names(tables):
        made = catalog.load_table(TableName("bank", name).identifier).metadata.snapshots
        told = ((epoch_of(STREAM, one.summary.additional_properties), one) for one in made if one.summary)
        snapshots[f"public.{name}"] = sorted((n, one.timestamp_ms / 1000) for n, one in told if n > above)
    made_at = [(n, time_of(cut.made_at)) for n in cuts.numbers(store, STREAM) if (cut := cuts.read(store, STREAM, n))]
    by_table, others, by_cut = [], [], []
    for epoch in epochs.read_range(store, STREAM, above + 1, cuts.newest(store, STREAM)):
        for batch in epoch.batches:
            accepted, meta = layout.accepted(batch.id) / 1000, read_meta(store, batch.path, batch.bytes)
            by_cut.append((made_at[bisect_left(made_at, (epoch.n, 0.0))][1] - accepted, batch.events))
            for table, events in meta.tables.items() if meta else ():
                mine = snapshots[table]
                age = mine[bisect_left(mine, (epoch.n, 0.0))][1] - accepted, events
                by_table.append(age)
                if table != "public.accounts_0":
                    others.append(age)
    return {"table": sorted(by_table), "others": sorted(others), "cut": sorted(by_cut)}


def time_of(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time."""
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def rounds(work: Path, above: int) -> list[dict[str, Any]]:
    """What the jobs say of the ranges that they committed after the cut `above`."""
    found = []
    for out in sorted(work.glob("stack/jobs/*/stdout")):
        for line in out.read_text(errors="replace").splitlines():
            told = json.loads(line) if line.startswith("{") else {}
            if told.get("status") == "committed" and told.get("first", 0) > above and "tables" in told:
                found.append({name: told[name] for name in ("first", "last", "tables", "events", "seconds")})
    return found


def objects(work: Path) -> Counter[str]:
    """How many files there are below the stack's folder, by what they are."""
    found: Counter[str] = Counter()
    for path in work.glob("stack/**/*"):
        place = str(path.relative_to(work / "stack"))
        kind = re.search(r"(staged|epochs|cuts|receipts|state|data|metadata)/", place)
        if kind and path.is_file() and not path.name.startswith(".") and not place.startswith(("jobs/", "logs/")):
            found[kind[1]] += 1
    return found


def main() -> None:
    """One run."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tables", type=int, default=200)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--rate", type=int, default=890, help="changes a second")
    arguments.add_argument("--work", type=Path, required=True)
    given = arguments.parse_args()
    text = CONFIG.replace("    tables:", "    commit: {every: 1s}\n    tables:")
    work = given.work.absolute()
    with embedded_stack(work, text) as stack:
        print(json.dumps(measure(stack, work, given.tables, given.seconds, given.rate)), flush=True)


if __name__ == "__main__":
    main()
