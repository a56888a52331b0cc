"""`firn refs …`: tags and branches of a table, and rolling it back."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from firn.deployment.terminal import ago, print_json, print_table
from firn_cli.options import DEFAULT_DIR, Dir, Json, OneTable, lake_table

if TYPE_CHECKING:
    from firn_lake.refs.names import Ref

app = typer.Typer(
    help="Tags and branches of a table, and rollback. Expiry keeps the snapshots that have a name.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="What to call it, such as before-import.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at", help="ISO time (UTC without a zone), ms since 1970, snapshot id, tag or branch; now if left out."
    ),
]


@app.command("list")
def list_refs(table: OneTable, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """List the tags and branches of TABLE."""
    found = lake_table(folder, table).refs()
    if as_json:
        print_json([_told(one) for one in found])
        return
    now = datetime.now(UTC)
    print_table(
        ["name", "kind", "snapshot", "made", "kept"],
        [(one.name, one.kind, str(one.snapshot), ago(one.time, now), _kept(one)) for one in found],
    )


@app.command("tag")
def tag(
    table: OneTable,
    name: Name,
    at: At = None,
    keep: Annotated[str | None, typer.Option(help="For how long, such as 30d; for good if left out.")] = None,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Name a snapshot of TABLE, so that it stays readable. Safe to run again."""
    made = lake_table(folder, table).tag(name, at, None if keep is None else _age(keep))
    _say(made, as_json, f"{name} is snapshot {made.snapshot} of {table}: firn query --as-of {name} …")


@app.command("branch")
def branch(table: OneTable, name: Name, at: At = None, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """Create a branch of TABLE. Safe to run again."""
    made = lake_table(folder, table).branch(name, at)
    _say(made, as_json, f"{name} begins at snapshot {made.snapshot} of {table}")


@app.command("drop")
def drop(table: OneTable, name: Name, folder: Dir = DEFAULT_DIR) -> None:
    """Drop a tag or a branch. Expiry removes its snapshots once nothing else needs them."""
    lake_table(folder, table).drop(name)
    typer.echo(f"{name} of {table} is dropped")


@app.command("fast-forward")
def fast_forward(
    table: OneTable,
    name: Annotated[str, typer.Argument(metavar="BRANCH", help="The branch to move.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="A branch, tag or snapshot that descends from it.")],
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Move a branch forward to a descendant."""
    moved = lake_table(folder, table).fast_forward(name, to)
    _say(moved, as_json, f"{name} of {table} is at snapshot {moved.snapshot}")


@app.command("cherry-pick")
def cherry_pick(
    table: OneTable,
    snapshot: Annotated[int, typer.Argument(metavar="SNAPSHOT", help="One that appended rows on another branch.")],
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Append a snapshot of another branch to main. Each is taken once."""
    done = lake_table(folder, table).cherry_pick(snapshot)
    if as_json:
        print_json({"picked": snapshot, "snapshot": done})
        return
    typer.echo(f"what snapshot {snapshot} appended is in main of {table}, in snapshot {done}")


@app.command("rollback")
def rollback(
    table: OneTable,
    to: Annotated[str, typer.Argument(metavar="TO", help="A time, snapshot id or tag in the history of main.")],
    then: Annotated[
        str | None,
        typer.Option("--then", help="skip: what streams have committed since stays out, on purpose."),
    ] = None,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Roll TABLE back to the rows of an earlier snapshot. A table that a stream feeds keeps the stream's progress."""
    if then not in (None, "skip", "replay"):
        raise typer.BadParameter("--then is skip, or is left out")
    done = lake_table(folder, table).rollback(to, cast('Literal["skip", "replay"] | None', then))
    if as_json:
        print_json({"table": table, "snapshot": done})
        return
    typer.echo(f"{table} has the rows of {to} again, in snapshot {done}")


def _age(text: str) -> timedelta:
    from firn.config.quantities import days

    try:
        return timedelta(seconds=days(text))
    except ValueError as error:
        raise typer.BadParameter(f"--keep: {error}") from error


def _say(one: "Ref", as_json: bool, text: str) -> None:
    if as_json:
        print_json(_told(one))
        return
    typer.echo(text)


def _told(one: "Ref") -> dict[str, object]:
    seconds = None if one.keep is None else int(one.keep.total_seconds())
    return {"name": one.name, "kind": one.kind, "snapshot": one.snapshot, "time": one.time, "keep_seconds": seconds}


def _kept(one: "Ref") -> str | None:
    return None if one.keep is None else f"{one.keep.total_seconds() / 86_400:g} d"
