"""firn flush over a real staging store; the dispatcher's answers and the job's states are played by the test."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ingress import Ingress

from firn.deployment import flush_run
from firn.deployment.flush_run import FlushFailed, flush
from firn.deployment.stack import Stack
from firn.log import cuts, published_configs
from firn.views import view_state
from firn.views.view_state import ViewState, ViewStates
from firn_cli.commands import flush as flush_command

RUN = "00f1abcd"


@pytest.fixture
def stack(tmp_path: Path, ingress: Ingress, monkeypatch: pytest.MonkeyPatch) -> Stack:
    monkeypatch.setattr(flush_run, "_POLL_SECONDS", 0.01)
    return Stack(
        tmp_path,
        ingress.url,
        staging=f"file://{tmp_path}/staging",
        env={"FIRN_EMR_APPLICATION_ID": "a"},
        token="of-this-run",
    )


def dispatched(**more: Any) -> dict[str, Any]:
    answer = {"stream": "shop", "sealed": [3], "batches": 2, "events": 7, "pending": [2, 3], "run": RUN}
    return {"streams": [{**answer, "waits_for": None, "stuck": False, **more}]}


def write_cut(stack: Stack, n: int) -> None:
    cuts.write(stack.store(), cuts.make("shop", n, "2026-01-31T00:00:00.000Z", {"shop.orders": 42}))


def states(monkeypatch: pytest.MonkeyPatch, *steps: str | tuple[str, Callable[[], None]]) -> None:
    """Each poll sees the next state; a step may do something first, as the job would."""
    left = list(steps)

    def job_run(_stack: Stack, _run: str) -> dict[str, str]:
        step = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(step, tuple):
            step[1]()
            step = step[0]
        return {"state": step, "stateDetails": "details"}

    monkeypatch.setattr(flush_run, "_job_run", job_run)


def test_a_flush_waits_for_the_cut_of_what_it_sealed(
    stack: Stack, ingress: Ingress, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingress.answers["/_firn/invoke/dispatch"] = dispatched()
    states(monkeypatch, "PENDING", "RUNNING", ("SUCCESS", lambda: write_cut(stack, 3)))
    seen: list[str] = []
    (done,) = flush(stack, "shop", report=lambda _, text: seen.append(text))
    assert (done.epoch, done.events, done.runs, dict(done.tables)) == (3, 7, [RUN], {"shop.orders": 42})
    assert seen[:2] == ["epoch 3, job pending", "epoch 3, job running"]
    assert json.loads(ingress.requests[0]["body"]) == {"force": True, "stream": "shop"}
    assert ingress.requests[0]["headers"]["X-Firn-Token"] == "of-this-run"


def test_a_flush_names_the_views_that_stay_behind(
    stack: Stack, ingress: Ingress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = published_configs.publish(
        stack.store(),
        "streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}\n"
        "views: {sales.all: {sql: 'SELECT id FROM shop.orders WHERE v'}}\n",
    )
    wrong = ViewState(
        tries=1, due=datetime(9999, 1, 1, tzinfo=UTC), error="no column v", kind="terminal", under=config.sha
    )
    view_state.write(stack.store(), "shop", ViewStates(views={"sales.all": wrong}))
    ingress.answers["/_firn/invoke/dispatch"] = dispatched()
    states(monkeypatch, ("SUCCESS", lambda: write_cut(stack, 3)))
    (done,) = flush(stack, "shop", timeout=30)
    assert done.views == {"sales.all": "it is quarantined: no column v"}
    monkeypatch.setattr(flush_command, "find_stack", lambda _: stack)
    monkeypatch.setattr(flush_command, "flush", lambda *_, **__: [done])
    flush_command.command(stream="shop", timeout=1.0, folder=stack.dir, as_json=False)
    assert "shop: the view sales.all stays behind: it is quarantined: no column v" in capsys.readouterr().err


def test_a_flush_with_nothing_to_do_ends_at_once(stack: Stack, ingress: Ingress) -> None:
    write_cut(stack, 2)
    ingress.answers["/_firn/invoke/dispatch"] = dispatched(sealed=[], batches=0, events=0, pending=None, run=None)
    (done,) = flush(stack)
    assert (done.epoch, done.events, done.runs) == (2, 0, [])


def test_a_failed_job_shows_the_end_of_its_log(stack: Stack, ingress: Ingress, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stack.dir / "jobs" / RUN
    folder.mkdir(parents=True)
    (folder / "stderr").write_text("".join(f"line {number}\n" for number in range(100)) + "java.lang.OutOfMemory\n")
    ingress.answers["/_firn/invoke/dispatch"] = dispatched()
    states(monkeypatch, "RUNNING", "FAILED")
    with pytest.raises(FlushFailed, match=f"job run {RUN} ended FAILED: details") as failed:
        flush(stack, "shop")
    assert "java.lang.OutOfMemory" in str(failed.value)
    assert "line 10\n" not in str(failed.value)


def test_after_an_earlier_run_the_next_one_takes_the_rest(
    stack: Stack, ingress: Ingress, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingress.answers["/_firn/invoke/dispatch"] = dispatched(run=None, waits_for="earlier")

    def earlier_ends() -> None:
        write_cut(stack, 2)
        ingress.answers["/_firn/invoke/dispatch"] = dispatched(pending=[3, 3], run="next")

    states(monkeypatch, "RUNNING", ("FAILED", earlier_ends), "RUNNING", ("SUCCESS", lambda: write_cut(stack, 3)))
    (done,) = flush(stack)
    assert (done.epoch, done.runs) == (3, ["earlier", "next"])


def test_a_flush_gives_up_at_its_time_out(stack: Stack, ingress: Ingress, monkeypatch: pytest.MonkeyPatch) -> None:
    ingress.answers["/_firn/invoke/dispatch"] = dispatched()
    states(monkeypatch, "RUNNING")
    with pytest.raises(FlushFailed, match="not committed after 0 s; it goes on"):
        flush(stack, timeout=0.05)


def test_a_dispatch_that_failed_is_told(stack: Stack, ingress: Ingress) -> None:
    ingress.answers["/_firn/invoke/dispatch"] = {"streams": [{"stream": "shop", "error": "storage is away"}]}
    with pytest.raises(FlushFailed, match="stream shop was not dispatched: storage is away"):
        flush(stack)


def test_a_stack_without_jobs_says_so(stack: Stack, ingress: Ingress) -> None:
    ingress.answers["/_firn/invoke/dispatch"] = dispatched(run=None)
    with pytest.raises(FlushFailed, match="FIRN_EMR_APPLICATION_ID"):
        flush(stack)
