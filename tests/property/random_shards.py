"""Random maps of shards, and random histories of tables that are sharded by them (random_histories), with values that
are null, odd, left out and changed."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from firn.changes.decode.types import LONG, STRING, TIMESTAMP, Type, decimal
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.placement.map_changes import admit, merge, move, split, split_values, waiting
from firn.changes.placement.shard_map import Bands, Home, Listed, ShardMap, even
from firn.changes.placement.shard_values import bound_of
from tests.property.random_histories import case

ODD = (None, float("nan"), True, [1], "half a pair: \ud83d", Decimal("NaN"), b"\0", 2**63)
MOMENT = bound_of(TIMESTAMP, "2026-01-01")
VALUES: Mapping[Type, Sequence[Any]] = {
    STRING: ("acme", "b", "Ünter", "Acme", "eu", "us", "rest", "", "9", "10"),
    LONG: (-3, 9, 10, 11, 100, 2**40),
    TIMESTAMP: (MOMENT, MOMENT - 1, 0, -1),
    decimal(9, 2): (Decimal("9.00"), Decimal("10.50"), Decimal("-0.01"), Decimal("100.00")),
}  # fmt: skip


def home(name: str, number: int = 0) -> Home:
    return Home(f"{name}.orders{number or ''}")


def homes(*names: str) -> dict[str, Home]:
    return {name: home(name) for name in names}


def first_map(dice: random.Random, column: str) -> ShardMap:
    """A map of any kind."""
    by = dice.choice(("hash", "range", "tenant", "geographic"))
    names = [f"s{i}" for i in range(dice.randrange(1, 5))]
    if by == "hash":
        kind = dice.choice(list(VALUES))
        return ShardMap(1, "hash", column, kind, Bands(even(len(names)), tuple(names)), "rest", homes(*names, "rest"))
    if by == "range":
        kind = dice.choice(list(VALUES))
        bounds = sorted(dice.sample(VALUES[kind], min(len(names), len(VALUES[kind])) - 1))
        names = names[: len(bounds) + 1]
        return ShardMap(1, "range", column, kind, Bands(tuple(bounds), tuple(names)), "rest", homes(*names, "rest"))
    kind = dice.choice((STRING, LONG))
    listed = {str(one): dice.choice(names) for one in dice.sample(VALUES[kind], 3)} if by == "geographic" else {}
    named = homes(*listed.values(), "rest")
    return ShardMap(1, by, column, kind, Listed(listed), "rest", named, dice.randrange(4) if by == "tenant" else 0)


def next_map(
    dice: random.Random, now: ShardMap, rows: Mapping[Key, Row], values: Sequence[Any] | None = None
) -> ShardMap:
    """One that is split, merged, moved, or takes tenants in; itself where that makes no sense. `values`: of the column,
    by which it is split."""
    told = VALUES[now.kind] if values is None else values
    # A name, and with it a table, may have been a shard's before.
    new, shards = dice.choice((f"n{now.version}", "again")), sorted(now.shards)
    ways: list[Callable[[], ShardMap]] = [
        lambda: merge(now, dice.sample(shards, min(2, len(shards))), dice.choice(shards)),
        lambda: move(now, dice.choice(shards), home("moved", dice.randrange(1, 3))),
        lambda: move(now, one := dice.choice(shards), home(one)),
    ]
    if isinstance(now.spread, Bands):
        bound = None if now.by == "hash" else dice.choice(told)
        ways.append(lambda: split(now, dice.choice(shards), new, home(new), at=bound))
    else:
        some = [str(one) for one in dice.sample(told, 2)]
        ways.append(lambda: split_values(now, dice.choice(shards), new, home(new), some))
        found = waiting(now, [row.values.get(now.column) for row in rows.values()])
        ways.append(lambda: admit(now, homes(*found)))
    try:
        return dice.choice(ways)()
    except ValueError:
        return now


@dataclass(frozen=True)
class ShardCase:
    """As random_histories.Case; `map`: the first."""

    map: ShardMap
    base: Mapping[Key, Row]
    batches: Sequence[Sequence[RowChange]]
    sources: frozenset[str | None]


def shard_case(seed: int) -> ShardCase:
    """The case of this seed: sharded by a column of its own, or by that of the key."""
    dice, story = random.Random(seed), case(seed)
    column = dice.choice(("v", "w", "w", "k"))
    first = first_map(dice, column)

    def own(one: RowChange) -> RowChange:
        if one.values is None or column == "k" or column in one.unavailable:
            return one
        return replace(one, values={**one.values, column: value_of(seed, repr(one.identity), first.kind)})

    base = dict(story.base)
    if column != "k":
        values = {key: value_of(seed, repr(key), first.kind) for key in base}
        base = {key: replace(row, values={**row.values, column: values[key]}) for key, row in base.items()}
    return ShardCase(first, base, [[own(one) for one in batch] for batch in story.batches], story.sources)


def value_of(seed: int, which: str, kind: Type) -> Any:
    """The same for the same change."""
    own = random.Random(f"{seed} {which}")
    return own.choice(ODD) if own.random() < 0.2 else own.choice(VALUES[kind])
