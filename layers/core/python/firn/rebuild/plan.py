"""What a rebuild of one table reads: which epochs of which streams, in which ranges, and what of the log is gone.

A table is rebuilt under the configuration of now, but for one thing: each change keeps the `generation` that it came
under (log/generations.py), which is a fact about its source and no rule.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from firn.config.model import Config, StreamConfig
from firn.config.names import TableName
from firn.errors import TerminalError
from firn.log import epochs, holds, layout
from firn.log.epochs import Epoch
from firn.log.store import Store, paths
from firn.tables.routing import mirrors_on, targets_of

RANGE_BYTES = 256 * 1024 * 1024  # staged; one commit of a rebuild takes this much, or one epoch
_READS_AT_ONCE = 16
_SHOWN = 12


class CannotRebuild(TerminalError):
    """The staged log does not hold what was asked for. The text says what is missing and what remains possible."""


@dataclass(frozen=True)
class Missing:
    """`epochs`: numbers up to the last one that are not sealed in storage (any more); `objects`: by epoch the paths of
    staged batches that are gone."""

    epochs: tuple[int, ...] = ()
    objects: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.epochs or self.objects)

    def __str__(self) -> str:
        parts = [f"epochs {spans(self.epochs)} are not in storage"] if self.epochs else []
        if self.objects:
            count = sum(map(len, self.objects.values()))
            first = self.objects[min(self.objects)][0]
            parts.append(f"{count} staged objects of epochs {spans(self.objects)} are gone (the first: {first})")
        return "; ".join(parts)


@dataclass(frozen=True)
class Part:
    """What one stream gives to the table, up to the epoch `last`.

    epochs   those that hold changes of the table, without quarantined ones and those that it was told to skip
    sources  the source tables that feed it
    """

    stream: str
    settings: StreamConfig
    last: int
    epochs: Mapping[int, Epoch]
    sources: tuple[str, ...]
    missing: Missing = Missing()


@dataclass(frozen=True)
class Range:
    """One commit of a rebuild: after it the table's progress is `last`."""

    last: int
    epochs: Mapping[int, Epoch]


def plan(
    store: Store,
    config: Config,
    table: TableName,
    *,
    upto: Mapping[str, int] | None = None,
    to: str | None = None,
    partial: bool = False,
) -> list[Part]:
    """The table's parts, by stream.

    upto     the last epoch of each stream that is wanted; None: all that is sealed
    to       an epoch's number (of a table with one stream) or a time: only epochs sealed at or before it
    partial  take what is left of a log that does not reach back to its beginning
    Raises CannotRebuild, StorageUnavailable, ConfigError.
    """
    if unknown := set(upto or ()) - set(config.streams):
        raise CannotRebuild(f"{table} holds changes of {', '.join(sorted(unknown))}, no stream of firn.yaml any more")
    sharded = (rule.shard for settings in config.streams.values() for rule in settings.tables if rule.shard)
    if any(table in one.tables.values() for one in sharded):
        raise CannotRebuild(f"{table} is of a table of several shards, which can't be rebuilt yet")
    parts = [
        part
        for stream, settings in config.streams.items()
        if (part := _part(store, settings, stream, table, None if upto is None else upto.get(stream, 0), to))
    ]
    if to is not None and to.isdecimal() and len(parts) > 1:
        names = ", ".join(part.stream for part in parts)
        raise CannotRebuild(f"{table} is fed by {names}, and each counts its own epochs: give --to as a time")
    lacking = [f"stream {part.stream}: {part.missing}" for part in parts if part.missing]
    if lacking and not partial:
        raise CannotRebuild(
            f"the staged log no longer holds all that made {table}: {'; '.join(lacking)}. Restore the objects (bucket "
            f"versioning), or rebuild what is left into a new table: --into NAME --partial"
        )
    parts = [part for part in parts if part.epochs]
    if not parts:
        raise CannotRebuild(f"no epoch of the staged log{f' up to {to}' if to else ''} holds changes of {table}")
    return parts


def not_of_the_log(config: Config, table: TableName) -> str | None:
    """Why nothing but --in-place rebuilds a table that is made of other tables: a pipeline's mirror, or a view; None if
    it is made of the log."""
    for settings in config.streams.values():
        for pipeline, base, target in mirrors_on(settings):
            if target == table:
                return _of(table, f"the pipeline {pipeline.name} over {base}", base)
        for view in settings.views:
            if view.table == table:
                return _of(table, f"a view over {', '.join(map(str, view.sources))}", view.sources[0])
    return None


def _of(table: TableName, what: str, base: TableName) -> str:
    return (
        f"{table} is the SQL of {what}, not of the log: firn rebuild {table} --in-place makes it again out of that; "
        f"firn rebuild {base} --check looks at {base}"
    )


