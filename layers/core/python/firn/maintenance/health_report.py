"""A table's health as people read it: each number with its threshold, and what will be done about it. Pure."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from firn.config.maintenance import Care
from firn.log import layout
from firn.log.table_health import Health
from firn.maintenance import health as measured
from firn.maintenance.compaction_planner import DELETED, ENOUGH
from firn.maintenance.schedule import ORPHANS_EVERY, PORTION, Kind, due

# The schedules of template.yaml (Compact, Expire).
ROUNDS: Final[dict[str, str]] = {
    "compact": "within 15 min", "expire": "within an hour", "orphans": "within an hour", "statistics": "within an hour",
}  # fmt: skip


@dataclass(frozen=True)
class Debt:
    """One number: what it is of, its value, its threshold, whether that is passed, and when what is done about it."""

    what: str
    value: int
    limit: str
    over: bool
    next: str


def debts(health: Health, care: Care, now: datetime) -> list[Debt]:
    """All numbers of a table that have a threshold."""
    wanted = due(health, care, now)
    expiry = care.expiry
    compact = _next("compact", wanted, "compacts")
    if "compact" not in wanted and (health.rewrite_bytes or health.rewrite_manifests):
        compact = "when the hour's budget is new" if measured.spent(health, now) else "tried in vain, again in an hour"
    if not care.compaction.on:
        compact = "never: compact is off"
    keeps = f"younger than {expiry.keep_seconds / 86_400:g} d, at most {expiry.at_most:,}"
    now_due = "compact" in wanted
    return [
        Debt("bytes to rewrite", health.rewrite_bytes, "0", health.rewrite_bytes > 0, compact),
        Debt("small files", health.small, f"{ENOUGH} of a partition", now_due and health.small > 0, compact),
        Debt("deleted rows", health.deleted, f"{DELETED:.0%} of a file", now_due and health.deleted > 0, compact),
        Debt("manifests to rewrite", health.rewrite_manifests, "0", health.rewrite_manifests > 0, compact),
        Debt(
            "snapshots", health.snapshots, f"{keeps} (+{PORTION})", "expire" in wanted,
            _next("expire", wanted, "expires"),
        ),
        Debt("orphans", health.orphans or 0, "0", bool(health.orphans), _orphans(health, wanted)),
    ]  # fmt: skip


def report(health: Health, care: Care, now: datetime) -> dict[str, Any]:
    """What GET /v1/tables/{table}/health answers."""
    found: dict[str, Any] = msgspec.structs.asdict(health)
    found["partitions"] = [msgspec.structs.asdict(one) for one in health.partitions]
    share = round(health.cold_bytes / health.bytes, 4) if health.bytes else 0.0
    return found | {
        "cold_share": share,
        "due": due(health, care, now),
        "debts": [asdict(one) for one in debts(health, care, now)],
    }


def _next(kind: Kind, wanted: dict[Kind, str], verb: str) -> str:
    return f"{verb} {ROUNDS[kind]}" if kind in wanted else "nothing to do"


def _orphans(health: Health, wanted: dict[Kind, str]) -> str:
    if "orphans" in wanted:
        return f"looks {ROUNDS['orphans']}"
    if health.orphans_at is None:
        return "nothing to do"
    then = datetime.fromisoformat(health.orphans_at) + ORPHANS_EVERY
    return f"looks after {layout.instant(then)[:16].replace('T', ' ')}"
