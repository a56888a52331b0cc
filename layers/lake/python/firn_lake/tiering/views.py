"""What tiering would do to a table, and why: `firn tier TABLE --explain`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from firn.config.maintenance import Tiering
from firn.config.storage_classes import SMALLEST_BYTES, ClassTable
from firn.log import tiering_state
from firn.log.store import Store
from firn.maintenance.storage_prices import economics
from firn.maintenance.tiering import Decision
from firn_lake.tiering.storages import open_classes
from firn_lake.tiering.tagging import ALL, look, name_of, waiting

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class PartitionView:
    """A partition as `firn tier --explain` shows it. Dollars a month; `classes`: files by class, `cold`: files that are
    cold, `on_their_way`: of those, tagged or to be tagged; `next_read_days` None: nobody is expected, or nobody counts;
    `break_even`: full reads a month at which nothing is saved, None: no number of them makes it dearer."""

    partition: str
    files: int
    bytes: int
    classes: Mapping[str, int] = field(default_factory=dict)
    cold: int = 0
    on_their_way: int = 0
    touched: datetime | None = None
    next_read_days: float | None = None
    reads_a_month: float = 0.0
    saving: float = 0.0
    retrieval: float = 0.0
    transition: float = 0.0
    penalty: float = 0.0
    break_even: float | None = None
    decision: str = ""
    reason: str = ""


def explain(table: "Table", policy: Tiering, s3: Any, store: Store, now: datetime) -> list[PartitionView]:
    """What would be done, and why: a row a partition, by its name. Changes nothing. Raises as `tier`."""
    name = name_of(table)
    known = tiering_state.read(store, str(name), name.slug)
    classes = open_classes(table.location(), s3)
    found, decisions, state = look(table, policy, classes, store, known, now)
    of: dict[str, list[Decision]] = {}
    for one in decisions:
        of.setdefault(one.partition, []).append(one)
    on_their_way = waiting(found, known, classes)
    counted = state.recorded_since is not None
    return [
        _view(partition, ones, policy, classes.table, on_their_way, counted) for partition, ones in sorted(of.items())
    ]


def _view(
    partition: str,
    decisions: Sequence[Decision],
    policy: Tiering,
    classes: ClassTable,
    on_their_way: frozenset[str],
    counted: bool,
) -> PartitionView:
    files = [file for one in decisions for file in one.files]
    large = [file for file in files if file.size > SMALLEST_BYTES]
    cold = [file for one in decisions if one.cold for file in one.files]
    moving = {file.path for one in decisions for file in one.move} | {f.path for f in cold if f.path in on_their_way}
    soonest = max(decisions, key=lambda one: one.forecast.reads_a_month)
    ahead = soonest.forecast
    money = economics(
        len(large), sum(file.size for file in large), classes.chosen(policy.storage_class), table=classes,
        next_access_days=ahead.next_days, reads_a_month=ahead.reads_a_month,
    )  # fmt: skip
    latest = max(decisions, key=lambda one: one.touched)
    partly = f"{len(cold)} of {len(files)} files cold" if 0 < len(cold) < len(files) else None
    return PartitionView(
        partition or ALL,
        len(files),
        sum(file.size for file in files),
        dict(Counter(file.kind for file in files)),
        len(cold),
        len(moving),
        latest.touched,
        ahead.next_days if counted else None,
        ahead.reads_a_month if counted else 0.0,
        money.saving,
        money.retrieval,
        money.transition,
        money.penalty,
        money.break_even,
        partly or ("cold" if cold else "hot"),
        latest.reason,
    )
