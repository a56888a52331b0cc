"""What the tables of a sharded table say of each other. Pure.

The rest leads: the whole has its name, and its properties say what is known of the whole. It is committed after all
other shards, and each of its snapshots names theirs as they are then: that is the cut from which the next job decides
(docs/adr/0104-shards.md).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from firn.changes.decode import types
from firn.config import map_document
from firn.config.map_document import MapVersion
from firn.config.model import StreamConfig, TableRule
from firn.config.names import TableName
from firn.config.sharding import Sharding
from firn.errors import TerminalError
from firn.tables.locations import below, spelled
from firn.tables.shard_names import SHARD_OF, SHARD_WAREHOUSE, SHARDS, SHARDS_AT, SHARDS_MAP, SHARDS_VERSION
from firn.tables.table_state import EPOCH, TableState

TAKEN: Final = "firn.shard.epochs"
"""In a snapshot of another shard: the numbers of the epochs that were decided with it, as JSON: [[first, last], …]."""
UNDER: Final = "firn.shard.under"
"""In the same: the settings under which they were decided, as `under` tells them."""
WHOLE: Final = "firn.shard.whole"
"""In the same, of one that had strayed: all of it was compared, whatever it had before."""


@dataclass(frozen=True)
class At:
    """A shard as a cut names it. `stream`: the one whose epoch `progress` is."""

    snapshot: int
    progress: int
    stream: str


def properties(name: TableName, rule: TableRule) -> dict[str, str]:
    """What a table of this name says of it when it is made; {} without shards."""
    if rule.shard is None:
        return {}
    rest = rule.shard.tables[rule.shard.rest]
    return {SHARDS: told(rule.shard)} if name == rest else {SHARD_OF: str(rest)}


def told(shards: Sharding) -> str:
    """How a rule shards, as its tables say it."""
    said = {"by": shards.by, "column": shards.column, "to": shards.to, "count": shards.count, "at": list(shards.at)}
    more = {"values": dict(sorted(shards.values.items())), "rest": shards.rest, "type": str(shards.kind)}
    first = {name: where for name, where in shards.warehouses.items() if name in shards.shards}
    more |= {"warehouses": first} if first else {}  # where tenants will lie that come later may be said later
    return json.dumps(said | more, ensure_ascii=False, sort_keys=True)


def check(name: TableName, rule: TableRule, state: TableState | None) -> None:
    """Raises TerminalError if the table is there, and is none of this rule's: of another sharding, or of none."""
    if state is None:
        return
    wanted, found = properties(name, rule), {one: state.properties.get(one) for one in (SHARDS, SHARD_OF)}
    if rule.shard is None and found[SHARD_OF] is not None:
        raise TerminalError(
            f"{name} is a shard of {found[SHARD_OF]}, and this rule of firn.yaml makes it a table of its own: write "
            "another table under to:, or the shard: that was there"
        )
    if rule.shard is None and found[SHARDS] is not None:
        raise TerminalError(
            f"{name} is a table of several shards, {found[SHARDS]:.300}, and its rule in firn.yaml has no shard: write "
            "that again, or another table under to:"
        )
    for one, text in wanted.items():
        if found[one] is None:
            raise TerminalError(
                f"{name} is there already, and no shard that Firn made for this rule: rename it, or write another `to`"
            )
        if found[one] != text and not (one == SHARDS and _same(found[one] or "", text)):
            raise TerminalError(
                f"{name} says of itself {found[one]:.300}, and firn.yaml says {text:.300}: how a table is sharded "
                "changes by firn shards alone; write it as it was, or another `to`"
            )


def in_another_warehouse(name: TableName, state: TableState | None, warehouse: str, address: str) -> str | None:
    """Why a table can't be a shard in this warehouse, with what to do; None if it can. `warehouse`: its name, ""
    without; `address`: where it is."""
    if state is None:
        return None
    lies = state.properties.get(SHARD_WAREHOUSE, "")
    if lies != warehouse:
        return (
            f"{name} lies in {_warehouse(lies)}, and its shard in {_warehouse(warehouse)}: one catalog has no two "
            "tables of that name. Have firn shards move the shard to a table of another name there"
        )
    if warehouse and below(spelled(address), spelled(state.location)) is None:
        return (
            f"{name} lies at {state.location}, and {_warehouse(warehouse)} is {address} by now: say in FIRN_WAREHOUSES "
            "where it was, give another place another name, and have firn shards move the shard to a new table there"
        )
    return None


def _warehouse(name: str) -> str:
    return f"the warehouse {name}" if name else "the deployment's own warehouse"


def sharding_in(properties: Mapping[str, str]) -> Sharding | None:
    """How a table is sharded, by the properties of its rest's; None for another table."""
    if SHARDS not in properties:
        return None
    said = json.loads(properties[SHARDS])
    kind = types.parse(said.pop("type"))
    return Sharding(**said | {"at": tuple(said["at"]), "kind": kind})


def map_of(state: TableState) -> MapVersion | None:
    """The map that the rest's table is under, by what it says of itself; None of another table. Raises ValueError."""
    first = first_of(state)
    return None if first is None else map_in(state.ancestry, first)


