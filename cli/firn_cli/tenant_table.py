"""`firn status --tenants`: what each tenant used in a month, and what that costs."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from firn.deployment.terminal import print_json, print_table, say, size
from firn.log import published_configs
from firn.log.usage_layout import month_of
from firn.usage import tenant_rounds
from firn.usage.tenant_report import TenantUsage, tenant_usages

if TYPE_CHECKING:
    from firn.log.store import Store

_MONTH = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])")


def show(store: "Store", month: str | None, *, wide: bool, as_json: bool) -> None:
    """Print it. `month`: `2026-01`, None for the one that is running."""
    now = datetime.now(UTC)
    month = month or month_of(now)
    if not _MONTH.fullmatch(month):
        raise typer.BadParameter(f"{month[:40]!r} is not a month; write such as 2026-01", param_hint="--month")
    config = published_configs.find(store)
    found = [] if config is None else tenant_usages(store, config, month, now)
    if as_json:
        print_json([one.row(month) for one in found])
        return
    if config is None or not (tenant_rounds.has_tenants(config) or config.scoped is not None):
        say("no tenants: they are the writers of streams and query.readers in firn.yaml")
        return
    print_table(
        ["tenant", "sent", "requests", "vCPU s", "stored", "queries", "query s", "dollars"],
        [_cells(one) for one in found],
        fold=("queries", "requests", "vCPU s", "query s"),
        wide=wide,
    )
    say(f"{month} (UTC), by list prices (docs/deploy-aws.md); storage for a whole month")


def _cells(one: TenantUsage) -> tuple[str | int | None, ...]:
    return (
        one.tenant,
        size(one.sent.bytes),
        one.sent.batches,
        round(one.jobs.vcpu_seconds),
        None if one.stored_bytes is None else size(one.stored_bytes),
        one.queries,
        f"{one.query_seconds:,.1f}",
        f"{one.together:,.4f}",
    )
