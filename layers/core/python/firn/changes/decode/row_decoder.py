"""Raw changes of one table to typed rows: what the commit job does with each staged change, wherever it runs. Pure.

A decoded row is a list: META, then the values of the table's columns in order.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

from firn.changes.change import LITERAL, PATCHES, STEPPED, STEPS
from firn.changes.decode.codec import Decoded, DecodeSettings, RowCodec
from firn.changes.decode.poison import poison, poisoned
from firn.changes.decode.types import FLOAT, Column
from firn.changes.metadata_columns import METADATA
from firn.changes.positions import order_key
from firn.errors import EventError

# _op c, u, r, d; _ts ms; _unavail: ordinals of the columns with a placeholder (values null if op is u, literal if c or
# r), OTHERS_LEFT_OUT among them: and all that the table does not have yet; _nulls: names of such columns that are null
# nevertheless; _code, _message: why the change is rejected; _table: the source table.
META: Final = (
    "_epoch", "_batch", "_index", "_op", "_ts", "_pos", "_ord", "_unavail", "_code", "_message", "_before", "_tx_order",
    "_occurrence", "_origin", "_table", "_nulls",
)  # fmt: skip
OTHERS_LEFT_OUT: Final = -1
# What the decoders read of a raw change.
READ: Final = (
    "epoch", "batch", "index", "op", "ts", "pos", "ord", "fault", "fault_text", "tx_order", "occurrence", "origin",
    "table", "connector", "flat", "key", "before", "after", "schema_id",
)  # fmt: skip
T = TypeVar("T")
ChangeId = tuple[str, int]
"""A staged change: its batch, and its index in it."""
Why = tuple[str, str]
"""Why a change is a dead letter: code and text."""


@dataclass(frozen=True)
class Decoding:
    """How to decode the changes of one table. `key`: ordinals of the key's columns in `columns`; `schemas`: columns of
    the inline schemas by id; `bad_schemas`: why a schema can't be read; `snapshot_reads`: whether op r counts;
    `no_key`: why no change can be a row of the table (planning.lacking_key), None as a rule; `several`: whether more
    than one source table feeds the table; `names`: the whole names of source tables that events name without schema;
    `unnamed`: names that no column can have (planning.ColumnPlan); `others`: columns that the table does not get, as
    only dead letters have values there: these are read all the same, or what is wrong with them would not be seen
    (tables.settled_plan); `closed`: names that a row may have beside those of its columns, where its schema takes no
    others (codec.RowCodec); `nanoseconds`: whether the table keeps those of inline schemas (table_state)."""

    columns: tuple[Column, ...]
    key: tuple[int, ...]
    settings: DecodeSettings
    schemas: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    bad_schemas: Mapping[str, str] = field(default_factory=dict)
    snapshot_reads: bool = True
    no_key: str | None = None
    several: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    unnamed: frozenset[str] = frozenset()
    others: tuple[Column, ...] = ()
    closed: frozenset[str] | None = None
    nanoseconds: bool = False

    @cached_property
    def ruled(self) -> bool:
        """Whether a schema demands anything of the rows."""
        return self.closed is not None or any(column.rule is not None for column in self.columns)

    @cached_property
    def singles(self) -> bool:
        """Whether the key has floats of 32 bits, or lists of them."""
        return any(FLOAT.name in str(self.columns[i].type) for i in self.key)


class Decoder:
    """Decodes with one codec for each inline schema, made when first met."""

    unordered: frozenset[str] = frozenset()  # faults that concern nothing but the order, where that matters little

    def __init__(self, decoding: Decoding) -> None:
        self.decoding = decoding
        self.width = len(decoding.columns)
        self.names = decoding.names
        self._codecs: dict[tuple[str | None, bool, bool, bool], RowCodec] = {}

    def rows(self, change: dict[str, Any]) -> Iterator[list[Any]]:
        """The decoded rows of one raw change: one as a rule, two for a changed key, none for what is left out."""
        if change["op"] == "r" and not self.decoding.snapshot_reads:
            return
        if change["fault"] is not None and change["fault"] not in self.unordered:
            yield self._rejected(change, change["fault"], change["fault_text"])
            return
        try:
            rows = list(self._rows(change))
        except Exception as error:  # noqa: BLE001 (one event's failure is one dead letter)
            why = poison(error)
            if why is not error:
                self._check()
            rows = [self._rejected(change, why.code, str(why))]
        yield from rows

    def fitting(self, changes: Sequence[dict[str, Any]], fit: Callable[[list[list[Any]]], T]) -> tuple[list[Any], T]:
        """The decoded rows of raw changes, and what `fit` makes of them: what comes next of what may fail. A change
        whose rows alone it fails on is rejected, and counts as a rejected row of its own."""
        each = [list(self.rows(change)) for change in changes]
        try:
            rows = [row for some in each for row in some]
            return rows, fit(rows)
        except Exception as error:
            poison(error)
            bad = poisoned(each, fit)
            if not bad:
                raise
            for place, why in bad.items():
                each[place] = [self._rejected(changes[place], why.code, str(why))]
            rows = [row for some in each for row in some]
            return rows, fit(rows)

    def _check(self) -> None:
        """Raises what making a codec raises: no event can be to blame for columns that none of them can be read by."""
        for flat in (False, True):
            RowCodec(self.decoding.columns, None, self.decoding.settings, flat=flat, lenient=True).decode(b"{}")

    def _rows(self, change: dict[str, Any]) -> Iterator[list[Any]]:
        raise NotImplementedError

    def codec(self, schema_id: str | None, flat: bool, *, key_only: bool = False, deleted: bool = False) -> RowCodec:
        """The codec of images with this inline schema; of what tells a key alone, or of rows that are deleted, which
        need not have all that a schema requires. Raises EventError bad_schema."""
        if schema_id is not None and schema_id in self.decoding.bad_schemas:
            raise EventError("bad_schema", self.decoding.bad_schemas[schema_id])
        name = (schema_id, flat, key_only, deleted)
        codec = self._codecs.get(name)
        if codec is None:
            columns = self.decoding.columns
            target = [columns[i] for i in self.decoding.key] if key_only else [*columns, *self.decoding.others]
            source = self.decoding.schemas[schema_id] if schema_id is not None else None
            codec = self._codecs[name] = RowCodec(
                target,
                source,
                self.decoding.settings,
                flat=flat,
                unnamed=() if key_only else self.decoding.unnamed,
                closed=None if key_only or deleted else self.decoding.closed,
                lenient=key_only or deleted,
            )
        return codec

    def _decode(self, change: dict[str, Any], image: str, *, key_only: bool = False, deleted: bool = False) -> Decoded:
        codec = self.codec(change["schema_id"], bool(change["flat"]), key_only=key_only, deleted=deleted)
        found = codec.decode(image.encode())
        return found if key_only or not self.decoding.others else found.first(self.width)

    def _row(
        self,
        change: dict[str, Any],
        op: str,
        values: Sequence[Any],
        unavailable: Sequence[int] = (),
        total: bytes | None = None,
        nulls: Sequence[str] = (),
    ) -> list[Any]:
        return [
            change["epoch"], change["batch"], change["index"], op, change["ts"], change["pos"],
            change["ord"] if total is None else total, list(unavailable) or None, None, None, None, change["tx_order"],
            change["occurrence"], change["origin"], self.names.get(change["table"], change["table"]),
            list(nulls) or None, *values,
        ]  # fmt: skip

    def _rejected(self, change: dict[str, Any], code: str, message: str) -> list[Any]:
        row = self._row(change, change["op"], [None] * self.width)
        row[8], row[9] = code, message
        return row


class MirrorDecoder(Decoder):
    """For a mirror table. Truncates are left out; an update that changes the key becomes a delete of the old key and a
    create of the new one, at one position."""

    def __init__(self, decoding: Decoding) -> None:
        super().__init__(decoding)
        self.key_names = [decoding.columns[i].name for i in decoding.key]

    def _rows(self, change: dict[str, Any]) -> Iterator[list[Any]]:
        op = change["op"]
        if op == "t":
            return
        if self.decoding.no_key is not None:
            if op != "d" and change["after"] is not None:
                self._decode(change, change["after"])  # what is wrong in the row itself is why it names no key
            raise EventError("no_key", self.decoding.no_key)
        if op == "d":
            yield self._row(change, "d", self._only_key(self._deleted_key(change)))
            return
        if change["after"] is None:
            raise EventError("bad_image", f"an event of op {op} without a row image after it")
        decoded = self._decode(change, change["after"])
        key = [decoded.values[i] for i in self.decoding.key]
        if None in key:
            self._require_key(change["after"])
        left_out, nulls = decoded.unavailable, list[str]()
        values = decoded.values if op == "u" else decoded.as_literal()
        if change["connector"] in LITERAL:
            values = decoded.as_literal()
            left_out, nulls = self._patch(change) if op == "u" and change["connector"] in PATCHES else ((), nulls)
            values = [None if i in left_out else value for i, value in enumerate(values)]  # no default is meant
            if op == "u" and change["connector"] in STEPPED:
                values, stepped = self._steps(values)
                nulls = [*nulls, *stepped]
        if op == "u" and change["before"] is not None:
            old = self._decode(change, change["before"], key_only=True).values
            if not _are_same(old, key) and self._has_key(change["before"]):
                # A changed key is a move: a delete, then a create that takes what it left out from the deleted row.
                yield self._row(change, "d", self._only_key(old), total=_before(change))
                op = "c"
        yield self._row(change, op, values, left_out, nulls=nulls)

    def _patch(self, change: dict[str, Any]) -> tuple[tuple[int, ...], list[str]]:
        """What an update leaves out that says nothing of the columns that it does not name."""
        codec = self.codec(change["schema_id"], bool(change["flat"]))
        absent, nulls = codec.named(change["after"].encode(), self.width)
        # A column that images do not carry (planning.without_others) is one that the row says nothing of.
        mine = {column.name for column in self.decoding.columns}
        nulls = [name for name in nulls if name not in METADATA and name not in mine and not name.startswith(STEPS)]
        return (OTHERS_LEFT_OUT, *absent), nulls

    def _steps(self, values: list[Any]) -> tuple[list[Any], list[str]]:
        """The values, steps without their mark, and the columns of these, with it."""
        places = [i for i, value in enumerate(values) if are_steps(value)]
        found = [value.removeprefix(STEPS) if i in places else value for i, value in enumerate(values)]
        return found, [STEPS + self.decoding.columns[i].name for i in places]

    def _deleted_key(self, change: dict[str, Any]) -> list[Any]:
        """The key of a delete: from the record's key if it names all columns, else from the row image."""
        for image in (change["key"], change["before"], change["after"]):
            if image is not None and self._has_key(image):
                return self._decode(change, image, key_only=True).values
        raise EventError("no_key", f"a delete that does not name the key [{', '.join(self.key_names)}]")

    def _only_key(self, key: Sequence[Any]) -> list[Any]:
        values: list[Any] = [None] * self.width
        for ordinal, value in zip(self.decoding.key, key, strict=True):
            values[ordinal] = value
        return values

    def _require_key(self, image: str) -> None:
        """A null is a value that a key may have; a key that is not there is none."""
        if not self._has_key(image):
            raise EventError("no_key", f"the row does not hold the key [{', '.join(self.key_names)}]")

    def _has_key(self, image: str) -> bool:
        try:
            row = json.loads(image)
        except ValueError:
            return False
        return isinstance(row, dict) and all(name in row for name in self.key_names)


