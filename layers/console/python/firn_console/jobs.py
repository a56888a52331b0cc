"""Job runs: as EMR Serverless lists them, else as the log tells of them; one run with the end of its log.

API: EMR Serverless API Reference, ListJobRuns and GetJobRun.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from firn.deployment.job_list import kind_of, progress_of
from firn.errors import ConfigError, RequestError, TransientError
from firn.log import attempts, cuts, layout
from firn.log.store import paths
from firn.runs.job_runs import parse_name, run_name
from firn_console import aws_calls
from firn_console.asked import HIDDEN, Asked, cursor_of
from firn_console.contract.job_pages import RunAnswer, RunPage, RunProgress, RunRow, RunState

MOST: Final = 50  # of a page, as ListJobRuns gives them
_PAGES: Final = 10  # of ListJobRuns that are looked through for one page of ours
_LOG_BYTES: Final = 64 << 10  # of the end of a log
_STATES: Final[tuple[RunState, ...]] = get_args(RunState)
_WORDS: Final[Mapping[str, RunState]] = {
    "SUBMITTED": "waiting", "PENDING": "waiting", "SCHEDULED": "waiting", "QUEUED": "waiting", "RUNNING": "running",
    "CANCELLING": "running", "SUCCESS": "succeeded", "FAILED": "failed", "CANCELLED": "cancelled",
}  # fmt: skip
_ID: Final = re.compile(r"[0-9a-zA-Z]{1,64}")


class RunCursor(msgspec.Struct, frozen=True, array_like=True):
    """EMR Serverless's own token of the next page."""

    token: str


def run_page(asked: Asked) -> RunPage:
    """Raises RequestError 400, 404, StorageUnavailable."""
    limit, place = asked.number("limit", 1, 500, MOST), asked.cursor(RunCursor)
    stream, state = asked.text("stream"), asked.choice("state", _STATES)
    if stream is not None:
        asked.stream(stream)

    def wanted(one: RunRow) -> bool:
        return _visible(asked, one) and stream in (None, one.stream) and state in (None, one.state)

    try:
        found, token = _listed(asked, min(limit, MOST), place.token if place else None, wanted)
    except (TransientError, ConfigError) as error:
        rows = sorted(filter(wanted, _logged(asked)), key=lambda one: (one.stream or "", -(one.first or 0)))
        return RunPage(tuple(rows[:limit]), None, False, str(error))
    return RunPage(tuple(found), cursor_of(RunCursor(token) if token else None), True)


def run_answer(asked: Asked, identifier: str) -> RunAnswer:
    """Raises RequestError 404, TransientError, ConfigError, StorageUnavailable."""
    unknown = RequestError(404, "no_such_run", "EMR Serverless has no run of that id that you may see")
    if not _ID.fullmatch(identifier):
        raise unknown
    answer, _ = aws_calls.call("emr-serverless", "GET", f"/applications/{_application(asked)}/jobruns/{identifier}")
    run = _row(asked, answer["jobRun"], {})
    if not _visible(asked, run):
        raise unknown
    folder = Path(asked.settings.job_logs) / identifier if asked.settings.job_logs else None
    if folder is None or not asked.grant.quotes(run.stream):
        return RunAnswer(run, None, _log_group(asked) if folder is None else HIDDEN)
    return RunAnswer(run, _tail(folder / "stderr"), str(folder))


def _application(asked: Asked) -> str:
    if not asked.settings.emr_application:
        raise ConfigError("no EMR Serverless application is set")
    return asked.settings.emr_application


def _log_group(asked: Asked) -> str | None:
    return f"/firn/{asked.settings.environment}/jobs" if asked.settings.environment else None


def _tail(file: Path) -> str | None:
    """The end of a log, from a line's begin on; None if there is none."""
    try:
        with file.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - _LOG_BYTES))
            data = log.read(_LOG_BYTES)
    except OSError:
        return None
    if size > _LOG_BYTES:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def _visible(asked: Asked, one: RunRow) -> bool:
    return asked.grant.sees(stream=one.stream) if one.stream is not None else asked.grant.streams is None


