"""Random queries as views, through all that may happen to their tables, to themselves and to the job that makes them.

After each refresh a view is its query, run whole over its tables as the cut has them. Where SQL leaves nothing to
chance DuckDB answers the text itself.
"""

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from firn.commit.view_turn import ViewTurn
from firn.config.maintenance import Care, Compaction, Expiry
from firn.config.names import TableName
from firn.log import cuts, holds, layout, published_configs
from firn.log.store import open_store
from firn.maintenance import expiry as expiry_rules
from firn.views import due
from firn.views.cut import Told, told
from firn_lake.lake import Lake as Reader
from firn_lake.refs.rollback import CannotRollBack
from firn_spark import commit as commit_job
from firn_spark.files import row_lookup
from firn_spark.maintenance.compaction import Budget, compact
from firn_spark.maintenance.expiry import expire_all
from firn_spark.tables import fence
from firn_spark.tables.evolve import Tables
from firn_spark.tables.objects import Objects
from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh import AFTER, Refresh
from tests.faults.calls import FAULTS, Counting, Died, Fault, WatchedStore
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_pipelines_rebuild import rebuilt
from tests.property.test_views import COLUMNS, QUERIES, bag, queries
from tests.property.test_views import Tables as MadeTables
from tests.soak import SEED, long_only, seeds, times

pytestmark = pytest.mark.spark

T = TypeVar("T")
KINDS: Final = {
    "t": {"id": "int", "a": "int", "b": "string", "x": "double", "m": "decimal(9,2)"},
    "u": {"id": "int", "a": "int", "c": "string"},
    "v": {"a": "int", "d": "string"},
}
WIDER: Final = {"int": "long", "decimal(9,2)": "decimal(14,2)"}
KEYS: Final = {name: key for name, (_, (key,)) in COLUMNS.items()}
WINDOWS: Final = (
    "SELECT window_start, count(*) AS n, sum(m) AS s FROM hop(t, DATE '2026-01-01' + CAST(a AS INTEGER), "
    "INTERVAL '1 day', INTERVAL '2 days') GROUP BY ALL",
    "SELECT b, window_start, window_end, max(x) AS top FROM session(t, DATE '2026-01-01' + 2 * CAST(a AS INTEGER), "
    "INTERVAL '2 days', b) GROUP BY ALL",
)
FULL: Final = "views.whole"
OVER: Final = {
    "views.copy": "SELECT * FROM views.v0", "views.size": "SELECT count(*) AS n FROM views.copy",
    FULL: "SELECT a, b FROM lake.t EXCEPT ALL SELECT a, c FROM lake.u",
}  # fmt: skip
# What views settle where SQL does not: DuckDB's own answer may be another one.
CHANCE: Final = re.compile("LIMIT|row_number|lag|first_value|arg_m|any_value|list|string_agg|QUALIFY|window_start")
FEW: Final = Expiry(keep_seconds=1, at_least=1, at_most=1)
NUMBERS: Final = (None, 0.5, -1.25, 1e9, "NaN", "Infinity", "-Infinity")


