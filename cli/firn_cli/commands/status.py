"""`firn status`: what each stream holds that is not in its tables yet, and what needs a look."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.deployment.target import find_stack, is_down
from firn.deployment.terminal import ago, counted, print_json, print_table, say, size
from firn_cli.options import DEFAULT_DIR, Dir, Json, Wide

if TYPE_CHECKING:
    from firn.log.batches import UnreadableBatch
    from firn.status.source_status import SourceState
    from firn.status.stream_status import StreamStatus
    from firn.status.view_status import ViewStatus


def command(
    folder: Dir = DEFAULT_DIR,
    hours: Annotated[float, typer.Option(help="How far back freshness is measured.", min=0.01, max=168)] = 1.0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the freshness into FILE.svg.")] = None,
    tenants: Annotated[bool, typer.Option("--tenants", help="What each writer and reader used, and its cost.")] = False,
    month: Annotated[str | None, typer.Option(metavar="YYYY-MM", help="Of --tenants; this month if left out.")] = None,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Show what each stream has staged and committed. Also its dead letters, the freshness of its tables, and notes
    on order and keys."""
    if tenants or month is not None:
        from firn_cli.tenant_table import show

        show(find_stack(folder, running=False).store(), month, wide=wide, as_json=as_json)
        return
    from firn.log import pause
    from firn.status.source_status import source_states
    from firn.status.stream_status import commits_by_stream, readable_statuses, table_debts
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.tables import list_tables

    stack = find_stack(folder, running=False)
    now = datetime.now(UTC)
    window = timedelta(hours=hours)
    found, unread = readable_statuses(stack.store(), list_tables(catalog_of(stack)), now, window)
    looked_after = table_debts(stack.store(), now)
    sources = source_states(stack.store(), now)
    if plot is not None:
        from firn_cli.plot import freshness_svg

        _write(plot, freshness_svg(commits_by_stream(stack.store(), now - window), now - window, now))
        typer.echo(f"{plot}: freshness of the last {hours:g} h", err=True)
    paused = pause.since(stack.store())
    if as_json:
        print_json([_row(one, looked_after, sources) | {"paused_since": paused} for one in found])
        _fail(unread)
        return
    if is_down(stack):
        say(f"the stack of {folder} is down: it accepts nothing and starts no job; start it with firn up")
        typer.echo("below is what its files hold\n")
    if not found and not unread:
        typer.echo("no streams: write firn.yaml (firn init)", err=True)
        raise typer.Exit
    if not stack.scheduled:
        typer.echo("deployed with Paused=true: schedules and events start no job")
    if paused is not None:
        say(f"paused since {paused:%Y-%m-%d %H:%M} UTC ({ago(paused, now)}): no job starts; firn resume goes on")
    _print_streams(found, now, wide=wide)
    _print_freshness(found, wide=wide)
    _print_views(found, now, wide=wide)
    _print_sources(sources, wide=wide)
    _print_debts(looked_after, wide=wide)
    typer.echo()
    _say_notes(sources, looked_after, found)
    _fail(unread)


def _row(
    one: "StreamStatus", looked_after: "Sequence[Mapping[str, Any]]", sources: "Sequence[SourceState]"
) -> dict[str, Any]:
    return {
        **asdict(one),
        "tables": [table for table in looked_after if one.stream in table["streams"]],
        "sources": [source.row() for source in sources if source.stream == one.stream],
    }


def _say_notes(
    sources: "Sequence[SourceState]", looked_after: "Sequence[Mapping[str, Any]]", found: "Sequence[StreamStatus]"
) -> None:
    for source in sources:
        for note in source.notes:
            say(f"source {source.source}: {note}")
    _print_others(looked_after)
    for one in found:
        for note in one.notes:
            say(f"{one.stream}: {note}")


def _fail(unread: "Mapping[str, UnreadableBatch]") -> None:
    """Say why streams are missing above, if any are, and end with an error."""
    for stream, error in unread.items():
        say(f"firn: {stream} is left out: {error}", err=True)
    if unread:
        raise typer.Exit(1)


def _write(file: Path, drawn: str) -> None:
    try:
        file.write_text(drawn, "utf-8")
    except OSError as error:
        raise typer.BadParameter(
            f"{file} can't be written: {error.strerror}; name a file in a folder that is there", param_hint="--plot"
        ) from error


def _print_streams(found: "Sequence[StreamStatus]", now: datetime, *, wide: bool) -> None:
    print_table(
        ["stream", "pending", "in batches", "sealed", "in epochs", "committed to", "when", "dead letters", "to replay"],
        [
            (
                one.stream,
                one.pending_events,
                one.pending_batches,
                one.sealed_events,
                one.sealed_epochs,
                f"epoch {one.committed_epoch}" if one.committed_epoch else None,
                ago(one.committed_at, now) if one.committed_at else None,
                one.dead_letters,
                one.dead_waiting,
            )
            for one in found
        ],
        fold=("in epochs", "in batches", "dead letters", "when"),
        wide=wide,
    )


