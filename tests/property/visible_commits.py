"""A model of what matters of PostgreSQL here: a log, transactions whose commit is in it before others see it, row locks
until then, snapshots; and of a stream that reads the log, commit by commit, as Debezium tells its positions."""

from dataclasses import dataclass, field

from firn.changes.merge.fold import RowChange, State, fold
from firn.changes.positions import order_key, position

Row = dict[str, int]


@dataclass
class Transaction:
    """`wrote`: (key, value or None for a delete, place in the log)."""

    xid: int
    wrote: list[tuple[int, int | None, int]] = field(default_factory=list)


@dataclass
class Database:
    """`log_length` is the end of the log; `open`: transactions that a snapshot does not show; `logged`: those of them
    whose commit is in the log already."""

    rows: dict[int, int]
    log_length: int = 1_000
    next_xid: int = 1
    open: dict[int, Transaction] = field(default_factory=dict)
    logged: set[int] = field(default_factory=set)
    ended: int = 0  # the highest number of a transaction that has
    commits: list[tuple[int, Transaction]] = field(default_factory=list)  # (end of its commit, it), by the log
    locked: dict[int, int] = field(default_factory=dict)  # key -> xid

    def begin(self) -> Transaction:
        """A transaction that gets its number at once."""
        found = self.open[self.next_xid] = Transaction(self.next_xid)
        self.next_xid += 1
        return found

    def write(self, transaction: Transaction, key: int, value: int | None) -> bool:
        """-> whether it could: another one may hold the row, and a row that is not there can't be deleted."""
        if transaction.xid in self.logged or self.locked.get(key, transaction.xid) != transaction.xid:
            return False
        mine = [written for at, written, _ in transaction.wrote if at == key]
        if value is None and (mine[-1] if mine else self.rows.get(key)) is None:
            return False
        self.locked[key] = transaction.xid
        self.log_length += 10
        transaction.wrote.append((key, value, self.log_length))
        return True

    def log_commit(self, transaction: Transaction) -> None:
        """Its commit is in the log, from where the stream takes it, and nobody sees it yet."""
        if transaction.xid not in self.logged:
            self.log_length += 10
            self.logged.add(transaction.xid)
            self.commits.append((self.log_length, transaction))

    def show(self, transaction: Transaction) -> None:
        """Snapshots from now on show it."""
        self.log_commit(transaction)
        self.logged.discard(transaction.xid)
        del self.open[transaction.xid]
        self.ended = max(self.ended, transaction.xid)
        for key, value, _ in transaction.wrote:
            self.locked.pop(key, None)
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def log_end(self) -> int:
        """As settling.Server."""
        return self.log_length

    def next_number(self) -> int:
        """As settling.Server."""
        self.next_xid += 1
        self.ended = max(self.ended, self.next_xid - 1)
        return self.next_xid - 1

    def oldest(self) -> int:
        """As settling.Server: a snapshot's xmin. As PostgreSQL's it knows nothing of what is above all that ended."""
        return min((xid for xid in self.open if xid <= self.ended), default=self.ended + 1)


def streamed(database: Database, commits: int) -> list[RowChange]:
    """The changes of the first so many commits, with the positions that Debezium gives them."""
    changes, before = [], "null"
    for end, transaction in database.commits[:commits]:
        for key, value, lsn in transaction.wrote:
            changes.append(change("d" if value is None else "u", key, value, f"[{before},{lsn}]"))
        if transaction.wrote:  # a commit of nothing is not told
            before = str(end)
    return changes


def change(op: str, key: int, value: int | None, order: str) -> RowChange:
    """A change of the one table, by its order text."""
    where = position("postgresql", op, order, 0)
    values = None if value is None else {"id": key, "v": value}
    return RowChange(op, (key,), where, b"\1" + order_key(where, op, f"{key} {value}".encode()), values)


def rows_of(state: State) -> dict[int, int]:
    """key -> value."""
    return {key[0]: row.values["v"] for key, row in state.rows.items()}


def table(changes: list[RowChange]) -> dict[int, int]:
    """What the table holds of these changes, however they came."""
    return rows_of(fold({}, changes))
