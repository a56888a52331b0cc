"""A command that is run to its end, quietly, and leaves nothing behind when the one who waits for it goes."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from firn_local import tether

_TICK_SECONDS = 0.2
_SHOWN_LINES = 12


class CommandFailed(Exception):
    """It ended with another code than 0, or was not to be waited for any more. The text holds the end of its output."""


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    tick: Callable[[], None] = lambda: None,
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Run it; `tick` is called now and then, and once `stopping` says so it is killed with all that it started.

    Raises CommandFailed, OSError (there is no such program).
    """
    with tempfile.TemporaryDirectory(prefix="firn-") as scratch, Path(scratch, "output").open("w+b") as output:
        with subprocess.Popen(
            [sys.executable, "-S", "-E", tether.__file__, str(Path(scratch, "pid")), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=dict(environment),
            start_new_session=True,
        ) as process:
            while process.poll() is None:
                if stopping():
                    process.communicate()  # its input ends: the tether kills the whole session
                    raise CommandFailed("it was stopped")
                tick()
                time.sleep(_TICK_SECONDS)
        if process.returncode != 0:
            output.seek(0)
            said = output.read().decode("utf-8", "replace").strip().splitlines()[-_SHOWN_LINES:]
            raise CommandFailed("\n".join([f"exit code {process.returncode}", *said]))
