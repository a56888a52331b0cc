"""How fresh many tables of one stream are, of which few change at a time: the anchor of benchmarks/simulate.py.

    python -m benchmarks.tenants [--case windows] [--tables 200] [--seconds 60] [--rate 890] --work FOLDER
    python -m benchmarks.tenants --case all --tables 1000 --work FOLDER
    python -m benchmarks.tenants --case flood --tables 2 --flood 1000000 --work FOLDER

The embedded stack. All tables get twenty rows and are committed first.

`windows`: ten requests a second. In each ten seconds the changes are of 40 tables: of one that always changes, and of
39 others, each of which sends a fiftieth of what that one does. `all`: ten changes of every table, at once. `flood`:
ten changes of one table every two seconds, first `alone`, then `beside` another that sends all that it has as fast as
it is taken; both are writers of the stream.

`table`: seconds from acceptance to the snapshot of the change's table; `others`: the same without the one that always
changes; `cut`: to the cut that has it. `ingest`: seconds until a request was answered; `fresh`: those of a fresh read
of some table, one after the other, beside the load; `dispatch`: CPU seconds of a round of dispatch. `rounds`: what the
job says of each commit; `cpu`: CPU seconds of the load by kind of process, of a job its JVM (`jobs`) and its Python
(`drivers`); `puts`: objects that the load left in staging and warehouse, by what they are. One JSON line.
"""

import argparse
import json
import random
import re
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any, Final

import firn_lake
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
_OF_EACH: Final = 10  # changes of a table at once
_EVERY, _ALONE, _LOOK = 2.0, 30.0, 1.0  # seconds: between two posts, of posts alone, between two reads
_DISPATCHES: Final = 5
WHO: Final = ("whole", "busy", "quiet")  # who may post all of the stream, and its writers


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


def prepare(stack: Stack, tables: int, who: str = "") -> Changes:
    """All tables with their rows, committed. -> what changes them. `who`: as for sender."""
    changes = Changes(tables)
    with sender(stack, who) as client:
        keys = [(t, t + tables * row) for t in range(tables) for row in range(_ROWS)]
        for first in range(0, len(keys), _AT_ONCE):
            body = b"".join(changes.change(t, "c", key) for t, key in keys[first : first + _AT_ONCE])
            client.post(STREAM, body, key=f"first-{first}")
    flush(stack, STREAM, timeout=_SETUP)
    return changes


def measure(stack: Stack, work: Path, tables: int, seconds: float, rate: int) -> dict[str, Any]:
    """The tables, the load, and the wait until all of it is in cuts."""
    changes = prepare(stack, tables)
    return loaded(stack, work, tables, bodies(changes, tables, seconds, rate)) | {"rate": rate}


def all_at_once(stack: Stack, work: Path, tables: int) -> dict[str, Any]:
    """Changes of all tables, and the wait until they are in cuts."""
    changes, dice = prepare(stack, tables), random.Random(13)
    order = [t for t in range(tables) for _ in range(_OF_EACH)]
    dice.shuffle(order)
    some = (order[first : first + _AT_ONCE] for first in range(0, len(order), _AT_ONCE))
    return loaded(stack, work, tables, [b"".join(map(changes.next, mine)) for mine in some])


def loaded(stack: Stack, work: Path, tables: int, requests: Iterable[bytes]) -> dict[str, Any]:
    """What becomes of a load."""
    store, before = stack.store(), objects(work)
    first_cut, cpu, seen = cuts.newest(store, STREAM), CpuTimes(work), Seen()
    todo: Queue[tuple[int, bytes] | None] = Queue(maxsize=50)
    begun, over = time.time(), threading.Event()
    args = (stack.url, todo, seen, time.monotonic() + 0.5)
    senders = [threading.Thread(target=send, args=args, daemon=True) for _ in range(SENDERS)]
    looks = list[tuple[float, int]]()
    reader = threading.Thread(target=look, args=(work, tables, looks, over), daemon=True)
    for thread in (*senders, reader):
        thread.start()
    for item in (*enumerate(requests), *[None] * SENDERS):
        todo.put(item)
    for sender in senders:
        sender.join()
    ended = time.time()
    cpu.look()
    flush(stack, STREAM, timeout=_SETUP)
    over.set()
    reader.join()
    cpu.look()
    after = objects(work)
    found = ages(stack, tables, first_cut)
    answered = sorted((seconds, 1) for seconds in seen.answered)
    return {
        "tables": tables, "seconds": round(ended - begun, 1), "drained": round(time.time() - ended, 1),
        "events": sum(n for _, n in seen.accepted.values()), "requests": len(seen.accepted),
        "refused": sum(seen.refused.values()),
        **{name: spread(one) for name, one in found.items()},
        "ingest": spread(answered), "fresh": spread(sorted(looks)),
        "rounds": rounds(work, first_cut), "cpu": cpu.by_kind(),
        "puts": {kind: after[kind] - before[kind] for kind in sorted(after)},
        "dispatch": dispatched(stack, work),
    }  # fmt: skip


