"""One round of dispatch over some streams, as functions do it: with log lines, metrics, and a policy for each job."""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from firn.config.epoch_limits import limit_per_writer
from firn.config.model import Config, StreamConfig
from firn.dispatch.dispatcher import Dispatched, OutdatedConfig, Terms, dispatch
from firn.errors import FirnError
from firn.ingest.accept import stream_config
from firn.log import cuts, epochs, pause, published_configs, shard_maps
from firn.log.backlog import tell
from firn.log.store import Store
from firn.maintenance import launcher
from firn.maintenance.schedule import Kind
from firn.metrics import Metric, emf
from firn.runs import session_policy
from firn.runs.emr import EmrJobs
from firn.runs.job_runs import Jobs
from firn.settings import Settings
from firn.views.view_sources import sources_of

Log = logging.Logger | Any  # Powertools' logger, which is not a logging.Logger
_SERVICE: Final = "dispatch"  # whichever function does it
_CONFIG_TRIES: Final = 3  # with what was published meanwhile


def _jobs_of(settings: Settings, store: Store, config: Config) -> Jobs | None:
    """EMR Serverless as `settings` name it, None if they name none. Each job may touch its own streams and tables.

    The deployment's own places win over those of firn.yaml, so that `firn up` never writes to the real lake.
    """
    if not settings.emr_application:
        return None
    settings = placed(settings, config)
    return EmrJobs(settings, policy=lambda *job: job_policy(settings, store, *job))


def placed(settings: Settings, config: Config) -> Settings:
    """The settings with the warehouse and the catalog of the configuration, where they name none."""
    return replace(
        settings,
        warehouse=settings.warehouse or config.warehouse,
        catalog_uri=settings.catalog_uri or config.catalog.address,
    )


def job_policy(settings: Settings, store: Store, stream: str, last: int, attempt: int) -> str | None:
    """The IAM policy of a job. Its tables are those of its last epoch's configuration: under that one it runs."""
    epoch = epochs.read(store, stream, last)
    if epoch is None:
        return None
    config = published_configs.load(store, epoch.config)
    # One that is tried again serves no other stream (commit/warm_job.py).
    names = config.sharing(stream) if attempt == 1 else (stream,)
    streams = [config.streams[name] for name in names if name in config.streams]
    partition = settings.emr_role.split(":")[1] if settings.emr_role.startswith("arn:") else "aws"
    leaving = [to for name in names for to in _leaving(store, config, name)]
    views = [found for one in streams if (found := sources_of(config, one.name)) is not None]
    shards = [table for one in streams for table in shard_maps.ever(store, one)]
    beside = _beside(settings.warehouses) if settings.warehouses else []
    return session_policy.policy(
        streams, settings.staging, settings.warehouse, partition, settings.catalog_uri, leaving, views, shards, beside
    )


def _beside(told: str) -> list[str]:
    from firn.config.warehouses import addresses  # few deployments have any

    return addresses(told)


def _leaving(store: Store, config: Config, stream: str) -> list[str]:
    """Addresses of file sinks that the configuration no longer names, and that still get what came before."""
    cut, found = cuts.last(store, stream), []
    named = {one.name for one in config.streams[stream].pipelines} if stream in config.streams else set[str]()
    for name, upto in cut.files.items() if cut is not None else ():
        epoch = epochs.read(store, stream, upto + 1) if name not in named else None
        if epoch is not None:
            before = published_configs.load(store, epoch.config).streams.get(stream)
            found += [one.files.to for one in (before.pipelines if before else ()) if one.name == name and one.files]
    return found


def _terms(config: Config, stream: StreamConfig) -> Terms:
    views = sources_of(config, stream.name)
    together = config.sharing(stream.name)
    per_writer = limit_per_writer(stream.writers, stream.commit.linger_seconds)
    return Terms(config.sha, stream.commit, stream.generation, together, views, shard_maps.sharded(stream), per_writer)


def run(
    names: Iterable[str],
    settings: Settings,
    store: Store,
    config: Config,
    log: Log,
    *,
    force: bool = False,
    reconcile: bool = False,
) -> list[dict[str, Any]]:
    """Dispatch each of the streams -> what was done, one mapping each; a stream's failure doesn't keep the others.

    By `config`, and from the moment at which a newer one is found published by that one: with its places of tables."""
    results: list[dict[str, Any]] = []
    under = _Under(settings, store, config)
    for name in names:
        try:
            done = under.dispatch(name, force=force, reconcile=reconcile)
        except FirnError as error:
            log.error("dispatch failed", extra={"stream": name, "reason": str(error)})
            count(Metric.DISPATCH_FAILED, name, 1)
            results.append({"stream": name, "error": str(error)})
            if name in under.config.streams:
                _tell(store, under.config.streams[name])
            continue
        log.info("dispatched", extra=asdict(done))
        count(Metric.EPOCH_STUCK, name, int(done.stuck))
        count(Metric.QUARANTINED, name, len(done.quarantined))
        _tell(store, under.config.streams[name])
        results.append(asdict(done))
    return results


