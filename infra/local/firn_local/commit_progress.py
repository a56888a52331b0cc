"""What `firn up` says of commits that take long. With `--s3`, in memory, it says nothing of them: `firn jobs` does."""

import threading
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from firn_local.emr_runs import Runner

EVERY_SECONDS: Final = 10.0


def say_until(stopped: threading.Event, staging: Path, runner: Runner | None, say: Callable[[str], None]) -> None:
    """Says every few seconds how far the commits are that run, until it is `stopped`. `staging`: the log's folder."""
    while not stopped.wait(EVERY_SECONDS):
        running = {str(run.request.get("name")) for run in runner.running()} if runner is not None else set()
        for line in lines(staging, running, datetime.now(UTC)):
            say(line)


def lines(staging: Path, running: Collection[str], now: datetime) -> Iterator[str]:
    """A line for each stream that one of these runs (names) commits just now."""
    files = sorted(staging.glob("attempts/*/progress.json")) if running else ()
    for file in files:
        from firn.log import job_progress  # loads the store: only once a commit took long

        try:
            found = job_progress.parse(file.read_bytes())
        except OSError:
            continue
        # It is on this machine's clock: a moment later the job has told again, or is done with it.
        if found is not None and found.run in running and job_progress.is_live(found, now, job_progress.SOON_SECONDS):
            yield f"{found.stream}: {job_progress.summary(found)}"