class Moments(Counting):
    """The calls of a job's turn at its views, on storage and catalog: one of them fails, or `beside` happens before
    it."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = False
        self.beside: Callable[[], object] | None = None
        self._one = threading.RLock()

    def call(self, where: Any, name: str, effect: Callable[[], T]) -> T:
        """Those of other threads and of all else that the job does are not counted."""
        if not self.counts:
            return effect()
        with self._one:
            if self.beside is not None and len(self.log) + 1 >= int(self.at):
                self.counts, beside, self.beside = False, self.beside, None
                beside()
                self.counts, self.at = True, 0
            return super().call(where, name, effect)

    def begin(self, at: int = 0, fault: Fault = "refused", beside: Callable[[], object] | None = None) -> None:
        """Counts from here on."""
        self.heal()
        self.log.clear()
        self.hit, self.at, self.fault, self.beside = None, at, fault, beside


def watched(patch: pytest.MonkeyPatch) -> Moments:
    """Stands in front of all that a turn at views asks of storage and catalog."""
    moments = Moments()

    def gate(owner: Any, name: str, where: str) -> None:
        real = getattr(owner, name)

        @wraps(real)
        def called(*given: Any, **named: Any) -> Any:
            return moments.call(where, name.strip("_"), partial(real, *given, **named))

        patch.setattr(owner, name, called)

    for owner, names in (
        (Objects, ("open", "part", "write")), (row_lookup, ("plan",)), (fence, ("_land", "instead")),
        (Tables, ("load", "create", "set_properties", "look_again")),
    ):  # fmt: skip
        for name in names:
            gate(owner, name, "catalog")
    take = ViewTurn.take

    def turn(*given: Any, **named: Any) -> bool:
        moments.counts = True
        try:
            return take(*given, **named)
        finally:
            moments.counts = False

    patch.setattr(ViewTurn, "take", turn)
    patch.setattr(commit_job, "open_store", lambda path: WatchedStore(open_store(path), moments))
    patch.setattr(due, "_TRANSIENT", (timedelta(0), timedelta(0)))  # the next job tries at once
    patch.setattr(due, "_TERMINAL", (timedelta(0), timedelta(0)))
    patch.setattr(expiry_rules, "FEWEST_SNAPSHOTS", 3)
    patch.setattr(expiry_rules, "LEAST", 2)
    return moments


class History:
    """A lake of three tables and views over them, and what happens to it. `did`: that, in words."""

    def __init__(self, spark: SparkSession, folder: Path, some: list[str], dice: random.Random, at: Moments) -> None:
        self.dice, self.moments = dice, at
        self.kinds = {name: dict(kinds) for name, kinds in KINDS.items()}
        self.views = {
            f"views.v{n}": re.sub(r"(FROM |JOIN |, |hop\(|session\()([tuv])(?=[ ,)]|$)", r"\1lake.\2", sql)
            for n, sql in enumerate((*some, dice.choice(WINDOWS)))
        }
        self.views |= OVER
        self.write = dice.choice(("merge-on-read", "copy-on-write"))
        self.lsn, self.late = 100, list[dict[str, Any]]()  # `late`: events of an epoch to come
        self.did, self.ways, self.hits = list[str](), Counter[str](), Counter[str]()
        self.lake = Lake(spark, folder, self.config())
        self.land([self.row(table, 9) for table in KINDS])

    def config(self) -> str:
        """firn.yaml."""
        tables = "".join(
            f"      app.{name}: {{to: lake.{name}, key: [{KEYS[name]}], columns: "
            f"{{{', '.join(f'{column}: {kind!r}' for column, kind in kinds.items())}}}}}\n"
            for name, kinds in self.kinds.items()
        )
        return (
            "warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  spec:\n"
            f"    debezium: {{decimal.handling.mode: string}}\n    tables:\n{tables}views:\n"
            + "".join(
                f"  {name}: {{sql: {sql!r}, write: {self.write}{', refresh: full' * (name == FULL)}}}\n"
                for name, sql in self.views.items()
            )
        )

    def told(self) -> str:
        """What happened, and how views were made, as a line."""
        return json.dumps({"did": self.did, "hits": self.hits, "ways": self.ways})

    # What changes

    def row(self, table: str, key: int, op: str = "u") -> dict[str, Any]:
        """A row of any values."""
        dice, cells = self.dice, dict[str, Any]()
        for name, kind in KINDS[table].items():
            some: tuple[Any, ...] = {"int": (None, 0, 1, 2, 3), "string": (None, "p", "q", ""), "double": NUMBERS}.get(
                kind, (None, "1.50", "-2.25")
            )
            cells[name] = key if name == KEYS[table] else dice.choice(some)
        return event(op, self.lsn, cells, table=table)

    def changes(self, count: int) -> list[dict[str, Any]]:
        """Of rows, keys and whole tables; some come twice, some an epoch or more later."""
        dice, found, held = self.dice, list[dict[str, Any]](), self.late
        self.late = []
        for _ in range(count):
            self.lsn += 1
            table, key, chance = dice.choice("tttuuv"), dice.randrange(8), dice.random()
            gone = event("d", self.lsn, None, {KEYS[table]: key}, table=table)
            if chance < 0.03:
                found.append(event("t", self.lsn, table=table))
            elif chance < 0.2:
                found.append(gone)
            elif chance < 0.35:
                found += [gone, self.row(table, (key + 1 + dice.randrange(7)) % 8, "c")]
            else:
                found.append(self.row(table, key))
        found += dice.choices(found, k=len(found) // 6)
        dice.shuffle(found)
        for one in held:
            found.insert(dice.randrange(len(found) + 1), one)
        if len(found) > 4:
            self.late = [found.pop(), found.pop()]
        return found

    def land(self, events: list[dict[str, Any]]) -> int:
        """Commits them. -> the epoch."""
        self.lake.post(events)
        sealed = self.lake.seal()
        self.job(sealed)
        return sealed

    def job(self, sealed: int) -> None:
        """A commit job, which may die at its views."""
        with suppress(Died):
            assert self.lake.commit(sealed) == 0, self.lake.lines
        self.ways.update(
            re.split(r"[:0-9]", str(line["way"].get("whole", "")))[0][:40]
            for line in self.lake.lines if line.get("mode") == "view" and line["status"] == "committed"
        )  # fmt: skip

    # What happens

    def happens(self) -> None:
        """Something, and then changes, or beside them; then all views are looked at."""
        dice = self.dice
        what = dice.choice(
            (self.nothing, self.compacted, self.compacted, self.expired, self.rolled_back, self.set_back, self.rebuilt,
             self.retyped, self.by_others, self.dropped, self.view_set_back, self.written_into)
        )  # fmt: skip
        how = dice.choice(("before", "beside", "fault", "fault"))
        fault, at = dice.choice(FAULTS), dice.randrange(1, 60)
        self.did.append(f"{what.__name__} {how} {fault} {at}")
        is_alone = what in (self.set_back, self.retyped, self.dropped, self.view_set_back)
        if how == "beside" and not is_alone:
            self.moments.begin(at, beside=what)
        else:
            what()
            self.moments.begin(at if how == "fault" else 0, fault)
        sealed = self.land(self.changes(dice.choice((1, 4, 9))))
        if self.moments.hit:
            self.hits[f"{fault} {self.moments.hit}"] += 1
        self.hits["beside"] += how == "beside" and self.moments.beside is None
        self.moments.begin()
        self.job(sealed)  # what was left undone
        self.check()

    def nothing(self) -> None: ...

    def any_table(self) -> str:
        return self.dice.choice(["lake.t", "lake.u", "lake.v", *self.views])

    def compacted(self) -> None:
        name, small = self.any_table(), self.dice.random() < 0.5
        table = Tables(self.lake.spark).load(TableName.parse(name))
        if table is None:
            return
        if small:
            compact(self.lake.spark, table, "spec", Care(Compaction()), Budget(10**9))
        else:
            options = "options => map('rewrite-all', 'true')"
            self.lake.spark.sql(f"CALL firn.system.rewrite_data_files(table => '{name}', {options})")

    def expired(self) -> None:
        table = Tables(self.lake.spark).load(TableName.parse(self.any_table()))
        if table is not None:
            list(expire_all(self.lake.spark, self.lake.store, table, FEW, datetime.now(UTC) + timedelta(hours=1)))

    def earlier(self, name: str) -> int | None:
        metadata = self.lake.catalog.load_table(TableName.parse(name).identifier).metadata
        found, at = [], metadata.current_snapshot()
        while at is not None:
            found.append(at.snapshot_id)
            at = metadata.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id else None
        return self.dice.choice(found[1:4]) if len(found) > 1 else None

    def rolled_back(self) -> None:
        """As `firn rollback` does."""
        name = f"lake.{self.dice.choice('tuv')}"
        if (to := self.earlier(name)) is not None:
            with suppress(CannotRollBack):
                Reader(self.lake.catalog).table(name).rollback(to, then="skip")

    def set_back(self) -> None:
        """As another engine does: the table waits for a decision, and its views stay what they were."""
        name = f"lake.{self.dice.choice('tuv')}"
        if (to := self.earlier(name)) is None:
            return
        self.lake.spark.sql(f"CALL firn.system.set_current_snapshot('{name}', {to})")
        sealed = self.land(self.changes(2))
        self.check()
        for held in holds.read_all(self.lake.store, "spec").held().values():
            how = self.dice.choice(("replay", "skip"))
            holds.lift(self.lake.store, held, how, layout.instant(self.lake.now))  # type: ignore[arg-type]
        self.job(sealed)

    def rebuilt(self) -> None:
        rebuilt(self.lake, self.any_table(), in_place=True)

    def retyped(self) -> None:
        table = self.dice.choice("tuv")
        kinds = self.kinds[table]
        if wider := [name for name, kind in kinds.items() if kind in WIDER]:
            name = self.dice.choice(wider)
            kinds[name] = WIDER[kinds[name]]
            self.lake.config = published_configs.publish(self.lake.store, self.config())

    def by_others(self) -> None:
        table, key = self.dice.choice("tuv"), self.dice.randrange(8)
        column = list(KINDS[table])[-2 if table == "t" else -1]
        value = "double('-Infinity')" if table == "t" else "'by hand'"
        what = self.dice.choice((f"UPDATE firn.lake.{table} SET {column} = {value}", f"DELETE FROM firn.lake.{table}"))
        self.lake.spark.sql(f"{what} WHERE {KEYS[table]} = {key}")

    def dropped(self) -> None:
        self.lake.spark.sql(f"DROP TABLE IF EXISTS firn.{self.dice.choice(list(self.views))}")

    def view_set_back(self) -> None:
        name = self.dice.choice(list(self.views))
        if Tables(self.lake.spark).load(TableName.parse(name)) and (to := self.earlier(name)) is not None:
            self.lake.spark.sql(f"CALL firn.system.set_current_snapshot('{name}', {to})")

    def written_into(self) -> None:
        name = self.dice.choice(list(self.views))
        if Tables(self.lake.spark).load(TableName.parse(name)):
            self.lake.spark.sql(f"DELETE FROM firn.{name} WHERE _firn_id < X'40'")

    # What has to be

    def check(self) -> None:
        """Each view is its query over its tables at the newest cut, and says so."""
        cut = cuts.read(self.lake.store, "spec", cuts.newest(self.lake.store, "spec"))
        assert cut is not None
        failed = {line["table"]: line["error"] for line in self.lake.lines
                  if line.get("mode") == "view" and line["status"] == "failed"}  # fmt: skip
        with duckdb.connect(config={"threads": 1}) as run:
            run.execute("SET TimeZone = 'UTC'")
            run.execute("CREATE SCHEMA lake")
            run.execute("CREATE SCHEMA views")
            for name in KINDS:
                rows = self.rows(f"lake.{name}", cut.tables[f"lake.{name}"])
                run.register("rows", rows).execute(f"CREATE TABLE lake.{name} AS FROM rows")
            for name, sql in self.views.items():
                said, there = self.view(name)
                where = (name, sql, self.did, failed.get(name))
                assert name not in failed, where
                mirrors = {str(one): at for one, (_, at) in said.sources.items() if one.namespace == "lake"}
                assert mirrors.items() <= cut.tables.items(), where
                run.register("rows", there).execute(f"CREATE TABLE {name} AS FROM rows")
                found = bag(run, f"FROM {name}")
                if name in OVER:
                    assert found == bag(run, sql), where
                    continue
                assert found == self.planned(run, sql), where
                if not CHANCE.search(sql):
                    assert found == bag(run, sql), where

    def planned(self, run: duckdb.DuckDBPyConnection, sql: str) -> Counter[tuple[Any, ...]]:
        plain, known = sql.replace("lake.", ""), dict[str, SourceTable]()
        for name, (_, key) in COLUMNS.items():
            table = run.table(f"lake.{name}")
            known[name] = SourceTable(dict(zip(table.columns, map(str, table.types), strict=True)), key)
            run.execute(f"CREATE OR REPLACE TEMP VIEW {name}_1 AS FROM lake.{name}")
        found = plan(plain, known)
        rows = Refresh(run, found, MadeTables(run, [])).whole(AFTER)
        return bag(run, f"SELECT {', '.join(found.root.columns)} FROM ({rows})")

    def rows(self, name: str, snapshot: int | None = None) -> pa.Table:
        found = self.lake.catalog.load_table(TableName.parse(name).identifier).scan(snapshot_id=snapshot).to_arrow()
        return found.select([one for one in found.column_names if not one.startswith("_firn_")])

    def view(self, name: str) -> tuple[Told, pa.Table]:
        """What a view says of itself, and its rows."""
        table = self.lake.catalog.load_table(TableName.parse(name).identifier)
        ids = table.scan(selected_fields=("_firn_id",)).to_arrow()["_firn_id"].to_pylist()
        assert len({*ids}) == len(ids), name
        summaries, at = list[dict[str, str]](), table.current_snapshot()
        while at is not None:
            summaries.append(dict(at.summary.additional_properties) if at.summary else {})
            at = table.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id else None
        said = told(tuple(summaries))
        assert said is not None, name
        return said, self.rows(name)


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    return watched(monkeypatch)


@long_only  # tests/model/test_views.py has such histories, and test_views.py one with real tables
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_whatever_happens_each_view_is_its_query(
    spark: SparkSession, tmp_path: Path, moments: Moments, seed: int
) -> None:
    dice = random.Random(seed)
    history = History(spark, tmp_path, dice.sample(QUERIES, times(3, 6)), dice, moments)
    for _ in range(times(2, 25)):
        history.happens()
    print(history.told(), flush=True)


@long_only
@given(some=st.lists(queries(), min_size=4, max_size=4), seed=st.integers(0, 2**32))
@settings(max_examples=times(2, 40), deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_happens_each_random_view_is_its_query(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, some: list[tuple[str, Any]], seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        folder, texts = tmp_path_factory.mktemp("views"), [sql for sql, _ in some]
        history = History(spark, folder, texts, random.Random(seed), watched(patch))
        for _ in range(12):
            history.happens()
        print(history.told(), flush=True)


@long_only
@pytest.mark.parametrize(
    "fault", ["dies after", "lost after", *(pytest.param(one, marks=long_only) for one in FAULTS if "after" not in one)]
)
def test_a_turn_may_fail_at_each_of_its_calls(
    spark: SparkSession, tmp_path: Path, moments: Moments, fault: Fault
) -> None:
    """On storage, on the catalog and on files: before it, after it, or without an answer."""
    history = History(spark, tmp_path, [QUERIES[2], QUERIES[6], QUERIES[15]], random.Random(SEED), moments)
    step = times(61, 1)
    for at in range(1 + SEED % step, times(2 * step, 1_000), step):
        moments.begin(at, fault)
        history.did = [f"{fault} at {at}"]
        sealed = history.land([history.row("t", at % 8), history.row("u", at % 5), *history.changes(2)])
        hit = moments.hit
        moments.begin()
        history.job(sealed)
        history.check()
        if hit is None:
            break
        history.hits[hit] += 1
    assert history.hits
    print(history.told(), flush=True)
