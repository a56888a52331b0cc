"""The log against itself: staged batches, epochs, dead letters of ingest, replays and cuts must say the same. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from firn.audit.ledger_view import Difference, View, refused_name, some
from firn.config.names import TableName
from firn.log import layout
from firn.log.cuts import Cut
from firn.log.epochs import EpochBatch
from firn.quarantine.rules import covered

_RESTORE: Final = "restore the object (bucket versioning); its sender was told 202"
_FOREIGN: Final = "objects of the log never change: find out what wrote there, and restore the older version"


@dataclass
class LogAccount:
    """What the log says was acknowledged. `staged`: changes in no epoch yet; `waiting`: in an epoch that is held;
    `expired`: batches whose object is gone by now, as it may: what of them was ignored is not known any more."""

    batches: int = 0
    accepted: int = 0
    rejected: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    staged: int = 0
    waiting: int = 0
    expired: int = 0
    replayed: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def acked(self) -> int:
        """Events that were acknowledged."""
        return self.accepted + self.rejected + sum(self.ignored.values())


def account(view: View) -> tuple[LogAccount, list[Difference]]:
    """The account of all batches, and what differs in the log."""
    found = LogAccount()
    differences = [*_batches(view, found), *_epochs(view), *_replays(view, found), *_cuts(view)]
    return found, differences


def _batches(view: View, found: LogAccount) -> Iterator[Difference]:
    sealed = {batch.id: batch for epoch in view.live.values() for batch in epoch.batches}
    for batch in (*sealed.values(), *view.waiting.values(), *view.free.values()):
        found.batches += 1
        meta = view.meta(batch.id)
        letters = view.ledger.dead.get(layout.batch_dead_path(batch.id))
        there = letters.count if letters else 0
        if meta is None:
            found.accepted += batch.events
            found.rejected += there
            yield from _gone(view, batch, found)
            continue
        found.accepted += meta.accepted
        found.rejected += meta.rejected
        found.ignored.update(meta.ignored)
        old = view.now - layout.time_of(batch.id) > view.keeping.dead
        if there < meta.rejected and not old:
            yield Difference(
                "letters_missing",
                f"batch {batch.id} rejected {meta.rejected} events, and {there} letters of them are there",
                letters.problem if letters and letters.problem else _RESTORE,
                batches=(batch.id,), objects=(layout.batch_dead_path(batch.id),),
            )  # fmt: skip
        elif there > meta.rejected:
            found.notes.append(
                f"batch {batch.id} has {there - meta.rejected} letters more than it rejected: a try that was never "
                "acknowledged wrote them"
            )
    found.staged = sum(batch.events for batch in view.free.values())
    found.waiting = sum(batch.events for batch in view.waiting.values())


def _gone(view: View, batch: EpochBatch, found: LogAccount) -> Iterator[Difference]:
    """A batch without its object: expired if every table has it and it is old enough, else lost."""
    staged = view.ledger.staged.get(batch.id)
    numbers = view.holders.get(batch.id, [])
    if staged is not None:
        yield Difference(
            "batch_unreadable", f"batch {batch.id}: {staged.problem}", _RESTORE, None, tuple(numbers), (batch.id,),
            (staged.path,),
        )  # fmt: skip
        return
    done = view.cut.n if view.cut else 0
    held = {name: case.epoch for name, case in view.ledger.known.held().items()}
    lacks = any(n >= first for n in numbers for first in held.values())
    old = view.now - layout.time_of(batch.id) > view.keeping.log
    if numbers and max(numbers) <= done and not lacks and old:
        found.expired += 1
        return
    where = f"epoch {max(numbers)}" if numbers else "an epoch that was quarantined"
    if numbers and max(numbers) <= done:
        where += ", which is committed: the tables have them, a rebuild would not"
    yield Difference(
        "batch_missing",
        f"batch {batch.id} is not in staged/ any more ({batch.events} changes, {where})",
        _RESTORE, None, tuple(numbers), (batch.id,), (batch.path,),
    )  # fmt: skip


def _epochs(view: View) -> Iterator[Difference]:
    known = view.ledger.epochs
    for n in range(view.floor + 1, view.last):
        if n not in known:
            after = min(number for number in known if number > n)
            yield Difference(
                "epoch_missing", f"epoch {n} is not in epochs/, and epoch {after} is", _RESTORE, None, (n,),
                tuple(batch for batch in sorted(view.free) if layout.time_of(batch) < known[after].time),
                (layout.epoch_path(view.ledger.stream, n),),
            )  # fmt: skip
    first = min(known, default=1)
    if first > 1 and view.floor < first:  # at the log's beginning expiry and loss look alike, but for what they leave
        oldest = min((layout.time_of(batch.id) for batch in known[first].batches), default=None)
        stray = tuple(batch for batch in sorted(view.free) if oldest and layout.time_of(batch) < oldest)
        if stray:
            yield Difference(
                "epoch_missing",
                f"the log begins at epoch {first}, and {len(stray)} batches older than it are in no epoch",
                _RESTORE, None, (first - 1,), stray, (layout.epoch_path(view.ledger.stream, first - 1),),
            )  # fmt: skip
    for batch, numbers in view.holders.items():
        if len(numbers) > 1:
            text = " and ".join(map(str, numbers))
            yield Difference(
                "batch_twice", f"batch {batch} is in the epochs {text}", _FOREIGN, None, tuple(numbers), (batch,)
            )
    for n in (*view.live, *view.aside):
        yield from _epoch(view, n)


def _epoch(view: View, n: int) -> Iterator[Difference]:
    """An epoch's batches against their footers, and its sums against both."""
    epoch, path = view.ledger.epochs[n], layout.epoch_path(view.ledger.stream, n)
    tables: Counter[str] = Counter()
    wrong = []
    whole = True
    for batch in epoch.batches:
        staged = view.ledger.staged.get(batch.id)
        if staged is None or staged.meta is None:
            whole = False
            continue
        tables.update(staged.meta.tables)
        size = staged.size or batch.bytes  # 0: it was read without a listing
        if (staged.meta.accepted, size) != (batch.events, batch.bytes):
            wrong.append(batch.id)
            yield Difference(
                "batch_changed",
                f"batch {batch.id} holds {staged.meta.accepted} changes in {size} bytes, and epoch {n} was sealed with "
                f"{batch.events} in {batch.bytes}",
                _FOREIGN, None, (n,), (batch.id,), (staged.path, path),
            )  # fmt: skip
    if sum(epoch.tables.values()) != epoch.events or (whole and not wrong and +tables != +Counter(epoch.tables)):
        yield Difference(
            "epoch_sums",
            f"epoch {n} says that its batches hold {sum(epoch.tables.values())} changes, and those in its list hold "
            f"{epoch.events}" + (f" ({sum(tables.values())} by their footers)" if whole else ""),
            _FOREIGN, None, (n,), view.batches([n], strays=True), (path,),
        )  # fmt: skip