def flooded(stack: Stack, work: Path, tables: int, flood: int) -> dict[str, Any]:
    """Ten changes of one table every two seconds, alone and beside a flood of another's. -> how old they were."""
    changes, found, lock = prepare(stack, tables, "whole"), dict[str, Any](), threading.Lock()
    store = stack.store()

    def made(table: int, count: int) -> bytes:
        with lock:
            return b"".join(changes.next(table) for _ in range(count))

    def few(until: Callable[[], bool]) -> None:
        with sender(stack, "quiet") as client:
            while not until():
                client.post(STREAM, made(1, _OF_EACH), key=f"few-{time.time()}")
                time.sleep(_EVERY)

    for name in ("alone", "beside"):
        first_cut, begun, cpu = cuts.newest(store, STREAM), time.time(), CpuTimes(work)
        if name == "alone":
            few(lambda: time.time() - begun > _ALONE)  # noqa: B023 (it runs at once)
        else:
            flooding = threading.Thread(target=pour, args=(stack, partial(made, 0), flood), daemon=True)
            flooding.start()
            few(lambda: not flooding.is_alive())  # noqa: B023
        sent = time.time() - begun
        flush(stack, STREAM, timeout=_SETUP)
        cpu.look()
        old = ages(stack, tables, first_cut)
        found[name] = {
            "seconds": round(time.time() - begun, 1), "sent": round(sent, 1), "cpu": cpu.by_kind(),
            "others": spread(old["others"]), "cut": spread(old["cut"]), "rounds": rounds(work, first_cut),
        }  # fmt: skip
    return found | {"flood": flood}


def pour(stack: Stack, made: Callable[[int], bytes], count: int) -> None:
    """So many changes, as fast as they are taken."""
    with sender(stack, "busy") as client:
        for first in range(0, count, _AT_ONCE):
            client.post(STREAM, made(min(_AT_ONCE, count - first)), key=f"flood-{first}")


def sender(stack: Stack, who: str) -> StreamClient:
    """A client of the stream: one of WHO, "" where it asks for nothing."""
    if not who:
        return StreamClient(stack.url)
    headers = {} if who == "whole" else {"x-firn-writer": who}
    return StreamClient(stack.url, headers=headers, secret=key_of(who))


def key_of(who: str) -> str:
    """Its API key."""
    return (who * 20)[:40]


def with_writers(text: str, keys: Path) -> str:
    """A firn.yaml whose stream has writers. `keys`: a folder for their secrets."""
    keys.mkdir(parents=True, exist_ok=True)
    for who in WHO:
        (keys / who).write_text(key_of(who))
    auth = {who: f"auth: {{by: api_key, secret: 'file:{keys}/{who}'}}" for who in WHO}
    writers = ", ".join(f"{who}: {{{auth[who]}}}" for who in WHO if who != "whole")
    return text.replace("    tables:", f"    {auth['whole']}\n    writers: {{{writers}}}\n    tables:", 1)


def look(work: Path, tables: int, looks: list[tuple[float, int]], over: threading.Event) -> None:
    """Fresh reads of tables, until it is over."""
    lake, dice = firn_lake.connect(work / "stack"), random.Random(17)
    while not over.wait(_LOOK):
        table = lake.table(f"bank.accounts_{dice.randrange(tables)}")
        began = time.monotonic()
        table.read(fresh=True).pylist()
        looks.append((time.monotonic() - began, 1))


def dispatched(stack: Stack, work: Path) -> float:
    """CPU seconds of a round of dispatch for the stream, on average."""
    cpu = CpuTimes(work)
    for _ in range(_DISPATCHES):
        stack.invoke_dispatch({})
    cpu.look()
    spent = sum(seconds for kind, seconds in cpu.by_kind().items() if kind.lower().startswith("dispatch"))
    return round(spent / _DISPATCHES, 2)


def spread(found: Sequence[tuple[float, int]]) -> dict[str, float]:
    """Of (seconds, how many), the least first."""
    if not found:
        return {}
    return {"p50": quantile(found, 0.5), "p99": quantile(found, 0.99), "max": found[-1][0]}


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
    arguments.add_argument("--case", choices=("windows", "all", "flood"), default="windows")
    arguments.add_argument("--flood", type=int, default=1_000_000, help="changes of the one that floods")
    given = arguments.parse_args()
    text = CONFIG.replace("    tables:", "    commit: {every: 1s}\n    tables:")
    work = given.work.absolute()
    text = with_writers(text, work.with_suffix(".keys")) if given.case == "flood" else text
    with embedded_stack(work, text) as stack:
        if given.case == "all":
            found = all_at_once(stack, work, given.tables)
        elif given.case == "flood":
            found = flooded(stack, work, given.tables, given.flood)
        else:
            found = measure(stack, work, given.tables, given.seconds, given.rate)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
