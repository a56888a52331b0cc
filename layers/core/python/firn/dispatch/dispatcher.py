"""Dispatch: seal what is staged, and see to it that a job commits what is sealed.

Every step may be done twice or by two at once. Sealing is settled by create-if-absent, starting by the clientToken
(the same stream, range and attempt is the same run), and a twin job by the commit's own fence.
"""

import logging
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from firn.config.model import CommitPolicy, StreamConfig
from firn.dispatch.retry_policy import Step, next_step
from firn.dispatch.schema_ranges import of_one_schema
from firn.errors import FirnError, TransientError, UnknownOutcome
from firn.log import attempts, cuts, epochs, holds, job_closed_marker, layout, pause, published_configs, shard_maps
from firn.log.holds import Quarantines
from firn.log.store import Store
from firn.quarantine import rules as rules
from firn.runs.job_runs import Jobs, Run
from firn.sinks import state as sinks
from firn.views import due, view_state
from firn.views.view_sources import ViewSources

_log: Final = logging.getLogger(__name__)

# Batches that hold no change wait this long for company before they are sealed.
EMPTY_WAIT: Final = timedelta(minutes=15)
# EventBridge's shortest schedule: what is not sealed now waits at least this long.
TICK: Final = timedelta(minutes=1)
EVERY_MINUTE: Final = CommitPolicy()
_SEAL_TRIES: Final = 5
_FLUSH_TRIES: Final = 50  # a job that is up takes number after number, each with a part of what waits


@dataclass(frozen=True)
class Dispatched:
    """What one dispatch did for one stream."""

    stream: str
    sealed: tuple[int, ...] = ()  # numbers of the epochs that this call sealed
    batches: int = 0
    events: int = 0
    pending: tuple[int, int] | None = None  # sealed and not committed: first and last epoch
    run: str | None = None  # the job run that this call started
    waits_for: str | None = None  # the active run that will be followed by the next one
    stuck: bool = False  # MAX_ATTEMPTS runs of this range have failed: look at their logs, then `firn flush`
    # Tables, epochs (`epoch 7`) and `stream` that are held, `files of raw` and `view lake.totals` that fail time and
    # again: see `firn status`.
    quarantined: tuple[str, ...] = ()
    held: str | None = None  # why the whole stream is held: no job starts
    paused: str | None = None  # since when the stack is paused: nothing was sealed or started


class OutdatedConfig(FirnError):
    """A newer configuration than the terms' is published. Nothing is sealed under the older one any more."""


@dataclass(frozen=True)
class Terms:
    """What the current configuration says of a stream.

    config      the configuration's sha
    policy      how long changes may wait: they are sealed when they would pass `every_seconds` before the next tick, or
                hold `size_bytes`
    generation  the stream's
    together    the streams whose jobs commit this one's epochs too
    views       what its views read; None if its jobs refresh none
    sharded     the stream, if it has tables of several shards: its epochs name the versions of their maps
    per_writer  events of each writer in an epoch, None for however many (epoch_limits.limit_per_writer)
    """

    config: str
    policy: CommitPolicy = EVERY_MINUTE
    generation: int = 0
    together: Collection[str] = ()
    views: ViewSources | None = None
    sharded: StreamConfig | None = None
    per_writer: int | None = None


