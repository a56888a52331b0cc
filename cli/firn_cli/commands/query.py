"""`firn query SQL`: one SELECT over the lake's tables, now or as of an earlier moment."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import counted, print_json, print_table
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, AsOf, Dir, Json, Wide

if TYPE_CHECKING:
    import pyarrow as pa

_NAME: Final = 32  # characters of the longest text that is not wrapped

_Cut = Annotated[
    str | None,
    typer.Option(
        "--cut",
        help="Read all tables at this cut, consistently: its number, or the name it was kept as.",
        autocompletion=completion.cuts,
    ),
]


def command(
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL", help="SELECT … in DuckDB's dialect, or EXPLAIN SELECT …; - reads it from standard input."
        ),
    ],
    as_of: AsOf = None,
    cut: _Cut = None,
    stream: Annotated[
        str | None, typer.Option("--stream", help="The cut's stream, where several have one of that number.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="With all that was acknowledged by now, committed or not.")
    ] = False,
    all_columns: Annotated[
        bool, typer.Option("--all-columns", help="SELECT * with Firn's own _firn_… columns.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Rows to show to people; 0 shows all. JSON has them all.", min=0)] = 200,
    folder: Dir = DEFAULT_DIR,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Run one read-only SELECT over the tables. Quote odd names: SELECT "Some Column" FROM shop."Mixed Case". One table
    at a moment of its own: FROM shop.orders FOR VERSION AS OF 'month-end', or FOR TIMESTAMP AS OF '2026-01-31'."""
    _expect_one_moment(as_of, cut, stream, fresh=fresh)
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.fresh.fresh_tables import Fresh
    from firn_lake.sharded.whole_names import WholeNames
    from firn_lake.sql.duck import NOTES
    from firn_lake.sql.query import query

    stack = find_stack(folder, running=False)
    wanted = None
    if cut is not None:
        from firn.log.named_cuts import find

        wanted = find(stack.store(), cut, stream)
        for table, reason in sorted(wanted.quarantined.items()):
            typer.echo(f"cut {wanted.n} leaves {table} behind, it is older than the others: {reason}", err=True)
    on_read = None
    if stack.warehouse.startswith("s3://") and stack.staging:  # elsewhere nothing is tiered
        from firn.log.published_configs import CurrentConfig
        from firn_lake.reading.read_recorder import recorder

        store = stack.store()
        on_read = recorder(store, CurrentConfig(store))
    catalog = catalog_of(stack)
    now = Fresh(catalog, stack.store()) if fresh else None
    text = sys.stdin.read() if sql == "-" else sql
    wholes = WholeNames(stack.store)
    result = query(catalog, text, as_of, wanted, on_read=on_read, fresh=now, all_columns=all_columns, wholes=wholes)
    for note in json.loads((result.schema.metadata or {}).get(NOTES.encode(), "[]")):
        typer.echo(note, err=True)
    if as_json:
        # Columns by name; of two with one name the last is kept, as in any JSON object.
        print_json(result.to_pylist())
    else:
        _show(result, limit, wide=wide)


def _expect_one_moment(as_of: str | None, cut: str | None, stream: str | None, *, fresh: bool) -> None:
    """Raises typer's BadParameter."""
    if cut is None and stream is not None:
        raise typer.BadParameter("it goes with --cut", param_hint="--stream")
    if cut is not None and as_of is not None:
        raise typer.BadParameter("give one of them: a cut is a moment already", param_hint="--cut, --as-of")
    if fresh and (cut is not None or as_of is not None):
        raise typer.BadParameter("fresh is now: it goes with no other moment", param_hint="--fresh, --as-of, --cut")


def _show(result: "pa.Table", limit: int, *, wide: bool) -> None:
    """For people: the first `limit` rows, 0 for all, and how many there are."""
    shown = result.slice(0, limit) if limit else result
    # By place, not by name: a join may give two columns one name.
    values = [column.to_pylist() for column in shown.columns]
    if result.column_names == ["explain_key", "explain_value"]:
        for plan in values[1]:
            typer.echo(plan)
        return
    print_table(
        result.column_names,
        list(zip(*values, strict=True)),
        grouped=False,
        prose=[name for name, column in zip(result.column_names, values, strict=True) if any(map(_is_prose, column))],
        wide=wide,
    )
    rows = counted(result.num_rows, "row")
    if shown.num_rows < result.num_rows:
        rows += f", {shown.num_rows:,} shown (--limit 0 shows all)"
    typer.echo(rows, err=True)


def _is_prose(value: object) -> bool:
    """Whether a value is text of several words, which may be wrapped, and no name or id."""
    return isinstance(value, str) and len(value) > _NAME and " " in value
