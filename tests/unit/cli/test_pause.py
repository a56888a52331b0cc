"""firn pause and resume over a real staging store and the embedded EMR Serverless; jobs are played by the test."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ingress import Ingress

from firn.deployment.flush_run import flush
from firn.deployment.stack import Paused, Stack
from firn.errors import TransientError
from firn.log import pause, published_configs
from firn.log.store import Store
from firn_cli.commands import pause as commands
from firn_cli.commands.pause import NotQuiet, wait_until_quiet
from firn_cli.main import main
from firn_local.aws import AwsEndpoint
from firn_local.emr import EmrServerless
from firn_local.emr_runs import JobRun, Runner
from firn_local.spark_submit import SparkSubmit

real_sleep = time.sleep
CONFIG = "streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}"
NOTHING: dict[str, Any] = {"streams": [{"stream": "shop", "pending": None, "run": None, "waits_for": None}]}


class Held(Runner):
    """Takes runs and never starts them."""

    def submit(self, run: JobRun) -> None:
        run.state = "RUNNING"

    def cancel(self, run: JobRun, grace: float = 0.0) -> None:
        run.state = "CANCELLED"


@pytest.fixture
def stack(tmp_path: Path, ingress: Ingress, monkeypatch: pytest.MonkeyPatch, store: Store) -> Iterator[Stack]:
    """A stack whose dispatcher answers as the test says; it is in `tmp_path` for the commands."""
    monkeypatch.setattr(commands, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(commands, "_SETTLE_SECONDS", 0.0)
    runner = Held(tmp_path / "jobs", SparkSubmit(environment={}))
    emr = EmrServerless(runner)
    endpoint = AwsEndpoint(others={"emr-serverless": emr})
    endpoint.start()
    env = endpoint.credentials | {
        "FIRN_EMR_APPLICATION_ID": emr.ensure_application("firn", "emr-spark-8.0.0"),
        "FIRN_EMR_ROLE_ARN": "arn:aws:iam::123456789012:role/job",
        "FIRN_STAGING": f"file://{tmp_path}/staging",
        "FIRN_WAREHOUSE": f"file://{tmp_path}/warehouse",
        "FIRN_CATALOG_URI": f"sqlite:///{tmp_path}/catalog.db",
        "FIRN_JOB_ENTRY_POINT": "/job/commit.py",
    }
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    described = {
        "url": ingress.url,
        "staging": env["FIRN_STAGING"],
        "warehouse": env["FIRN_WAREHOUSE"],
        "catalog_uri": env["FIRN_CATALOG_URI"],
        "env": env,
    }
    (tmp_path / "stack.json").write_text(json.dumps(described))
    published_configs.publish(store, CONFIG)
    ingress.answers["/_firn/invoke/dispatch"] = NOTHING
    yield Stack(tmp_path, ingress.url, env["FIRN_STAGING"], env=env)
    runner.close()
    endpoint.stop()


def firn(capsys: pytest.CaptureFixture[str], stack: Stack, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments, "--dir", str(stack.dir)])
    out, err = capsys.readouterr()
    return code, out, err


def started(stack: Stack, name: str) -> str:
    return stack.jobs().start_script("commit.py", [], name, name.rjust(32, "0"), {})


def test_a_pause_is_said_by_status_and_doctor_and_flush_until_it_is_resumed(
    capsys: pytest.CaptureFixture[str], stack: Stack, store: Store, ingress: Ingress
) -> None:
    code, out, _ = firn(capsys, stack, "pause")
    since = f"{datetime.now(UTC):%Y-%m-%d}"
    assert (code, out.splitlines()[1:]) == (0, ["no job runs", "firn resume goes on"])
    assert out.startswith(f"paused since {since}")
    assert firn(capsys, stack, "pause")[0] == 0
    assert f"paused since {since}" in firn(capsys, stack, "status")[1]
    (status,) = json.loads(firn(capsys, stack, "status", "--json")[1])
    assert status["paused_since"].startswith(since)
    doctor = json.loads(firn(capsys, stack, "doctor", "--json")[1])
    assert "no job starts; firn resume" in next(one["found"] for one in doctor if one["name"] == "pause")
    before = len(ingress.requests)
    code, _, err = firn(capsys, stack, "flush")
    assert (code, len(ingress.requests)) == (1, before), "dispatch was asked"
    assert f"firn: paused since {since}" in err
    assert "firn resume" in err
    for command in ("compact", "expire"):
        assert "firn: paused since" in firn(capsys, stack, command, "shop.orders")[2]
    assert pause.since(store) is not None

    code, out, _ = firn(capsys, stack, "resume")
    assert code == 0
    assert re.fullmatch(r"resumed; the pause began \d+ s ago\nshop: nothing waits for a job\n", out)
    assert pause.since(store) is None
    assert firn(capsys, stack, "resume")[1].startswith("it was not paused\n")
    assert "paused" not in firn(capsys, stack, "status")[1]


def test_resume_starts_what_waits_and_says_so(
    capsys: pytest.CaptureFixture[str], stack: Stack, ingress: Ingress
) -> None:
    firn(capsys, stack, "pause")
    ingress.answers["/_firn/invoke/dispatch"] = {
        "streams": [{"stream": "shop", "pending": [4, 6], "run": "00f1", "waits_for": None}]
    }
    assert firn(capsys, stack, "resume")[1].endswith("shop: job 00f1 commits epochs 4 to 6\n")


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_resume_that_does_not_reach_a_stream_fails_after_it_has_told_of_all(
    capsys: pytest.CaptureFixture[str], stack: Stack, ingress: Ingress, how: tuple[str, ...]
) -> None:
    ingress.answers["/_firn/invoke/dispatch"] = {
        "streams": [{"stream": "crm", "error": "EMR is away"}, *NOTHING["streams"]]
    }
    code, out, _ = firn(capsys, stack, "resume", *how)
    assert (code, "EMR is away" in out, "shop" in out) == (1, True, True)


def test_a_resume_whose_dispatch_fails_says_that_it_is_resumed(
    capsys: pytest.CaptureFixture[str], stack: Stack, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise TransientError("nobody answers")

    pause.begin(store)
    monkeypatch.setattr(Stack, "invoke_dispatch", away)
    code, _, err = firn(capsys, stack, "resume")
    assert (code, pause.since(store)) == (1, None)
    assert "resumed, but" in err
    assert "nobody answers" in err


def test_a_pause_waits_for_the_jobs_that_run_and_says_for_how_many(stack: Stack, store: Store) -> None:
    from firn.deployment.flush_run import cancel

    runs = [started(stack, name) for name in ("firn-shop-1-2-1", "care-0abc")]
    started(stack, "somebody-elses")
    pause.begin(store)
    seen: list[str] = []

    def report(text: str) -> None:
        seen.append(text)
        if runs:
            cancel(stack, runs.pop())

    wait_until_quiet(stack, store, report=report, timeout=20, settle=0)
    assert seen[0] == "waiting for 2 jobs (care-0abc, …)"
    assert "waiting for 1 job (firn-shop-1-2-1)" in seen


def test_a_wait_ends_at_its_time_out_and_when_somebody_resumes(
    capsys: pytest.CaptureFixture[str], stack: Stack, store: Store
) -> None:
    started(stack, "firn-shop-1-2-1")
    code, _, err = firn(capsys, stack, "pause", "--wait", "--timeout", "1")
    assert code == 1
    assert "not quiet after 1 s (waiting for 1 job (firn-shop-1-2-1)); it stays paused" in err
    assert pause.since(store) is not None
    with pytest.raises(NotQuiet, match="somebody resumed"):
        wait_until_quiet(stack, store, report=lambda _: pause.end(store), timeout=20, settle=0)


def test_a_wait_outlasts_a_function_that_had_looked_before(stack: Stack, store: Store) -> None:
    """It may start a job for as long as it may run."""
    pause.begin(store)
    seen: list[str] = []

    def report(text: str) -> None:
        seen.append(text)
        if len(seen) == 1:
            started(stack, "firn-shop-1-2-1")

    with pytest.raises(NotQuiet, match="waiting for 1 job"):
        wait_until_quiet(stack, store, report=report, timeout=3, settle=60)
    assert "no job runs; looking for" in seen[0]


def test_the_application_is_stopped_once_nothing_runs_and_starts_again_by_itself(
    capsys: pytest.CaptureFixture[str], stack: Stack
) -> None:
    from firn.deployment.flush_run import application_state, cancel

    cancel(stack, started(stack, "firn-shop-1-1-1"))
    assert application_state(stack) == "STARTED"
    code, out, _ = firn(capsys, stack, "pause", "--stop")
    assert (code, application_state(stack)) == (0, "STOPPED")
    assert "no job runs, and the EMR application is stopped" in out
    assert json.loads(firn(capsys, stack, "pause", "--stop", "--json")[1])["stopped"] is True
    started(stack, "firn-shop-1-2-1")
    assert application_state(stack) == "STARTED"


def test_a_stack_that_runs_no_jobs_is_paused_and_has_nothing_to_stop(
    capsys: pytest.CaptureFixture[str], stack: Stack, store: Store
) -> None:
    described = json.loads((stack.dir / "stack.json").read_text())
    del described["env"]["FIRN_EMR_APPLICATION_ID"]
    (stack.dir / "stack.json").write_text(json.dumps(described))
    code, out, _ = firn(capsys, stack, "pause", "--stop")
    assert (code, out.splitlines()[1:]) == (0, ["no job runs", "firn resume goes on"])
    assert json.loads(firn(capsys, stack, "pause", "--stop", "--json")[1])["stopped"] is False
    assert pause.since(store) is not None


def test_waiting_and_stopping_share_one_time_out(
    capsys: pytest.CaptureFixture[str], stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[float] = []

    def stop(*_: object, timeout: float, **__: object) -> bool:
        left.append(timeout)
        return True

    monkeypatch.setattr(commands, "_SETTLE_SECONDS", 0.5)
    monkeypatch.setattr(commands, "stop_application", stop)
    assert firn(capsys, stack, "pause", "--stop", "--timeout", "10")[0] == 0
    assert 0 < left[0] <= 9.5


def test_a_pause_that_somebody_ended_and_began_again_is_waited_out_anew(
    stack: Stack, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In between a function may have looked that starts a job only now."""
    passed = [0.0]
    monkeypatch.setattr(commands.time, "monotonic", lambda: passed[0])
    monkeypatch.setattr(commands.time, "sleep", lambda _: None)
    pause.begin(store)
    waited: list[float] = []

    def report(_text: str) -> None:
        passed[0] += 20
        waited.append(passed[0])
        if passed[0] == 60:
            pause.end(store)
            real_sleep(0.01)  # the mark's time tells them apart
            pause.begin(store)

    wait_until_quiet(stack, store, report=report, timeout=600, settle=75)
    assert waited[-1] >= 60 + 75


def test_a_flush_that_is_paused_under_way_says_so(stack: Stack, ingress: Ingress) -> None:
    answer = {"stream": "shop", "events": 0, "batches": 0, "pending": None, "paused": "2026-01-31T00:00:00.000Z"}
    ingress.answers["/_firn/invoke/dispatch"] = {"streams": [answer]}
    with pytest.raises(Paused, match="shop is staged and not committed"):
        flush(stack)
