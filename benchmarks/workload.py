"""The workload of all suites: a table of accounts of any size, and Debezium events that change it.

Everything follows from the seed. 70 % of the events are updates, 20 % creates, 10 % deletes; every tenth create takes a
deleted key again. Positions rise from event to event, and five events make a transaction. Files are made once, below
`.cache/bench`, and kept.

    rows   id bigint, name, balance decimal(18,2), branch int, updated_at timestamptz, note (60 letters)
    keys   mixed: half of the events hit few hot keys (Zipf, 1.1), half any key; uniform: any;
           recent: the newest 100,000; clustered: 100,000 in the middle
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import gcd
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.change_line import FIRST_LSN, MONTH, START, change_line

Keys = Literal["mixed", "uniform", "recent", "clustered"]
SEED = 20_260_601
ROWS_A_FILE = 1_000_000
_AT_ONCE = 100_000  # events as Python objects
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
SCHEMA = pa.schema([
    pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("balance", pa.decimal128(18, 2)),
    ("branch", pa.int32()), ("updated_at", pa.timestamp("us", "UTC")), ("note", pa.string()),
])  # fmt: skip


def base(folder: Path, rows: int) -> Path:
    """The folder with the base table as Parquet files of a million rows, in the order of the key. Made if absent."""
    target = folder / f"base-{rows}"
    if not target.exists():
        making = target.with_suffix(".making")
        making.mkdir(parents=True, exist_ok=True)
        for place, first in enumerate(range(1, rows + 1, ROWS_A_FILE)):
            part = _part(place, first, min(ROWS_A_FILE, rows + 1 - first))
            pq.write_table(part, making / f"part-{place:05d}.parquet", compression="zstd", row_group_size=131_072)
        making.rename(target)
    return target


def _part(place: int, first: int, rows: int) -> pa.Table:
    rng = np.random.default_rng([SEED, place])
    ids = np.arange(first, first + rows)
    columns = [
        pa.array(ids), _texts(_names(ids)), _cents(rng.integers(0, 100_000_000, rows)),
        pa.array(rng.integers(1, 501, rows), pa.int32()),
        pa.array(START + rng.integers(0, MONTH, rows)).cast(pa.timestamp("us", "UTC")), _texts(_notes(rng, rows)),
    ]  # fmt: skip
    return pa.table(columns, schema=SCHEMA)


def _names(ids: Any) -> Any:
    digits = (ids[:, None] // 10 ** np.arange(8, -1, -1)) % 10 + ord("0")
    prefix = np.broadcast_to(np.frombuffer(b"account-", np.uint8), (len(ids), 8))
    return np.hstack([prefix, digits.astype(np.uint8)])


def _notes(rng: Any, rows: int) -> Any:
    return LETTERS[rng.integers(0, len(LETTERS), (rows, 60), np.uint8)]


def _texts(letters: Any) -> pa.Array:
    """An array of texts of one length out of a matrix of bytes."""
    rows, width = letters.shape
    starts = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    data = np.ascontiguousarray(letters)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(starts), pa.py_buffer(data)])


def _cents(cents: Any) -> pa.Array:
    words = np.zeros((len(cents), 2), np.int64)  # 128 bits, little-endian; none is negative
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(18, 2), len(cents), [None, pa.py_buffer(words)])


@dataclass(frozen=True)
class Events:
    """How many events of which keys change a table of `rows` rows, in `files` files. `name` is their folder's;
    `toasted`: of how many in a hundred updates the note did not come with the update."""

    rows: int
    count: int
    keys: Keys = "mixed"
    files: int = 8
    toasted: int = 0

    @property
    def name(self) -> str:
        kind = f"-toasted-{self.toasted}" if self.toasted else ""
        return f"events-{self.rows}-{self.count}-{self.keys}-{self.files}{kind}"


def events(folder: Path, wanted: Events) -> Path:
    """The folder with the events as NDJSON files, in the order of their positions. Made if absent."""
    target = folder / wanted.name
    if not target.exists():
        making = target.with_suffix(".making")
        making.mkdir(parents=True, exist_ok=True)
        lines = event_lines(wanted)
        for place in range(wanted.files):
            of = wanted.count * (place + 1) // wanted.files - wanted.count * place // wanted.files
            with (making / f"part-{place:05d}.ndjson").open("wb") as out:
                out.writelines(next(lines) for _ in range(of))
        making.rename(target)
    return target


def event_lines(wanted: Events) -> Iterator[bytes]:
    """The events, one line each."""
    rng = np.random.default_rng([SEED, wanted.rows, wanted.count, len(wanted.keys)])
    keys, ops = history(rng, wanted)
    count = wanted.count
    cents, branches = rng.integers(0, 100_000_000, count), rng.integers(1, 501, count)
    lsns = FIRST_LSN + np.cumsum(branches + 56)
    notes = _notes(rng, count).view("S60").ravel()
    notes[(ops == b"u") & (rng.random(count) * 100 < wanted.toasted)] = b"__debezium_unavailable_value"
    columns = (keys, ops, cents, branches, lsns, notes)
    plain = (
        row
        for first in range(0, count, _AT_ONCE)
        for row in zip(*(column[first : first + _AT_ONCE].tolist() for column in columns), strict=True)
    )
    commit = FIRST_LSN
    for n, (key, op, money, branch, lsn, note) in enumerate(plain):
        yield change_line(n, "accounts", key, op.decode(), money, branch, note.decode(), commit, lsn)
        if n % 5 == 4:
            commit = lsn


def many_tables(folder: Path, tables: int, changes: list[int]) -> Path:
    """Two files: 20 rows for each of so many tables, then changes[t] changes of table t. Made if absent.

    Table t is `accounts_{t}` and has the keys that are t modulo `tables`. Of ten changes two create a row, seven update
    one of the first twenty, one deletes a row just created.
    """
    target = folder / f"tables-{tables}-{sum(changes)}-{max(changes)}"
    if target.exists():
        return target
    making = target.with_suffix(".making")
    making.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([SEED, tables])
    first = [(t, t + tables * row, "c") for t in range(tables) for row in range(20)]
    then = []
    for t in range(tables):
        new = (t + tables * row for row in count(20))
        for n in range(changes[t]):
            if n % 10 in (0, 1):
                then.append((t, last := next(new), "c"))
            elif n % 10 == 2:
                then.append((t, last, "d"))
            else:
                then.append((t, t + tables * (n % 20), "u"))
    lsn, n = FIRST_LSN, 0
    for place, part in enumerate((first, then)):
        notes = _notes(rng, len(part)).view("S60").ravel().tolist()
        with (making / f"part-{place:05d}.ndjson").open("wb") as out:
            for (t, key, op), note in zip(part, notes, strict=True):
                lsn, n = lsn + 100, n + 1
                out.write(
                    change_line(n, f"accounts_{t}", key, op, key * 37 % 10**8, key % 500, note.decode(), lsn - 50, lsn)
                )
    making.rename(target)
    return target


def wide(folder: Path, count: int, columns: int, size: int = 0) -> Path:
    """A folder with one file of events for a table that is not there yet, whose rows have so many columns and about
    `size` bytes (0: short texts). `expected.json` has the number of rows in the end, and the sum of their `n`, which
    numbers the events: so it tells whether each key has its newest change. Made if absent."""
    target = folder / f"wide-{count}-{columns}-{size}"
    if not target.exists():
        making = target.with_suffix(".making")
        making.mkdir(parents=True, exist_ok=True)
        left: dict[int, int] = {}
        with (making / "events.ndjson").open("wb") as out:
            for n, (key, op, line) in enumerate(_wide_lines(count, columns, size)):
                out.write(line)
                if op == b"d":
                    left.pop(key, None)
                else:
                    left[key] = n
        (making / "expected.json").write_text(json.dumps({"rows": len(left), "sum": sum(left.values())}))
        making.rename(target)
    return target


def _wide_lines(count: int, columns: int, size: int) -> Iterator[tuple[int, bytes, bytes]]:
    """(key, op, the event)."""
    keys, ops = history(np.random.default_rng([SEED, count, columns]), Events(100_000, count, "uniform"))
    texts = (columns - 4) // 2
    long = max(8, (size - 20 * columns) // max(1, texts)) if size else 12
    letters = "abcdefghijklmnopqrstuvwxyz0123456789" * (2 + long // 36)
    for n, (key, op) in enumerate(zip(keys.tolist(), ops.tolist(), strict=True)):
        at, lsn = START + MONTH + n * 500, FIRST_LSN + n * 100
        cells = [f'"id":{key}', f'"n":{n}', f'"at":{at}', f'"paid":{"true" if n % 3 else "false"}']
        for c in range(columns - 4):
            place = (n * 7 + c) % 30
            cells.append(f'"c{c}":"{letters[place : place + long]}"' if c < texts else f'"c{c}":{n * 31 + c}')
        image = f"{{{','.join(cells)}}}"
        before, after = (f'{{"id":{key}}}', "null") if op == b"d" else ("null", image)
        yield (
            key,
            op,
            (
                f'{{"before":{before},"after":{after},"source":{{"connector":"postgresql","db":"bank","schema":"public",'
                f'"table":"wide","ts_ms":{at // 1000},"sequence":"[\\"{lsn}\\",\\"{lsn}\\"]","lsn":{lsn}}},'
                f'"op":"{op.decode()}","ts_ms":{at // 1000 + 120}}}\n'
            ).encode(),
        )


def history(rng: Any, wanted: Events) -> tuple[Any, Any]:
    """(keys, ops) of the events in order: no key is created while it is there, none changed while it is not."""
    count, rows = wanted.count, wanted.rows
    parts = [count - count * 2 // 10 - count // 10, count * 2 // 10, count // 10]
    kinds = np.repeat([0, 1, 2], parts)
    rng.shuffle(kinds)  # 0 update, 1 create, 2 delete
    keys = _chosen(rng, wanted)
    creates, deletes = np.flatnonzero(kinds == 1), np.flatnonzero(kinds == 2)
    again = creates[::10]
    gone = deletes[: len(again)]
    again, gone = again[: len(gone)], gone[: len(again)]
    again, gone = again[gone < again], gone[gone < again]
    new = np.setdiff1d(creates, again)
    keys[new] = rows + 1 + np.arange(len(new))
    keys[again] = keys[gone]

    # In the history of each key: a delete of what is gone, and an update of it, is a create.
    order = np.argsort(keys, kind="stable")
    same = np.concatenate([[False], keys[order][1:] == keys[order][:-1]])
    wish = kinds[order] == 2
    place = np.arange(count)
    since = np.maximum.accumulate(np.where(~(wish & same & np.roll(wish, 1)), place, -1))
    delete = wish & ((place - since) % 2 == 0)
    absent = np.where(same, np.roll(delete, 1), keys[order] > rows)
    delete &= ~absent
    ops = np.empty(count, "S1")
    ops[order] = np.where(delete, b"d", np.where(absent, b"c", b"u"))
    return keys, ops


def _chosen(rng: Any, wanted: Events) -> Any:
    count, rows = wanted.count, wanted.rows
    part = min(rows // 10, 100_000)  # as many keys in a table of any size
    if wanted.keys == "recent":
        return rng.integers(rows - part + 1, rows + 1, count)
    if wanted.keys == "clustered":
        return rng.integers(rows // 2, rows // 2 + part, count)
    keys = rng.integers(1, rows + 1, count)
    if wanted.keys == "mixed":
        weights = 1.0 / np.arange(1, min(rows, 1_000_000) + 1) ** 1.1
        ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(count)).clip(max=len(weights) - 1)
        step = next(n for n in range(618_033 % rows + 1, 10**9) if gcd(n, rows) == 1)
        hot = rng.random(count) < 0.5
        keys[hot] = (ranks[hot] * step) % rows + 1
    return keys
