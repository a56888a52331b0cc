"""Progress for people, on standard error where the result is JSON."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class Steps:
    """Shows what goes on, and afterwards how long it took."""

    def __init__(self, *, as_json: bool) -> None:
        self.console = Console(highlight=False, stderr=as_json)
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """One part of the work."""
        began = time.monotonic()
        with self.console.status(text):
            yield
        self.say(f"{text} [dim]({time.monotonic() - began:.1f} s)[/dim]")

    def say(self, text: str) -> None:
        """A line, with the time since the beginning."""
        self.console.print(f"[dim]{self.seconds:5.1f} s[/dim]  {text}", soft_wrap=True)
