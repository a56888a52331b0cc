"""What is worth rewriting in a table, told by its metadata: files too small, and files with many deleted rows.

A rewrite pays where fewer files come out of it, or rows go that readers skip. What would come out the same is no debt:
a rewrite as planned here leaves nothing behind that is worth another one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from firn.config.maintenance import Compaction

SMALL: Final = 0.75  # of the target, as in Iceberg's own rule
ENOUGH: Final = 5  # small files of one partition that are worth joining, as in Iceberg's own rule
DELETED: Final = 0.10  # of a file's rows
DELETED_COLD: Final = 0.30  # to fetch a file from a cold class costs, and what is rewritten is warm again
GROUP_BYTES: Final = 512_000_000  # that are rewritten together: one commit, and what a lost race throws away
_OPEN_COST: Final = 4_000_000  # bytes that could be read while a file is opened, as Iceberg's planning counts it
_EXACTLY: Final = 1_000_000  # pairs of a delete file and a data file: of more, a partition's deletes are spread as one


@dataclass(frozen=True)
class DataFile:
    """A live data file. `partition`: any text that tells partitions of one spec apart ("": there is only one);
    `sequence`: its data sequence number; `deleted`: about how many of its `rows` delete files take out."""

    path: str
    bytes: int
    rows: int
    spec: int = 0
    partition: str = ""
    sequence: int = 0
    deleted: int = 0
    cold: bool = False

    @property
    def live_bytes(self) -> int:
        """About what its rows that stay would take."""
        return self.bytes - self.bytes * min(self.deleted, self.rows) // max(self.rows, 1)


@dataclass(frozen=True)
class DeleteFile:
    """A live file of position deletes: `rows` places in data files whose paths lie from `lowest` to `highest`."""

    path: str
    bytes: int
    rows: int
    spec: int = 0
    partition: str = ""
    sequence: int = 0
    lowest: str = ""
    highest: str | None = None

    def may_name(self, file: DataFile) -> bool:
        """Whether it may hold places in a data file of its partition. It never names one that is younger."""
        below = self.highest is None or file.path <= self.highest
        return file.sequence <= self.sequence and self.lowest <= file.path and below


@dataclass(frozen=True)
class Group:
    """Files of one partition and spec that are rewritten together, into `into` files."""

    files: tuple[DataFile, ...]
    into: int

    @property
    def bytes(self) -> int:
        """Of the files as they are."""
        return sum(file.bytes for file in self.files)

    @property
    def gain(self) -> float:
        """What readers are spared for each byte that is written: files to open, and deleted rows to skip."""
        written = sum(file.live_bytes for file in self.files)
        spared = (len(self.files) - self.into) * _OPEN_COST + self.bytes - written
        return spared / max(written, 1)


def spread(files: Iterable[DataFile], deletes: Iterable[DeleteFile]) -> tuple[list[DataFile], list[DeleteFile]]:
    """The files with their `deleted`, and the delete files that can name no live file any more.

    A delete file that names one data file is counted for it. Others say only how many rows they take, not from where:
    those are spread over the data files that they may name, by their rows.
    """
    inside: defaultdict[tuple[int, str], list[DataFile]] = defaultdict(list)
    about: defaultdict[tuple[int, str], list[DeleteFile]] = defaultdict(list)
    for file in files:
        inside[file.spec, file.partition].append(file)
    for delete in deletes:
        about[delete.spec, delete.partition].append(delete)
    paths = {file.path: file for mine in inside.values() for file in mine}
    exact: defaultdict[str, int] = defaultdict(int)
    dangling: list[DeleteFile] = []
    for delete in (one for here in about.values() for one in here if one.lowest == one.highest):
        named = paths.get(delete.lowest)
        if named is None or not delete.may_name(named):
            dangling.append(delete)
        else:
            exact[named.path] += delete.rows
    found: list[DataFile] = []
    for place in {**inside, **about}:
        wide = [delete for delete in about.get(place, ()) if delete.lowest != delete.highest]
        counts, idle = _counts(inside.get(place, ()), wide)
        dangling += idle
        for file, count in zip(inside.get(place, ()), counts, strict=True):
            found.append(replace(file, deleted=min(round(count) + exact[file.path], file.rows)))
    return found, dangling


def _counts(files: Sequence[DataFile], deletes: Sequence[DeleteFile]) -> tuple[list[float], list[DeleteFile]]:
    """Of one partition, about how many rows of each file these take; those that can name none of the files."""
    counts = [0.0] * len(files)
    idle: list[DeleteFile] = []
    if len(deletes) * len(files) > _EXACTLY:
        highest = max(one.sequence for one in deletes)
        deletes = [DeleteFile("", 0, sum(one.rows for one in deletes), sequence=highest)]
    for one in deletes:
        named = [place for place, file in enumerate(files) if one.may_name(file)]
        rows = sum(files[place].rows for place in named)
        if not named and one.path:
            idle.append(one)
        for place in named:
            counts[place] += one.rows * files[place].rows / max(rows, 1)
    return counts, idle


def plan(
    files: Iterable[DataFile], policy: Compaction, spec: int, *, most: int = GROUP_BYTES, least: int = 0
) -> list[Group]:
    """What is worth rewriting, what pays most first. The groups share no file.

    files  those that are alive, with `deleted` and `cold`
    spec   the table's current one: files of older ones are only rewritten for their deletes, and stay in their spec
    most   bytes of a group. A larger file is a group alone, and a group is not made so small that only small files
           could come of it, unless `most` is less than `policy.target_bytes`
    least  bytes of a file: smaller ones are left to others
    """
    if not policy.on:
        return []
    target = policy.target_bytes
    limit = most if most < target else max(most, 3 * target // 2)
    places: defaultdict[tuple[int, str], list[DataFile]] = defaultdict(list)
    for file in files:
        if file.bytes >= least:
            places[file.spec, file.partition].append(file)
    groups = [group for (of, _), mine in places.items() for group in _of_one(mine, target, limit, old=of != spec)]
    return sorted(groups, key=lambda group: (-group.gain, group.files[0].path))


def within(groups: Iterable[Group], budget: int, *, fresh: bool) -> list[Group]:
    """Of these, in their order, those that `budget` bytes allow. `fresh`: nothing of it is spent yet, so that the first
    is taken however large it is."""
    found: list[Group] = []
    for group in groups:
        if group.bytes <= budget or (fresh and not found):
            found.append(group)
            budget -= group.bytes
    return found


def is_small(file: DataFile, target: int) -> bool:
    """Whether what is left of a file, were it rewritten, is a small file."""
    return (file.live_bytes if many_deleted(file) else file.bytes) < SMALL * target


def many_deleted(file: DataFile) -> bool:
    """Whether a file is worth rewriting for its deleted rows alone."""
    return 0 < file.deleted >= (DELETED_COLD if file.cold else DELETED) * file.rows


def files_of(size: int, target: int) -> int:
    """Into how many files so many bytes are written: each has from three quarters to one and a half times the target,
    unless all of it is less."""
    return max(1, (size + target // 2) // target)


def _of_one(files: Sequence[DataFile], target: int, limit: int, *, old: bool) -> Iterator[Group]:
    """The groups of one partition."""
    chosen = {file.path for file in files if many_deleted(file)}
    # A cold file is fetched for its deletes only; then it is as good as the others.
    small = [file for file in files if is_small(file, target) and (file.path in chosen or not file.cold)]
    if len(small) >= ENOUGH and not old:
        chosen |= {file.path for file in small}
    group: list[DataFile] = []
    size = 0
    for file in sorted((file for file in files if file.path in chosen), key=lambda file: (_weight(file), file.path)):
        if group and size + _weight(file) > limit:
            yield from _worth(group, target)
            group, size = [], 0
        group.append(file)
        size += _weight(file)
    if group:
        yield from _worth(group, target)


def _weight(file: DataFile) -> int:
    """Bytes that a rewrite of the file takes: mostly of writing, and of reading where little is left to write."""
    return max(file.live_bytes, file.bytes // 4)


def _worth(files: Sequence[DataFile], target: int) -> Iterator[Group]:
    size = sum(file.live_bytes for file in files)
    group = Group(tuple(files), files_of(size, target))
    joined = group.into < len(files) and (size >= SMALL * target or len(files) >= ENOUGH)
    if joined or any(many_deleted(file) for file in files):
        yield group
