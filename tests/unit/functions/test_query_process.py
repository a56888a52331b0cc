"""The worker behind the query function: what ends it, and what comes after; and what its answers can't hold."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import obstore.store
import pytest
from pyiceberg.catalog import Catalog

from firn.errors import StorageUnavailable
from firn.log.store import ObjectWriter, Store, paths
from firn.settings import Settings
from firn_lake import query_process, query_responses
from firn_lake.query_process import NotStarted, QueryProcess
from tests.soak import few_cases, long_only
from tests.unit.functions.test_query import ask, loaded, post
from tests.unit.functions.test_query import catalog as catalog
from tests.unit.functions.test_query import store as store

LONG = "range(1_000_000)"
SLEEP = "SELECT sleep_ms(20_000) AS sesame"


@pytest.fixture
def app(load: Callable[..., ModuleType], catalog: Catalog, tmp_path: Path) -> ModuleType:
    """The function with a warm worker."""
    app = loaded(load, catalog, tmp_path, open_reads=True)
    assert post(app, "SELECT 1 AS one")[0] == 200
    return app


def worker_of(app: ModuleType) -> int:
    pid: int = app.process._worker._process.pid
    return pid


def bound(app: ModuleType, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    opened = app.staging()
    changed = opened._replace(settings=replace(opened.settings, **settings))
    monkeypatch.setattr(app, "staging", lambda: changed)


@few_cases(1)
@pytest.mark.parametrize(
    ("with_signal", "status", "code", "message"),
    [
        (signal.SIGSEGV, 500, "query_crashed", "SIGSEGV"),
        (signal.SIGABRT, 500, "query_crashed", "SIGABRT"),
        (signal.SIGKILL, 413, "too_large", "more memory than there was"),  # as the kernel does
    ],
)
def test_a_worker_that_dies_is_an_answer_and_the_next_one_works(
    app: ModuleType, with_signal: signal.Signals, status: int, code: str, message: str
) -> None:
    first = worker_of(app)
    threading.Timer(0.5, os.kill, (first, with_signal)).start()
    found, told = post(app, SLEEP)
    assert (found, told["error"]) == (status, code)
    assert message in told["message"]
    assert post(app, "SELECT id FROM orders ORDER BY id")[1]["rows"] == [{"id": 1}, {"id": 3}]
    assert worker_of(app) != first


@long_only
def test_a_worker_that_died_while_nothing_was_asked_is_replaced(app: ModuleType) -> None:
    os.kill(worker_of(app), signal.SIGKILL)
    os.waitid(os.P_PID, worker_of(app), os.WEXITED | os.WNOWAIT)
    assert post(app, "SELECT 1 AS one")[0] == 200


@long_only
def test_a_worker_that_never_becomes_ready_is_replaced_in_time() -> None:
    process = QueryProcess()
    try:
        os.kill(process._worker._process.pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(NotStarted, match=r"was not ready after 0\.3 seconds"):
            process.await_ready(0.3)
        assert time.monotonic() - began < 3
        process.await_ready(60)
    finally:
        process.close()


def test_a_function_whose_worker_never_becomes_ready_answers_before_its_time_ends(app: ModuleType) -> None:
    class Context:
        aws_request_id = "1"

        def get_remaining_time_in_millis(self) -> int:
            return 3000

    os.kill(worker_of(app), signal.SIGKILL)
    os.waitid(os.P_PID, worker_of(app), os.WEXITED | os.WNOWAIT)
    stopping = threading.Thread(target=stop_next, args=(app, worker_of(app)))
    stopping.start()
    began = time.monotonic()
    event = {"httpMethod": "POST", "path": "/v1/query", "headers": {}, "body": json.dumps({"sql": "SELECT 1"})}
    found = app.handler({**event, "requestContext": {}}, Context())
    stopping.join()
    assert (found["statusCode"], json.loads(found["body"])["error"]) == (503, "not_started")
    assert time.monotonic() - began < 3


def stop_next(app: ModuleType, first: int) -> None:
    """Stops the worker that comes after `first`, as soon as it is there."""
    while worker_of(app) == first:
        time.sleep(0.001)
    os.kill(worker_of(app), signal.SIGSTOP)


@few_cases(1)
@pytest.mark.parametrize(
    ("settings", "sql", "message"),
    [
        ({"query_process_bytes": 400_000_000, "query_seconds": 5}, "SELECT range(100_000_000) AS x",
         "400 MB of memory"),
        ({"query_cpu_seconds": 1}, f"SELECT count(*) AS x FROM {LONG} a, {LONG} b", "1 seconds of CPU"),
        ({"query_seconds": 1}, "SELECT levenshtein(repeat('a', 200_000), repeat('b', 200_000)) AS x", "its 1 seconds"),
    ],
)  # fmt: skip
def test_a_query_that_takes_more_than_its_bounds_is_killed(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], sql: str, message: str
) -> None:
    first = worker_of(app)
    bound(app, monkeypatch, **settings)
    status, told = post(app, sql)
    assert (status, told["error"]) == (413, "too_large")
    assert message in told["message"]
    assert worker_of(app) != first


def test_a_query_that_can_be_interrupted_leaves_the_worker_warm(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = worker_of(app)
    bound(app, monkeypatch, query_seconds=1)
    assert post(app, f"SELECT count(*) AS x FROM {LONG} a, {LONG} b")[0] == 413
    assert worker_of(app) == first


def test_a_worker_that_kept_much_memory_is_replaced(app: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    first = worker_of(app)
    bound(app, monkeypatch, query_process_bytes=2 * app.process.resident())
    assert post(app, "SELECT id FROM orders")[0] == 200
    assert worker_of(app) != first


@long_only
def test_a_query_ends_before_the_functions_time_does(app: ModuleType) -> None:
    class Context:
        aws_request_id = "1"

        def get_remaining_time_in_millis(self) -> int:
            return 4000

    began = time.monotonic()
    event = {"httpMethod": "POST", "path": "/v1/query", "headers": {}, "body": json.dumps({"sql": SLEEP})}
    assert app.handler({**event, "requestContext": {}}, Context())["statusCode"] == 413
    assert time.monotonic() - began < 4


ASKING = """
import json, sys
from firn_lake.query_process import Bounds, QueryProcess
from firn.config.reader_scopes import Everything
from firn_lake.query_protocol import Question
process = QueryProcess()
process.await_ready()
print(process._worker._process.pid, flush=True)
folder, sql = sys.argv[1:]
question = Question("query", Everything(), f"file://{folder}/staging", f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse",
                    20, 100, "1GB", json.dumps({"sql": sql}).encode())
