"""Start a backfill, or go on with it, and wait until it is done: what `firn backfill` does, without its looks."""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firn.backfill import backfill_request as requests
from firn.backfill import chunk_plan as plans
from firn.backfill.backfill_request import End, Request
from firn.backfill.postgres_connection import url_of
from firn.backfill.progress import Progress, Watch
from firn.backfill.source_address import read_address
from firn.config.model import Config
from firn.config.pull_source import PostgresAddress
from firn.config.secret_addresses import place_of
from firn.deployment import flush_run
from firn.deployment.stack import Stack
from firn.errors import ConfigError, FirnError
from firn.log import layout, published_configs
from firn.log.batches import FORMAT
from firn.runs.job_runs import ENDED

if TYPE_CHECKING:
    from firn.log.store import Store

PREFIX = "backfill-"
PASSWORD = "FIRN_SOURCE_PASSWORD"  # noqa: S105 (the name of a variable)
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Look:
    """How far it is. `state`: the job run's; `chunks`, `rows`: of how many, by the plan; None before there is one."""

    state: str
    progress: Progress
    chunks: int | None = None
    rows: int | None = None


Report = Callable[[Look], None]


class BackfillFailed(FirnError):
    """What is staged stays; the same command goes on there."""


@dataclass(frozen=True)
class Done:
    """`end`: how it ended; `seconds`: of this command; `rows`: by source table."""

    request: Request
    end: End
    progress: Progress
    run: str
    seconds: float


def prepare(stack: Stack, wanted: Request) -> Request:
    """The request to work on: one of the stream that asks for the same and has not ended, or else `wanted`, which is
    written. `wanted`: with any id and time; its source may hold a password.

    Raises ConfigError, BackfillFailed (another backfill of the stream is open), StorageUnavailable.
    """
    store = stack.store()
    config = published_configs.current(store)
    settings = config.streams.get(wanted.stream)
    if settings is None:
        raise ConfigError(f"firn.yaml has no stream {wanted.stream}; it has {', '.join(sorted(config.streams))}")
    if wanted.replace and not settings.generation:
        raise ConfigError(
            f"--replace is for a source that starts again: raise `generation` of stream {wanted.stream} in firn.yaml "
            "and publish it first, so that what comes now beats what came before (docs/backfill.md)"
        )
    if wanted.replace and wanted.where:
        raise ConfigError("--replace takes the whole table, so it does not go with --where")
    wanted = wanted if wanted.source else _as_firn_yaml_says(wanted, config)
    address = read_address(wanted.source) if wanted.is_database else None
    source = _files(wanted) if address is None else address.public
    now = datetime.now(UTC)
    identifier = f"{int(now.timestamp() * 1000):012x}{secrets.token_hex(4)}"
    pulled = address is not None and _is_pulled(wanted.stream, address.address, config)
    asked = msgspec.structs.replace(
        wanted, id=identifier, made_at=layout.instant(now), source=source, pulled=pulled and not wanted.is_mysql
    )
    before = next((one for one in requests.open_ones(store, wanted.stream) if one.is_same(asked)), None)
    others = [one.id for one in requests.open_ones(store, wanted.stream) if before is None or one.id != before.id]
    if others:
        raise BackfillFailed(
            f"stream {wanted.stream} has an open backfill, {others[0]}, that asks for something else: give its own "
            f"command again to go on with it, or end it with firn backfill {wanted.stream} --cancel"
        )
    found = before or asked
    password = None
    if address is not None:
        password = address.password if address.password is not None else os.environ.get(PASSWORD)
    if password is not None and not wanted.password:
        found = msgspec.structs.replace(found, password=_kept(stack, found.id, password))
    elif wanted.password:
        _check_place(wanted.password)
        found = msgspec.structs.replace(found, password=wanted.password)
    if before is None:
        requests.write(store, found)
    elif found != before:  # the password is somewhere else by now
        requests.overwrite(store, found)
    return found


def _as_firn_yaml_says(wanted: Request, config: Config) -> Request:
    """From the database that the stream is pulled from. Raises ConfigError if there is none."""
    found = [one for one in config.sources.values() if one.stream == wanted.stream]
    if len(found) != 1:
        raise ConfigError(
            f"say where from: --from postgres://user@host:5432/database, or files; sources: of firn.yaml has "
            f"{len(found) or 'none'} for stream {wanted.stream}"
        )
    one = found[0]
    return msgspec.structs.replace(
        wanted, source=url_of(one.address), password=wanted.password or one.secret, iam=one.iam,
        publication=one.publication,
    )  # fmt: skip


def _is_pulled(stream: str, address: PostgresAddress, config: Config) -> bool:
    """Whether Firn reads the slot of that very database for the stream."""
    found = [one.address for one in config.sources.values() if one.stream == stream]
    place = (address.host, address.port, address.database)
    return [(one.host, one.port, one.database) for one in found] == [place]


