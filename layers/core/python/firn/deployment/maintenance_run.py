"""Start the job that cares for tables, and wait for its result: what `firn compact` and its like do, without their
looks."""

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from firn.config.storage_classes import S3, classes_of
from firn.deployment import flush_run
from firn.deployment.stack import Stack
from firn.errors import FirnError
from firn.log import layout
from firn.log.store import get
from firn.maintenance import launcher
from firn.maintenance.schedule import Kind
from firn.runs.job_runs import ENDED

Report = Callable[[str], None]
"""Called with the job's state."""

_POLL_SECONDS: Final = 1.0


class CareFailed(FirnError):
    """The job ended without a result. The tables are right as they are; the same command can be repeated."""


@dataclass(frozen=True)
class Done:
    """`lines`: what the job says of each table and of the table of its deletes; `freed`: bytes of storage; `dollars`: a
    month, for those."""

    run: str
    lines: Sequence[Mapping[str, Any]]
    seconds: float
    freed: int = 0
    dollars: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether any table could not be cared for."""
        return any(line["status"] == "failed" for line in self.lines)


def care_for(
    stack: Stack,
    kinds: Sequence[Kind],
    tables: Sequence[str],
    flags: Sequence[str] = (),
    *,
    report: Report = lambda _state: None,
    timeout: float = 86_400.0,
) -> Done:
    """Starts a job for `kinds` of these tables (namespace.table) and waits for its end. `timeout` in seconds.

    Raises Paused, CareFailed (with the end of the job's log), TransientError, UnknownOutcome.
    """
    stack.expect_no_pause()
    began = time.monotonic()
    identifier = uuid.uuid4().hex
    settings, jobs = stack.settings(), stack.jobs()
    run = flush_run.started(lambda: launcher.start(settings, jobs, identifier, kinds, tables, flags))
    while True:
        state, details = flush_run.run_state(stack, run)
        report(state.lower())
        if state in ENDED:
            break
        if time.monotonic() - began > timeout:
            raise CareFailed(f"not done after {timeout:.0f} s; job run {run} goes on, firn status shows what it did")
        time.sleep(_POLL_SECONDS)
    data = get(stack.store(), layout.care_path(identifier))
    if data is None:
        tail = flush_run.log_tail(stack, run)
        raise CareFailed(f"job run {run} ended {state} without a result: {details or 'no details'}\n{tail}".rstrip())
    lines = json.loads(data)["lines"]
    classes = classes_of(stack.warehouse) or S3
    freed = sum(int(line.get("freed_bytes", 0)) for line in lines)
    return Done(run, lines, time.monotonic() - began, freed, freed / 2**30 * classes.of(classes.hot).storage)
