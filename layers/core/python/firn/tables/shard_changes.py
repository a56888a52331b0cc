"""What `firn shards` makes of a map: the next version of it, or why there is none (docs/adr/0104-shards.md). Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from firn.changes.placement import map_changes
from firn.changes.placement.shard_map import Home, ShardMap
from firn.changes.placement.shard_values import bound_of
from firn.config.map_document import MapVersion
from firn.config.model import Config, StreamConfig, TableRule
from firn.config.names import TableName, is_reserved, too_long
from firn.config.sharding import Sharding
from firn.config.warehouses import OWN, check_warehouse_name
from firn.config.whole_tables import whole_tables


def find(config: Config, table: str) -> tuple[StreamConfig, TableRule, Sharding]:
    """The rule of a table of several shards, by what all of them are read as or its rest's name. Raises ValueError."""
    found: dict[str, tuple[StreamConfig, TableRule, Sharding]] = {}
    for stream in config.streams.values():
        for rule in stream.tables:
            if rule.shard is not None:
                found[str(rule.shard.whole_of(stream.name))] = found[rule.to] = stream, rule, rule.shard
    if table not in found:
        names = ", ".join(sorted(found)) or "none"
        raise ValueError(f"{table[:200]!r} names no table of several shards; there are: {names}")
    return found[table]


def split(
    now: ShardMap,
    of: Sharding,
    shard: str,
    new: str,
    *,
    at: str | None = None,
    values: Collection[str] = (),
    warehouse: str | None = None,
) -> ShardMap:
    """Of a shard what is `at` a bound and above, or these values, becomes the shard `new`; of hashes half of them.
    `warehouse`: as home_of has it. Raises ValueError."""
    home = home_of(now, of, shard, new, warehouse)
    if now.by in ("tenant", "geographic"):
        if at is not None:
            raise ValueError(f"{now.by} lists values and has no bounds; write --values")
        return map_changes.split_values(now, shard, new, home, values)
    if values:
        raise ValueError(f"{now.by} has bounds and lists no values; write --at")
    if at is not None and now.by == "hash":
        raise ValueError("hashes are split in halves; leave --at out")
    return map_changes.split(now, shard, new, home, at=None if at is None else bound_of(now.kind, at))


def home_of(now: ShardMap, of: Sharding, shard: str, new: str, warehouse: str | None = None) -> Home:
    """Where the shard `new` lies, whose rows another has: in this warehouse by its name, or that of firn.yaml, or where
    the other one lies: no row leaves its region because a shard was large. Raises ValueError."""
    home = of.home(new)
    if warehouse is None and new in of.warehouses:
        return home
    return in_warehouse(home, now.homes[shard].warehouse if warehouse is None and shard in now.homes else warehouse)


def in_warehouse(home: Home, warehouse: str | None) -> Home:
    """The same in a warehouse by its name; `own` is the deployment's, None leaves it. Raises ValueError."""
    if warehouse is None:
        return home
    if warehouse not in ("", OWN):
        check_warehouse_name(warehouse)
    return replace(home, warehouse="" if warehouse == OWN else warehouse)


def move(now: ShardMap, shard: str, to: str, warehouse: str | None = None) -> ShardMap:
    """A shard gets another table, in this warehouse (`in_warehouse`) or where it lies. Raises ValueError."""
    if shard == now.rest:
        raise ValueError(f"{shard} has the name of the whole, and stays in {now.homes[shard].table}")
    table = TableName.parse(to)
    if is_reserved(table.table):
        raise ValueError(f"{table} is a name of Firn's own; write another")
    if why := too_long(table.namespace, table.table, with_facts=False):
        raise ValueError(why)
    there = now.homes[shard].warehouse if shard in now.homes else ""
    return map_changes.move(now, shard, in_warehouse(Home(str(table), there), warehouse))


def taken_back(newest: MapVersion, in_use: MapVersion) -> ShardMap:
    """The map that the rows are under, once more. Raises ValueError where nothing is to be taken back."""
    if newest.number <= in_use.number:
        raise ValueError(
            f"the rows are under version {in_use.number}, the newest, already; what it moved goes back by another "
            "split, merge or move"
        )
    was, now = in_use.map, newest.map
    if (was.spread, was.homes) == (now.spread, now.homes):
        raise ValueError(f"version {newest.number} moves nothing: there is nothing to be taken back")
    return replace(now, version=newest.number + 1, spread=was.spread, homes=was.homes)


def fed_by_others(
    config: Config, before: MapVersion, after: ShardMap, maps: Mapping[str, Collection[str]] | None = None
) -> str | None:
    """A new table of the map that another rule of the configuration feeds or may come to feed, that all shards of a
    table are read as, or that was a shard by another spelling of its name, in words; None if there is none. `maps`: the
    tables of the shards of others, by their rests."""
    found = (taken_by_others(config, before, home, maps) for home in after.homes.values())
    return next((why for why in found if why is not None), None)


def taken_by_others(
    config: Config, before: MapVersion, home: Home, maps: Mapping[str, Collection[str]] | None = None
) -> str | None:
    """The same of one home."""
    if home.table in before.ever:
        return None
    if was := next((one for one in sorted(before.ever) if Home(one).place == home.place), None):
        return f"{home.table} is or was a shard as {was}, and some catalogs keep names in lower case; write it so"
    wholes = {Home(str(one.name)).place: one for one in whole_tables(config).values()}
    if home.place in wholes:
        one = wholes[home.place]
        return f"{one.name} is what all shards of {one.rest} are read as; write another name"
    if met := next((rest for rest, tables in (maps or {}).items() if home.place in _places(tables)), None):
        return f"{home.table} is a shard of {met}; write another name"
    table = TableName.parse(home.table)
    for rule in (rule for stream in config.streams.values() for rule in stream.tables if rule.shard):
        if rule.to != before.map.homes[before.map.rest].table and _may_admit(rule.shard, table):
            return f"{table} may become a shard of {rule.to}; write another name"
    for stream in config.streams.values():
        if (other := next((rule for rule in stream.targets if rule.to and rule.feeds(table)), None)) is not None:
            return f"{table} is fed by {other.source or other.to} of {stream.name}; write another name"
    return None


def _places(tables: Collection[str]) -> set[str]:
    return {Home(one).place for one in tables}


def _may_admit(shards: Sharding | None, table: TableName) -> bool:
    return shards is not None and shards.most > 0 and shards.by == "tenant" and shards.may_hold(table)
