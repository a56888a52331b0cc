"""What pgoutput's messages say, as Firn's changes: order, row images and schema of each. Pure, but for what a table is
looked up by, which comes in as a function.

Every change has its place: `order` is [LSN of the transaction's commit, LSN of the change], `tx_order` its number in
the transaction. So a change that is read again, in whatever pieces, is the same change again.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from firn.changes.change import COLUMNS, TIMES, Parsed, Rejected
from firn.changes.decode.source_encodings import DecodeSettings
from firn.errors import EventError
from firn.sources.postgres import pgoutput
from firn.sources.postgres.pgoutput import Message, Relation, UnreadableMessage
from firn.sources.postgres.row_form import UNCHANGED, RowForm, Value
from firn.sources.postgres.type_catalog import TypeCatalog

CONNECTOR: Final = "postgresql"


@dataclass(frozen=True)
class Refusal:
    """That changes of these ops can't be taken: a dead letter's code, and why."""

    code: str
    why: str
    ops: str = "cudt"


@dataclass(frozen=True)
class KnownTable:
    """What is known of a table beside its relation message: the types of its columns, and the columns of the key that
    its target has (None: those of the replica identity). `refusal`: which of its changes are dead letters, if any."""

    types: TypeCatalog
    key: tuple[str, ...] | None = None
    refusal: Refusal | None = None


LookUp = Callable[[Relation], KnownTable]


@dataclass(frozen=True)
class _Table:
    """A version of a table. `identity`: the places that say which row it is, in a key; `key`: those by which a row is
    another one when they change."""

    name: str
    form: RowForm
    identity: tuple[int, ...]
    key: tuple[int, ...]
    refusal: Refusal | None


@dataclass(frozen=True)
class _Transaction:
    commit_lsn: int
    ts: int | None
    id: str


class ChangeReader:
    """Takes the messages of one reading of the slot in their order, and collects changes until they are taken.

    settings  the stream's modes
    look_up   called for each relation message, once
    largest   bytes of a row image, above which a row is a dead letter
    """

    def __init__(self, settings: DecodeSettings, look_up: LookUp, largest: int) -> None:
        self._settings, self._look_up, self._largest = settings, look_up, largest
        self._tables: dict[int, _Table] = {}
        self._relations: dict[int, Relation] = {}
        self._forms: dict[tuple[object, ...], RowForm] = {}
        self._inside: _Transaction | None = None
        self._number = 0
        self._start()

    def _start(self) -> None:
        self._columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
        self._rejected: list[Rejected] = []
        self._ignored: dict[str, int] = {}
        self._index = 0

    def __len__(self) -> int:
        """Changes that are collected, dead letters included."""
        return len(self._columns["index"]) + len(self._rejected)

    def take(self) -> Parsed:
        """What was collected since the last `take`."""
        columns, rejected, ignored = self._columns, self._rejected, self._ignored
        self._start()
        return Parsed(**columns, ignored=ignored, rejected=rejected)  # type: ignore[arg-type]

    def read(self, lsn: int, data: bytes, message: Message, *, wanted: bool = True) -> None:
        """The next message. `lsn`: where it stands in the WAL; `data`: its bytes. Not `wanted`: its changes are counted
        and not collected, for they are staged. Raises UnreadableMessage."""
        match message:
            case pgoutput.Begin():
                ts = message.ts if message.ts in TIMES else None
                # Numbers of transactions come again after four billion.
                self._inside = _Transaction(message.commit_lsn, ts, f"{message.xid}:{message.commit_lsn}")
                self._number = 0
            case pgoutput.Commit():
                self._inside = None
            case Relation():
                self._relations[message.oid] = message
                self._tables.pop(message.oid, None)
            case pgoutput.Truncate():
                for oid in message.relations:
                    self._add("t", self._table(oid), lsn, data, None, None, None, wanted)
            case pgoutput.Other():
                if wanted and message.kind == "M":
                    self._ignored["message"] = self._ignored.get("message", 0) + 1
            case pgoutput.Skipped():
                self._number += 1
                if wanted:
                    self._ignored[message.reason] = self._ignored.get(message.reason, 0) + 1
            case pgoutput.OwnType():
                pass
            case _:
                self._row(lsn, data, message, wanted)

    def _row(
        self, lsn: int, data: bytes, message: pgoutput.Insert | pgoutput.Update | pgoutput.Delete, wanted: bool
    ) -> None:
        table = self._table(message.relation)
        if isinstance(message, pgoutput.Insert):
            self._add("c", table, lsn, data, None, message.new, None, wanted)
            return
        old, whole = message.old, not message.old_is_key
        if isinstance(message, pgoutput.Delete):
            self._add("d", table, lsn, data, old, None, whole, wanted)
            return
        new = message.new
        if old is None:
            self._add("u", table, lsn, data, None, new, None, wanted)
            return
        if whole:
            # The old row came whole: what the new one leaves out is in it.
            new = tuple(before if now is UNCHANGED else now for before, now in zip(old, new, strict=True))
        compared = table.key if whole else table.identity
        moved = any(old[place] != new[place] for place in compared if new[place] is not UNCHANGED)
        if moved:
            self._add("d", table, lsn, data, old, None, whole, wanted)
            self._add("c", table, lsn, data, None, new, None, wanted)
        else:
            self._add("u", table, lsn, data, old if whole else None, new, whole, wanted)

    def _table(self, oid: int) -> _Table:
        known = self._tables.get(oid)
        if known is not None:
            return known
        relation = self._relations.get(oid)
        if relation is None:
            raise UnreadableMessage(f"pgoutput sent a change of the table with OID {oid}, and did not say which it is")
        found = self._look_up(relation)
        form = RowForm(relation.columns, found.types, self._settings)
        # One object for equal schemas: a batch says each once, by comparing objects first.
        form = self._forms.setdefault((form.schema,), form)
        names = [column.name for column in relation.columns]
        named = () if found.key is None else tuple(names.index(name) for name in found.key if name in names)
        identity = relation.key if relation.identity != "f" else named
        made = _Table(f"{relation.schema}.{relation.table}", form, identity, named or identity, found.refusal)
        self._tables[oid] = made
        return made

    def _add(
        self,
        op: str,
        table: _Table,
        lsn: int,
        data: bytes,
        before: Sequence[Value] | None,
        after: Sequence[Value] | None,
        whole: bool | None,
        wanted: bool,
    ) -> None:
        """A change. `whole`: whether `before` is all of the row, or only what identified it."""
        inside = self._inside
        if inside is None:
            raise UnreadableMessage("pgoutput sent a change outside of a transaction")
        self._number += 1
        if not wanted:
            return
        index, self._index = self._index, self._index + 1
        form = table.form
        try:
            if table.refusal and op in table.refusal.ops:
                raise EventError(table.refusal.code, table.refusal.why)
            key = _key(form, table, after if after is not None else before)
            old = None if before is None else form.image(before) if whole else form.image_of(table.identity, before)
            new = None if after is None else form.image(after)
            if (size := max(len(old or b""), len(new or b""))) > self._largest:
                raise EventError(
                    "event_too_large",
                    f"the row has {size:,} bytes, the limit is {self._largest:,}: leave its largest column out of the "
                    "publication, or raise FIRN_MAX_EVENT_BYTES",
                )
        except EventError as error:
            original = _original(table.name, inside.commit_lsn, lsn, data)
            self._rejected.append(Rejected(index, error.code, str(error), original, table=table.name))
            return
        values = (
            index, op, table.name, inside.ts, CONNECTOR, f"[{inside.commit_lsn},{lsn}]", self._number, None, False,
            key, old, new, None if op == "t" else form.schema, inside.id,
        )  # fmt: skip
        for name, value in zip(_ORDERED, values, strict=True):
            self._columns[name].append(value)


_ORDERED: Final = (
    "index", "op", "table", "ts", "connector", "order", "tx_order", "emitted", "flat", "key", "before", "after",
    "schema", "transaction",
)  # fmt: skip


def _key(form: RowForm, table: _Table, row: Sequence[Value] | None) -> bytes | None:
    """What a record's key would be; None where nothing identifies rows, or the row does not hold it."""
    if row is None or not table.identity or any(row[place] is UNCHANGED for place in table.identity):
        return None
    return form.image_of(table.identity, row)


def _original(table: str, commit: int, lsn: int, data: bytes) -> bytes:
    """The bytes of a change that can't be taken, as a dead letter keeps them."""
    source = {"connector": CONNECTOR, "table": table, "sequence": [str(commit), str(lsn)]}
    plugin = "wal2json" if data[:1] == b"{" else "pgoutput"  # whose messages begin with a letter
    return msgspec.json.encode({"source": source, plugin: b64encode(data).decode()})
