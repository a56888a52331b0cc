"""What the log says must be in a table, change by change: the staged batches read once for all tables, in the order of
their epochs, and decoded as the commit job decodes them. Nothing is kept of a batch that was handed on.

Most changes are plain (plain_changes), and are decoded by columns. The others are decoded one by one.

A change is needed if the table is said to have its epoch, and nothing says that it was left out: a dead letter, a
quarantined epoch, one that the table was told to skip. What is not committed yet is not looked at.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from firn.audit.ledger import History, Tick
from firn.audit.ledger_view import View
from firn.audit.plain_changes import Columns, PlainChange, PlainDecoder, plain_of
from firn.audit.row_check import NOTHING, Logged
from firn.changes.decode.row_decoder import Decoder
from firn.changes.decode.types import Column, storable
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import RowChange
from firn.changes.merge.ordering import Order
from firn.changes.metadata_columns import BEFORE, OP
from firn.changes.redelivery import Early, Placed, early, lowest
from firn.commit.lake import place_of
from firn.commit.staged_changes import raw_changes, raw_columns
from firn.config.model import StreamConfig
from firn.config.modes import MODES
from firn.config.names import TableName
from firn.log import layout
from firn.log.dead_letters.letters import read_dead
from firn.log.epochs import EpochBatch
from firn.log.generations import Generations
from firn.log.store import Store, get
from firn.quarantine.rules import standing, tells_commits
from firn.tables.batch_facts import TableFacts, collected
from firn.tables.planning import KeyChanged
from firn.tables.routing import Target, mirrors_on, route
from firn.tables.shard_names import shard_in
from firn.tables.table_plan import Planned, planned
from firn.tables.table_state import MODE, TableState

Raw = Mapping[str, Any]
Dead = Mapping[str, Collection[int]]
"""The dead letters of commits: indexes by batch."""
_Way = tuple[Target, Planned, Decoder]
_AT_ONCE: Final = 16  # staged objects that are held at once


class CannotTell(Exception):
    """The rows of a table can't be compared with the log; the text says why."""


@dataclass(frozen=True)
class DecodedChanges:
    """Changes of one table: the plain ones, and the others."""

    plain: list[PlainChange]
    logged: list[Logged]


