"""A job's turn at the file sinks of a stream: what is planned and not written, then what is due.

Whatever fails here stops no table and no other sink: the sink is left alone for a while, and what it lacks stays in
the log. A job that dies of a sink has noted before that it was at it, so that the next one waits too.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

import msgspec

from firn.config.model import StreamConfig
from firn.errors import TerminalError
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, open_store, put_if_absent
from firn.sinks import plans, rolling, state
from firn.sinks.file_rows import FileRows, OpenRows, SinkRange
from firn.sinks.plans import Plan, PlannedFile, WrittenFile
from firn.sinks.rolling import WaitingEpoch
from firn.sinks.standing import SinkLog, SinkStanding
from firn.sinks.state import SinkState, SinkStates

Tell = Callable[[dict[str, Any]], None]
_FILES_AT_ONCE: Final = 4
_UPLOAD_SECONDS: Final = 300  # a file goes in one request
_LONGEST_ERROR: Final = 500


def open_files(to: str) -> Store:
    """The store that a sink's files lie in. Raises StorageUnavailable, ConfigError."""
    return open_store(to, seconds=_UPLOAD_SECONDS)


@dataclass(frozen=True)
class Turn:
    """What a turn needs. `commits`: whether positions of the stream so configured tell commits; `why`: an error in a
    line; `tell`: takes log lines; `count_dead`: new dead letters, by source table and reason;
    `store`: opens a sink's address."""

    log: SinkLog
    rows: OpenRows
    commits: Callable[[StreamConfig], bool]
    why: Callable[[Exception], str]
    now: Callable[[], datetime]
    tell: Tell
    count_dead: Callable[[Mapping[str, Mapping[str, int]]], None]
    store: Callable[[str], Store]
    random: Callable[[int], bytes] = os.urandom

    def take(self, standings: Sequence[SinkStanding], known: SinkStates, seen: int) -> None:
        """Writes what is due, and notes how the sinks are. `known`: as noted last; `seen`: the epoch up to which this
        job has looked. Raises StorageUnavailable, UnknownOutcome if that can't be noted."""
        now = self.now()
        found = {one.name: self._waiting(one, known.sinks.get(one.name, SinkState()), now) for one in standings}
        busy = [one for one in standings if self._has_work(one, now) and not _rests(known.sinks.get(one.name), now)]
        if busy:
            tried = {one.name: _tried(found[one.name], now, found[one.name].error) for one in busy}
            state.write(self.log.store, self.log.stream, SinkStates(FORMAT, seen, found | tried))
        for one in busy:
            found[one.name] = self._tend(one, found[one.name])
        noted = SinkStates(FORMAT, seen, found)
        if busy or noted != known:
            state.write(self.log.store, self.log.stream, noted)

    def _has_work(self, one: SinkStanding, now: datetime) -> bool:
        return bool(one.progress.open or rolling.next_plan(one.waiting, now, ended=one.ended))

    def _waiting(self, one: SinkStanding, before: SinkState, now: datetime) -> SinkState:
        """The sink's state as it stands, with what is known of its failures."""
        told = SinkState(done=one.progress.done, upto=one.upto)
        if one.waiting:
            due = now if one.ended else rolling.due(one.waiting)
            told = msgspec.structs.replace(
                told,
                events=sum(epoch.events for epoch in one.waiting),
                bytes=sum(epoch.bytes for epoch in one.waiting),
                since=layout.instant(min(epoch.since for epoch in one.waiting)),
                due=layout.instant(due),
            )
        if before.tries:
            told = msgspec.structs.replace(told, due=before.due, tries=before.tries, error=before.error)
        return told

    def _tend(self, one: SinkStanding, noted: SinkState) -> SinkState:
        """Writes until nothing is due -> its state then. Never raises an Exception."""
        try:
            while self._has_work(one, self.now()):
                for n in one.progress.open:
                    plan = plans.read_plan(self.log.store, self.log.stream, one.name, n)
                    if plan is not None:
                        self._write(plan)
                if not one.progress.open:
                    self._plan(one, rolling.next_plan(one.waiting, self.now(), ended=one.ended))
                one = self.log.standing(one.name, one.begin, one.last, ended=one.ended, done=one.progress.done)
            return self._waiting(one, SinkState(), self.now())
        except Exception as error:  # noqa: BLE001 (one sink stops nothing else)
            why = self.why(error)[:_LONGEST_ERROR]
            failed = _tried(noted, self.now(), why)
            self.tell(
                self._head(one.name) | {"status": "failed", "error": why, "tries": failed.tries, "next": failed.due}
            )
            return failed

    def _plan(self, one: SinkStanding, taken: Sequence[WaitingEpoch]) -> None:
        """Makes the next plan and writes it; a twin's plan of that number is found by the next look."""
        before = one.progress.plan
        numbers = [epoch.n for epoch in taken]
        n, config = (before.n if before is not None else 0) + 1, taken[0].config
        settings, _ = self.log.configs.sinks(config)[one.name]
        plan = Plan(
            FORMAT, self.log.stream, one.name, n, self.random(8).hex(), layout.instant(self.now()), config,
            one.planned + 1, numbers[-1], numbers, taken[0].sink.to, before.columns if before is not None else "", [],
            0, 0, 0, self.log.left_out(one.name, numbers, one.progress), self.commits(settings),
        )  # fmt: skip
        with closing(self._open(plan)) as rows:
            files = rolling.cut(
                rows.folders, events=rows.events, size=sum(epoch.bytes for epoch in taken),
                roll=taken[0].sink.roll.bytes, ending=taken[0].sink.ending,
                name=f"{self.log.stream}.{one.name}.{n:08d}-{plan.nonce}",
            )  # fmt: skip
            plan = msgspec.structs.replace(
                plan, columns=rows.columns, files=files, events=rows.events, dead=rows.dead,
                rows=sum(rows.folders.values()),
            )  # fmt: skip
            if plans.propose(self.log.store, plan):
                self._fill(plan, rows)

    def _open(self, plan: Plan) -> FileRows:
        found = self.log.configs.sinks(plan.config).get(plan.pipeline)
        if found is None:
            raise TerminalError(f"the configuration {plan.config[:12]} has no files of a pipeline {plan.pipeline}")
        settings = replace(found[0], commits=plan.commits)
        sealed = self.log.epochs_of(plan)
        missing = [n for n in plan.epochs if n not in sealed]
        if missing:
            raise TerminalError(f"epoch {missing[0]} of plan {plan.n} of {plan.pipeline} is no longer in the log")
        before = plans.read_plan(self.log.store, plan.stream, plan.pipeline, plan.n - 1) if plan.n > 1 else None
        return self.rows(SinkRange(settings, found[1], sealed, before.columns if before is not None else ""))

    def _write(self, plan: Plan) -> None:
        """Writes a plan that is there, unless its manifest is: whoever has written it may have taken its files away."""
        if plans.is_written(self.log.store, plan):
            return
        with closing(self._open(plan)) as rows:
            _check(plan, rows)
            self._fill(plan, rows)

    def _fill(self, plan: Plan, rows: FileRows) -> None:
        """Writes the files and then the manifest."""
        self.count_dead(rows.bury())
        store = self.store(plan.to)
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            files = list(pool.map(lambda one: _put(store, rows, one), plan.files))
        plans.finish(self.log.store, plan, files, layout.instant(self.now()))
        self.tell(
            self._head(plan.pipeline)
            | {"status": "written", "plan": plan.n, "first": plan.first, "last": plan.last, "files": len(files)}
            | ({"unseen": list(rows.unseen)} if rows.unseen else {})
            | {"events": plan.events, "rows": plan.rows, "dead": plan.dead, "bytes": sum(one.bytes for one in files)}
        )

    def _head(self, name: str) -> dict[str, Any]:
        return {"stream": self.log.stream, "sink": name}


