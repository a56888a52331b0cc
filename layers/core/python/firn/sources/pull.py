"""A round of a pull: plan, stage, say that it is staged, let the slot go. Each step may be done twice or die anywhere.

1. A **plan** fixes which transactions are read, by their commits' LSNs: [from, upto). It is created if absent, before
   anything is staged; who comes after reads the same ones.
2. Their changes are **staged** in parts. Where a part ends follows from the messages alone, and its batch's id from the
   plan: who stages it again finds it there.
3. The plan is **done**: dispatch may seal its batches, all of them in one epoch. If that is long after it was made, the
   pull seals them itself (late_plan.py).
4. The slot is **advanced** to `upto`. A database that crashes may have it further back afterwards; what plans hold is
   skipped then.

A slot that is ahead of the last plan, or one of another database, has lost changes that nobody has read: the source
stops, until somebody raises the stream's generation and so says that its tables were filled again.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Final

from firn.config.model import Config, StreamConfig
from firn.config.pull_source import PullSource
from firn.errors import EventError
from firn.ingest.accept import accept_part, stream_config
from firn.log import layout, published_configs, pulls
from firn.log.batches import FORMAT
from firn.log.pulls import Done, Newest, Plan
from firn.log.store import Store
from firn.sources import late_plan
from firn.sources.column_watch import ColumnWatch
from firn.sources.database_port import SlotState, SourceDatabase, SourceStopped
from firn.sources.log_identity import CHANGES, CommitWatch, was_set_back
from firn.sources.postgres import pgoutput
from firn.sources.postgres.pgoutput import Message, Relation
from firn.sources.postgres.transaction_changes import ChangeReader
from firn.sources.postgres.wal2json_lines import LineReader
from firn.sources.table_lookup import look_up

_log: Final = logging.getLogger(__name__)

WINDOW: Final = 64 << 20  # bytes of WAL that a plan covers at most, while it waits no longer for an open transaction
PART_BYTES: Final = 8 << 20  # of pgoutput's messages in a batch; a single change may be larger
PART_CHANGES: Final = 50_000
HELD: Final = 100  # messages of a transaction that are kept while none of them is a change that the stream takes
IDLE_BYTES: Final = 16 << 20  # of WAL without a change for the stream, after which the slot is let go all the same
IDLE_SECONDS: Final = 60.0
Row = tuple[int, bytes, Message]


@dataclass(frozen=True)
class Round:
    """What a round did. `decoding`: seconds until the database gave the first row of its log; `behind`: whether there
    was more than the plan took."""

    state: SlotState
    plan: int = 0  # number of the plan that was staged, or 0
    changes: int = 0
    batches: int = 0
    decoding: float = 0.0
    behind: bool = False


@dataclass(frozen=True)
class PullTask:
    """What all rounds of a source share. `largest`: bytes of a row; `now` gives aware times."""

    store: Store
    source: PullSource
    now: Callable[[], datetime]
    largest: int
    clock: Callable[[], float] = time.monotonic
    window: int = WINDOW
    part_bytes: int = PART_BYTES


def pull(task: PullTask, config: Config, database: SourceDatabase, known: int = 0, idle: bool = False) -> Round:
    """One round. `known`: the number of the newest plan, where it is known; `idle`: let the slot go even over little.

    Raises SourceStopped (with what to do), TransientError, StorageUnavailable, UnknownOutcome: the next round goes on.
    """
    source, store = task.source, task.store
    stream = stream_config(config, source.stream)
    state = database.look()
    newest = pulls.newest(store, source.stream, source.name, known)
    newest = newest or pulls.newest_of_others(store, source.stream, source.name)
    if not published_configs.is_current(store, config.sha):
        return Round(state, behind=True)  # what was committed since may be the newer one's to route
    last = _continued(newest, state, stream)
    if last is not None and last.done is None:
        _log.warning("plan %d of %s was not finished: it is staged now", last.plan.n, source.name)
        return _finished(task, config, database, last.plan, state, again=True)
    begin = state.confirmed
    if last is not None:
        begin = last.plan.upto_lsn
        if state.confirmed < begin <= state.flushed:  # it died before it could, or the database has forgotten
            _expect_same_log(task, config, database, last, state)
            if last.done and last.done.late:
                late_plan.seal(store, config, last.plan, task.now())
            database.advance(begin)
    # No smaller than what is decoded again each time: a long transaction costs twice its WAL, and not its square.
    window = max(task.window, begin - state.restart)
    upto = min(state.flushed, begin + window)
    if upto <= begin:
        return Round(state)
    if source.plugin == "wal2json":
        _expect_identities(database, stream)
    n = 1 if newest is None else newest.plan.n + 1
    with closing(database.peek(upto, source.publication)) as rows:
        return _read_on(task, config, database, state, (n, begin, upto), rows, idle)


def _read_on(
    task: PullTask,
    config: Config,
    database: SourceDatabase,
    state: SlotState,
    span: tuple[int, int, int],
    raw: Iterator[tuple[int, bytes]],
    idle: bool,
) -> Round:
    """Stage what `raw` brings under a new plan, if there is something. `span`: the plan's number, its begin and end."""
    source, (n, begin, upto) = task.source, span
    started = task.clock()
    rows = _decoded(task, config, database, raw)
    held: list[Row] = []
    decoding = 0.0
    inside = found = False
    for row in rows:
        decoding = decoding or task.clock() - started
        held.append(row)
        inside = _inside(row[2], begin, upto, inside)
        if inside and (isinstance(row[2], _CHANGES) or len(held) > HELD):
            found = True
            break
        if not inside:
            held = [one for one in held if isinstance(one[2], Relation)]
    decoding = decoding or task.clock() - started
    done = Round(state, decoding=decoding, behind=upto < state.flushed)
    if not found and not (idle or upto - begin >= IDLE_BYTES or done.behind):
        return done
    stream = stream_config(config, source.stream)
    at = layout.instant(task.now())
    plan = Plan(
        FORMAT, source.stream, source.name, n, begin, upto, at, stream.generation, state.database, source.publication
    )
    if not pulls.create(task.store, plan):
        return done  # somebody else was first: the next round sees what to do
    staged = _finished(task, config, database, plan, state, chain(held, rows))
    return replace(staged, decoding=decoding, behind=done.behind)


