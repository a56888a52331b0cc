"""`firn shards`: how a table of several shards is split, and changing that while it is fed."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import print_json, print_table, size
from firn.errors import TerminalError
from firn_cli.options import DEFAULT_DIR, Dir, Json
from firn_cli.shard_listing import print_shards

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from firn.changes.placement.shard_map import Home, ShardMap
    from firn.config.map_document import MapVersion
    from firn.config.model import Config, StreamConfig, TableRule
    from firn.config.sharding import Sharding
    from firn.deployment.stack import Stack
    from firn.log.store import Store
    from firn.tables.shard_rebalance import Plan

app = typer.Typer(
    name="shards",
    help="The shards of tables: list, split, merge and move.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Whole = Annotated[str, typer.Argument(metavar="TABLE", help="All shards as one (shop.orders), or the rest's table.")]
Shard = Annotated[str, typer.Argument(metavar="SHARD", help="A shard by its name; firn shards list has them.")]
Where = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        metavar="NAME",
        help="One that FIRN_WAREHOUSES names, or own; where the shard lies if left out.",
    ),
]
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
    """List shards with their values, rows and sizes. By the newest map."""
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
    for one in told:
        print_shards(*one)


@app.command("split")
def split(
    table: Whole,
    shard: Shard,
    new: Annotated[str, typer.Argument(metavar="NEW", help="What the new shard is called.")],
    at: Annotated[str | None, typer.Option(help="Of range: the bound from which on values are in NEW.")] = None,
    values: Annotated[
        str | None, typer.Option(help="Of tenant and geographic: the values that are in NEW, with commas between.")
    ] = None,
    warehouse: Where = None,
    dry_run: DryRun = False,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Split SHARD: a part of its values becomes the shard NEW."""
    from firn.tables import shard_changes

    some = [one.strip() for one in values.split(",")] if values is not None else []

    def change(now: "ShardMap", of: "Sharding") -> "ShardMap":
        return shard_changes.split(now, of, shard, new, at=at, values=some, warehouse=warehouse)

    _change(table, change, f"split {shard}: {new}{_in(warehouse)}", dry_run, folder, as_json)


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
    warehouse: Where = None,
    dry_run: DryRun = False,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Move SHARD to another table. The old one stays, and no cut names it."""
    from firn.tables import shard_changes

    def change(now: "ShardMap", _: "Sharding") -> "ShardMap":
        return shard_changes.move(now, shard, to, warehouse)

    _change(table, change, f"move {shard} to {to}{_in(warehouse)}", dry_run, folder, as_json)


@app.command("rebalance")
def rebalance(
    table: Whole,
    most: Annotated[
        int | None,
        typer.Option("--rows", help="Split shards of more than so many rows; twice the mean of all if left out."),
    ] = None,
    at_once: Annotated[int | None, typer.Option("--at-once", help="Rows that may move by this, about.")] = None,
    dry_run: DryRun = False,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Split large and busy shards, merge small neighbours. Each at most once; --dry-run says what that costs."""
    from firn.log import shard_maps
    from firn.tables import shard_changes, shard_rebalance
    from firn_lake.sharded.shard_loads import ShardColumns, loads_of

    looked = _look(table, folder)
    try:
        now = looked.before.map
        others = shard_maps.of_others(looked.store, looked.config, looked.rule.to)

        def taken(home: "Home") -> str | None:
            return shard_changes.taken_by_others(looked.config, looked.before, home, others)

        loads, columns = loads_of(looked.catalog, now), ShardColumns(looked.catalog, now, taken)
        limit = shard_rebalance.MOST_AT_ONCE if at_once is None else at_once
        plan = shard_rebalance.plan(now, looked.of, loads, columns, most, limit)
    except ValueError as error:
        raise NoSuchMap(str(error)) from error
    if plan.steps:
        _put(looked, plan.map, f"rebalance: {'; '.join(plan.steps)}", dry_run, as_json, plan)
        return
    if as_json:
        told = {"table": looked.rule.to, "version": looked.before.number, "dry_run": dry_run, "moves": []}
        print_json(told | _of_plan(plan))
        return
    for line in (*plan.left, f"no shard of {looked.rule.to} counts more than {plan.most:,} rows that could be split"):
        typer.echo(line)


