"""`firn views`: the views of a configuration, and how each is kept and about what that costs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import counted, print_json, print_table, say
from firn.errors import FirnError
from firn_cli.options import DEFAULT_DIR, Dir, Json, Wide

if TYPE_CHECKING:
    from firn.config.model import Config
    from firn.config.names import TableName
    from firn.config.views import View
    from firn_lake.lake import Lake
    from firn_lake.lake_table import LakeTable
    from firn_sql.views.planner import SourceTable
    from firn_sql.views.refresh_cost import Facts

app = typer.Typer(name="views", help="List views, explain how one is kept, and make one again.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="namespace.table, or the table alone if one view has it.")]
_WHOLE: Final = "refresh: full makes all of it again each time"


@app.command("list")
def list_(folder: Dir = DEFAULT_DIR, wide: Wide = False, as_json: Json = False) -> None:
    """List the views of the published configuration."""
    from firn.log import published_configs

    config = published_configs.current(find_stack(folder, running=False).store())
    found = [
        {
            "view": str(one.table), "stream": stream.name, "refresh": "full" if one.full else "incremental",
            "every": _every(one), "reads": list(map(str, one.sources)), "version": one.sha[:12],
        }
        for stream in config.streams.values() for one in stream.views
    ]  # fmt: skip
    if as_json:
        print_json(found)
    elif not found:
        typer.echo("there are no views (docs/views.md says how to write them)", err=True)
    else:
        rows = [{**one, "reads": ", ".join(one["reads"])}.values() for one in found]
        print_table(list(found[0]), [list(one) for one in rows], prose=("reads",), fold=("version",), wide=wide)


def _every(view: "View") -> str:
    return f"{view.every}s" if view.every else "cut"


@app.command("explain")
def explain(name: Name, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """Show how each part of a view is kept, what it reads and costs.

    What it costs is an estimate. No rows are read.
    """
    from firn.log import published_configs
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.lake import Lake

    stack = find_stack(folder, running=False)
    config = published_configs.current(stack.store())
    stream, view = _find(config, name)
    lake = Lake(catalog_of(stack), stack.store)
    own = _table(lake, str(view.table))
    meant = _meant(own, view)
    reads = [_read(lake, config, one, meant.get(str(one), {})) for one in view.sources]
    told = _told(stream, view, reads, own)
    told["last"] = _last_way(own)
    if as_json:
        print_json(told)
    else:
        _show(told)


@app.command("rebuild")
def rebuild_(name: Name, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """Make all of a view again in one snapshot.

    The same as firn rebuild NAME --in-place.
    """
    from firn.log import published_configs
    from firn_cli.commands import rebuild

    _, view = _find(published_configs.current(find_stack(folder).store()), name)
    rebuild.command(str(view.table), in_place=True, folder=folder, as_json=as_json)


def _find(config: "Config", name: str) -> tuple[str, "View"]:
    """A view, and the stream that refreshes it. Raises FirnError if there is none, or several."""
    every = [(stream.name, one) for stream in config.streams.values() for one in stream.views]
    found = [one for one in every if name == str(one[1].table)]
    found = found or [one for one in every if name == one[1].table.table]
    if len(found) == 1:
        return found[0]
    if found:
        raise FirnError(
            f"several views are called {name!r}: write one of {', '.join(str(one.table) for _, one in found)}"
        )
    names = ", ".join(sorted(str(one.table) for _, one in every)[:20])
    raise FirnError(f"there is no view {name!r}: " + (f"the configuration has {names}" if names else "there are none"))


def _table(lake: "Lake", name: str) -> "LakeTable | None":
    """None if it is not there yet."""
    from firn_lake.tables import TableNotFound

    try:
        return lake.table(name)
    except TableNotFound:
        return None


@dataclass(frozen=True)
class _Read:
    """A table that a view reads, in the names that its SQL has for columns. `rows`: None where it is not there yet."""

    name: str
    known: "SourceTable"
    facts: "Facts"
    rows: int | None


def _told(stream: str, view: "View", reads: Sequence[_Read], own: "LakeTable | None") -> dict[str, Any]:
    told: dict[str, Any] = {
        "view": str(view.table), "stream": stream, "refresh": "full" if view.full else "incremental",
        "every": _every(view), "version": view.sha[:12],
        "tables": [{"table": one.name, "key": list(one.facts.key), "rows": one.rows} for one in reads],
    }  # fmt: skip
    return told | (_whole_told(view, reads) if view.full else _plan_told(view, reads, own))


def _whole_told(view: "View", reads: Sequence[_Read]) -> dict[str, Any]:
    import duckdb

    from firn.config.sql_text import SqlRefused
    from firn_sql.views.binding import check_binding, placed
    from firn_sql.views.whole import whole_plan

    known = {one.name.lower(): one.known for one in reads}
    if not any(one.open for one in known.values()):
        try:
            check_binding(str(view.table), view.sql, whole_plan(view.sql, known, duckdb.connect()), known)
        except SqlRefused as refused:
            raise FirnError(f"{view.table} can't be made: {placed(view.sql, known) or refused}") from refused
    return {"sums": False, "why_no_sums": _WHOLE, "parts": [], "costs": [], "assumed": False, "fill": None}


def _plan_told(view: "View", reads: Sequence[_Read], own: "LakeTable | None") -> dict[str, Any]:
    import duckdb

    from firn.config.sql_text import SqlRefused
    from firn_sql.views.binding import check_binding
    from firn_sql.views.fill_way import fill_way
    from firn_sql.views.planner import Undecided, plan
    from firn_sql.views.refresh_cost import CHANGED, Facts, costs, parts
    from firn_sql.views.refresh_way import way_of
    from firn_sql.views.stored import stored
    from firn_sql.views.sums import with_sums

    known = {one.name.lower(): one.known for one in reads}
    are_there = all(one.rows is not None for one in reads)
    try:
        found = plan(view.sql, known)
    except SqlRefused as refused:
        raise FirnError(f"{view.table} can't be kept by what changed: {refused}") from refused
    except Undecided:
        missing = ", ".join(one.name for one in reads if one.rows is None)
        raise FirnError(f"nothing can be said of {view.table} before there is {missing}") from None
    try:
        check_binding(str(view.table), view.sql, found, known)
    except SqlRefused as refused:
        raise FirnError(f"{view.table} can't be made: {refused}") from refused
    kinds: list[str] = []
    if are_there:
        summed, why = with_sums(found, known, duckdb.connect())
        kinds += stored(str(view.table), summed, known, duckdb.connect()).casts.values()
    else:
        summed, why = found, "its tables are not there yet, and their types are not known"
    low = {one.name.lower(): one.facts for one in reads}
    names = {one.name.lower(): one.name for one in reads}
    estimates = costs(found, low, sums=summed.sums) if are_there else []
    mine = Facts(0) if own is None else _facts(own, (), {})
    return {
        "sums": summed.sums,
        "why_no_sums": why or None,
        "parts": [
            {"depth": one.depth, "part": names.get(one.what, one.what), "kept": one.kept}
            for one in parts(found, sums=summed.sums)
        ],
        "costs": [
            {
                "changed": names[one.source],
                "reads": {names[table]: rows for table, rows in one.reads.items()},
                "by": {names[table]: list(map(list, ways)) for table, ways in one.by.items()},
                "view": one.view,
                "way": way_of(summed, low, {one.source: CHANGED}, mine, kinds).told,
            }
            for one in estimates
        ],
        "assumed": any(one.assumed for one in estimates),
        "fill": fill_way(summed, known, low, duckdb.connect()).told if are_there else None,
    }


def _meant(own: "LakeTable | None", view: "View") -> "Mapping[str, Mapping[str, int]]":
    """Which columns the view's SQL means, by what its newest refresh says."""
    from firn.views.renamed_columns import meant_columns
    from firn_lake.long_history import main_of

    return {} if own is None else meant_columns((told for _, told in main_of(own.iceberg.metadata)), view.sha)


