"""One table of a range of epochs, from its changes to its snapshot, whichever engine makes the one of the other."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from firn.changes.decode.row_decoder import ChangeId, Why
from firn.commit.rejects import together
from firn.config.names import TableName
from firn.errors import TransientError
from firn.tables import map_in_log, shard_cut
from firn.tables.batch_facts import TableFacts
from firn.tables.failures import Failure
from firn.tables.outcome import Outcome, joined
from firn.tables.planning import changed
from firn.tables.routing import Target
from firn.tables.settled_plan import settled
from firn.tables.table_plan import Planned
from firn_spark import vended_keys
from firn_spark.failures import failure_of, was_overtaken
from firn_spark.files.retyped_files import finish_retype, retype_columns
from firn_spark.merge.facts_table import facts_beside
from firn_spark.not_eligible import ForeignFiles, InParts, Unfit
from firn_spark.pipelines.joined_table import joined_tables
from firn_spark.table_commit import Engine, RangeContext, TableCommit
from firn_spark.tables import foreign_files
from firn_spark.tables.alterations import rename, upgrade
from firn_spark.tables.evolve import Table
from firn_spark.tables.fence import CommitUnknown, LostRace
from firn_sql.feed_plan import plan_feeds

_TRIES = 5
_REWRITES = 5  # of files that others wrote: what the look-up meets, then what is rewritten, and what comes meanwhile
_MOST_NAMED = 500  # characters of columns' names in a log line


class _Reader:
    """A settled_plan.Judge: the engine, for one table. `one`: as it was read last, None if it was not."""

    def __init__(
        self, engine: Engine, target: Target, above: int, upto: int | None, begun: Callable[[Planned], TableCommit]
    ) -> None:
        self._engine = engine
        self._target = target
        self._above = above
        self._upto = upto
        self._begun = begun
        self.one: TableCommit | None = None

    def rejected(self, plan: Planned) -> Mapping[ChangeId, Why]:
        self.close()
        self.one = self._begun(plan)
        return self._engine.rejected(self.one)

    def told(self, without: Collection[ChangeId]) -> Mapping[str, TableFacts]:
        return self._engine.told(self._target, self._above, frozenset(without), self._upto)

    def close(self) -> None:
        """Lets go of what was read."""
        if self.one is not None:
            self.one.held.close()


class Committer:
    """Commits the tables of a range, each behind its fence. A dead letter that a try wrote is no news to the next one:
    what is new is counted over all tries."""

    def __init__(
        self, context: RangeContext, engine: Engine, otherwise: Callable[[Target, int], Outcome] | None = None
    ) -> None:
        """`otherwise`: one try at a table that the engine is not made for."""
        self._context = context
        self._engine = engine
        self._otherwise = otherwise
        self._seen = dict(context.seen)  # the progress that a table had when this job looked first
        self._buried: dict[TableName, dict[str, dict[str, int]]] = {}  # new dead letters of a try that failed
        self._parts: dict[TableName, list[Outcome]] = {}  # what was committed first (InParts), over all tries

    def commit(self, target: Target, above: int = 0) -> Outcome:
        """Brings the table up to the range's last epoch, with the epochs above `above` that it lacks. Never raises: a
        failure is in the outcome."""
        started = time.monotonic()
        outcome = tried(Outcome(str(target.name), target.sources), lambda: self.once(target, above))
        outcome.seconds = round(time.monotonic() - started, 3)
        self._context.progress.done(str(target.name))
        return outcome

    def once(self, target: Target, above: int = 0) -> Outcome:
        """The same in one try, which raises; in parts, if the engine says so."""
        while True:
            try:
                last = self._rewriting(target, above)
                return joined([*self._parts.pop(target.name, ()), last])
            except InParts as why:
                self._parts.setdefault(target.name, []).append(self._part(target, above, why.upto))
                above = why.upto

    def _part(self, target: Target, above: int, upto: int) -> Outcome:
        """The changes up to an epoch."""
        other = self._otherwise
        otherwise = None if other is None else lambda _, above: other(target, above)
        return Committer(self._context.up_to(upto), self._engine, otherwise).once(target.up_to(upto), above)

    def _rewriting(self, target: Target, above: int) -> Outcome:
        """All of them. Files that are not read here are rewritten first."""
        count = 0
        for left in reversed(range(_REWRITES + 1)):
            try:
                outcome = self._fitting(target, above)
                break
            except ForeignFiles as why:
                if not left:
                    raise foreign_files.unreadable(target.name, why, _REWRITES) from why
                count += self._rewritten(target, why)
        if count:
            outcome.way["foreign_files"] = count
        return outcome

    def _rewritten(self, target: Target, why: ForeignFiles) -> int:
        spark, tables = self._context.spark, self._context.tables
        table = tables.load(target.name)
        if table is None:
            raise LostRace(f"{target.name} was dropped while its rows were looked up") from why
        places = map_in_log.tables_of(self._context.store, self._context.stream, target.name, table.state)
        some = [one for one in (facts_beside(tables, table), *map(tables.load, places)) if one is not None]
        return foreign_files.rewrite(spark, tables, some, self._context.stream, why.paths)

    def _fitting(self, target: Target, above: int) -> Outcome:
        try:
            return self._once(target.above(above), above)
        except ForeignFiles:
            raise
        except Unfit as why:
            if self._otherwise is None:
                raise
            outcome = self._otherwise(target, above)
            outcome.way[self._engine.name] = str(why)
            outcome.dead_new = together(self._buried.pop(target.name, {}), outcome.dead_new)
            return outcome

    def _once(self, target: Target, above: int) -> Outcome:
        spark, tables, stream = self._context.spark, self._context.tables, self._context.stream
        table = tables.load(target.name)
        shard_cut.check(target.name, target.rule, table.state if table else None)
        if table is not None:
            table = finish_retype(spark, tables, table)
        progress = table.state.progress(stream) if table else 0
        if progress < self._seen.setdefault(target.name, progress):
            # What it lacks is not all in this range: the next job looks at that first.
            raise TransientError(f"{target.name} was set back or made again while a job was at it")
        outcome = Outcome(str(target.name), target.sources, progress=progress)
        outcome.events = target.events(progress)
        if outcome.events == 0:
            outcome.status = "skipped"
            outcome.snapshot_id = table.state.snapshot_id if table else None
            return outcome
        if table is not None and table.state.rows_by_others:
            outcome.way["rows_by_others"] = table.state.rows_by_others
        outcome.dead_new = self._buried.get(target.name, {})
        above = max(above, progress)

        def begun(plan: Planned) -> TableCommit:
            return TableCommit(self._context, target, table, plan, above, outcome)

        reader = _Reader(self._engine, target, above, self._context.upto, begun)
        try:
            self._committed(target.above(progress), table, reader, above, outcome)
        except Exception:
            self._buried[target.name] = outcome.dead_new
            raise
        finally:
            reader.close()
        return outcome

    def _committed(self, target: Target, table: Table | None, reader: _Reader, above: int, outcome: Outcome) -> None:
        spark, tables, state = self._context.spark, self._context.tables, table.state if table else None
        exact = self._context.upto is None and all(n > above for n in self._context.epochs)
        joined = partial(joined_tables, spark, tables, self._context.joined)
        feeds = plan_feeds(target, self._context.config, state, joined) if target.feeds else None
        plan = feeds.planned if feeds else settled(target, self._context.config, state, reader, exact=exact)
        if feeds and feeds.unseen:
            outcome.way["unseen"] = ", ".join(feeds.unseen)[:_MOST_NAMED]
        if table is not None and plan.renames:
            # Before its facts: the table remembers the names, so that whoever comes after a crash goes on with them.
            table = rename(spark, tables, table, plan.due, plan.renames.properties())
        if table is not None:
            # Before its rows are looked up: they have the new types then.
            columns, _ = table.columns()
            outcome.retyped = changed(columns, plan.columns.retyped)
            outcome.widened = changed(columns, plan.columns.widened)
            table = retype_columns(spark, tables, table, plan.columns.retyped)
            table = upgrade(spark, tables, table, target.rule.writing.format)
        target = replace(target, rule=plan.renames.rule(target.rule))
        outcome.mode = plan.mode.name
        one = TableCommit(self._context, target, table, plan, above, outcome, feeds)
        if reader.one is not None and reader.one.planned is plan:
            one.read, one.held = reader.one.read, reader.one.held
        with one.held:
            self._engine.commit(one)


def tried(outcome: Outcome, once: Callable[[], Outcome], reads: Sequence[TableName] = ()) -> Outcome:
    """What `once` gives, tried again where another writer was quicker; else `outcome`, with the failure in it. `reads`:
    other tables that it reads."""
    try:
        for left in reversed(range(_TRIES)):
            try:
                return once()
            except Exception as error:
                # Another writer won: nothing was applied, and a fresh look decides what is left to do.
                if not left or not (isinstance(error, LostRace | CommitUnknown) or was_overtaken(error)):
                    raise
    except Exception as error:  # noqa: BLE001 (one bad table must not stop the others)
        found = failure_of(error)
        why = vended_keys.ended([outcome.table, *map(str, reads)], str(error), time.time())
        if why is not None:  # the next job's keys end as these did
            found = Failure("terminal", f"{why}. {found.text}")
        outcome.status, outcome.error, outcome.failure = "failed", found.text, found.kind
    return outcome
