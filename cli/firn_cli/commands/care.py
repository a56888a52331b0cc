"""`firn compact TABLE`, `firn expire TABLE`, `firn remove-orphans TABLE`: the scheduled care, now and by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import print_json, print_table, size, spinner
from firn.maintenance.schedule import Kind
from firn_cli import completion
from firn_cli.options import DEFAULT_DIR, Dir, Json

Tables = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE…",
        help="namespace.table, or the table alone if one namespace has it.",
        autocompletion=completion.tables,
    ),
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at most; the job goes on.", min=1)]


def compact(
    tables: Tables,
    dry_run: Dry = False,
    whole: Annotated[
        bool, typer.Option("--all", help="Everything worth compacting, not only an hour's budget.")
    ] = False,
    timeout: Timeout = 86_400.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Merge small files of TABLE and drop deleted rows. Reads and commits do not wait for it."""
    _run("compact", tables, dry_run, ["--all"] if whole else [], timeout, folder, as_json)


def expire(
    tables: Tables,
    dry_run: Dry = False,
    timeout: Timeout = 86_400.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Expire old snapshots of TABLE and their files. `care.expire` in firn.yaml says how old."""
    _run("expire", tables, dry_run, [], timeout, folder, as_json)


def remove_orphans(
    tables: Tables,
    dry_run: Dry = False,
    timeout: Timeout = 86_400.0,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Remove old files of TABLE that no snapshot needs. Crashes and lost races leave such files."""
    _run("orphans", tables, dry_run, [], timeout, folder, as_json)


def _run(
    kind: Kind, tables: list[str], dry_run: bool, flags: list[str], timeout: float, folder: Path, as_json: bool
) -> None:
    from firn.deployment.maintenance_run import care_for
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.tables import find_table

    stack = find_stack(folder)
    with spinner(shown=not as_json) as say:
        say(f"{kind}: starting")
        flags = flags + (["--dry-run"] if dry_run else [])
        stack.expect_no_pause()
        catalog = catalog_of(stack)
        names = [".".join(find_table(catalog, table).name()) for table in tables]
        said = f"{kind} {', '.join(tables)}: job"
        done = care_for(stack, [kind], names, flags, report=lambda state: say(f"{said} {state}"), timeout=timeout)
    if as_json:
        print_json({"run": done.run, "dry_run": dry_run, "seconds": round(done.seconds, 1), "lines": done.lines})
    else:
        print_table(
            ["table", "", "what", "seconds"],
            [(one["table"], one["status"], told(one), one.get("seconds")) for one in done.lines],
            prose=("what",),
        )
        for one in done.lines:
            for path in one.get("sample", ()):
                typer.echo(path)
        if done.freed:
            verb = "would free" if dry_run else "freed"
            typer.echo(
                f"{verb} {size(done.freed)} of storage, {done.dollars:,.4f} USD a month (S3 Standard, us-east-1)"
            )
    if done.failed:
        raise typer.Exit(1)


def told(line: Mapping[str, Any]) -> str:
    """The numbers of a line in words and why snapshots stay, or why there are none."""
    if why := line.get("why") or line.get("error"):
        return str(why)
    numbers = {name: value for name, value in line.items() if isinstance(value, int) and not isinstance(value, bool)}
    shown = (f"{name.replace('_', ' ')} {size(n) if 'bytes' in name else f'{n:,}'}" for name, n in numbers.items())
    stay = ", ".join(f"{n:,} {why}" for why, n in line.get("stay", {}).items())
    return "\n".join(filter(None, (", ".join(shown) or "nothing to do", stay and f"stay: {stay}")))