def _replays(view: View, found: LogAccount) -> Iterator[Difference]:
    """Replays of letters: what is claimed is staged, or the next replay does it."""
    first = min((epoch.time for epoch in view.ledger.epochs.values()), default=None)
    sealed = {batch.id for epoch in view.ledger.epochs.values() for batch in epoch.batches}
    for claim in view.ledger.replays:
        found.replayed += len(claim.letters())
        if claim.batch in view.ledger.staged or claim.batch in sealed:
            continue
        if claim.batch not in view.ledger.done:
            found.notes.append(
                f"a replay into batch {claim.batch} died half way: firn dead replay {view.ledger.stream}"
            )
        elif first is None or layout.time_of(claim.batch) >= first:
            yield Difference(
                "batch_missing",
                f"batch {claim.batch}, into which {len(claim.letters())} letters of {claim.dead} went, is not in "
                "staged/ and in no epoch",
                _RESTORE, None, (), (claim.batch,), (layout.staged_path(claim.batch), claim.dead),
            )  # fmt: skip


def _cuts(view: View) -> Iterator[Difference]:
    """Each cut counts what was in the epochs since the cut before."""
    if view.cut is not None and view.cut.n > view.last:
        yield Difference(
            "log_behind", f"cut {view.cut.n} is there, and the log ends at epoch {view.last}", _RESTORE,
            epochs=(view.cut.n,), objects=(layout.epoch_path(view.ledger.stream, view.cut.n),),
        )  # fmt: skip
        return
    for cut in view.ledger.cuts.values():
        if cut.n > view.floor and covered(cut):
            yield from _cut(view, cut)


