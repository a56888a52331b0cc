"""The accounts of benchmarks/workload.py and changes of them, without NumPy: for what runs in the project's own
environment.

Other rows and events than those of `workload`, of the same kind: 70 % of the events are updates, half of them of few
hot keys, 20 % creates, 10 % deletes; every tenth create takes a deleted key again. Made once, below `.cache/bench`.
"""

import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from benchmarks.change_line import FIRST_LSN, MONTH, START, change_line
from benchmarks.reference import connect

_FILES: Final = 8  # of events
_SPREAD: Final = 618_033  # hot keys lie so far apart
_ROWS: Final = f"""
copy (select i::bigint as id, printf('account-%09d', i) as name,
    (i * 7919 % 100000000 / 100)::decimal(18, 2) as balance, (i % 500 + 1)::int as branch,
    make_timestamptz({START} + i * 104729 % {MONTH}) as updated_at,
    md5(i::varchar) || md5((-i)::varchar)[:28] as note
  from range(1, {{rows}} + 1) of_rows(i)) to '{{path}}' (format parquet, compression zstd)
"""


def base(folder: Path, rows: int) -> Path:
    """The folder with the base table as a Parquet file, in the order of the key. Made if absent."""

    def make(making: Path) -> None:
        connect().sql(_ROWS.format(rows=rows, path=making / "part-00000.parquet"))

    return _made(folder / f"small-base-{rows}", make)


def events(folder: Path, rows: int, count: int) -> Path:
    """The folder with so many events as NDJSON files, in the order of their positions. Made if absent."""

    def make(making: Path) -> None:
        lines = event_lines(rows, count)
        for place in range(_FILES):
            of = count * (place + 1) // _FILES - count * place // _FILES
            (making / f"part-{place:05d}.ndjson").write_bytes(b"".join(islice(lines, of)))

    return _made(folder / f"small-events-{rows}-{count}", make)


def event_lines(rows: int, count: int) -> Iterator[bytes]:
    """The events, one line each: no key is created while it is there, none changed while it is not."""
    dice, gone, last, commit = random.Random(f"{rows} {count}"), dict[int, None](), rows, FIRST_LSN
    lsn = FIRST_LSN
    for n in range(count):
        kind = n * 7 % 10  # seven updates, two creates, one delete
        key = dice.randrange(1, rows + 1)
        if kind in (7, 8) and gone and n % 100 < 10:
            key = next(iter(gone))
        elif kind in (7, 8):
            key = last = last + 1
        elif kind < 7 and n % 2:
            key = int(rows ** dice.random()) * _SPREAD % rows + 1  # Zipf's law, for the hot ones
        op = "c" if key in gone or kind in (7, 8) else "d" if kind == 9 else "u"
        gone.pop(key, None)
        if op == "d":
            gone[key] = None
        branch = dice.randrange(1, 501)
        lsn += branch + 56
        note = f"{dice.getrandbits(240):060x}"
        yield change_line(n, "accounts", key, op, dice.randrange(100_000_000), branch, note, commit, lsn)
        if n % 5 == 4:
            commit = lsn


def _made(target: Path, make: Callable[[Path], None]) -> Path:
    if not target.exists():
        making = target.with_suffix(".making")
        making.mkdir(parents=True, exist_ok=True)
        make(making)
        making.rename(target)
    return target
