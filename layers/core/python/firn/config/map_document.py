"""A version of the map of a table's shards as JSON: how the log and the snapshots of the rest keep it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from firn.changes.decode import types
from firn.changes.decode.types import Type, promotable
from firn.changes.placement.shard_map import Bands, Home, Listed, ShardMap
from firn.changes.placement.shard_values import HASHES, By, Comparable, check_listed, comparable
from firn.config.names import TableName
from firn.config.sharding import MOST, Sharding
from firn.config.warehouses import check_warehouse_name

FORMAT: Final = 2
"""1 where all shards lie in the deployment's warehouse: who knows no other reads that, and no more."""
LONGEST: Final = 16_000_000  # bytes of a document
_NO_MAP: Final = "is no version of a map of shards"


@dataclass(frozen=True)
class MapVersion:
    """A version with what became of it. `left`: the tables that were shards in an earlier one, and are none now;
    `made_at` (RFC 3339), `why`: when and by what it was made, "" of the first."""

    map: ShardMap
    left: frozenset[str] = frozenset()
    made_at: str = ""
    why: str = ""

    @property
    def number(self) -> int:
        """1 and up."""
        return self.map.version

    @property
    def tables(self) -> Mapping[str, TableName]:
        """Where each shard lies, the rest last."""
        names = [*sorted(self.map.shards - {self.map.rest}), self.map.rest]
        return {name: TableName.parse(self.map.homes[name].table) for name in names}

    @property
    def ever(self) -> frozenset[str]:
        """The tables of all shards, those of earlier versions too."""
        return self.left | {home.table for home in self.map.homes.values()}

    def next(self, after: ShardMap, made_at: str, why: str) -> "MapVersion":
        """The version that comes after it. Raises ValueError for more shards than a table may have, or for a longer
        document than can be read again."""
        if len(after.shards) > MOST:
            raise ValueError(f"{len(after.shards)} shards, and a table has at most {MOST}; merge some first")
        now = {home.table for home in after.homes.values()}
        made = MapVersion(after, self.ever - now, made_at, why)
        if (size := len(encode(made))) > LONGEST:
            raise ValueError(f"a map of {size:,} bytes, and at most {LONGEST:,} can be read: write shorter bounds")
        return made


class _Document(msgspec.Struct, frozen=True, omit_defaults=True):
    format: int
    version: int
    by: str
    column: str
    type: str
    rest: str
    homes: dict[str, str]
    at: list[int | str] | None = None
    shards: list[str] | None = None
    values: dict[str, str] | None = None
    left: list[str] = []
    made_at: str = ""
    why: str = ""
    warehouses: dict[str, str] = {}


_decode: Final = msgspec.json.Decoder(_Document).decode


def encode(one: MapVersion) -> bytes:
    """As JSON."""
    of, spread = one.map, one.map.spread
    bands = spread if isinstance(spread, Bands) else None
    listed = spread if isinstance(spread, Listed) else None
    warehouses = {name: home.warehouse for name, home in sorted(of.homes.items()) if home.warehouse}
    return msgspec.json.encode(
        _Document(
            FORMAT if warehouses else 1, of.version, of.by, of.column, str(of.kind), of.rest,
            {name: home.table for name, home in sorted(of.homes.items())},
            at=[_told(bound) for bound in bands.at] if bands else None,
            shards=list(bands.shards) if bands else None,
            values=dict(sorted(listed.values.items())) if listed else None,
            left=sorted(one.left), made_at=one.made_at, why=one.why, warehouses=warehouses,
        )
    )  # fmt: skip


def decode(data: bytes | str, of: Sharding, number: int | None = None) -> MapVersion:
    """The version that was encoded. `of`: what the rule says, whose column may have been promoted since (without a
    type: by that of the document); `number`: that it has to have. Raises ValueError for what is none of this rule's."""
    if len(data) > LONGEST:
        raise ValueError(f"{_NO_MAP}: it is longer than {LONGEST:,} bytes")
    try:
        found = _decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{_NO_MAP}: {error}"[:500]) from error
    if found.format > FORMAT:
        raise ValueError(f"has format {found.format}: update this side of Firn first")
    if found.version < 2 or number not in (None, found.version):
        raise ValueError(f"{_NO_MAP}: it calls itself version {found.version}")
    if (found.by, found.column, found.rest) != (of.by, of.column, of.rest):
        said = f"{found.by[:20]}({found.column[:80]}), else {found.rest[:80]}"
        raise ValueError(f"is of {said}, and firn.yaml says {of.by}({of.column}), else {of.rest}")
    kind = _type(found.type, of.kind)
    homes = {name: _home(table, found.warehouses.get(name, "")) for name, table in found.homes.items()}
    if len(homes) > MOST:
        raise ValueError(f"{_NO_MAP}: it has {len(homes):,} shards, and a table has at most {MOST}")
    most = of.most if of.by == "tenant" else 0
    if odd := found.warehouses.keys() - homes.keys():
        raise ValueError(f"{_NO_MAP}: it has a warehouse of {sorted(odd)[0][:80]!r}, which is no shard")
    made = ShardMap(found.version, of.by, of.column, kind, _spread(found, of.by, kind), of.rest, homes, most)
    if made.homes[of.rest] != of.home(of.rest):
        raise ValueError(f"has the rest in {made.homes[of.rest].table}, and that stays in {of.home(of.rest).table}")
    left = frozenset(_home(table).table for table in found.left)
    return MapVersion(made, left, found.made_at, found.why)


def _type(text: str, now: Type | None) -> Type:
    try:
        kind = types.parse(text)
    except ValueError as error:
        raise ValueError(f"{_NO_MAP}: {text[:80]!r} is no type") from error
    if now is not None and not promotable(kind, now):
        raise ValueError(f"is of a column of {kind}, and firn.yaml declares it {now}; write {kind}")
    return now or kind


def _home(table: str, warehouse: str = "") -> Home:
    if str(TableName.parse(table)) != table:
        raise ValueError(f"{_NO_MAP}: {table[:80]!r} is no table")
    if warehouse:
        check_warehouse_name(warehouse)
    return Home(table, warehouse)


def _spread(found: _Document, by: By, kind: Type) -> Bands | Listed:
    if found.values is not None and found.at is None and found.shards is None:
        check_listed(kind, found.values)
        return Listed(found.values)
    if found.at is None or found.shards is None or found.values is not None:
        raise ValueError(f"{_NO_MAP}: it says neither bounds with their shards, nor values alone")
    return Bands(tuple(_bound(one, by, kind) for one in found.at), tuple(found.shards))


def _told(bound: Comparable) -> int | str:
    if isinstance(bound, bytes):  # of hash alone, whose bounds are numbers
        raise TypeError(f"{bound!r} is no bound")
    return str(bound) if isinstance(bound, Decimal) else bound


def _bound(told: int | str, by: By, kind: Type) -> Comparable:
    found: object = told
    if by == "hash":
        found = told if isinstance(told, int) and 0 < told < HASHES else None
    elif kind.name == "decimal" and isinstance(told, str):
        try:
            found = Decimal(told)
        except InvalidOperation:
            found = None
    known = found if by == "hash" else comparable(kind, found)
    if known is None:
        raise ValueError(f"{_NO_MAP}: {str(told)[:80]!r} is no bound of {by} over {kind}")
    return known  # type: ignore[return-value]
