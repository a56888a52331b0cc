#!/usr/bin/env python3
"""What a schema costs at ingest: a 1 MB body of plain rows to a staged batch, with a schema and without, on one core.

    python benchmarks/schemas.py [--runs N] [--check]

The two take turns, so that a busy machine slows both alike; what is compared is the CPU time of the process, its least
of all runs and its median. `--check` exits 1 if rows of six fields cost more than 1.3 times as much.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "layers" / "core" / "python"))

from obstore.store import MemoryStore

from firn.config.model import Config
from firn.config.reader import parse
from firn.ingest.accept import accept

TARGET = 1.3
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
SIX = {
    "id": "int64!", "name": "string!", "balance": "float64", "branch": "int32", "updated_at": "timestamp:ms",
    "note": "string",
}  # fmt: skip
TEN = {
    "id": "int64!", "user_id": "string!", "amount": "float64", "n": "int32", "ok": "bool", "at": "timestamp!",
    "url": "string", "tags": "list", "meta": "struct", "payload": "json",
}  # fmt: skip


def field(name: str, word: str) -> dict[str, Any]:
    """A field of a schema: `!` says required, what is behind a colon is the unit."""
    kind, _, unit = word.removesuffix("!").partition(":")
    found: dict[str, Any] = {"name": name, "type": kind, "required": word.endswith("!")} | (
        {"unit": unit} if unit else {}
    )
    if kind == "list":
        found["items"] = {"type": "string"}
    if kind == "struct":
        found["fields"] = [{"name": "source", "type": "string"}, {"name": "priority", "type": "int32"}]
    return found


def config(fields: dict[str, str] | None) -> Config:
    schema = "" if fields is None else f", schema: {json.dumps({'fields': [field(*one) for one in fields.items()]})}"
    return parse(f"streams: {{web: {{envelope: rows, tables: {{t: {{to: web.t, mode: append{schema}}}}}}}}}")


def rows(names: dict[str, str], size: int) -> list[str]:
    """Rows of these fields, `size` bytes of JSON in all."""
    dice = random.Random(20260601)
    found: list[str] = []
    total = 0
    while total < size:
        n = len(found)
        row = {
            "id": n, "name": f"account-{n:08d}", "balance": dice.randrange(10**8) / 100, "branch": dice.randint(1, 5),
            "updated_at": 1_769_904_000_000 + n, "note": "".join(dice.choices(ALPHABET, k=60)),
            "user_id": f"user-{dice.randrange(10**6)}", "amount": dice.randrange(10**4) / 100, "n": n % 100,
            "ok": n % 3 > 0,
            "at": f"2026-11-{dice.randint(1, 30):02}T12:00:{n % 60:02}.{n % 1000:03}Z", "tags": ["a", "b"],
            "url": "https://example.com/" + "".join(dice.choices(ALPHABET, k=30)),
            "meta": {"source": "web", "priority": 1}, "payload": {"k": [1, 2, 3]},
        }  # fmt: skip
        found.append(json.dumps({name: row[name] for name in names}))
        total += len(found[-1]) + 1
    return found


def pair(names: dict[str, str], body: bytes, count: int, runs: int) -> tuple[float, float, float]:
    """Microseconds a row without a schema, least and median ratio."""
    spent: dict[bool, list[float]] = {False: [], True: []}
    configs = {False: config(None), True: config(names)}
    for _ in range(runs):
        for with_schema, one in configs.items():
            store = MemoryStore()
            gc.collect()
            gc.disable()
            before = time.process_time()
            done = accept(store, one, "web", body, now=NOW, table="t")
            spent[with_schema].append(time.process_time() - before)
            gc.enable()
            assert done.accepted == count, done.errors[:1]
    least, median = ([how(spent[one]) for one in (False, True)] for how in (min, statistics.median))
    return least[0] / count * 1e6, least[1] / least[0], median[1] / median[0]


def main() -> int:
    """The table, and whether it is within the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    worst = 0.0
    for label, names in (("six fields", SIX), ("ten, nested and a timestamp in text", TEN)):
        lines = rows(names, 1_000_000)
        for form, body in (("NDJSON", "\n".join(lines)), ("array", f"[{', '.join(lines)}]")):
            each, least, median = pair(names, body.encode(), len(lines), options.runs)
            print(f"{label}, {form}: {each:.2f} us a row without, {least:.2f} times with (median {median:.2f})")
            worst = max(worst, least) if names is SIX else worst
    return int(options.check and worst > TARGET)


if __name__ == "__main__":
    sys.exit(main())