_CHANGES: Final = (pgoutput.Insert, pgoutput.Update, pgoutput.Delete, pgoutput.Truncate)


def _inside(message: Message, begin: int, upto: int, before: bool) -> bool:
    """Whether what follows `message` is of a transaction that was committed in [begin, upto)."""
    if isinstance(message, pgoutput.Begin):
        return begin <= message.commit_lsn < upto
    return before and not isinstance(message, pgoutput.Commit)


def _decoded(
    task: PullTask, config: Config, database: SourceDatabase, rows: Iterator[tuple[int, bytes]]
) -> Iterator[Row]:
    if task.source.plugin == "wal2json":
        yield from LineReader(database.table, _wants(stream_config(config, task.source.stream))).messages(rows)
        return
    for lsn, data in rows:
        yield lsn, data, pgoutput.decode(data)


def _expect_same_log(task: PullTask, config: Config, database: SourceDatabase, last: Newest, state: SlotState) -> None:
    """Raises SourceStopped if the log up to the last plan's end is not the one that was read."""
    plan, staged = last.plan, last.done.last if last.done else None
    if staged is None:
        return
    with closing(database.peek(plan.upto_lsn, plan.publication or task.source.publication)) as raw:
        messages = (message for _, _, message in _decoded(task, config, database, raw))
        if was_set_back(staged, state.confirmed, plan.upto_lsn, messages):
            raise SourceStopped(
                f"the log up to {lsn_text(plan.upto_lsn)} is not the one that was read: transaction {staged.xid} at "
                f"{lsn_text(staged.lsn)} was the last, and is not there, or others follow it. The database was set "
                f"back to an earlier state: {_anew(stream_config(config, task.source.stream), last)}"
            )


def _expect_identities(database: SourceDatabase, stream: StreamConfig) -> None:
    """Raises SourceStopped for a table whose updates wal2json would leave out: no publication makes PostgreSQL refuse
    them."""
    wants = _wants(stream)
    if lacking := [name for name in database.without_identity() if wants(name)]:
        raise SourceStopped(
            f"{', '.join(lacking[:5])[:300]}: no primary key and no other replica identity, so that wal2json leaves "
            "updates and deletes out. Run ALTER TABLE … REPLICA IDENTITY FULL and read the table again with `firn "
            "backfill`, or write ignore: true into its rule in firn.yaml"
        )


def _wants(stream: StreamConfig) -> Callable[[str], bool]:
    def wants(table: str) -> bool:
        try:
            return stream.wants(table)
        except EventError:
            return True  # each of its changes says why not

    return wants


def _continued(last: Newest | None, state: SlotState, stream: StreamConfig) -> Newest | None:
    """The newest plan, if the slot goes on where it ends; None if a raised generation says to begin anew. Raises
    SourceStopped."""
    if state.wal_status == "lost":
        raise SourceStopped(f"the slot {state.database.slot} is lost: {_LOST}; {_anew(stream, last)}")
    if last is None or stream.generation > last.plan.generation:
        return None
    before, now = last.plan.database, state.database
    if before.system != now.system or before.slot != now.slot:
        what = "another database (system identifier)" if before.system != now.system else f"another slot, {now.slot}"
        raise SourceStopped(f"the address leads to {what} than the plans before: {_anew(stream, last)}")
    if before.timeline != now.timeline:
        raise SourceStopped(
            f"the database is on timeline {now.timeline}, and was on {before.timeline}: it was restored, or a replica "
            f"was promoted, and may lack what was read before: {_anew(stream, last)}"
        )
    if state.flushed < last.plan.upto_lsn:
        raise SourceStopped(
            f"the database's log ends at {lsn_text(state.flushed)}, and was read up to {lsn_text(last.plan.upto_lsn)}: "
            f"it was set back to an earlier state: {_anew(stream, last)}"
        )
    if state.confirmed > last.plan.upto_lsn:
        raise SourceStopped(
            f"the slot {now.slot} begins at {lsn_text(state.confirmed)}, and the last plan ended at "
            f"{lsn_text(last.plan.upto_lsn)}: it was created again, or somebody else reads it, and what lies between "
            f"was never read: {_anew(stream, last)}"
        )
    return last


