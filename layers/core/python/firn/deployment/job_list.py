"""The job runs of a stack, and how far those are that commit: what `firn jobs` shows, without its looks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from firn.config.model import Config
from firn.deployment import flush_run
from firn.deployment.backfill_run import PREFIX as BACKFILL
from firn.deployment.rebuild_run import PREFIX as REBUILD
from firn.deployment.stack import Stack
from firn.log import job_progress, layout, published_configs
from firn.log.job_progress import JobProgress
from firn.log.store import Store
from firn.maintenance.launcher import PREFIX as CARE
from firn.runs.job_runs import ENDED, parse_name

_KINDS: Final = {CARE: "maintenance", REBUILD: "rebuild", BACKFILL: "backfill"}


@dataclass(frozen=True)
class ListedRun:
    """A run as EMR Serverless lists it. `kind`: commit, maintenance, rebuild, backfill, other; `first`, `last`: epochs
    that a commit was started for; `state`: EMR Serverless's word; `started_at`: RFC 3339; `detail`: why it ended so.
    `progress`: of what it commits just now, if it says so: it is advice, and may be a few seconds old."""

    run: str
    name: str
    kind: str
    stream: str | None
    first: int | None
    last: int | None
    state: str
    started_at: str
    seconds: float
    detail: str | None
    progress: JobProgress | None


def kind_of(name: str) -> str:
    """What a run of this name does."""
    if parse_name(name) is not None:
        return "commit"
    return next((kind for prefix, kind in _KINDS.items() if name.startswith(prefix)), "other")


def list_runs(stack: Stack, now: datetime, most: int) -> list[ListedRun]:
    """The newest runs, `most` of them. Raises what EMR Serverless raises, and StorageUnavailable."""
    found = flush_run.listed_runs(stack, most)
    running = {str(one.get("name") or "") for one in found if one["state"] == "RUNNING"}
    progress = _progress_of_each(stack, running, now) if running else {}
    rows = [_row(one, progress, now) for one in found]
    return sorted(rows, key=lambda one: one.started_at, reverse=True)


def _progress_of_each(stack: Stack, runs: Collection[str], now: datetime) -> dict[str, JobProgress | None]:
    """Of these runs (names), which are at work."""
    store = stack.store()
    config = published_configs.current(store)
    return {run: progress_of(store, config, run, now) for run in runs}


def progress_of(store: Store, config: Config, run: str, now: datetime) -> JobProgress | None:
    """What a run of this name, which is at work, commits just now: of its own stream, or of one that shares it."""
    named = parse_name(run)
    if named is None:
        return None
    stream = named[0]
    others = config.sharing(stream) if stream in config.streams else ()
    return job_progress.of_run(store, dict.fromkeys((stream, *others)), now, run)


def _row(run: Mapping[str, Any], progress: Mapping[str, JobProgress | None], now: datetime) -> ListedRun:
    name, state = str(run.get("name") or ""), str(run["state"])
    stream, first, last, _ = parse_name(name) or (None, None, None, None)
    begun = run["createdAt"].astimezone(UTC)
    until = run["updatedAt"].astimezone(UTC) if state in ENDED else now
    return ListedRun(
        run=str(run["id"]),
        name=name,
        kind=kind_of(name),
        stream=stream,
        first=first,
        last=last,
        state=state,
        started_at=layout.instant(begun),
        seconds=round((until - begun).total_seconds(), 1),
        detail=str(run.get("stateDetails") or "") or None,
        progress=progress.get(name) if state == "RUNNING" else None,
    )
