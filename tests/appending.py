"""Changes for an append table that two streams and four source tables feed, as two restarted connectors send them: what
can be mistaken for one another is. `Sent` is told the way that the tests of the specification, of the in-memory lake
and of Spark have in common."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from firn.changes.merge.append import Delivery, append

STREAMS = ("a", "b")
TABLES = ("app.t", "app.u")
_RULES = "".join(f"      {table}: {{to: lake.log, mode: append}}\n" for table in TABLES)
CONFIG = "streams:\n" + "".join(f"  {stream}:\n    tables:\n{_RULES}" for stream in STREAMS)
Event = dict[str, Any]
Row = tuple[str, str | None]  # op, value


@dataclass(frozen=True)
class Happened:
    """A change of a source: what is true of it, however it is sent."""

    stream: str
    table: str
    op: str
    commit: int
    lsn: int
    value: str | None
    row: int | None = None  # of MariaDB: in the binlog's file `commit`, the event at `lsn`; None: PostgreSQL

    @property
    def position(self) -> tuple[int, int, int]:
        """Where it stands in its source; snapshot reads come first."""
        return self.commit, self.lsn, self.row or 0

    @property
    def own_place(self) -> bool:
        """Whether no other change of its table has its position and op."""
        return self.op in "udt" or (self.row is not None and self.op != "r")

    def sent(self, number: int | None, emitted: int | None) -> "Sent":
        """As a connector sends it."""
        return Sent(self, number, emitted)


@dataclass(frozen=True)
class Sent:
    """A change as a connector sent it once."""

    what: Happened
    number: int | None
    emitted: int | None

    @property
    def event(self) -> Event:
        """As Debezium has it."""
        one = self.what
        image = None if one.value is None else {"v": one.value}
        before, after = (image, None) if one.op == "d" else (None, image)
        source: Event = {"table": one.table.removeprefix("app."), "ts_ms": 1}
        if one.row is None:
            sequence = json.dumps([None if one.op == "r" else str(one.commit), str(one.lsn)])
            source |= {"connector": "postgresql", "schema": "app", "sequence": sequence}
        else:
            place = {"file": f"binlog.{one.commit:06d}", "pos": one.lsn, "row": one.row}
            source |= {"connector": "mariadb", "db": "app", **place}
        event: Event = {"op": one.op, "before": before, "after": after, "source": source, "ts_ms": 1}
        if self.number is not None:
            event["transaction"] = {"id": "7", "total_order": self.number, "data_collection_order": self.number}
        return event if self.emitted is None else event | {"ts_ns": self.emitted}

    @property
    def delivery(self) -> Delivery:
        """As the specification has it."""
        one = self.what
        told = (self.number, self.emitted, one.own_place)
        return Delivery(one.stream, one.table, one.op, one.position, one.value, *told)


@dataclass
class Source:
    """What happened in one stream, and the runs of its connector: each sends changes one after the other."""

    stream: str
    numbered: bool
    happened: list[Happened] = field(default_factory=list)
    runs: list[list[Sent]] = field(default_factory=list)

    def run(self, first: int, last: int, clock: Iterator[int]) -> None:
        """A run sends the changes from `first` up to `last`, and numbers what it sends of each transaction from 1."""
        numbers: Counter[int] = Counter()
        sent = []
        for one in self.happened[first:last]:
            numbers[one.commit] += 1
            sent.append(one.sent(numbers[one.commit] if self.numbered else None, next(clock)))
        self.runs.append(sent)


def ticking() -> Iterator[int]:
    """Times that a connector makes its events at, ns: no two are equal."""
    at = 1_000
    while True:
        at += 1_000
        yield at


def source(
    stream: str, dice: random.Random, clock: Iterator[int], *, numbered: bool, restarts: bool, binlog: bool = False
) -> Source:
    """A few changes of a few values at a few positions, in the order of their positions, and the connector's runs.
    `binlog`: of MariaDB, where each has a row of its own and a restart may come between any two."""
    found = Source(stream, numbered)
    taken: set[tuple[object, ...]] = set()
    for _ in range(dice.randint(1, 12)):
        op = dice.choice("ccccudrt")
        value = None if op == "t" else dice.choice("xy")
        commit = 0 if op == "r" else dice.randint(1, 2)
        row = dice.randint(0, 2) if binlog else None
        one = Happened(stream, dice.choice(TABLES), op, commit, dice.randint(1, 3), value, row)
        # One table and one op at one row of an event, whatever its value.
        place = (one.table, op, one.position)
        if one.own_place and place in taken:
            continue
        taken.add(place)
        found.happened.append(one)
    found.happened.sort(key=lambda one: one.position)
    if not restarts or not found.happened:
        found.run(0, len(found.happened), clock)
        return found
    killed = dice.randint(1, len(found.happened))
    found.run(0, killed, clock)
    # It goes on at the first change of a position, at or before the one that it was killed in.
    position = dice.choice(found.happened[:killed]).position
    again = next(n for n, one in enumerate(found.happened) if one.position == position)
    found.run(again, len(found.happened), clock)
    return found


def requests(sources: Iterable[Source], dice: random.Random, *, most: int = 5) -> list[tuple[str, list[Sent]]]:
    """All that was sent and some of it again, each request of one run (stream, what it brings), in any order."""
    found: list[tuple[str, list[Sent]]] = []
    for one in sources:
        for sent in one.runs:
            all_of_it = [*sent, *dice.choices(sent, k=len(sent) // 2)] if sent else []
            dice.shuffle(all_of_it)
            while all_of_it:
                size = dice.randint(1, most)
                found.append((one.stream, all_of_it[:size]))
                all_of_it = all_of_it[size:]
    dice.shuffle(found)
    return found


def specified(sent: Iterable[tuple[str, Sequence[Sent]]]) -> Counter[Row]:
    """The rows that the specification makes of requests."""
    deliveries = ((str(n), [one.delivery for one in some]) for n, (_, some) in enumerate(sent))
    return Counter((one.op, _text(one.content)) for one in append(deliveries).values())


def rows_of(rows: Iterable[dict[str, Any]]) -> Counter[Row]:
    """The rows of a table."""
    return Counter((row["_firn_op"], row["v"]) for row in rows)


def _text(content: Any) -> str | None:
    return content if content is None else str(content)
