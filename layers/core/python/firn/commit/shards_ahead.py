"""Shards that a job which died has left ahead of their rest: whoever comes after goes as far, or no fence lets it."""

from collections.abc import Collection
from dataclasses import replace

from firn.commit import job_context
from firn.commit.job_context import Work, shards_beside
from firn.commit.lake import Lake
from firn.config.names import TableName
from firn.log import epochs
from firn.log.store import Store
from firn.tables import ownership
from firn.tables.map_in_log import map_under
from firn.tables.table_state import TableState


def look(store: Store, lake: Lake, stream: str, first: int, last: int) -> Work:
    """job_context.look, with the other shards of the sharded tables that the range goes to, or that were released. A
    range that ends before one of these goes on up to where that is: of a range whose jobs were killed a narrower one is
    tried. Raises as that one does."""
    work = job_context.look(store, lake, stream, first, last)
    if (ahead := _ahead(with_shards := _with_shards(work))) <= last:
        return with_shards
    return _with_shards(job_context.look(store, lake, stream, first, ahead))


def _with_shards(work: Work) -> Work:
    released = (table for table, stand in work.standings.items() if stand.released)
    rests = {*work.touched, *released} - work.foreign.keys()
    rules = (rule for rule in work.settings.tables if rule.shard is not None)
    mine = {rest: rule for rule in rules if (rest := TableName.parse(rule.to)) in rests}
    if not mine:
        return work
    found = {}
    for rest, rule in mine.items():
        state = work.states.get(rest)
        known = map_under(work.store, work.stream, state) if state is not None else None
        names = shards_beside(work.store, replace(work.settings, tables=(rule,)))
        found[rest] = _states(work, names | (known.ever - {rule.to} if known is not None else frozenset()))
    return replace(work, shards=found)


def _states(work: Work, names: Collection[str]) -> tuple[TableState, ...]:
    found = []
    for table in map(TableName.parse, sorted(names)):
        state = None if ownership.barred(table, work.lake.databases) else work.lake.state(table)
        why = ownership.refusal(work.store, (work.stream,), table, state, work.lake.warehouse)
        if state is not None and why is None:
            found.append(state)
    return tuple(found)


def _ahead(work: Work) -> int:
    """How far the furthest shard is, by an epoch of this log."""
    held = work.known.held()
    known = {
        (state.progress(work.stream), state.sealed(work.stream))
        for rest, states in work.shards.items() if str(rest) not in held for state in states
    }  # fmt: skip
    mine = (n for n, nonce in known if n > work.last and _nonce(work, n) == nonce)
    return max(mine, default=0)


def _nonce(work: Work, n: int) -> str:
    epoch = epochs.read(work.store, work.stream, n)
    return epoch.nonce if epoch is not None else ""
