"""`firn dead`: the events that could not be taken, and how they come back."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from firn.deployment.table_layout import harmless
from firn.deployment.target import find_stack
from firn.deployment.terminal import counted, notes, print_json, print_table, say
from firn.errors import FirnError
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json, Url, Wide

app = typer.Typer(name="dead", help="Dead letters: list, show, correct, replay.", no_args_is_help=True)

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", autocompletion=completion.streams)]
Batch = Annotated[str | None, typer.Option("--batch", help="Only letters of this batch.")]
Object = Annotated[str | None, typer.Option("--object", help="Only this object, as `firn dead list` names it.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Only letters with this reason.", metavar="CODE")]
Table = Annotated[str | None, typer.Option("--table", help="Only letters of this source table.")]
Since = Annotated[
    str | None, typer.Option("--since", help="Only letters received since: a date or ISO time, UTC without a zone.")
]


@app.command("list")
def list_letters(
    stream: Annotated[
        str | None,
        typer.Argument(
            metavar="STREAM", help="One stream; all of them if left out.", autocompletion=completion.streams
        ),
    ] = None,
    batch: Batch = None,
    reason: Reason = None,
    table: Table = None,
    since: Since = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that were replayed.")] = False,
    folder: Dir = DEFAULT_DIR,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """List dead letters by object, table and reason. Only those that were not replayed, unless --all."""
    from firn.ingest.replay import Choice
    from firn.status.letter_views import groups, streams

    store = find_stack(folder, running=False).store()
    choice = Choice(batch=batch, reason=reason, table=table, since=_time(since))
    found = [group for name in streams(store, stream) for group in groups(store, name, choice, replayed=everything)]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no dead letters" + ("" if everything else " wait (--all also shows replayed ones)"), err=True)
        return
    print_table(
        ["object", "received", "table", "reason", "letters", "replayed in"],
        [(g.object, g.received_at.replace(microsecond=0), g.table, g.reason, g.letters, g.replayed_in) for g in found],
        fold=("received", "replayed in", "table"),
        wide=wide,
    )
    waiting = sum(g.letters for g in found if g.replayed_in is None)
    say(f"{counted(waiting, 'letter')} to replay. Next: firn dead show {found[0].object}", err=True)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="A batch, or an object as `firn dead list` names it.")],
    index: Annotated[
        int | None, typer.Argument(metavar="INDEX", help="The event's place in its batch; all if left out.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Letters to show at most; 0 shows all.", min=0)] = 10,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Show letters: the problem, the remedy and the event."""
    from firn.status.letter_views import pretty, shown

    found = shown(find_stack(folder, running=False).store(), name, index)
    if not found:
        which = f"{name} {index}" if index is not None else name
        raise FirnError(f"there is no dead letter {which}: `firn dead list --all` names them all")
    cut = found[:limit] if limit else found
    if as_json:
        print_json(cut)
        return
    for letter in cut:
        say(f"{letter.batch} {letter.index}  ({letter.stream}, {harmless(letter.table or 'table not known')})")
        say(f"  reason    {letter.reason}: {harmless(letter.message)}", hang=12)
        say(f"  to do     {letter.advice}", hang=12)
        typer.echo(f"  received  {letter.received_at.isoformat(sep=' ')}")
        typer.echo(f"  replayed  {f'in batch {letter.replayed_in}' if letter.replayed_in else 'no'}")
        typer.echo("\n".join("  | " + harmless(line) for line in pretty(letter.original).splitlines()) + "\n")
    if len(cut) < len(found):
        typer.echo(f"{len(cut)} of {counted(len(found), 'letter')} (--limit 0 shows all)", err=True)


@app.command("count")
def count(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table that the events were for.")],
    day: Annotated[str, typer.Option("--day", help="Of this day (UTC) and before; today if left out.")] = "",
    folder: Dir = DEFAULT_DIR,
    url: Url = None,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Count the letters of a table, as its readers may. By a reader's key."""
    from firn.client import StreamClient

    path = f"/v1/tables/{quote(table, safe='')}/dead" + (f"?day={quote(day, safe='')}" if day else "")
    with StreamClient(find_stack(folder, url).url) as client:
        answer = client.request("GET", path)
    if as_json:
        print_json(answer)
        return
    rows = [(one["day"], one["reason"], one["letters"]) for one in answer["letters"]]
    if rows:
        print_table(["day", "reason", "letters"], rows, wide=wide)
    else:
        typer.echo(f"no dead letters of {table} on the days that were looked at")
    if answer["partial"]:
        typer.echo("there are more: a day has more objects of letters than are looked at", err=True)
    if answer["next"]:
        say(f"Next: firn dead count {table} --day {answer['next']}", err=True)


@app.command("export")
def export(
    stream: Stream,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write them, a line each; - for stdout.")],
    batch: Batch = None,
    name: Object = None,
    reason: Reason = None,
    table: Table = None,
    since: Since = None,
    folder: Dir = DEFAULT_DIR,
) -> None:
    """Write open letters to FILE. Correct their `original` there and replay them with `--from FILE`."""
    from firn.ingest.replay import Choice
    from firn.status.letter_views import exported

    store = find_stack(folder, running=False).store()
    choice = Choice(batch=batch, object=name, reason=reason, table=table, since=_time(since))
    lines = list(exported(store, stream, choice))
    text = "".join(line + "\n" for line in lines)
    if str(file) == "-":
        typer.echo(text, nl=False)
    else:
        # They may hold what nobody but their owner shall read.
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
    say(f"{counted(len(lines), 'letter')}. Correct `original`, then: firn dead replay {stream} --from {file}", err=True)


@app.command("replay")
def replay_letters(
    stream: Stream,
    batch: Batch = None,
    name: Object = None,
    reason: Reason = None,
    table: Table = None,
    since: Since = None,
    corrected: Annotated[
        Path | None, typer.Option("--from", help="Letters as `firn dead export` writes them, corrected; only these go.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be taken.")] = False,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Send letters through ingest again, each once. Under the current configuration and in their old place."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from firn.ingest.replay import Choice, replay
    from firn.log import published_configs
    from firn.status.letter_views import imported, summary

    store = find_stack(folder, running=False).store()
    config = published_configs.current(store)
    texts = imported(store, stream, corrected) if corrected else None
    only = frozenset(texts) if texts is not None else None
    choice = Choice(batch=batch, object=name, reason=reason, table=table, since=_time(since), only=only)
    done = []
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=notes(), transient=True, disable=as_json) as progress:
        task = progress.add_task("replaying", total=len(choice.objects(store, stream)))
        for one in replay(
            store, config, stream, choice, clock=lambda: datetime.now(UTC), corrected=texts, dry_run=dry_run
        ):
            done.append(one)
            progress.update(task, advance=1, description=one.path)
    result = summary(stream, config.sha, done, dry_run=dry_run)
    if as_json:
        print_json(result)
        return
    for line in result.lines():
        say(line)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time: write 2026-01-31T09:00", param_hint="--since") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
