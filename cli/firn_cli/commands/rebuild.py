"""`firn rebuild TABLE`: the table again from the staged log."""

from typing import TYPE_CHECKING, Annotated

import typer

from firn.config.names import TableName
from firn.deployment.rebuild_run import Rebuilt, Wanted, Work, prepare, rebuild
from firn.deployment.target import find_stack
from firn.deployment.terminal import counted, notes, print_json
from firn_cli.options import DEFAULT_DIR, Dir, Json, OneTable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def command(
    table: OneTable,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="NAME", help="Into a new table namespace.table; TABLE is not touched."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="On a branch, which becomes the table in one commit. Keeps the history.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare a rebuild with TABLE row for row, and drop it. Exit code 1: differs."),
    ] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", help="With --into: only up to this epoch, or what was sealed by this ISO time."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="With --into: what is left of a log that does not reach back far enough.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most; the job goes on.", min=1)] = 86_400.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Rebuild TABLE from the staged log. Uses the current firn.yaml; a second run continues the first."""
    _check(into, in_place, check, to, partial)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from firn_lake.catalogs.stack_catalog import catalog_of

    stack = find_stack(folder)
    wanted = Wanted(table, into, in_place, check, to, partial)
    work = prepare(stack, wanted, lambda: _find(catalog_of(stack), wanted))
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=notes(), transient=True, disable=as_json) as progress:
        tasks = {part.stream: progress.add_task(part.stream, total=len(part.epochs)) for part in work.parts}

        def report(stream: str, done: int, total: int, state: str) -> None:
            progress.update(tasks[stream], completed=done, total=total, description=f"{stream}: job {state}")

        done = rebuild(stack, work, lambda: catalog_of(stack), report=report, timeout=timeout)
    if as_json:
        print_json({**done.result, "run": done.run, "quarantined_in": done.held, "seconds": round(done.seconds, 1)})
    else:
        typer.echo("\n".join(told(work, done)))
    if done.result["status"] != "done":
        raise typer.Exit(1)


def _check(into: str | None, in_place: bool, check: bool, to: str | None, partial: bool) -> None:
    if (into is not None) + in_place + check != 1:
        raise typer.BadParameter("give one of --into NAME, --in-place, --check")
    if into is None and (to is not None or partial):
        raise typer.BadParameter(
            "they go with --into NAME: in place the table keeps all that was committed to it",
            param_hint="--to, --partial",
        )
    if into is not None:
        try:
            TableName.parse(into)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--into") from error


def _find(catalog: "Catalog", wanted: Wanted) -> "Table | None":
    """The live table; None if there is none and none is needed. Raises TableNotFound."""
    from firn_lake.tables import TableNotFound, find_table

    try:
        return find_table(catalog, wanted.table)
    except TableNotFound:
        if wanted.into is None or not all(wanted.table.partition(".")):
            raise
        return None


def told(work: Work, done: Rebuilt) -> list[str]:
    """What became of it, and what can be done next, for people."""
    result = done.result
    epochs = ", ".join(f"{stream} {n}" for stream, n in result["epochs"].items())
    rows, changes = counted(result["rows"], "row"), counted(result["events"], "change")
    head = f"up to epoch {epochs}: {rows} from {changes}, {done.seconds:.1f} s"
    lines = []
    if not work.parts:
        lines += [f"{work.table} made again out of the tables that it rests on: {rows}, {done.seconds:.1f} s"]
    elif result.get("into"):
        into = result["into"]
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in work.columns) or "*"
        lines += [f"{work.table} rebuilt into {into}, {head}"]
        both = (f"SELECT {columns} FROM {work.table}", f"SELECT {columns} FROM {into}")  # noqa: S608 (text to show)
        lines += [
            f"compare: firn query '{both[0]} EXCEPT ALL {both[1]}', and the other way round",
            f"switch: write `to: {into}` for its source tables in firn.yaml and publish it; new changes then go there",
        ]
    elif result.get("tag"):
        lines += [f"{work.table} rebuilt in place, {head}"]
        lines += [f'what it was before: firn query --as-of {result["tag"]} "SELECT …"']
    elif result["status"] == "differs":
        lines += [
            f"{work.table} differs from its rebuild: {result['only_live']:,} rows are only in the table, "
            f"{result['only_rebuilt']:,} only in the rebuild",
            f"look: firn rebuild {work.table} --into NAME; fix: firn rebuild {work.table} --in-place",
        ]
    else:
        lines += [f"{work.table} equals its rebuild row for row, {head}"]
    if result["dead"]:
        lines += [f"{counted(result['dead'], 'change')} became dead letters: firn dead list"]
    if result.get("tag"):
        lines += [f"it is quarantined; let it go on: firn resume {stream} {work.table}" for stream in done.held]
    return lines