def _listed(asked: Asked, limit: int, token: str | None, wanted: Any) -> tuple[list[RunRow], str | None]:
    """The runs of as many of EMR Serverless's pages as give `limit`, and the token of what follows."""
    path, newest, found = f"/applications/{_application(asked)}/jobruns", dict[str, int](), list[RunRow]()
    for _ in range(_PAGES):
        query = {"maxResults": str(limit)} | ({"nextToken": token} if token else {})
        answer, _headers = aws_calls.call("emr-serverless", "GET", path, query)
        found += filter(wanted, (_row(asked, one, newest) for one in answer.get("jobRuns", ())))
        token = answer.get("nextToken")
        if not token or len(found) >= limit:
            break
    return sorted(found, key=lambda one: one.started_at or "", reverse=True), token


def _row(asked: Asked, run: Mapping[str, Any], newest: dict[str, int]) -> RunRow:
    """A run of ListJobRuns or GetJobRun. `newest`: the newest cuts that are known by now, by stream."""
    name, parsed = str(run.get("name") or ""), parse_name(str(run.get("name") or ""))
    state = _WORDS.get(str(run.get("state")), "unknown")
    begun, changed = run.get("createdAt"), run.get("endedAt") or run.get("updatedAt")
    ended = changed if state in ("succeeded", "failed", "cancelled") else None
    stream, first, last, attempt = parsed or (None, None, None, None)
    cut = None
    if stream is not None and first is not None and last is not None:
        if stream not in newest:
            newest[stream] = cuts.newest(asked.store, stream)
        cut = min(last, newest[stream]) if newest[stream] >= first else None
    return RunRow(
        id=str(run.get("id") or run.get("jobRunId")),
        name=name,
        kind=kind_of(name),
        stream=stream,
        first=first,
        last=last,
        attempt=attempt,
        state=state,
        started_at=_instant(begun),
        ended_at=_instant(ended),
        seconds=round(float(ended) - float(begun), 1) if ended and begun else None,
        detail=_detail(asked, stream, str(run.get("stateDetails") or "")),
        newest_cut=cut,
        progress=_progress(asked, name) if run.get("state") == "RUNNING" and stream is not None else None,
    )


def _progress(asked: Asked, run: str) -> RunProgress | None:
    """How far a run is that is at work, with a stream that the caller may see."""
    found = progress_of(asked.store, asked.config, run, asked.now)
    if found is None or not asked.grant.sees(stream=found.stream):
        return None
    return RunProgress(
        found.stream, found.first, found.last, found.stage, found.rows, found.planned, found.tables,
        found.tables_planned, found.at, found.seconds_left,
    )  # fmt: skip


def _detail(asked: Asked, stream: str | None, text: str) -> str | None:
    """Why a run failed: a failure may quote a row. What is of no stream may be about any."""
    return None if not text else text if asked.grant.quotes(stream) else HIDDEN


def _instant(moment: Any) -> str | None:
    return None if moment is None else layout.instant(datetime.fromtimestamp(float(moment), UTC))


def _logged(asked: Asked) -> Iterator[RunRow]:
    """What the log tells of the jobs that began, and were not forgotten."""
    for stream in asked.streams():
        newest = cuts.newest(asked.store, stream.name)
        found: dict[tuple[int, int, int], set[str]] = {}
        for path in paths(asked.store, layout.attempt_prefix(stream.name)):
            if (at := layout.attempt_of(path)) is not None:
                found.setdefault(at[:3], set()).add(at[3])
        failure = attempts.newest_failure(asked.store, stream.name, newest)
        for (first, last, attempt), kinds in found.items():
            state: RunState = "failed" if "failed" in kinds else "succeeded" if newest >= last else "unknown"
            why = failure[2].error if failure is not None and failure[:2] == (first, last) else ""
            told = _detail(asked, stream.name, why)
            name = run_name(stream.name, first, last, attempt)
            cut = min(last, newest) if newest >= first else None
            yield RunRow(
                None, name, "commit", stream.name, first, last, attempt, state, None, None, None, told, cut
            )  # fmt: skip
