"""`firn diff TABLE FROM [TO]`: what changed in a table between two moments."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from firn.deployment.terminal import cell, print_json, print_table
from firn_cli.options import DEFAULT_DIR, Dir, Json, OneTable, lake_table

if TYPE_CHECKING:
    from firn_lake.changes.row_changes import Changes

_STYLES: Final = {"insert": "green", "update": "yellow", "delete": "red"}


def command(
    table: OneTable,
    from_: Annotated[
        str,
        typer.Argument(
            metavar="FROM", help="ISO time (UTC without a zone), ms since 1970, snapshot id, tag or branch."
        ),
    ],
    to: Annotated[str | None, typer.Argument(metavar="TO", help="The same; now if left out.")] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="Each snapshot's own changes, in place of the net ones.")
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="Only changes of these, with commas between, and the key."),
    ] = None,
    limit: Annotated[int, typer.Option(help="Changes to show to people; 0 shows all. JSON has them all.", min=0)] = 200,
    folder: Dir = DEFAULT_DIR,
    as_json: Json = False,
) -> None:
    """Show what changed in TABLE between two moments. Inserts, updates (before -> after) and deletes."""
    wanted = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    changes = lake_table(folder, table).changes(from_, to, steps=steps, columns=wanted)
    counts = dict.fromkeys(_STYLES, 0)
    found: list[dict[str, Any]] = []
    for batch in changes:
        for one in batch.column("_change").value_counts().to_pylist():
            counts[one["values"]] += one["counts"]
        if as_json or not limit:
            found += batch.to_pylist()
        elif len(found) < limit:
            found += batch.slice(0, limit - len(found)).to_pylist()
    rows = [told(row, changes.key) for row in found]
    if as_json:
        print_json(rows)
        return
    _show(rows, changes, steps)
    total = sum(counts.values())
    kinds = ", ".join(f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items() if count)
    said = f"{total:,} change{'' if total == 1 else 's'}" + (f": {kinds}" if kinds else "")
    typer.echo(said + (f"; {len(found):,} shown (--limit 0 shows all)" if len(found) < total else ""), err=True)


def told(row: dict[str, Any], key: tuple[str, ...]) -> dict[str, Any]:
    """A change as JSON has it: `before` and `after` are whole rows."""
    change, before = row.pop("_change"), row.pop("_before")
    step = {name.removeprefix("_"): row.pop(name) for name in ("_snapshot", "_committed_at") if name in row}
    keyed = {name: row[name] for name in key}
    return {"change": change, **step, "key": keyed, "before": before, "after": None if change == "delete" else row}


def _show(rows: list[dict[str, Any]], changes: "Changes", steps: bool) -> None:
    if not steps:
        rows.sort(key=lambda one: [(value is None, str(type(value)), value) for value in one["key"].values()])
    print_table(
        [*(["snapshot"] if steps else []), "change", *changes.key, "what"],
        [
            (
                *([str(one["snapshot"])] if steps else []),
                one["change"],
                *(cell(value, grouped=False) for value in one["key"].values()),
                _what(one["before"], one["after"], changes.key),
            )
            for one in rows
        ],
        grouped=False,
        styles=[_STYLES[one["change"]] for one in rows],
        prose=("what",),
    )


def _what(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, key: tuple[str, ...]) -> str:
    """The columns that say what happened: of an update those that differ, else those that hold something."""
    row = after if after is not None else before or {}
    if before is not None and after is not None:
        return "\n".join(
            f"{name}: {cell(before[name], grouped=False)} -> {cell(value, grouped=False)}"
            for name, value in row.items()
            if not _same(before[name], value)
        )
    return "\n".join(
        f"{name}: {cell(value, grouped=False)}" for name, value in row.items() if name not in key and value is not None
    )


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)  # a NaN is not itself, and no change
