"""What of a table's care is due, told by its health alone (log/table_health.py): pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec.structs import replace

from firn.config.maintenance import Care
from firn.config.names import owner
from firn.log import layout
from firn.log.table_health import Health, age_seconds
from firn.maintenance import health as measured

Kind = Literal["compact", "expire", "orphans", "statistics"]
KINDS: Final[tuple[Kind, ...]] = ("compact", "expire", "orphans", "statistics")

# Snapshots are let go of in portions: each time writes the metadata again, and reads the manifests of those that go.
PORTION: Final = 16
# What was tried in vain is tried again so much later: something else holds it, such as a stream that has stopped.
_PATIENCE: Final = timedelta(hours=6)
# Orphans come of crashes and lost races: few, and never in a hurry.
ORPHANS_EVERY: Final = timedelta(days=7)


def due(health: Health, care: Care, now: datetime) -> dict[Kind, str]:
    """What is to be done with the table, with the reason as people read it. Empty: nothing."""
    said: dict[Kind, str] = {"compact": _compact(health, care, now), "expire": _expire(health, care, now)}
    said |= {"orphans": _orphans(health, now), "statistics": _statistics(health, care, now)}
    return {kind: said[kind] for kind in KINDS if said[kind]}


def noted(known: Health | None, table: str, kind: Kind, done: int | None, now: datetime) -> Health:
    """The health of `table` after `kind` was done; `done`: bytes that compaction wrote again (of manifests too),
    snapshots that expired, None if the table does not allow it, so that it is tried again only when its time has come.
    """
    at = layout.instant(now)
    before = known or Health(table, at)
    if kind == "expire":
        return replace(before, expired_at=None if done else at)
    if kind == "orphans":
        return replace(before, orphans_at=at, **({} if done is None else {"orphans": 0, "orphan_bytes": 0}))
    if kind == "statistics":
        return replace(before, statistics_at=at)
    return measured.compacted(before, now, done or 0)


def _compact(health: Health, care: Care, now: datetime) -> str:
    nothing = health.rewrite_bytes <= 0 and health.rewrite_manifests <= 0
    if not care.compaction.on or nothing or measured.left(health, care.compaction, now) <= 0:
        return ""
    if measured.in_vain(health, now):
        return ""
    said = [_files(health)] if health.rewrite_bytes > 0 else []
    said += [f"{health.rewrite_manifests:,} manifests to rewrite"] if health.rewrite_manifests > 0 else []
    return "; ".join(said)


def _files(health: Health) -> str:
    parts = [f"{health.small:,} small files"] if health.small else []
    parts += [f"{health.deleted:,} deleted rows in {health.delete_files:,} delete files"] if health.delete_files else []
    return f"{health.rewrite_bytes / 1e6:,.1f} MB to rewrite: {', '.join(parts) or 'files of odd sizes'}"


def _expire(health: Health, care: Care, now: datetime) -> str:
    policy = care.expiry
    if age_seconds(health.expired_at, now) < _PATIENCE.total_seconds():
        return ""
    if health.snapshots >= policy.at_most + PORTION:
        return f"{health.snapshots:,} snapshots, at most {policy.at_most:,} are kept"
    old = health.oldest is not None and age_seconds(health.oldest, now) > policy.keep_seconds
    if old and health.snapshots >= policy.at_least + PORTION:
        return f"the oldest of {health.snapshots:,} snapshots is of {health.oldest}"
    return ""


def _orphans(health: Health, now: datetime) -> str:
    if age_seconds(health.orphans_at, now) < ORPHANS_EVERY.total_seconds():
        return ""
    if health.orphans_at is None:
        return "never looked for"
    # No commit since: no new orphans either.
    return f"last looked for at {health.orphans_at}" if health.measured_at > health.orphans_at else ""


def _statistics(health: Health, care: Care, now: datetime) -> str:
    policy = care.statistics
    # What remembers a table's deletes has other columns, and nobody joins it.
    if not policy.on or owner(health.table) != health.table:
        return ""
    if health.statistics_at is None:
        return "never computed"
    if age_seconds(health.statistics_at, now) < policy.every_seconds or health.measured_at <= health.statistics_at:
        return ""
    return f"last computed at {health.statistics_at}"


def tables_due(
    tables: Mapping[str, Health], care: Mapping[str, Care], kinds: tuple[Kind, ...], now: datetime
) -> dict[str, dict[Kind, str]]:
    """Table -> what of `kinds` is due, for those of which anything is. One without a policy is nobody's to touch."""
    found: dict[str, dict[Kind, str]] = {}
    for name, health in sorted(tables.items()):
        if name in care:
            wanted = {kind: why for kind, why in due(health, care[name], now).items() if kind in kinds}
            if wanted:
                found[name] = wanted
    return found
