"""What a rule says of a table's shards, and the first map that it makes (docs/adr/0104-shards.md)."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, cast

from firn.changes.decode.types import Type
from firn.changes.placement.shard_map import MOST_SHARDS, NAME, Bands, Home, Listed, ShardMap, even, not_rising
from firn.changes.placement.shard_values import By, bound_of, check_listed, misfit
from firn.config.model import TableRule
from firn.config.names import TableName, is_reserved, too_long
from firn.config.warehouses import check_warehouse_name

MOST: Final = 100
"""Shards of a table: each commit names them all."""
_BY: Final = re.compile(r"\s*([A-Za-z]+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_KINDS: Final[tuple[By, ...]] = ("hash", "range", "tenant", "geographic")
_HOW: Final = "write hash(column), range(column), tenant(column) or geographic(column)"


@dataclass(frozen=True)
class Sharding:
    """`shard: {by: …}` of a rule.

    to      where shards lie: `namespace.table` with {shard} in it
    count   of `hash`: how many shards
    at      of `range`: the bounds, rising, as texts
    values  of `geographic` and `tenant`: which shard has which values of the column
    rest    the shard of null, odd values and all that is not listed (`else`)
    most    of `tenant`: how many may become shards by themselves
    kind    the column's type as the rule declares it; None: it isn't known yet
    whole   what all of them are read as, `namespace.table`; "": the stream's name in place of {shard}
    warehouses  the warehouses, by their names, of shards that lie beside the deployment's
    """

    by: By
    column: str
    to: str
    count: int = 0
    at: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    rest: str = "rest"
    most: int = 100
    kind: Type | None = None
    whole: str = ""
    warehouses: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError that says what to write."""
        if "{shard}" not in self.to:
            raise ValueError(f"{self.to[:80]!r} would be the table of all shards; write `to` with {{shard}} in it")
        needs = {"hash": self.count, "range": self.at, "geographic": self.values}
        lacking = {"hash": "count: 8", "range": "at: ['2026-01-01']", "geographic": "to: {de: eu, us: us}"}
        for by, told in needs.items():
            if by == self.by and not told:
                raise ValueError(f"{by}({self.column}) needs more; write such as {lacking[by]}")
            if by != self.by and told and (by, self.by) != ("geographic", "tenant"):
                raise ValueError(
                    f"`{lacking[by].partition(':')[0]}` is a setting of {by}, not of {self.by}; leave it out"
                )
        if not 0 <= self.count <= MOST_SHARDS - 1:
            raise ValueError(f"{self.count} shards; write 1 to {MOST_SHARDS - 1:,}")
        if not 0 <= self.most < MOST_SHARDS:
            raise ValueError(f"{self.most} tenants; write 0 to {MOST_SHARDS - 1:,}")
        for name in (self.rest, *self.values.values()):
            if not NAME.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is no name of a shard; write a-z, 0-9 and _ only, at most 63 of them")
        self._check_warehouses()

    def _check_warehouses(self) -> None:
        for name, warehouse in self.warehouses.items():
            if name == self.rest:
                raise ValueError(
                    f"warehouses: {name} leads all shards and lies in the deployment's own warehouse; leave it out"
                )
            # Of tenants any may come yet.
            if name not in self.shards and not (self.by == "tenant" and self.most and NAME.fullmatch(name)):
                known = ", ".join(self.shards[:10])
                raise ValueError(f"warehouses: there is no shard {name[:80]!r}; there are {known}")
            check_warehouse_name(warehouse)

    @cached_property
    def shards(self) -> tuple[str, ...]:
        """All by name, the rest last."""
        bands = self.count if self.by == "hash" else len(self.at) + 1 if self.by == "range" else 0
        named = (*(f"s{i}" for i in range(bands)), *self.values.values())
        return (*(name for name in dict.fromkeys(named) if name != self.rest), self.rest)

    @cached_property
    def tables(self) -> Mapping[str, TableName]:
        """Where each shard lies. Raises ValueError."""
        return {name: TableName.parse(self.home(name).table) for name in self.shards}

    def whole_of(self, stream: str) -> TableName:
        """The name under which all shards are read as one table. Raises ValueError that says what to write."""
        what = "write whole: namespace.table" if self.whole else "write shard: {…, whole: namespace.table}"
        try:
            found = TableName.parse(self.whole or self.to.replace("{shard}", stream))
        except ValueError as error:
            raise ValueError(f"{error}; {what}") from error
        if is_reserved(found.table) or "{" in str(found):
            why = "holds a {" if "{" in str(found) else "is a name of Firn's own"
            raise ValueError(f"{found}, by which all shards are read, {why}; {what}")
        if long := too_long(found.namespace, found.table, with_facts=False):
            raise ValueError(f"{long}; {what}")
        return found

    @cached_property
    def map(self) -> ShardMap:
        """The first version of the map, of a column that is declared. Raises ValueError."""
        if self.kind is None:
            raise ValueError(f"{self.column} is not declared; write its type under columns:")
        return self.first_map(self.kind)

    def rules(self, rule: TableRule) -> tuple[TableRule, ...]:
        """The rule of the whole as one of each shard's table."""
        return tuple(replace(rule, to=str(table)) for table in self.tables.values())

    def home(self, shard: str) -> Home:
        """Where a shard lies unless it is moved. Raises ValueError."""
        if not NAME.fullmatch(shard):
            raise ValueError(f"{shard[:80]!r} is no name of a shard; write a-z, 0-9 and _ only, at most 63 of them")
        table = TableName.parse(self.to.replace("{shard}", shard))
        if is_reserved(table.table):
            raise ValueError(f"{table} is a name of Firn's own; write another `to`")
        if why := too_long(table.namespace, table.table, with_facts=shard == self.rest):
            raise ValueError(f"{why}; write a shorter `to`")
        return Home(str(table), self.warehouses.get(shard, ""))

    def may_hold(self, table: TableName, excluded: Collection[str] = ()) -> bool:
        """Whether a table may be a shard by its name, one that the map got since too; those that were moved are not.
        `excluded`: names of tables that somebody says are none."""
        if str(table) in excluded:
            return False
        first, *others = (re.escape(part) for part in self.to.split("{shard}"))
        same = r"\1".join(others)
        return re.fullmatch(f"{first}({NAME.pattern}){same}", str(table)) is not None

    def first_map(self, kind: Type) -> ShardMap:
        """The first version of the map. `kind`: the column's type. Raises ValueError that says what to write."""
        if why := misfit(self.by, self.column, kind):
            raise ValueError(why)
        spread: Bands | Listed = Listed(dict(self.values))
        check_listed(kind, self.values)
        if self.by == "hash":
            spread = Bands(even(self.count), tuple(f"s{i}" for i in range(self.count)))
        elif self.by == "range":
            bounds = tuple(bound_of(kind, text) for text in self.at)
            if (place := not_rising(bounds)) is not None:
                told = f"{self.at[place]!r} stands behind {self.at[place - 1]!r}"
                raise ValueError(f"`at` rises, and {told}; write each bound once, in order")
            spread = Bands(bounds, tuple(f"s{i}" for i in range(len(bounds) + 1)))
        named = spread.shards if isinstance(spread, Bands) else spread.values.values()
        homes = {name: self.home(name) for name in (*named, self.rest)}
        most = self.most if self.by == "tenant" else 0
        return ShardMap(1, self.by, self.column, kind, spread, self.rest, homes, most)


def parse_by(text: str) -> tuple[By, str]:
    """`hash(user_id)` -> ("hash", "user_id"). Raises ValueError that says what to write."""
    found = _BY.fullmatch(text)
    by = found[1].lower() if found else ""
    if found is None or by not in _KINDS:
        raise ValueError(f"{text[:80]!r} says no way to shard; {_HOW}")
    column = found[2]
    if len(column) > 2 and column[0] == column[-1] and column[0] in "`\"'":
        column = column[1:-1]
    if not column:
        raise ValueError(f"{text[:80]!r} names no column; {_HOW}")
    return cast("By", by), column
