"""Any history through an emitter's envelope and back: the table is the source's, in whatever order and requests its
events come, with any of them twice; of Canal, whose messages say nothing of their order, as they come."""

import json
import random
from typing import Any, Final

import pytest

from tests.emitter_events import WRITERS, Event, together
from tests.emitters import Emitted, shuffled
from tests.soak import seeds

_VALUES: Final = (None, "", "a", "é\n", '"', "x" * 40, "__debezium_unavailable_value", "NaN", "1")
Rows = dict[int, dict[str, Any]]


class Source:
    """A table in its database, and what its emitter says of it."""

    def __init__(self, envelope: str, dice: random.Random) -> None:
        self.envelope, self.dice = envelope, dice
        self.write = dice.choice(WRITERS[envelope])
        self.rows: Rows = {}
        self.events: list[Event] = []
        self.n = 1_000

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.n += 1
            ids = list(self.rows)
            match self.dice.choices(("insert", "update", "move", "delete", "truncate"), (30, 40, 8, 15, 1))[0]:
                case "insert":
                    key = self.dice.randrange(12)
                    if key not in self.rows:
                        self._tell("c", None, {"id": key, **self._values()})
                case "update" if ids:
                    old = self.rows[self.dice.choice(ids)]
                    self._update(old, old | self._some())
                case "move" if ids and self.envelope != "dynamodb":  # an item's key can't change
                    old, key = self.rows[self.dice.choice(ids)], self.dice.randrange(12, 24)
                    if key not in self.rows:
                        self._update(old, old | {"id": key} | self._some())
                case "delete" if ids:
                    self._tell("d", self.rows[self.dice.choice(ids)], None)
                case "truncate":
                    if (event := self.write(self.n, "t", "one", None, None)) is not None:
                        self.rows = {}
                        self.events.append(event)

    def _values(self) -> dict[str, Any]:
        whole = self.dice.choice((None, 0, -1, 2**53 + 1, 2**63 - 1))
        return {"v": self.dice.choice(_VALUES), "n": whole, "f": self.dice.choice((None, 0.5, -1.25, 1e-7)), "big": "y"}

    def _some(self) -> dict[str, Any]:
        values = self._values()
        return {name: values[name] for name in self.dice.sample(sorted(values), self.dice.randrange(1, 4))}

    def _update(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old != new:
            self._tell("u", old, new)

    def _tell(self, op: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        sent = new
        if op == "u" and self.envelope == "wal2json" and new is not None and old is not None:
            # An unchanged large value is left out.
            sent = {name: one for name, one in new.items() if name != "big" or old["big"] != one}
        event = self.write(self.n, op, "one", old, sent)
        assert event is not None
        self.events.append(json.loads(json.dumps(event)))
        if old is not None:
            del self.rows[old["id"]]
        if new is not None:
            self.rows[new["id"]] = new

    def requests(self) -> list[list[bytes]]:
        """Some neighbours in one event, as this emitter has them; then in any order, unless it has none."""
        events, at = list[Event](), 0
        while at < len(self.events):
            size = self.dice.choice((1, 1, 1, 3))
            some = self.events[at : at + size]
            events += self._joined(some)
            at += size
        lines = [json.dumps(event).encode() for event in events]
        if self.envelope != "canal":
            return shuffled(lines, self.dice)
        size = self.dice.choice((1, 5, 50))
        return [lines[at : at + size] for at in range(0, len(lines), size)]

    def _joined(self, some: list[Event]) -> list[Event]:
        first, others = some[0], some[1:]
        if not others:
            return some
        if self.envelope == "canal":
            alike = all(one["type"] == first["type"] and one["mysqlType"] == first["mysqlType"] for one in others)
            return [together(first, others)] if alike and not first["isDdl"] else some
        if "change" in first:
            return [together(first, others)]
        return [{"Records": some}] if self.envelope == "dynamodb" else some


@pytest.mark.parametrize("envelope", WRITERS)
def test_the_table_is_the_sources(envelope: str) -> None:
    for seed in seeds(12, 800):
        source = Source(envelope, random.Random(seed))
        source.run(source.dice.choice((5, 40, 120)))
        table = "one" if envelope == "dynamodb" else "app.one"
        name = source.dice.choice((envelope, "auto"))
        lake = Emitted(name, {table: "{to: lake.one, key: [id], columns: {id: long, f: double}}"})
        for request in source.requests():
            done = lake.post(request)
            assert done.rejected == 0, done.errors
            if source.dice.random() < 0.3:
                lake.commit()
        lake.commit()
        found = {row["id"]: shown(row) for row in lake.rows("one")}
        assert found == {key: shown(row) for key, row in source.rows.items()}, f"FIRN_SEED={seed}"


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A column without a value is null, there or not."""
    return {name: value for name, value in row.items() if value is not None}
