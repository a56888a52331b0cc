"""What the tables of a sharded table say that they are (shard_cut)."""

from collections.abc import Mapping
from typing import Final

SHARDS: Final = "firn.shards"
"""Property of the rest's table: how the whole is sharded, as JSON."""
SHARD_OF: Final = "firn.shard.of"
"""Property of each other shard's table: the rest's."""
SHARDS_AT: Final = "firn.shards.at"
"""In a snapshot of the rest's: {shard: [snapshot, epoch that it is at]} of the others, as JSON."""
SHARDS_VERSION: Final = "firn.shards.version"
"""In a snapshot of the rest's: the version of the map that it is under; without it the first."""
SHARDS_MAP: Final = "firn.shards.map"
"""In the first of these snapshots: the map itself, as config/map_document writes it. The first map follows from
`firn.shards`."""
SHARD_PASSED: Final = "firn.shard.passed"
"""In a snapshot of any of them: how many rows came from other shards by another map, that no change named."""
SHARD_WAREHOUSE: Final = "firn.shard.warehouse"
"""Property of a shard's table that lies beside the deployment's warehouse: that one's name."""
SHARD_DROPPED: Final = "firn.shard.dropped"
"""Property of a former shard's table that is being removed, in place of `firn.shard.of`: the rest's."""


def shard_in(properties: Mapping[str, str]) -> str | None:
    """What a table with these properties is, if it is a shard, in words; else None."""
    if SHARDS in properties:
        return "the rest of a table of several shards"
    return f"a shard of {properties[SHARD_OF]}" if SHARD_OF in properties else None
