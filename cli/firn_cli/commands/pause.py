"""`firn pause`: no job starts until `firn resume`."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from firn.deployment import flush_run, rebuild_run
from firn.deployment.stack import Stack
from firn.deployment.target import find_stack
from firn.deployment.terminal import print_json, spinner
from firn.errors import FirnError, TransientError, UnknownOutcome
from firn.log.epochs import SKEW
from firn.maintenance import launcher
from firn.runs import job_runs
from firn_cli.options import DEFAULT_DIR, Dir, Json

if TYPE_CHECKING:
    from firn.log.store import Store

Report = Callable[[str], None]
"""Called with what it waits for."""

_POLL_SECONDS: Final = 1.0
# A function that had looked before the pause may start a job until its time-out, and EMR lists it a moment later.
_SETTLE_SECONDS: Final = 75.0
_PREFIXES: Final = (job_runs.PREFIX, launcher.PREFIX, rebuild_run.PREFIX)
_STOPPED: Final = ("STOPPED", "CREATED")


class NotQuiet(FirnError):
    """It is paused, and not all has ended yet. The same command can be repeated."""


def command(
    wait: Annotated[bool, typer.Option("--wait", help="Wait until no job runs any more.")] = False,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="Then stop the EMR application too, as its update and deletion ask for. Waits."),
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.", min=1)] = 3600.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Start no more jobs; changes are still staged. Running jobs end after their epoch."""
    from firn.log import pause

    stack = find_stack(folder)
    store = stack.store()
    pause.begin(store)
    since = pause.since(store)
    if not as_json:
        typer.echo(f"paused since {since:%Y-%m-%d %H:%M} UTC: changes are staged, no job starts" if since else "paused")
    stopped = _wait(stack, store, timeout, stop, quiet=as_json) if wait or stop else False
    left = active(stack)
    if as_json:
        print_json({"paused_since": since, "running": left, "stopped": stopped})
        return
    if left:
        typer.echo(f"{_jobs(left)} at work, until the end of what it commits; firn pause --wait waits for that")
    else:
        typer.echo("no job runs" + (", and the EMR application is stopped" if stopped else ""))
    typer.echo("firn resume goes on")


def wait_until_quiet(stack: Stack, store: "Store", *, report: Report, timeout: float, settle: float) -> None:
    """Wait until no job of Firn's runs, and it is `settle` seconds since the pause, as far as this process has seen or
    the storage's clock tells for sure. `timeout` in seconds.

    Raises NotQuiet (at the time-out, or if somebody resumes), ConfigError, StorageUnavailable.
    """
    from firn.log import pause

    begun = watched = time.monotonic()
    seen: datetime | None = None
    while True:
        try:
            since, left = pause.since(store), active(stack)
        except (TransientError, UnknownOutcome) as error:
            state = f"what runs is not known: {error}"
        else:
            if since is None:
                raise NotQuiet("somebody resumed it meanwhile: jobs start again")
            if since != seen:  # resumed and paused again meanwhile: in between functions may have looked
                seen, watched = since, time.monotonic()
            by_clocks = (datetime.now(UTC) - since - SKEW).total_seconds()
            remaining = settle - max(by_clocks, time.monotonic() - watched)
            if not left and remaining <= 0:
                return
            state = (
                f"waiting for {_jobs(left)}"
                if left
                else f"no job runs; looking for {remaining:.0f} s more, for one that was about to start"
            )
        report(state)
        if time.monotonic() - begun > timeout:
            raise NotQuiet(f"not quiet after {timeout:.0f} s ({state}); it stays paused, the same command waits again")
        time.sleep(_POLL_SECONDS)


def active(stack: Stack) -> dict[str, str]:
    """The runs of Firn's that are on their way or at work: name -> id. Raises ConfigError, TransientError."""
    if not _has_application(stack):
        return {}
    return {name: run for name, run in stack.jobs(starts=False).active("").items() if name.startswith(_PREFIXES)}


def stop_application(stack: Stack, *, report: Report, timeout: float) -> bool:
    """Stop the EMR application and wait until it is. -> whether there is one. Raises NotQuiet."""
    from botocore.exceptions import BotoCoreError, ClientError

    if not _has_application(stack):
        return False
    deadline = time.monotonic() + timeout
    while True:
        try:
            state = flush_run.application_state(stack)
            if state in _STOPPED:
                return True
            if state == "STARTED":
                flush_run.stop_application(stack)
        except (BotoCoreError, ClientError) as error:
            raise NotQuiet(f"paused, but the EMR application can't be stopped: {error}") from error
        report(f"the EMR application is {state.lower()}")
        if time.monotonic() > deadline:
            raise NotQuiet(f"paused, and the EMR application is still {state}: the same command waits again")
        time.sleep(_POLL_SECONDS)


def _has_application(stack: Stack) -> bool:
    return bool(stack.env.get("FIRN_EMR_APPLICATION_ID"))


def _wait(stack: Stack, store: "Store", timeout: float, stop: bool, *, quiet: bool) -> bool:
    """-> whether the application is stopped."""
    deadline = time.monotonic() + timeout
    with spinner(shown=not quiet) as report:
        wait_until_quiet(stack, store, report=report, timeout=timeout, settle=_SETTLE_SECONDS)
        return stop and stop_application(stack, report=report, timeout=deadline - time.monotonic())


def _jobs(left: Mapping[str, str]) -> str:
    first = next(iter(sorted(left)), "")
    return f"{len(left)} job{'' if len(left) == 1 else 's'} ({first}{', …' if len(left) > 1 else ''})"
