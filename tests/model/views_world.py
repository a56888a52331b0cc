"""Two streams whose tables views read: ingest, dispatch and jobs are the real ones, the tables are in memory."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

import pytest
from obstore.store import MemoryStore

from firn.commit import warm_job
from firn.config import reader
from firn.config.model import Config, StreamConfig, TableRule
from firn.config.modes import VIEW
from firn.config.names import TableName
from firn.config.views import View
from firn.dispatch.dispatcher import Dispatched, Terms, dispatch
from firn.errors import FirnError
from firn.ingest.accept import accept
from firn.log import cuts, holds, job_closed_marker, layout, pause, published_configs
from firn.log.store import Store
from firn.runs.job_runs import Run
from firn.views import view_state
from firn.views.cut import Told, told
from firn.views.due import Under
from firn.views.view_sources import ViewSources, sources_of
from tests.faults.calls import Died, Gate, WatchedStore
from tests.model.memory_lake import Call, Catalog, MemoryLake
from tests.model.memory_views import at_moment, newest, queried

START: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
TOTALS, NAMED, SIZES, SLOW = (TableName("v", name) for name in ("totals", "named", "sizes", "slow"))
ORDERS, CUSTOMERS = TableName("lake", "orders"), TableName("lake", "customers")
STREAMS: Final = """
streams:
  shop:
    job: {shop}
    tables:
      app.orders: {{to: lake.orders, key: [id], columns: {{id: long, c: long, v: long}}}}
  crm:
    job: {crm}
    tables:
      app.customers: {{to: lake.customers, key: [id], columns: {{id: long, n: string}}}}
"""
TOGETHER, APART = (STREAMS.format(shop="one", crm=crm) for crm in ("one", "two"))


@dataclass(frozen=True)
class Written:
    """A view as a test writes it."""

    home: str
    sql: str
    sources: tuple[TableName, ...]
    every: int = 0


VIEWS: Final[Mapping[TableName, Written]] = {
    TOTALS: Written("shop", "SELECT c, count(*) AS n, sum(v) AS s FROM lake.orders GROUP BY c", (ORDERS,)),
    NAMED: Written(
        "shop",
        "SELECT o.id, o.v, c.n FROM lake.orders o LEFT JOIN lake.customers c ON o.c = c.id",
        (ORDERS, CUSTOMERS),
    ),
    SIZES: Written(
        "shop",
        "SELECT t.n, count(c.id) AS k FROM v.totals t LEFT JOIN lake.customers c ON t.c = c.id GROUP BY t.n",
        (TOTALS, CUSTOMERS),
    ),
    SLOW: Written("crm", "SELECT n, count(*) AS k FROM lake.customers GROUP BY n", (CUSTOMERS,), 300),
}


def configuration(views: Mapping[TableName, Written] = VIEWS, streams: str = TOGETHER) -> str:
    """As the tests' own reader has it: the views stand in the last line."""
    told = {
        str(name): [one.home, one.sql, [str(source) for source in one.sources], one.every]
        for name, one in views.items()
    }
    return f"{streams}# views {json.dumps(told)}\n"


