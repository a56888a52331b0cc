"""`firn pipelines`: the pipelines of a configuration, what their SQL makes of staged events, and their versions."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import cell, counted, print_json, print_table
from firn.errors import ConfigError, FirnError
from firn_cli.options import DEFAULT_DIR, Dir, Json

if TYPE_CHECKING:
    from firn.config.model import Config, StreamConfig
    from firn.config.pipelines import Pipeline
    from firn.log.store import Store
    from firn_lake.fresh.pipeline_trial import Sample, Trial

app = typer.Typer(name="pipelines", help="List pipelines, try their SQL, see their versions.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline, or STREAM.NAME if several streams have it.")]


@app.callback(invoke_without_command=True)
def list_pipelines(context: typer.Context, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """List the pipelines of the published configuration."""
    if context.invoked_subcommand is not None:
        return
    from firn.log import published_configs

    config = published_configs.current(find_stack(folder, running=False).store())
    found = [_described(stream, one) for stream in config.streams.values() for one in stream.pipelines]
    if as_json:
        print_json(found)
    elif not found:
        typer.echo("no stream has pipelines (docs/pipelines.md says how to write them)", err=True)
    else:
        print_table(list(found[0]), [list(one.values()) for one in found])


def _described(stream: "StreamConfig", one: "Pipeline") -> dict[str, str]:
    mode = one.rule.mode if one.rule is not None else "files"
    return {
        "stream": stream.name, "pipeline": one.name, "source": one.source,
        "target": str(one.target) if one.files is None else one.files.to, "mode": mode, "version": one.sha[:12],
    }  # fmt: skip


@app.command("try")
def try_(
    name: Name,
    sql: Annotated[Path | None, typer.Option("--sql", metavar="FILE", help="Another SQL, in place of its own.")] = None,
    last: Annotated[int, typer.Option("--last", help="How many of the newest events.", min=1, max=100_000)] = 1_000,
    limit: Annotated[int, typer.Option(help="Rows to show to people; 0 shows all. JSON has them all.", min=0)] = 10,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Run a pipeline's SQL on the newest staged events and show what it gives. Writes nothing."""
    from firn.log import published_configs
    from firn_lake.fresh.pipeline_trial import Sample, try_sql

    store = find_stack(folder, running=False).store()
    stream, current = _find(published_configs.current(store), name)
    tried = current if sql is None else _with_sql(current, stream, sql)
    sample = Sample(store, stream, tried.source, last).read()
    found = try_sql(tried, stream, sample)
    before = _before(current, tried, stream, sample)
    told = _told(tried, found) | ({"changes": _changes(before, found)} if before is not None else {})
    if as_json:
        print_json(told | {"rows": found.rows.to_pylist()})
        return
    _show(told, found, limit)


def _find(config: "Config", name: str) -> tuple["StreamConfig", "Pipeline"]:
    """Raises FirnError if there is none, or several."""
    every = [(stream, one) for stream in config.streams.values() for one in stream.pipelines]
    found = [(stream, one) for stream, one in every if name in (one.name, f"{stream.name}.{one.name}")]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"{stream.name}.{one.name}" for stream, one in found)
        raise FirnError(f"several streams have a pipeline {name!r}: write one of {names}")
    names = ", ".join(sorted(f"{stream.name}.{one.name}" for stream, one in every)[:20])
    raise FirnError(
        f"there is no pipeline {name!r}: " + (f"the configuration has {names}" if names else "there are none")
    )


def _with_sql(current: "Pipeline", stream: "StreamConfig", file: Path) -> "Pipeline":
    """The pipeline with the SQL of a file. Raises ConfigError with file, line and column."""
    from firn.config.sql_text import SqlRefused
    from firn_sql.check import check
    from firn_sql.mirrors import check_mirror, key_columns

    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} can't be read: {error}") from error
    try:
        checked = check(text)
        if current.is_mirror:
            base = stream.rule_for(current.source)
            check_mirror(checked)
            key_columns(checked, (base.key if base is not None else None) or ())
    except SqlRefused as refused:
        raise ConfigError(f"{file}:{refused.line}:{refused.column}: {refused.reason}; {refused.instead}") from refused
    rule = stream.rule_for(checked.source)
    return replace(current, sql=text, source=rule.source_of(checked.source) if rule else checked.source)


def _before(current: "Pipeline", tried: "Pipeline", stream: "StreamConfig", sample: "Sample") -> "Trial | None":
    """What the current version gives of the same events; None if that is what was tried, or it reads others."""
    from firn_lake.fresh.pipeline_trial import try_sql

    if tried.sql == current.sql or tried.source != current.source:
        return None
    return try_sql(current, stream, sample)


