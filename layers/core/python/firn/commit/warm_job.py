"""A commit job that stays for more: it commits its range, then what comes for as long as something comes.

Spark starts once, and under load changes wait seconds instead of the schedule's minute. The job seals with dispatch's
own code, for all streams that share its runs, and ends so that no epoch falls between it and its successor
(log/job_closed_marker.py). It also ends when the stack is paused, and when the configuration or a map of shards
changes: what it may touch was fixed under those that it was started with (runs/session_policy.py). A round that
fails ends it: what is sealed by then is dispatch's again, with its attempts.

Views have their turn at the end of a round. However long they take, no change waits for more than one of them: what
came meanwhile is committed between two views. They keep no idle job up: for one that is due later dispatch starts a
job.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from firn.commit import job as commit
from firn.commit.job import Log, Now
from firn.commit.lake import Lake
from firn.commit.view_turn import ViewTurn
from firn.config.epoch_limits import limit_per_writer
from firn.config.model import Config, StreamConfig
from firn.dispatch.dispatcher import OutdatedConfig, Terms, dispatch
from firn.dispatch.schema_ranges import of_one_schema
from firn.errors import FirnError
from firn.log import cuts, epochs, holds, job_closed_marker, shard_maps
from firn.log.epochs import Epoch
from firn.log.store import Store
from firn.runs.job_runs import run_name

POLL_SECONDS: Final = 0.5
VIEWS_SECONDS: Final = 5.0  # between two looks at the cuts of other jobs, and at views that are due by the clock
LATE: Final = timedelta(minutes=1)  # between two looks for staged objects that are late, as between those of dispatch
# Then a fresh job takes over: with the code that is deployed by then.
LONGEST_SECONDS: Final = 6 * 3600.0


@dataclass(frozen=True)
class Clock:
    """What passes for time in a lingering job: the wall's for what is stored, a steady one for waiting."""

    now: Now
    steady: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def run(
    store: Store,
    lake: Lake,
    config: Callable[[], Config],
    paused: Callable[[], bool],
    stream: str,
    first: int,
    last: int,
    *,
    log: Log,
    clock: Clock,
    attempt: int = 1,
) -> int:
    """commit.run, and then what comes after it. `config`: the current configuration; `paused`: whether
    no more is to be begun. -> the exit code."""
    code = commit.run(store, lake, stream, first, last, log=log, now=clock.now, attempt=attempt, views=False)
    if code:
        return code
    try:
        if cuts.newest(store, stream) < last:
            return 0  # some table is ahead of this range, or the stream is held: what is next is a run of its own
        begun = epochs.read(store, stream, last)
    except FirnError as error:
        log({"stream": stream, "status": "failed", "error": f"what was committed can't be read again: {error}"})
        return 1
    job = _Lingering(store, lake, config, paused, stream, log, clock, shared=attempt == 1, begun=begun)
    code = job.until_idle()
    try:
        job_closed_marker.close(store, run_name(stream, first, last, attempt))
    except FirnError as error:
        log({"stream": stream, "status": "failed", "error": f"the job can't say that it ends: {error}"})
        return 1
    return code or job.once_more()


@dataclass(frozen=True)
class _Round:
    """`found`: whether anything was committed; `code`: 1 if a commit failed; `linger`: seconds to go on for without
    work; `config`: None if no more is to be begun in this round."""

    found: bool
    code: int = 0
    linger: float = 0.0
    config: Config | None = None


