"""Which snapshots of a table may go. Pure: firn_spark.maintenance.expiry reads them and lets them go.

What a table's snapshots tell is read from the summaries of a snapshot and its ancestors: how far each stream has come,
which rebuild the table is, how often it was altered, what its facts hold. A missing parent ends the ancestry. So what
stays of a branch is one run from its newest snapshot back, and it ends at a snapshot that tells by itself all that it
and its ancestors told (`told`): then nobody sees a difference, from whichever snapshot that stays he looks, after a
rollback too.

A commit of the only stream of a table tells all by itself. Where several streams feed a table, or where it was rebuilt
in place, none does, and expiry first adds a snapshot of nothing that does (`Plan.carry`).
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from firn.config.maintenance import FEWEST_SNAPSHOTS, Expiry
from firn.tables.shard_names import SHARDS_AT, SHARDS_MAP, SHARDS_VERSION
from firn.tables.table_state import CREATES, EPOCH, NEWEST, REBUILD, SCHEMA, SEALED, TRUNCATED, epoch_of
from firn.views.cut import OF_VIEW

MAIN: Final = "main"
REBUILDING: Final = "rebuild-"  # the branch of a rebuild in place that goes on, or may go on (firn_spark.branch)
# Fewer than these, or than a tenth of what stays, are not worth a commit and a look at each manifest list that stays.
LEAST: Final = 16
_MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"


@dataclass(frozen=True)
class Snapshot:
    """One snapshot in a table's metadata. `ms`: when it was made, since 1970."""

    id: int
    parent: int | None
    ms: int
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ref:
    """A branch or a tag, with what its own settings say of expiry (ms, None: nothing)."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots: int | None = None


@dataclass(frozen=True)
class Snapshots:
    """What a table's metadata says of its snapshots. `refs` holds main, if the table has any snapshot on it."""

    all: Mapping[int, Snapshot]
    refs: tuple[Ref, ...]

    def chain(self, newest: int | None) -> Iterator[Snapshot]:
        """A snapshot and its ancestors as far as they are there, newest first."""
        while newest is not None and (one := self.all.get(newest)) is not None:
            yield one
            newest = one.parent


@dataclass(frozen=True)
class Plan:
    """What expiry would do.

    expired  snapshots that may go, oldest first
    kept     why each of the others stays
    refs     refs whose own age is over; Iceberg removes them with the first expiry
    carry    what a snapshot of nothing has to say first, so that more may go the next times; {}: nothing
    plain    all snapshots are on main, and what stays are its newest: Iceberg's cheaper clean-up will do
    refused  why nothing can be decided here; "" if it can
    """

    expired: tuple[int, ...] = ()
    kept: Mapping[int, str] = field(default_factory=dict)
    refs: tuple[str, ...] = ()
    carry: Mapping[str, str] = field(default_factory=dict)
    plain: bool = True
    refused: str = ""

    @property
    def worth(self) -> bool:
        """Whether so many may go that it is worth a commit between epochs."""
        return len(self.expired) >= least(len(self.kept))


