"""Seal what is staged, commit it, and wait until a cut covers it: what `firn flush` does, without its looks."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firn.deployment.flush_outcome import DeadOfFlush, events_and_letters
from firn.deployment.stack import Paused, Stack
from firn.deployment.terminal import counted
from firn.errors import FirnError, TransientError, UnknownOutcome
from firn.runs.job_runs import ENDED

if TYPE_CHECKING:
    from firn.log.store import Store

Report = Callable[[str, str], None]
"""Called with a stream (or queue) and what it waits for."""

_POLL_SECONDS = 0.5
_LOOK_SECONDS = 2.0
_DISPATCHES = 6
_STARTS = 3
_LOG_LINES = 30


class FlushFailed(FirnError):
    """Not everything is committed. What is staged stays staged; the next flush or dispatch goes on."""


@dataclass
class StreamFlushed:
    """What a flush did for one stream. `epoch`: all up to it is committed; 0 if there was never anything.

    `events`, `batches`: of the epochs that this flush sealed. `tables`: target table to snapshot id, as the cut says;
    `quarantined`: those that it leaves behind, with the reason. `earlier`: events of epochs that the schedule had
    sealed before and that were not committed yet; `dead`: letters of all these events, by object and reason.
    `committed_at`: of the newest cut, an ISO time. `views`: those over its tables that are not of this cut, and why.
    """

    stream: str
    epoch: int = 0
    events: int = 0
    batches: int = 0
    runs: list[str] = field(default_factory=list)
    tables: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    earlier: int = 0
    dead: Sequence[DeadOfFlush] = ()
    committed_at: str | None = None
    views: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Pending:
    flushed: StreamFlushed
    first: int
    target: int
    run: str | None
    ours: bool  # this flush started the run: its failure is ours to tell
    dispatches: int = 1
    looked: float = 0.0  # when its progress was read last, on the steady clock
    progress: str = ""


def flush(
    stack: Stack, stream: str | None = None, *, report: Report = lambda *_: None, timeout: float = 1800.0
) -> list[StreamFlushed]:
    """Commit all that `stream` (None: each stream) has been sent, its queues included, and bring the views over its
    tables to these cuts. `timeout` in seconds: views that are not there by then, or fail, are named in what it gives.

    Raises FlushFailed (an unknown stream; a failed job, with the end of its log), Paused, NoStack, TransientError.
    """
    started = time.monotonic()
    deadline = started + timeout
    store = stack.store()
    stack.expect_no_pause()
    wait_for_queues(stack, report, deadline)
    finished: list[StreamFlushed] = []
    waiting: dict[str, _Pending] = {}
    for answer in _dispatch(stack, stream):
        flushed = StreamFlushed(str(answer["stream"]), events=int(answer["events"]), batches=int(answer["batches"]))
        pending = _pending(answer, flushed)
        if pending is None:
            _end(store, flushed, started)
            finished.append(flushed)
        else:
            waiting[flushed.stream] = pending
    while waiting:
        for name, pending in list(waiting.items()):
            if _committed(stack, store, pending, report):
                _account(store, pending)
                _end(store, pending.flushed, started)
                finished.append(pending.flushed)
                del waiting[name]
        if waiting and time.monotonic() > deadline:
            raise FlushFailed(f"{', '.join(waiting)}: not committed after {timeout:.0f} s; it goes on, see firn status")
        if waiting:
            time.sleep(_POLL_SECONDS)
    _wait_for_views(stack, store, finished, report, deadline)
    return sorted(finished, key=lambda one: one.stream)


def _wait_for_views(
    stack: Stack, store: "Store", finished: Sequence[StreamFlushed], report: Report, deadline: float
) -> None:
    from firn.deployment.flushed_views import FlushedViews

    def dispatch(stream: str) -> Mapping[str, Any]:
        return next(iter(stack.invoke_dispatch({"stream": stream}).get("streams", ())), {})

    epochs = {one.stream: one.epoch for one in finished if one.epoch}
    views = FlushedViews(store, epochs, dispatch, report, lambda: datetime.now(UTC))
    behind = views.wait(deadline, _POLL_SECONDS)
    for one in finished:
        one.views = behind.get(one.stream, {})


def wait_for_queues(stack: Stack, report: Report, deadline: float) -> None:
    """Wait until the stack's queues have handed over all their messages. Raises FlushFailed at the deadline."""
    queues = stack.ingress_queues()
    if not queues:
        return
    client = stack.sqs()
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    for name, url in queues.items():
        while True:
            attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
            left = sum(int(value) for value in attributes.values())
            if left == 0:
                break
            if time.monotonic() > deadline:
                raise FlushFailed(
                    f"queue {name} still holds {counted(left, 'message')}: look at the log of ingest_queue"
                )
            report(name, f"{counted(left, 'message')} left in the queue")
            time.sleep(_POLL_SECONDS)


