"""`firn explain TABLE FILTER`: which files a filter reads, and why the others are left out."""

from typing import Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import print_json, print_table
from firn_cli.options import DEFAULT_DIR, Dir, Json


def command(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="namespace.table, or the table alone if only one namespace has it.")
    ],
    filter_: Annotated[str, typer.Argument(metavar="FILTER", help="Such as \"status = 'paid' and total >= 10\".")],
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="ISO time (UTC without a zone), ms since 1970, snapshot id, tag or branch."),
    ] = None,
    footers: Annotated[
        bool, typer.Option(help="Look into the files for row groups and Bloom filters; without, metadata alone.")
    ] = True,
    limit: Annotated[int, typer.Option(help="Files to show to people; 0 shows all. JSON has them all.", min=0)] = 50,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Show which files of TABLE a FILTER reads, and why. Also why the others are left out. Reads no rows."""
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.lake import Lake

    found = Lake(catalog_of(find_stack(folder, running=False))).table(table).prune(filter_, as_of, footers=footers)
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
    )
    more = f"; {len(shown):,} shown (--limit 0 shows all)" if len(shown) < len(files) else ""
    typer.echo(f"{found}{more}", err=True)