def ranges(part: Part, above: int, *, stops: Collection[int] = (), size: int = RANGE_BYTES) -> list[Range]:
    """The epochs above `above` in ranges of at most `size` bytes, or of one epoch. Pure.

    The last range ends at the part's last epoch, whether it touches the table or not. `stops`: epochs at which a range
    must end, because a cut tells the table's progress there.
    """
    found: list[Range] = []
    mine: dict[int, Epoch] = {}
    for n in sorted(n for n in part.epochs if n > above):
        if mine and _ends(part, mine, n, stops, size):
            found.append(Range(min((s for s in stops if max(mine) <= s < n), default=max(mine)), mine))
            mine = {}
        mine[n] = part.epochs[n]
    return [*found, Range(part.last, mine)] if mine else found


def _ends(part: Part, mine: Mapping[int, Epoch], n: int, stops: Collection[int], size: int) -> bool:
    newest = max(mine)
    full = sum(_bytes(epoch) for epoch in mine.values()) + _bytes(part.epochs[n]) > size
    return full or any(newest <= stop < n for stop in stops)


def _bytes(epoch: Epoch) -> int:
    return sum(batch.bytes for batch in epoch.batches)


def _part(
    store: Store, settings: StreamConfig, stream: str, table: TableName, upto: int | None, to: str | None
) -> Part | None:
    """None if the stream does not feed the table."""
    if upto == 0:
        return None
    numbers = epochs.numbers(store, stream)
    last = (numbers[-1] if numbers else 0) if upto is None else upto
    known = holds.read_epochs(store, stream)
    there = [n for n in numbers if n <= last]
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        sealed = {epoch.n: epoch for epoch in pool.map(lambda n: epochs.read(store, stream, n), there) if epoch}
    named = {source for epoch in sealed.values() for source in epoch.tables}
    sources = tuple(sorted(source for source in named if table in targets_of(settings, source)))
    if not sources and upto is None:
        return None
    if to is not None:
        last = min(last, _upto(sealed, stream, to))
        sealed = {n: epoch for n, epoch in sealed.items() if n <= last}
    skips = holds.skips(store, stream, str(table))
    mine = {
        n: epoch
        for n, epoch in sealed.items()
        if n not in known
        and any(epoch.tables.get(source) for source in sources)
        and not any(first <= n <= through for first, through in skips)
    }
    objects = _gone(store, stream, mine)
    missing = Missing(tuple(n for n in range(1, last + 1) if n not in sealed), objects)
    return Part(stream, settings, last, mine, sources, missing)


def _upto(sealed: Mapping[int, Epoch], stream: str, to: str) -> int:
    """The last epoch that `to` lets in. Raises CannotRebuild."""
    if to.isdecimal():
        n, newest = int(to), max(sealed, default=0)
        if not 1 <= n <= newest:
            raise CannotRebuild(f"--to {to}: stream {stream} has epochs 1 to {newest}")
        return n
    try:
        moment = datetime.fromisoformat(to)
    except ValueError:
        raise CannotRebuild(
            f"--to {to!r} is neither an epoch nor a time: write a number, or 2026-01-31T12:00:00Z (without a zone: UTC)"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    found = max((n for n, epoch in sealed.items() if epoch.time <= moment), default=0)
    if not found and sealed:
        first = sealed[min(sealed)]
        raise CannotRebuild(f"--to {to}: the first epoch of {stream} in storage was sealed later, {first.sealed_at}")
    return found


def _gone(store: Store, stream: str, mine: Mapping[int, Epoch]) -> dict[int, tuple[str, ...]]:
    if not mine:
        return {}
    there = set(paths(store, layout.staged_prefix(stream)))
    found = {n: tuple(b.path for b in epoch.batches if b.path not in there) for n, epoch in mine.items()}
    return {n: lost for n, lost in found.items() if lost}


def retyped(metadata: str, branch: str) -> bool:
    """Whether a column got another field id since one of the branch's snapshots was made, as when its values were
    rewritten for another type: the branch's files don't have that id. `metadata`: the table's, as JSON. Pure."""
    table = json.loads(metadata)
    ids = {one["schema-id"]: {field["name"]: field["id"] for field in one["fields"]} for one in table["schemas"]}
    now = ids[table["current-schema-id"]]
    snapshots = {one["snapshot-id"]: one for one in table.get("snapshots") or ()}
    at = (table.get("refs") or {}).get(branch, {}).get("snapshot-id")
    while (snapshot := snapshots.get(at)) is not None:
        if any(now.get(name, number) != number for name, number in ids[snapshot["schema-id"]].items()):
            return True
        at = snapshot.get("parent-snapshot-id")
    return False


def spans(numbers: Iterable[int]) -> str:
    """`1 to 17, 20` for people; many spans are cut short."""
    found = list(_spans(sorted(numbers)))
    shown = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in found[:_SHOWN])
    return shown + (f" and {len(found) - _SHOWN} more spans" if len(found) > _SHOWN else "")


def _spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = previous = None
    for n in numbers:
        if previous is None or start is None or n != previous + 1:
            if previous is not None and start is not None:
                yield start, previous
            start = n
        previous = n
    if previous is not None and start is not None:
        yield start, previous
