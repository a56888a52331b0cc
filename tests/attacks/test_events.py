"""Whatever an event holds: it is taken, ignored or a dead letter, and no other event waits for it or is lost."""

import base64
import importlib.util
import itertools
import json
import random
import time
from collections import Counter
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from firn.audit import ledger
from firn.audit.ledger_view import Keeping
from firn.audit.verdict import Audit, audit
from firn.changes.envelopes.registry import KNOWN
from firn.function_context import Staging
from firn.log import cuts, epochs, holds, layout
from firn.log.backlog_gate import Gate
from firn.log.dead_letters.letters import count_dead
from firn.log.published_configs import CurrentConfig
from firn.log.store import paths
from firn.settings import Settings
from firn_lake.audit.row_audit import Depth, audit_rows
from firn_lake.audit.table_histories import histories, loaded
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake as Reader
from firn_lake.reading.versions import NoSuchColumn
from firn_lake.tables import TableNotFound
from firn_spark.tables import fence
from tests.attacks.grammar import Grammar
from tests.attacks.held_events import held_in
from tests.emitter_events import WRITERS
from tests.integration.spark.committing import Died
from tests.integration.spark.spark_lake import ROOT, Lake
from tests.soak import LONG, SEED, few_cases, times

CONFIG: Final = """
streams:
  spec:
    envelope: {envelope}
    out_of_range: {out_of_range}
{rows}    tables:
      app.one: {{to: lake.one, key: [id]}}
      one: {{to: lake.one, key: [id]}}
      app.two:
        to: lake.two
        key: [id]
        columns: {{id: long, n: int, price: 'decimal(12,2)', us: timestamp, v: string, raw: binary, tags: list<string>}}
      app.log: {{to: lake.log, mode: append}}
      app.odd*: {{to: 'odd.{{table}}', key: [id]}}
"""
# What looks odd in a table's name; not often, because each takes a commit of its own.
ODD_TABLES: Final = (
    "oddé",
    "odd.a.b",
    'odd"b`c',
    "ODD",
    "odd a",
    "odd" + "x" * 200,
    "odd\0",
    "odd/../..",
    "odd\U0001f9ca",
)
TABLES: Final = (*(("one",) * 12 + ("two",) * 8 + ("log",) * 6) * times(20, 100), *ODD_TABLES)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "CRITICAL")


class Context:
    aws_request_id = "fuzz"


