"""firn jobs, and what flush and up say of a commit that takes long: EMR Serverless's answers are played by the test."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.deployment import flush_run
from firn.deployment.job_list import kind_of
from firn.deployment.stack import Stack
from firn.deployment.target import find_stack
from firn.log import cuts, job_progress, layout, published_configs
from firn.log.job_progress import JobProgress
from firn.log.store import open_store, put
from firn_cli.main import main
from firn_local import commit_progress

NOW = datetime.now(UTC)
CONFIG = "streams: {shop: {tables: {a: {to: shop.a, key: [id]}}}, web: {tables: {b: {to: web.b, key: [id]}}}}"
RUN = "firn-shop-3-4-1"
RUNS = [
    ("00f3", "firn-shop-5-5-1", "PENDING", ""),
    ("00f2", RUN, "RUNNING", ""),
    ("00f1", "care-0a1b", "SUCCESS", ""),
    ("00f0", "firn-shop-1-2-1", "FAILED", "exit code 1"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    said = {"url": "http://127.0.0.1:1", "staging": f"file://{tmp_path}/staging", "pid": 1, "env": {}}
    (tmp_path / "stack.json").write_text(json.dumps(said))
    published_configs.publish(open_store(said["staging"]), CONFIG)

    def emr(_stack: Stack, operation: str, **request: Any) -> Any:
        if operation == "get_job_run":
            [(_, name, state, details)] = [one for one in RUNS if one[0] == request["jobRunId"]]
            return {"jobRun": {"name": name, "state": state, "stateDetails": details}}
        begun = [NOW - timedelta(seconds=60 * n) for n, _ in enumerate(RUNS)]
        rows = [
            {"id": run, "name": name, "state": state, "stateDetails": why, "createdAt": at, "updatedAt": at}
            for at, (run, name, state, why) in zip(begun, RUNS, strict=True)
        ]
        return {"jobRuns": rows[: request["maxResults"]]}

    monkeypatch.setattr(flush_run, "_emr", emr)
    return tmp_path


def progress(folder: Path, **changed: Any) -> None:
    at = layout.instant(datetime.now(UTC))
    one = JobProgress(1, RUN, "shop", 3, 4, "folding", 1_200_000, 3_000_000, 0, 1, at, at, 40)
    found = msgspec.structs.replace(one, **changed)
    put(open_store(f"file://{folder}/staging"), layout.progress_path(found.stream), msgspec.json.encode(found))


def shown(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["jobs", "--dir", str(folder), *options]) == 0
    return capsys.readouterr().out


def test_a_running_commit_says_stage_rows_and_what_is_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress(folder)
    told = shown(folder, capsys)
    assert "folding 1,200,000 of 3,000,000 rows, about 40 s left" in told
    assert "exit code 1" in told
    found = json.loads(shown(folder, capsys, "--json"))
    assert [one["run"] for one in found] == ["00f3", "00f2", "00f1", "00f0"]
    assert [one["kind"] for one in found] == ["commit", "commit", "maintenance", "commit"]
    assert [one["progress"] and one["progress"]["rows"] for one in found] == [None, 1_200_000, None, None]
    assert [one["run"] for one in json.loads(shown(folder, capsys, "--json", "--limit", "1"))] == ["00f3"]


@pytest.mark.parametrize(
    ("name", "kind"), [("backfill-0a1b", "backfill"), ("rebuild-0a1b", "rebuild"), ("mine", "other")]
)
def test_a_run_says_what_it_does(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("stdout", "told"),
    [
        (
            '{"status": "runs with"}\n{"status": "failed", "error": "no such host"}\n',
            "no such host\n(its logs: {jobs})",
        ),
        ('{"status": "failed", "error": "no such host"}\nKilled', "--- {jobs}/stdout ---"),
        ("", "--- {jobs}/stderr ---\nOutOfMemoryError"),
    ],
)
def test_of_a_run_that_failed_its_own_words_come_first(folder: Path, stdout: str, told: str) -> None:
    jobs = folder / "jobs" / "00f0"
    jobs.mkdir(parents=True)
    (jobs / "stdout").write_text(stdout)
    (jobs / "stderr").write_text("OutOfMemoryError\n")
    assert flush_run.log_tail(find_stack(folder, running=False), "00f0").startswith(told.format(jobs=jobs))


@pytest.mark.parametrize(
    "left",
    [
        {"run": "firn-shop-3-4-0"},
        {"at": layout.instant(NOW - timedelta(minutes=2))},
        {"run": "firn-shop-1-2-1", "first": 1, "last": 2},  # that run has failed
    ],
)
def test_what_a_dead_job_left_is_not_shown_as_running(
    left: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress(folder, **left)
    assert "folding" not in shown(folder, capsys)


def test_what_is_committed_is_not_shown_as_running(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress(folder)
    cuts.write(open_store(f"file://{folder}/staging"), cuts.make("shop", 4, layout.instant(NOW), {}))
    assert "folding" not in shown(folder, capsys)


def test_a_shared_run_says_which_stream_it_commits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress(folder, stream="web")
    assert "web: folding 1,200,000 of" in shown(folder, capsys)


def test_no_line_is_wider_than_a_terminal_of_80_columns(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress(folder, rows=1_200_000_000, planned=3_000_000_000, seconds_left=9_000)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    told = shown(folder, capsys)
    assert "1,200,000,000" in told
    assert max(map(len, told.splitlines())) <= 80


def test_a_flush_says_how_far_the_commit_is_that_it_waits_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack(folder, "http://127.0.0.1:1", staging=f"file://{folder}/staging")
    flushed = flush_run.StreamFlushed("shop")
    pending = flush_run._Pending(flushed, 3, 4, "00f2", ours=True)
    said: list[str] = []

    def look() -> None:
        flush_run._committed(stack, stack.store(), pending, lambda _, text: said.append(text))

    look()
    progress(folder)
    look()  # not asked for again so soon
    monkeypatch.setattr(flush_run, "_LOOK_SECONDS", 0)
    look()
    progress(folder, run="firn-shop-3-4-2")
    look()
    waits = "epoch 4, job running"
    assert said == [waits, waits, "folding 1,200,000 of 3,000,000 rows, about 40 s left", waits]


def test_up_says_how_far_commits_are_that_run_on_this_machine(folder: Path) -> None:
    progress(folder)
    progress(folder, stream="web", seconds_left=None)
    (folder / "staging/attempts/other").mkdir()
    (folder / "staging/attempts/other/progress.json").write_bytes(b"{")

    def lines(*running: str, after: float = 0) -> list[str]:
        now = datetime.now(UTC) + timedelta(seconds=after)
        return list(commit_progress.lines(folder / "staging", running, now))

    rows = "folding 1,200,000 of 3,000,000 rows"
    assert lines(RUN) == [f"shop: {rows}, about 40 s left", f"web: {rows}"]
    assert lines(RUN, after=job_progress.SOON_SECONDS + 1) == []
    assert lines("firn-shop-5-5-1") == lines() == []