def dispatch(
    store: Store,
    stream: str,
    jobs: Jobs | None,
    *,
    now: datetime,
    terms: Terms,
    force: bool = False,
    reconcile: bool = False,
    tick: timedelta = TICK,
    overlap: timedelta = epochs.OVERLAP,
    random: Callable[[int], bytes] = os.urandom,
) -> Dispatched:
    """Seal and start for one stream. `jobs` None: seal only. `tick`: when somebody looks again; `overlap`: as for
    epochs.candidates. `force` (firn flush) seals at once whatever is there; `reconcile` (daily) lists the whole log
    instead of its last hours; both try a stuck range once more. Raises StorageUnavailable, UnknownOutcome,
    TransientError, OutdatedConfig (then call it again with the terms of the newer one); what was sealed by then stays
    sealed, and the next dispatch goes on.
    """
    if jobs is not None and (since := pause.since(store)) is not None:
        return _paused(store, stream, terms, since)
    committed = cuts.newest(store, stream)
    sealer = _Sealer(store, stream, committed, terms, now, random, overlap)
    sealed = sealer.seal_due(tick, whole=force or reconcile, at_once=force)
    known = holds.read_all(store, stream)
    _note_sealed_again(store, stream, known)
    cut = cuts.read(store, stream, committed) if committed else None
    fixed = rules.waiting_for_release(cut, known) or known.outgrown(terms.generation, committed)
    (files, failing_files), (behind, failing_views) = _files(store, stream, cut, now), _views(store, terms, cut, now)
    again = fixed or files
    waiting = _waiting(store, stream, committed, known)
    names = (*known.names(terms.generation), *failing_files, *failing_views)
    if behind and not again and not waiting and (at_work := _at_work(store, jobs, stream, now, terms)) is not None:
        return replace(_dispatched(stream, sealed, names), waits_for=at_work.id)
    if (again := again or behind) and not known.held_stream(terms.generation):
        sealed += sealer.seal_present(waiting)
        waiting = _waiting(store, stream, committed, known)
    done = _dispatched(stream, sealed, names)
    while waiting:
        pending = [epoch for n in waiting if (epoch := epochs.read(store, stream, n)) is not None]
        if held := known.held_stream(terms.generation):
            return _held(done, held, waiting)
        if not again and not any(epoch.events for epoch in pending):
            _cut_without_job(store, stream, committed, waiting[-1], now)
            return done
        # What was fixed is in the last configuration: a job that is to try again needs that one.
        part = pending if fixed else of_one_schema(store, stream, pending)
        n = _start(store, jobs, done, part, terms, once_more=force or reconcile)
        if isinstance(n, Dispatched):
            return replace(n, pending=(waiting[0], waiting[-1]))
        waiting.remove(n)
        if cuts.newest(store, stream) >= n:
            return done  # a job was quicker than this dispatcher
        if waiting and n > waiting[-1]:
            # Some table may have this epoch: only a cut above it can name the tables as they are.
            sealer.seal(sealer.free())
            waiting = [m for m in _waiting(store, stream, committed, known) if m != n]
        _hold(store, stream, n, now)
        done = replace(done, quarantined=(*done.quarantined, f"epoch {n}"))
    return done


def _paused(store: Store, stream: str, terms: Terms, since: datetime) -> Dispatched:
    quarantined = holds.read_all(store, stream).names(terms.generation)
    return Dispatched(stream, quarantined=quarantined, paused=layout.instant(since))


def _held(done: Dispatched, held: holds.Quarantine, waiting: Sequence[int]) -> Dispatched:
    """A stream that is quarantined: no job starts."""
    _log.error("stream %s is quarantined: %s; %s", done.stream, held.message, held.advice)
    return replace(done, pending=(waiting[0], waiting[-1]), held=held.message)


def _hold(store: Store, stream: str, n: int, now: datetime) -> None:
    """Quarantine the epoch that kills every job."""
    found_dead = rules.killing_epoch(stream, n, rules.MAX_ATTEMPTS, layout.instant(now))
    holds.hold(store, found_dead)
    _log.error("epoch %d of stream %s is quarantined: %s; %s", n, stream, found_dead.message, found_dead.advice)


def _dispatched(stream: str, sealed: Sequence[epochs.Epoch], quarantined: tuple[str, ...]) -> Dispatched:
    return Dispatched(
        stream,
        tuple(epoch.n for epoch in sealed),
        sum(len(epoch.batches) for epoch in sealed),
        sum(epoch.events for epoch in sealed),
        quarantined=quarantined,
    )


def _waiting(store: Store, stream: str, committed: int, known: Quarantines) -> list[int]:
    """The sealed epochs that no cut covers and that are not quarantined: the batches of a lifted one are in another."""
    return [n for n in epochs.numbers(store, stream, committed) if n not in known.epochs]


def _note_sealed_again(store: Store, stream: str, known: Quarantines) -> None:
    open_cases = [n for n, case in known.epochs.items() if case.lift is not None and not case.again]
    sealed = epochs.numbers(store, stream) if open_cases else []
    for n in open_cases:
        if not epochs.left_of(store, stream, n, sealed):
            holds.note_again(store, stream, n)


