"""The pull as `firn up` has it: an invocation after the other, where a deployment's schedule starts one a minute."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from firn_local.events import schedule_event
from firn_local.functions import FunctionError, FunctionRunner

_log: Final = logging.getLogger(__name__)

PULL: Final = "pull"
_PAUSE: Final = 1.0  # seconds between two invocations


class SourcePoller:
    """Invokes the function while there are databases to pull. start() it, stop() it."""

    def __init__(self, function: FunctionRunner, has_sources: Callable[[], bool]) -> None:
        self._function, self._has_sources = function, has_sources
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Invoke no more; the invocation under way ends with the function."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(_PAUSE):
            if not self._has_sources():
                continue
            try:
                self._function.invoke(schedule_event(PULL))
            except FunctionError as error:
                if not self._stopping.is_set():
                    _log.error("%s: %s", PULL, error)
