"""What tiering asks of a storage: its objects with their classes, a move, and the way back.

S3 (objects.py) moves by a tag that a lifecycle rule knows; Azure and Google (azure_classes.py, google_classes.py) by a
request an object, at once. `storages.py` opens those of an address.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final, NamedTuple, Protocol, TypeVar

from firn.config.storage_classes import ClassTable
from firn.errors import TerminalError

_T = TypeVar("_T")
_R = TypeVar("_R")

AT_ONCE: Final = 16


class NoClasses(TerminalError):
    """The files lie where there are no storage classes."""


class Place(NamedTuple):
    """A bucket and a key, or the beginning of one. Of Azure's the bucket is `container@account`."""

    bucket: str
    key: str


class Listed(NamedTuple):
    """An object as its storage tells it. `modified`: when it was written or brought back, not when it was moved."""

    size: int
    modified: datetime
    kind: str


class Returned(NamedTuple):
    """An object on its way back. `asked`: it has to be restored, which takes hours, and can't be read before."""

    size: int
    asked: bool = False


class Classes(Protocol):
    """The classes of one storage. Each method raises TransientError, TerminalError, ConfigError (S3's: botocore's
    ClientError, which `told` makes these of), and may be called again: with an answer lost it gives the same."""

    @property
    def table(self) -> ClassTable:
        """What classes there are."""

    def place(self, url: str) -> Place | None:
        """Bucket and key of an address; None for another storage."""

    def listing(self, prefix: Place) -> dict[str, Listed]:
        """All objects below the prefix, by key."""

    def look(self, where: Place) -> Listed | None:
        """One object; None if it is not there."""

    def move(self, where: Place, kind: str | None) -> bool:
        """Send the object to the class; None: it stays where it is. -> whether that is so now."""

    def warm(self, where: Place) -> Returned | None:
        """Bring the object back into the hot class. None: it is gone, or was there already."""


def each(do: Callable[[_T], _R], things: Sequence[_T]) -> list[_R]:
    """`do` for each, AT_ONCE at a time, in their order. Raises what the first that fails raises."""
    if len(things) < 2:
        return [do(one) for one in things]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(do, things))