@dataclass(frozen=True)
class _Sealer:
    """Seals what is free above the newest cut, `committed`."""

    store: Store
    stream: str
    committed: int
    terms: Terms
    now: datetime
    random: Callable[[int], bytes]
    overlap: timedelta

    def free(self, *, whole: bool = True) -> epochs.Candidates:
        """What no epoch has yet. `whole`: by the whole log, not its last hours."""
        caps, per_writer = self.terms.policy.caps, None if whole else self.terms.per_writer
        return epochs.candidates(
            self.store, self.stream, self.now, above=self.committed, whole=whole, caps=caps, overlap=self.overlap,
            per_writer=per_writer,
        )  # fmt: skip

    def seal(self, found: epochs.Candidates) -> epochs.Epoch | None:
        """The epoch of what was free; None if a twin took its number.

        The configuration is looked at after the listing: so no event that came after `firn publish` is sealed under an
        older one, by which its values may go to another column.
        """
        if not published_configs.is_current(self.store, self.terms.config):
            raise OutdatedConfig("a newer configuration is published")
        nonce = self.random(16).hex()
        shards = {} if self.terms.sharded is None else shard_maps.newest(self.store, self.terms.sharded)
        config = self.terms.config
        return epochs.seal(self.store, self.stream, found, now=self.now, config=config, nonce=nonce, shards=shards)

    def seal_present(self, waiting: Sequence[int]) -> list[epochs.Epoch]:
        """One epoch of the present configuration, unless the last of those that wait has it: a job runs under that of
        its last epoch, so what was fixed there has to be in one."""
        last = epochs.read(self.store, self.stream, waiting[-1]) if waiting else None
        if last is not None and last.config == self.terms.config:
            return []
        sealed = self.seal(self.free())
        return [sealed] if sealed else []

    def seal_due(self, tick: timedelta, *, whole: bool, at_once: bool) -> list[epochs.Epoch]:
        """Seal until nothing is free that is due (`at_once`: nothing at all). A number lost to a twin costs one
        listing; a twin that wins always leaves less. Raises TransientError (`at_once`): too many were lost."""
        sealed: list[epochs.Epoch] = []
        lost = 0
        while lost < (_FLUSH_TRIES if at_once else _SEAL_TRIES):
            found = self.free(whole=whole)
            if not found.batches or not (at_once or _worth_sealing(found, self.now, self.terms.policy, tick)):
                break
            epoch = self.seal(found)
            if epoch is None:
                lost += 1
                continue
            _log.info("sealed", extra={"stream": self.stream, "epoch": epoch.n, "batches": len(epoch.batches)})
            sealed.append(epoch)
            if not found.left:
                break
        else:
            if at_once:  # whoever flushes is told that all there was is sealed
                raise TransientError(f"what waits of {self.stream} could not be sealed: others took each number")
        return sealed


def _worth_sealing(found: epochs.Candidates, now: datetime, policy: CommitPolicy, tick: timedelta) -> bool:
    """Whether the stream's policy is due, or an epoch is full. Heartbeats alone shall not make an epoch a minute."""
    changes = [batch for batch in found.batches if batch.events]
    if not changes:
        return bool(found.left) or now - min(layout.time_of(batch.id) for batch in found.batches) >= EMPTY_WAIT
    oldest = min(layout.time_of(batch.id) for batch in changes)
    age = max(now - oldest, timedelta())  # another function's clock may be ahead
    due = age + tick >= timedelta(seconds=policy.every_seconds)
    return due or bool(found.left) or sum(one.bytes for one in (*found.batches, *found.waiting)) >= policy.size_bytes


def _cut_without_job(store: Store, stream: str, committed: int, last: int, now: datetime) -> None:
    """Epochs without a change need no Spark: the tables at `last` are the tables at the newest cut."""
    before = cuts.read(store, stream, committed) if committed else None
    cut = cuts.make(stream, last, layout.instant(now), {}, since=committed)
    if before is not None:
        cut = msgspec.structs.replace(before, n=last, made_at=cut.made_at, since=committed, counts={}, filtered=0)
    cuts.write(store, cut)


