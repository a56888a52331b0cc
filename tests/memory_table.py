"""A table in memory and what it remembers, as the row engine (changes.merge) looks it up and brings it forward."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from firn.changes.merge.decide import Decided, decide, is_fact, look
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.placement.shard_decision import Decision, Rows


@dataclass
class MemoryTable:
    """`live`: the rows; `remembered`: the facts; `gone`: rows that deletes took; `log`: as decide.Ground has it, None:
    what was committed here; `floor`: as for decide."""

    live: dict[Key, Row] = field(default_factory=dict)
    sources: frozenset[str | None] = frozenset()
    remembered: list[RowChange] = field(default_factory=list)
    gone: list[tuple[Key, Row]] = field(default_factory=list)
    log: Callable[[Collection[Key]], Sequence[RowChange]] | None = None
    floor: bytes = b""

    def __post_init__(self) -> None:
        self._staged: list[RowChange] = []
        self.log = self.log or (lambda keys: [one for one in self._staged if one.op != "t" and one.key in keys])

    def commit(self, batch: Sequence[RowChange]) -> Decided:
        """One range. -> what became of the rows."""
        self._staged += batch
        decided = self.decided(batch)
        self.gone += self.taken(batch)
        self.remembered += filter(is_fact, batch)
        for key in decided.removes:
            del self.live[key]
        self.live |= decided.writes
        return decided

    def decided(self, batch: Sequence[RowChange]) -> Decided:
        """What becomes of the rows; none changes yet."""
        self.sources |= {change.source for change in batch}
        changes = [change for change in batch if change.op != "t"]
        truncates = list({change.identity: change for change in batch if change.op == "t"}.values())
        return decide(look(self, changes, truncates, self.sources), changes, self.floor)

    def taken(self, batch: Sequence[RowChange]) -> list[tuple[Key, Row]]:
        """The rows that deletes of the batch may take."""
        keys = dict.fromkeys(change.key for change in batch if change.op == "d")
        return [(key, self.live[key]) for key in keys if key in self.live]

    # What is looked up: decide.Ground.

    @property
    def newest_truncate(self) -> bytes:
        return max((change.order for change in self.remembered if change.op == "t"), default=b"")

    @property
    def creates(self) -> bool:
        return any(change.op == "c" for change in self.remembered)

    @property
    def holds(self) -> bool:
        return any(row.held for row in self.live.values())

    def rows(self, keys: Collection[Key] | None, columns: Collection[str] | None) -> Mapping[Key, Row]:
        found = {key: row for key, row in self.live.items() if keys is None or key in keys}
        if columns is None:
            return found
        told = {key: {name: row.values.get(name) for name in columns} for key, row in found.items()}
        return {key: Row(told[key], row.order, row.held, row.source) for key, row in found.items()}

    def facts(self, keys: Collection[Key], low: bytes) -> Sequence[RowChange]:
        return [one for one in self._facts() if one.key in keys and one.order > low]

    def halves(self, positions: Collection[bytes]) -> Sequence[RowChange]:
        at = {*positions, *(one.position for one in self._facts() if one.op == "c")}
        return [one for one in self._facts() if one.position in at]

    def _facts(self) -> Sequence[RowChange]:
        """The deletes and creates, as a table remembers them."""
        found = (one for one in self.remembered if one.op in "dc")
        return [RowChange(o.op, o.key, o.position, o.order, None, o.unavailable, o.source) for o in found]

    def truncates(self) -> Sequence[RowChange]:
        return [one for one in self.remembered if one.op == "t"]

    def removed(self, keys: Collection[Key]) -> Iterable[tuple[Key, Row]]:
        return [(key, row) for key, row in self.gone if key in keys]


@dataclass
class MemoryShard:
    """The rows of a shard at a cut (shard_decision.Shard). `asked`: the keys that it was looked up for."""

    live: Mapping[Key, Row]
    asked: list[Key] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return any(row.held for row in self.live.values())

    def rows(self, keys: Collection[Key] | None) -> Mapping[Key, Row]:
        self.asked += self.live if keys is None else keys
        return {key: row for key, row in self.live.items() if keys is None or key in keys}


def brought(
    decision: Decision, shard: str, there: Mapping[Key, Row], at_the_cut: Mapping[str, Rows], *, ahead: bool
) -> tuple[dict[Key, Row], list[Key]]:
    """What one commit writes to a shard that has the rows `there`, and what it removes. `at_the_cut`: the rows of the
    shards of the map before."""
    passage = decision.passage(shard, ahead=ahead)
    come = {
        key: row
        for source in sorted(passage.sources)
        for key, row in at_the_cut[source].items()
        if decision.passes(shard, key, row)
    }
    gone = list(there) if passage.anew else []
    if passage.loses:
        gone = [key for key, row in there.items() if key not in decision.rows and not decision.passes(shard, key, row)]
    step = decision.step(shard, {key: row for key, row in there.items() if key not in gone})
    return come | dict(step.writes), [*gone, *step.removes]
