"""How `firn shards list` prints the shards of a table."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from firn.config.warehouses import OWN
from firn.deployment.terminal import ago, print_table, size

if TYPE_CHECKING:
    from firn.config.map_document import MapVersion
    from firn_lake.shard_moves import ShardSize


def print_shards(
    whole: str, stream: str, in_use: int | None, made: "MapVersion", shards: "Sequence[ShardSize]"
) -> None:
    """One table. `in_use`: the version of the map that its rows are under; `made`: the newest."""
    since = f", {ago(datetime.fromisoformat(made.made_at), datetime.now(UTC))}" if made.made_at else ""
    typer.echo(f"{whole} of {stream}: version {made.number} of its map ({made.why or 'firn.yaml'}{since})")
    if in_use not in (None, made.number):
        typer.echo(f"its rows are under version {in_use} until its next changes are committed")
    told: list[tuple[object, ...]] = [
        (one.shard, one.table, one.values, one.rows, one.files, size(one.bytes)) for one in shards
    ]
    names = ["shard", "table", "values", "rows", "files", "size"]
    if any(one.warehouse for one in shards):  # few have more than one
        names.append("warehouse")
        told = [(*line, one.warehouse or OWN) for line, one in zip(told, shards, strict=True)]
    print_table(names, told, prose=("values",))