def _cut(view: View, cut: Cut) -> Iterator[Difference]:
    before = view.before(cut)
    start = before.n if before else view.floor
    window = {n: epoch for n, epoch in view.live.items() if start < n <= cut.n}
    expected: Counter[str] = Counter()
    for n in window:
        for place, sources in view.rows(n).items():
            for source, rows in sources.items():
                if place == "":
                    expected[source] += rows
    names = {str(place) for n in view.live for place in view.rows(n) if isinstance(place, TableName)}
    for name in names:
        behind = before is not None and name in before.quarantined
        low = view.had(before, name) if before is not None and behind else start
        high = max(low, view.had(cut, name)) if name in cut.quarantined else cut.n
        routed = view.routed(TableName.parse(name), view.live)
        expected[name] += sum(rows for n, rows in routed.items() if low < n <= high)
    told = Counter({name: counts.get("events", 0) for name, counts in cut.counts.items()})
    filtered = sum(view.routed(None, window).values())
    for name in sorted(expected.keys() | told.keys()):
        # The first cut that is left may have lost the one before it: then it counts less than the epochs hold, or more
        # than those that are left. And a table may have an epoch that was quarantined later.
        excess = told[name] - expected[name]
        told_apart = excess > 0 and some(_aside(view, name, view.floor, cut.n), excess)
        if excess and (before or (excess > 0 and not view.floor)) and not told_apart:
            yield _miscounted(view, cut, start, f"{told[name]} changes of {name}", expected[name], name)
    if cut.filtered != filtered and (before or (cut.filtered > filtered and not view.floor)):
        yield _miscounted(view, cut, start, f"{cut.filtered} changes that no rule takes", filtered, None)
    for n in window:
        if view.died(n):
            continue
        for source, rows in view.rows(n).get("", {}).items():
            there = view.letters.get((n, refused_name(source)), 0)
            if there < rows:
                yield Difference(
                    "letters_missing",
                    f"{rows} changes of {source} in epoch {n} were refused, and {there} letters of them are there",
                    _RESTORE, None, (n,), view.batches([n], ""),
                )  # fmt: skip


def _aside(view: View, name: str, start: int, end: int) -> dict[int, int]:
    """The rows for a table in the quarantined epochs above `start` up to `end`."""
    among = {n: epoch for n, epoch in view.aside.items() if start < n <= end}
    places = [place for n in among for place in view.rows(n) if str(place) == name]
    return view.routed(places[0], among) if places else {}


def _miscounted(view: View, cut: Cut, start: int, told: str, expected: int, name: str | None) -> Difference:
    numbers = [n for n in view.live if start < n <= cut.n]
    place = TableName.parse(name) if name and name in view.ledger.tables else None
    return Difference(
        "cut_counts", f"cut {cut.n} counts {told} since epoch {start}, and the epochs hold {expected}", _FOREIGN,
        name, tuple(numbers), view.batches(numbers, place, strays=True), (layout.cut_path(view.ledger.stream, cut.n),),
    )  # fmt: skip
