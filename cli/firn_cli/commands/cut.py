"""`firn cut keep|drop|list`: consistent moments of a stream's tables, and keeping one for good."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, counted, print_json, print_table, say
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json

app = typer.Typer(
    help="Cuts: consistent snapshots of all tables of a stream. Read one with firn query --cut.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Stream = Annotated[
    str | None,
    typer.Option(
        "--stream", help="Only this stream; needed where several have cuts.", autocompletion=completion.streams
    ),
]


@app.command("keep")
def keep(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it, such as month-end.")],
    stream: Stream = None,
    cut: Annotated[int | None, typer.Option("--cut", help="The cut's number; the newest if left out.", min=1)] = None,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Keep a cut as NAME. Tags its snapshot in each table and view, so that no expiry removes it. Safe to run again."""
    from firn.log.named_cuts import find
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.refs.keep import keep_cut

    stack = find_stack(folder, running=False)
    store = stack.store()
    found = find(store, None if cut is None else str(cut), stream)
    kept = keep_cut(catalog_of(stack), store, name, found, datetime.now(UTC), lambda line: say(line, err=True))
    if as_json:
        told = {"name": kept.name, "stream": kept.cut.stream, "cut": kept.cut.n, "tables": kept.cut.tables}
        print_json(told | {"views": kept.views})
        return
    views = f" and {counted(len(kept.views), 'view')}" if kept.views else ""
    typer.echo(
        f"cut {kept.cut.n} of {kept.cut.stream} is kept as {name}, in {counted(len(kept.cut.tables), 'table')}{views}: "
        f'firn query --cut {name} "SELECT …"'
    )


@app.command("drop")
def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it was kept as; firn cut list has the names.")],
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Drop the name of a kept cut. Expiry may remove its snapshots from now on. Safe to run again."""
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.refs.keep import drop_cut

    stack = find_stack(folder, running=False)
    dropped = drop_cut(catalog_of(stack), stack.store(), name)
    gone = dropped.cut
    if as_json:
        told = {"dropped": name, "stream": gone.stream, "cut": gone.n, "tables": gone.tables}
        print_json(told | {"views": dropped.views})
        return
    typer.echo(f"cut {gone.n} of {gone.stream} is no longer kept as {name}: its snapshots go when they are old enough")


@app.command("list")
def list_cuts(
    stream: Stream = None,
    limit: Annotated[int, typer.Option(help="Newest cuts a stream to show; 0 shows all.", min=0)] = 10,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """List the newest cuts and all named ones."""
    from firn.log import cuts
    from firn.log.named_cuts import all_kept, streams

    store = find_stack(folder, running=False).store()
    found: dict[tuple[str, int], cuts.Cut] = {}
    names: dict[tuple[str, int], list[str]] = {}
    for kept in all_kept(store):
        if stream in (None, kept.cut.stream):
            found[kept.cut.stream, kept.cut.n] = kept.cut
            names.setdefault((kept.cut.stream, kept.cut.n), []).append(kept.name)
    for one in streams(store):
        if stream in (None, one):
            for n in cuts.numbers(store, one)[-limit if limit else None :]:
                if (one, n) not in found and (cut := cuts.read(store, one, n)) is not None:
                    found[one, n] = cut
    shown = [(cut, names.get(place, [])) for place, cut in sorted(found.items())]
    if as_json:
        print_json(
            [
                {"stream": cut.stream, "cut": cut.n, "made_at": cut.made_at, "kept_as": kept_as, "tables": cut.tables}
                for cut, kept_as in shown
            ]
        )
        return
    if not shown:
        typer.echo("no cuts yet: send changes (firn send), then commit them (firn flush)", err=True)
        return
    now = datetime.now(UTC)
    print_table(
        ["stream", "cut", "made", "tables", "kept as"],
        [
            (
                cut.stream,
                str(cut.n),
                ago(datetime.fromisoformat(cut.made_at), now),
                len(cut.tables),
                ", ".join(kept_as) or None,
            )
            for cut, kept_as in shown
        ],
        prose=("kept as",),
    )
