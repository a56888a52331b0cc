"""The commit job: a range of sealed epochs into the tables of one stream, one snapshot a table, then the cut.

Where the tables are is behind a port (commit/lake.py): Spark and Iceberg in production, tables in memory in the model
tests. What is written here is the same in both. A table that is behind the cut is brought up to it first; one that
can't be committed to is quarantined, and no other table waits for it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal

from firn.commit import care_turn, job_metrics, table_limit
from firn.commit.bisection import unreadable
from firn.commit.cut_writer import write_cut
from firn.commit.job_context import Work
from firn.commit.lake import Lake, Range
from firn.commit.range_parts import Part
from firn.commit.reach_back import Reach, reaches
from firn.commit.released_tables import brought
from firn.commit.renumbering import renumber
from firn.commit.shards_ahead import look
from firn.commit.sink_turn import SinkTurn
from firn.commit.view_turn import ViewTurn
from firn.config.names import TableName, slug
from firn.errors import StorageUnavailable, UnknownOutcome
from firn.log import attempts, backlog, holds, layout
from firn.log.epochs import Epoch
from firn.log.holds import Quarantine
from firn.log.store import Store
from firn.metrics import dead_lines
from firn.quarantine import rules as rules
from firn.quarantine.rules import Standing
from firn.tables.failures import Failure
from firn.tables.outcome import Outcome
from firn.tables.routing import Target, route

Log = Callable[[dict[str, Any]], None]
Now = Callable[[], datetime]
_LETTERS: Final = 20_000  # changes that are held as letters at once
_NAMED: Final = 10  # tables that a log line names


def run(
    store: Store, lake: Lake, stream: str, first: int, last: int, *, log: Log, now: Now, attempt: int = 1,
    views: bool = True,
) -> int:  # fmt: skip
    """Commits epochs `first` to `last` (both included) of `stream`, and what released tables lack.

    What is in a table already is not applied again, so any range may be run any number of times, by any number of jobs
    at once. A table that fails does not stop the others. `attempt`: which try of this range it is, from 1; 0: none that
    counts. `views`: whether the stream's views have their turn too.
    -> 0 if all is in, but for what is quarantined; 1 if not.
    """
    started = time.monotonic()
    head = {"stream": stream, "first": first, "last": last}
    try:
        if attempt:
            attempts.begin(store, stream, first, last, attempt)
        work = look(store, lake, stream, first, last)
        if top := renumber(work, now()):
            log(head | {"status": "renumbered", "next": 1 + top})
            return 0
        held = work.known.held_stream(work.settings.generation)
        outcomes: list[Outcome] = []
        if held is None:
            try:
                held, outcomes = _Job(work, attempt, log, now).run()
            except Exception as error:
                if not _hold_unreadable(work, attempt, error, log, now):
                    raise
                work = look(store, lake, stream, first, last)
                held, outcomes = _Job(work, attempt, log, now).run()
        failed = [outcome for outcome in outcomes if outcome.status == "failed"]
        if held is None and not failed:
            for line in job_metrics.lines(work, outcomes, first, attempt, time.monotonic() - started, now()):
                log(line)
            backlog.reopen(store, work.settings, now())
    except Exception as error:  # noqa: BLE001 (the job's edge: whatever it is, say it in one line and exit 1)
        found = lake.failure(error)
        log(head | {"status": "failed", "error": found.text})
        _tell(store, head, attempt, "transient" if found.kind == "transient" else "terminal", found.text)
        return 1
    status = "quarantined" if held else "failed" if failed else "committed"
    log(
        head | {"status": status, "error": held.message if held else None, "tables": len(outcomes)}
        | {"failed": [outcome.table for outcome in failed], "filtered": work.filtered()}
        | {"quarantined": [outcome.table for outcome in outcomes if outcome.status == "quarantined"]}
        | {name: sum(getattr(outcome, name) for outcome in outcomes) for name in ("events", "merged", "superseded")}
        | {"dead": sum(outcome.dead for outcome in outcomes), "seconds": round(time.monotonic() - started, 2)}
    )  # fmt: skip
    if failed:
        passing = any(outcome.failure == "transient" for outcome in failed)
        text = "; ".join(f"{outcome.table}: {outcome.error}" for outcome in failed)
        _tell(store, head, attempt, "transient" if passing else "terminal", text)
        return 1
    # Only now: what was committed is told of, and a table that can't be cared for is none that failed.
    if held is None:
        care_turn.take(work, log, now)
    if held is None and views:
        ViewTurn(store, lake, stream, log, now).take(work.config)
    return 0


def _hold_unreadable(work: Work, attempt: int, error: Exception, log: Log, now: Now) -> bool:
    """Holds the epochs that stop the whole range, at the attempt at which a table would be held. -> whether there are
    any: the others can go on."""
    if not rules.holds(work.lake.failure(error).kind, attempt):
        return False
    found = unreadable(work, layout.instant(now()))
    for one in found:
        holds.hold(work.store, one)
        log({"stream": work.stream, "epoch": one.n, "status": "quarantined", "error": one.message})
    return bool(found)


def _tell(
    store: Store, head: Mapping[str, Any], attempt: int, kind: Literal["transient", "terminal"], error: str
) -> None:
    """The mark of a failure. Where it can't be left the job looks killed, which only counts if it goes on so."""
    if not attempt:
        return
    try:
        attempts.fail(store, head["stream"], head["first"], head["last"], attempt, kind, error)
    except (StorageUnavailable, UnknownOutcome):
        return


