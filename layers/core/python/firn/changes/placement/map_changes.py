"""From one version of a map to the next: shards are split, merged, moved, and tenants become shards. Each refuses what
makes no sense with a ValueError that says what to write, and `copies` tells which rows change their place by it."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from firn.changes.placement.shard_map import NAME, Bands, Home, Listed, ShardMap
from firn.changes.placement.shard_values import HASHES, Comparable, check_listed, comparable, text_of


@dataclass(frozen=True, order=True)
class Copy:
    """Rows of the shard `source` of the map before that are of the shard `target` after. `whole`: all of them are, so
    that its files go over as they are; else those that the map after places there."""

    source: str
    target: str
    whole: bool


def split(before: ShardMap, shard: str, new: str, home: Home, *, at: Comparable | None = None) -> ShardMap:
    """Of a shard of bands what is `at` a bound and above becomes the shard `new`. None: half of its hashes."""
    spread = before.spread
    if not isinstance(spread, Bands):
        raise ValueError(f"{before.by} lists values: say which of {shard} become {new}")
    _known(before, shard)
    _unused(before, new)
    bound = _halfway(before, spread, shard) if at is None else at
    bounds, shards = list(spread.at), list(spread.shards)
    if bound not in bounds:
        place = bisect_left(bounds, bound)
        bounds.insert(place, bound)
        shards.insert(place, shards[place])
    first = bounds.index(bound) + 1
    if shard not in shards[:first] or shard not in shards[first:]:
        raise ValueError(f"all of {shard} is on one side of {bound!r}; split it where it has values on both")
    shards[first:] = [new if one == shard else one for one in shards[first:]]
    return _next(before, Bands(tuple(bounds), tuple(shards)), {**before.homes, new: home})


def split_values(before: ShardMap, shard: str, new: str, home: Home, values: Collection[str]) -> ShardMap:
    """These values of a shard, by their texts, become the shard `new`; of the rest any that no shard lists."""
    if not isinstance(before.spread, Listed):
        raise ValueError(f"{before.by} has bands: say at which bound {shard} is split")
    _known(before, shard)
    _unused(before, new)
    now = before.spread.values
    if not values:
        raise ValueError(f"no values are named that {shard} would lose to {new}")
    check_listed(before.kind, values)
    if wrong := next((one for one in sorted(values) if now.get(one, before.rest) != shard), None):
        raise ValueError(f"{wrong[:80]!r} is in {now.get(wrong, before.rest)}, not in {shard}")
    if shard != before.rest and set(values) == {text for text, one in now.items() if one == shard}:
        raise ValueError(f"these are all values of {shard}; move it, or name fewer")
    return _next(before, Listed({**now, **dict.fromkeys(values, new)}), {**before.homes, new: home})


def merge(before: ShardMap, shards: Collection[str], into: str) -> ShardMap:
    """Shards become one of them. Values that are merged into the rest are listed no more."""
    for one in (*shards, into):
        _known(before, one)
    gone = set(shards) - {into}
    if not gone:
        raise ValueError(f"{into} alone is nothing to merge; name another shard")
    if before.rest in gone:
        raise ValueError(f"{before.rest} has what no shard lists, and stays; merge into it")
    spread = before.spread
    if isinstance(spread, Bands):
        return _next(before, _joined(spread, gone, into), _without(before.homes, gone))
    values = {text: into if one in gone else one for text, one in spread.values.items()}
    # A tenant that was merged into the rest stays listed there: else its next row would make it a shard again.
    listed = {text: one for text, one in values.items() if before.by == "tenant" or one != before.rest}
    return _next(before, Listed(listed), _without(before.homes, gone))


def move(before: ShardMap, shard: str, home: Home) -> ShardMap:
    """A shard lies elsewhere: with its rows, another table."""
    _known(before, shard)
    if before.homes[shard].place == home.place:
        another = "" if before.homes[shard].warehouse == home.warehouse else (
            "; in another warehouse it needs a table of another name: one catalog has both"
        )  # fmt: skip
        raise ValueError(f"{shard} lies in {home.table} already{another}")
    return _next(before, before.spread, {**before.homes, shard: home})


def waiting(now: ShardMap, values: Iterable[Any], fits: Callable[[str], bool] = lambda _: True) -> tuple[str, ...]:
    """The tenants among these values that may become shards: by the rule of names, those that fit, as many as there is
    room for, the lesser names first. All others stay in the rest."""
    if now.by != "tenant" or not isinstance(now.spread, Listed):
        return ()
    room = max(0, now.most - len(now.shards - {now.rest}))
    texts = {text_of(one) for value in values if (one := comparable(now.kind, value)) is not None}
    found = (one for one in texts - now.spread.values.keys() - now.shards if NAME.fullmatch(one))
    return tuple(islice(filter(fits, sorted(found)), room))


def admit(before: ShardMap, homes: Mapping[str, Home]) -> ShardMap:
    """Tenants of the rest become shards of their own. `homes`: of each that is waiting."""
    spread = before.spread
    if not isinstance(spread, Listed) or before.by != "tenant":
        raise ValueError(f"{before.by} has no tenants")
    if not homes:
        raise ValueError("nobody is waiting")
    for name in homes:
        _unused(before, name)
        if name in spread.values:
            raise ValueError(f"{name} is in {spread.values[name]}; split it off there")
    return _next(before, Listed({**spread.values, **{name: name for name in homes}}), {**before.homes, **homes})


def copies(before: ShardMap, after: ShardMap) -> tuple[Copy, ...]:
    """Whose rows change their place from one map to another. A place is a home: a shard that is moved has another."""
    found: dict[str, set[str]] = {one: set() for one in before.shards}
    if (before.by, before.column, before.kind) != (after.by, after.column, after.kind):
        found = {one: set(after.shards) for one in before.shards}
    elif isinstance(before.spread, Bands) and isinstance(after.spread, Bands):
        lows = (None, *sorted({*before.spread.at, *after.spread.at}))
        for low in lows:
            found[_of(before.spread, low)].add(_of(after.spread, low))
        found[before.rest].add(after.rest)
    elif isinstance(before.spread, Listed) and isinstance(after.spread, Listed):
        for text in {**before.spread.values, **after.spread.values}:
            found[before.spread.values.get(text, before.rest)].add(after.spread.values.get(text, after.rest))
        found[before.rest].add(after.rest)
    return tuple(
        Copy(source, target, len(targets) == 1)
        for source, targets in sorted(found.items())
        for target in sorted(targets)
        if before.homes[source].place != after.homes[target].place
    )


def made(before: ShardMap, after: ShardMap) -> frozenset[str]:
    """The shards of a map that lie where none lay before: all of their rows are copied there."""
    there = {home.place for home in before.homes.values()}
    return frozenset(name for name, home in after.homes.items() if home.place not in there)


def named_in(after: ShardMap, before: ShardMap, shard: str) -> str | None:
    """What the shard that lies where this one of the map before did is called; None if none lies there any more."""
    place = before.homes[shard].place
    return next((name for name, home in after.homes.items() if home.place == place), None)


def _of(spread: Bands, low: Comparable | None) -> str:
    return spread.shards[0] if low is None else spread.of(low)


def _next(before: ShardMap, spread: Bands | Listed, homes: Mapping[str, Home]) -> ShardMap:
    return replace(before, version=before.version + 1, spread=spread, homes=dict(homes))


def _without(homes: Mapping[str, Home], gone: Collection[str]) -> dict[str, Home]:
    return {name: home for name, home in homes.items() if name not in gone}


def _known(before: ShardMap, shard: str) -> None:
    if shard not in before.shards:
        some = ", ".join(sorted(before.shards)[:10])
        raise ValueError(f"there is no shard {shard[:80]!r}; there are {some}{' …' * (len(before.shards) > 10)}")


def _unused(before: ShardMap, new: str) -> None:
    if new in before.shards:
        raise ValueError(f"{new} is a shard already; give the new one another name")


def _joined(spread: Bands, gone: Collection[str], into: str) -> Bands:
    """Neighbours of one shard are one band."""
    shards = [into if one in gone else one for one in spread.shards]
    kept = [i for i in range(1, len(shards)) if shards[i] != shards[i - 1]]
    return Bands(tuple(spread.at[i - 1] for i in kept), (shards[0], *(shards[i] for i in kept)))


def _halfway(before: ShardMap, spread: Bands, shard: str) -> Comparable:
    if before.by != "hash":
        raise ValueError(f"say at which {before.column} {shard} is split")
    bounds = [0, *(int(one) for one in spread.at), HASHES]
    mine = [(low, high) for low, high, one in zip(bounds, bounds[1:], spread.shards, strict=False) if one == shard]
    left = sum(high - low for low, high in mine) // 2
    for low, high in mine:
        if left < high - low:
            return low + left
        left -= high - low
    raise ValueError(f"{shard} has no hashes to be split")
