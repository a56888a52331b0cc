"""The scheduled care of tables: what is due, by their health alone, goes to one job on EMR Serverless for all tables.

Nothing due: a handful of small reads, no job. While a commit job of a stream lives it cares for that stream's tables
itself, between its commits: a job beside it would lose against them.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from firn.config.model import Config
from firn.config.names import TableName, owner
from firn.errors import RequestError
from firn.log import pause, table_health
from firn.log.store import Store
from firn.maintenance import health_report, unfed
from firn.maintenance.schedule import Kind, tables_due
from firn.runs.emr import EmrJobs
from firn.runs.job_runs import parse_name
from firn.settings import Settings

Log = logging.Logger | Any  # Powertools' logger, which is not a logging.Logger
PREFIX: Final = "care-"
SCRIPT: Final = "care.py"
_SLOT_SECONDS: Final = 900  # one job for a slot, however often it is asked for


@dataclass(frozen=True)
class Cared:
    """What a round found: table -> what is due and why; the run that does it, or why there is none."""

    due: Mapping[str, Mapping[Kind, str]] = field(default_factory=dict)
    run: str | None = None
    left: str | None = None


def run(
    settings: Settings,
    store: Store,
    config: Config,
    jobs: EmrJobs | None,
    kinds: Sequence[Kind],
    now: datetime,
    log: Log,
) -> Cared:
    """One round. Raises StorageUnavailable, TransientError, UnknownOutcome (the next round asks again, in the same slot
    with the same token)."""
    found = what_is_due(store, config, kinds, now)
    if not found:
        return Cared()
    if jobs is None:
        return Cared(found, left="no EMR Serverless application is set")
    running = jobs.active("")
    if any(name.startswith(PREFIX) for name in running):
        return Cared(found, left="a job that cares for tables is at work")
    busy = {name for one in running if (at := parse_name(one)) for name in config.sharing(at[0])}
    mine = {table: of for table, of in found.items() if not feeding(config, table) & busy}
    # These take no file away that a commit needs, and a commit job has no time for them.
    mine = mine or {table: {"statistics": of["statistics"]} for table, of in found.items() if "statistics" in of}
    if not mine:
        log.info("a commit job lives, and cares for its tables itself", extra={"due": found})
        return Cared(found, left="a commit job lives and does it between its commits")
    if pause.since(store) is not None:
        return Cared(found, left="it is paused: firn resume")
    slot = f"{int(now.timestamp()) // _SLOT_SECONDS}"
    wanted = sorted({kind for of in mine.values() for kind in of})
    asked = [settings.staging, slot, *wanted, *sorted(mine)]
    identifier = hashlib.sha256("\n".join(asked).encode()).hexdigest()[:32]
    started = start(settings, jobs, identifier, wanted, mine)
    log.info("started a job to care for tables", extra={"run": started, "due": mine})
    return Cared(found, started)


def _with_facts(due: Mapping[str, Mapping[Kind, str]]) -> dict[str, dict[Kind, str]]:
    """What is due of the facts of a table is due of the table: a job cares for both."""
    found: dict[str, dict[Kind, str]] = {}
    for name, kinds in sorted(due.items()):
        found.setdefault(owner(name), {}).update(kinds)
    return found


def what_is_due(store: Store, config: Config, kinds: Sequence[Kind], now: datetime) -> dict[str, dict[Kind, str]]:
    """Table -> what of `kinds` is due of it or of its facts, with the reason. Raises StorageUnavailable."""
    known = table_health.read_all(store, config.streams)
    owners = {name: owner(name) for name in known}
    policies = {name: config.care_of(TableName.parse(of)) for name, of in owners.items() if feeding(config, of)}
    found = _with_facts(tables_due(known, policies, tuple(kinds), now))
    if config.care.also.patterns:
        others = unfed.due(table_health.read(store, unfed.HEALTH), config, kinds, now)
        found |= {name: why for name, why in others.items() if name not in found and not feeding(config, name)}
    return found


def feeding(config: Config, table: str) -> set[str]:
    """The streams whose rules may feed a target table; if none does, those whose shards may have got it since, unless
    `care.also` names it."""
    try:
        name = TableName.parse(table)
    except ValueError:
        return set()
    streams = config.streams.values()
    found = {stream.name for stream in streams if any(rule.feeds(name) for rule in stream.targets)}
    also = config.care.also.patterns
    return found or {one.name for one in streams if any(r.shard and r.shard.may_hold(name, also) for r in one.tables)}


def is_unfed(config: Config, table: str) -> bool:
    """Whether firn.yaml names a table that no stream feeds, for care to look after."""
    try:
        name = TableName.parse(table)
    except ValueError:
        return False
    return config.care.also.names(name) and not feeding(config, table)


def health_streams(config: Config, table: str) -> set[str]:
    """The streams under whose names a table's health is kept: those that feed it; unfed.HEALTH, if none does and
    firn.yaml names it. Empty: care does not look after it."""
    return feeding(config, table) or ({unfed.HEALTH} if is_unfed(config, table) else set())


def health_of(store: Store, config: Config, table: str, now: datetime) -> dict[str, Any]:
    """What GET /v1/tables/{table}/health answers. Raises RequestError 404, StorageUnavailable."""
    streams = health_streams(config, table)
    known = table_health.read_all(store, sorted(streams)).get(table)
    if known is None:
        then = "one does every six hours" if streams == {unfed.HEALTH} else "that comes with its sixteenth commit"
        why = f"no job has looked at it yet: {then}" if streams else "no stream feeds it"
        raise RequestError(404, "unknown_table", f"nothing is known of a table {table!r}: {why}")
    return health_report.report(known, config.care_of(TableName.parse(table)), now)


def start(
    settings: Settings,
    jobs: EmrJobs,
    identifier: str,
    kinds: Sequence[str],
    tables: Iterable[str],
    flags: Sequence[str] = (),
) -> str:
    """Starts the job, or finds the one that this very call started before. `identifier`: letters and digits; names the
    result in the staging store. Raises what EmrJobs.start_script raises."""
    places = {"staging": settings.staging, "warehouse": settings.warehouse, "catalog-uri": settings.catalog_uri}
    arguments = [word for name, value in places.items() for word in (f"--{name}", value)]
    arguments += ["--run", identifier, "--do", ",".join(kinds)]
    arguments += [word for table in tables for word in ("--table", table)]
    token = hashlib.sha256(identifier.encode()).hexdigest()
    # A tag's value takes no comma (EMR Serverless API, TagValue).
    return jobs.start_script(SCRIPT, [*arguments, *flags], PREFIX + identifier, token, {"firn:care": " ".join(kinds)})