def _files(wanted: Request) -> str:
    """The address of files, absolute. Raises ConfigError."""
    if len(wanted.tables) != 1:
        raise ConfigError(
            "files fill one table: name it, firn backfill STREAM TABLE --from 's3://bucket/folder/*.parquet'"
        )
    if wanted.where or wanted.replace or wanted.password:
        raise ConfigError("--where, --replace and --password are for databases: files are taken as they are")
    scheme, colon, _ = wanted.source.partition("://")
    if not colon:
        return f"file://{Path(wanted.source).absolute()}"
    if scheme not in ("s3", "file"):
        raise ConfigError(
            "--from: write postgres://user@host:5432/database, mysql://user@host:3306/database, or "
            "files as s3://bucket/folder/*.parquet or a path"
        )
    return wanted.source


def _check_place(text: str) -> None:
    try:
        place_of(text)
    except ValueError as error:
        raise ConfigError(f"--password: {error}") from None


def _kept(stack: Stack, identifier: str, password: str) -> str:
    """The place of a file of the embedded stack that its jobs read the password from. Raises ConfigError."""
    if stack.dispatch is not None:
        raise ConfigError(
            f"a deployed job can't read this machine's {PASSWORD}: put the password into Secrets Manager or a "
            "parameter, let the job's role read it, and write --password secretsmanager:NAME or ssm:/NAME"
        )
    file = _password_file(stack, identifier)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(password)
    return f"file:{file}"


def _password_file(stack: Stack, identifier: str) -> Path:
    return stack.dir.resolve() / "secrets" / f"backfill-{identifier}"


def backfill(stack: Stack, request: Request, *, report: Report = lambda _: None, timeout: float = 604_800.0) -> Done:
    """Starts the job, or finds the one that works on this request, and waits for its end. `timeout` in seconds.

    Raises Paused, BackfillFailed (with the end of the job's log), TransientError, UnknownOutcome.
    """
    stack.expect_no_pause()
    started = time.monotonic()
    store = stack.store()
    run, watch = _start(stack, request), _Watching(store, request)
    while True:
        state, details = flush_run.run_state(stack, run)
        report(watch.look(state.lower()))
        if state in ENDED:
            break
        if time.monotonic() - started > timeout:
            raise BackfillFailed(f"not done after {timeout:.0f} s; job run {run} goes on: the same command watches it")
        time.sleep(_POLL_SECONDS)
    found = requests.ended(store, request.stream, request.id)
    if found is None:
        tail = flush_run.log_tail(stack, run)
        raise BackfillFailed(
            f"backfill {request.id} of stream {request.stream} is not done: job run {run} ended {state}: "
            f"{details or 'no details'}" + (f"\n{tail}" if tail else "")
            + "\nwhat is staged stays: fix the cause and give the same command again"
        )  # fmt: skip
    _forget_password(stack, request)
    return Done(request, found, watch.look(state.lower()).progress, run, time.monotonic() - started)


class _Watching:
    def __init__(self, store: "Store", request: Request) -> None:
        self._store, self._request = store, request
        self._watch: Watch | None = None
        self._plan: plans.Plan | None = None

    def look(self, state: str) -> Look:
        if self._plan is None:
            self._plan = plans.read(self._store, self._request.stream, self._request.id)
        if self._plan is None:
            return Look(state, Progress())
        if self._watch is None:
            self._watch = Watch(self._store, self._request.stream, self._plan)
        return Look(state, self._watch.look(), len(self._plan.chunks), self._plan.rows)


def cancel(stack: Stack, stream: str) -> Sequence[str]:
    """Ends all open backfills of the stream, and the jobs that work on them. -> their ids. Rows that are staged stay.

    Raises StorageUnavailable, TransientError.
    """
    store, ended = stack.store(), []
    for request in requests.open_ones(store, stream):
        now = layout.instant(datetime.now(UTC))
        requests.end(store, stream, request.id, End(FORMAT, "cancelled", now))
        for run in stack.jobs(starts=False).active(_name(request)).values():
            flush_run.cancel(stack, run)
        _forget_password(stack, request)
        ended.append(request.id)
    return ended


def _forget_password(stack: Stack, request: Request) -> None:
    with suppress(OSError):
        _password_file(stack, request.id).unlink(missing_ok=True)


def _name(request: Request) -> str:
    return f"{PREFIX}{request.stream}-{request.id}-"


def _start(stack: Stack, request: Request) -> str:
    """-> the job run."""
    jobs = stack.jobs()
    for run in jobs.active(_name(request)).values():
        return run
    places = ("--staging", stack.staging, "--warehouse", stack.warehouse, "--catalog-uri", stack.catalog_uri)
    arguments = ["--stream", request.stream, "--backfill", request.id, *places]
    token, tags = secrets.token_hex(16), {"firn:backfill": request.id, "firn:stream": request.stream}
    return flush_run.started(
        lambda: jobs.start_script("backfill.py", arguments, _name(request) + token[:8], token, tags)
    )
