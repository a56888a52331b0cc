"""One stack a folder: a lock that the kernel drops when its holder dies, however it dies."""

import fcntl
import json
import os
from pathlib import Path
from typing import IO


class AlreadyRunning(Exception):
    """Another stack runs on the folder. The text names it and says what to do."""


class Claim:
    """Holds {folder}/stack.lock. A lock file left by a stack that was killed is not an obstacle: nobody holds it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Take the folder, and forget what a killed stack said about itself. Raises AlreadyRunning."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / "stack.lock").open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            pid = file.read().strip() or "?"
            file.close()
            raise AlreadyRunning(
                f"a stack already runs on {self._folder} (process {pid}{self._address()}): "
                f"use it, stop it with `kill {pid}`, or give another --dir"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file
        (self._folder / "stack.json").unlink(missing_ok=True)

    def release(self) -> None:
        """Give the folder back."""
        if self._file is not None:
            (self._folder / "stack.json").unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _address(self) -> str:
        try:
            return f", {json.loads((self._folder / 'stack.json').read_text())['url']}"
        except (OSError, ValueError, KeyError):
            return ""
