"""Which manifests of a table are worth rewriting, told by its list of manifests alone. Pure.

Whoever plans a query reads each manifest that the list does not rule out. Two things make these many: small manifests,
and manifests that each hold files of many partitions, so that a query of one partition reads them all. What is written
in their place is sorted by partition, and about the target's size; a rewrite as planned here leaves nothing behind that
is worth another one.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

MANY: Final = 50  # small manifests of one kind
SMALL: Final = 0.25  # of the target
FEWEST: Final = 4  # small ones for one commit, of the many, where no more fit: they become one
DEEP: Final = 8  # manifests of the target's size that a query of one partition reads
MOST_BYTES: Final = 64 * 1024 * 1024  # of manifests that are rewritten in one commit


@dataclass(frozen=True)
class Manifest:
    """`spec`: the partition spec of its files; `deletes`: whether these are files of deletes; `low`, `high`: the least
    and the greatest value of the spec's first field, None where it has none or they are not known."""

    path: str
    bytes: int
    spec: int = 0
    deletes: bool = False
    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class Rewrite:
    """Manifests of one spec that are rewritten in one commit, and why, as people read it."""

    spec: int
    manifests: tuple[Manifest, ...]
    why: str

    @property
    def bytes(self) -> int:
        """Of the manifests as they are stored."""
        return sum(one.bytes for one in self.manifests)


def plan(manifests: Iterable[Manifest], target: int, *, most: int = MOST_BYTES) -> list[Rewrite]:
    """What is worth rewriting, one commit for each spec, the most manifests first. `target`: bytes of a manifest (the
    table's commit.manifest.target-size-bytes); `most`: bytes of the manifests of one commit."""
    kinds: defaultdict[tuple[int, bool], list[Manifest]] = defaultdict(list)
    for one in manifests:
        kinds[one.spec, one.deletes].append(one)
    found: dict[int, Rewrite] = {}
    for (spec, deletes), mine in sorted(kinds.items(), key=lambda kind: (-len(kind[1]), kind[0])):
        before = found.get(spec, Rewrite(spec, (), ""))
        more = _of_one(mine, target, most - before.bytes, deletes=deletes)
        if more is not None:
            reasons = [why for why in (before.why, more.why) if why]
            found[spec] = replace(more, manifests=before.manifests + more.manifests, why=", ".join(reasons))
    return sorted(found.values(), key=lambda one: (-len(one.manifests), one.spec))


def _of_one(mine: Sequence[Manifest], target: int, most: int, *, deletes: bool) -> Rewrite | None:
    """Of the manifests of one spec and kind."""
    spec, what = mine[0].spec, "manifests of deletes" if deletes else "manifests"
    small = [one for one in mine if one.bytes < SMALL * target]
    taken = _least(small, most)
    if len(small) > MANY and len(taken) >= min(FEWEST, len(small)):
        return Rewrite(spec, tuple(taken), f"{len(taken):,} small {what}")
    deep = _least(_deepest((one for one in mine if one.bytes >= SMALL * target), target), most)
    if sum(_weight(one, target) for one in deep) > DEEP:
        return Rewrite(spec, tuple(deep), f"{len(deep):,} {what} with files of one partition")
    return None


def _least(some: Iterable[Manifest], most: int) -> list[Manifest]:
    """The smallest ones, of at most so many bytes in all."""
    ordered = sorted(some, key=lambda one: (one.bytes, one.path))
    sums = accumulate(one.bytes for one in ordered)
    return [one for one, size in zip(ordered, sums, strict=True) if size <= most]


def _deepest(manifests: Iterable[Manifest], target: int) -> list[Manifest]:
    """Those that may hold one value of the spec's first field, of the value of which there is the most to read. A
    manifest of a single value is none of them: no order makes it hold fewer."""
    wide = [one for one in manifests if one.low is not None and one.high is not None and one.low < one.high]
    here: list[Manifest] = []
    best: tuple[float, list[Manifest]] = (0.0, [])
    for one in sorted(wide, key=lambda one: one.low):
        here = [*(before for before in here if before.high >= one.low), one]
        weight = sum(_weight(each, target) for each in here)
        if weight > best[0]:
            best = weight, here
    return best[1]


def _weight(one: Manifest, target: int) -> float:
    """How many manifests of the target's size it stands for."""
    return max(1.0, one.bytes / target)
