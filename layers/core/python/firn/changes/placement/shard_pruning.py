"""Which shards may hold rows that a filter asks for, by the map alone. Pure."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from firn.changes.placement.shard_map import Bands, Listed, ShardMap
from firn.changes.placement.shard_values import Comparable, bound_of, comparable

Sign = Literal["=", "in", "<", "<=", ">", ">=", "null"]
_COMPARES: Final[Mapping[Sign, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def may_hold(shards: ShardMap, sign: Sign, values: Sequence[Comparable] = ()) -> frozenset[str]:
    """The shards that may hold a row whose value in the map's column compares so with `values`: one, but for `in`.

    The rest is always one of them. Besides null it has what was no value of the column as it came, and what the table
    has in its place may be one.
    """
    if sign == "null":
        return frozenset((shards.rest,))
    if sign in ("=", "in"):
        return frozenset((shards.rest, *map(shards.of, values)))
    return frozenset((shards.rest,)) | _beyond(shards, sign, values[0])


def may_be(shards: ShardMap, value: Any, sign: Sign, values: Sequence[Comparable] = ()) -> bool:
    """Whether what becomes of a value, as it came, may compare so with `values`: what is no value of the column's type
    may become any."""
    own = comparable(shards.kind, value)
    if own is None:
        return value is not None or sign == "null"
    if sign == "null":
        return False
    return own in values if sign in ("=", "in") else _COMPARES[sign](own, values[0])


def _beyond(shards: ShardMap, sign: Sign, bound: Comparable) -> frozenset[str]:
    """The shards with values on that side of the bound."""
    if isinstance(shards.spread, Listed):
        listed = shards.spread.values.items()
        return frozenset(name for text, name in listed if _fits(bound_of(shards.kind, text), sign, bound))
    if shards.by == "hash":
        return shards.shards
    return _overlapping(shards.spread, sign, bound)


def _overlapping(bands: Bands, sign: Sign, bound: Comparable) -> frozenset[str]:
    found = set()
    for place, name in enumerate(bands.shards):
        low = bands.at[place - 1] if place else None  # the least value of the band
        end = bands.at[place] if place < len(bands.at) else None  # above its greatest
        below = low is None or _fits(low, sign, bound)
        above = end is None or _fits(bound, "<", end)
        if below if sign in ("<", "<=") else above:
            found.add(name)
    return frozenset(found)


def _fits(one: Any, sign: Sign, other: Any) -> bool:
    return bool(_COMPARES[sign](one, other))
