"""How jobs ended that did not end well: a mark when one begins, another when it fails in a way that it can tell.

A job that leaves the first and not the second was killed: out of memory, perhaps by what its epochs hold.
"""

from typing import Final, Literal

import msgspec

from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, paths, put_if_absent

End = Literal["killed", "transient", "terminal"]


class Failed(msgspec.Struct, frozen=True):
    """Why a job failed. `kind`: transient or terminal."""

    format: int
    kind: Literal["transient", "terminal"]
    error: str


_decode: Final = msgspec.json.Decoder(Failed).decode


def begin(store: Store, stream: str, first: int, last: int, attempt: int) -> None:
    """This job runs. Raises StorageUnavailable, UnknownOutcome."""
    put_if_absent(store, layout.attempt_path(stream, first, last, attempt, "started"), b"{}")


def fail(
    store: Store, stream: str, first: int, last: int, attempt: int, kind: Literal["transient", "terminal"], error: str
) -> None:
    """This job failed and says why. Raises StorageUnavailable, UnknownOutcome."""
    path = layout.attempt_path(stream, first, last, attempt, "failed")
    put_if_absent(store, path, msgspec.json.encode(Failed(FORMAT, kind, error)))


def ends(store: Store, stream: str, first: int) -> dict[tuple[int, int], End]:
    """(last, attempt) of the jobs from epoch `first` on that began -> how they ended, if they did not end well.

    What still runs, or ended well, looks like killed here. Raises StorageUnavailable.
    """
    after = layout.attempt_path(stream, first, 0, 0, "")
    found: dict[tuple[int, int], End] = {}
    for path in paths(store, layout.attempt_prefix(stream), after):
        begun, last, attempt, kind = layout.attempt_of(path) or (0, 0, 0, "")
        if begun != first:
            continue
        if kind == "failed":
            data = get(store, path)
            if data is not None:
                found[last, attempt] = _decode(data).kind
        else:
            found.setdefault((last, attempt), "killed")
    return found


def newest_failure(store: Store, stream: str, after: int) -> tuple[int, int, Failed] | None:
    """(first epoch, last, why) of the newest job from beyond epoch `after` that said why it failed, unless a later one
    began. Raises StorageUnavailable."""
    found: tuple[int, int, int] | None = None
    failed: set[tuple[int, int, int]] = set()
    for path in paths(store, layout.attempt_prefix(stream), layout.attempt_path(stream, after + 1, 0, 0, "")):
        begun, last, attempt, kind = layout.attempt_of(path) or (0, 0, 0, "")
        if kind == "failed":
            failed.add((begun, last, attempt))
        if begun:
            found = max(found or (0, 0, 0), (begun, last, attempt))
    if found is None or found not in failed:
        return None
    data = get(store, layout.attempt_path(stream, *found, "failed"))
    return None if data is None else (found[0], found[1], _decode(data))


def at_work(store: Store, stream: str, after: int) -> int:
    """The last epoch that a job from beyond epoch `after` has begun with and not said to have failed; 0 without one.
    One that was killed looks the same. Raises StorageUnavailable."""
    begun: dict[tuple[int, int, int], set[str]] = {}
    for path in paths(store, layout.attempt_prefix(stream), layout.attempt_path(stream, after + 1, 0, 0, "")):
        if (found := layout.attempt_of(path)) is not None:
            begun.setdefault(found[:3], set()).add(found[3])
    return max((last for (_, last, _), kinds in begun.items() if "failed" not in kinds), default=0)