def _last_way(own: "LakeTable | None") -> str | None:
    """How the newest refresh was made that had a choice, and why."""
    from firn_lake.long_history import main_of
    from firn_sql.views.refresh_way import WAY

    summaries = () if own is None else (told for _, told in main_of(own.iceberg.metadata))
    return next((told[WAY] for told in summaries if WAY in told), None)


def _read(lake: "Lake", config: "Config", name: "TableName", meant: Mapping[str, int]) -> _Read:
    from firn.changes.decode.iceberg_fields import column_of
    from firn.views.renamed_columns import called_in_sql
    from firn_sql.views.declared_tables import declared_tables
    from firn_sql.views.refresh_cost import Facts
    from firn_sql.views.source_tables import source_table
    from firn_sql.views.view_check import UNKNOWN

    table = _table(lake, str(name))
    if table is None:
        return _Read(str(name), declared_tables(config).get(str(name).lower(), UNKNOWN), Facts(0), None)
    fields = json.loads(table.iceberg.metadata.schema().model_dump_json())["fields"]
    called = called_in_sql(fields, meant)
    columns = [column for one in fields if (column := column_of(one)) is not None]
    in_sql = [replace(one, name=called.get(one.name, one.name)) for one in columns]
    key = tuple(called.get(one, one) for one in _key(table))
    facts = _facts(table, key, called)
    return _Read(str(name), source_table(in_sql, key), facts, facts.rows)