def read_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published has its views from here on."""
    real = reader.parse

    def parse(text: str, *rest: Any, **more: Any) -> Config:
        found = real(text, *rest, **more)
        if "# views " not in text:
            return found
        told = json.loads(text.rpartition("# views ")[2])
        streams = {name: replace(one, views=_views_of(name, told)) for name, one in found.streams.items()}
        return replace(found, streams=streams)

    monkeypatch.setattr(reader, "parse", parse)


def _views_of(stream: str, told: Mapping[str, Any]) -> tuple[View, ...]:
    return tuple(
        View(TableName.parse(name), sql, tuple(map(TableName.parse, sources)), TableRule(name, name, mode=VIEW), every)
        for name, (home, sql, sources, every) in told.items()
        if home == stream
    )


@dataclass
class Emr:
    """EMR Serverless: a run for each token."""

    gate: Gate
    known: dict[str, Run] = field(default_factory=dict)

    def runs(self, since: datetime) -> Sequence[Run]:
        return self.gate.call("jobs", "runs", lambda: list(self.known.values()))

    def start(self, stream: str, first: int, last: int, attempt: int) -> str:
        def begin() -> str:
            run = Run(f"run-{len(self.known) + 1}", stream, first, last, attempt, "SUBMITTED")
            return self.known.setdefault(run.name, run).id

        return self.gate.call("jobs", "start", begin)

    def active(self) -> list[Run]:
        return [run for run in self.known.values() if run.active]


class Lakes:
    """All of it. `gate` stands in front of every call."""

    def __init__(self, config: str | None = None, gate: Gate | None = None) -> None:
        self.gate = gate or Gate()
        self.disk = MemoryStore()
        self.catalog = Catalog()
        self.catalog.around = self._around
        self.fails: Callable[[Call], None] = lambda call: None
        self.emr = Emr(self.gate)
        self.now = START
        self.lsn = 0
        self.lines: list[dict[str, Any]] = []
        self.config = published_configs.publish(self.disk, config or configuration())

    def _around(self, call: Call, effect: Callable[[], Any]) -> Any:
        self.fails(call)
        return self.gate.call("catalog", f"{call.kind} {call.table}", effect)

    def clock(self) -> datetime:
        self.now += timedelta(milliseconds=20)
        return self.now

    def store(self) -> Store:
        return WatchedStore(self.disk, self.gate)

    def publish(self, text: str) -> None:
        self.config = published_configs.publish(self.disk, text)

    # What comes in

    def order(self, n: int, customer: int | None, v: int | None = 1) -> None:
        """An order is put in place."""
        self._post("shop", "orders", n, {"id": n, "c": customer, "v": v})

    def customer(self, n: int, name: str | None) -> None:
        self._post("crm", "customers", n, {"id": n, "n": name})

    def delete(self, stream: str, n: int) -> None:
        self._post(stream, "orders" if stream == "shop" else "customers", n, None)

    def _post(self, stream: str, table: str, n: int, row: Any) -> None:
        self.lsn += 1
        ms = 1_700_000_000_000 + self.lsn
        source = {"connector": "postgresql", "schema": "app", "table": table, "ts_ms": ms, "lsn": self.lsn}
        source |= {"sequence": json.dumps([str(self.lsn - 1), str(self.lsn)])}
        event = {"op": "u" if row else "d", "before": {"id": n}, "after": row, "source": source, "ts_ms": ms}
        accept(self.disk, self.config, stream, json.dumps(event).encode(), now=self.clock())

    # Who works

    def tick(self, *streams: str) -> list[Dispatched]:
        """functions/dispatch, a minute later: each stream. A dispatcher that dies or fails is none."""
        self.now += MINUTE
        found = []
        for name in streams or ("shop", "crm"):
            try:
                store = self.store()
                config = published_configs.current(store)
                settings = config.streams[name]
                terms = Terms(
                    config.sha, settings.commit, settings.generation, config.sharing(name), sources_of(config, name)
                )
                found.append(dispatch(store, name, self.emr, now=self.clock(), terms=terms))
            except (FirnError, Died):
                self._born_again()
        return found

    def jobs(self) -> int:
        """All runs, from their start to their end. -> how many"""
        active = self.emr.active()
        for run in active:
            self.job(run)
        return len(active)

    def job(self, run: Run, sleep: Callable[[float], None] = lambda _: None, seconds: float = 20.0) -> None:
        """spark_emr/commit.py."""
        store = self.store()
        passing = count(0.0, seconds)
        clock = warm_job.Clock(self.clock, lambda: next(passing), sleep)
        try:
            code = warm_job.run(
                store, MemoryLake(store, self.catalog), published_configs.CurrentConfig(store), pause.Watch(store),
                run.stream, run.first, run.last, log=self.lines.append, attempt=run.attempt, clock=clock,
            )  # fmt: skip
        except Died:
            self._born_again()
            code = 1
        self.ended(run, code)

    def ended(self, run: Run, code: int) -> None:
        self.emr.known[run.name] = replace(run, state="FAILED" if code else "SUCCESS")

    def _born_again(self) -> None:
        if hasattr(self.gate, "born_again"):
            self.gate.born_again()

    def work(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            self.tick()
            self.jobs()

    def settle(self, ticks: int = 150, quiet: int = 2) -> None:
        """Until nothing is left to do, and then that nothing more is begun."""
        for _ in range(ticks):
            self.work()
            if not self.unrest():
                break
        else:
            raise AssertionError([self.unrest(), self.lines[-5:]])
        for view in self.views():
            assert self.is_at_newest(view), view.table
        started = len(self.emr.known)
        for _ in range(quiet):
            self.work()
        assert len(self.emr.known) == started, f"{len(self.emr.known) - started} jobs were started for nothing"

    def unrest(self) -> list[str]:
        """What is left to do, by the log and the tables alone."""
        found = [f"{run.name} is at work" for run in self.emr.active()]
        for name in ("shop", "crm"):
            known = holds.read_all(self.disk, name)
            found += [f"{name}: {table} is held" for table in known.held()]
            found += [f"{name}: {n} waits" for n in self.waiting(name)]
            if self.config.streams[name].views:
                found += [f"{one.view.table} is behind" for one in self.standings(name).values() if one.behind]
        return found

    def waiting(self, stream: str) -> list[str]:
        from firn.log import epochs

        committed = cuts.newest(self.disk, stream)
        free = epochs.candidates(self.disk, stream, self.now, above=committed, whole=True)
        known = holds.read_all(self.disk, stream)
        sealed = [n for n in epochs.numbers(self.disk, stream, committed) if n not in known.epochs]
        return [*(one.id for one in free.batches), *map(str, sealed)]

    # What is there

    def settings(self, stream: str) -> StreamConfig:
        return self.config.streams[stream]

    def views(self) -> list[View]:
        """Those whose tables are there to be read."""
        every = [view for one in self.config.streams.values() for view in one.views]
        there = {TableName.parse(name) for stream in ("shop", "crm") for name in self.cut(stream)}
        known = {view.table for view in every}
        missing = {view.table for view in every if {*view.sources} - known - there}
        return [view for view in every if view.table not in missing and not {*view.sources} & missing]

    def cut(self, stream: str) -> Mapping[str, int]:
        found = cuts.last(self.disk, stream)
        return found.tables if found else {}

    def is_at_newest(self, view: View) -> bool:
        table = self.catalog.tables.get(view.table)
        return table is not None and bag(table.rows()) == self.expected(view)

    def expected(
        self, view: View, at: Mapping[str, int] | None = None, said: Told | None = None, now: datetime | None = None
    ) -> Counter[str]:
        """Its query over the tables at these cuts, by stream; None: the newest. Of what goes by the time, at the moment
        that a snapshot (None: the newest one) says, or `now`."""
        said = said or told(self.catalog.tables[view.table].state().ancestry)
        return bag([dict(row.values) for row in self._rows(view, at, said, now)[1].values()])

    def _rows(self, view: View, at: Mapping[str, int] | None, said: Told | None, now: datetime | None = None) -> Any:
        from tests.model.memory_lake import Snapshot

        views = {one.table: one for stream in self.config.streams.values() for one in stream.views}
        found = {}
        for name in view.sources:
            if name in views and views[name].by_clock and said is not None:
                found[name] = (self.catalog.tables[name], said.sources[name][1])
            elif name in views:
                columns, rows = self._rows(views[name], at, None)
                table = replace(
                    self.catalog.tables[ORDERS], columns=columns, first=tuple(one.name for one in columns), name=name,
                    snapshots={1: Snapshot(1, None, {}, rows)}, current=1,
                )  # fmt: skip
                found[name] = (table, 1)
            else:
                found[name] = (self.catalog.tables[name], self._snapshot(name, at))
        return queried(at_moment(view.sql, now or (said.now if said is not None else None)), found)

    def _snapshot(self, name: TableName, at: Mapping[str, int] | None) -> int:
        some = set()
        for stream in ("shop", "crm"):
            cut = cuts.last(self.disk, stream) if at is None else cuts.read(self.disk, stream, at.get(stream, 0))
            if cut and str(name) in cut.tables:
                some.add(cut.tables[str(name)])
        return newest(self.catalog.tables[name], frozenset(some))

    def check_history(self) -> None:
        """Each snapshot of a view is its query over the tables at the cuts that it names, and these never go back."""
        for view in self.views():
            before: dict[str, int] = {}
            moment = START
            table = self.catalog.tables[view.table]
            for one in reversed(table.ancestry()):
                said = told((one.summary,))
                assert said is not None
                assert all(said.epochs.get(stream, n) >= n for stream, n in before.items()), view.table
                before = dict(said.epochs)
                assert (said.now or moment) >= moment, view.table
                moment = said.now or moment
                if said.sql == view.sha:
                    there = self.expected(view, said.epochs, said)
                    assert bag([dict(row.values) for row in one.rows.values()]) == there, said.epochs

    def standings(self, stream: str) -> dict[TableName, Any]:
        sources = self.sources(stream)
        found = {name: one for name in sources.streams if (one := cuts.last(self.disk, name))}
        states = view_state.read(self.disk, stream)
        return {one.view.table: one for one in Under(sources, found, self.config.sha).standings(states)}

    def sources(self, stream: str) -> ViewSources:
        found = sources_of(self.config, stream)
        assert found is not None
        return found

    def release(self) -> None:
        """`firn resume`: everything that is held."""
        for name in ("shop", "crm"):
            known = holds.read_all(self.disk, name)
            for case in known.tables.values():
                if case.lift is None:
                    held = case.quarantine
                    how = "replay" if held.reason == "rolled_back" else "retry"
                    holds.lift(self.disk, held, how, layout.instant(self.now))  # type: ignore[arg-type]

    def close(self, run: Run) -> None:
        job_closed_marker.close(self.disk, run.name)


def bag(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)
