"""The cut at the end of a job, told from the tables and the log alone: a job that found all done tells the same."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from firn.commit.job_context import Counts, Work
from firn.commit.lake import states_of
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.config.table_sizes import TableSizes
from firn.log import cuts, epochs, layout
from firn.quarantine import rules as rules
from firn.quarantine.rules import High
from firn.tables.map_in_log import map_under
from firn.tables.outcome import COUNTS, Outcome
from firn.tables.shard_cut import cut_in
from firn.tables.table_state import TableState, epoch_of


def write_cut(
    work: Work,
    outcomes: Sequence[Outcome],
    high: High | None,
    held: Mapping[str, str],
    now: datetime,
    files: Mapping[str, int],
) -> None:
    """Put the cut, if absent: all tables of the stream, those that this range did not touch too; `held` stay behind.
    `files`: how far the file sinks are.

    Writes none if a later range came first in some table: a cut here would show that table too new, and that range's
    job makes its own. Raises StorageUnavailable, UnknownOutcome, and what the catalog raises.
    """
    if work.before is not None and work.last <= work.before.n:
        return
    states = dict(work.states) | landed(work, outcomes)
    if any(state.progress(work.stream) > work.last for state in states.values() if state):
        return
    there = {name: state for name, state in states.items() if state and state.snapshot_id is not None}
    counts = work.refused()
    for name, state in there.items():
        _add(counts, str(name), _counted(work, name, state))
    for outcome in outcomes:
        if outcome.status == "empty":
            _add(counts, outcome.table, {count: getattr(outcome, count) for count in COUNTS})
    for name in states:
        _add(counts, str(name), _skipped(work, name))
    cuts.write(
        work.store,
        cuts.make(
            work.stream,
            work.last,
            layout.instant(now),
            _as_before(work)
            | {str(name): state.snapshot_id for name, state in there.items() if state.snapshot_id is not None}
            | _shards(work, there),
            since=work.before.n if work.before else 0,
            progress=_progress(work, states),
            counts={table: found for table, found in counts.items() if any(found.values())},
            filtered=work.filtered(),
            high=high,
            quarantined=dict(held),
            files=dict(files),
            sizes=sizes_of(work.settings, there, _sizes_before(work)),
        ),
    )


def landed(work: Work, outcomes: Sequence[Outcome]) -> dict[TableName, TableState | None]:
    """The tables that were committed to, as the last commit to each left it, or as the catalog has it now."""
    last = {TableName.parse(outcome.table): outcome.state for outcome in outcomes}
    mine = {name: state for name, state in last.items() if name in work.states and name not in work.foreign}
    return mine | states_of(work.lake, (name for name, state in mine.items() if state is None))


def sizes_of(
    settings: StreamConfig, there: Mapping[TableName, TableState], unseen: Mapping[str, int] | None = None
) -> dict[str, int]:
    """What the tables take that writers name as theirs, as their newest snapshots' summaries tell it; one that tells no
    number is left out. `unseen`: those that were not looked at, as the cut before has them. Pure."""
    patterns = {pattern for writer in settings.writers.values() for pattern in writer.stored_in}
    if not patterns:
        return {}
    told = {str(name): state.ancestry[0].get("total-files-size", "") for name, state in there.items() if state.ancestry}
    sizes = dict(unseen or {}) | {name: int(text) for name, text in told.items() if text.isascii() and text.isdigit()}
    return {name: sizes[name] for name in sorted(TableSizes(sizes).named(patterns))}


def _as_before(work: Work) -> dict[str, int]:
    """Tables of the cut before that were not looked at, or that this deployment may no longer load, at the snapshots
    that they had there: expiry keeps them as long as the newest cut names them."""
    before, unseen = work.before.tables if work.before else {}, work.unseen
    return {name: at for name, at in before.items() if name in unseen or TableName.parse(name) in work.foreign}


def _sizes_before(work: Work) -> dict[str, int]:
    before, unseen = work.before.sizes if work.before else {}, work.unseen
    return {name: size for name, size in before.items() if name in unseen}


def _shards(work: Work, there: Mapping[TableName, TableState]) -> dict[str, int]:
    """The tables of shards, as their rest names them."""
    found: dict[str, int] = {}
    for rule in work.settings.tables:
        state = None if rule.shard is None else there.get(TableName.parse(rule.to))
        if state is None:
            continue
        made = map_under(work.store, work.stream, state)
        places = made.tables if made else {}
        named = cut_in(state.ancestry, work.stream)
        found |= {str(places[name]): at.snapshot for name, at in named.items() if name in places}
    return found


def _progress(work: Work, states: Mapping[TableName, TableState | None]) -> dict[str, int]:
    """A table that was rolled back keeps what it had: that is how the next job sees that it lacks something. So does
    one that was not looked at."""
    before, unseen = work.before.progress if work.before else {}, work.unseen
    found = {name: at for name, at in before.items() if name in unseen}
    for name, state in states.items():
        skipped = min(work.known.skipped.get(str(name), 0), work.last)
        at = max(state.progress(work.stream) if state else 0, skipped, work.standing(name).expected)
        if at:
            found[str(name)] = at
    return found


def _counted(work: Work, table: TableName, state: TableState) -> dict[str, int]:
    """The sums of the snapshots in the table's ancestry that the cut before does not have."""
    after = 0
    if work.before is not None:
        after = work.before.progress.get(str(table), 0) if rules.covered(work.before) else work.before.n
    # Snapshots from before the log was started over are no changes of this log.
    after = max(after, work.known.begun)
    new = [s for s in state.ancestry if after < epoch_of(work.stream, s) <= work.last]
    return {count: sum(int(summary.get(f"firn.{count}", 0)) for summary in new) for count in COUNTS}


def _skipped(work: Work, table: TableName) -> dict[str, int]:
    """Changes that were skipped on purpose since the cut before, and that no snapshot had: they are ignored. What a
    table without a snapshot had done before it was held (all dead, say) was counted then."""
    done = work.standing(table).expected
    rows = 0
    for first, through in work.known.left_out.get(str(table), ()):
        start, end = max(first, done + 1), min(through, work.last)
        if start <= end:
            sealed = epochs.read_range(work.store, work.stream, start, end)
            rows += work.rows(table, (epoch for epoch in sealed if epoch.n not in work.known.epochs))
        done = max(done, end)
    return {"events": rows, "ignored": rows} if rows else {}


def _add(counts: Counts, table: str, more: Mapping[str, int]) -> None:
    have = counts.setdefault(table, dict.fromkeys(COUNTS, 0))
    for name, count in more.items():
        have[name] += count