def least(kept: int) -> int:
    """How many have to be ready to go beside so many that stay, so that a busy job lets them go."""
    return max(LEAST, kept // 10)


def read(metadata: str) -> Snapshots:
    """The snapshots and refs in table metadata JSON (Iceberg spec, appendix C: format v1 to v3)."""
    table = json.loads(metadata)
    found = {
        one["snapshot-id"]: Snapshot(
            one["snapshot-id"], one.get("parent-snapshot-id"), one["timestamp-ms"], one.get("summary") or {}
        )
        for one in table.get("snapshots") or ()
    }
    age = (table.get("properties") or {}).get(_MAX_REF_AGE)
    refs = [_ref(name, one, None if age is None else int(age)) for name, one in (table.get("refs") or {}).items()]
    current = table.get("current-snapshot-id")
    if current in found and not any(ref.name == MAIN for ref in refs):
        refs.append(Ref(MAIN, "branch", current))
    return Snapshots(found, tuple(refs))


def _ref(name: str, one: Mapping[str, Any], max_ref_age_ms: int | None) -> Ref:
    return Ref(
        name,
        "tag" if one["type"] == "tag" else "branch",
        one["snapshot-id"],
        None if name == MAIN else one.get("max-ref-age-ms", max_ref_age_ms),
        one.get("max-snapshot-age-ms"),
        one.get("min-snapshots-to-keep"),
    )


def told(oldest_first: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """All that the summaries of a snapshot and its ancestors tell, as the summary of one snapshot would tell it."""
    found: dict[str, str] = {}
    for summary in oldest_first:
        _hear(found, summary)
    return found


def _hear(found: dict[str, str], summary: Mapping[str, str]) -> None:
    """`found`, of the ancestors, with what a newer snapshot says: as TableState and firn_spark's memory do."""
    for name, value in summary.items():
        if name.startswith(EPOCH):
            if int(value) < int(found.get(name, 0)):
                continue  # a twin that landed after its successor
            found[name] = value
            sealed = SEALED + name.removeprefix(EPOCH)
            if sealed in summary:
                found[sealed] = summary[sealed]
            else:
                found.pop(sealed, None)
        elif name in (REBUILD, SCHEMA):
            found[name] = str(max(int(value), int(found.get(name, 0))))
        elif name in (NEWEST, TRUNCATED):
            found[name] = max(value, found.get(name, ""))
        elif name == CREATES or newest_counts(name):
            found[name] = value


def newest_counts(name: str) -> bool:
    """Whether of what summaries say under a name that of the newest snapshot alone counts: a later one that says what
    was before would take it back."""
    return name in (SHARDS_AT, SHARDS_MAP, SHARDS_VERSION) or name.startswith(OF_VIEW)


def plan(
    snapshots: Snapshots,
    expiry: Expiry,
    now_ms: int,
    *,
    must_stay: Collection[int] = (),
    counted: Mapping[str, int] | None = None,
) -> Plan:
    """What may go.

    must_stay  ids of snapshots that stay whatever their age: those that the newest cut of each stream names, and those
               that facts name
    counted    stream -> the last epoch whose changes a cut has counted (cut_coverage.py): younger snapshots of that
               stream are still to be counted, and stay
    """
    return _Plan(snapshots, expiry, now_ms, must_stay, counted or {}).made()


class _Plan:
    def __init__(
        self,
        snapshots: Snapshots,
        expiry: Expiry,
        now_ms: int,
        must_stay: Collection[int],
        counted: Mapping[str, int],
    ) -> None:
        self._snapshots = snapshots
        self._expiry = expiry
        self._now = now_ms
        self._must_stay = must_stay
        self._counted = counted
        self._kept: dict[int, str] = {}
        self._tells: dict[int, bool] = {}
        self._heard: dict[int, dict[str, str]] = {}
        self._young = now_ms - expiry.keep_seconds * 1_000

    def made(self) -> Plan:
        snapshots = self._snapshots
        gone = [ref for ref in snapshots.refs if self._is_over(ref)]
        refs = [ref for ref in snapshots.refs if ref not in gone]
        main = next((ref for ref in refs if ref.name == MAIN), None)
        if refused := _refused(main, gone):
            return Plan(kept=dict.fromkeys(snapshots.all, refused), refused=refused)
        self._listen()
        carry: Mapping[str, str] = {}
        if main is not None:
            carry = self._main(list(snapshots.chain(main.snapshot)))
        for ref in refs:
            if ref.name != MAIN:
                self._ref(ref)
        for named in self._must_stay:
            self._with_what_tells(named, "a cut or a fact names it")
        reached = {one.id for ref in refs for one in _reached(snapshots, ref)}
        for one in snapshots.all.values():
            if one.id not in reached and one.ms >= self._young:
                self._with_what_tells(one.id, "on no branch, and young")
        ordered = sorted(snapshots.all.values(), key=lambda one: one.ms)
        expired = tuple(one.id for one in ordered if one.id not in self._kept)
        return Plan(
            expired,
            self._kept,
            tuple(ref.name for ref in gone),
            carry,
            plain=len(refs) == len(snapshots.refs) == 1 and self._is_run(main),
        )

    def _is_over(self, ref: Ref) -> bool:
        """Whether the ref's own age is over: since its snapshot was made, as Iceberg counts it."""
        there = self._snapshots.all.get(ref.snapshot)
        if ref.name == MAIN or there is None or ref.max_ref_age_ms is None:
            return False
        return self._now - there.ms > ref.max_ref_age_ms

    def _listen(self) -> None:
        """Which snapshots tell by themselves all that they and their ancestors tell."""
        heard = self._heard
        for one in self._snapshots.all.values():
            path = []
            at: Snapshot | None = one
            while at is not None and at.id not in heard:
                path.append(at)
                at = self._snapshots.all.get(at.parent) if at.parent is not None else None
            known = heard[at.id] if at is not None else {}
            for newer in reversed(path):
                known = dict(known)
                _hear(known, newer.summary)
                heard[newer.id] = known
                self._tells[newer.id] = all(newer.summary.get(name) == value for name, value in known.items())

    def _main(self, chain: list[Snapshot]) -> Mapping[str, str]:
        """Keeps what has to stay of main. -> what has to be carried."""
        expiry = self._expiry
        young = max((place + 1 for place, one in enumerate(chain) if one.ms >= self._young), default=0)
        # The one before was the newest for a part of that time: who reads by time, follows or keeps a view needs it.
        young = min(young + 1, len(chain)) if young else 0
        fewest = max(expiry.at_least, FEWEST_SNAPSHOTS)
        most = max(expiry.at_most, FEWEST_SNAPSHOTS)
        wanted = min(max(young, fewest), most, len(chain))
        uncounted = max((place + 1 for place, one in enumerate(chain) if self._is_uncounted(one)), default=0)
        for place, one in enumerate(chain[: max(wanted, uncounted)]):
            near = place < min(fewest, wanted)
            self._keep(one.id, "one of the newest" if near else "young" if place < wanted else "no cut counts it yet")
        end = max(wanted, uncounted)
        if end:
            self._down(chain[end - 1 :])
        first = next((place for place, one in enumerate(chain) if self._tells[one.id]), len(chain))
        if len(chain) > wanted and first >= least(wanted):
            return self._heard[chain[0].id]
        return {}

    def _is_uncounted(self, one: Snapshot) -> bool:
        return any(epoch_of(stream, one.summary) > n for stream, n in self._counted.items())

    def _ref(self, ref: Ref) -> None:
        """Keeps a tag's snapshot, or what a branch other than main has to keep."""
        why = f"{ref.kind} {ref.name}"
        chain = list(self._snapshots.chain(ref.snapshot))
        if ref.kind == "tag":
            wanted = 1
        elif ref.name.startswith(REBUILDING):
            wanted = len(chain)
        else:
            age = self._young if ref.max_snapshot_age_ms is None else self._now - ref.max_snapshot_age_ms
            young = max((place + 1 for place, one in enumerate(chain) if one.ms >= age), default=0)
            wanted = max(young, ref.min_snapshots or self._expiry.at_least)
        for one in chain[:wanted]:
            self._keep(one.id, why)
        self._down(chain[min(wanted, len(chain)) - 1 :] if chain else [])

    def _with_what_tells(self, snapshot: int, why: str) -> None:
        chain = list(self._snapshots.chain(snapshot))
        if chain:
            self._keep(snapshot, why)
            self._down(chain)

    def _down(self, chain: Iterable[Snapshot]) -> None:
        """Keeps the run from its first snapshot to the first one that tells all by itself."""
        for one in chain:
            self._keep(one.id, "no newer snapshot tells what it or an older one tells")
            if self._tells[one.id]:
                return

    def _keep(self, snapshot: int, why: str) -> None:
        self._kept.setdefault(snapshot, why)

    def _is_run(self, main: Ref | None) -> bool:
        """Whether all snapshots are on main, and those that stay are the newest of it."""
        chain = [] if main is None else list(self._snapshots.chain(main.snapshot))
        kept = [one.id in self._kept for one in chain]
        return len(chain) == len(self._snapshots.all) and kept == sorted(kept, reverse=True)


def _reached(snapshots: Snapshots, ref: Ref) -> Iterator[Snapshot]:
    """What a ref reaches, as Iceberg has it: a branch its ancestry, a tag one snapshot."""
    chain = snapshots.chain(ref.snapshot)
    return chain if ref.kind == "branch" else (one for one, _ in zip(chain, range(1), strict=False))


def _refused(main: Ref | None, gone: Iterable[Ref]) -> str:
    if main is not None and (main.max_snapshot_age_ms is not None or main.min_snapshots is not None):
        return (
            "branch main has retention settings of its own, which Iceberg would follow beside care.expire: take them "
            "away (ALTER TABLE … CREATE OR REPLACE BRANCH main)"
        )
    rebuilds = [ref.name for ref in gone if ref.name.startswith(REBUILDING) and ref.kind == "branch"]
    if rebuilds:
        return (
            f"branch {rebuilds[0]} is older than the table's {_MAX_REF_AGE} and would go with the first expiry: finish "
            "the rebuild (firn rebuild), or drop the branch"
        )
    return ""