def _print_freshness(found: "Sequence[StreamStatus]", *, wide: bool) -> None:
    """From acceptance to commit, and what waits; nothing where there is neither."""
    if any(one.freshness.commits or one.oldest_seconds is not None for one in found):
        typer.echo()
        print_table(
            ["stream", "oldest waits", "p50", "p99", "events/s", "bytes/s", "in commits"],
            [
                (
                    one.stream,
                    _seconds(one.oldest_seconds),
                    _seconds(one.freshness.p50),
                    _seconds(one.freshness.p99),
                    None if one.freshness.events_per_second is None else round(one.freshness.events_per_second),
                    None if one.freshness.bytes_per_second is None else size(round(one.freshness.bytes_per_second)),
                    one.freshness.commits,
                )
                for one in found
            ],
            fold=("bytes/s", "in commits", "events/s"),
            wide=wide,
        )
    waiting = [(one.stream, table, _seconds(age)) for one in found for table, age in one.oldest_by_table.items()]
    if waiting:
        typer.echo()
        print_table(["stream", "table", "oldest waits"], waiting)


def _print_views(found: "Sequence[StreamStatus]", now: datetime, *, wide: bool) -> None:
    """What each view is of; nothing where there is none."""
    views = [(one.stream, view) for one in found for view in one.views]
    if views:
        typer.echo()
        print_table(
            ["view", "refreshed by", "refreshed", "of cut", "behind for", "next"],
            [
                (
                    view.view,
                    stream,
                    ago(view.refreshed_at, now) if view.refreshed_at else None,
                    ", ".join(f"{name} {n}" for name, n in view.cut.items()) or None,
                    _seconds(view.behind_seconds),
                    _next(view, now),
                )
                for stream, view in views
            ],
            fold=("refreshed by", "of cut"),
            prose=("next",),
            wide=wide,
        )


def _next(view: "ViewStatus", now: datetime) -> str:
    """When a view is refreshed next, and what keeps it."""
    held = "quarantined, " if view.quarantined else "failed, " if view.tries else ""
    if view.due is None:
        return f"waits for {view.waits_for}" if view.waits_for else "at the next change"
    return held + ("now" if view.due <= now else f"{view.due:%Y-%m-%d %H:%M:%S} UTC")


def _print_sources(sources: "Sequence[SourceState]", *, wide: bool) -> None:
    """How far databases are read; nothing where none is."""
    if sources:
        typer.echo()
        print_table(
            ["source", "stream", "behind", "read to the end", "WAL kept", "slot", "oldest transaction"],
            [
                (
                    one.source,
                    one.stream,
                    size(one.status.lag) if one.status else None,
                    None if one.age is None else f"{one.age:,.0f} s ago",
                    size(one.status.kept) if one.status else None,
                    one.status.wal_status or None if one.status else None,
                    f"{one.status.oldest_seconds:,.0f} s" if one.status and one.status.oldest else None,
                )
                for one in sources
            ],
            fold=("oldest transaction", "slot", "stream", "WAL kept"),
            wide=wide,
        )


def _print_debts(tables: "Sequence[Mapping[str, Any]]", *, wide: bool) -> None:
    """How the tables are that were looked at; nothing where none was."""
    if tables:
        typer.echo()
        print_table(
            [
                "table",
                "files",
                "size",
                "small",
                "deleted rows",
                "delete files",
                "snapshots",
                "metadata",
                "cold",
                "next",
            ],
            [
                (
                    one["table"],
                    one["files"],
                    size(one["bytes"]),
                    one["small"],
                    one["deleted"],
                    one["delete_files"],
                    one["snapshots"],
                    size(one["metadata_bytes"]),
                    f"{one['cold_share']:.0%}",
                    "; ".join(f"{kind}: {why}" for kind, why in one["due"].items()) or "nothing to do",
                )
                for one in tables
            ],
            fold=("cold", "metadata", "delete files", "size", "files", "small", "deleted rows", "snapshots"),
            prose=("next",),
            wide=wide,
        )


def _print_others(tables: "Sequence[Mapping[str, Any]]") -> None:
    """Which fed tables have rows that are no change of a stream's."""
    for one in tables:
        if one["by_others"]:
            say(
                f"{one['table']}: {counted(one['by_others'], 'kept snapshot')} of others put rows into it, or took "
                f"some out: firn history {one['table']} shows them, firn audit STREAM --deep names the rows"
            )


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f} s"
