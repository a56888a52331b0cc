"""`firn explain TABLE FILTER`: which files a filter reads, and why the others are left out."""

from typing import Annotated

import typer

from firn.deployment.terminal import print_json, print_table
from firn_cli.options import DEFAULT_DIR, AsOf, Dir, Json, OneTable, Wide, lake_table


def command(
    table: OneTable,
    filter_: Annotated[str, typer.Argument(metavar="FILTER", help="Such as \"status = 'paid' and total >= 10\".")],
    as_of: AsOf = None,
    footers: Annotated[
        bool, typer.Option(help="Look into the files for row groups and Bloom filters; without, metadata alone.")
    ] = True,
    limit: Annotated[int, typer.Option(help="Files to show to people; 0 shows all. JSON has them all.", min=0)] = 50,
    folder: Dir = DEFAULT_DIR,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Show which files of TABLE a FILTER reads, and why. Also why the others are left out. Reads no rows."""
    found = lake_table(folder, table).prune(filter_, as_of, footers=footers)
    if as_json:
        print_json(found.plain())
        return
    files = [*found.read, *found.skipped]
    shown = files[:limit] if limit else files
    print_table(
        ["file", "partition", "rows", "bytes", "row groups", "verdict", "reason"],
        [
            (
                one.path.rpartition("/")[2],
                one.partition or None,
                one.rows,
                one.bytes,
                None if one.row_groups is None else f"{one.row_groups_read} of {one.row_groups}",
                one.verdict,
                one.reason or None,
            )
            for one in shown
        ],
        styles=["green" if one.verdict == "read" else "dim" for one in shown],
        fold=("row groups", "bytes", "rows", "partition"),
        prose=("reason",),
        wide=wide,
    )
    more = f"; {len(shown):,} shown (--limit 0 shows all)" if len(shown) < len(files) else ""
    typer.echo(f"{found}{more}", err=True)
