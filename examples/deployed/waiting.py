"""Until the schedule has committed everything. Nobody asks: dispatch is invoked by its EventBridge rule alone."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from firn.deployment.flush_run import wait_for_queues
from firn.deployment.stack import Stack
from firn.errors import FirnError
from firn.log import backlog


class NotCommitted(FirnError):
    """The schedule did not commit everything in time."""


def wait_for_the_schedule(
    stack: Stack, streams: tuple[str, ...], report: Callable[[str], None], seconds: float
) -> None:
    """Wait until nothing of `streams` waits, in a queue, staged or sealed. Raises NotCommitted, StorageUnavailable."""
    deadline = time.monotonic() + seconds
    wait_for_queues(stack, lambda name, text: report(f"{name}: {text}"), deadline)
    store = stack.store()
    while True:
        waiting = {name: backlog.look(store, name, datetime.now(UTC), held=True) for name in streams}
        left = {name: found for name, found in waiting.items() if found.batches}
        if not left:
            return
        said = ", ".join(
            f"{name} {found.events:,} changes ({found.epochs} epochs sealed, {len(found.free)} batches not)"
            for name, found in left.items()
        )
        if time.monotonic() > deadline:
            raise NotCommitted(
                f"after {seconds:.0f} s these wait: {said}; look at {stack.dir}/functions/*dispatch.log, "
                f"{stack.dir}/jobs/*/stderr and `firn status --dir {stack.dir}`"
            )
        report(said)
        time.sleep(1)