def _key(table: "LakeTable") -> tuple[str, ...]:
    """What tells the rows of a table apart."""
    from firn.changes.metadata_columns import IDENTITY
    from firn.config.modes import MODES

    mode = MODES.get(table.iceberg.properties.get("firn.mode", ""))
    return table.key if mode is None or mode.keyed else (IDENTITY,)


def _facts(table: "LakeTable", key: tuple[str, ...], called: Mapping[str, str]) -> "Facts":
    from firn_sql.views.refresh_cost import Facts

    metadata = table.iceberg.metadata
    names = {field.field_id: called.get(field.name, field.name) for field in metadata.schema().fields}
    counts = {}
    for blob in (blob for one in metadata.statistics for blob in one.blob_metadata):
        ndv = (blob.properties or {}).get("ndv", "")
        if len(blob.fields) == 1 and blob.fields[0] in names and ndv.isdecimal() and len(ndv) < 16:
            counts[names[blob.fields[0]]] = int(ndv)
    told = table.summary()
    return Facts(told.rows or 0, key, counts, told.size_bytes)


def _show(told: dict[str, Any]) -> None:
    from firn_sql.views.refresh_cost import ASSUMED, CHANGED

    when = "at each cut" if told["every"] == "cut" else f"every {told['every']}"
    say(f"{told['view']}: {told['refresh']}, {when}, with the stream {told['stream']}", err=True)
    if told["parts"]:
        shown = [("  " * one["depth"] + one["part"], one["kept"]) for one in told["parts"]]
        print_table(["part", "kept by"], shown, prose=("part", "kept by"))
        typer.echo()
    rows = [(one["table"], ", ".join(one["key"]) or None, one["rows"]) for one in told["tables"]]
    print_table(["table", "key", "rows"], rows)
    if told["costs"]:
        typer.echo()
        read = "about so many rows are read"
        print_table(["if these change", read], [(one["changed"], _reads(one)) for one in told["costs"]], prose=(read,))
        text = f"an estimate for {CHANGED:,} changed rows: files hold other rows too, which are read with them"
        if told["assumed"]:
            text += f"; {ASSUMED} rows of a value are assumed where care.statistics counts none"
        say(text, err=True)
    for one in told["costs"]:
        say(f"if {one['changed']} changes, {one['way']}", err=True)
    if told["fill"]:
        say(f"all of it is made {told['fill']}", err=True)
    if told["last"]:
        say(f"the last refresh: {told['last']}", err=True)
    if told["why_no_sums"]:
        say(told["why_no_sums"] if told["refresh"] == "full" else f"no sums are kept: {told['why_no_sums']}", err=True)
    if missing := [one["table"] for one in told["tables"] if one["rows"] is None]:
        say(f"not there yet: {', '.join(missing)}", err=True)


def _reads(one: dict[str, Any]) -> str:
    said = [f"{rows:,} of {table} ({_ways(one['by'][table])})" for table, rows in one["reads"].items()]
    return ", ".join([*said, f"{counted(one['view'], 'row')} of the view"])


def _ways(some: Sequence[Sequence[str]]) -> str:
    """What a table's rows are chosen by, whenever they are read."""
    return "; ".join(f"by {', '.join(one)}" if one else "all" for one in some)
