"""When a table or a stream is held, and what a job does about a table that is behind: pure rules (docs/adr/0009)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.cuts import Cut
from firn.log.holds import Quarantine, Quarantines, Reason
from firn.tables.failures import Kind

MAX_ATTEMPTS: Final = 3
# How much newer than the highest position's a source time must be to say that the source went back. A late or a doubled
# event has an older time than that; clocks and transactions of a source are off by less.
MARGIN: Final = timedelta(minutes=5)
# Whose positions rise with the source's time. A producer's start with it, and order_by fields belong to single rows.
IN_TIME: Final = ("postgresql", "mysql", "mariadb", "sqlserver", "oracle", "mongodb", "db2", "informix")
TELLS_COMMIT: Final = "["  # how the orders of these connectors begin; not an LSN alone, which does not rise in time
COMMIT: Final = slice(4, 20)  # of a position; zero where the source tells none
_GENERATION: Final = slice(0, 4)

High = tuple[str, int]


@dataclass(frozen=True)
class Span:
    """What the streamed changes of a range say about their source's time.

    top     the highest position
    newest  the newest source time (ms) of a change above the `high` that was asked about, of the generation of `top`
    low     the lowest position, of that high's generation, among changes newer than it by more than MARGIN; its time
    bare    whether some tell no commit, but an LSN alone
    """

    top: bytes | None = None
    newest: int | None = None
    low: tuple[bytes, int] | None = None
    bare: bool = False

    def of(self, top: bytes | None) -> bool:
        """Whether its own top is of the generation of `top`."""
        return self.top is not None and top is not None and self.top[_GENERATION] == top[_GENERATION]


def span_of(changes: Iterable[tuple[bytes, int]], high: High | None) -> Span:
    """The span of (position, source time in ms) of streamed changes that have both, of connectors IN_TIME, whose orders
    begin with TELLS_COMMIT, with a commit in the position."""
    there = [(position, ts) for position, ts in changes if any(position[COMMIT])]
    top = max((position for position, _ in there), default=None)
    above = [ts for position, ts in there if position > floor(top, high)]
    late = [found for found in there if high is not None and found[1] > limit(high)]
    late = [found for found in late if high and found[0][_GENERATION] == bytes.fromhex(high[0])[_GENERATION]]
    return Span(top, max(above, default=None), min(late, default=None))


def floor(top: bytes | None, high: High | None) -> bytes:
    """Below which a position says nothing of `newest`: the high's, or that of an older generation than `top`'s."""
    return max(top[_GENERATION] if top else b"", bytes.fromhex(high[0]) if high else b"")


def tells_commits(high: High | None, generation: int) -> bool:
    """Whether changes of this generation of a stream told their commits before: only those raise its high. One that
    tells its LSN alone is then placed by that among them, and not below them all."""
    return high is not None and bytes.fromhex(high[0])[_GENERATION] == generation.to_bytes(4)


def limit(high: High) -> int:
    """The source time (ms) above which a position below `high` says that the source went back."""
    return high[1] + MARGIN // timedelta(milliseconds=1)


def went_back(span: Span, high: High | None) -> bool:
    """Whether the source goes on in time and fell in position: it was restored, or another took its place."""
    return high is not None and span.low is not None and span.low[0] < bytes.fromhex(high[0])


def next_high(span: Span, high: High | None) -> High | None:
    """The high after this range. Its time is the newest of what ever rose above the high before, so that a long
    transaction, whose changes are older than those that it is committed after, does not set it back."""
    if span.top is None or span.newest is None:
        return high
    if high is None or span.top > bytes.fromhex(high[0]):
        same = high is not None and bytes.fromhex(high[0])[_GENERATION] == span.top[_GENERATION]
        return span.top.hex(), max(span.newest, high[1]) if high and same else span.newest
    return high


@dataclass(frozen=True)
class Standing:
    """How a table stands before a job.

    done      the epoch up to which it has everything, or was told to skip
    expected  the epoch that the newest cut says is in it
    held      its quarantine, if it is held
    released  its quarantine was lifted and nothing has been done about it yet: it gets what it lacks up to the cut
    """

    done: int
    expected: int
    held: Quarantine | None = None
    released: bool = False

    @property
    def rolled_back(self) -> bool:
        """Less is in the table than the cut says, nobody has said what to do about it."""
        return self.held is None and not self.released and self.done < self.expected


def standing(table: str, progress: int, cut: Cut | None, known: Quarantines) -> Standing:
    """How `table`, with this progress in its ancestry, stands after `cut` (None: before the first)."""
    case = known.tables.get(table)
    held = case.quarantine if case is not None and case.lift is None else None
    expected = cut.progress.get(table, 0) if cut else 0
    done = max(progress, known.skipped.get(table, 0))
    left = cut is not None and (table in cut.quarantined or (case is not None and case.quarantine.last > cut.n))
    if case is not None and left and done >= expected:
        done = max(done, case.quarantine.epoch - 1)  # it had all up to there, whatever epoch its newest snapshot names
    released = case is not None and held is None and left and done < (cut.n if cut else 0)
    if cut is not None and not left and done >= expected:
        done = max(done, covered(cut))
    return Standing(done, expected, held, released)


def covered(cut: Cut | None) -> int:
    """The epoch up to which a cut says that every table has everything. Cuts with tables and without progress are of an
    older Firn: then the tables alone tell."""
    return cut.n if cut is not None and (cut.progress or not cut.tables) else 0


def holds(kind: Kind, attempt: int) -> bool:
    """Whether a table that failed like this is held. What passes by itself never is."""
    certain = ("key_changed", "column_gone", "too_many_columns", "expired")
    return kind in certain or (kind == "terminal" and attempt >= MAX_ATTEMPTS)


def number_for(table: str, last: int, known: Quarantines) -> int:
    """The number of a table's next quarantine: the job's last epoch, unless that one was used and lifted."""
    case = known.tables.get(table)
    return last if case is None else max(last, case.quarantine.n + 1)


def failed_table(
    stream: str, table: str, kind: Kind, error: str, stand: Standing, n: int, last: int, now: str
) -> Quarantine:
    """The quarantine of a table that can't be committed to."""
    reason: Reason = "failed"
    if kind == "key_changed" or kind == "expired":
        reason = kind
    cause = {
        "key_changed": "correct that in firn.yaml and `firn publish`, or rebuild the table so "
        f"(`firn rebuild {table} --in-place`)",
        "expired": "rebuild the table from its source",
        "column_gone": f"correct that, or rebuild the table (`firn rebuild {table} --in-place`)",
        "too_many_columns": "make the source send fewer columns, or declare the ones that the table needs under "
        "`columns` of its rule in firn.yaml",
    }.get(kind, "fix the cause")
    return Quarantine(
        FORMAT, stream, n, now, reason, error,
        f"{cause}, then run `firn resume {stream} {table}` (it gets what it lacks), or with --skip (it never does)",
        table=table, epoch=stand.done + 1, upto=last, last=last,
    )  # fmt: skip


