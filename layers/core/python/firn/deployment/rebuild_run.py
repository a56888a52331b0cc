"""Start the rebuild of a table, and wait until it is done: what `firn rebuild` does, without its looks."""

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from firn.config.names import TableName
from firn.deployment import flush_run
from firn.deployment.stack import Stack
from firn.errors import FirnError
from firn.runs.job_runs import ENDED

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from firn.log.store import Store
    from firn.rebuild.plan import Part
    from firn.runs.emr import EmrJobs
    from firn.tables.table_state import TableState

Report = Callable[[str, int, int, str], None]
"""Called with a stream, how many of its epochs are done, of how many, and the job's state."""

_POLL_SECONDS = 1.0
REBUILT = "firn.rebuilt"
PREFIX = "rebuild-"


class RebuildFailed(FirnError):
    """The table is as it was; what the rebuild has done so far is kept, and the same command goes on there."""


@dataclass(frozen=True)
class Wanted:
    """What was asked for: exactly one of `into`, `in_place`, `check`. `table`: as a person wrote it."""

    table: str
    into: str | None = None
    in_place: bool = False
    check: bool = False
    to: str | None = None
    partial: bool = False


@dataclass(frozen=True)
class Work:
    """A rebuild that can be done. `seen`: (table, branch) where its progress shows; `arguments`: of the job, but for
    --run."""

    table: TableName
    parts: "Sequence[Part]"
    seen: tuple[TableName, str | None]
    arguments: tuple[str, ...]
    columns: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the job's runs are called, but for their id: the same work has the same name."""
        digest = hashlib.sha256("\n".join(self.arguments).encode()).hexdigest()[:12]
        return f"{PREFIX}{str(self.table)[:150]}-{digest}-"


@dataclass
class Rebuilt:
    """`result`: firn_spark.rebuild.Result as JSON; `run`: the job run; `held`: streams in which the table is held."""

    run: str
    result: Mapping[str, Any]
    held: list[str] = field(default_factory=list)
    seconds: float = 0.0


def prepare(stack: Stack, wanted: Wanted, find: Callable[[], "Table | None"]) -> Work:
    """Looks at the table and what the log has of it, before any job is started. `find`: gives the live table; None if
    there is none and none is needed.

    Raises CannotRebuild (the log does not hold it all, says what), ConfigError, StorageUnavailable, what `find` raises.
    """
    from firn.log import published_configs
    from firn.rebuild.plan import CannotRebuild, not_of_the_log, plan

    store = stack.store()
    config = published_configs.current(store)
    live = find()
    table, state = _state(live) if live is not None else (TableName.parse(wanted.table), None)
    properties = state.properties if state else {}
    upto = None
    if wanted.into is None and state is not None:
        upto = {stream: n for stream in config.streams if (n := state.progress(stream))}
    why = not_of_the_log(config, table)
    if why is not None and not wanted.in_place:
        raise CannotRebuild(why)
    parts = [] if why is not None else plan(store, config, table, upto=upto, to=wanted.to, partial=wanted.partial)
    how = ["--table", str(table)]
    if wanted.into is not None:
        into = TableName.parse(wanted.into)
        seen: tuple[TableName, str | None] = into, None
        how += ["--into", str(into), *(("--to", wanted.to) if wanted.to else ())]
        how += ["--partial"] if wanted.partial else []
    elif wanted.check:
        seen = TableName(table.namespace, table.table + "__check"), None
        how += ["--check"]
    else:
        number = int(properties.get(REBUILT, 0)) + 1
        seen = table, f"rebuild-{number}"
        how += ["--in-place", "--number", str(number)]
    places = ("--staging", stack.staging, "--warehouse", stack.warehouse, "--catalog-uri", stack.catalog_uri)
    columns = [str(one["name"]) for one in state.fields] if state else []
    return Work(table, parts, seen, (*places, *how), tuple(name for name in columns if not name.startswith("_firn_")))


def rebuild(
    stack: Stack,
    work: Work,
    open_catalog: "Callable[[], Catalog]",
    *,
    report: Report = lambda *_: None,
    timeout: float = 86_400.0,
) -> Rebuilt:
    """Starts the job, or finds the one that does this very work already, and waits for its end. `timeout` in seconds.
    `open_catalog`: opens the stack's catalog, again at each look, for credentials end.

    Raises Paused, RebuildFailed (with the end of the job's log), TransientError, UnknownOutcome.
    """
    stack.expect_no_pause()
    started = time.monotonic()
    store = stack.store()
    identifier, run = _start(stack.jobs(), work)
    done: dict[str, int] = {}
    while True:
        state, details = flush_run.run_state(stack, run)
        _look(open_catalog(), work, done)
        for part in work.parts:
            count = sum(n <= done.get(part.stream, 0) for n in part.epochs)
            report(part.stream, count, len(part.epochs), state.lower())
        if state in ENDED:
            break
        if time.monotonic() - started > timeout:
            raise RebuildFailed(
                f"not done after {timeout:.0f} s; job run {run} goes on: run the command again to watch it"
            )
        time.sleep(_POLL_SECONDS)
    result = _result(store, identifier)
    if result is None or result["status"] == "failed":
        tail = "" if result else flush_run.log_tail(stack, run)
        said = result["error"] if result else f"job run {run} ended {state}: {details or 'no details'}"
        raise RebuildFailed(
            f"{work.table} was not rebuilt: {said}" + (f"\n{tail}" if tail else "")
            + "\nmend the cause and run the same command again: it goes on where it was"
        )  # fmt: skip
    return Rebuilt(run, result, _held(store, work), time.monotonic() - started)


def _state(live: "Table") -> "tuple[TableName, TableState]":
    *namespace, table = live.name()
    return TableName(".".join(namespace), table), _parsed(live)


def _parsed(table: "Table", branch: str | None = None) -> "TableState":
    """`branch`: as table_state.parse. Of format 3 too, whose metadata PyIceberg 0.12 does not write by itself."""
    from pyiceberg.typedef import IcebergBaseModel

    from firn.tables import table_state

    return table_state.parse(IcebergBaseModel.model_dump_json(table.metadata), branch)


def _start(jobs: "EmrJobs", work: Work) -> tuple[str, str]:
    """-> (the id that names the result, the job run)."""
    for name, run in jobs.active(work.name).items():
        return name.removeprefix(work.name), run
    identifier = uuid.uuid4().hex
    arguments, tags = [*work.arguments, "--run", identifier], {"firn:rebuild": str(work.table)[:256]}
    return identifier, flush_run.started(
        lambda: jobs.start_script("rebuild.py", arguments, work.name + identifier, identifier, tags)
    )


def _look(catalog: "Catalog", work: Work, done: dict[str, int]) -> None:
    """How far the job is, from the table that it fills. It is not there yet, or no longer: then as before."""
    from pyiceberg.exceptions import NoSuchTableError

    table, branch = work.seen
    try:
        loaded = catalog.load_table(table.identifier)
    except (NoSuchTableError, FileNotFoundError):  # a check drops its table
        return
    state = _parsed(loaded, branch)
    for part in work.parts:
        done[part.stream] = max(done.get(part.stream, 0), state.progress(part.stream))


def _result(store: "Store", identifier: str) -> Mapping[str, Any] | None:
    from firn.log import layout
    from firn.log.store import get

    data = get(store, layout.rebuild_path(identifier))
    found: Mapping[str, Any] | None = None if data is None else json.loads(data)
    return found


def _held(store: "Store", work: Work) -> list[str]:
    from firn.log import holds

    streams = (part.stream for part in work.parts)
    return [stream for stream in streams if str(work.table) in holds.read_all(store, stream).held()]
