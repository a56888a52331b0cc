"""A pulled stream leaves large values that did not change out, also of rows whose key changes. Wherever the backfill's
chunks are read among such changes, the table has them (docs/adr/0066-moved-rows.md)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.backfill.read_position import floor_of, order_of_read
from firn.backfill.settling import Settled, settle
from firn.changes.merge.fold import RowChange, fold
from firn.changes.positions import order_key, position
from tests.soak import times

KEYS = range(6)
CHUNKS = (range(3), range(3, 6))
Row = tuple[int, int | None, int]  # its small value, its large one, and what no change touches
Step = tuple[str, int, int]
STEPS = ("small", "large", "move", "move", "delete", "insert", "begin", "log", "show")
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=8)


@dataclass
class Transaction:
    """`wrote`: (what, old key, new key, the row after it, place in the log)."""

    xid: int
    wrote: list[tuple[str, int, int, Row, int]] = field(default_factory=list)
    logged: bool = False


@dataclass
class Database:
    """Rows by their key, each with the number of the transaction that wrote it; as visible_commits.Database otherwise,
    but that positions are a pull's: [start of the transaction's commit, place of the change]."""

    rows: dict[int, tuple[Row, int]]
    log: int = 1_000
    xid: int = 1
    made: int = 100  # values never repeat
    ended: int = 0
    open: list[Transaction] = field(default_factory=list)
    commits: list[tuple[int, Transaction]] = field(default_factory=list)

    def step(self, what: str, key: int, other: int) -> None:
        """One step of whatever transaction, if it can be made now."""
        if what == "begin" or not self.open:
            self.open.append(Transaction(self.xid))
            self.xid += 1
        one = self.open[other % len(self.open)]
        if what == "log":
            self.log_commit(one)
        elif what == "show":
            self.show(one)
        elif what != "begin":
            self.write(one, what, key, other if what == "move" else key)

    def write(self, one: Transaction, what: str, old: int, new: int) -> None:
        locked = {key for mine in self.open if mine is not one for _, *keys, _, _ in mine.wrote for key in keys}
        mine = self.seen_by(one)
        if one.logged or {old, new} & locked or (old in mine) == (what == "insert") or (old != new and new in mine):
            return
        self.made += 1
        small, large, row = mine.get(old, (0, 0, self.made))
        if what == "move" and old == new:
            return
        after = (small if what == "large" else self.made, self.made if what in ("large", "insert") else large, row)
        self.log += 10
        one.wrote.append((what, old, new, after, self.log))

    def seen_by(self, one: Transaction) -> dict[int, Row]:
        found = {key: row for key, (row, _) in self.rows.items()}
        for what, old, new, row, _ in one.wrote:
            found.pop(old, None)
            if what != "delete":
                found[new] = row
        return found

    def log_commit(self, one: Transaction) -> None:
        if not one.logged:
            one.logged = True
            self.log += 10
            self.commits.append((self.log, one))

    def show(self, one: Transaction) -> None:
        self.log_commit(one)
        for what, old, new, row, _ in one.wrote:
            self.rows.pop(old, None)
            if what != "delete":
                self.rows[new] = (row, one.xid)
        self.open.remove(one)
        self.ended = max(self.ended, one.xid)

    def log_end(self) -> int:
        return self.log + 5

    def next_number(self) -> int:
        self.xid += 1
        self.ended = max(self.ended, self.xid - 1)
        return self.xid - 1

    def oldest(self) -> int:
        return min((one.xid for one in self.open if one.xid <= self.ended), default=self.ended + 1)


def change(op: str, key: int, row: Row | None, order: str, large: bool = True) -> RowChange:
    where = position("postgresql", op, order, 1)
    values = None if row is None else {"id": key, "small": row[0], "large": row[1] if large else None, "row": row[2]}
    unavailable = frozenset() if large or row is None else frozenset({"large"})
    content = f"{op} {key} {row} {large}".encode()
    return RowChange(op, (key,), where, b"\1" + order_key(where, op, content), values, unavailable)


def streamed(database: Database, slot: int) -> list[RowChange]:
    """What the slot brings, which was made when the log ended at `slot`."""
    found: list[RowChange] = []
    for at, one in database.commits:
        for what, old, new, row, lsn in one.wrote if at >= slot else ():
            order = f"[{at},{lsn}]"
            if what in ("delete", "move"):
                found.append(change("d", old, None, order))
            if what == "move":
                found.append(change("c", new, row, order, large=False))
            elif what != "delete":
                found.append(change("u" if what != "insert" else "c", new, row, order, large=what != "small"))
    return found


def table(changes: Iterable[RowChange]) -> dict[int, Row]:
    """The rows that the changes leave."""
    rows = fold({}, changes).rows
    return {key[0]: (row.values["small"], row.values["large"], row.values["row"]) for key, row in rows.items()}


Place = Callable[[Database, Settled], str]


def at_the_logs_end(_: Database, settled: Settled) -> str:
    return order_of_read(0, settled.position, pulled=True)


def at_the_floor(_: Database, settled: Settled) -> str:
    """As in a raised generation, of which no table knows anything yet."""
    return order_of_read(floor_of(None, 1), settled.position)


class History:
    """A backfill among writers' steps. `before`: rows that the slot never tells."""

    def __init__(self, before: Iterable[int]) -> None:
        self.database = Database({key: ((key, 10 + key, key), 0) for key in before})
        self.slot = self.database.log_end()
        self.since = 0
        self.reads: list[RowChange] = []

    def write(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self.database.step(*step)

    def plan(self) -> None:
        self.since = self.database.oldest()

    def read(
        self, keys: range, waiting: Iterable[Step], opening: Iterable[Step], place: Place, last: bool = False
    ) -> None:
        """A chunk: `waiting` is written while it waits, `opening` before its snapshot is opened."""
        database, left = self.database, iter(waiting)

        def pause(_: int, oldest: int) -> None:
            step = next(left, None)
            if step is None:
                database.show(next(one for one in database.open if one.xid == oldest))
            else:
                database.step(*step)

        settled = settle(database, pause)
        self.write(opening)
        order = place(database, settled)
        rows = {
            key: row for key, (row, xid) in database.rows.items() if key in keys and (not last or xid >= self.since)
        }
        self.reads += [change("r", key, row, order) for key, row in rows.items()]

    def read_last(self, waiting: Iterable[Step]) -> None:
        """The last chunk, by a snapshot of exactly what was committed below its place. `waiting` is written until then:
        commits that are logged and not visible are in it too."""
        self.write(waiting)
        database = self.database
        place = database.log + 10  # where the next commit may begin
        for one in [one for _, one in database.commits if one in database.open]:
            database.show(one)
        rows = {key: row for key, (row, xid) in database.rows.items() if xid >= self.since}
        order = order_of_read(0, place, pulled=True)
        self.reads += [change("r", key, row, order) for key, row in rows.items()]

    def end_all(self) -> None:
        for one in list(self.database.open):
            self.database.show(one)

    def end(self) -> tuple[dict[int, Row], dict[int, Row]]:
        """-> the source's rows and the table's."""
        self.end_all()
        source = {key: row for key, (row, _) in self.database.rows.items()}
        return source, table([*self.reads, *streamed(self.database, self.slot)])


@settings(max_examples=times(17, 20_000, 300), deadline=None)
@given(st.sets(st.sampled_from(KEYS)), st.lists(steps, min_size=9, max_size=9), st.booleans())
def test_a_moved_row_has_its_large_value_wherever_chunks_are_read(
    before: set[int], written: list[list[Step]], backwards: bool
) -> None:
    history, parts = History(before), iter(written)
    history.write(next(parts))
    history.plan()
    history.write(next(parts))
    for keys in reversed(CHUNKS) if backwards else CHUNKS:
        history.read(keys, next(parts), next(parts), at_the_logs_end)
    history.write(next(parts))
    history.read_last(next(parts))
    history.write(next(parts))
    source, mirror = history.end()
    assert mirror == source


def moved_before_the_plan(place: Place) -> tuple[dict[int, Row], dict[int, Row]]:
    history = History({1})
    history.write([("move", 1, 4), ("show", 0, 0)])
    history.plan()
    for keys in CHUNKS:
        history.read(keys, (), (), place)
    history.read(KEYS, (), (), place, last=True)
    return history.end()


def test_a_row_that_moved_before_the_backfill_is_read_above_its_move() -> None:
    source, mirror = moved_before_the_plan(at_the_logs_end)
    assert mirror == source == {4: (101, 11, 1)}


def test_below_what_the_stream_brought_its_large_value_would_be_lost() -> None:
    source, mirror = moved_before_the_plan(at_the_floor)
    assert source == {4: (101, 11, 1)}
    assert mirror == {4: (101, None, 1)}


def test_a_row_that_a_transaction_moves_which_the_plan_found_open_is_read_again() -> None:
    """The chunk waits for it, and so stands below it."""
    history = History({1})
    history.write([("move", 1, 4)])
    history.plan()
    for keys in reversed(CHUNKS):
        history.read(keys, (), (), at_the_logs_end)
    assert table([*history.reads, *streamed(history.database, history.slot)]) == {4: (101, None, 1)}
    history.read_last(())
    source, mirror = history.end()
    assert mirror == source == {4: (101, 11, 1)}


# While the last chunk opens: the row moves again, and what its first move left unknown was never read; or its key is
# another row's by then, of which the chunk would tell too early.
AGAIN: list[Step] = [("move", 1, 2), ("show", 0, 0)]
ANOTHER: list[Step] = [("move", 5, 3), ("insert", 5, 0), ("show", 0, 0)]


def moved_meanwhile() -> History:
    """A row that moved past its chunk while others were read, and what is written while the last one opens."""
    history = History({4, 5})
    history.plan()
    history.read(CHUNKS[0], (), (), at_the_logs_end)
    history.write([("move", 4, 1), ("show", 0, 0)])
    history.read(CHUNKS[1], (), (), at_the_logs_end)
    return history


@pytest.mark.parametrize("opening", [[], AGAIN, ANOTHER], ids=["nothing", "again", "another"])
def test_a_key_that_changes_while_the_last_chunk_opens_takes_its_values_along(opening: list[Step]) -> None:
    before, after = moved_meanwhile(), moved_meanwhile()
    before.read_last(opening)
    after.read_last(())
    after.write(opening)
    for history in (before, after):
        source, mirror = history.end()
        assert mirror == source


def test_a_commit_that_begins_at_the_place_of_the_last_chunk_beats_it() -> None:
    history = History({1})
    history.plan()
    history.write([("small", 1, 1), ("show", 0, 0), ("small", 1, 1)])
    history.read_last(())
    assert [read.values["small"] for read in history.reads if read.values] == [101]
    history.write([("show", 0, 0)])
    source, mirror = history.end()
    assert mirror[1][0] == source[1][0] == 102


@pytest.mark.parametrize(
    ("opening", "key", "row"), [(AGAIN, 2, (102, None, 4)), (ANOTHER, 3, (102, 103, 5))], ids=["again", "another"]
)
def test_a_snapshot_that_shows_more_than_lies_below_its_place_would_take_others(
    opening: list[Step], key: int, row: Row
) -> None:
    history = moved_meanwhile()
    history.read(KEYS, (), opening, at_the_logs_end, last=True)
    source, mirror = history.end()
    assert mirror[key] == row != source[key]