class _Job:
    """One run, once it has looked around. `held`: the tables that this cut leaves behind, with the reason."""

    def __init__(self, work: Work, attempt: int, log: Log, now: Now) -> None:
        self._work = work
        self._attempt = attempt
        self._log = log
        self._now = now
        self._high = work.before.high if work.before else None
        self._held: dict[str, str] = {name: q.reason for name, q in work.known.held().items()}
        self._outcomes: list[Outcome] = []
        self._reaches: dict[TableName, Reach] = {}  # that wait for what they are joined with
        self._waiting: set[str] = set()  # tables that are joined with one that is late
        self._stands: dict[TableName, Standing] = {}  # of released tables, with what they caught up with

    def run(self) -> tuple[Quarantine | None, list[Outcome]]:
        """-> the quarantine of the whole stream, if its source went back; the outcomes of the tables."""
        work = self._work
        resting = {target for _, _, target in work.mirrors}  # which go back with their base, and come again with it
        for table, stand in work.standings.items():
            if stand.rolled_back and table not in resting:
                n = rules.number_for(str(table), work.last, work.known)
                self._hold(rules.rolled_back_table(work.stream, str(table), stand, n, work.last, self._instant()))
        needed = self._needed()
        self._reach_back()
        if needed or work.refused():
            restored = self._range(needed or work.epochs)
            if restored is not None:
                return restored, self._outcomes
        else:
            self._catch_up()
        self._follow()
        self._say_held()
        if not any(outcome.status == "failed" for outcome in self._outcomes):
            sinks = SinkTurn(work)
            write_cut(work, self._outcomes, self._high, self._held, self._now(), sinks.files)
            # Only now: what goes wrong with files holds up no table.
            sinks.take(self._log, self._now)
        return None, self._outcomes

    def _needed(self) -> dict[int, Epoch]:
        """The epochs that some table still lacks: nothing below the least progress of a touched table is read again."""
        work = self._work
        lacking = [
            work.standing(table).done
            for table, touched in work.touched.items()
            if str(table) not in self._held and work.standing(table).done < touched
        ]
        return {n: epoch for n, epoch in work.epochs.items() if lacking and n > min(lacking)}

    def _range(self, sealed: Mapping[int, Epoch]) -> Quarantine | None:
        """Commits the epochs to all their tables. -> the stream's quarantine if its source went back: then nothing of
        the part of them in which it did is committed."""
        for part in self._work.parts:
            mine = {n: sealed[n] for n in part.epochs if n in sealed}
            last = self._work.last if part is self._work.parts[-1] else part.epochs[-1]
            restored = self._one_part(mine, part, last) if mine else None
            if restored is not None:
                return restored
        return None

    def _one_part(self, sealed: Mapping[int, Epoch], part: Part, last: int) -> Quarantine | None:
        """The same of epochs of one part. `last`: how far the tables are with it."""
        work, settings, refused = self._work, replace(self._work.settings, pipelines=part.pipelines), part.refused
        opened = work.lake.open(work.stream, settings, sealed, last)
        try:
            span = opened.span(self._high)
            if span.bare and span.top is not None and not work.settings.commits:
                # The first changes that tell their commits, beside some that do not.
                opened.close()
                opened = work.lake.open(work.stream, replace(settings, commits=True), sealed, last)
            if rules.went_back(span, self._high) and self._high and not rules.accepted(work.known, self._high):
                # A table that has come further got it from a job that found the source in order up to there.
                done = max((work.progress(table) for table in work.states), default=0)
                first = min((n for n in sealed if n > done), default=min(sealed))
                found = rules.restored_source(work.stream, span, self._high, first, work.last, self._instant())
                holds.hold(work.store, found)
                if found.generation >= work.settings.generation:
                    return found
                # Its generation is raised already: what came since it went back counts under that one.
                opened.close()
                opened = work.lake.open(work.stream, settings, sealed, last)
                span = opened.span(self._high)
            self._high = rules.next_high(span, self._high)
            if not self._stands:  # else an earlier part has
                self._catch_up()
            behind = self._late
            routes = route(settings, {one: facts for one, facts in opened.facts.items() if one not in refused})
            crowded = route(settings, {one: facts for one, facts in opened.facts.items() if one in refused})
            for table, (code, message) in sorted((routes.refused | crowded.refused).items()):
                self._count_dead(opened.refuse({table: f"refused-{slug(table)}"}, code, message))
            self._refuse_crowded(opened, crowded.targets)
            free = [
                target
                for target in sorted(routes.targets, key=lambda target: target.turn)
                if str(target.name) not in self._held and str(target.name) not in behind
            ]  # fmt: skip
            standings = {
                str(target.name): (target.name, self._stands.get(target.name, work.standing(target.name)))
                for target in free
            }
            for target in free:
                if target.name in work.foreign:
                    self._settle(*standings[str(target.name)], _foreign(work, target.name))
            free = [target for target in free if target.name not in work.foreign]
            self._commit(opened, free, standings)
        finally:
            opened.close()
        return None

    def _commit(
        self, opened: Range, free: Sequence[Target], standings: Mapping[str, tuple[TableName, Standing]]
    ) -> None:
        """What is joined is committed first: rows are joined with what came beside them. Where it fails they wait."""
        for joins in (False, True):
            late = self._late
            mine = [one for one in free if bool(one.joins) == joins and late.isdisjoint(map(str, one.joins))]
            for one in mine:
                if one.name in self._reaches:
                    self._reach(self._reaches.pop(one.name))
            late |= {*self._late, *self._held}
            each = [(one, standings[str(one.name)][1].done) for one in mine if str(one.name) not in late]
            for outcome in opened.commit_all(each) if each else ():
                self._settle(*standings[outcome.table], outcome)

    def _refuse_crowded(self, opened: Range, targets: Sequence[Target]) -> None:
        """All changes of tables that are too many are dead letters; of the stream, for each name would be a metric."""
        work, message, letters = self._work, table_limit.why(self._work.settings), 0
        for some in _in_parts(targets):
            places: dict[str, TableName | str] = {source: target.name for target in some for source in target.sources}
            written = opened.refuse(places, table_limit.TOO_MANY_TABLES, message)
            letters += sum(sum(reasons.values()) for reasons in written.values())
        for target in targets:
            events = target.events(0)
            self._outcomes.append(Outcome(str(target.name), target.sources, status="empty", events=events, dead=events))
        if targets:
            named = [str(target.name) for target in targets[:_NAMED]]
            self._log(
                {"stream": work.stream, "status": table_limit.TOO_MANY_TABLES, "tables": len(targets), "dead": letters}
                | {"error": message, "first": named}
            )
            self._count_dead({"": {table_limit.TOO_MANY_TABLES: letters}} if letters else {})

    @property
    def _late(self) -> set[str]:
        """The tables of which something failed that may pass by itself, and those that wait for one of them."""
        return self._waiting | {outcome.table for outcome in self._outcomes if outcome.status == "failed"}

    def _catch_up(self) -> None:
        """Brings each released table up to the cut: what it lacks of what was in it, then what went past it. What is
        joined comes first, as in a range."""
        for table, stand in sorted(self._work.standings.items(), key=lambda one: self._work.is_fed(one[0])):
            if not stand.released or self._work.before is None:
                continue
            done = stand.done
            for last, outcome in self._brought(table, stand):
                if outcome is None:
                    self._waiting.add(str(table))
                elif self._settle(table, replace(stand, done=done), outcome):
                    done = last
                    continue
                break
            else:
                done = max(stand.expected, done, self._work.before.n)
            self._stands[table] = replace(stand, done=done)

    def _brought(self, table: TableName, stand: Standing) -> Iterator[tuple[int, Outcome | None]]:
        work, done = self._work, stand.done
        for upto in sorted({max(stand.expected, done), work.before.n if work.before else done}):
            if done < upto:
                yield from brought(work, table, done, upto, self._late)
            done = upto

    def _reach_back(self) -> None:
        """Brings into the tables of new pipelines what the log still holds of before; where they are joined, once that
        with which they are is in."""
        for one in reaches(self._work):
            if one.is_joined:
                self._reaches[one.table] = one
            else:
                self._reach(one)

    def _reach(self, one: Reach) -> None:
        work = self._work
        if work.before is None or str(one.table) in self._held:
            return
        for outcome in one.bring(work, work.before.n):
            line = {"stream": work.stream, "table": str(one.table), "status": "reached back"}
            self._log(line | {"first": min(one.epochs), "last": max(one.epochs), "events": outcome.events})
            if outcome.status == "failed":
                self._settle(one.table, work.standing(one.table), outcome)

    def _follow(self) -> None:
        """Brings the mirrors that pipelines make to where their bases are. One whose base failed waits with it."""
        work = self._work
        failed = self._late
        for pipeline, base, target in work.mirrors:
            if target in work.foreign:
                self._settle(target, work.standing(target), _foreign(work, target))
            elif str(target) not in self._held and str(base) not in failed:
                outcome = work.lake.follow(work.stream, work.settings, pipeline, base)
                if outcome is not None:
                    self._settle(target, work.standing(target), outcome)

    def _settle(self, table: TableName, stand: Standing, outcome: Outcome) -> bool:
        """Notes and logs an outcome; a failure that won't pass by itself becomes a quarantine. -> whether all is in."""
        work = self._work
        if outcome.status == "failed":
            found = Failure(outcome.failure or "terminal", outcome.error or "")
            if rules.holds(found.kind, self._attempt):
                n = rules.number_for(outcome.table, work.last, work.known)
                now = self._instant()
                self._hold(
                    rules.failed_table(work.stream, str(table), found.kind, found.text, stand, n, work.last, now)
                )
                outcome.status = "quarantined"
        self._outcomes.append(outcome)
        self._log(outcome.line())
        self._count_dead(outcome.dead_new)
        return outcome.status not in ("failed", "quarantined")

    def _count_dead(self, written: Mapping[str, Mapping[str, int]]) -> None:
        """The counter dlq_total, as lines that CloudWatch reads out of the job's log."""
        for line in dead_lines(self._work.stream, written, self._now()):
            self._log(line)

    def _hold(self, found: Quarantine) -> None:
        holds.hold(self._work.store, found)
        self._held[found.table or ""] = found.reason

    def _say_held(self) -> None:
        """A line for each table that changes go to and that is left out."""
        said = {outcome.table for outcome in self._outcomes}
        for table in (*self._work.touched, *(target for _, _, target in self._work.mirrors)):
            name = str(table)
            if name in self._held and name not in said:
                case = self._work.known.tables.get(name)
                why = case.quarantine.message if case and case.lift is None else self._held[name]
                outcome = Outcome(name, self._work.sources(table), status="quarantined", error=why)
                self._outcomes.append(outcome)
                self._log(outcome.line())

    def _instant(self) -> str:
        return layout.instant(self._now())


def _in_parts(targets: Sequence[Target]) -> Iterator[list[Target]]:
    """Targets of so few changes together that these can be held as letters; one at least."""
    some: list[Target] = []
    events = 0
    for target in targets:
        mine = target.events(0)
        if some and events + mine > _LETTERS:
            yield some
            some, events = [], 0
        some.append(target)
        events += mine
    if some:
        yield some


def _foreign(work: Work, table: TableName) -> Outcome:
    return Outcome(str(table), work.sources(table), status="failed", error=work.foreign[table], failure="terminal")
