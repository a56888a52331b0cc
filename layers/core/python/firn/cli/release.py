"""`firn release STREAM [TABLE]`: end a quarantine."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from firn.cli.options import DEFAULT_DIR, Dir
from firn.cli.stack import find_stack
from firn.errors import FirnError

if TYPE_CHECKING:
    from firn.staging.quarantine import How
    from firn.staging.store import Store


class NotReleased(FirnError):
    """Nothing was changed."""


def command(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream; alone: its own quarantine.")],
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="A target table, as firn status names it.")
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="The table gets all epochs that it lacks.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="The table never gets the epochs it was held for.")] = False,
    epoch: Annotated[int | None, typer.Option(help="A quarantined epoch, instead of a table.", min=1)] = None,
    folder: Dir = DEFAULT_DIR,
) -> None:
    """Let a quarantined table, epoch or stream go on. The next dispatch, or firn flush, does the rest."""
    if (replay and skip) or (epoch is not None and (table or replay or skip)) or ((replay or skip) and not table):
        raise typer.BadParameter("write STREAM TABLE with --replay or --skip or neither, STREAM --epoch N, or STREAM")
    how: How = "replay" if replay else "skip" if skip else "retry"
    said = release(find_stack(folder, running=False).store(), stream, table, epoch, how, datetime.now(UTC))
    typer.echo(f"{said}; firn flush {stream} does it now, else the next dispatch")


def release(store: "Store", stream: str, table: str | None, epoch: int | None, how: "How", now: datetime) -> str:
    """Lifts a quarantine. `how` matters for tables. -> what happens next, for people.

    Raises NotReleased if there is nothing to lift or a rolled-back table is not told how, StorageUnavailable,
    UnknownOutcome.
    """
    from firn.staging import layout, quarantine

    known = quarantine.read_all(store, stream)
    # Whatever generation the stream has by now: its quarantine can be lifted as long as nobody has.
    held = known.all_held(0)
    name = table or (f"epoch {epoch}" if epoch is not None else "stream")
    found = held.get(name)
    if found is None:
        there = ", ".join(held) or "nothing"
        raise NotReleased(f"{name} of stream {stream} is not quarantined; {there} is (firn status says why)")
    if found.reason == "rolled_back" and how == "retry":
        raise NotReleased(f"{found.message}: say --replay or --skip; {found.advice}")
    quarantine.lift(store, found, how, layout.instant(now))
    if found.table is None:
        return f"released {name}: " + ("its batches are sealed again" if epoch else "its epochs are committed")
    if how == "skip":
        return f"released {name}: epochs {found.epoch} to {found.upto} stay out of it, on purpose"
    return f"released {name}: it gets what it lacks from epoch {found.epoch} on"
