"""A change: the only thing that crosses from the envelopes into the rest of Firn. Row images stay raw JSON."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec

from firn.changes.record import Record

# create, update, delete, snapshot read, truncate: Debezium's `op`.
OPS = frozenset("cudrt")
# The connector of plain rows (envelopes/rows.py).
ROWS: Final = "rows"
# Connectors of images that mean what they say: they have no placeholder for a value that an update leaves out.
LITERAL: Final = frozenset({
    ROWS, "maxwell", "canal", "wal2json", "dms", "dynamodb", "mongodb_stream", "mongodb_stream_patch", "mongodb_patch",
    "sequin", "supabase", "hasura", "airbyte", "seed", "spanner",
})  # fmt: skip
# Of these, the emitters: a change to which one gives no order counts as it comes. Debezium's own stay without.
ARRIVING: Final = LITERAL - {"mongodb_patch", "spanner"}
# Of LITERAL, those whose updates (op u) say nothing of the columns that they do not name: they keep their values.
PATCHES: Final = frozenset({ROWS, "wal2json", "mongodb_stream_patch", "mongodb_patch", "sequin", "airbyte", "spanner"})

# Of PATCHES, those whose texts may begin with STEPS: what follows changes parts of a value (merge/nested_updates.py).
# Their envelope lets no value of a source begin so.
STEPPED: Final = frozenset({"mongodb_stream_patch", "mongodb_patch"})
STEPS: Final = "\0steps:"

# What the staged batch can hold: ts and tx_order are int64 columns.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
# The same, or its digits: so Debezium's documents show some numbers.
Number = Int64 | Annotated[str, msgspec.Meta(pattern="^-?([0-9]{1,18}|[1-8][0-9]{18})$")]
# What a table can hold of a time, ms: the years 1 to 9999.
TIMES: Final = range(-62_135_596_800_000, 253_402_300_800_000)
Time = Annotated[int, msgspec.Meta(ge=TIMES[0], le=TIMES[-1])]


def whole(numbers: "list[Number | None]") -> list[int | None]:
    """The numbers, of which some are digits."""
    if str in set(map(type, numbers)):
        return [int(one) if one is not None else None for one in numbers]
    return numbers  # type: ignore[return-value]


class Change(msgspec.Struct, frozen=True):
    """One change of one row (or, for a truncate, of one table), in the source's own words."""

    op: str  # one of OPS
    table: str  # "schema.table"; "database.table" where the source knows no schemas; "table" where it names neither
    ts: int | None  # the source's time, ms since the epoch
    connector: str  # Debezium's name of the source, or the emitter; "" if the event does not say
    order: str | None  # the order fields as text, for positions.position; None: the event has no position
    tx_order: int | None  # place in its transaction, when the source sends transaction metadata
    emitted: int | None  # when the connector made the event, ns: no two of its events share it, but a repeat does
    flat: bool  # the image carries `__op`, `__lsn`, … among its columns
    key: bytes | None  # the record's key, a JSON object, when the transport sent it
    before: bytes | None  # the row before, a JSON object
    after: bytes | None  # the row after, a JSON object
    schema: bytes | None  # the inline Connect schema of the value
    transaction: str | None = None  # the transaction's id, when the source sends transaction metadata


class Ignored(msgspec.Struct, frozen=True):
    """An event that changes no row: tombstone, heartbeat, transaction, message, schema_change, control, snapshot or
    empty."""

    reason: str


class Rejected(msgspec.Struct, frozen=True):
    """An event that can't be taken: a dead letter. `index` is its place in the request, from 0, where an event that
    holds several takes as many; `original` is then its part alone (envelopes/parts.py). `change` is there if it
    was read well and refused afterwards, for its table. `table`: the source table that the request named; `record`: the
    record of a stream that held it; `writer`: the name of who sent it, if it may write a part of the stream only."""

    index: int
    code: str
    message: str
    original: bytes
    change: Change | None = None
    table: str | None = None
    record: Record | None = None
    writer: str | None = None


class Parsed(msgspec.Struct, frozen=True):
    """What one request held. The columns have equal length and are sorted by `index`, the place in the request: an
    event that holds several takes a place for each."""

    index: list[int]
    op: list[str]
    table: list[str]
    ts: list[int | None]
    connector: list[str]
    order: list[str | None]
    tx_order: list[int | None]
    emitted: list[int | None]
    flat: list[bool]
    key: list[bytes | None]
    before: list[bytes | None]
    after: list[bytes | None]
    schema: list[bytes | None]  # equal schemas are one object
    transaction: list[str | None]
    ignored: dict[str, int]
    rejected: list[Rejected]

    def __len__(self) -> int:
        return len(self.index)

    def at(self, places: Sequence[int], rejected: Sequence[Rejected]) -> "Parsed":
        """The rows at these places alone, with `rejected` in place of what was."""
        columns = {name: [values[place] for place in places] for name in COLUMNS for values in [getattr(self, name)]}
        ordered = sorted(rejected, key=lambda one: one.index)
        return Parsed(**columns, ignored=self.ignored, rejected=ordered)

    def changes(self) -> Iterator[Change]:
        """The rows as `Change`: for tests and small batches, staging takes the columns."""
        named: list[list[Any]] = [getattr(self, name) for name in Change.__struct_fields__]
        return (Change(*row) for row in zip(*named, strict=True))


COLUMNS: Final = tuple(name for name in Parsed.__struct_fields__ if name not in ("ignored", "rejected"))
"""Those of Parsed: equal lists, a place for each row."""