def _told(tried: "Pipeline", found: "Trial") -> dict[str, Any]:
    reasons: dict[str, int] = {}
    for why in (*found.rejected.values(), *found.failed.values()):
        reasons[why[:200]] = reasons.get(why[:200], 0) + 1
    return {
        "pipeline": tried.name,
        "version": tried.sha[:12],
        "events": len(found.events),
        "rows_out": found.rows.num_rows,
        "without_rows": len(found.events) - len(set(found.origin)) - len(found.rejected) - len(found.failed),
        "rejected": len(found.rejected) + len(found.failed),
        "reasons": dict(sorted(reasons.items(), key=lambda one: -one[1])[:10]),
        "columns": {column.name: str(column.type) for column in found.rows.schema},
        "unseen": list(found.unseen),
    }


def _changes(before: "Trial", after: "Trial") -> dict[str, Any]:
    """What differs from the current version."""
    old = {one.name: str(one.type) for one in before.rows.schema}
    new = {one.name: str(one.type) for one in after.rows.schema}
    rows_before, rows_after = before.of_each(), after.of_each()
    every = rows_before.keys() | rows_after.keys()
    return {
        "columns_new": [name for name in new if name not in old],
        "columns_gone": [name for name in old if name not in new],
        "columns_retyped": {
            name: f"{old[name]} -> {new[name]}" for name in new if old.get(name, new[name]) != new[name]
        },
        "rows_before": before.rows.num_rows,
        "rows_after": after.rows.num_rows,
        "events_that_differ": sum(repr(rows_before.get(one)) != repr(rows_after.get(one)) for one in every),
        "rejected_before": len(before.rejected) + len(before.failed),
    }


def _show(told: dict[str, Any], found: "Trial", limit: int) -> None:
    if not told["events"]:
        typer.echo("no event of its source is staged: send some, then try again", err=True)
        return
    print_table(["column", "type"], list(told["columns"].items()))
    rows = found.rows.slice(0, limit).to_pylist() if limit else found.rows.to_pylist()
    for row in rows:
        typer.echo(" | ".join(f"{name}={cell(value)}" for name, value in row.items())[:78])
    typer.echo(
        f"{counted(told['events'], 'event')}: {counted(told['rows_out'], 'row')}, "
        f"{told['without_rows']:,} without rows, {told['rejected']:,} rejected",
        err=True,
    )
    for why, count in told["reasons"].items():
        typer.echo(f"  {count:,} x {why}", err=True)
    if told["unseen"]:
        typer.echo(f"no event has {', '.join(told['unseen'])}: null", err=True)
    if (changes := told.get("changes")) is not None:
        typer.echo(f"against the current version: {_in_words(changes)}", err=True)


def _in_words(changes: dict[str, Any]) -> str:
    said = [f"{changes['events_that_differ']:,} events give other rows"]
    said.append(f"{changes['rows_before']:,} -> {changes['rows_after']:,} rows")
    said += [f"new columns {', '.join(changes['columns_new'])}"] if changes["columns_new"] else []
    said += [f"without {', '.join(changes['columns_gone'])}"] if changes["columns_gone"] else []
    said += [f"{name} {kinds}" for name, kinds in changes["columns_retyped"].items()]
    return "; ".join(said)


@app.command("history")
def history(name: Name, folder: Dir = DEFAULT_DIR, as_json: Json = False) -> None:
    """List the versions of a pipeline's SQL, newest first, and the epochs that ran under each."""
    from firn.log import published_configs

    store = find_stack(folder, running=False).store()
    stream, pipeline = _find(published_configs.current(store), name)
    found = _versions(store, stream.name, pipeline.name)
    if as_json:
        print_json(found)
        return
    print_table(
        ["version", "since", "epochs", "SQL"],
        [(one["version"], one["since"], one["epochs"], " ".join(one["sql"].split())[:40]) for one in found],
        grouped=False,
        prose=("SQL",),
    )


def _versions(store: "Store", stream: str, name: str) -> list[dict[str, Any]]:
    """By the configurations that sealed epochs name, and the current one."""
    from firn.log import epochs, layout, published_configs

    found: list[dict[str, Any]] = []

    def note(sha: str, n: int | None, since: str | None) -> None:
        try:
            settings = published_configs.load(store, sha).streams.get(stream)
        except ConfigError:
            settings = None
        sql = next((one for one in settings.pipelines if one.name == name), None) if settings else None
        version = sql.sha[:12] if sql is not None else None
        if not found or found[-1]["version"] != version:
            text = sql.sql if sql is not None else "(none)"
            found.append({"version": version, "since": since, "first": n, "last": n, "sql": text})
        elif n is not None:
            found[-1]["last"] = n

    for epoch in epochs.read_many(store, stream, epochs.numbers(store, stream)):
        at = layout.accepted(epoch.batches[0].id) if epoch.batches else 0
        note(epoch.config, epoch.n, datetime.fromtimestamp(at / 1000, UTC).isoformat(" ", "seconds") if at else None)
    note(published_configs.current_sha(store), None, None)
    for one in found:
        first, last = one.pop("first"), one.pop("last")
        one["epochs"] = "none yet" if first is None else f"{first} to {last}"
    return [one for one in reversed(found) if one["version"] is not None]
