"""Recordings of emitters with the exact final tables of their sources (tests/data/emitters), and a lake in memory that
takes them: what the tables hold, column by column."""

import csv
import gzip
import json
import random
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from firn.changes.decode.values import days_of_text, micros_of_text, text_of_time_text
from firn.commit import job
from firn.config.names import TableName
from firn.ingest.accept import Accepted, accept
from firn.log import cuts, epochs, published_configs
from tests.model.memory_ground import MemoryGround

DATA: Final = Path(__file__).parent / "data" / "emitters"
STREAM: Final = "emitted"
CONFIG: Final = """
streams:
  emitted:
    envelope: {envelope}
    {more}
    tables:
{tables}
      "*": {{to: 'lake.{{table}}'}}
"""


def lines(path: str) -> list[bytes]:
    """The events of a recording, in their order."""
    file = DATA / path
    body = gzip.decompress(file.read_bytes()) if path.endswith(".gz") else file.read_bytes()
    return body.splitlines()


@dataclass(frozen=True)
class FinalTable:
    """A final table: names and types of its columns, its key, and its rows as the source dumped them."""

    types: Mapping[str, str]
    key: tuple[str, ...]
    rows: Sequence[Mapping[str, str]]


def finals(folder: str) -> dict[str, FinalTable]:
    """The final tables of a recording, by name."""
    where = DATA / folder / "final"
    csv.field_size_limit(10**9)
    found = {}
    for name, told in json.loads((where / "_tables.json").read_text()).items():
        file = where / f"{name}.csv"
        text = file.read_text() if file.exists() else gzip.decompress((where / f"{name}.csv.gz").read_bytes()).decode()
        rows = list(csv.DictReader(text.splitlines(keepends=True)))
        found[name] = FinalTable({one["name"]: one["type"] for one in told["columns"]}, tuple(told["pk"] or ()), rows)
    return found


class Emitted:
    """A stream of one envelope into a lake in memory. `tables`: rules by source table, as YAML; `more`: a further
    setting of the stream."""

    def __init__(self, envelope: str, tables: Mapping[str, str] | None = None, more: str = "") -> None:
        rules = "\n".join(f"      {json.dumps(name)}: {rule}" for name, rule in (tables or {}).items())
        self.ground = MemoryGround()
        self.config = published_configs.publish(
            self.ground.store, CONFIG.format(envelope=envelope, tables=rules, more=more)
        )
        self.now = datetime(2026, 11, 22, tzinfo=UTC)

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def post(self, events: Iterable[bytes], table: str | None = None) -> Accepted:
        body = b"\n".join(events)
        return accept(self.ground.store, self.config, STREAM, body, now=self.tick(), content="ndjson", table=table)

    def commit(self) -> None:
        store = self.ground.store
        found = epochs.candidates(store, STREAM, self.tick(), above=cuts.newest(store, STREAM))
        if not found.batches:
            return
        sealed = epochs.seal(store, STREAM, found, now=self.now, config=self.config.sha, nonce=f"{found.next_n:032x}")
        assert sealed is not None
        told: list[Any] = []
        done = job.run(store, self.ground.lake, STREAM, sealed.n, sealed.n, log=told.append, now=self.tick, attempt=1)
        assert done == 0, told

    def take(self, *requests: Sequence[bytes], each: int = 2) -> None:
        """The requests, committed some at a time; nothing in them is a dead letter."""
        for number, events in enumerate(requests, 1):
            done = self.post(events)
            assert done.rejected == 0, done.errors
            if number % each == 0:
                self.commit()
        self.commit()

    def columns(self, table: str) -> dict[str, str]:
        """The columns of a table and their types, without Firn's own."""
        found = self.ground.catalog.tables[TableName("lake", table)]
        return {one.name: str(one.type) for one in found.columns if not one.name.startswith("_firn_")}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Its rows, without Firn's own columns."""
        name = TableName("lake", table)
        if name not in self.ground.catalog.tables:
            return []
        found = self.ground.rows(name)
        return [{one: value for one, value in row.items() if not one.startswith("_firn_")} for row in found]


def shuffled(events: Sequence[bytes], dice: random.Random) -> list[list[bytes]]:
    """All events in any order, three in ten of them twice, in requests of any size."""
    every = [*events, *dice.sample(events, len(events) * 3 // 10)]
    dice.shuffle(every)
    requests, at = [], 0
    while at < len(every):
        size = dice.choice((1, 7, 40, 200, 900))
        requests.append(every[at : at + size])
        at += size
    return requests


def in_order(events: Sequence[bytes], size: int = 150) -> list[list[bytes]]:
    """The events in requests of one size."""
    return [list(events[at : at + size]) for at in range(0, len(events), size)]


def differences(
    final: FinalTable, rows: Sequence[Mapping[str, Any]], without: frozenset[str] = frozenset()
) -> list[str]:
    """What the rows of a keyed table differ in from its source's, but for the columns `without`; of columns that no
    event names the source has null."""
    expected = {tuple(row[name] for name in final.key): row for row in final.rows}
    found = {tuple(_key(row[name], final.types[name]) for name in final.key): row for row in rows}
    wrong = [f"{what}: {sorted(keys)[:5]}" for what, keys in _lacking(expected, found) if keys]
    for key in expected.keys() & found.keys():
        for name, kind in final.types.items():
            text, value = expected[key][name], found[key].get(name)
            if name not in without and not same(value, text, kind):
                wrong.append(f"{key} {name} ({kind}): {text[:60]!r} is {value!r}"[:200])
    return wrong


def _lacking(some: Mapping[Any, Any], others: Mapping[Any, Any]) -> Iterator[tuple[str, set[Any]]]:
    yield "missing", set(some) - set(others)
    yield "too many", set(others) - set(some)


def _key(value: Any, kind: str) -> str:
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return str(value) if value is not None else r"\N"


_NUMBERS: Final = ("int", "dec", "num", "float", "double", "real", "bit", "year", "small", "big", "tiny", "serial")


def same(value: Any, text: str, kind: str) -> bool:
    """Whether a stored value is what the source printed. `value`: as the codec has it, or as Arrow gives it."""
    if isinstance(value, UUID):
        value = str(value)
    if isinstance(value, datetime):
        value = micros_of_text(value.isoformat(), zoned=value.tzinfo is not None)
    elif isinstance(value, date):
        value = days_of_text(value.isoformat())
    if value is None:
        return (
            text == r"\N" or text.startswith("0000-00-00") or text in ("infinity", "-infinity") or text.endswith("BC")
        )
    if text == r"\N":
        return False
    if isinstance(value, bytes):
        return text.removeprefix("\\x") == value.hex()
    if isinstance(value, bool):
        return text == ("t" if value else "f")
    if isinstance(value, int) and kind.startswith("date") and not kind.startswith("datetime"):
        return value == days_of_text(text)
    if isinstance(value, int) and kind.startswith(("datetime", "timestamp")):
        return value == micros_of_text(text, zoned="with time zone" in kind)
    if isinstance(value, str) and kind.startswith("time") and not kind.startswith("timestamp"):
        return value == text or value == text_of_time_text(text)
    if value == text:
        return True
    if kind.startswith(_NUMBERS):
        try:
            return Decimal(str(value)) == Decimal(text) or (kind.startswith(("float", "real")) and _single(value, text))
        except InvalidOperation:
            return False
    return False


def _single(value: Any, text: str) -> bool:
    return struct.pack("f", float(value)) == struct.pack("f", float(text))
