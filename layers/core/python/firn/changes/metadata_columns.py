"""The columns that Firn writes beside the source's. All optional: an adopted table has rows without them."""

from typing import Final

from firn.changes.decode.iceberg_fields import HELD_TYPE
from firn.changes.decode.types import BINARY, STRING, TIMESTAMPTZ, Column

POSITION, TIME, OP, BEFORE, IDENTITY = "_firn_pos", "_firn_ts", "_firn_op", "_firn_before", "_firn_id"
HELD, AT, LOOKED, SOURCE, STREAM = "_firn_held", "_firn_at", "_firn_looked", "_firn_source", "_firn_stream"
TRANSACTION = "_firn_transaction"
METADATA = frozenset({POSITION, TIME, OP, BEFORE, IDENTITY, HELD, AT, LOOKED, SOURCE, STREAM, TRANSACTION})
MIRROR_METADATA = (Column(POSITION, BINARY), Column(TIME, TIMESTAMPTZ))
# Added when the first value is unavailable: most tables never need it.
HELD_METADATA = Column(HELD, HELD_TYPE)
# No field has these ids. In HELD, the order of all columns that it does not name (fold.OTHERS), and those of columns
# that the table does not have: JSON, name -> order in base64. In the property firn.held, the first: any may be held.
OTHERS_ID: Final = -1
NAMELESS_ID: Final = -2
# And what values are made of that updates changed parts of: nested_updates.written.
PARTS, PARTS_ID = "_firn_parts", -3
# Added when a second source table feeds a mirror table: most have one.
SOURCE_METADATA = Column(SOURCE, STRING)
FACTS_METADATA = (
    Column(OP, STRING), Column(POSITION, BINARY), Column(TIME, TIMESTAMPTZ), Column(AT, TIMESTAMPTZ), HELD_METADATA,
    Column(LOOKED, STRING), SOURCE_METADATA,
)  # fmt: skip
APPEND_METADATA = (
    Column(OP, STRING), Column(POSITION, BINARY), Column(TIME, TIMESTAMPTZ), Column(BEFORE, STRING),
    Column(IDENTITY, STRING),
)  # fmt: skip
STATE: Final = "_firn_state_"  # columns of a view begin so that only its next refresh needs
VIEW_METADATA = (Column(IDENTITY, BINARY),)  # 16 bytes that tell a row of a view from all others of it
# Of an append table, those that its rule's `metadata` asks for, by its words.
ASKED_METADATA = {
    "source": SOURCE_METADATA, "stream": Column(STREAM, STRING), "transaction": Column(TRANSACTION, STRING),
}  # fmt: skip


def is_own(name: str) -> bool:
    """Whether a column is one of Firn's own, which people see only if they ask."""
    return name in METADATA or name.startswith(STATE)