_LOST: Final = "the database needed its disk, and max_slot_wal_keep_size let it drop the WAL that nobody had read"


def _anew(stream: StreamConfig, last: Newest | None) -> str:
    generation = max(stream.generation, 0 if last is None else last.plan.generation) + 1
    return (
        f"drop and create the slot (firn sources add says how), write generation: {generation} under "
        f"streams.{stream.name} in firn.yaml, then fill the tables again with `firn backfill {stream.name} --replace` "
        "(docs/sources/postgres.md, Failover)"
    )


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it: 16/B374D848."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFF_FFFF:X}"


def _finished(
    task: PullTask,
    config: Config,
    database: SourceDatabase,
    plan: Plan,
    state: SlotState,
    rows: Iterable[Row] | None = None,
    *,
    again: bool = False,
) -> Round:
    """Stage all of the plan, say so, let the slot go. `rows`: what is read already and what follows."""
    begin, upto = plan.from_lsn, plan.upto_lsn
    if rows is None:
        if state.confirmed > begin:
            raise SourceStopped(
                f"plan {plan.n} reads from {lsn_text(begin)}, and the slot {state.database.slot} begins at "
                f"{lsn_text(state.confirmed)}: somebody else advanced it, and what lies between is lost; "
                f"{_anew(stream_config(config, task.source.stream), Newest(plan, None))}"
            )
        # By its own publication: parts are cut by the messages, and those of another would be others.
        with closing(database.peek(upto, plan.publication or task.source.publication)) as raw:
            return _finished(task, config, database, plan, state, _decoded(task, config, database, raw), again=again)
    there = pulls.staged_parts(task.store, plan) if again else set()
    parts = _Parts(task, config, database, plan, there)
    inside = False
    watch = CommitWatch(begin, upto)
    for lsn, data, message in rows:
        inside = _inside(message, begin, upto, inside)
        watch.see(message)
        parts.read(lsn, data, message, inside)
    parts.end()
    late = parts.count > 0 and late_plan.is_late(plan, task.now())
    staged = watch.last or pulls.last_before(task.store, plan)
    pulls.finish(task.store, plan, Done(FORMAT, parts.count, parts.changes, late, staged))
    if late:
        late_plan.seal(task.store, config, plan, task.now())
    database.advance(upto)
    return Round(state, plan.n, parts.changes, parts.count)


class _Parts:
    """Cuts the changes of a plan into batches and stages them. `there`: batches that an earlier try has staged."""

    def __init__(self, task: PullTask, config: Config, database: SourceDatabase, plan: Plan, there: set[str]) -> None:
        stream = stream_config(config, plan.stream)
        self._task, self._config, self._plan, self._there = task, config, plan, there
        publication = plan.publication or task.source.publication
        self._watch = ColumnWatch(task.store, plan.stream, plan.source, plan.at)
        known = look_up(database, stream, publication, self._watch)
        if task.source.plugin == "wal2json":
            # Lines of before an ALTER TABLE look now like one table and now like another, by what each leaves out.
            known = cache(known)
        self._reader = ChangeReader(stream.settings, known, task.largest)
        self.count = self.changes = 0
        self._bytes = self._messages = 0
        self._batch = pulls.batch_of(plan, 0)

    def read(self, lsn: int, data: bytes, message: Message, inside: bool) -> None:
        """The next message. `inside`: whether it is the plan's."""
        is_change = isinstance(message, CHANGES)  # those that are not taken, too
        wanted = inside and self._batch not in self._there
        if is_change and not inside:
            return  # of a plan before: only what tables look like matters of it
        self._reader.read(lsn, data, message, wanted=wanted)
        if not is_change:
            return
        self.changes += isinstance(message, _CHANGES)
        self._messages += 1
        self._bytes += len(data)
        if self._bytes >= self._task.part_bytes or self._messages >= PART_CHANGES:
            self.end()

    def end(self) -> None:
        """The part ends here."""
        self._watch.save()
        if not self._messages:
            return
        if self._batch not in self._there:
            parsed = self._reader.take()
            accept_part(self._task.store, self._config, self._plan.stream, parsed, self._batch, self._plan.path)
        self.count += 1
        self._bytes = self._messages = 0
        self._batch = pulls.batch_of(self._plan, self.count)
