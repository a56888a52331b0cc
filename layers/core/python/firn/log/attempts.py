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
