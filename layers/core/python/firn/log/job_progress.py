"""How far a running commit is, as `attempts/{stream}/progress.json` says it: advice, by which nothing is decided.

A job overwrites it every few seconds, once its commit takes longer than that. A lost one is a line that nobody sees;
what a job left that died is told from a living one's by its age, its run and the newest cut.
"""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from firn.errors import FirnError
from firn.log import cuts, layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, put

Stage = Literal["reading", "folding", "writing", "committing"]
STAGES: Final[tuple[Stage, ...]] = ("reading", "folding", "writing", "committing")
EVERY_SECONDS: Final = 3.0  # a job tells
SOON_SECONDS: Final = 2 * EVERY_SECONDS
FRESH_SECONDS: Final = 30.0  # ten reports: what is older was left by a job that is gone, or that can't reach storage
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]  # what any job may write: a line of it is always short
_log: Final = logging.getLogger(__name__)


class JobProgress(msgspec.Struct, frozen=True):
    """A commit as its job saw it at `at` (times: RFC 3339, UTC, milliseconds).

    run             the job run's name (runs/job_runs.py), which may be one that several streams share
    first, last     the epochs that it commits, both included
    rows, planned   changes that have this stage behind them, of all that are to be committed
    tables, tables_planned   tables that are committed, of all that the changes go to
    seconds_left    an estimate by what went before; None while too little did
    """

    format: int
    run: str
    stream: str
    first: Count
    last: Count
    stage: Stage
    rows: Count
    planned: Count
    tables: Count
    tables_planned: Count
    started_at: str
    at: str
    seconds_left: Count | None = None


_decode: Final = msgspec.json.Decoder(JobProgress).decode


def write(store: Store, progress: JobProgress) -> None:
    """Puts it in the place of what was said before. Raises StorageUnavailable, UnknownOutcome."""
    put(store, layout.progress_path(progress.stream), msgspec.json.encode(progress))


def running(store: Store, stream: str, now: datetime, run: str | None = None) -> JobProgress | None:
    """The commit of a stream that goes on. None if nothing is known of one: what was said last is too old, is of
    another stream or of another run than `run` (a run's name; None: of any), is in a cut by now, can't be read or can't
    be reached."""
    try:
        data = get(store, layout.progress_path(stream))
        found = None if data is None else parse(data)
        if found is None or found.stream != stream or run not in (None, found.run) or not is_live(found, now):
            return None
        return found if found.last > cuts.newest(store, stream) else None
    except FirnError as error:
        _log.warning("the progress of %s can't be read: %s", stream, error)
        return None


def of_run(store: Store, streams: Iterable[str], now: datetime, run: str) -> JobProgress | None:
    """What a run commits just now: of its own stream, or of one that shares it. None as `running`."""
    return next((found for stream in streams if (found := running(store, stream, now, run)) is not None), None)


def parse(data: bytes) -> JobProgress | None:
    """What is in the object; None for what Firn of this version has not written."""
    try:
        found = _decode(data)
        datetime.fromisoformat(found.at)
    except (msgspec.DecodeError, ValueError):
        return None
    return found if found.format <= FORMAT else None


def is_live(progress: JobProgress, now: datetime, seconds: float = FRESH_SECONDS) -> bool:
    """Whether its job said so a moment ago. Clocks that differ by more than `seconds` make it look dead."""
    try:
        return abs((now - datetime.fromisoformat(progress.at)).total_seconds()) <= seconds
    except TypeError:  # a time without a zone
        return False


def summary(progress: JobProgress) -> str:
    """One line for people: `folding 1,200,000 of 3,000,000 rows, about 40 s left`."""
    said = f"{progress.stage} {progress.rows:,} of {progress.planned:,} {'row' if progress.planned == 1 else 'rows'}"
    if progress.tables_planned > 1:
        said += f", {progress.tables:,} of {progress.tables_planned:,} tables"
    return said if progress.seconds_left is None else f"{said}, about {_span(progress.seconds_left)} left"


def _span(seconds: int) -> str:
    if seconds < 90:
        return f"{max(1, seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