def log_tail(stack: Stack, run: str) -> str:
    """What a job run said last, "" where its logs are not on this machine: why it failed, in its own words and with
    where its logs are, if it came to say so; else the end of both."""
    folder = stack.dir / "jobs" / run
    if said := _error_in(_end_of(folder / "stdout")):
        return f"{said}\n(its logs: {folder})"
    parts = []
    for name in ("stdout", "stderr"):
        file = folder / name
        text = _end_of(file)
        if text.strip():
            parts.append(f"--- {file} ---\n" + "\n".join(text.splitlines()[-_LOG_LINES:]))
    return "\n".join(parts)


def _error_in(stdout: str) -> str:
    """The `error` of the last line, which a job that failed prints (firn_spark.commit.print_line)."""
    *_, last = ["", *filter(None, map(str.strip, stdout.splitlines()))]
    with suppress(ValueError):
        found = json.loads(last)
        if isinstance(found, dict) and isinstance(found.get("error"), str):
            return str(found["error"])
    return ""


def _end_of(file: Path, size: int = 32_768) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - size))
            return opened.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _dispatch(stack: Stack, stream: str | None) -> Sequence[Mapping[str, Any]]:
    answer = stack.invoke_dispatch({"force": True, **({"stream": stream} if stream else {})})
    streams = answer.get("streams", [])
    for one in streams:
        if one.get("error"):
            raise FlushFailed(f"stream {one['stream']} was not dispatched: {one['error']}")
    return list(streams)


def _pending(answer: Mapping[str, Any], flushed: StreamFlushed) -> _Pending | None:
    if answer.get("paused"):  # since a moment ago
        raise Paused(f"stream {flushed.stream} is staged and not committed: it was paused meanwhile; firn resume")
    if answer.get("pending") is None:
        return None
    if answer.get("held"):
        raise FlushFailed(f"stream {flushed.stream} is quarantined: {answer['held']}; firn status says what to do")
    run = answer.get("run") or answer.get("waits_for")
    if run is None:
        raise FlushFailed(
            f"stream {flushed.stream}: epochs {answer['pending'][0]} to {answer['pending'][1]} wait and no job was "
            "started: the stack names no EMR Serverless application (FIRN_EMR_APPLICATION_ID)"
        )
    flushed.runs.append(run)
    return _Pending(flushed, int(answer["pending"][0]), int(answer["pending"][1]), run, ours=bool(answer.get("run")))


def _committed(stack: Stack, store: "Store", pending: _Pending, report: Report) -> bool:
    from firn.log import cuts

    name = pending.flushed.stream
    # The run may stay for more when all is committed. Its state first: a cut that it ends with is then found.
    run = _job_run(stack, str(pending.run))
    state, details = _state_of(run)
    report(name, _waits_for(store, pending, state, str(run.get("name") or "")))
    if cuts.newest(store, name) >= pending.target:
        return True
    if state not in ENDED:
        return False
    if pending.ours and state != "SUCCESS":
        tail = log_tail(stack, str(pending.run))
        raise FlushFailed(
            f"stream {name}: job run {pending.run} ended {state}: {details or 'no details'}"
            + (f"\n{tail}" if tail else "; its log is in the application's log storage")
        )
    # A run that had begun before ended: what was sealed since needs the next one.
    if pending.dispatches >= _DISPATCHES:
        raise FlushFailed(f"stream {name}: {pending.dispatches} jobs ended and none made the cut at {pending.target}")
    answers = {one["stream"]: one for one in _dispatch(stack, name)}
    following = _pending(answers[name], pending.flushed)
    if following is not None:
        pending.run, pending.ours = following.run, following.ours
        pending.dispatches += 1
    return following is None


