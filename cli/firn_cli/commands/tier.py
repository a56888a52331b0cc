"""`firn tier TABLE`: cold files to a cheaper storage class, why, and back."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import ago, print_json, print_table, size
from firn_cli.options import DEFAULT_DIR, Dir, Json, OneTable, Wide

if TYPE_CHECKING:
    from firn.config.maintenance import Tiering
    from firn.config.storage_classes import ClassTable
    from firn_lake.tiering.lifecycle import Applied
    from firn_lake.tiering.tagging import Tiered, Warmed
    from firn_lake.tiering.views import PartitionView


def command(
    table: OneTable,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="List the partitions: what is cold, what it saves, and why; does nothing.")
    ] = False,
    warm: Annotated[
        str | None,
        typer.Option(
            "--warm", metavar="PARTITION", help="Bring a partition back into the hot class; all for the table."
        ),
    ] = None,
    folder: Dir = DEFAULT_DIR,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Move cold files of TABLE to a cheaper storage class.

    In S3 by tags and lifecycle rules, on Azure and Google at once. `care.tier` in firn.yaml says what is cold.
    """
    if sum((dry_run, explain, warm is not None)) > 1:
        raise typer.BadParameter("give one of them", param_hint="--dry-run, --explain, --warm")
    from firn.config.names import TableName
    from firn.config.storage_classes import S3, classes_of
    from firn.log.published_configs import CurrentConfig
    from firn_lake.catalogs.stack_catalog import catalog_of
    from firn_lake.tables import find_table
    from firn_lake.tiering import objects
    from firn_lake.tiering import round as tier_round
    from firn_lake.tiering import tagging as tiering
    from firn_lake.tiering import views as tier_views

    stack = find_stack(folder)
    store, now = stack.store(), datetime.now(UTC)
    found = find_table(catalog_of(stack), table)
    s3 = objects.client_for(found.location(), stack.warehouse, stack.staging)
    classes = classes_of(found.location()) or S3
    if warm is not None:
        _say_warmed(tiering.warm(found, warm, s3, store), classes, as_json=as_json)
        return
    config = CurrentConfig(store)()
    policy = config.care_of(TableName(".".join(found.name()[:-1]), found.name()[-1])).tiering
    if explain:
        views = tier_views.explain(found, policy, s3, store, now)
        if as_json:
            print_json(views)
        else:
            _show(views, policy, classes, now, wide=wide)
        return
    tiered = tiering.tier(found, policy, s3, store, now, dry_run=dry_run, force=True)
    applied = tier_round.apply_all(config, stack.warehouse, stack.staging, s3, dry_run=dry_run)
    if as_json:
        print_json({"tiered": tiered, "rules": applied})
    else:
        _say(tiered, policy, classes, applied)
    _warn(tiered, applied)


def _warn(tiered: "Tiered", applied: "list[Applied]") -> None:
    if tiered.archived:
        typer.echo(
            f"firn: {_files(tiered.archived)} of {tiered.table} lie in an archive, where no query can read them: "
            f"`firn tier {tiered.table} --warm all` brings them back, and whatever rule put them there has to go",
            err=True,
        )
    for one in applied:
        for warning in one.warnings:
            typer.echo(f"firn: {warning}", err=True)


def _say_warmed(done: "Warmed", classes: "ClassTable", *, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        typer.echo(f"{done.table}: {_files(done.files)} of {size(done.bytes)} brought back into {classes.hot}")
    if done.asked:
        typer.echo(
            f"firn: {_files(done.asked)} of these lie in an archive and are being restored, which takes hours: "
            "until then queries that need them fail. Run it again then; it says so while some are left",
            err=True,
        )


def _say(done: "Tiered", policy: "Tiering", classes: "ClassTable", applied: "list[Applied]") -> None:
    would = "would be " if done.dry_run else ""
    if not policy.on:
        typer.echo(f"{done.table}: tiering is off; write care: {{tier: {{cold_after: 90d}}}} in firn.yaml", err=True)
    verb, released = ("tagged for", f"{done.released} {would}released; ") if classes.by_rule else ("moved to", "")
    typer.echo(
        f"{done.table}: {_files(done.tagged)} of {size(done.tagged_bytes)} {would}{verb} {done.kind}, "
        f"{released}{done.cold_files} of {done.files} files ({size(done.cold_bytes)}) are cold "
        f"or on their way"
    )
    if done.refused:
        why = "gone meanwhile, or with ten tags already" if classes.by_rule else "gone meanwhile, or in use by others"
        typer.echo(f"{_files(done.refused)} could not be {verb} {done.kind}: {why}", err=True)
    for one in applied:
        if one.changed:
            typer.echo(f"{one.bucket}: lifecycle rules {would}changed: {', '.join(one.changed)}")


def _show(views: "list[PartitionView]", policy: "Tiering", classes: "ClassTable", now: datetime, *, wide: bool) -> None:
    print_table(
        [
            "partition", "files", "size", "class now", "touched", "next read", "saves $/month", "reads cost $/month",
            "once $", "break-even reads/month", "decision", "reason",
        ],
        [
            (
                one.partition,
                one.files,
                size(one.bytes),
                ", ".join(f"{kind} {count}" for kind, count in sorted(one.classes.items())),
                ago(one.touched, now) if one.touched is None or one.touched <= now else "time not ended",
                None if one.next_read_days is None else f"in {one.next_read_days:.0f} d",
                f"{one.saving:.4f}",
                f"{one.retrieval:.4f}",
                f"{one.transition + one.penalty:.4f}",
                "any" if one.break_even is None else f"{one.break_even:.2f}",
                one.decision,
                one.reason,
            )
            for one in views
        ],
        fold=(
            "break-even reads/month", "once $", "reads cost $/month", "class now", "touched", "next read", "files",
            "size",
        ),
        prose=("reason", "class now"),
        wide=wide,
    )  # fmt: skip
    typer.echo(
        f"figures are for moving all of a partition to {classes.chosen(policy.storage_class)}, by list prices of "
        f"{classes.region}, {classes.date} (docs/tiering.md)",
        err=True,
    )


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