def rolled_back_table(stream: str, table: str, stand: Standing, n: int, last: int, now: str) -> Quarantine:
    """The quarantine of a table that lacks epochs which a cut says are in it."""
    return Quarantine(
        FORMAT, stream, n, now, "rolled_back",
        f"{table} is at epoch {stand.done} and was at {stand.expected}: it was rolled back or dropped, or the "
        "snapshots that told how far it is were expired by another tool",
        f"run `firn resume {stream} {table} --replay` (epochs {stand.done + 1} to {stand.expected} are applied again) "
        "or --skip (they stay out on purpose)",
        table=table, epoch=stand.done + 1, upto=stand.expected, last=last,
    )  # fmt: skip


def restored_source(stream: str, span: Span, high: High, first: int, last: int, now: str) -> Quarantine:
    """The quarantine of a stream whose source went back."""
    position, time = span.low or (b"", 0)  # went_back has seen it
    generation = int.from_bytes(bytes.fromhex(high[0])[_GENERATION])
    return Quarantine(
        FORMAT, stream, last, now, "source_restored",
        f"the source went back: a change of {_time(time)} has position {position.hex()}, below {high[0]}, which it had "
        f"reached by {_time(high[1])}; it was restored from a backup, or another server took its place",
        f"write `generation: {generation + 1}` under streams.{stream} in firn.yaml and publish it: from then on "
        f"positions start over; if the source was not restored, run `firn resume {stream}`",
        epoch=first, last=last, high=high[0], generation=generation,
    )  # fmt: skip


def _time(ms: int) -> str:
    try:
        return layout.instant(datetime.fromtimestamp(ms / 1000, UTC))
    except (ValueError, OverflowError):  # batches of before ingest looked at the time
        return f"{ms} ms"


def killing_epoch(stream: str, n: int, runs: int, now: str) -> Quarantine:
    """The quarantine of an epoch whose job dies each time without a word."""
    return Quarantine(
        FORMAT, stream, n, now, "killed",
        f"{runs} jobs for epoch {n} alone began and died without an outcome",
        f"read the logs of those runs, give the job more memory or fix what kills it, then run "
        f"`firn resume {stream} --epoch {n}`: its batches are sealed into a new epoch",
        epoch=n, last=n,
    )  # fmt: skip


def unreadable_epoch(stream: str, n: int, error: str, now: str) -> Quarantine:
    """The quarantine of an epoch that can't be read, while others can."""
    return Quarantine(
        FORMAT, stream, n, now, "failed",
        f"epoch {n} can't be read, by itself either: {error}",
        f"fix the cause, then run `firn resume {stream} --epoch {n}`: its batches are sealed into a new epoch",
        epoch=n, last=n,
    )  # fmt: skip


def accepted(known: Quarantines, high: High | None) -> bool:
    """Whether somebody has said of this very high that the source did not go back."""
    return high is not None and any(case.lift is not None and case.quarantine.high == high[0] for case in known.stream)


def waiting_for_release(cut: Cut | None, known: Quarantines) -> bool:
    """Whether tables were released that the newest cut leaves behind: a job has to bring them up."""
    return cut is not None and any(table not in known.held() for table in cut.quarantined)
