"""The rebuild of one table from the staged log (docs/adr/0012-rebuild.md): into a new table, in place, or as a check.

It commits ranges of epochs with the commit job's own code, each with the progress in its snapshot. So a rebuild that
died goes on where it was, and nothing is in it twice.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.types import storable
from firn.changes.metadata_columns import OP, POSITION
from firn.changes.positions import WIDTH
from firn.config import names
from firn.config.model import Config, StreamConfig, TableRule
from firn.config.modes import KEYLESS
from firn.config.names import TableName, quoted
from firn.config.reach import databases_of
from firn.errors import TransientError
from firn.log import cuts, layout, published_configs
from firn.log.generations import Generations
from firn.log.store import Store, open_store, put
from firn.quarantine.rules import tells_commits
from firn.rebuild.plan import RANGE_BYTES, CannotRebuild, Part, Range, plan, ranges
from firn.tables import ownership
from firn.tables.batch_facts import TableFacts
from firn.tables.failures import Failure
from firn.tables.joined_snapshots import By
from firn.tables.planning import plan_key
from firn.tables.renames import RENAMES, renames_of
from firn.tables.routing import Target, route
from firn.tables.table_state import INFERRED_AS
from firn_spark import session as sessions
from firn_spark.branch import InPlace, Moved, Placed, times_rebuilt
from firn_spark.commit import print_line
from firn_spark.failures import failure_of
from firn_spark.files import row_lookup
from firn_spark.made_again import made_again
from firn_spark.pipelines.joined_before import joined_before
from firn_spark.ranges import Ranges, Sealed
from firn_spark.staged.batch_facts import facts_of
from firn_spark.staged.kept_generations import batches_of, raw_in_place
from firn_spark.staged.read import SealedBatch
from firn_spark.table_commit import RangeContext
from firn_spark.tables.columns import spark_type
from firn_spark.tables.evolve import Table

_CATCH_UPS: Final = 20
Log = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Request:
    """What to rebuild: exactly one of `into` (a new table), `in_place` and `check`.

    run      the run's id: names its result in storage
    to       an epoch's number or a time, None for all; only with `into`
    number   which rebuild in place this is, from 1: one that is published already is not done again; 0: the next
    partial  take what is left of a log that does not reach back to its beginning; only with `into`
    """

    run: str
    table: TableName
    into: TableName | None = None
    in_place: bool = False
    check: bool = False
    to: str | None = None
    number: int = 0
    partial: bool = False


@dataclass
class Result:
    """What became of it. `status`: done (also if an earlier run had done it), differs (a check), failed.

    epochs        stream -> the epoch up to which the rebuilt table has everything
    only_live, only_rebuilt   of a check: rows that the live table has and the rebuilt one has not, and the reverse
    dead          changes of these epochs that can't be taken under the present configuration; `dead_new`: those of them
                  that were no dead letters before (in place: they are now)
    """

    table: str
    status: str = "done"
    into: str | None = None
    branch: str | None = None
    tag: str | None = None
    epochs: dict[str, int] = field(default_factory=dict)
    events: int = 0
    merged: int = 0
    dead: int = 0
    dead_new: int = 0
    rows: int = 0
    only_live: int = 0
    only_rebuilt: int = 0
    error: str | None = None
    failure: str | None = None


def run(
    request: Request,
    staging: str,
    warehouse: str,
    catalog_uri: str,
    *,
    spark: SparkSession | None = None,
    log: Log = print_line,
    size: int = RANGE_BYTES,
) -> int:
    """Rebuilds; the result is logged and put where `firn rebuild` reads it. -> 0 if done, 1 if it failed or differs.

    `size`: staged bytes that one commit takes.
    """
    result = Result(str(request.table))
    store: Store | None = None
    try:
        store = open_store(staging)
        config = published_configs.load(store, published_configs.current_sha(store))
        spark = spark or sessions.build(catalog_uri, warehouse)
        _Rebuild(request, store, staging, warehouse, config, spark, log, size, result).run()
    except Exception as error:  # noqa: BLE001 (the job's edge: whatever it is, say it in one line and exit 1)
        found = error.failure if isinstance(error, RangeFailed) else failure_of(error)
        result.status, result.error, result.failure = "failed", found.text, found.kind
    line = {name: value for name, value in asdict(result).items() if value is not None}
    log(line)
    if store is not None:
        put(store, layout.rebuild_path(request.run), json.dumps(line, ensure_ascii=False).encode())
    return 0 if result.status == "done" else 1


class RangeFailed(Exception):
    """One range could not be committed. What was committed before it stays, and the next run goes on there."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class _Rebuild:
    def __init__(
        self,
        request: Request,
        store: Store,
        staging: str,
        warehouse: str,
        config: Config,
        spark: SparkSession,
        log: Log,
        size: int,
        result: Result,
    ) -> None:
        self._request = request
        self._store = store
        self._staging = staging
        self._ranges = Ranges(store, staging)
        self._warehouse = warehouse
        self._config = config
        self._spark = spark
        self._log = log
        self._size = size
        self._result = result
        mark = f"{request.table} {config.sha[:16]}{' partial' if request.partial else ''}"
        self._tables = Placed(spark, mark)
        for name in (request.table, request.into):
            if name is not None and (why := ownership.barred(name, databases_of(os.environ))) is not None:
                raise CannotRebuild(why)
        self._live = self._tables.load(request.table)
        self._key: tuple[str, ...] | None = None  # the one that the whole log names, if firn.yaml tells none

    def run(self) -> None:
        state, mine = self._live.state if self._live else None, self._request.table
        if (why := ownership.refusal(self._store, self._config.streams, mine, state, self._warehouse)) is not None:
            raise CannotRebuild(why)
        if self._followed():
            return
        if self._request.into is not None:
            self._into(self._request.into)
        elif self._live is None:
            name = self._request.table
            raise CannotRebuild(f"there is no table {name}: make it again with --into {name}")
        elif self._request.check:
            self._check(self._live)
        else:
            self._in_place(self._live)

    def _followed(self) -> bool:
        """Makes a mirror of a pipeline, or a view, again out of what it rests on. -> whether the table is one."""
        outcome = made_again(
            self._spark, self._store, self._warehouse, self._tables, self._config, self._request.table,
            in_place=self._request.in_place,
        )  # fmt: skip
        if outcome is not None and outcome.status == "failed":
            raise RangeFailed(Failure(outcome.failure or "terminal", outcome.error or ""))
        self._result.rows = int(outcome.way.get("rows", 0)) if outcome is not None else 0
        return outcome is not None

    def _into(self, name: TableName) -> None:
        """Into a table of its own, which may be there from a run that did not come to its end."""
        if names.is_reserved(name.table):
            raise CannotRebuild(f"{name} can't be made: {names.RESERVED_NAMES}; choose another name")
        facts = TableName(name.namespace, name.table + names.FACTS)
        if self._tables.load(name) is None and self._tables.marked(facts):
            self._tables.drop(facts)  # its table was dropped: they tell of rows that are no longer there
        for one in (name, facts):
            if self._tables.load(one) is not None and not self._tables.marked(one):
                raise CannotRebuild(
                    f"{one} exists and is not a rebuild of {self._request.table} under this configuration that can be "
                    "gone on with: drop it, or name another table"
                )
        self._result.into = str(name)
        parts = plan(self._store, self._config, self._request.table, to=self._request.to, partial=self._request.partial)
        self._before = joined_before(self._tables, parts, self._request.table, self._live)
        self._key = self._key_of(parts)
        if (made := self._tables.load(name)) is not None and self._key and set(made.key() or ()) != set(self._key):
            raise CannotRebuild(
                f"{name} was begun under another key than [{', '.join(self._key)}], which the log names by now: drop "
                "it, or name another table"
            )
        for part in parts:
            self._bring(part, name, letters=False)
        if self._tables.load(name) is None:
            raise CannotRebuild(
                f"no change of the log gives {name} a row: {self._result.dead} of {self._result.events} are dead under "
                "this configuration (is the key right?)"
            )
        self._result.rows = self._count(self._loaded(name))

    def _check(self, live: Table) -> None:
        """Into a table that is dropped again, compared with the live one as it was at the beginning."""
        if live.unreadable:
            raise CannotRebuild(f"{live.name} can't be compared row for row: {live.unreadable}; use firn audit --rows")
        self._of_the_log(live)
        name = TableName(live.name.namespace, live.name.table + names.CHECK)
        both = (name, TableName(name.namespace, name.table + names.FACTS))
        parts = plan(self._store, self._config, live.name, upto=self._progress(live))
        self._before = joined_before(self._tables, parts, live.name, live)
        for one in both:
            if self._tables.load(one) is not None and not self._tables.marked(one):
                raise CannotRebuild(f"{one} exists: a check needs this name for a while; drop or rename it")
            self._tables.drop(one)
        try:
            own = {"firn.key", "firn.mode", "firn.stream", INFERRED_AS, RENAMES}
            properties = {key: value for key, value in live.state.properties.items() if key in own}
            self._tables.like(name, live, self._warehouse, properties)
            for part in parts:
                self._bring(part, name, letters=False)
            self._compare(live, self._loaded(name))
        finally:
            for one in both:
                self._tables.drop(one)

    def _in_place(self, live: Table) -> None:
        """On a branch, which then becomes main."""
        self._of_the_log(live)
        if live.state.snapshot_id is None:
            raise CannotRebuild(f"{live.name} has no snapshot yet: there is nothing to rebuild")
        # Of all that is sealed, so that the table goes on afterwards with what it is held for.
        named = self._key_of(plan(self._store, self._config, live.name))
        work = InPlace(self._spark, self._tables, live.name, self._request.number or times_rebuilt(live) + 1)
        for left in reversed(range(_CATCH_UPS)):
            main = work.main()
            upto = self._progress(main)
            self._result.epochs = dict(upto)
            if work.published():
                work.tidy()  # the answer to the swap may have been lost
                self._result.rows = self._count(main)
                return
            parts = plan(self._store, self._config, live.name, upto=upto)
            self._before = joined_before(self._tables, parts, live.name, main)
            sources = sorted({source for part in parts for source in part.sources})
            rule = self._rule(parts)
            key = rule.key if rule.key is not None else named or main.key() or ()
            mode = rule.mode if key or not rule.keyed else KEYLESS
            try:
                branch = work.begin(key, mode, sources, self._config.sha)
                self._result.branch, self._result.tag = branch.name, branch.tag
                for part in parts:
                    self._bring(part, live.name, letters=True)
                work.publish(branch, upto)
            except Moved:
                if not left:
                    raise TransientError(
                        f"{live.name} was committed to before each of {_CATCH_UPS} tries to publish the rebuild; run "
                        "it again in a quieter hour: it goes on where it is"
                    ) from None

    def _rule(self, parts: Sequence[Part]) -> TableRule:
        """The one that speaks for the table, as in routing.route."""
        told = [route(part.settings, dict.fromkeys(part.sources, TableFacts())).targets for part in parts]
        found = [one.rule for targets in told for one in targets if one.name == self._request.table]
        return min(found, key=lambda rule: rule.is_pattern)

    def _key_of(self, parts: Sequence[Part]) -> tuple[str, ...] | None:
        """The key that changes of the parts name, as if all came at once: they are read for it. None if they name none,
        or if firn.yaml tells. Raises KeyChanged if they name two."""
        rule = self._rule(parts)
        if rule.key is not None or not rule.keyed:
            return None
        found = [facts_of(self._raw(part)) for part in parts]
        return plan_key(None, None, {key for facts in found for one in facts.values() for key in one.keys}) or None

    def _of_the_log(self, live: Table) -> None:
        if live.key() is None or not self._progress(live):
            raise CannotRebuild(
                f"{live.name} was not made by Firn: rows that were there before can't come from the staged log; "
                "rebuild what the log has into a new table: --into NAME"
            )

    def _progress(self, table: Table) -> dict[str, int]:
        return {stream: n for stream in self._config.streams if (n := table.state.progress(stream))}

    def _bring(self, part: Part, name: TableName, *, letters: bool) -> None:
        """Commits what the table `name` lacks of the part."""
        table = self._tables.load(name)
        done = table.state.progress(part.stream) if table else 0
        cut = cuts.last(self._store, part.stream)
        stops = {cut.progress.get(str(self._request.table), 0)} if cut else set()
        before = self._before[part.stream]
        for one in ranges(part, done, stops=stops | before.stops, size=self._size):
            self._range(part, one, name, done, letters, before.of(one.epochs))
            table = self._tables.load(name)
            done = table.state.progress(part.stream) if table else done
        self._result.epochs[part.stream] = max(part.last, done)

    def _range(self, part: Part, one: Range, name: TableName, done: int, letters: bool, joined: By | None) -> None:
        whole, log = not self._request.partial, Generations(self._store, part.settings, part.last)

        def back(_: Target) -> list[SealedBatch]:
            return batches_of({n: epoch for n, epoch in part.epochs.items() if n <= one.last}, log)

        context = RangeContext(
            self._spark, self._store, part.stream, part.settings, self._warehouse, one.epochs, one.last,
            # Dead letters of a table that is not the live one are dead letters of the live table already.
            self._tables, {name: done}, letters, joined=joined,
        )  # fmt: skip
        opened = self._ranges.open(Sealed(self._placed(part), one.epochs, log, back, whole, whole), lambda: context)
        try:
            mine = {source: facts for source, facts in opened.facts.items() if source in part.sources}
            for target in (one for one in route(part.settings, mine).targets if one.name == self._request.table):
                named = replace(target.rule, key=self._key) if self._key else target.rule
                outcome = opened.commit(replace(target, name=name, rule=named))
                self._log(outcome.line() | {"stream": part.stream, "epoch": one.last, "of": part.last})
                if outcome.status == "failed":
                    why = f"epochs up to {one.last} of {part.stream}: {outcome.error}"
                    raise RangeFailed(Failure(outcome.failure or "terminal", why))
                self._result.events += outcome.events
                self._result.merged += outcome.merged
                self._result.dead += outcome.dead
                self._result.dead_new += sum(n for counts in outcome.dead_new.values() for n in counts.values())
        finally:
            opened.close()

    def _placed(self, part: Part) -> StreamConfig:
        """The settings that the part's changes are placed by."""
        cut = cuts.read(self._store, part.stream, cuts.newest(self._store, part.stream))
        return replace(part.settings, commits=tells_commits(cut.high if cut else None, part.settings.generation))

    def _raw(self, part: Part) -> DataFrame:
        """All changes of a part."""
        whole, log = not self._request.partial, Generations(self._store, part.settings, part.last)
        batches, order = batches_of(part.epochs, log), self._placed(part).order
        raw = raw_in_place(self._spark, self._staging, log, batches, order, whole=whole)
        return raw.where(f.col("table").isin(*part.sources))

    def _compare(self, live: Table, rebuilt: Table) -> None:
        """Row for row by the source's columns and the position, both ways."""
        columns = [replace(column, type=storable(column.type)) for column in live.columns()[0]]
        there = {field["name"] for field in rebuilt.state.fields}
        # Older tables hold positions without what else is in an order (docs/adr/0011).
        said = [f.substring(POSITION, 1, WIDTH).alias(POSITION)]
        said += [f.col(OP)] if OP in there & {field["name"] for field in live.state.fields} else []
        mine = [f.col(quoted(column.name)) for column in columns]
        # What firn.yaml renames has its new name in the rebuilt table, before the live one's next commit.
        renames = renames_of({}, rebuilt.state.properties)
        called = [column.name if column.name in there else renames.column(column.name) for column in columns]
        theirs = [
            (f.col(quoted(name)) if name in there else f.lit(None).cast(spark_type(column.type))).alias(column.name)
            for column, name in zip(columns, called, strict=True)
        ]
        reader = self._spark.read.option("snapshot-id", str(live.state.snapshot_id))
        old = reader.table(live.sql).select(*mine, *said)
        new = self._spark.table(rebuilt.sql).select(*theirs, *said)
        self._result.rows = new.count()
        self._result.only_live = old.exceptAll(new).count()
        self._result.only_rebuilt = new.exceptAll(old).count()
        if self._result.only_live or self._result.only_rebuilt:
            self._result.status = "differs"

    def _count(self, table: Table) -> int:
        every = row_lookup.every(self._spark, table, ()).places if table.unreadable else None
        return int(self._spark.table(table.sql).count()) if every is None else len(every)

    def _loaded(self, name: TableName) -> Table:
        if (table := self._tables.load(name)) is None:
            raise LookupError(f"{name} is gone: it was dropped while it was filled")
        return table
