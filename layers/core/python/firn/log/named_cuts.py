"""Cuts that people keep by name, and finding the cut that people mean.

Keeping is creating `cuts/_kept/{name}.json` if absent: a name stands for one cut until it is dropped, whoever keeps it.
The object holds the whole cut, so that it is readable after the cut's own object has expired; tags in the tables
(firn_lake/refs/keep.py) hold the snapshots.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from firn.errors import TerminalError
from firn.log import cuts, layout
from firn.log.batches import FORMAT, UnreadableBatch
from firn.log.cuts import Cut
from firn.log.store import Store, get, paths, put_if_absent, remove

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class NoSuchCut(TerminalError):
    """There is no such cut, or more than one; the text says which there are."""


class BadCutName(TerminalError):
    """The name can't stand for this cut."""


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cut under a name. `views`: of each view over its tables the snapshot that reading at the cut gives."""

    format: int
    name: str
    kept_at: str  # RFC 3339, UTC, milliseconds
    cut: Cut
    views: dict[str, int] = {}

    @property
    def tables(self) -> dict[str, int]:
        """The snapshots that are held, of tables and views."""
        return {**self.cut.tables, **self.views}


_decode: Final = msgspec.json.Decoder(Kept).decode


def record(store: Store, name: str, cut: Cut, now: datetime, views: Mapping[str, int] | None = None) -> Kept:
    """Make `name` stand for `cut` -> what is recorded, by this call or an earlier one for the same cut. `views`: as
    Kept has them.

    Raises BadCutName if it can't be a name or stands for another cut, StorageUnavailable, UnknownOutcome.
    """
    check_name(name)
    mine = Kept(FORMAT, name, layout.instant(now), cut, dict(views or {}))
    if put_if_absent(store, layout.kept_path(name), msgspec.json.encode(mine)):
        return mine
    there = read(store, name)
    if there is None:
        raise NoSuchCut(f"{name} went away while it was read; try again")
    if (there.cut.stream, there.cut.n) != (cut.stream, cut.n):
        raise BadCutName(
            f"{name} is kept already, for cut {there.cut.n} of {there.cut.stream}, and names never move: "
            f"choose another name for cut {cut.n} of {cut.stream}"
        )
    return there


def read(store: Store, name: str) -> Kept | None:
    """The cut kept as `name`, None if there is none. Raises StorageUnavailable, UnreadableBatch (a newer format)."""
    data = get(store, layout.kept_path(name)) if _NAME.fullmatch(name) else None
    if data is None:
        return None
    kept = _decode(data)
    if kept.format > FORMAT:
        raise UnreadableBatch(f"the kept cut {name} has format {kept.format}: update this side of Firn first")
    return kept


def named(store: Store, name: str) -> Kept:
    """The cut kept as `name`. Raises NoSuchCut, StorageUnavailable, UnreadableBatch."""
    found = read(store, name)
    if found is None:
        names = ", ".join(one.name for one in all_kept(store)) or "none"
        raise NoSuchCut(f"no cut is kept as {name!r} (kept: {names}); firn cut list shows the numbers there are")
    return found


def forget(store: Store, name: str) -> None:
    """`name` stands for no cut any more. Raises StorageUnavailable: then it may still do."""
    remove(store, [layout.kept_path(name)])


def all_kept(store: Store) -> list[Kept]:
    """All kept cuts, by name. Raises StorageUnavailable, UnreadableBatch."""
    names = (path.rpartition("/")[2].removesuffix(".json") for path in paths(store, layout.kept_prefix()))
    found = (read(store, name) for name in names)
    return [kept for kept in found if kept is not None]


def check_name(name: str) -> None:
    """Raises BadCutName for what is not a name: it has to be told apart from numbers, times and branches."""
    if not _NAME.fullmatch(name):
        raise BadCutName(
            f"{name!r} can't name a cut: write 1 to 64 letters, digits, '-', '_' or '.', such as month-end"
        )
    if name.isdigit() or name == "main":
        raise BadCutName(f"{name!r} can't name a cut, it means something else already: write a word, such as month-end")
    with suppress(ValueError):
        datetime.fromisoformat(name)
        raise BadCutName(f"{name!r} can't name a cut, it reads as a time: write a word with it, such as day-{name}")


def streams(store: Store) -> list[str]:
    """The streams that have cuts, sorted. Raises StorageUnavailable."""
    found = {layout.stream_of_cut(path) for path in paths(store, "cuts")}
    return sorted(stream for stream in found if stream is not None)


def find(store: Store, wanted: str | None, stream: str | None) -> Cut:
    """The cut that `wanted` means: a kept name, a number, or None for the newest; `stream` narrows it to one stream.

    Raises NoSuchCut, StorageUnavailable, UnreadableBatch.
    """
    if stream is not None and not layout.is_stream_name(stream):
        raise NoSuchCut(f"{stream!r} is not a stream's name")
    if wanted is not None and not (wanted.isascii() and wanted.isdigit()):
        return _by_name(store, wanted, stream)
    candidates = [stream] if stream is not None else streams(store)
    if wanted is None:
        if len(candidates) > 1:
            raise NoSuchCut(f"several streams have cuts: name one with --stream: {', '.join(candidates)}")
        newest = cuts.newest(store, candidates[0]) if candidates else 0
        if not newest:
            raise NoSuchCut(f"{stream or 'the lake'} has no cut yet: send changes, then firn flush")
        return _expect(cuts.read(store, candidates[0], newest), newest)
    found = {one: cut for one in candidates if (cut := cuts.read(store, one, int(wanted))) is not None}
    for kept in all_kept(store):  # kept longer than the cut's own object
        if kept.cut.n == int(wanted) and stream in (None, kept.cut.stream):
            found.setdefault(kept.cut.stream, kept.cut)
    if len(found) > 1:
        raise NoSuchCut(f"cut {wanted} could be of {', '.join(sorted(found))}: name one with --stream")
    if not found:
        raise NoSuchCut(f"there is no cut {wanted}{_instead(store, candidates, int(wanted))}")
    return next(iter(found.values()))


def _by_name(store: Store, name: str, stream: str | None) -> Cut:
    kept = named(store, name)
    if stream not in (None, kept.cut.stream):
        raise NoSuchCut(f"{name} is a cut of {kept.cut.stream}, not of {stream}")
    return kept.cut


def _instead(store: Store, candidates: list[str], n: int) -> str:
    """What to say after "there is no cut n": a cut lies only where a range of epochs ended."""
    after = [f"{cut.n} of {one}" for one in candidates if (cut := cuts.covering(store, one, n)) is not None]
    if after:
        return f": no commit ended at epoch {n}. The next one that holds it is {', '.join(after)}"
    newest = [f"{at} of {one}" for one in candidates if (at := cuts.newest(store, one))]
    return f": the newest is {', '.join(newest)}" if newest else f"; {', '.join(candidates) or 'the lake'} has none yet"


def _expect(cut: Cut | None, n: int) -> Cut:
    if cut is None:
        raise NoSuchCut(f"cut {n} went away while it was read; try again")
    return cut