class _Lingering:
    def __init__(
        self,
        store: Store,
        lake: Lake,
        config: Callable[[], Config],
        paused: Callable[[], bool],
        stream: str,
        log: Log,
        clock: Clock,
        shared: bool,
        begun: Epoch | None,
    ) -> None:
        self._store, self._lake, self._config, self._paused = store, lake, config, paused
        self._stream, self._log, self._clock, self._shared = stream, log, clock, shared
        self._begun = begun
        self._under = begun.config if begun else None
        # What a round found waiting and could not bring to a cut: to try that again at once would change nothing.
        self._left: dict[str, tuple[int, int]] = {}
        self._listed: dict[str, datetime] = {}  # when the whole overlap was listed last, by stream
        self._views: dict[str, ViewTurn] = {}
        self._views_seen: float | None = None  # when they had their turn

    def until_idle(self) -> int:
        """Rounds until none has found anything for the stream's `linger`. -> 1 if one failed, else 0."""
        begun = idle = self._clock.steady()
        while True:
            found, code, linger = self._round()
            if code:
                return code
            after = self._clock.steady()
            idle = after if found else idle
            if after - idle >= linger or after - begun >= LONGEST_SECONDS:
                return 0
            if not found:
                self._clock.sleep(POLL_SECONDS)

    def once_more(self) -> int:
        """What was sealed before this job's mark could be seen. -> 1 if it failed, else 0."""
        self._left.clear()
        return self._round()[1]

    def _round(self) -> tuple[bool, int, float]:
        """Each stream's turn, and then that of the views. -> whether anything was committed, 1 if a commit failed,
        seconds to linger."""
        done = self._changes()
        if done.config is not None and self._views_are_due(done, done.config):
            done = self._refreshed(done, done.config)
        return done.found, done.code, done.linger

    def _changes(self) -> "_Round":
        """Each stream's turn at its changes."""
        found, linger = False, 0.0
        try:
            config = self._config()
            if self._stream not in config.streams or config.sha != self._under:
                return _Round(found)
            linger = float(config.streams[self._stream].commit.linger_seconds)
            for name in self._streams(config):
                if self._paused():
                    return _Round(found)
                committed, code = self._turn(config, config.streams[name])
                found = found or committed
                if code:
                    return _Round(found, code, linger)
        except OutdatedConfig:
            return _Round(found)
        except FirnError as error:
            # Storage is away, or the configuration is: whoever waits for this job waits for that too.
            self._log({"stream": self._stream, "status": "waiting", "error": str(error)})
            return _Round(found, 0, linger)
        return _Round(found, 0, linger, config)

    def _streams(self, config: Config) -> tuple[str, ...]:
        return config.sharing(self._stream) if self._shared else (self._stream,)

    def _views_are_due(self, done: "_Round", config: Config) -> bool:
        """Whether to look at the views: after each commit, and now and then."""
        if not any(config.streams[name].views for name in self._streams(config)):
            return False
        seen, now = self._views_seen, self._clock.steady()
        return done.found or seen is None or now - seen >= VIEWS_SECONDS

    def _refreshed(self, done: "_Round", config: Config) -> "_Round":
        """The round with the views' turn. It ends early if what is committed between them says so."""

        def between() -> bool:
            nonlocal done
            now = self._changes()
            done = replace(now, found=done.found or now.found)
            return now.config is not None

        for name in self._streams(config):
            if config.streams[name].views and done.config is not None:
                mine = ViewTurn(self._store, self._lake, name, self._log, self._clock.now)
                changed = self._views.setdefault(name, mine).take(config, between)
                done = replace(done, found=done.found or changed)
        self._views_seen = self._clock.steady()
        return done

    def _overlap(self, stream: str, now: datetime) -> timedelta:
        """How far back to list what is staged: what is late is looked for now and then."""
        seen = self._listed.get(stream)
        if seen is not None and timedelta() <= now - seen < LATE:
            return epochs.RECENT
        self._listed[stream] = now
        return epochs.OVERLAP

    def _turn(self, config: Config, stream: StreamConfig) -> tuple[bool, int]:
        policy = replace(stream.commit, every_seconds=stream.commit.fresh_seconds)
        per_writer = limit_per_writer(stream.writers, policy.linger_seconds)
        terms = Terms(config.sha, policy, stream.generation, sharded=shard_maps.sharded(stream), per_writer=per_writer)
        now = self._clock.now()
        overlap = self._overlap(stream.name, now)
        done = dispatch(self._store, stream.name, None, now=now, terms=terms, tick=timedelta(), overlap=overlap)
        if done.pending is None or done.held or self._left.get(stream.name) == done.pending:
            return False, 0
        first, last = done.pending
        newest = epochs.read(self._store, stream.name, last)
        if newest is None or self._begun is None or newest.config != self._under:
            return False, 0  # sealed by dispatch meanwhile: the next job's
        if not shard_maps.may_serve(stream, self._begun, newest):
            return False, 0
        held = holds.read_all(self._store, stream.name).epochs
        waiting = [one for one in epochs.read_range(self._store, stream.name, first, last) if one.n not in held]
        if len(of_one_schema(self._store, stream.name, waiting)) < len(waiting):
            return False, 0  # those of the former schemas are committed by themselves: a job of their own does that
        # Attempt 0: of the attempts that dispatch counts this is none.
        code = commit.run(self._store, self._lake, stream.name, first, last, log=self._log, now=self._clock.now,
                          attempt=0, views=False)  # fmt: skip
        self._left[stream.name] = done.pending
        return True, code
