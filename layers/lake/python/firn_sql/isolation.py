"""Finds the rows that make a run fail, or give too much, so that all others go on.

Halves are tried again and again: a few bad rows of n cost about log2(n) runs each, and if all are bad there are at most
two runs a row. What a row gives depends on the row alone, so any split finds the same rows.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import pyarrow as pa

MAX_REASON: Final = 300
T = TypeVar("T")


class TooLarge(Exception):
    """Rows give more, or are joined with more, than a process is to hold at once."""


def by_halves(rows: pa.Table, attempt: Callable[[pa.Table], T]) -> Iterator[tuple[int, pa.Table, T | TooLarge]]:
    """What an attempt at rows gives, or at halves of them where all are too much, down to one row that is: where each
    part begins, its rows, and what they give. In the order of the rows, each part once it is asked for."""
    pending = [(0, len(rows))]
    while pending:
        start, end = pending.pop()
        some = rows.slice(start, end - start)
        try:
            found: T | TooLarge = attempt(some)
        except TooLarge as error:
            if len(some) > 1:
                middle = (start + end) // 2
                pending += [(middle, end), (start, middle)]
                continue
            found = TooLarge(str(error))  # without the frames, and what these hold
        yield start, some, found
        del some, found


def isolate(
    rows: pa.Table, attempt: Callable[[pa.Table], pa.Table], error: Exception
) -> tuple[list[pa.Table], dict[int, str]]:
    """The outputs of the rows that can run, in order, and why each other one can't, by its place.

    attempt  runs rows; raises if one of them is bad
    error    what it raised for all of them

    Raises TooLarge where `attempt` does.
    """
    good: list[pa.Table] = []
    failed: dict[int, str] = {}
    pending: list[tuple[int, int, Exception | None]] = [(0, rows.num_rows, error)]
    while pending:
        start, end, found = pending.pop()
        if found is None:
            try:
                good.append(attempt(rows.slice(start, end - start)))
                continue
            except TooLarge:
                raise
            except Exception as again:  # noqa: BLE001
                found = again
        if end - start == 1:
            failed[start] = reason(found)
            continue
        middle = (start + end) // 2
        pending += [(middle, end, None), (start, middle, None)]
    return good, failed


def reason(error: Exception) -> str:
    """The first line of a message, bounded."""
    return str(error).partition("\n")[0][:MAX_REASON]
