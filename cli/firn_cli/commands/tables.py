"""`firn tables`: what is in the lake."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, print_json, print_table, size
from firn_cli.options import DEFAULT_DIR, Dir, Json, Wide


def command(
    folder: Dir = DEFAULT_DIR,
    exact: Annotated[
        bool, typer.Option("--exact", help="Count rows by a scan, instead of from the snapshots' summaries.")
    ] = False,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """List tables with rows, snapshots, size and source. All shards of one are a line too, by their name as one."""
    from dataclasses import replace

    from firn_lake.catalogs.reading_catalog import to_read
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.lake import Lake
    from firn_lake.tables import count_rows, find_table

    stack = find_stack(folder, running=False)
    catalog = to_read(catalog_of(stack))
    lake = Lake(catalog, stack.store)
    found = lake.tables()
    if exact:
        found = [
            replace(
                one,
                rows=lake.table(one.name).read().count() if one.shards else count_rows(find_table(catalog, one.name)),
            )
            for one in found
        ]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no tables yet: send changes (firn send), then commit them (firn flush)", err=True)
        return
    now = datetime.now(UTC)
    print_table(
        ["table", "rows", "snapshots", "files", "size", "changed", "mode", "key", "stream", "source"],
        [
            (
                one.name,
                one.rows,
                one.snapshots,
                one.files,
                size(one.size_bytes),
                ago(one.updated_at, now),
                one.mode,
                ", ".join(one.key) or None,
                one.stream,
                f"{len(one.shards):,} shards" if one.shards else one.source,
            )
            for one in found
        ],
        fold=("source", "files", "mode", "stream", "size", "snapshots", "changed", "key"),
        prose=("key",),
        wide=wide,
    )
