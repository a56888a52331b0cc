"""What a failure of a commit means: will trying again help?"""

from dataclasses import dataclass
from typing import Literal

from firn.errors import StorageUnavailable, TransientError, UnknownOutcome
from firn.tables.planning import ColumnGone, KeyChanged, TooManyColumns

Kind = Literal["transient", "terminal", "key_changed", "column_gone", "too_many_columns", "expired"]


@dataclass(frozen=True)
class Failure:
    """`transient`: storage, catalog, network, locks, another writer: the table is all right and trying again helps.
    `terminal`: may be the table's or its changes' own fault. `key_changed`, `column_gone`, `too_many_columns`: is, for
    certain. `expired`: the log no longer holds what the table lacks. `text`: one line."""

    kind: Kind
    text: str


def failure(error: BaseException) -> Failure:
    """For the errors of Firn and of Python. OSErrors are the network's or a disk's, but for missing files: those stay
    missing."""
    if isinstance(error, KeyChanged):
        return Failure("key_changed", first_line(error))
    if isinstance(error, ColumnGone):
        return Failure("column_gone", first_line(error))
    if isinstance(error, TooManyColumns):
        return Failure("too_many_columns", first_line(error))
    lasting = isinstance(error, FileNotFoundError)
    passing = isinstance(error, TransientError | StorageUnavailable | UnknownOutcome | OSError)
    return Failure("transient" if passing and not lasting else "terminal", first_line(error))


def first_line(error: BaseException) -> str:
    """An error's type and what it says, in one line."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