class TableLog:
    """One table's part of the log.

    whole       the log reaches back to the table's beginning, and no other stream feeds it; known once all is read
    truncates   all of a mirror table's, in no order
    refused     orders of changes that can't be decoded any more
    moving      positions of creates that left values out: what else is there may be the row that they come from
    """

    def __init__(
        self,
        view: View,
        name: TableName,
        state: TableState,
        current: StreamConfig | None = None,
        *,
        deep: bool = False,
        out: Collection[int] = (),
    ) -> None:
        """`state`: the table, as of the same moment as the view; `current`: the stream as it is configured now; `deep`:
        with all values; `out`: epochs that somebody took out of the table again. Raises CannotTell."""
        self.name, self.state, self.deep = name, state, deep
        self._view, self._current = view, current
        history = view.ledger.tables.get(str(name), History())
        stand = standing(str(name), min(history.progress, view.last), view.cut, view.ledger.known)
        self._done = stand.done
        skipped = view.ledger.known.left_out.get(str(name), ())
        self._left_out = {*out, *(n for first, last in skipped for n in range(first, last + 1))}
        self._ways: dict[int, _Way | None] = {}
        self._decoders: dict[int, PlainDecoder] = {}  # by that of the rows, which a way keeps
        self._facts = TableFacts()
        self.truncates: list[Logged] = []
        self.refused: set[bytes] = set()
        self.moving: set[bytes] = set()
        self.gone: set[str] = set()
        self.others = _streams(state) - {view.ledger.stream}
        if (shard := shard_in(state.properties)) is not None:
            raise CannotTell(f"it is {shard}, whose rows are not compared with the log yet; its counts are")
        self._usual = self._first_that_fits()
        self.plan = self._usual[1]
        self.mirror = MODES.get(state.properties.get(MODE, ""), self.plan.mode).keyed

    @property
    def whole(self) -> bool:
        """Whether the log reaches back to the table's beginning."""
        return not (self._view.floor or self.gone or self.others)

    @property
    def columns(self) -> list[Column]:
        """The table's columns that changes fill, under the names that the changes' values have."""
        return list(self._usual[2].decoding.columns)

    @property
    def names(self) -> list[str]:
        """What plain changes have values of: the columns, and of an append table op and row before."""
        return [*(column.name for column in self.columns), *([] if self.mirror else [OP, BEFORE])]

    @property
    def key(self) -> list[Column]:
        """Those of a mirror table's key."""
        return [self.columns[i] for i in self._usual[2].decoding.key]

    def needs(self, n: int) -> bool | None:
        """Whether the table has the changes of epoch n; None: it can't have them yet."""
        if n in self._view.aside:
            return False
        return n not in self._left_out if n <= self._done else None

    def sources(self, n: int) -> frozenset[str]:
        """The source tables of epoch n that go to the table."""
        way = self._way(n) if self.needs(n) is not None else None
        return frozenset(way[0].sources) & self._view.ledger.epochs[n].tables.keys() if way else frozenset()

    def order(self, n: int) -> Order:
        """What ordered the changes of epoch n, but for their generations. A rebuild takes the rules of its own day."""
        settings = self._view.settings(n)
        rules = self._current if self.state.basis.rebuilt and self._current else settings
        high = self._view.cut.high if self._view.cut else None
        return replace(rules, commits=tells_commits(high, rules.generation)).order

    def decode(
        self, n: int, columns: Columns, places: Sequence[int], dead: Dead, *, one_by_one: bool = False
    ) -> DecodedChanges:
        """Changes of epoch n, those at some places of a staged object. `one_by_one`: none as plain."""
        way = self._way(n)
        if way is None:
            return DecodedChanges([], [])
        self._look(columns, places)
        some: list[PlainChange] = []
        # What an epoch holds that the table need not have in is never plain, nor what may have two names.
        two_names = not self.mirror and self._view.ledger.stream in self.state.first_identity
        if not one_by_one and self.needs(n) and not two_names:
            some, places = self._plain(way[2]).split(columns, places, dead.get(columns["batch"][0], ()))
        raw = [{name: column[place] for name, column in columns.items()} for place in places]
        others = list(self._logged(n, way[2], raw, dead))
        if one_by_one or not self.mirror:
            return DecodedChanges(some, others)
        plain = [plain_of(one, self.names, deep=self.deep) for one in others]
        some += [one for one in plain if one is not None]
        return DecodedChanges(some, [one for one, as_plain in zip(others, plain, strict=True) if as_plain is None])

    def _plain(self, decoder: Decoder) -> PlainDecoder:
        if id(decoder) not in self._decoders:
            stream = self._view.ledger.stream
            self._decoders[id(decoder)] = PlainDecoder(decoder, stream, self.names if self.deep else None)
        return self._decoders[id(decoder)]

    def _logged(self, n: int, decoder: Decoder, raw: Sequence[Raw], dead: Dead) -> Iterator[Logged]:
        needed = bool(self.needs(n))
        good, bad = decoded_rows.decoded_by(decoder, raw)
        for row in good:
            yield self._one(row, decoder, needed=needed and not _is_in(dead, *_place(row)))
        for row in bad:
            self.refused.add(row[decoded_rows.ORD])
            if not self.mirror:
                name, other = self.identities(row)
                yield Logged(name, row[decoded_rows.BATCH], row[decoded_rows.INDEX], needed=False, other=other)
        for one in raw if self.mirror else ():
            for change in decoded_rows.truncates([one], decoder.decoding.names):
                alive = needed and not _is_in(dead, one["batch"], one["index"])
                self.truncates.append(Logged((), one["batch"], one["index"], alive, change))

    def _one(self, row: Sequence[Any], decoder: Decoder, *, needed: bool) -> Logged:
        place = _place(row)
        if self.mirror:
            change = decoded_rows.row_change(row, decoder.decoding)
            if change.op == "c" and change.unavailable and change.position:
                self.moving.add(change.position)
            return Logged(change.key, *place, needed, change if self.deep else _bare(change))
        name, other = self.identities(row)
        values = decoded_rows.values_of(row, decoder.decoding) | {
            OP: row[decoded_rows.OP],
            BEFORE: row[decoded_rows.BEFORE],
        }
        return Logged(name, *place, needed, values=values if self.deep else None, other=other)

    def identities(self, row: Sequence[Any]) -> tuple[str, str | None]:
        """Who a decoded change is in an append table, and who it is in one that an older Firn wrote, if this one is."""
        stream = self._view.ledger.stream
        first = decoded_rows.first_identity(row) if stream in self.state.first_identity else None
        return decoded_rows.identity(row, stream), first

    def _look(self, columns: Columns, places: Sequence[int]) -> None:
        """Learns the inline schemas."""
        ids, known = columns["schema_id"], {None, *self._facts.schemas, *self._facts.bad_schemas}
        new = {
            (ids[place], bool(columns["flat"][place])): columns["schema"][place]
            for place in places
            if ids[place] not in known
        }
        said = [
            {"table": "", "fact": "schema", "schema_id": name, "flat": flat, "value": text}
            for (name, flat), text in new.items()
        ]
        for facts in collected(said, ()).values():
            self._facts.schemas.update(facts.schemas)
            self._facts.bad_schemas.update(facts.bad_schemas)

    def _first_that_fits(self) -> _Way:
        """How changes would come into the table as it is, by the newest configuration that can. Raises CannotTell."""
        known = [
            self._view.settings(n) for n in sorted(self._view.live, key=lambda n: (n <= self._done, n), reverse=True)
        ]
        every = (*self._view.ledger.settings.values(), *([self._current] if self._current else ()))
        base = next((base for one in every for _, base, name in mirrors_on(one) if name == self.name), None)
        why = "no change of it is in the log" if base is None else f"it is the SQL of a pipeline over {base}"
        for settings in {id(one): one for one in (*known, *([self._current] if self._current else ()))}.values():
            try:
                if (found := self._planned(settings)) is not None:
                    return found
            except KeyChanged as error:
                why = str(error)
        raise CannotTell(why)

    def _way(self, n: int) -> _Way | None:
        """How changes of epoch n came into the table; None: not at all."""
        settings = self._view.settings(n)
        if self.state.basis.rebuilt and self._current:
            settings = self._current
        if id(settings) not in self._ways:
            try:
                self._ways[id(settings)] = self._planned(settings)
            except KeyChanged:  # it was rebuilt under another key since
                self._ways[id(settings)] = self._usual
        return self._ways[id(settings)]

    def _planned(self, settings: StreamConfig) -> _Way | None:
        """Raises KeyChanged: the table is none that these settings make."""
        sources = {source for epoch in self._view.ledger.epochs.values() for source in epoch.tables}
        targets = route(settings, dict.fromkeys(sources, TableFacts())).targets
        target = next((one for one in targets if one.name == self.name), None)
        if target is None:
            return None
        if target.feeds:
            raise CannotTell("they come through the SQL of a pipeline; firn rebuild runs it over the log again")
        plan = planned(target, settings, self.state)
        mode = MODES.get(self.state.properties.get(MODE, ""), plan.mode)
        if plan.mode != mode or (not plan.key and self.state.key() is None and target.rule.keyed):
            raise KeyChanged("firn.yaml does not name the key that its rows have")
        # As the table is: what firn.yaml wants of its columns by now may not be committed yet.
        there = {column.name: storable(column.type) for column in self.state.renamed(plan.due).columns[0]}
        columns = tuple(replace(one, type=there[one.name]) for one in plan.columns.columns if one.name in there)
        schemas, bad_schemas = self._facts.schemas, self._facts.bad_schemas
        decoding = replace(plan.decoding, columns=columns, schemas=schemas, bad_schemas=bad_schemas)
        return target, plan, decoded_rows.decoder(decoding, mirror=mode.keyed)


