"""Why a table is left to slices, or what Spark has to do first."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Unfit(Exception):
    """This table's changes are not for the driver: nothing was committed, and slices commit them instead. In slices it
    is the failure of the table."""


class TooMany(Unfit):
    """More changes than are decided one by one at once."""


class InParts(Exception):
    """Of a table of several shards the changes up to the epoch `upto` are to be committed first, and then the others:
    nothing was committed."""

    def __init__(self, upto: int) -> None:
        super().__init__(f"the changes up to epoch {upto} go first")
        self.upto = upto


class ForeignFiles(Unfit):
    """Data files (`paths`) that others wrote, and that only Spark reads as the table's: nothing was committed. Spark
    writes them again (tables.foreign_files), and then all of it is tried once more."""

    def __init__(self, why: str, paths: Iterable[str]) -> None:
        # As it goes between processes.
        super().__init__(why, tuple(sorted({*paths})))
        self.why: str = self.args[0]
        self.paths: Sequence[str] = self.args[1]

    def __str__(self) -> str:
        return self.why


def first_of(failures: Sequence[Exception]) -> Exception:
    """What to raise where several parts of a work failed: all foreign files at once, for each takes another try."""
    foreign = [one for one in failures if isinstance(one, ForeignFiles)]
    other = next((one for one in failures if not isinstance(one, ForeignFiles)), None)
    return other or ForeignFiles(foreign[0].why, (path for one in foreign for path in one.paths))


def results_of(parts: Iterable[Future[T]]) -> list[T]:
    """What the parts of a work gave. Raises `first_of` what they raised."""
    found: list[T] = []
    failures: list[Exception] = []
    for one in parts:
        try:
            found.append(one.result())
        except Exception as error:  # noqa: BLE001 (raised below)
            failures.append(error)
    if failures:
        raise first_of(failures)
    return found