class _Under:
    """The configuration that a round goes by, and the jobs that it may start."""

    def __init__(self, settings: Settings, store: Store, config: Config) -> None:
        self._settings, self._store = settings, store
        self._take(config)

    def _take(self, config: Config) -> None:
        self.config, self._jobs = config, _jobs_of(self._settings, self._store, config)

    def dispatch(self, name: str, *, force: bool, reconcile: bool) -> Dispatched:
        """One stream, by what is published. Raises what dispatch does; OutdatedConfig if that changes all the time."""
        for _ in range(_CONFIG_TRIES):
            try:
                return self._dispatch(name, force=force, reconcile=reconcile)
            except OutdatedConfig:
                self._take(published_configs.current(self._store))
        return self._dispatch(name, force=force, reconcile=reconcile)

    def _dispatch(self, name: str, *, force: bool, reconcile: bool) -> Dispatched:
        terms, now = _terms(self.config, stream_config(self.config, name)), datetime.now(UTC)
        return dispatch(self._store, name, self._jobs, now=now, terms=terms, force=force, reconcile=reconcile)


def care(
    settings: Settings, store: Store, config: Config, kinds: Sequence[Kind], now: datetime, log: Log
) -> dict[str, Any]:
    """A round of the care of tables -> what is due, and the run that does it. Raises what launcher.run raises."""
    settings = placed(settings, config)
    jobs = EmrJobs(settings) if settings.emr_application else None
    return asdict(launcher.run(settings, store, config, jobs, kinds, now, log))


def care_now(
    settings: Settings, store: Store, config: Config, kind: Kind, table: str, now: datetime, log: Log
) -> dict[str, Any]:
    """Have one table cared for at once, by a person's word -> the run that does it, or why there is none. The same word
    in the same minute finds the same run. Raises what launcher.start raises."""
    settings = placed(settings, config)
    left = None
    if not launcher.health_streams(config, table):
        left = f"no stream of firn.yaml feeds a table {table!r}, and care.also does not name it"
    elif not settings.emr_application:
        left = "no EMR Serverless application is set"
    elif pause.since(store) is not None:
        left = "it is paused: firn resume"
    if left is not None:
        return {"run": None, "left": left}
    asked = "\n".join((settings.staging, kind, table, f"{now:%Y%m%d%H%M}"))
    identifier = hashlib.sha256(asked.encode()).hexdigest()[:32]
    run = launcher.start(settings, EmrJobs(settings), identifier, (kind,), (table,))
    log.info("started a job to care for a table", extra={"run": run, "kind": kind, "table": table})
    return {"run": run, "left": None}


def _tell(store: Store, settings: StreamConfig) -> None:
    """The backlog, to ingest and to CloudWatch; after a failed dispatch too, when it grows."""
    now = datetime.now(UTC)
    told = tell(store, settings, now)
    if told is not None:
        count(Metric.OLDEST, settings.name, told.age(now))
        count(Metric.BACKLOG_BYTES, settings.name, told.bytes)
        count(Metric.BACKLOG_EVENTS, settings.name, told.events)
        count(Metric.BACKLOG_OVER, settings.name, int(told.over))


def count(metric: Metric, stream: str, value: float) -> None:
    """Print one metric of a stream."""
    line = emf({"service": _SERVICE, "stream": stream}, {metric: value}, datetime.now(UTC), watched=True)
    print(msgspec.json.encode(line).decode(), flush=True)


def became(one: Mapping[str, Any]) -> str:
    """What `run` did for one stream, in words."""
    if one.get("error"):
        return f"not dispatched: {one['error']}; the schedule tries again"
    if one.get("paused"):
        return "paused again meanwhile"
    if one.get("run"):
        return f"job {one['run']} commits epochs {one['pending'][0]} to {one['pending'][1]}"
    if one.get("waits_for"):
        return f"job {one['waits_for']} is at work"
    if one.get("held") or one.get("stuck"):
        return "its epochs wait for you: see firn status"
    return "nothing waits for a job"