def changes(
    store: Store,
    view: View,
    logs: Sequence[TableLog],
    tick: Tick = lambda *_: None,
    *,
    one_by_one: bool = False,
) -> Iterator[tuple[TableLog, DecodedChanges]]:
    """All changes of the log that these tables have or may have, batch by batch. What a TableLog gathers is whole once
    all is read. `one_by_one`: none as plain.

    Raises StorageUnavailable, UnreadableBatch.
    """
    dead = _dead(store, view)
    wanted = list(_wanted(view, logs))
    eras = Generations(store, view.settings(max(view.ledger.epochs)), max(view.ledger.epochs)) if wanted else None
    kept = _kept(store, eras, wanted) if eras else {}
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            bodies = list(pool.map(lambda one: get(store, one[2].path), some))
        for place, ((n, number, batch, mine), body) in enumerate(zip(some, bodies, strict=True), first + 1):
            tick("log", place, len(wanted))
            if body is None:
                for log in mine:
                    log.gone.add(batch.id)
                continue
            era = eras.of_batch(batch.id, n) if eras else 0
            for order in dict.fromkeys(log.order(n) for log in mine):
                by = replace(order, generation=era, kept=kept)
                columns = raw_columns(body, n, batch.id, place_of(n, number), by)
                at = _by_table(columns["table"])
                for log in mine:
                    places = [one for source in sorted(log.sources(n)) for one in at.get(source, ())]
                    if places and log.order(n) == order:
                        yield log, log.decode(n, columns, places, dead, one_by_one=one_by_one)


