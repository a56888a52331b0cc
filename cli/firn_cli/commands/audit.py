"""`firn audit STREAM`: whether every acknowledged event is accounted for."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import counted, notes, print_json, print_table
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from rich.progress import Progress

    from firn.audit.ledger import History, Tick
    from firn.audit.ledger_view import Difference
    from firn.audit.row_check import RowAccount
    from firn.audit.verdict import Audit
    from firn.config.model import StreamConfig
    from firn.log.store import Store
    from firn_lake.audit.row_audit import Depth

_SHOWN = 5  # batches of one difference; --json has them all


def command(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", autocompletion=completion.streams)],
    log_days: Annotated[
        int, typer.Option(help="For how many days committed batches stay in staged/: one that is younger is missed.")
    ] = 14,
    dead_letter_days: Annotated[int, typer.Option(help="The same for dead letters (DeadLetterDays).")] = 90,
    counts: Annotated[bool, typer.Option("--counts", help="Only add up: read no row.")] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare all values of the rows with what the log gives.")
    ] = False,
    sample: Annotated[
        str | None,
        typer.Option(help="With --deep: so many rows of each table (1000), such a share (5%), or all."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="With --deep: which rows a sample takes.", min=0)] = None,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Account for every acknowledged event. Counts log and tables and looks for the row of each event. Exit code 1:
    something differs."""
    from firn.audit.ledger import read
    from firn.audit.ledger_view import Keeping
    from firn.audit.verdict import audit
    from firn_lake.audit.row_audit import audit_rows
    from firn_lake.audit.table_histories import histories_of, loaded
    from firn_lake.catalogs.stack_catalog import catalog_of

    if (sample is not None or seed is not None) and not deep:
        raise typer.BadParameter("they go with --deep", param_hint="--sample, --seed")
    if counts and deep:
        raise typer.BadParameter("give one of --counts, --deep")
    depth = _depth(sample, seed, deep=deep)
    stack = find_stack(folder, running=False)
    store = stack.store()
    _expect_stream(store, stream)
    catalog = catalog_of(stack)
    keeping = Keeping(timedelta(days=log_days), timedelta(days=dead_letter_days))
    tables: dict[str, Table] = {}

    def look(names: Iterable[str]) -> dict[str, "History"]:
        tables.update(loaded(catalog, names))
        return histories_of(stream, tables)

    with _progress(shown=not as_json) as bars:
        tick = _ticking(bars)
        ledger = read(store, stream, look, tick)
        now = datetime.now(UTC)
        found = _with_files(audit(ledger, now, keeping), store, tables)
        if not counts:
            current = _current(store, stream)
            found.take(audit_rows(store, catalog, ledger, tables, now, keeping, depth, current, tick))
    if as_json:
        sampled = {"seed": depth.seed} if deep else {}
        print_json({"balanced": found.balanced, **sampled, **asdict(found)})
    else:
        _show(found)
        _show_rows(found.rows, depth)
        _show_differences(found)
    if not found.balanced:
        raise typer.Exit(1)


def _with_files(found: "Audit", store: "Store", tables: "dict[str, Table]") -> "Audit":
    """The same with the stream's pipelines into files, and with tables whose files of deletes are wrong."""
    from firn.audit.sink_account import accounts
    from firn_lake.audit.vector_check import vector_differences

    found.files, wrong = accounts(store, found.stream)
    found.differences += [*wrong, *vector_differences(tables)]
    return found


def _current(store: "Store", stream: str) -> "StreamConfig | None":
    """The stream as it is configured now; None if it is not."""
    from firn.log import published_configs

    config = published_configs.find(store)
    return config.streams.get(stream) if config else None


def _depth(sample: str | None, seed: int | None, *, deep: bool) -> "Depth":
    from firn_lake.audit.row_audit import Depth

    number = secrets.randbelow(2**32) if seed is None else seed
    if sample is None:
        return Depth(deep, seed=number)
    if sample == "all":
        return Depth(deep, share=1.0, seed=number)
    text = sample.removesuffix("%")
    try:
        amount = float(text) / 100 if text != sample else int(text)
    except ValueError:
        amount = 0
    if not 0 < amount < float("inf") or (text != sample and amount > 1):
        raise typer.BadParameter(f"{sample!r} is not a sample: write a number of rows (1000), a share (5%), or all")
    return Depth(deep, share=amount, seed=number) if text != sample else Depth(deep, rows=int(amount), seed=number)


def _expect_stream(store: "Store", stream: str) -> None:
    """A stream that is neither configured nor in the log is a wrong command line."""
    from firn.log import epochs, layout, published_configs

    config = published_configs.find(store)  # where none is published the log alone tells
    known = sorted(config.streams) if config else []
    there = layout.is_stream_name(stream) and (stream in known or bool(epochs.numbers(store, stream)))
    if not there:
        raise typer.BadParameter(f"there is no stream {stream!r}; there are: {', '.join(known) or 'none'}")