def _waits_for(store: "Store", pending: _Pending, state: str, run: str) -> str:
    """What a stream waits for: how far its commit is, where that is known. `run`: the name of its job run."""
    from firn.log import job_progress

    if state == "RUNNING" and time.monotonic() - pending.looked >= _LOOK_SECONDS:
        found = job_progress.running(store, pending.flushed.stream, datetime.now(UTC), run)
        pending.looked, pending.progress = time.monotonic(), "" if found is None else job_progress.summary(found)
    shown = pending.progress if state == "RUNNING" else ""
    return shown or f"epoch {pending.target}, job {state.lower()}"


def started(start: Callable[[], str]) -> str:
    """The run that `start` starts. Asked again where it says nothing for sure: its token makes no second job."""
    for left in reversed(range(_STARTS)):
        try:
            return start()
        except (TransientError, UnknownOutcome):
            if not left:
                raise
            time.sleep(_POLL_SECONDS)
    raise AssertionError("unreachable")


def run_state(stack: Stack, run: str) -> tuple[str, str]:
    """The state of a job run and its details, in EMR Serverless's words."""
    return _state_of(_job_run(stack, run))


def _job_run(stack: Stack, run: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _emr(stack, "get_job_run", jobRunId=run)["jobRun"]
    return found


def _state_of(run: Mapping[str, Any]) -> tuple[str, str]:
    return str(run["state"]), str(run.get("stateDetails") or "")


def listed_runs(stack: Stack, most: int) -> Sequence[Mapping[str, Any]]:
    """The newest runs of the stack's application, as ListJobRuns gives them: at most `most`, of 50."""
    found: Sequence[Mapping[str, Any]] = _emr(stack, "list_job_runs", maxResults=min(most, 50))["jobRuns"]
    return found


def application_state(stack: Stack) -> str:
    """The state of the stack's application, in EMR Serverless's words."""
    return str(_emr(stack, "get_application")["application"]["state"])


def stop_application(stack: Stack) -> None:
    """Ask for the stop of an application without active runs; that it has stopped `application_state` tells. The next
    run starts it again."""
    _emr(stack, "stop_application")


def cancel(stack: Stack, run: str) -> None:
    """Ask for the end of a job run; that it has ended `run_state` tells."""
    _emr(stack, "cancel_job_run", jobRunId=run)


_clients: dict[str, Any] = {}


def _emr(stack: Stack, operation: str, **request: str | int) -> Any:
    """What EMR Serverless answers about the stack's application."""
    import boto3

    stack.use_environment()
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint not in _clients:
        _clients[endpoint] = boto3.client("emr-serverless")
    return getattr(_clients[endpoint], operation)(applicationId=stack.env["FIRN_EMR_APPLICATION_ID"], **request)


def _account(store: "Store", pending: _Pending) -> None:
    """What became of the events that were waited for."""
    flushed = pending.flushed
    numbers = range(pending.first, pending.target + 1)
    events, flushed.dead = events_and_letters(store, flushed.stream, numbers)
    flushed.earlier = max(0, events - flushed.events)


def _end(store: "Store", flushed: StreamFlushed, started: float) -> None:
    from firn.log import cuts

    flushed.epoch = cuts.newest(store, flushed.stream)
    cut = cuts.read(store, flushed.stream, flushed.epoch) if flushed.epoch else None
    flushed.tables = dict(cut.tables) if cut else {}
    flushed.committed_at = cut.made_at if cut else None
    flushed.quarantined = dict(cut.quarantined) if cut else {}
    flushed.seconds = time.monotonic() - started