def _by_table(tables: Sequence[str]) -> Mapping[str, Sequence[int]]:
    """The places of each source table."""
    if len(set(tables)) == 1:
        return {tables[0]: range(len(tables))}
    found: dict[str, list[int]] = {}
    for place, table in enumerate(tables):
        found.setdefault(table, []).append(place)
    return found


def _kept(
    store: Store, eras: Generations, wanted: Sequence[tuple[int, int, EpochBatch, Sequence[TableLog]]]
) -> dict[bytes, int]:
    """The generations of changes that came before under a lower one (changes.redelivered). Reads nothing where none was
    raised."""
    where = [(n, number, batch, mine[0].order(n)) for n, number, batch, mine in wanted]
    generations = {eras.of_batch(batch.id, n) for n, _, batch, _ in where}
    until = eras.until(generations)
    if until is None:
        return {}
    again = Early()
    for n, number, batch, order in where:
        if era := eras.of_batch(batch.id, n):
            again |= early(_placed(store, n, number, batch, replace(order, generation=era)), until)
    found: dict[bytes, int] = {}
    for epoch in eras.holding(again, generations) if again.names else ():
        for number, batch in enumerate(epoch.batches):
            by = replace(where[0][3], generation=eras.of_batch(batch.id, epoch.n))
            for name, lower in lowest(again.names, _placed(store, epoch.n, number, batch, by)).items():
                found[name] = min(lower, found.get(name, lower))
    return found


def _placed(store: Store, n: int, number: int, batch: EpochBatch, order: Order) -> Iterator[Placed]:
    body = get(store, batch.path)
    if body is not None:
        for one in raw_changes(body, n, batch.id, place_of(n, number), order):
            yield one["table"], one["ord"], one["ts"]


def _wanted(view: View, logs: Sequence[TableLog]) -> Iterator[tuple[int, int, EpochBatch, list[TableLog]]]:
    """(epoch, number in it, batch, whose changes it may hold)."""
    for n in sorted({*view.live, *view.aside}):
        sources = {log.name: log.sources(n) for log in logs}
        for number, batch in enumerate(view.ledger.epochs[n].batches):
            meta = view.meta(batch.id)
            there = sources.keys() if meta is None else {t for t, some in sources.items() if some & meta.tables.keys()}
            mine = [log for log in logs if log.name in there and sources[log.name]]
            if mine and batch.events:
                yield n, number, batch, mine


def _dead(store: Store, view: View) -> Dead:
    found: dict[str, set[int]] = {}
    for path in view.ledger.dead:
        if layout.commit_of(layout.dead_name(path)) is not None:
            for letter in read_dead(store, path):
                found.setdefault(letter.batch, set()).add(letter.index)
    return found


def _is_in(dead: Dead, batch: str, index: int) -> bool:
    return index in dead.get(batch, ())


def _place(row: Sequence[Any]) -> tuple[str, int]:
    return row[decoded_rows.BATCH], row[decoded_rows.INDEX]


def _bare(change: RowChange) -> RowChange:
    """The change as far as it says which change decides the row."""
    values = None if change.values is None else NOTHING
    return RowChange(change.op, change.key, change.position, change.order, values, source=change.source)


def _streams(state: TableState) -> set[str]:
    made = state.properties.get("firn.stream")
    return set(state.streams) | ({made} if made else set())
