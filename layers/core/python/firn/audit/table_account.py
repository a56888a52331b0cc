"""The account of one table: what the epochs hold for it, against what its snapshots and the cuts say became of it.

Pure. Of the changes in the epochs up to a table's progress, each is in the counts of exactly one snapshot of its
ancestry, and the counts of a snapshot add up: events = merged + superseded + ignored + dead. Where snapshots have
expired the cuts keep their counts, and where those have too, the changes are `uncounted`: they are in, by the progress.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firn.audit.ledger import History, Version
from firn.audit.ledger_view import Difference, View, place_name, some
from firn.config.names import TableName
from firn.log.cuts import Cut
from firn.quarantine.rules import Standing, standing
from firn.tables.outcome import COUNTS

Counts = dict[str, int]
_MIXED = "something else than Firn has written to the log or to the table: compare them, then firn rebuild the table"


@dataclass
class TableAccount:
    """One table. `events`: changes that were sealed for it; `pending`: of them, those that are not in it yet, and
    `quarantined`: of these, those that are held back. `skipped`: left out on purpose (firn resume --skip);
    `again`: changes that it has from an epoch that was quarantined later, and that count elsewhere."""

    table: str
    progress: int = 0
    events: int = 0
    merged: int = 0
    superseded: int = 0
    ignored: int = 0
    skipped: int = 0
    dead: int = 0
    uncounted: int = 0
    pending: int = 0
    quarantined: int = 0
    again: int = 0
    state: str = "ok"
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def accounted(self) -> int:
        """Everything that is known of its changes, each once."""
        inside = self.merged + self.superseded + self.ignored + self.dead + self.uncounted - self.again
        return inside + self.skipped + self.pending

    def add(self, counts: Mapping[str, int]) -> None:
        """The counts of a snapshot."""
        for name in COUNTS[1:]:
            setattr(self, name, getattr(self, name) + counts.get(name, 0))


def account(view: View, name: str) -> TableAccount:
    """The account of the target table `name`."""
    return _Table(view, TableName.parse(name)).account()


class _Table:
    def __init__(self, view: View, table: TableName) -> None:
        self.view, self.table, self.name = view, table, str(table)
        self.routed = view.routed(table, view.live)
        self.aside = view.routed(table, view.aside)
        self.history = view.ledger.tables.get(self.name, History())
        self.out = [range(a, b + 1) for a, b in view.ledger.known.left_out.get(self.name, ())]
        progress = min(self.history.progress, view.last)
        self.stand: Standing = standing(self.name, progress, view.cut, view.ledger.known)
        self.found = TableAccount(self.name, self.history.progress, sum(self.routed.values()))

    def account(self) -> TableAccount:
        found, view = self.found, self.view
        if self.history.progress > view.last:
            self._differs(
                "log_behind",
                f"{self.name} holds epoch {self.history.progress}, and the log ends at epoch {view.last}: its last "
                "epochs were deleted, or the staging area is another one",
                "restore epochs/ (bucket versioning); in a new staging area run firn flush: it seals above the tables",
                (),
            )
        low = view.floor
        versions = self._versions()
        for place, version in enumerate(versions):
            self._window(version, low, first=place == 0)
            low = max(low, version.epoch)
        self._rest(low, any_version=bool(versions))
        found.skipped = sum(rows for n, rows in self.routed.items() if self._is_out(n))
        late = {n: rows for n, rows in self.routed.items() if n > self.stand.done and not self._is_out(n)}
        found.pending = sum(late.values())
        self._standing(late)
        return found

    def _versions(self) -> list[Version]:
        """The snapshots of the audited epochs, one an epoch."""
        by_epoch: dict[int, Version] = {}
        for version in self.history.versions:
            if self.view.floor < version.epoch <= self.view.last:
                before = by_epoch.get(version.epoch)
                counts = _sum(before.counts, version.counts) if before else version.counts
                by_epoch[version.epoch] = Version(version.snapshot, version.epoch, counts)
        return [by_epoch[epoch] for epoch in sorted(by_epoch)]

    def _window(self, version: Version, low: int, *, first: bool) -> None:
        """The epochs above `low` that the snapshot brought, and what it counts of them."""
        mine = {n: rows for n, rows in self.routed.items() if low < n <= version.epoch and not self._is_out(n)}
        expected, counts = sum(mine.values()), version.counts
        if not counts:
            self._uncounted(version, low, expected, first=first)
            return
        self._adds_up(version)
        aside = {n: rows for n, rows in self.aside.items() if low < n <= version.epoch}
        told = [counts]
        if first and counts["events"] != expected:
            told.append(_sum(counts, self._expired(version.epoch, expected - counts["events"])))
        twice: Mapping[int, int] = {}
        for counts in told:
            twice = some(aside, counts["events"] - expected)
            if twice or counts["events"] == expected:
                break
        events = counts["events"]
        if twice:
            self._came_again(twice)
        elif first and not self.history.whole and events < expected:
            self.found.uncounted += expected - events
        elif events != expected:
            self._differs(
                "snapshot_events",
                f"{self.name}: snapshot {version.snapshot} (epoch {version.epoch}) counts {events} changes, and the "
                f"epochs {low + 1} to {version.epoch} hold {expected} for it",
                _MIXED,
                mine or range(max(low + 1, version.epoch), version.epoch + 1),
            )
        self.found.add(counts)
        self._letters(counts.get("dead", 0), low, version.epoch)

    def _uncounted(self, version: Version, low: int, expected: int, *, first: bool) -> None:
        """A snapshot that tells of an epoch and counts nothing: expiry carried on what older ones told."""
        counts = self._expired(version.epoch, expected) if first and not self.history.whole else {}
        if counts.get("events", 0) != expected:
            self.found.uncounted += expected
            return
        self.found.add(counts)
        self._letters(counts.get("dead", 0), low, version.epoch)

    def _rest(self, low: int, *, any_version: bool) -> None:
        """The epochs above the last snapshot's up to where the table is said to have everything."""
        left = {n: rows for n, rows in self.routed.items() if low < n <= self.stand.done and not self._is_out(n)}
        if not left:
            return
        counts = {} if any_version else self._expired(self.view.last, sum(left.values()))
        if counts.get("events", 0) == sum(left.values()):
            self.found.add(counts)
            self._letters(counts["dead"], low, self.stand.done)
            return
        self._differs(
            "not_in_table",
            f"{self.name} is said to have all up to epoch {self.stand.done}, and {sum(left.values())} changes of the "
            f"epochs {_range(left)} are in no snapshot of it",
            "the table was rewritten by another tool, or its snapshots were removed: firn rebuild it from the log",
            left,
        )

    def _expired(self, upto: int, wanted: int) -> Counts:
        """What the cuts count up to the one that holds epoch `upto`, less what the snapshots that are there count, and
        less what was skipped, as far as it goes beyond the changes that are `wanted`."""
        cuts = {n: cut for n, cut in self.view.ledger.cuts.items() if n > self.view.floor}
        last = min((n for n, cut in cuts.items() if self._in(cut) >= upto), default=max(cuts, default=0))
        told = _sum(*(cut.counts.get(self.name, {}) for n, cut in cuts.items() if n <= last))
        inside = self._in(cuts[last]) if cuts else 0
        there = _sum(*(version.counts for version in self._versions() if version.epoch <= inside))
        left = {name: told[name] - there[name] for name in COUNTS}
        out = {n: rows for n, rows in self.routed.items() if n <= last and self._is_out(n)}
        skipped = sum(some(out, left["events"] - wanted).values())  # the cuts count it as ignored
        left |= {"events": left["events"] - skipped, "ignored": left["ignored"] - skipped}
        return left if left["events"] > 0 else dict.fromkeys(COUNTS, 0)

    def _in(self, cut: Cut) -> int:
        """The epoch up to which a cut and those before it count the table's snapshots."""
        return cut.progress.get(self.name, 0) if self.name in cut.quarantined else cut.n

    def _adds_up(self, version: Version) -> None:
        counts = version.counts
        parts = sum(counts.get(name, 0) for name in COUNTS[1:])
        if parts != counts["events"] or min(counts.values()) < 0:
            said = " + ".join(f"{counts.get(name, 0)} {name}" for name in COUNTS[1:])
            epochs = [n for n in self.routed if n == version.epoch] or [version.epoch]
            self._differs(
                "snapshot_sum",
                f"{self.name}: the counts of snapshot {version.snapshot} do not add up: {counts['events']} events are "
                f"{said}",
                "report it with the log of the job that wrote it; firn rebuild tells whether the rows are right",
                epochs,
            )

    def _came_again(self, twice: Mapping[int, int]) -> None:
        for n, rows in twice.items():
            self.found.again += rows
            self.found.notes.append(
                f"{self.name} had epoch {n} before it was quarantined: its {rows} changes count once"
            )

    def _letters(self, dead: int, low: int, high: int) -> None:
        """The dead letters that a snapshot counts have to be there, until they expire."""
        numbers = [n for n in self.view.live if low < n <= high]
        # A job may have written them while their batches were in an epoch that was quarantined then.
        batches = {batch.id for n in numbers for batch in self.view.live[n].batches}
        given_up = self.view.aside.items()
        numbers += [n for n, epoch in given_up if low < n <= high or any(one.id in batches for one in epoch.batches)]
        if any(self.view.died(n) for n in numbers):
            return
        there = sum(self.view.letters.get((n, place_name(self.table)), 0) for n in numbers)
        if there < dead:
            self._differs(
                "letters_missing",
                f"{self.name}: {dead} changes of the epochs {low + 1} to {high} are counted as dead, and there are "
                f"{there} letters of them",
                "restore the object under dead/ (bucket versioning); the changes still stand in their staged batches",
                [n for n in self.routed if low < n <= high],
            )
        elif there > dead:
            self.found.notes.append(
                f"{self.name}: {there - dead} letters more than dead changes in the epochs {low + 1} to {high}: a try "
                "that failed wrote them, and a later one could take these changes"
            )

    def _standing(self, late: Mapping[int, int]) -> None:
        found, stand = self.found, self.stand
        if stand.held is not None:
            found.state = f"quarantined ({stand.held.reason})"
            found.quarantined += found.pending
            found.notes.append(f"{self.name} is quarantined: {stand.held.message}; {stand.held.advice}")
        elif stand.released:
            found.state = "resumed"
            found.notes.append(f"{self.name} was resumed: the next job brings it up (firn flush)")
        elif stand.rolled_back and self.history.progress < stand.expected:
            back = {n: rows for n, rows in late.items() if n <= stand.expected}
            self._differs(
                "rolled_back",
                f"{self.name} is at epoch {stand.done} and was at {stand.expected}: it was rolled back or dropped, or "
                "another tool expired the snapshots that told how far it is; "
                f"{sum(back.values())} changes of the epochs {_range(back)} are pending again",
                "the next job quarantines it and says how to go on (firn flush, then firn status)",
                back,
            )
            found.state = f"rolled back to epoch {stand.done}"

    def _is_out(self, n: int) -> bool:
        return any(n in out for out in self.out)

    def _differs(self, code: str, message: str, advice: str, numbers: Iterable[int]) -> None:
        known = [n for n in sorted(numbers) if n in self.view.ledger.epochs]
        batches = self.view.batches(known, self.table, strays=code == "snapshot_events")
        self.found.differences.append(Difference(code, message, advice, self.name, tuple(known), batches))
        self.found.state = "differs"


def _sum(*counts: Mapping[str, int]) -> Counts:
    return {name: sum(one.get(name, 0) for one in counts) for name in COUNTS}


def _range(numbers: Mapping[int, int]) -> str:
    return f"{min(numbers)} to {max(numbers)}" if numbers else "none"
