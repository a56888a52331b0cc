"""`firn backfill` as people call it, over a staging area in files; the job itself is played by the test."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.backfill import backfill_request as requests
from firn.backfill import chunk_plan, progress
from firn.backfill.backfill_request import End
from firn.backfill.chunk_claims import Claim
from firn.backfill.chunk_plan import Chunk, Plan, PlannedTable
from firn.deployment import flush_run
from firn.deployment.stack import Stack
from firn.log import backfill_layout, layout, published_configs
from firn.log.batches import FORMAT
from firn.log.store import Store, get, paths, put
from firn.runs.emr import EmrJobs
from firn.settings import Settings
from firn_cli.main import main

CONFIG = """
warehouse: file:///w
catalog: {{type: sql}}
streams:
  shop: {{generation: {generation}, tables: {{public.*: {{to: 'shop.{{table}}', key: [id]}}}}}}
"""
FROM = "postgres://reader:geheim@db.example.org/shop"
NOW = "2026-03-01T00:00:00.000Z"
TIME = datetime(2026, 3, 1, tzinfo=UTC)


class Job:
    """EMR Serverless's client as far as it is called, and the job: it plans two chunks and stages one, and the second
    time the other one."""

    def __init__(self, store: Store) -> None:
        self.started: list[list[str]] = []
        self.active: list[str] = []
        self.dies = False
        self._store = store

    def start_job_run(self, **request: Any) -> dict[str, str]:
        spark = request["jobDriver"]["sparkSubmit"]
        self.started.append([spark["entryPoint"], *spark["entryPointArguments"]])
        given = dict(zip(spark["entryPointArguments"][::2], spark["entryPointArguments"][1::2], strict=True))
        backfill = given["--backfill"]
        plan = Plan(FORMAT, backfill, NOW, [PlannedTable("public.t", "{}", [], rows=20)], [Chunk(0, "public.t")] * 2)
        chunk_plan.fix(self._store, "shop", plan)
        for n in range(1 if self.dies else 2):
            claim = msgspec.json.encode(Claim(FORMAT, layout.batch_id("shop", TIME, b"12345678"), 10, 100, "0/5"))
            put(self._store, backfill_layout.chunk_path("shop", backfill, n, 1), claim)
        if not self.dies:
            requests.end(self._store, "shop", backfill, End(FORMAT, "done", NOW, 20, 2, 200))
        return {"jobRunId": "00f1"}

    def list_job_runs(self, **_: Any) -> dict[str, Any]:
        return {"jobRuns": [{"name": name, "id": "00a7"} for name in self.active]}


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def job(store: Store) -> Job:
    return Job(store)


@pytest.fixture
def run(
    tmp_path: Path, store: Store, addresses: dict[str, str], job: Job, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:  # fmt: skip
    """Calls the command -> exit code, stdout, stderr. `generation`: of the stream."""
    folder = tmp_path / "stack"
    folder.mkdir(exist_ok=True)
    (folder / "stack.json").write_text(json.dumps({"url": "http://127.0.0.1:1", **addresses}))
    settings = Settings(
        staging=addresses["staging"], emr_application="00a", emr_role="r", job_entry_point="s3://code/commit.py"
    )
    monkeypatch.setattr(Stack, "jobs", lambda *_, **__: EmrJobs(settings, job))
    monkeypatch.setattr(flush_run, "run_state", lambda *_: ("FAILED" if job.dies else "SUCCESS", ""))
    monkeypatch.setattr(flush_run, "cancel", lambda *_: None)
    monkeypatch.delenv("FIRN_SOURCE_PASSWORD", raising=False)

    def call(*arguments: str, generation: int = 0) -> tuple[int, str, str]:
        published_configs.publish(store, CONFIG.format(generation=generation))
        code = main(["backfill", *arguments, "--dir", str(folder), "--no-commit"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_it_starts_the_job_and_tells_what_was_staged(run: Run, job: Job, store: Store) -> None:
    code, out, _ = run("shop", "public.t", "--from", FROM, "--json")
    told = json.loads(out)
    assert (code, told["status"], told["rows"], told["tables"]) == (0, "done", 20, {"public.t": 20})
    (words,) = job.started
    assert words[0] == "s3://code/backfill.py"
    assert words[words.index("--backfill") + 1] == told["backfill"]


def test_the_password_is_in_a_file_of_the_stack_until_the_end_and_nowhere_else(
    run: Run, job: Job, store: Store, tmp_path: Path
) -> None:
    job.dies = True
    assert run("shop", "--from", FROM)[0] == 1
    (kept,) = (tmp_path / "stack" / "secrets").iterdir()
    assert kept.read_text() == "geheim"
    assert kept.stat().st_mode & 0o077 == 0
    stored = [get(store, path) or b"" for path in paths(store, "backfills")]
    assert stored
    assert not any(b"geheim" in data for data in stored)
    assert not any("geheim" in word for words in job.started for word in words)
    job.dies = False
    assert run("shop", "--from", FROM)[0] == 0
    assert not kept.exists()


def test_the_same_command_goes_on_and_another_one_is_refused(run: Run, job: Job, store: Store) -> None:
    job.dies = True
    code, _, err = run("shop", "--from", FROM)
    assert code == 1
    assert "what is staged stays: fix the cause and give the same command again" in err
    (note,) = progress.notes(store, "shop")
    assert "has staged 1 of 2 chunks, 10 of about 20 rows" in note
    assert "geheim" not in note
    code, _, err = run("shop", "--from", FROM, "--where", "id < 5")
    assert (code, "that asks for something else" in err) == (1, True)
    job.dies = False
    assert run("shop", "--from", FROM, "--parallel", "2")[0] == 0  # however quickly
    assert len({words[words.index("--backfill") + 1] for words in job.started}) == 1
    assert progress.notes(store, "shop") == []
    assert run("shop", "--from", FROM)[0] == 0  # it is done: this is another one
    assert len(requests.all_of(store, "shop")) == 2


def test_a_job_that_is_at_work_is_waited_for(run: Run, job: Job, store: Store) -> None:
    job.dies = True
    run("shop", "--from", FROM)
    (request,) = requests.open_ones(store, "shop")
    job.active = [f"backfill-shop-{request.id}-abc"]
    run("shop", "--from", FROM)
    assert len(job.started) == 1


def test_it_is_cancelled(run: Run, job: Job, store: Store) -> None:
    job.dies = True
    run("shop", "--from", FROM)
    code, out, _ = run("shop", "--cancel")
    assert (code, "is cancelled" in out) == (0, True)
    assert requests.open_ones(store, "shop") == []
    assert run("shop", "--cancel")[1] == "none was open\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shop"], "sources: of firn.yaml has none for stream shop"),
        (["shop", "t", "--from", "http://x"], "or files as s3://bucket"),
        (["shop", "--from", "mysql://reader@db"], "lacks a user, a host or a database; write mysql://"),
        (["shop", "--from", "/x/*.csv"], "files fill one table"),
        (["shop", "--from", "postgres://db/x"], "lacks a user, a host or a database"),
        (["other", "--from", FROM], "firn.yaml has no stream other; it has shop"),
        (["shop", "--from", FROM, "--by", "luck"], "write auto, key or ctid"),
        (["shop", "--from", FROM, "--replace"], "raise `generation` of stream shop"),
        (["shop", "--from", FROM, "--password", "geheim"], "write secretsmanager:NAME"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_started(run: Run, job: Job, words: list[str], said: str) -> None:
    code, _, err = run(*words)
    assert code in (1, 2)
    assert said in " ".join(err.replace("│", " ").split())
    assert "geheim" not in err
    assert job.started == []


def test_replace_takes_whole_tables_under_a_raised_generation(run: Run, job: Job) -> None:
    assert run("shop", "--from", FROM, "--replace", "--where", "x", generation=1)[0] == 1
    assert run("shop", "--from", FROM, "--replace", generation=1)[0] == 0