class Stream:
    """One stream from the handlers of its functions to its tables."""

    def __init__(self, spark: SparkSession, folder: Path, envelope: str, out_of_range: str = "null") -> None:
        rows = "    table_by: table\n    op_field: op\n" if KNOWN.bare(envelope) else ""
        self.envelope = envelope
        self.lake = Lake(spark, folder, CONFIG.format(envelope=envelope, out_of_range=out_of_range, rows=rows))
        self._http, self._queue = self._function("ingest_http"), self._function("ingest_queue")
        self.sent = 0
        self.refused = Counter[int]()  # events of requests that were answered so
        self.released = 0

    def _function(self, name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"fuzzed_{name}", ROOT / "functions" / name / "app.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        store = self.lake.store
        opened = Staging(Settings(self.lake.staging), store, CurrentConfig(store, seconds=0), Gate(store, seconds=0))
        module.staging = lambda: opened  # type: ignore[attr-defined]
        return module

    def post(self, events: list[bytes], *, array: bool = False) -> None:
        """One request. Its answer is no 5xx, and accounts for each of its events."""
        body = b"[" + b",".join(events) + b"]" if array else b"\n".join(events)
        sent = {
            "httpMethod": "POST", "path": "/v1/streams/spec", "headers": {"Content-Type": "application/json"},
            "body": base64.b64encode(body).decode(), "isBase64Encoded": True, "requestContext": {},
        }  # fmt: skip
        with redirect_stdout(StringIO()):  # metrics
            answer = self._http.handler(sent, Context())
        said = json.loads(answer["body"])
        self.sent += held_in(events, self.envelope)
        if answer["statusCode"] == 202:
            counted = said["accepted"] + said["rejected"] + sum(said["ignored"].values())
            assert counted == held_in(events, self.envelope), said
        else:
            assert answer["statusCode"] == 400, said
            assert array or len(events) == 1, said
            self.refused[answer["statusCode"]] += held_in(events, self.envelope)

    def queue(self, events: list[bytes]) -> None:
        """Messages of one event each: all of them count as handled."""
        records = [
            {"messageId": f"{self.sent}-{i}", "messageAttributes": {"stream": {"stringValue": "spec"}},
             "body": one.decode()} for i, one in enumerate(events)
        ]  # fmt: skip
        with redirect_stdout(StringIO()):
            assert self._queue.handler({"Records": records}, Context()) == {"batchItemFailures": []}
        self.sent += held_in(events, self.envelope)

    def flush(self, *, again: bool = False) -> None:
        """All that is staged is committed, and nothing is held. `again`: what a job that died left, too.

        But for a stream whose source seems to have gone back: one event with a later time and a lower position says so,
        and somebody has to say that it did not (docs/quarantine.md).
        """
        epoch = self.seal()
        if epoch is None and again:
            epoch = max(epochs.numbers(self.lake.store, "spec"), default=None)
        if epoch is None or epoch <= cuts.newest(self.lake.store, "spec"):
            return
        code, store = self.commit(epoch), self.lake.store
        held = holds.read_all(store, "spec").held_stream(0)
        if held is not None:
            assert held.reason == "source_restored", held
            holds.lift(store, held, "retry", layout.instant(self.lake.now))
            self.released += 1
            code = self.commit(epoch)
        assert code == 0, [line for line in self.lake.lines if line.get("status") == "failed"]
        assert holds.read_all(store, "spec").held() == {}

    def commit(self, epoch: int) -> int:
        """The job for all up to this epoch: one that died left some. -> its exit code."""
        return self.lake.commit(cuts.newest(self.lake.store, "spec") + 1, epoch)

    def seal(self) -> int | None:
        """What is staged as one epoch; None if nothing is."""
        self.lake.now = datetime.now(UTC)
        try:
            return self.lake.seal()
        except AssertionError:
            return None

    def audit(self, *, deep: bool = True) -> Audit:
        """What `firn audit --deep` finds: each event once, each row what the specification makes of the log."""
        lake = self.lake
        known = ledger.read(lake.store, "spec", lambda names: histories(lake.catalog, "spec", names))
        found = audit(known, datetime.now(UTC))
        if deep:
            tables = loaded(lake.catalog, known.tables)
            config = lake.config.streams["spec"]
            rows = audit_rows(lake.store, lake.catalog, known, tables, lake.now, Keeping(), Depth(deep=True), config)
            found.take(rows)
        assert found.differences == [], found.differences
        assert (found.acked, found.difference) == (self.sent - self.refused.total(), 0)
        return found

    def dead(self) -> Counter[str]:
        """How many dead letters there are of each reason."""
        store = self.lake.store
        found = Counter[str]()
        for path in paths(store, "dead/spec/"):
            for (_, reason), count in count_dead(store, path)[1].items():
                found[reason] += count
        return found

    def fresh(self, table: str) -> int:
        """How many rows a fresh read finds."""
        return len(Reader(self.lake.catalog, lambda: self.lake.store).table(table).read(fresh=True).pylist())


ENVELOPES: Final = KNOWN.names
# --- through ingest, commit and audit

EVENTS: Final = times(1_000, 100_000)
_A_FLUSH: Final = times(1_000, 10_000)
# Events of all others are among those of `auto`.
BY_JOBS: Final = ENVELOPES if LONG else ("debezium", "flat", "cloudevents", "rows", "auto")
# Flushes that go Spark's way, which takes many times as long.
BY_SPARK: Final = dict.fromkeys(ENVELOPES, (3,)) if LONG else dict.fromkeys(ENVELOPES, ()) | {"auto": (0,)}
# The emitters' own are among those of `auto`.
COMMITTED: Final = [name for name in ENVELOPES if LONG or name not in WRITERS]


@few_cases(1)
@pytest.mark.spark
@pytest.mark.parametrize("envelope", BY_JOBS)
def test_every_event_of_the_grammar_ends_in_a_table_ignored_or_as_a_dead_letter(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envelope: str
) -> None:
    dice = random.Random(SEED)
    stream = Stream(spark, tmp_path, envelope, dice.choice(("null", "dead_letter")))
    grammar = Grammar(dice, envelope, TABLES)
    began, flushes = time.process_time(), 0
    while stream.sent < EVENTS:
        # Some ranges go Spark's way, some are read by processes of their own.
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0" if flushes in BY_SPARK[envelope] else "1000000")
        for _ in range(_A_FLUSH // 250):
            # What is wrong in an array that is not JSON is wrong with all of it: lines cost only themselves.
            stream.post([grammar.event() for _ in range(240)])
            stream.queue([grammar.event() for _ in range(10)])
        stream.flush()
        flushes += 1
    found = stream.audit()
    assert found.pending == 0
    # Uncounted: in a table whose first snapshots have expired, and with them what became of each.
    parts = found.merged, found.superseded, sum(found.ignored.values()), found.dead, found.uncounted
    assert sum(parts) == found.acked
    said = dict(zip(("merged", "superseded", "ignored", "dead", "uncounted"), parts, strict=True))
    print(f"{envelope}: {stream.sent} events, {flushes} flushes, {time.process_time() - began:.0f} s, FIRN_SEED={SEED}")
    print(said, dict(stream.dead()), f"refused: {dict(stream.refused)}, released: {stream.released}")
    assert min(found.merged, found.superseded, found.dead, stream.dead().total()) > 0


# --- in any order of what may happen


class Machine(RuleBasedStateMachine):
    """A stream whose events Hypothesis draws, and what happens to it."""

    spark: SparkSession
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.stream: Stream | None = None
        self.number = 0

    @initialize(envelope=st.sampled_from(ENVELOPES), out_of_range=st.sampled_from(("null", "dead_letter")))
    def begin(self, envelope: str, out_of_range: str) -> None:
        self.envelope = envelope
        self.stream = Stream(self.spark, Path(mkdtemp(dir=self.folder)), envelope, out_of_range)

    def events(self, dice: random.Random, count: int) -> list[bytes]:
        grammar = Grammar(dice, self.envelope, ("one", "two", "log"), wrong=0.5)
        grammar.n += self.stream.sent
        return [grammar.event() for _ in range(count)]

    @rule(dice=st.randoms(use_true_random=False), count=st.integers(1, 30))
    def post(self, dice: random.Random, count: int) -> None:
        self.stream.post(self.events(dice, count))

    @rule(dice=st.randoms(use_true_random=False), count=st.integers(1, 4))
    def queue(self, dice: random.Random, count: int) -> None:
        self.stream.queue(self.events(dice, count))

    @rule()
    def flush(self) -> None:
        self.stream.flush()

    @rule(after=st.integers(0, 3))
    def crash(self, after: int) -> None:
        """The job dies at one of its commits, before or after it."""
        epoch = self.stream.seal()
        if epoch is None:
            return
        real, made = fence.commit, itertools.count()

        def commit(*arguments: Any) -> None:
            number = next(made)
            if number == after and number % 2:
                raise Died
            real(*arguments)
            if number == after:
                raise Died

        with pytest.MonkeyPatch.context() as patch, suppress(Died):
            patch.setattr(fence, "commit", commit)
            self.stream.commit(epoch)

    @rule(table=st.sampled_from(("lake.one", "lake.two", "lake.log")))
    def read_fresh(self, table: str) -> None:
        with suppress(TableNotFound, NotFresh, NoSuchColumn):  # no table yet, or none with a column of its own
            self.stream.fresh(table)

    def teardown(self) -> None:
        if self.stream is not None:
            self.stream.flush(again=True)
            assert self.stream.audit().pending == 0


@pytest.mark.spark
def test_whatever_happens_to_a_stream_of_any_events_nothing_is_stuck_or_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    Machine.spark, Machine.folder = spark, tmp_path
    how = settings(
        max_examples=times(3, 200), stateful_step_count=times(8, 25), suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Machine, settings=how)
