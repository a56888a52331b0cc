"""A PostgreSQL in memory: tables with a key, an out-of-line column, and the events that Debezium tells of them.

What each event means for `fold` is written down beside it, in orders of this module's own making: the engine's own
decoding and positions are under test.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from firn.changes.merge.fold import RowChange

TABLES: Final = ("orders", "items")  # with a key: mirrored
PARTS: Final = {"items": ("items", "items_old")}  # the source tables that feed it, which share their keys
LOG: Final = "log"  # without one: appended to
NAMES: Final = ("v", "remark", "note")  # of the out-of-line column, one after the other
GONE: Final = "__debezium_unavailable_value"
_RANK: Final = {"t": 0, "d": 1, "r": 2, "c": 3, "u": 4}
_START_MS: Final = 1_700_000_000_000


@dataclass(frozen=True)
class Event:
    """One line of a request. `changes`: what it says of `table` (None: of none that is configured)."""

    line: str
    table: str | None
    changes: tuple[RowChange, ...] = ()

    @property
    def broken(self) -> bool:
        """It has to become a dead letter."""
        return self.table is not None and not self.changes

    @property
    def readable(self) -> bool:
        """It is JSON."""
        return self.line.endswith("}")


@dataclass
class Postgres:
    """`rows`: by table and key; `log`: every event, in commit order. LSNs are handed out as they are written, and
    transactions commit in another order: `held` LSNs belong to transactions that have begun and not committed."""

    rows: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: {table: {} for table in TABLES})
    log: list[Event] = field(default_factory=list)
    lsn: int = 100
    committed: int = 0  # the end LSN of the last commit; 0: none yet, which Debezium tells as null
    ms: int = _START_MS
    held: list[int] = field(default_factory=list)
    renamed: int = 0  # how often the out-of-line column was; rows and changes have it under its first name
    texts: bool = False  # the columns that held numbers hold text by now
    part: int = 0  # which of a table's PARTS the next statement writes to
    owners: dict[tuple[str, int], str] = field(default_factory=dict)  # which of them wrote a key's row last

    def free(self, table: str, keys: range) -> list[int]:
        """Keys that no row has."""
        return [key for key in keys if key not in self.rows[table]]

    def insert(self, table: str, key: int, *, literal: bool = False) -> None:
        """`literal`: the text of the placeholder is really written."""
        row = self._new(key) | ({"v": GONE} if literal else {})
        self.rows[table][key] = row
        self._tell("c", table, row, late=False)

    def update(self, table: str, key: int, *, keeps: bool = False, late: bool = False) -> None:
        """`keeps`: the out-of-line column stays as it is, and the event does not tell it. `late`: it was written before
        what is committed already."""
        row = self._new(key) | ({"v": self.rows[table][key]["v"]} if keeps else {})
        self.rows[table][key] = row
        self._tell("u", table, row, keeps=keeps, late=late)

    def delete(self, table: str, key: int, *, late: bool = False) -> None:
        """A row goes."""
        del self.rows[table][key]
        self._tell("d", table, None, {"id": key}, late=late)

    def move(self, table: str, key: int, to: int, *, keeps: bool = False, one_event: bool = False) -> None:
        """The primary key changes. Debezium tells a delete and a create of one LSN; `one_event`: other tools tell one
        update with both keys."""
        row = self._new(to) | ({"v": self.rows[table][key]["v"]} if keeps else {})
        del self.rows[table][key]
        self.rows[table][to] = row
        if one_event:
            self._tell("u", table, row, {"id": key}, keeps=keeps, moved=True)
            return
        before, lsn = self.committed, self._next()
        self._tell("d", table, None, {"id": key}, at=(before, lsn))
        self._tell("c", table, row, keeps=keeps, at=(before, lsn))

    def truncate(self, table: str) -> None:
        """All rows of the source table go."""
        for key in [key for key in self.rows[table] if self.owners[table, key] == self._source(table)]:
            del self.rows[table][key]
        self._tell("t", table, None)

    def snapshot(self, table: str) -> None:
        """Debezium reads the table while it goes on streaming: reads stand between the last commit and the next one."""
        for key, row in list(self.rows[table].items()):
            if self.owners[table, key] == self._source(table):
                self._tell("r", table, row)

    def several(self, table: str, keys: list[int]) -> None:
        """One transaction updates many rows."""
        before = self.committed
        for key in keys:
            row = self._new(key)
            self.rows[table][key] = row
            self._tell("u", table, row, at=(before, self._next()))

    def hold(self) -> None:
        """A transaction writes, and commits later than others that write after it."""
        self.held.append(self._next())

    def append(self, rows: int) -> None:
        """Rows of a table without a key, some of them alike, in one transaction."""
        before = self.committed
        for _ in range(rows):
            row = {"word": "same", "n": self._number(1)}
            line = self._line("c", LOG, row, None, before, self._next())
            self.log.append(Event(line, LOG, (RowChange("c", (), line.encode(), line.encode(), row),)))
        self.committed = self._next()

    def broken(self, kind: str) -> None:
        """Debezium would not: an event that no table can take. `kind`: cut off, no key, filtered."""
        number = self._next()
        if kind == "cut off":
            self.log.append(Event(f'{{"broken": {number},', "orders"))
            return
        table = "orders" if kind == "no key" else "elsewhere"
        line = self._line("c", table, {"n": number}, None, self.committed, number)
        self.log.append(Event(line, "orders" if kind == "no key" else None))

    def rename(self) -> None:
        """The out-of-line column has another name from now on."""
        self.renamed += 1

    def retype(self) -> None:
        """The columns that hold numbers hold text from now on."""
        self.texts = True

    def wait(self, seconds: int) -> None:
        """The source's clock goes on. It never goes back: that would be another source."""
        self.ms += 1000 * seconds

    def _source(self, table: str) -> str:
        return PARTS.get(table, (table,))[self.part % len(PARTS.get(table, (table,)))]

    def _new(self, key: int) -> dict[str, Any]:
        return {"id": key, "n": self._number(self.lsn + 1), "v": f"v{self.lsn + 1}"}

    def _number(self, number: int) -> int | str:
        return f"n{number}" if self.texts else number

    def _next(self) -> int:
        self.lsn += 1
        return self.lsn

    def _tell(
        self,
        op: str,
        table: str,
        after: Mapping[str, Any] | None,
        before: Mapping[str, Any] | None = None,
        *,
        keeps: bool = False,
        late: bool = False,
        moved: bool = False,
        at: tuple[int, int] | None = None,
    ) -> None:
        commit, lsn = at or (self.committed, self.held.pop() if late and self.held else self._next())
        image = dict(after) | {"v": GONE} if after and keeps else after
        gaps = (
            frozenset({"v"}) if (keeps and op in "cu") or (op == "c" and after and after["v"] == GONE) else frozenset()
        )
        source = self._source(table)
        line = self._line(op, source, image, before, commit, lsn)
        if after is not None:
            self.owners[table, after["id"]] = source

        def change(op: str, key: tuple[int, ...], image: Mapping[str, Any] | None, rank: str) -> RowChange:
            place = f"{commit:012d}.{0 if op == 'r' else 1}.{lsn:012d}".encode()
            order = place + str(_RANK[rank]).encode()
            return RowChange(op, key, place, order, image, gaps if op in "cu" else frozenset(), source)

        if op == "t":
            changes = [change("t", (), None, "t")]
        elif op == "d":
            changes = [change("d", ((before or {})["id"],), None, "d")]
        elif moved and before and image:
            changes = [change("d", (before["id"],), None, "d"), change("c", (image["id"],), image, "u")]
        else:
            changes = [change(op, ((image or {})["id"],), image, op)]
        self.log.append(Event(line, table, tuple(changes)))
        self.committed = max(self.committed, self._next())

    def _line(self, op: str, table: str, after: Any, before: Any, commit: int, lsn: int) -> str:
        self.ms += 1
        source = {"connector": "postgresql", "schema": "app", "table": table, "ts_ms": self.ms, "lsn": lsn}
        source["sequence"] = json.dumps([str(commit) if commit else None, str(lsn)])
        before, after = ({_called(name, self.renamed): value for name, value in row.items()} if row else row
                         for row in (before, after))  # fmt: skip
        made = {"ts_ms": self.ms, "ts_ns": 1_000_000 * self.ms + self.lsn}
        return json.dumps({"op": op, "before": before, "after": after, "source": source, **made})


def _called(name: str, renamed: int) -> str:
    return NAMES[renamed] if name == NAMES[0] else name


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """A row, of a table or of `Postgres.rows`: the source's columns, under the names that they had first, with text for
    what was a number first."""
    assert sum(name in NAMES for name in values) <= 1, f"a renamed column is two: {values}"
    named = {NAMES[0] if name in NAMES else name: value for name, value in values.items() if not name.startswith("_")}
    return named | ({"n": str(named["n"])} if named.get("n") is not None else {})
