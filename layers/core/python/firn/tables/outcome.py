"""What became of one table in one job: the numbers that go to the log and into the snapshot's summary."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from firn.log.epochs import Epoch
from firn.tables import type_changes
from firn.tables.failures import Kind
from firn.tables.table_state import EPOCH, SEALED, TableState
from firn.tables.type_changes import TypeChange

COUNTS: Final = ("events", "merged", "superseded", "ignored", "dead")


@dataclass
class Outcome:
    """`events` = `merged` + `superseded` + `ignored` + `dead`. `merged` counts changes that decide a row (mirror) or
    are one (append), `superseded` those that a newer or an equal one made void, `ignored` truncates and snapshot
    reads left out by configuration. `status` is committed, skipped (all in already), empty, failed or quarantined;
    `progress` is the epoch that the table had before; `failure` is a failures.Kind. `dead_by` counts the dead letters
    by source table and reason, `dead_new` those of them that no earlier run had written. `way` says how the rows were
    found and removed (docs/adr/0010-row-delta.md), `stages` how many seconds each step took. `retyped` and `widened`
    are the columns whose values were rewritten in another type, and those that Iceberg promoted. `state`: the table
    after its commit, where the commit tells it; None: ask the catalog."""

    table: str
    sources: tuple[str, ...]
    mode: str = ""
    status: str = "committed"
    progress: int = 0
    events: int = 0
    merged: int = 0
    superseded: int = 0
    ignored: int = 0
    dead: int = 0
    seconds: float = 0.0
    snapshot_id: int | None = None
    error: str | None = None
    failure: Kind | None = None
    dead_by: dict[str, dict[str, int]] = field(default_factory=dict)
    dead_new: dict[str, dict[str, int]] = field(default_factory=dict)
    way: dict[str, str | int] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)
    retyped: tuple[TypeChange, ...] = ()
    widened: tuple[TypeChange, ...] = ()
    state: TableState | None = field(default=None, repr=False)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the seconds of its body to `stages`."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.stages[name] = round(self.stages.get(name, 0.0) + time.monotonic() - started, 3)

    def decided(self, told: int) -> None:
        """Counts the changes of a mirror table, once what is ignored and dead is known. `told`: how many keys changes
        decided. A key that changes is one change of two rows, and counts once."""
        left = self.events - self.ignored - self.dead
        self.merged = min(told, left)
        self.superseded = left - self.merged

    def summary(self, stream: str, epochs: Mapping[int, Epoch], last: int, *, counted: bool = True) -> dict[str, str]:
        """The snapshot properties: the progress, the nonce of its epoch, the counts, and which columns are wider.
        `counted`: whether its changes count for the table in any epoch (Target.back)."""
        counts = {name: str(getattr(self, name) if counted else 0) for name in COUNTS}
        said = {f"{EPOCH}{stream}": str(last), "firn.format": "1"} | {f"firn.{k}": v for k, v in counts.items()}
        said |= type_changes.summary(self.widened)  # those that were rewritten have a snapshot of their own
        return said | ({f"{SEALED}{stream}": epochs[last].nonce} if last in epochs else {})

    def line(self) -> dict[str, Any]:
        """The outcome for a JSON log line, without what does not apply."""
        return {name: value for name, value in asdict(replace(self, state=None)).items() if value not in (None, {}, ())}


def joined(parts: Sequence[Outcome]) -> Outcome:
    """Those of several parts of one range, one after the other, as one."""
    whole = parts[-1]
    for one in reversed(parts[:-1]):
        counts = {name: getattr(one, name) + getattr(whole, name) for name in COUNTS}
        stages = {name: round(one.stages.get(name, 0.0) + s, 3) for name, s in {**one.stages, **whole.stages}.items()}
        snapshot = one if whole.snapshot_id is None else whole
        whole = replace(
            whole, **counts, stages=stages, progress=one.progress, mode=whole.mode or one.mode,
            status=one.status if whole.status in ("skipped", "empty") else whole.status,
            snapshot_id=snapshot.snapshot_id, state=snapshot.state, way={**one.way, **whole.way},
            dead_by=_added(one.dead_by, whole.dead_by), dead_new=_added(one.dead_new, whole.dead_new),
            retyped=(*one.retyped, *whole.retyped), widened=(*one.widened, *whole.widened),
        )  # fmt: skip
    return replace(whole, way=whole.way | {"parts": len(parts)}) if len(parts) > 1 else whole


def _added(some: Mapping[str, Mapping[str, int]], more: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    found = {name: dict(counts) for name, counts in some.items()}
    for name, counts in more.items():
        mine = found.setdefault(name, {})
        for reason, count in counts.items():
            mine[reason] = mine.get(reason, 0) + count
    return found