def _start(
    store: Store,
    jobs: Jobs | None,
    done: Dispatched,
    pending: Sequence[epochs.Epoch],
    terms: Terms,
    *,
    once_more: bool,
) -> Dispatched | int:
    """Starts a run of the pending epochs, unless one is there that will take them. -> the epoch that kills every job,
    if there is one."""
    first, last = pending[0].n, pending[-1].n
    found = replace(done, pending=(first, last))
    if jobs is None:
        return found
    # No run of this range is older than its first epoch.
    known = jobs.runs(pending[0].time - 2 * epochs.SKEW)
    for run in known:
        # Looked at after the sealing: a run that has not closed yet lists once more after it closes, and finds these.
        if run.active and _serves(store, run, pending[-1], terms) and not job_closed_marker.is_closed(store, run.name):
            return replace(found, waits_for=run.id)
    runs = [run for run in known if run.stream == done.stream]
    # Attempts are counted by the first epoch: while it is not committed the range only grows at its end, and a busy
    # stream would otherwise start its count over every minute.
    tried = [run for run in runs if run.first == first]
    failed = [run for run in tried if run.failed]
    ends = attempts.ends(store, done.stream, first) if failed else {}
    # Narrowed runs that ended well and left no cut, because some table is ahead of it: what they ran is in all tables.
    narrowed = [run for run in tried if sum(one.attempt < run.attempt for one in failed) >= rules.MAX_ATTEMPTS]
    succeeded, upto = max(((run.attempt, run.last) for run in narrowed if run.state == "SUCCESS"), default=(0, 0))
    following = next((epoch.n for epoch in pending if epoch.n > upto), last)
    step = next_step(
        [ends.get((run.last, run.attempt)) for run in failed],
        [ends.get((run.last, run.attempt)) for run in failed if run.attempt > succeeded and run.last == following],
    )
    if step is Step.HOLD:
        return following
    # One epoch by itself does not tell whether the fault is its own: beside the first that comes after it, it does.
    lonely = last > first and all(run.last == first for run in failed)
    if step is Step.STUCK and not once_more and not lonely:
        latest = max(tried, key=lambda run: run.attempt)
        _log.error(
            "epochs %d to %d of stream %s are stuck: %d runs failed; read the logs of run %s, fix the cause, then run "
            "`firn flush %s`", first, last, done.stream, len(failed), latest.id, done.stream,
        )  # fmt: skip
        return replace(found, stuck=True)
    attempt = 1 + max((run.attempt for run in tried), default=0)
    last = following if step is Step.NARROW else last
    return replace(found, run=_start_surely(jobs, done.stream, first, last, attempt))


def _files(store: Store, stream: str, cut: cuts.Cut | None, now: datetime) -> tuple[bool, tuple[str, ...]]:
    """Whether a job has files to write, and the sinks that fail. `cut`: the stream's newest."""
    if cut is None or not cut.files:
        return False, ()
    known = sinks.read(store, stream)
    return sinks.job_is_due(cut, known, now), sinks.failing(known)


def _views(store: Store, terms: Terms, cut: cuts.Cut | None, now: datetime) -> tuple[bool, tuple[str, ...]]:
    """Whether a job has views to refresh, and those that fail. `cut`: the stream's newest."""
    if terms.views is None:
        return False, ()
    known = view_state.read(store, terms.views.stream)
    return due.is_due(store, terms.views, terms.config, cut, known, now), view_state.failing(known)


def _at_work(store: Store, jobs: Jobs | None, stream: str, now: datetime, terms: Terms) -> Run | None:
    """The run that looks at the stream's views by itself, under the present configuration: no epoch has to say so."""
    for run in jobs.runs(now) if jobs is not None else ():
        if run.active and (run.stream == stream or (run.stream in terms.together and run.attempt == 1)):
            last = epochs.read(store, run.stream, run.last)
            same = last is not None and last.config == terms.config
            if same and not job_closed_marker.is_closed(store, run.name):
                return run
    return None


def _serves(store: Store, run: Run, pending: epochs.Epoch, terms: Terms) -> bool:
    """Whether the run commits what waits of the stream, up to `pending`. One that is tried again may die again of what
    it has to read: no other stream waits for it. Nor for one of another configuration, or of other maps of shards
    (commit/warm_job.py)."""
    if run.stream == pending.stream:
        return True
    if run.stream not in terms.together or run.attempt != 1:
        return False
    last = epochs.read(store, run.stream, run.last)
    return last is None or (last.config == pending.config and shard_maps.may_serve(terms.sharded, last, pending))


def _start_surely(jobs: Jobs, stream: str, first: int, last: int, attempt: int) -> str:
    """An unclear answer is asked again with the same token, which gives the same run if the first call started it."""
    for _ in range(2):
        try:
            return jobs.start(stream, first, last, attempt)
        except (TransientError, UnknownOutcome) as error:
            _log.warning("starting a job for %s %d to %d is unclear, asking again: %s", stream, first, last, error)
    return jobs.start(stream, first, last, attempt)