class AppendDecoder(Decoder):
    """For an append table: one row for each change, truncates too, and deletes that `order_by` can't place."""

    unordered = frozenset({"no_order"})

    def _rows(self, change: dict[str, Any]) -> Iterator[list[Any]]:
        op = change["op"]
        image = change["after"] if change["after"] is not None and op != "d" else change["before"] or change["after"]
        if image is None:
            if op not in "td":
                raise EventError("bad_image", f"an event of op {op} without a row image after it")
            values: list[Any] = [None] * self.width
        else:
            # What an update left out stays null: an append table has no earlier row to take it from.
            decoded = self._decode(change, image, deleted=op == "d")
            values = decoded.values if op == "u" and change["connector"] not in LITERAL else decoded.as_literal()
            if change["connector"] in STEPPED:
                values = [None if are_steps(value) else value for value in values]
        row = self._row(change, op, values)
        row[10] = change["before"]
        yield row


def are_steps(value: object) -> bool:
    """Whether a value of a connector in STEPPED is steps."""
    return value.__class__ is str and str(value).startswith(STEPS)


def _are_same(some: Any, others: Any) -> bool:
    """Whether two values, or lists of them, are equal; NaN is equal to itself, as in a key (fold.key_of)."""
    if isinstance(some, list) and isinstance(others, list):
        return len(some) == len(others) and all(map(_are_same, some, others))
    return bool(some == others or (some != some and others != others))


def _before(change: dict[str, Any]) -> bytes:
    """The place in the total order of the delete that a changed key implies: just before the change itself."""
    if change["pos"] is None:
        return bytes(change["ord"][:-1]) + b"\0"
    return b"\1" + order_key(change["pos"], "d", change["ord"])
