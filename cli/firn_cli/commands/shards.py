"""`firn shards list|split|merge|move`: how a table of several shards is split, and changing that while it is fed."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, print_json, print_table, size
from firn.errors import TerminalError
from firn_cli.options import DEFAULT_DIR, Dir, Json

if TYPE_CHECKING:
    from firn.changes.placement.shard_map import ShardMap
    from firn.config.sharding import Sharding

app = typer.Typer(
    name="shards",
    help="The shards of tables: list, split, merge and move.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Whole = Annotated[str, typer.Argument(metavar="TABLE", help="All shards as one (shop.orders), or the rest's table.")]
Shard = Annotated[str, typer.Argument(metavar="SHARD", help="A shard by its name; firn shards list has them.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would move and what it costs; change nothing.")]


class NoSuchMap(TerminalError):
    """There is no such table or shard, or what is asked for makes no map."""


@app.command("list")
def list_shards(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="As in split; all tables of shards if left out."),
    ] = None,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """List shards with their values, rows and sizes, by the newest map."""
    from firn.log import published_configs, shard_maps
    from firn.tables import shard_changes
    from firn_lake.catalogs.reading_catalog import to_read
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.shard_moves import map_in_use, shards_of

    stack = find_stack(folder, running=False)
    store = stack.store()
    config, catalog = published_configs.current(store), to_read(catalog_of(stack))
    try:
        wanted = None if table is None else shard_changes.find(config, table)[1]
    except ValueError as error:
        raise NoSuchMap(str(error)) from error
    told = []
    for stream in config.streams.values():
        versions = shard_maps.newest(store, stream)
        for rule in stream.tables:
            if rule.shard is None or wanted not in (None, rule):
                continue
            made = shard_maps.read(store, stream.name, rule.to, rule.shard, versions.get(rule.to, 1))
            in_use = map_in_use(catalog, rule.to, store, stream.name)
            told.append((rule.to, stream.name, in_use, made, shards_of(catalog, made)))
    if as_json:
        print_json(
            [
                {"table": table, "stream": stream, "version": made.number, "in_use": in_use}
                | {"made_at": made.made_at or None, "why": made.why or "firn.yaml", "shards": shards}
                for table, stream, in_use, made, shards in told
            ]
        )
        return
    if not told:
        typer.echo("no table has shards: write shard: in firn.yaml", err=True)
        return
    now = datetime.now(UTC)
    for whole, name, in_use, made, shards in told:
        since = f", {ago(datetime.fromisoformat(made.made_at), now)}" if made.made_at else ""
        typer.echo(f"{whole} of {name}: version {made.number} of its map ({made.why or 'firn.yaml'}{since})")
        if in_use not in (None, made.number):
            typer.echo(f"its rows are under version {in_use} until its next changes are committed")
        print_table(
            ["shard", "table", "values", "rows", "files", "size"],
            [(one.shard, one.table, one.values, one.rows, one.files, size(one.bytes)) for one in shards],
            prose=("values",),
        )


@app.command("split")
def split(
    table: Whole,
    shard: Shard,
    new: Annotated[str, typer.Argument(metavar="NEW", help="What the new shard is called.")],
    at: Annotated[str | None, typer.Option(help="Of range: the bound from which on values are in NEW.")] = None,
    values: Annotated[
        str | None, typer.Option(help="Of tenant and geographic: the values that are in NEW, with commas between.")
    ] = None,
    dry_run: DryRun = False,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Split SHARD: a part of its values becomes the shard NEW."""
    from firn.tables import shard_changes

    some = [one.strip() for one in values.split(",")] if values is not None else []

    def change(now: "ShardMap", of: "Sharding") -> "ShardMap":
        return shard_changes.split(now, of, shard, new, at=at, values=some)

    _change(table, change, f"split {shard}: {new}", dry_run, folder, as_json)


@app.command("merge")
def merge(
    table: Whole,
    shards: Annotated[list[str], typer.Argument(metavar="SHARD…", help="The shards that are given up.")],
    into: Annotated[str, typer.Option("--into", metavar="SHARD", help="The shard that has their rows then.")],
    dry_run: DryRun = False,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Merge shards into one of them, or into the rest."""
    from firn.changes.placement import map_changes

    def change(now: "ShardMap", _: "Sharding") -> "ShardMap":
        return map_changes.merge(now, shards, into)

    _change(table, change, f"merge {', '.join(shards)} into {into}", dry_run, folder, as_json)


@app.command("move")
def move(
    table: Whole,
    shard: Shard,
    to: Annotated[str, typer.Argument(metavar="TO", help="Its new table, as namespace.table.")],
    dry_run: DryRun = False,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Move SHARD to another table. The old one stays, and no cut names it."""
    from firn.tables import shard_changes

    def change(now: "ShardMap", _: "Sharding") -> "ShardMap":
        return shard_changes.move(now, shard, to)

    _change(table, change, f"move {shard} to {to}", dry_run, folder, as_json)


def _change(
    table: str,
    change: "Callable[[ShardMap, Sharding], ShardMap]",
    why: str,
    dry_run: bool,
    folder: "Dir",
    as_json: bool,
) -> None:
    from firn.log import layout, published_configs, shard_maps
    from firn.tables import shard_changes
    from firn_lake.catalogs.reading_catalog import to_read
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.shard_moves import map_of_rest, moved, not_free

    stack = find_stack(folder, running=False)
    store = stack.store()
    config, catalog = published_configs.current(store), to_read(catalog_of(stack))
    try:
        stream, rule, of = shard_changes.find(config, table)
        number = shard_maps.newest(store, stream).get(rule.to, 1)
        known = map_of_rest(catalog, rule.to, store, stream.name)
        before = shard_maps.read(store, stream.name, rule.to, of, number)
        before = known if known is not None and known.number > before.number else before
        after = change(before.map, of)
        made = before.next(after, layout.instant(datetime.now(UTC)), why)
        others = shard_maps.of_others(store, config, rule.to)
        taken = shard_changes.fed_by_others(config, before, after, others) or not_free(catalog, before, after)
        if taken:
            raise ValueError(taken)
    except ValueError as error:
        raise NoSuchMap(str(error)) from error
    moves = moved(catalog, (known or before).map, after)
    if not dry_run and not shard_maps.put(store, stream.name, rule.to, made):
        raise NoSuchMap(f"somebody else has made version {made.number} of the map of {rule.to} meanwhile; look again")
    if as_json:
        told = {"table": rule.to, "version": made.number, "dry_run": dry_run}
        print_json(told | {"moves": moves})
        return
    print_table(
        ["from", "to", "rows", "about", "files read"],
        [(one.source, one.target, one.rows, size(one.bytes), one.files) for one in moves],
    )
    if dry_run:
        typer.echo(f"nothing is changed; it would be version {made.number} of the map of {rule.to}")
        return
    typer.echo(
        f"this is version {made.number} of the map of {rule.to}: the job that commits the table's next changes brings "
        f"the rows there (firn flush {stream.name}, once some have come)"
    )
