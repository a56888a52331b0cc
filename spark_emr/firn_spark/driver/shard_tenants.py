"""Tenants who become shards by themselves (tables/shard_admission.py)."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from firn.changes.decode.types import Column
from firn.changes.placement.map_changes import waiting
from firn.changes.placement.shard_map import Home
from firn.config.map_document import MapVersion
from firn.config.names import TableName
from firn.config.reach import databases_of
from firn.errors import TerminalError
from firn.log import layout, shard_maps
from firn.tables import shard_admission
from firn.tables.shard_admission import MOST_MOVED
from firn_spark.driver.shard_tables import ShardRows, load_shard, sharding_of
from firn_spark.files import row_lookup
from firn_spark.table_commit import TableCommit

_TRIES: Final = 3  # at the next version of a map, which others may have made


def admit(
    one: TableCommit, under: MapVersion, rest: ShardRows, key: Sequence[Column], found: Collection[Any]
) -> tuple[str, ...]:
    """Lists tenants for epochs that are sealed from now on, before the range is committed: so none is forgotten.
    `under`: the map of the range; `found`: the values that it leaves in the rest. -> their names. Raises
    StorageUnavailable, UnknownOutcome, TerminalError."""
    shards = sharding_of(one)
    found = {value for value in found if waiting(under.map, [value])}
    if not (found and (found := _movable(rest, shards.column, key, found))):
        return ()
    name, databases = str(one.target.name), databases_of(os.environ)
    whole = shards.whole_of(one.context.stream)
    for _ in range(_TRIES):
        versions = shard_maps.newest(one.context.store, one.context.config)
        number = versions.get(name, 1)
        now = under
        if number > under.number:
            now = shard_maps.read(one.context.store, one.context.stream, name, shards, number)
        made_at = layout.instant(datetime.now(UTC))
        made = shard_admission.admitted(now, shards, found, databases, lambda home: _is_free(one, home), made_at, whole)
        if made is None:
            return ()
        if shard_maps.put(one.context.store, one.context.stream, name, made):
            return tuple(sorted(made.map.shards - now.map.shards))
    return ()  # others were quicker each time: with the tenant's next change


def _movable(rest: ShardRows, column: str, key: Sequence[Column], values: set[Any]) -> set[Any]:
    """Those of the values that have few rows in the rest, all of them together: these move at once."""
    of = next((one for one in rest.now.columns if one.name == column), None)
    if rest.shard.table is None or of is None or rest.shard.table.state.records <= MOST_MOVED:
        return values
    wanted = row_lookup.Wanted(key, holding=(of, values.__contains__))
    counts = Counter(row_lookup.read(rest.plan(wanted), rest.now.ids, [of]).columns[column])
    found, sum_of = set(), 0
    for value in sorted(values, key=lambda one: (counts[one], str(one))):
        sum_of += counts[value]
        if sum_of > MOST_MOVED:
            break
        found.add(value)
    return found


def _is_free(one: TableCommit, home: Home) -> bool:
    try:
        load_shard(one, TableName.parse(home.table), home.warehouse)
    except TerminalError:
        return False  # somebody else's table, or no such warehouse: the tenant stays in the rest
    return True