def _rests(known: SinkState | None, now: datetime) -> bool:
    """Whether it failed a short while ago."""
    return known is not None and bool(known.tries) and known.due is not None and now < datetime.fromisoformat(known.due)


def _tried(known: SinkState, now: datetime, error: str | None) -> SinkState:
    """The state of a sink whose try failed, or has only begun."""
    due = now + rolling.pause_after(known.tries + 1)
    return msgspec.structs.replace(known, tries=known.tries + 1, error=error, due=layout.instant(due))


def _check(plan: Plan, rows: FileRows) -> None:
    """Raises TerminalError if the plan was made of other rows: by a version of Firn that decodes otherwise."""
    planned: dict[str, int] = {}
    for one in plan.files:
        planned[one.folder] = planned.get(one.folder, 0) + one.rows
    if planned != dict(rows.folders):
        raise TerminalError(
            f"plan {plan.n} of {plan.pipeline} has {plan.rows} rows in {len(planned)} folders, and its epochs now make "
            f"{sum(rows.folders.values())} in {len(rows.folders)}: finish it with the version of Firn that made it"
        )


def _put(store: Store, rows: FileRows, one: PlannedFile) -> WrittenFile:
    """Writes a file, unless it is there. What a twin has written holds the same rows, if perhaps in other bytes: that
    is what the manifest tells of then."""
    body = rows.body(one.folder, one.first, one.rows)
    if not put_if_absent(store, one.path, body):
        body = get(store, one.path) or b""
        try:
            there = rows.rows_in(body)
        except ValueError as error:
            raise TerminalError(f"{one.path} is there and is not a file of this sink: {error}; move it away") from error
        if there != one.rows:
            raise TerminalError(f"{one.path} is there with {there} rows, and {one.rows} are planned; move it away")
    return WrittenFile(one.path, one.rows, len(body), sha256(body).hexdigest())
