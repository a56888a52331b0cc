"""Every error that Firn raises on purpose. Whether to retry is decided by the type, once.

FirnError
├── TransientError            try again: nothing was decided
│   └── StorageUnavailable    object storage did not answer, or answered 5xx
│       └── ArchivedObject    it has to be restored before it can be read
├── TerminalError             trying again gives the same: a 4xx, or a dead letter
│   ├── ConfigError           firn.yaml is wrong; says file, line, key and what to write instead
│   ├── RequestError          the whole request can't be taken; carries the HTTP status
│   └── EventError            one event can't be taken; carries the dead-letter reason code
└── UnknownOutcome            it may have happened: never blindly retried, nothing deleted
"""

from typing import Final

MOST_SAID: Final = 2_000  # characters of an answer's text, which may quote what was sent


def said(text: str) -> str:
    """A text for whoever asked, short enough whatever it quotes."""
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}…"


class FirnError(Exception):
    """Base of all of Firn's own errors."""


class TransientError(FirnError):
    """Nothing was decided; the caller may try again."""


class StorageUnavailable(TransientError):
    """Object storage could not be reached or answered with a server error. HTTP: 503."""


class ArchivedObject(StorageUnavailable):
    """An object lies in a storage class that has to be restored before a read: hours, once somebody asks for it."""


class TerminalError(FirnError):
    """Trying again would give the same answer."""


class ConfigError(TerminalError):
    """The configuration is wrong. The text names file, line, key and what to write instead."""


class RequestError(TerminalError):
    """A whole request can't be taken. `status` is the HTTP status to answer, `code` a word for machines, `retry_after`
    the seconds after which it is worth another try (None: it never is)."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(said(message))
        self.status = status
        self.code = code
        self.retry_after = retry_after


class EventError(TerminalError):
    """One event can't be taken: it becomes a dead letter, and the others go on. `code` is its reason code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnknownOutcome(FirnError):
    """The step may have taken effect. Look before you act; never retry blindly, never clean up."""
