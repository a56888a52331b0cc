"""`firn files STREAM.PIPELINE`: what a pipeline has written into files."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, counted, print_json, print_table, size
from firn_cli.options import DEFAULT_DIR, Dir, Json, Wide

if TYPE_CHECKING:
    from firn.sinks.report import SinkReport


def command(
    pipeline: Annotated[str, typer.Argument(metavar="STREAM.PIPELINE", help="A pipeline whose target is files.")],
    check: Annotated[
        bool, typer.Option("--check", help="Read all files, and compare them with what was written.")
    ] = False,
    folder: Dir = DEFAULT_DIR,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """List the files of a pipeline, oldest first. Shows rows, size and epochs of each, and what still waits."""
    from firn.sinks import report
    from firn.sinks.turn import open_files

    store = find_stack(folder, running=False).store()
    found = report.of(store, pipeline)
    wrong = list(report.check(store, found, open_files)) if check else []
    if as_json:
        print_json(_told(found) | ({"differences": wrong} if check else {}))
    else:
        _print(found, wide=wide)
        if check:
            count = sum(len(one.files) for one in found.manifests)
            well = "the file is as it was written" if count == 1 else f"all {count} files are as they were written"
            typer.echo("\n".join(wrong) or well)
    if wrong:
        raise typer.Exit(1)


def _told(found: "SinkReport") -> dict[str, Any]:
    files = [
        {"path": f"{one.to}/{file.path}", "rows": file.rows, "bytes": file.bytes, "sha256": file.sha256}
        | {"plan": one.n, "first_epoch": one.first, "last_epoch": one.last, "written_at": one.made_at}
        for one in found.manifests
        for file in one.files
    ]
    waiting = found.state
    return {
        "stream": found.stream,
        "pipeline": found.pipeline,
        "files": files,
        "dead_letters": sum(one.dead for one in found.manifests),
        "upto_epoch": waiting.upto,
        "waiting": {"events": waiting.events, "bytes": waiting.bytes, "since": waiting.since, "due": waiting.due},
        "error": waiting.error,
    }


def _print(found: "SinkReport", *, wide: bool) -> None:
    now = datetime.now(UTC)
    print_table(
        ["file", "rows", "size", "epochs", "written", "sha256"],
        [
            (
                f"{one.to}/{file.path}",
                file.rows,
                size(file.bytes),
                str(one.last) if one.first == one.last else f"{one.first} to {one.last}",
                ago(datetime.fromisoformat(one.made_at), now),
                file.sha256[:12],
            )
            for one in found.manifests
            for file in one.files
        ],
        fold=("sha256", "epochs", "written", "size"),
        wide=wide,
    )
    waiting = found.state
    if not found.named:
        typer.echo("firn.yaml no longer names it: it gets nothing more")
    if waiting.events and waiting.since is not None:
        since = ago(datetime.fromisoformat(waiting.since), now)
        typer.echo(
            f"{counted(waiting.events, 'change')} to write, {size(waiting.bytes)} of the log, the oldest from {since}"
        )
    if waiting.tries:
        typer.echo(f"not written: {waiting.error or 'its jobs died'}; tried {waiting.tries} times, next {waiting.due}")
