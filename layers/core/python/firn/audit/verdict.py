"""The audit: acked = merged + superseded + ignored (by reason) + pending + dead, from the log and the tables alone; and
each row that the log says must be in a table is in it (audit/row_check.py).

Pure: audit/ledger.py reads, this judges. What was acknowledged is counted from the footers of the staged batches; what
became of it from the epochs, the tables' snapshots, the cuts and the dead letters. Nothing is corrected here.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from firn.audit import log_check, table_account
from firn.audit.ledger import Ledger
from firn.audit.ledger_view import Difference, Keeping, View
from firn.audit.row_check import RowAccount
from firn.audit.sink_account import SinkAccount
from firn.audit.table_account import TableAccount
from firn.config.names import TableName
from firn.quarantine.rules import covered

NOT_ROWS = "truncate_or_snapshot_read"  # what tables/outcome.py counts as ignored
SKIPPED = "skipped"
FILTERED = "filtered_table"


@dataclass
class Audit:
    """One stream's account. All numbers are events.

    acked + copies = merged + superseded + sum(ignored) + pending + dead + uncounted, or `difference` is not 0

    copies      what goes to several tables counts once more in each further one
    pending     not in its table yet; `staged` of it are in no epoch, `quarantined` of it are held back
    dead        `replayed` of the letters came again in batches of their own, which count like any other
    uncounted   in the tables, but what became of them has expired with the snapshots and the cuts
    since       the first epoch that is audited: the log before it has expired
    rows        the tables row by row, as far as they were looked at; these numbers are rows
    files       the pipelines into files; their numbers are beside the others
    """

    stream: str
    since: int
    epochs: int
    batches: int
    expired_batches: int
    acked: int
    copies: int = 0
    merged: int = 0
    superseded: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    staged: int = 0
    quarantined: int = 0
    dead: int = 0
    replayed: int = 0
    uncounted: int = 0
    difference: int = 0
    tables: list[TableAccount] = field(default_factory=list)
    rows: list[RowAccount] = field(default_factory=list)
    files: list[SinkAccount] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Whether everything adds up."""
        return not self.differences

    def take(self, rows: Iterable[RowAccount]) -> None:
        """The tables row by row, with what differs in them."""
        for one in rows:
            self.rows.append(one)
            self.notes += one.notes
            self.differences += _of_rows(one)


def audit(ledger: Ledger, now: datetime, keeping: Keeping | None = None) -> Audit:
    """The account of one stream at `now` (aware). `keeping`: from when on a missing object has expired."""
    view = View(ledger, now, keeping or Keeping())
    log, differences = log_check.account(view)
    names = {str(place) for n in view.live for place in view.rows(n) if isinstance(place, TableName)}
    tables = [table_account.account(view, name) for name in sorted(names | ledger.tables.keys())]
    found = Audit(
        ledger.stream, view.floor + 1, len(view.live), log.batches, log.expired, log.acked, view.copies,
        staged=log.staged, replayed=log.replayed, tables=tables, notes=log.notes,
    )  # fmt: skip
    ignored = Counter(log.ignored)
    found.pending, found.quarantined = log.staged + log.waiting, log.waiting
    found.dead = log.rejected
    done = covered(view.cut)
    for n in view.live:
        for place, sources in view.rows(n).items():
            rows = sum(sources.values())
            if isinstance(place, TableName):
                continue
            if n > done:
                found.pending += rows
            elif place is None:
                ignored[FILTERED] += rows
            else:
                found.dead += rows
    for table in tables:
        found.merged += table.merged
        found.superseded += table.superseded - table.again
        ignored[NOT_ROWS] += table.ignored
        ignored[SKIPPED] += table.skipped
        found.dead += table.dead
        found.pending += table.pending
        found.quarantined += table.quarantined
        found.uncounted += table.uncounted
        differences += table.differences
        found.notes += table.notes
    found.ignored = {reason: count for reason, count in sorted(ignored.items()) if count}
    parts = found.merged + found.superseded + sum(found.ignored.values()) + found.pending + found.dead + found.uncounted
    found.difference = found.acked + found.copies - parts
    _note(view, found)
    if found.difference and not differences:
        differences.append(
            Difference(
                "unbalanced", f"{found.acked} events were acknowledged, with {found.copies} copies for further tables "
                f"{found.acked + found.copies}, and {parts} are accounted for",
                "this is an error of Firn's: report it with the output of firn audit --json",
            )
        )  # fmt: skip
    found.differences = differences
    return found


def _of_rows(found: RowAccount) -> list[Difference]:
    share = f" (of a sample of {found.share:.2%})" if found.share < 1 else ""
    texts = {
        "missing": f"{found.missing} of {found.expected} rows that the log makes are not in {found.table}{share}",
        "surplus": f"{found.surplus} rows are in {found.table} that no change of the log leaves there{share}",
        "differs": f"{found.differs} of {found.expected} rows of {found.table} have other values than the log gives "
        f"them{share}: " + ", ".join(f"{name} in {count}" for name, count in sorted(found.columns.items())),
    }
    advice = f"firn rebuild {found.table} --check counts them again; --in-place makes the table what its log says"
    if not found.whole:
        advice = (
            f"firn rebuild {found.table} --into NAME --partial makes what is left of the log beside it: compare them"
        )
    differences = []
    for what, text in texts.items():
        if getattr(found, what):
            samples = [one for one in found.samples if one.what == what]
            batches = tuple(dict.fromkeys(one.batch for one in samples if one.batch is not None))
            rows = tuple(map(str, samples))
            differences.append(Difference(f"rows_{what}", text, advice, found.table, batches=batches, rows=rows))
    return differences


def _note(view: View, found: Audit) -> None:
    if view.floor:
        found.notes.append(f"the log up to epoch {view.floor} has expired: it is not audited any more")
    if found.expired_batches:
        found.notes.append(
            f"{found.expired_batches} staged batches have expired: of them only changes and dead letters count"
        )
    for n in view.ledger.known.held_epochs():
        case = view.ledger.known.epochs[n].quarantine
        found.notes.append(f"epoch {n} is quarantined: {case.message}; {case.advice}")
    for one in view.ledger.known.stream:
        if one.lift is None:
            found.notes.append(f"the stream is quarantined: {one.quarantine.message}; {one.quarantine.advice}")
