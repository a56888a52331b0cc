"""fold against a source database: whatever history it writes, fold finds its rows again from the changes alone."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firn.changes.merge.fold import Key, RowChange, State, fold

RANK = {"t": 0, "d": 1, "r": 2, "c": 3, "u": 4}
KEYS = range(1, 5)


@dataclass
class Source:
    """Tables with a key, a small column `n` and an out-of-line column `v`, all of which feed one table, and the changes
    that their common log tells. `owner`: the source table that wrote a key's row last."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    owner: dict[int, str] = field(default_factory=dict)
    log: list[RowChange] = field(default_factory=list)
    now: int = 0

    def tell(
        self, op: str, key: int, row: dict[str, Any] | None, *, keeps_v: bool = False, rank: str = "", table: str = "a"
    ) -> None:
        position = self.now.to_bytes(4, "big")
        order = b"\1" + position + bytes([RANK[rank or op]]) + key.to_bytes(8, "big")
        image = {**row, "v": "placeholder"} if row and keeps_v else row
        image = dict(image) if image else None
        unavailable = frozenset({"v"}) if keeps_v else frozenset[str]()
        self.log.append(RowChange(op, () if op == "t" else (key,), position, order, image, unavailable, table))

    def step(self, action: str, key: int, free: int, keeps_v: bool, table: str = "a", other: str = "a") -> None:
        """One statement of `table`: on the row `key`, or making the row `free`. `other`: a table more, for what
        concerns two."""
        self.now += 1
        new = {"n": self.now, "v": f"v{self.now}"}
        if action == "insert":
            self.put(free, {"id": free, **new, "v": "placeholder" if keeps_v else new["v"]}, table)
            # A placeholder that was really inserted.
            self.tell("c", free, self.rows[free], keeps_v=keeps_v, table=table)
        elif action == "update":
            self.put(key, {**new, "id": key, "v": self.rows[key]["v"] if keeps_v else new["v"]}, table)
            self.tell("u", key, self.rows[key], keeps_v=keeps_v, table=table)
        elif action == "delete":
            del self.rows[key]
            self.tell("d", key, None, table=table)
        elif action == "to another table":  # a partition's row whose partition key changes
            del self.rows[key]
            self.tell("d", key, None, table=table)
            self.now += 1
            self.put(key, {**new, "id": key}, other)
            self.tell("c", key, self.rows[key], table=other)
        elif action.startswith("move"):
            self.put(free, {**new, "id": free, "v": self.rows.pop(key)["v"] if keeps_v else new["v"]}, table)
            self.rows.pop(key, None)
            self.tell("d", key, None, table=table)
            # In one event: the update is decoded as a delete and a create that keeps the update's place in the order.
            rank = "u" if action == "move in one event" else ""
            self.tell("c", free, self.rows[free], keeps_v=keeps_v, rank=rank, table=table)
        elif action == "truncate":
            for emptied in {table, other}:
                self.rows = {one: row for one, row in self.rows.items() if self.owner[one] != emptied}
                self.tell("t", 0, None, table=emptied)
        elif action == "snapshot":
            for seen, there in self.rows.items():
                if self.owner[seen] == table:
                    self.tell("r", seen, there, table=table)

    def put(self, key: int, row: dict[str, Any], table: str) -> None:
        self.rows[key], self.owner[key] = row, table


@st.composite
def histories(draw: st.DrawFn, most: int = 3) -> Source:
    """Of up to `most` source tables that feed one table."""
    source = Source()
    tables = st.sampled_from("abc"[: draw(st.integers(1, most))])
    for _ in range(draw(st.integers(0, 20))):
        live = sorted(source.rows)
        free = [key for key in KEYS if key not in source.rows]
        actions = ["insert"] * (2 if free else 0)
        actions += ["update", "update", "update", "delete", "truncate", "snapshot", "to another table"] if live else []
        actions += ["move", "move", "move in one event"] if live and free else []
        action = draw(st.sampled_from(actions))
        key, to = draw(st.sampled_from(live or [0])), draw(st.sampled_from(free or [0]))
        source.step(action, key, to, draw(st.booleans()), draw(tables), draw(tables))
    return source


def rows(state: State) -> dict[Key, dict[str, Any]]:
    return {key: dict(row.values) for key, row in state.rows.items()}


@given(histories())
def test_in_order_it_equals_the_plain_sequential_replay(source: Source) -> None:
    assert rows(fold({}, source.log)) == {(key,): row for key, row in source.rows.items()}


@given(histories(), st.data())
def test_it_is_permutation_invariant(source: Source, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(source.log))
    assert fold({}, shuffled) == fold({}, source.log)


@given(histories(), st.data())
def test_it_is_idempotent(source: Source, data: st.DataObject) -> None:
    once = fold({}, source.log)
    places = st.integers(0, max(0, len(source.log) - 1))
    again = [source.log[place] for place in data.draw(st.lists(places, max_size=10))] if source.log else []
    assert fold(once, again) == once
    assert fold({}, [*source.log, *again]) == once


@given(histories(), st.data())
def test_it_composes_over_every_split(source: Source, data: st.DataObject) -> None:
    batches: list[list[RowChange]] = [[], [], []]
    for change in source.log:
        batches[data.draw(st.integers(0, 2))].append(change)
    state = fold({}, [])
    for batch in batches:
        state = fold(state, batch)
    assert state == fold({}, source.log)


@given(histories(), st.data())
def test_the_rows_alone_carry_on_where_the_changes_left_off(source: Source, data: st.DataObject) -> None:
    """A table remembers rows, positions and held columns, and no history: enough for newer changes in any order."""
    cuts = [i for i in range(len(source.log) + 1) if i in {0, len(source.log)} or _between_statements(source.log, i)]
    cut = data.draw(st.sampled_from(cuts))
    table = fold({}, source.log[:cut]).rows
    newer = data.draw(st.permutations(source.log[cut:]))
    assert fold(table, newer).rows == fold({}, source.log).rows


@given(histories(), st.data())
def test_changes_that_a_live_row_has_in_it_already_change_nothing(source: Source, data: st.DataObject) -> None:
    table = fold({}, source.log).rows
    known = [c for c in source.log if c.op == "u" and c.key in table]
    since = {key: max((c.order for c in source.log if _ends(c, key)), default=b"") for key in table}
    repeats = [c for c in known if c.order > since[c.key]]
    assert fold(table, data.draw(st.permutations(repeats))).rows == table


def _between_statements(log: list[RowChange], i: int) -> bool:
    return log[i - 1].position != log[i].position


def _ends(change: RowChange, key: Key) -> bool:
    return change.op == "t" or (change.op == "d" and change.key == key)
