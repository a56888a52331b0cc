"""Which dead letters were replayed, and into which batch: at most once each, by create-if-absent alone.

A replay of some letters of one dead-letter object is `replays/…/{n}.json`, dense from 1. Whoever creates number n has
read all before it, so no letter is in two of them: the same reasoning as for epochs. The record fixes the batch's id
and all that its bytes follow from; so a replay that died after its claim is finished by the next one.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from firn.log import layout
from firn.log.batches import UnreadableBatch
from firn.log.store import Store, get, paths, put_if_absent

REPLAY_FORMAT: Final = 1
_AT_ONCE: Final = 16


class Replay(msgspec.Struct, frozen=True):
    """Letters of the object `dead`, by their row in it, that go into `batch` under the configuration `config`.

    `rows`: ranges, both ends included. `corrected`: what a person wrote in place of a letter's original.
    """

    format: int
    dead: str
    n: int
    batch: str
    config: str
    rows: list[tuple[int, int]]
    corrected: dict[int, bytes] = {}

    def letters(self) -> list[int]:
        """The rows, one by one."""
        return [row for first, last in self.rows for row in range(first, last + 1)]


_decode: Final = msgspec.json.Decoder(Replay).decode


def make(dead: str, n: int, batch: str, config: str, rows: Iterable[int], corrected: Mapping[int, bytes]) -> Replay:
    """A replay of the present format of these rows."""
    chosen = sorted(set(rows))
    return Replay(
        REPLAY_FORMAT, dead, n, batch, config, _ranges(chosen), {r: corrected[r] for r in chosen if r in corrected}
    )


def claim(store: Store, replay: Replay) -> bool:
    """Claim the rows. -> False if another replay took this number first: read again, and choose again.

    The batch's id is random: equal bytes are this very call's. Raises StorageUnavailable, UnknownOutcome.
    """
    return put_if_absent(store, layout.replay_path(replay.dead, replay.n), msgspec.json.encode(replay))


def finish(store: Store, replay: Replay) -> None:
    """Say that the replay's batch is staged. Raises StorageUnavailable, UnknownOutcome."""
    put_if_absent(store, layout.replay_done_path(replay.dead, replay.n), b"{}")


def of_object(store: Store, dead: str) -> tuple[list[Replay], set[int]]:
    """The replays of one dead-letter object in order, and the numbers of those whose batch is staged.

    Raises StorageUnavailable, UnreadableBatch (a newer format).
    """
    names = paths(store, layout.replay_folder(dead))
    numbers = sorted(found[1] for found in map(layout.replay_of, names) if found and found[0] == dead)
    done = {n for n in numbers if layout.replay_done_path(dead, n) in set(names)}
    return [found for n in numbers if (found := _read(store, layout.replay_path(dead, n)))], done


def of_stream(store: Store, stream: str) -> dict[str, list[Replay]]:
    """All replays of a stream by dead-letter object. Raises StorageUnavailable, UnreadableBatch (a newer format)."""
    names = [path for path in paths(store, layout.replays_prefix(stream)) if layout.replay_of(path)]
    found: dict[str, list[Replay]] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for replay in pool.map(lambda path: _read(store, path), names):
            if replay is not None:
                found.setdefault(replay.dead, []).append(replay)
    return found


def _read(store: Store, path: str) -> Replay | None:
    data = get(store, path)
    if data is None:
        return None
    replay = _decode(data)
    if replay.format > REPLAY_FORMAT:
        raise UnreadableBatch(f"{path} has format {replay.format}: update this side of Firn first")
    return replay


def _ranges(rows: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for row in rows:
        if found and row == found[-1][1] + 1:
            found[-1] = (found[-1][0], row)
        else:
            found.append((row, row))
    return found