def first_of(state: TableState) -> Sharding | None:
    """How a table is sharded, as its rest's says it, for the map that it is under; None of another table."""
    found = sharding_in(state.properties)
    return None if found is None else _for(state.ancestry, found)


def map_told(ancestry: Sequence[Mapping[str, str]], first: Sharding) -> MapVersion:
    """map_in for who has no firn.yaml. `first`: what the rest's table says of itself. Raises ValueError."""
    return map_in(ancestry, _for(ancestry, first))


def _for(ancestry: Sequence[Mapping[str, str]], first: Sharding) -> Sharding:
    is_first = version_in(ancestry) == 1  # else the column may have been promoted since
    return first if is_first else replace(first, kind=None)


def map_in(ancestry: Sequence[Mapping[str, str]], of: Sharding) -> MapVersion:
    """The map that the newest of these summaries of the rest's snapshots is under. Raises ValueError."""
    text = next((one[SHARDS_MAP] for one in ancestry if SHARDS_MAP in one), None)
    if text is None:
        if (number := version_in(ancestry)) > 1:
            raise ValueError(f"no snapshot of {of.tables[of.rest]} has version {number} of the map of its shards")
        return MapVersion(of.map)
    try:
        return map_document.decode(text, of)
    except ValueError as error:
        raise ValueError(f"the map in the snapshots of {of.tables[of.rest]} {error}") from error


def version_in(ancestry: Iterable[Mapping[str, str]]) -> int:
    """Its number."""
    return next((int(one[SHARDS_VERSION]) for one in ancestry if SHARDS_VERSION in one), 1)


def _same(before: str, now: str) -> bool:
    """Whether they are alike but for a promotion of the column, which moves no row."""
    was, now_is = json.loads(before), json.loads(now)
    kinds = [types.parse(one.pop("type")) for one in (was, now_is)]
    return bool(was == now_is and types.promotable(*kinds))


def summary(at: Mapping[str, At], under: MapVersion | None = None, before: int = 1) -> dict[str, str]:
    """What the rest's snapshot says. `under`: the map; `before`: the number of the one that the snapshot before is
    under."""
    told = {SHARDS_AT: json.dumps({name: [one.snapshot, one.progress, one.stream] for name, one in sorted(at.items())})}
    if under is not None and under.number > 1:
        told[SHARDS_VERSION] = str(under.number)
    if under is not None and under.number != before:
        told[SHARDS_MAP] = map_document.encode(under).decode()
    return told


def cut_in(ancestry: Iterable[Mapping[str, str]], stream: str) -> dict[str, At]:
    """The other shards as the newest of these summaries of the rest's snapshots names them; those that are not made
    yet are left out. `stream`: whose epochs they are where none is named."""
    text = next((one[SHARDS_AT] for one in ancestry if SHARDS_AT in one), "{}")
    return {
        name: At(int(snapshot), int(progress), *(of or [stream]))
        for name, (snapshot, progress, *of) in json.loads(text).items()
    }


def under(rule: TableRule, settings: StreamConfig, version: int = 1) -> str:
    """A digest of what changes are decided by beside themselves: other settings may make dead letters of other ones,
    leave others out, or give other keys; another `version` of the map other places."""
    of_rule = (rule.key, rule.mode, rule.snapshot_reads, sorted(map(repr, rule.columns.items())))
    of_stream = (settings.generation, settings.order_by, sorted(settings.own_fields), repr(settings.settings))
    of_map = (version,) if version > 1 else ()
    return sha256(repr((of_rule, of_stream, *of_map)).encode()).hexdigest()[:16]


def taken(epochs: Iterable[int], settings: str, *, whole: bool = False) -> dict[str, str]:
    """What the snapshot of another shard says of the epochs that it was decided from. `settings`: as `under` tells;
    `whole`: whether all of it was compared."""
    runs: list[list[int]] = []
    for n in sorted(epochs):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return {TAKEN: json.dumps(runs), UNDER: settings} | ({WHOLE: "true"} if whole else {})


def left_out(stream: str, ancestry: Iterable[Mapping[str, str]], above: int, mine: Iterable[int]) -> list[int]:
    """The epochs above `above` that a shard has (`ancestry`: its snapshots' summaries, the newest first), and that are
    not among `mine`: a job brought it there that has died, and somebody has taken them out since."""
    found: set[int] = set()
    for one in _brought(stream, ancestry, above):
        found |= {n for first, last in json.loads(one[TAKEN]) for n in range(first, last + 1)}
    return sorted(n for n in found.difference(mine) if n > above)


def under_others(stream: str, ancestry: Iterable[Mapping[str, str]], above: int, settings: str) -> bool:
    """Whether a shard has epochs above `above` that were decided under other settings than these (`under`)."""
    return any(one.get(UNDER) != settings for one in _brought(stream, ancestry, above))


def _brought(stream: str, ancestry: Iterable[Mapping[str, str]], above: int) -> Iterator[Mapping[str, str]]:
    """The summaries of jobs that brought a shard above an epoch, down to the newest that compared all of it."""
    for one in ancestry:
        if TAKEN in one and int(one.get(EPOCH + stream, 0)) > above:
            yield one
        if WHOLE in one:
            return
