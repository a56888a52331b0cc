"""The job runs of a stack, and how far those are that commit: what `firn jobs` shows, without its looks."""

from collections.abc import Mapping
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
    config = published_configs.current(stack.store()) if any(one["state"] == "RUNNING" for one in found) else None
    rows = [_row(stack, config, one, now) for one in found]
    return sorted(rows, key=lambda one: one.started_at, reverse=True)


def progress_of(store: Any, config: Config, run: str, now: datetime) -> JobProgress | None:
    """What a run of this name, which is at work, commits just now: of its own stream, or of one that shares it."""
    named = parse_name(run)
    if named is None:
        return None
    stream = named[0]
    others = config.sharing(stream) if stream in config.streams else ()
    return job_progress.of_run(store, dict.fromkeys((stream, *others)), now, run)


def _row(stack: Stack, config: Config | None, run: Mapping[str, Any], now: datetime) -> ListedRun:
    name, state = str(run.get("name") or ""), str(run["state"])
    stream, first, last, _ = parse_name(name) or (None, None, None, None)
    begun = run["createdAt"].astimezone(UTC)
    until = run["updatedAt"].astimezone(UTC) if state in ENDED else now
    running = config is not None and state == "RUNNING"
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
        progress=progress_of(stack.store(), config, name, now) if running and config is not None else None,
    )
