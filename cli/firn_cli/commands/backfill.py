"""`firn backfill STREAM`: what the source's tables hold already, while their stream runs."""

import time
from typing import Annotated, Any

import typer

from firn.backfill.backfill_request import CHUNK_ROWS, By, Request
from firn.deployment import backfill_run
from firn.deployment.backfill_run import Done, Look
from firn.deployment.flush_run import flush
from firn.deployment.stack import Stack
from firn.deployment.target import find_stack
from firn.deployment.terminal import counted, notes, print_json, size
from firn.log.batches import FORMAT
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json

_Tables = Annotated[
    list[str] | None, typer.Argument(metavar="TABLE", help="Source tables, such as public.orders; else all.")
]
_From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        help="postgres://user@host:5432/database, mysql://user@host:3306/database, or files: 's3://bucket/*.parquet'.",
        show_default=False,
    ),
]
_Password = Annotated[
    str,
    typer.Option(
        metavar="PLACE",
        show_default=False,
        help="Where the job finds the password: secretsmanager:NAME, ssm:/NAME or file:/PATH. With an embedded stack "
        "FIRN_SOURCE_PASSWORD does, too.",
    ),
]
_Where = Annotated[str, typer.Option(help="Only rows for which this SQL of the source is true.", show_default=False)]
_Cut = Annotated[
    str, typer.Option(help="How tables are cut: auto, key (ranges of the primary key), ctid (places in the file).")
]
_ChunkRows = Annotated[int, typer.Option(help="Rows of a chunk, about.", min=100, max=5_000_000)]
_Parallel = Annotated[int, typer.Option(help="Connections at once; 0: one a core of the job.", min=0, max=256)]
_Verify = Annotated[
    bool, typer.Option("--verify", help="Compare count and checksum of each chunk with the source's, by its snapshot.")
]
_Replace = Annotated[
    bool, typer.Option("--replace", help="Under a raised generation: rows that the source no longer has go, too.")
]
_Position = Annotated[
    str, typer.Option(help="Of files: oldest (below all that the stream tells), or now (above what the tables hold).")
]
_Commit = Annotated[bool, typer.Option("--commit/--no-commit", help="Wait until all is in the tables.")]
_Cancel = Annotated[bool, typer.Option("--cancel", help="End the stream's open backfill; staged rows stay.")]


def command(
    stream: Annotated[
        str,
        typer.Argument(metavar="STREAM", help="The stream whose tables are filled.", autocompletion=completion.streams),
    ],
    tables: _Tables = None,
    source: _From = "",
    password: _Password = "",
    where: _Where = "",
    by: _Cut = "auto",
    chunk_rows: _ChunkRows = CHUNK_ROWS,
    parallel: _Parallel = 0,
    verify: _Verify = False,
    replace: _Replace = False,
    position: _Position = "oldest",
    commit: _Commit = True,
    cancel: _Cancel = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most; the job goes on.", min=1)] = 604_800.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Fill tables with the source's rows while STREAM runs. The same command goes on after a failure, with the chunks
    that are missing."""
    stack = find_stack(folder)
    if cancel:
        _cancel(stack, stream, as_json)
        return
    wanted = Request(
        FORMAT, "", stream, source, "", tuple(tables or ()), password, where, by=_by(by), chunk_rows=chunk_rows,
        parallel=parallel, verify=verify, replace=replace, position=_position(position),
    )  # fmt: skip
    request = backfill_run.prepare(stack, wanted)
    with _Bar(as_json) as bar:
        done = backfill_run.backfill(stack, request, report=bar.report, timeout=timeout)
    flushed = flush(stack, stream) if commit and done.end.status == "done" else []
    if as_json:
        print_json(_result(done) | {"committed": bool(flushed)})
        return
    typer.echo("\n".join(_told(done)))
    for one in flushed:
        typer.echo(f"{one.stream}: committed up to epoch {one.epoch}")


def _cancel(stack: Stack, stream: str, as_json: bool) -> None:
    ended = backfill_run.cancel(stack, stream)
    if as_json:
        print_json({"cancelled": ended})
    else:
        typer.echo("\n".join(f"backfill {one} of {stream} is cancelled" for one in ended) or "none was open")


def _by(text: str) -> By:
    found: dict[str, By] = {"auto": "auto", "key": "key", "ctid": "ctid"}
    if text not in found:
        raise typer.BadParameter("write auto, key or ctid", param_hint="--by")
    return found[text]


def _position(text: str) -> str:
    if text not in ("oldest", "now"):
        raise typer.BadParameter("write oldest or now", param_hint="--position")
    return "" if text == "oldest" else text


def _result(done: Done) -> dict[str, Any]:
    told = {"backfill": done.request.id, "status": done.end.status, "run": done.run, "chunks": done.end.chunks}
    counts = {"rows": done.end.rows, "bytes": done.end.bytes, "tables": done.progress.rows}
    checks = {"checked_chunks": done.progress.checked, "waited_seconds": round(done.progress.waited, 1)}
    return told | counts | checks | {"seconds": round(done.seconds, 1)}


class _Bar:
    """Rows, their rate, and when it will be done."""

    def __init__(self, quiet: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(),
            TextColumn("{task.fields[told]}", markup=False), TimeElapsedColumn(), TextColumn("ETA"),
            TimeRemainingColumn(),
        )  # fmt: skip
        self._progress = Progress(*columns, console=notes(), transient=True, disable=quiet, speed_estimate_period=60)
        self._task = self._progress.add_task("job submitted", total=None, told="")
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, look: Look) -> None:
        """One look at it."""
        now, rows = time.monotonic(), sum(look.progress.rows.values())
        if self._first is None and rows:
            self._first = now, rows
        began, before = self._first or (now, 0)
        rate = f", {(rows - before) / (now - began):,.0f}/s" if now - began > 1 else ""
        chunks = f", chunk {look.progress.chunks:,} of {look.chunks:,}" if look.chunks else ""
        # The estimate may be far off, and the chunks are what is known.
        share = look.progress.chunks / look.chunks if look.chunks else 0.0
        self._progress.update(
            self._task, description=f"job {look.state}", completed=share, total=1.0 if look.chunks else None,
            told=f"{counted(rows, 'row')}{rate}{chunks}",
        )  # fmt: skip


def _told(done: Done) -> list[str]:
    rate = f", {done.end.rows / done.seconds:,.0f} rows/s" if done.seconds >= 1 and done.end.rows else ""
    head = f"{done.request.stream}: backfill {done.request.id} is {done.end.status}: {counted(done.end.rows, 'row')}"
    lines = [f"{head} ({size(done.end.bytes)}) in {counted(done.end.chunks, 'chunk')}, {done.seconds:.1f} s{rate}"]
    lines += [f"  {table}: {rows:,}" for table, rows in sorted(done.progress.rows.items())]
    if done.request.verify:
        lines.append(f"  count and checksum as in the source: {counted(done.progress.checked, 'chunk')}")
    if done.progress.waited >= 1:
        lines.append(f"  {done.progress.waited:,.1f} s went by waiting for transactions to end")
    return lines
