"""An update of the stack while events are posted: `sam deploy` with another parameter, beside the sender."""

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from firn.errors import FirnError
from firn_deploy import sam
from firn_deploy.deploying import Deployed, Options, deploy

BEFORE = {"MaxInflatedBytes": "33554432"}
"""What the first deploy has in place of the template's default: the update changes the environment of all functions."""

_PACE, _SLOW_PACE = 0.2, 5.0  # seconds between two requests while the update goes on, so that it meets some


def before(options: Options) -> Options:
    """How to deploy first."""
    return replace(options, parameters=BEFORE)


@dataclass
class Update:
    """Begins when `begin_at` events are acknowledged; from `slow_at` on the sender slows down till its end."""

    options: Options
    begin_at: int
    slow_at: int
    acknowledged: list[tuple[float, int]] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _done: Deployed | None = None
    _failed: FirnError | None = None

    def between(self, events: int) -> None:
        """Called before each batch with the events that are acknowledged until then."""
        self.acknowledged.append((time.time(), events))
        if self._thread is None and events >= self.begin_at:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        if self._thread is not None and self._thread.is_alive():
            time.sleep(_PACE if events < self.slow_at else _SLOW_PACE)

    def events_meanwhile(self) -> int:
        """Wait for its end; -> how many events were acknowledged between its beginning and its end as CloudFormation
        tells them. 0 if nothing was updated. Raises what made it fail."""
        if self._thread is not None:
            self._thread.join()
        if self._failed is not None:
            raise self._failed
        if self._done is None or "stack" not in self._done.changed:
            return 0
        told = sam.client(self._done.port, "cloudformation").describe_stack_events(StackName=self.options.name)
        began, ended = _last_update(told["StackEvents"], self.options.name)
        counts = [events for when, events in self.acknowledged if began <= when <= ended]
        return counts[-1] - counts[0] if counts else 0

    def _run(self) -> None:
        try:
            self._done = deploy(self.options, lambda _: nullcontext())
        except FirnError as error:
            self._failed = error


def _last_update(events: Sequence[dict[str, Any]], stack: str) -> tuple[float, float]:
    """When the stack's last update began and ended, in seconds since the epoch."""
    times = {
        status: max(
            one["Timestamp"].timestamp()
            for one in events
            if one["LogicalResourceId"] == stack and one["ResourceStatus"] == status
        )
        for status in ("UPDATE_IN_PROGRESS", "UPDATE_COMPLETE")
    }
    return times["UPDATE_IN_PROGRESS"], times["UPDATE_COMPLETE"]