process.ask(question, Bounds(2_000_000_000, 100), print, print)
"""


def test_the_end_of_the_function_ends_a_query_that_runs(catalog: Catalog, tmp_path: Path) -> None:
    sql = "SELECT levenshtein(repeat('a', 200_000), repeat('b', 200_000)) AS x"  # knows no interrupt
    function = subprocess.Popen([sys.executable, "-c", ASKING, tmp_path, sql], stdout=subprocess.PIPE, text=True)
    assert function.stdout is not None
    worker = int(function.stdout.readline())
    time.sleep(3)
    assert function.poll() is None
    function.kill()
    function.wait()
    function.stdout.close()
    ends = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text().split()[2]:
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_worker_that_does_not_start_is_503_with_its_reason_in_the_log(
    load: Callable[..., ModuleType], catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = loaded(load, catalog, tmp_path, open_reads=True)
    (tmp_path / "broken" / "duckdb").mkdir(parents=True)
    (tmp_path / "broken" / "duckdb" / "__init__.py").write_text("raise ImportError('no such engine')")
    with monkeypatch.context() as changed:
        changed.setattr(query_process.sys, "path", [str(tmp_path / "broken"), *sys.path])
        app.process = QueryProcess()  # type: ignore[attr-defined]
        written = io.StringIO()
        changed.setattr(app.logger.registered_handler, "stream", written)
        app.logger.setLevel(logging.ERROR)
        status, told = post(app, "SELECT 1 AS one")
        assert (status, told["error"]) == (503, "not_started")
        assert "no such engine" in written.getvalue()
    app.process._replace()
    assert post(app, "SELECT 1 AS one")[0] == 200
    app.process.close()


# Results.
def test_a_result_that_is_too_large_is_never_there_in_part(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    bound(app, monkeypatch, query_memory="12MB")
    monkeypatch.setattr(query_responses, "INLINE_BYTES", 100_000)
    status, told = post(app, "SELECT i AS a_rather_long_name, i AS another_such_name FROM range(300_000) t(i)")
    assert (status, told["error"]) == (413, "too_large")
    assert "larger than 12MB" in told["message"]
    assert paths(store, "results") == []
    assert "url" in post(app, "SELECT i FROM range(100_000) t(i)")[1]
    assert len(paths(store, "results")) == 1


def test_storage_that_goes_away_under_a_result_is_503(app: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StorageUnavailable("s3 says no")

    monkeypatch.setattr(query_responses, "INLINE_BYTES", 1000)
    monkeypatch.setattr(ObjectWriter, "write", away)
    assert post(app, "SELECT i FROM range(1_000_000) t(i)")[0] == 503
    assert post(app, "SELECT 1 AS one")[0] == 200


def test_an_object_is_there_once_it_is_closed() -> None:
    memory = obstore.store.MemoryStore()
    writer = ObjectWriter(memory, "results/x")
    for _ in range(3):
        writer.write(b"x" * 4_000_000)
    assert paths(memory, "results") == []
    writer.close()
    assert memory.head("results/x")["size"] == 12_000_000


@few_cases(8)
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("MAP {1: 'a'}", [[1, "a"]]),
        ("INTERVAL 14 MONTH + INTERVAL 3 DAY + INTERVAL 1 SECOND", [14, 3, 1_000_000_000]),
        ("union_value(n := 2)", 2),
        ("'a'::ENUM ('a', 'BIT')", "a"),
        ("170141183460469231731687303715884105727::HUGEINT", "170141183460469231731687303715884105727"),
        ("18446744073709551615::UBIGINT", 18446744073709551615),
        ("'\\xff'::BLOB", "/w=="),
        ("'-inf'::DOUBLE", None),
        ("['nan'::DOUBLE]", [None]),
        ("DATE '9999-12-31'", "9999-12-31"),
        ("DATE '0001-01-01'", "0001-01-01"),
        ("TIMESTAMP '9999-12-31 23:59:59.999999'", "9999-12-31T23:59:59.999999"),
        ("TIME '23:59:59.999999'", "23:59:59.999999"),
        ("{'BIT': 1}", {"BIT": 1}),
        ("chr(0)", "\x00"),
    ],
)
def test_values_have_their_documented_form_in_json(app: ModuleType, expression: str, told: Any) -> None:
    status, found = post(app, f"SELECT {expression} AS value")
    assert (status, found["rows"]) == (200, [{"value": told}])


OF_NO_YEAR = ("json", "csv")
IN_NONE = ("json", "csv", "arrow", "parquet")


@few_cases(8)
@pytest.mark.parametrize(
    ("expression", "formats", "kind"),
    [
        ("DATE '10000-01-01'", OF_NO_YEAR, "date32"),
        ("DATE '0044-03-15 (BC)'", OF_NO_YEAR, "date32"),
        ("DATE 'infinity'", OF_NO_YEAR, "date32"),
        ("'infinity'::TIMESTAMP", OF_NO_YEAR, "timestamp"),
        ("'-infinity'::TIMESTAMPTZ", OF_NO_YEAR, "timestamp"),
        ("TIMESTAMP_S '20000-01-01'", OF_NO_YEAR, "timestamp[s]"),
        ("TIME '24:00:00'", OF_NO_YEAR, "time64"),
        ("[{'d': DATE 'infinity'}]", OF_NO_YEAR, "list"),
        ("MAP {'d': 'infinity'::TIMESTAMP}", OF_NO_YEAR, "map"),
        ("INTERVAL 1 DAY", ("csv", "parquet"), "interval"),
        ("union_value(n := 2)", ("csv", "parquet"), "union"),
        ("'\\xff'::BLOB", ("csv",), "binary"),
        ("{'a': 1}", ("csv",), "struct"),
        ("340282366920938463463374607431768211455::UHUGEINT", IN_NONE, "UHUGEINT"),
        ("['101'::BIT]", IN_NONE, "BIT[]"),
        ("MAP {1: 1::BIGNUM}", IN_NONE, "BIGNUM"),
        ("TIMETZ '12:00:00+02'", IN_NONE, "TIME WITH TIME ZONE"),
    ],
)
def test_what_a_format_can_not_hold_names_the_column(
    app: ModuleType, expression: str, formats: tuple[str, ...], kind: str
) -> None:
    for form in IN_NONE:
        asked = {"sql": f"SELECT 1 AS one, {expression} AS value", "format": form}
        status, _, body = ask(app, "POST", "/v1/query", asked)
        assert status == (422 if form in formats else 200), (form, body)
        if status == 422:
            told = json.loads(body)
            assert told["error"] == "not_encodable"
            assert "'value'" in told["message"]
            assert kind in told["message"]


def test_long_sql_is_refused_before_it_is_parsed(app: ModuleType) -> None:
    began = time.monotonic()
    status, told = post(app, f"SELECT [{','.join(map(str, range(200_000)))}] AS x")
    assert (status, told["error"]) == (413, "too_large")
    assert time.monotonic() - began < 5


@long_only
def test_no_log_holds_what_ended_a_worker(app: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = io.StringIO()
    monkeypatch.setattr(app.logger.registered_handler, "stream", written)
    app.logger.setLevel(logging.DEBUG)
    threading.Timer(0.5, os.kill, (worker_of(app), signal.SIGABRT)).start()
    assert post(app, SLEEP)[0] == 500
    assert post(app, "SELECT DATE 'infinity' AS sesame")[0] == 422
    monkeypatch.setattr(app, "asked", lambda *_: 1 / 0)
    status, told = post(app, "SELECT 'sesame'")
    assert (status, told["error"]) == (500, "internal")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["kind"] for line in lines if "kind" in line] == [
        "was ended by SIGABRT",
        "NotEncodable",
        "ZeroDivisionError",
    ]
    assert not any(word in written.getvalue() for word in ("sesame", "SELECT", "infinity"))


@pytest.mark.parametrize(("megabytes", "left"), [("3008", 2496 << 20), ("512", 256 << 20), ("", 2_500_000_000)])
def test_the_worker_has_what_the_function_leaves_it(megabytes: str, left: int) -> None:
    found = Settings.from_environment({"FIRN_STAGING": "memory://x", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": megabytes})
    assert found.query_process_bytes == left
