"""The map of a table's shards: which shard a row belongs to, and where each shard lies. Maps never change: a map that
is split, merged or moved is the next version (map_changes.py), and each epoch names the one that its rows are under."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from firn.changes.decode.types import Type
from firn.changes.placement.shard_values import HASHES, By, Comparable, bucket_hash, comparable, misfit, text_of

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_]{0,62}")
"""What a shard may be called, and a value of a tenant's column that becomes a shard by itself: any other stays in the
rest. So no two tenants share a name, whatever a catalog makes of upper case."""
MOST_SHARDS: Final = 10_000
MOST_VALUES: Final = 100_000  # that a map lists


@dataclass(frozen=True)
class Home:
    """Where a shard lies: its Iceberg table as `namespace.table`, and by its name a warehouse beside the deployment's
    ("": that one itself)."""

    table: str
    warehouse: str = ""

    @property
    def place(self) -> str:
        """By which two homes are one: one catalog has the tables of all warehouses, and some keep names in lower
        case."""
        return self.table.lower()


@dataclass(frozen=True)
class Bands:
    """Values in order: the first shard has those below the first bound, the last those from the last bound on. A shard
    may have several bands."""

    at: tuple[Comparable, ...]
    shards: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if len(self.shards) != len(self.at) + 1:
            raise ValueError(f"{len(self.at)} bounds make {len(self.at) + 1} bands, not {len(self.shards)}")
        if (place := not_rising(self.at)) is not None:
            one, other = self.at[place - 1 : place + 1]
            raise ValueError(f"bounds rise, and {other!r} comes after {one!r}; write each once, in order")

    def of(self, value: Comparable) -> str:
        """The shard of a value."""
        return self.shards[bisect_right(self.at, value)]


@dataclass(frozen=True)
class Listed:
    """Values by their texts; each other one is in the rest."""

    values: Mapping[str, str]


@dataclass(frozen=True)
class ShardMap:
    """One version of the map.

    version  1 and up
    by       what `column`, of type `kind`, is looked at by: `hash` has Bands over bucket_hash, `range` over the values
    spread   the values that shards have
    rest     the shard of null, of odd values, and of values that no shard lists
    homes    where each shard lies, the rest too
    most     how many tenants may become shards by themselves; 0: none does
    """

    version: int
    by: By
    column: str
    kind: Type
    spread: Bands | Listed
    rest: str
    homes: Mapping[str, Home]
    most: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError that says what to write."""
        if why := misfit(self.by, self.column, self.kind):
            raise ValueError(why)
        if isinstance(self.spread, Bands) != (self.by in ("hash", "range")):
            raise ValueError(f"{self.by}({self.column}) has other values than {type(self.spread).__name__}")
        if wrong := next((name for name in sorted(self.homes) if not NAME.fullmatch(name)), None):
            raise ValueError(f"{wrong[:80]!r} is no name of a shard; write a-z, 0-9 and _ only, at most 63 of them")
        if self.homes.keys() != self.shards:
            raise ValueError(f"shards without a home, or homes of none: {sorted(self.homes.keys() ^ self.shards)[:5]}")
        listed = len(self.spread.values) if isinstance(self.spread, Listed) else 0
        if len(self.homes) > MOST_SHARDS or listed > MOST_VALUES:
            raise ValueError(f"a table has at most {MOST_SHARDS:,} shards and lists {MOST_VALUES:,} values: merge some")
        taken: dict[str, str] = {}
        for name, home in self.homes.items():
            if (other := taken.setdefault(home.place, name)) != name:
                raise ValueError(f"{other} and {name} would both lie in {home.table}; write `to` with {{shard}} in it")

    @cached_property
    def shards(self) -> frozenset[str]:
        """All shards by name, the rest among them."""
        named = self.spread.shards if isinstance(self.spread, Bands) else self.spread.values.values()
        return frozenset((*named, self.rest))

    def place(self, values: Mapping[str, Any]) -> str:
        """The shard of a row with these values."""
        return self.of(values.get(self.column))

    def of(self, value: Any) -> str:
        """The shard of a row that has this value in the column."""
        found = comparable(self.kind, value)
        if found is None:
            return self.rest
        if isinstance(self.spread, Listed):
            return self.spread.values.get(text_of(found), self.rest)
        return self.spread.of(bucket_hash(self.kind, found) if self.by == "hash" else found)

    def of_key(self, names: tuple[str, ...], key: tuple[Any, ...]) -> str | None:
        """The one shard that can hold a key's row; None if it may be in any. `names`: the key's columns."""
        return self.of(key[names.index(self.column)]) if self.column in names else None


def even(count: int) -> tuple[int, ...]:
    """The bounds of `count` bands over the hashes, each as wide as the others."""
    return tuple(i * HASHES // count for i in range(1, count))


def not_rising(bounds: Sequence[Any]) -> int | None:
    """The first place whose bound is not above the one before it."""
    return next((i for i in range(1, len(bounds)) if not bounds[i - 1] < bounds[i]), None)
