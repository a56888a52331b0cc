"""`firn history TABLE`: its snapshots."""

from typing import Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import print_json, print_table
from firn_cli.options import DEFAULT_DIR, Dir, Json, OneTable, Wide


def command(
    table: OneTable,
    last: Annotated[int | None, typer.Option("--last", min=1, metavar="N", help="Only the newest N.")] = None,
    folder: Dir = DEFAULT_DIR,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """List the snapshots of TABLE, oldest first. Shows what each added and removed, its epochs, and which columns got
    another type with it."""
    from firn_lake.catalogs.reading_catalog import to_read
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.lake import Lake
    from firn_lake.snapshot_pages import snapshot_page
    from firn_lake.tables import history, uncounted

    stack = find_stack(folder, running=False)
    lake = Lake(to_read(catalog_of(stack)), stack.store)
    one = lake.table(table)
    rests = one.leading
    found = snapshot_page(rests, "", last, newest_first=True).snapshots[::-1] if last else history(rests)
    if not one.counts_rows:
        found = list(map(uncounted, found))
    if as_json:
        print_json(found)
        return
    print_table(
        ["snapshot", "time (UTC)", "operation", "added", "deleted", "rows", "epochs", "refs", "types"],
        [
            (
                str(one.id),
                one.time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
                one.operation,
                one.added,
                one.deleted,
                one.total,
                ", ".join(f"{stream} {n}" for stream, n in sorted(one.epochs.items())) or None,
                ", ".join(one.refs) or None,
                ", ".join(f"{each.column}: {each.before} to {each.after}" for each in one.retyped) or None,
            )
            for one in found
        ],
        fold=("operation", "deleted", "types", "refs", "epochs", "added"),
        prose=("types", "refs", "epochs"),
        wide=wide,
    )
