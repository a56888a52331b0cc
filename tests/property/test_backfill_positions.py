"""Reads of a backfill and the stream's changes, in any order, give the source's table (docs/adr/0061-backfill.md)."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from firn.backfill.read_position import floor_of, order_of_read
from firn.backfill.settling import Server, Settled, settle
from firn.changes.merge.fold import RowChange
from tests.property.visible_commits import Database, change, streamed, table

KEYS = range(4)
Settle = Callable[[Server, Callable[[int, int], None]], Settled]
Steps = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "log", "show", "begin", "begin and write"]), st.integers(0, 9),
              st.sampled_from(KEYS)),
    max_size=30,
)  # fmt: skip


class Writers:
    """Applies drawn steps to a database. Values never repeat, so that a stale row shows."""

    def __init__(self, database: Database) -> None:
        self.database, self.value = database, 100

    def step(self, what: str, which: int, key: int) -> None:
        database = self.database
        if what.startswith("begin") or not database.open:
            database.begin()
        transaction = list(database.open.values())[-1 if what.startswith("begin") else which % len(database.open)]
        self.value += 1
        if what in ("write", "begin and write"):
            database.write(transaction, key, self.value)
        elif what == "delete":
            database.write(transaction, key, None)
        elif what == "log":
            database.log_commit(transaction)
        elif what == "show":
            database.show(transaction)

    def end_all(self) -> None:
        for transaction in list(self.database.open.values()):
            self.database.show(transaction)


def high_of(changes: list[RowChange]) -> str | None:
    """The highest position that a cut knows after these changes: of those that tell a commit (quarantine.rules)."""
    found = [one.position for one in changes if one.position is not None and any(one.position[4:20])]
    return max(found).hex() if found else None


def read(database: Database, floor: int, settled: Settled, keys: range) -> list[RowChange]:
    """A chunk: its snapshot is opened now."""
    order = order_of_read(floor, settled.position)
    return [change("r", key, database.rows[key], order) for key in keys if key in database.rows]


@given(
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9)), Steps, Steps, Steps, Steps, st.integers(0, 20),
    st.permutations([True, False] * 4),
)  # fmt: skip
def test_the_table_is_the_source_whatever_happens_while_a_chunk_is_read(
    rows: dict[int, int],
    before: list[tuple[str, int, int]],
    waiting: list[tuple[str, int, int]],
    between: list[tuple[str, int, int]],
    after: list[tuple[str, int, int]],
    committed: int,
    order: list[bool],
) -> None:
    database = Database(dict(rows))
    writers = Writers(database)
    for one in before:
        writers.step(*one)
    # What the stream's tables have by now: any number of the commits in the log, the first ones.
    floor = floor_of(high_of(streamed(database, min(committed, len(database.commits)))), 0)
    left = iter(waiting)

    def pause(_: int, oldest: int) -> None:
        step = next(left, None)
        if step is None:  # all that is waited for ends at last
            database.show(database.open[oldest])
        else:
            writers.step(*step)

    settled = settle(database, pause)
    for one in between:
        writers.step(*one)
    reads = read(database, floor, settled, KEYS)
    for one in after:
        writers.step(*one)
    writers.end_all()
    changes = streamed(database, len(database.commits))
    mixed = [*changes, *reads] if order[0] else [*reads, *changes]
    assert table(mixed) == database.rows


def two_sessions() -> tuple[Database, list[RowChange]]:
    """One transaction updates the row 1 and has its commit in the log, where a standby has not answered for it yet; a
    later one, of another row, is done, and the stream brought it."""
    database = Database({1: 1, 2: 1})
    first, second = database.begin(), database.begin()
    database.write(first, 1, 100)
    database.log_commit(first)
    database.write(second, 2, 200)
    database.show(second)
    return database, streamed(database, len(database.commits))


def chunk_of_two_sessions(how: Settle) -> tuple[dict[int, int], dict[int, int]]:
    """-> the source's rows and the table's, if a chunk is read at that moment, after waiting as `how` does."""
    database, known = two_sessions()

    def pause(_: int, oldest: int) -> None:
        database.show(database.open[oldest])

    settled = how(database, pause)
    reads = read(database, floor_of(high_of(known), 0), settled, range(3))
    Writers(database).end_all()
    return database.rows, table([*streamed(database, len(database.commits)), *reads])


def test_a_commit_that_is_in_the_log_and_not_visible_yet_is_waited_for() -> None:
    source, mirror = chunk_of_two_sessions(settle)
    assert mirror == source == {1: 100, 2: 200}


def test_without_the_wait_a_stale_row_would_stand_for_ever() -> None:
    source, mirror = chunk_of_two_sessions(lambda server, _: Settled(server.log_end()))
    assert source == {1: 100, 2: 200}
    assert mirror == {1: 1, 2: 200}


def test_without_a_number_of_its_own_a_snapshot_would_not_tell_of_the_newest_transactions() -> None:
    """The rule that waits for those that pg_current_snapshot() lists."""

    def listed(server: Server, pause: Callable[[int, int], None]) -> Settled:
        assert isinstance(server, Database)
        position = server.log_end()
        while left := {xid for xid in server.open if xid <= server.ended}:
            pause(1, min(left))
        return Settled(position)

    database = Database({1: 1})
    transaction = database.begin()
    assert (database.oldest(), transaction.xid) == (1, 1)
    database.write(transaction, 1, 2)
    database.log_commit(transaction)
    assert listed(database, lambda *_: None).waited == 0  # though it runs, and is in the log
    assert settle(database, lambda _, oldest: database.show(database.open[oldest])).waited == 1


def test_with_the_end_of_the_log_as_its_first_part_a_read_would_beat_the_first_change_after_it() -> None:
    database = Database({1: 1})
    settled = settle(database, lambda *_: None)
    right = read(database, floor_of(None, 0), settled, KEYS)
    wrong = [change("r", 1, 1, f"[{settled.position},{settled.position}]")]
    transaction = database.begin()
    database.write(transaction, 1, 2)
    database.show(transaction)
    changes = streamed(database, 1)
    assert table([*changes, *right]) == database.rows == {1: 2}
    assert table([*changes, *wrong]) == {1: 1}  # the commit before the change is far below the end of the log


def test_a_row_that_is_deleted_before_the_chunk_is_in_no_read_and_one_after_it_goes() -> None:
    database = Database({1: 1, 2: 1, 3: 1})
    first = database.begin()
    database.write(first, 1, None)
    database.show(first)
    known = streamed(database, 1)
    settled = settle(database, lambda *_: None)
    reads = read(database, floor_of(high_of(known), 0), settled, KEYS)
    second = database.begin()
    database.write(second, 2, None)
    database.show(second)
    assert table([*reads, *streamed(database, 2)]) == database.rows == {3: 1}


def test_a_read_mends_what_the_stream_brought_wrong_before() -> None:
    """Unlike Debezium's own snapshot reads: these lie above what the tables had when the backfill began."""
    database = Database({1: 1})
    for value in (2, 3, 4):
        transaction = database.begin()
        database.write(transaction, 1, value)
        database.show(transaction)
    database.rows[1] = 5  # not by the log
    other = database.begin()
    database.write(other, 2, 1)
    database.show(other)
    known = streamed(database, 4)
    reads = read(database, floor_of(high_of(known), 0), settle(database, lambda *_: None), KEYS)
    assert table([*known, *reads]) == {1: 5, 2: 1}