@app.command("undo")
def undo(table: Whole, dry_run: DryRun = False, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """Take back all changes of the map by which no row has moved."""
    from firn.log import cuts, epochs
    from firn.tables import shard_changes
    from firn.tables.shard_admission import NEW_TENANTS

    looked = _look(table, folder)
    in_use, stream = looked.in_use, looked.stream.name
    try:
        after = shard_changes.taken_back(looked.before, in_use)
        back = _versions(looked, looked.before)[1:]
        if all(one.why.startswith(NEW_TENANTS) for one in back):
            raise ValueError("what waits lists new tenants alone, and the next commit would list them again")
        waiting = epochs.numbers(looked.store, stream, after=cuts.newest(looked.store, stream))
        for epoch in epochs.read_many(looked.store, stream, waiting):
            if (number := epoch.shards.get(looked.rule.to, 1)) > in_use.number:
                raise ValueError(
                    f"epoch {epoch.n} is under version {number} of the map, and its rows move with it: wait for its "
                    f"commit (firn flush {stream}), and split, merge or move back"
                )
    except ValueError as error:
        raise NoSuchMap(str(error)) from error
    for one in back if not as_json else ():
        typer.echo(f"takes back version {one.number}: {one.why}")
    _put(looked, after, f"undo: as version {in_use.number}", dry_run, as_json)


@app.command("remove-former")
def remove_former(table: Whole, dry_run: DryRun = False, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """Remove tables that were shards and are read no more. Their files go for good."""
    from firn.changes.placement.shard_map import Home
    from firn.config.whole_tables import whole_tables
    from firn.tables.snapshot_history import NoSuchMoment
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.reading.unreadable import UnreadableFile
    from firn_lake.sharded import former_tables

    looked = _look(table, folder)
    whole = next(one for one in whole_tables(looked.config).values() if str(one.rest) == looked.rule.to)
    if not looked.catalog.table_exists(whole.rest.identifier):
        raise NoSuchMap(f"{looked.rule.to} is not there yet: no commit has made its shards")
    try:
        found = former_tables.former_tables(looked.catalog, whole, _versions(looked, looked.before))
    except (NoSuchMoment, UnreadableFile) as error:
        raise NoSuchMap(f"{error}; nothing is removed") from error
    gone, writing = [], catalog_of(looked.stack)
    for one in found if not dry_run else ():
        if one.needed:
            continue
        former_tables.mark_dropped(writing, whole, one.table)
        again = _look(table, folder)  # whoever wants it as a shard has written so before, or finds it gone
        versions = (*_versions(looked, again.before), again.in_use)
        named = {home.place for now in versions for home in now.map.homes.values()}
        if Home(one.table).place in named:
            former_tables.unmark_dropped(writing, whole, one.table)
            raise NoSuchMap(f"{one.table} has become a shard again meanwhile; it stays")
        former_tables.remove(writing, one.table)
        gone.append(one.table)
    if as_json:
        told = {"table": looked.rule.to, "dry_run": dry_run, "removed": gone}
        print_json(told | {"former": found})
        return
    if not found:
        typer.echo(f"no table that was a shard of {looked.rule.to} is left")
        return
    print_table(
        ["former shard's table", "rows", "size", "snapshots and tags that need it", ""],
        [
            (one.table, one.rows, size(one.bytes), one.needed, "stays" if one.needed else _removed(dry_run=dry_run))
            for one in found
        ],
    )


def _in(warehouse: str | None) -> str:
    return f" in {warehouse}" if warehouse else ""


def _removed(*, dry_run: bool) -> str:
    return "would be removed" if dry_run else "removed"


@dataclass(frozen=True)
class _Looked:
    """A table of several shards. `before`: the newest version of its map, `in_use`: the one that its rows are under."""

    stack: "Stack"
    config: "Config"
    store: "Store"
    catalog: "Catalog"
    stream: "StreamConfig"
    rule: "TableRule"
    of: "Sharding"
    before: "MapVersion"
    in_use: "MapVersion"


def _look(table: str, folder: "Dir") -> _Looked:
    from firn.config.map_document import MapVersion
    from firn.log import published_configs, shard_maps
    from firn.tables import shard_changes
    from firn_lake.catalogs.reading_catalog import to_read
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.shard_moves import map_of_rest

    stack = find_stack(folder, running=False)
    store = stack.store()
    config, catalog = published_configs.current(store), to_read(catalog_of(stack))
    try:
        stream, rule, of = shard_changes.find(config, table)
        number = shard_maps.newest(store, stream).get(rule.to, 1)
        known = map_of_rest(catalog, rule.to, store, stream.name)
        before = shard_maps.read(store, stream.name, rule.to, of, number)
        before = known if known is not None and known.number > before.number else before
        in_use = known if known is not None else MapVersion(of.map)
    except ValueError as error:
        raise NoSuchMap(str(error)) from error
    return _Looked(stack, config, store, catalog, stream, rule, of, before, in_use)


def _versions(looked: _Looked, newest: "MapVersion") -> list["MapVersion"]:
    """The one that the rows were under when they were looked at, and all after it: epochs that wait, or that a job is
    about to commit, may be under any of them."""
    from firn.log import shard_maps

    stream, to, between = looked.stream.name, looked.rule.to, range(looked.in_use.number + 1, newest.number)
    some = [shard_maps.read(looked.store, stream, to, looked.of, number) for number in between]
    return [looked.in_use, *some, newest]


def _change(
    table: str,
    change: "Callable[[ShardMap, Sharding], ShardMap]",
    why: str,
    dry_run: bool,
    folder: "Dir",
    as_json: bool,
) -> None:
    looked = _look(table, folder)
    try:
        after = change(looked.before.map, looked.of)
    except ValueError as error:
        raise NoSuchMap(str(error)) from error
    _put(looked, after, why, dry_run, as_json)


def _of_plan(plan: "Plan") -> dict[str, "Sequence[str] | int"]:
    return {"steps": plan.steps, "left": plan.left, "most": plan.most}


def _put(
    looked: _Looked,
    after: "ShardMap",
    why: str,
    dry_run: bool,
    as_json: bool,
    plan: "Plan | None" = None,
) -> None:
    from firn.config.warehouses import address_of
    from firn.log import layout, shard_maps
    from firn.tables import shard_changes
    from firn_lake.shard_moves import moved, not_free

    before, stream, to = looked.before, looked.stream.name, looked.rule.to
    known, wanted = ({home.warehouse for home in one.homes.values()} for one in (before.map, after))
    for name in sorted(wanted - known):
        address_of(name, looked.stack.warehouse, looked.stack.staging, {**os.environ, **looked.stack.env})
    try:
        made = before.next(after, layout.instant(datetime.now(UTC)), why)
        others = shard_maps.of_others(looked.store, looked.config, to)
        taken = shard_changes.fed_by_others(looked.config, before, after, others)
        if taken := taken or not_free(looked.catalog, before, after):
            raise ValueError(taken)
    except ValueError as error:
        raise NoSuchMap(str(error)) from error
    moves = moved(looked.catalog, looked.in_use.map, after)
    if not dry_run and not shard_maps.put(looked.store, stream, to, made):
        raise NoSuchMap(f"somebody else has made version {made.number} of the map of {to} meanwhile; look again")
    if as_json:
        told = {"table": to, "version": made.number, "dry_run": dry_run}
        print_json(told | {"moves": moves} | ({} if plan is None else _of_plan(plan)))
        return
    if plan is not None:
        for line in (*plan.steps, *(f"left as it is: {one}" for one in plan.left)):
            typer.echo(line)
    print_table(
        ["from", "to", "rows", "about", "files read", "seconds, about"],
        [(one.source, one.target, one.rows, size(one.bytes), one.files, round(one.seconds)) for one in moves],
    )
    if dry_run:
        typer.echo(f"nothing is changed; it would be version {made.number} of the map of {to}")
        return
    typer.echo(
        f"this is version {made.number} of the map of {to}: the job that commits the table's next changes brings "
        f"the rows there (firn flush {stream}, once some have come)"
    )