def _progress(*, shown: bool) -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:<14}", markup=False), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=notes(), transient=True, disable=not shown)


def _ticking(bars: "Progress") -> "Tick":
    tasks = {}

    def tick(what: str, done: int, of: int) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what)
        bars.update(tasks[what], completed=done, total=of)

    return tick


def _show(found: "Audit") -> None:
    columns = ["table", "epoch", "events", "merged", "superseded", "ignored", "dead", "pending"]
    uncounted = bool(found.uncounted)
    rows = [
        [
            one.table, one.progress, one.events, one.merged, one.superseded - one.again, one.ignored + one.skipped,
            one.dead, one.pending, *([one.uncounted] if uncounted else []), one.state,
        ]
        for one in found.tables
    ]  # fmt: skip
    rows.append(_outside(found, uncounted))
    rows.append(
        [
            "all", None, found.acked, found.merged, found.superseded, sum(found.ignored.values()), found.dead,
            found.pending, *([found.uncounted] if uncounted else []), "balanced" if found.balanced else "DIFFERS",
        ]
    )  # fmt: skip
    print_table([*columns, *(["uncounted"] if uncounted else []), "state"], rows)
    if found.files:
        names = ["pipeline", "epoch", "events", "rows", "files", "dead", "pending"]
        print_table(names, [[getattr(one, name) for name in names] for one in found.files])
    ignored = "".join(f", {reason} {count:,}" for reason, count in found.ignored.items())
    events, batches = counted(found.acked, "event"), counted(found.batches, "batch", "batches")
    typer.echo(f"{found.stream}: {events} of {batches}, in {counted(found.epochs, 'epoch')}")
    typer.echo(f"ignored: {ignored[2:] or 'none'}")
    typer.echo(f"pending: {found.staged:,} in no epoch yet, {found.quarantined:,} quarantined")
    typer.echo(f"dead: {found.replayed:,} were replayed, in batches of their own")
    for note in found.notes:
        typer.echo(f"note: {note}")


def _show_rows(rows: "Sequence[RowAccount]", depth: "Depth") -> None:
    """The tables row by row."""
    from firn.audit.row_check import UNTOLD

    if not rows:
        return
    names = ["expected", "found", "missing", "surplus", *(["differs"] if depth.deep else [])]
    print_table(
        ["table", *names, "not told", "rows"],
        [
            [
                one.table,
                *(getattr(one, name) if one.mode else "-" for name in names),
                sum(one.untold.values()) if one.mode else "-",
                "WRONG" if not one.right else "ok" if one.mode else "not judged",
            ]
            for one in rows
        ],
    )
    if depth.deep:
        shares = ", ".join(f"{one.table} {one.share:.2%}" for one in rows if one.share < 1)
        typer.echo(f"all values compared, of all rows{f' but {shares}' if shares else ''}; --seed {depth.seed}")
    for one in rows:
        if told := ", ".join(f"{count:,} {UNTOLD[reason]}" for reason, count in sorted(one.untold.items()) if count):
            typer.echo(f"not told of {one.table}: {told}")


def _show_differences(found: "Audit") -> None:
    for one in found.differences:
        _show_difference(one)
    if found.difference:
        what = "not accounted for" if found.difference > 0 else "more than were acknowledged"
        typer.echo(f"\n{counted(abs(found.difference), 'event')} {what}")


def _outside(found: "Audit", uncounted: bool) -> list[object]:
    """What belongs to no table: dead and ignored at ingest, no rule takes it, in no epoch yet."""
    known = found.tables
    ignored = sum(found.ignored.values()) - sum(one.ignored + one.skipped for one in known)
    dead = found.dead - sum(one.dead for one in known)
    pending = found.pending - sum(one.pending for one in known)
    return [
        "(no table)", None, ignored + dead + pending, 0, 0, ignored, dead, pending, *([0] if uncounted else []), "",
    ]  # fmt: skip


def _show_difference(one: "Difference") -> None:
    typer.echo(f"\nDIFFERENCE {one.code}: {one.message}")
    for name, values in (("batches", one.batches), ("epochs", one.epochs), ("objects", one.objects)):
        if values:
            more = f" and {len(values) - _SHOWN:,} more (--json)" if len(values) > _SHOWN else ""
            typer.echo(f"  {name:<8}{', '.join(map(str, values[:_SHOWN]))}{more}")
    for row in one.rows[:_SHOWN]:
        typer.echo(f"  row     {row}")
    typer.echo(f"  to do   {one.advice}")
