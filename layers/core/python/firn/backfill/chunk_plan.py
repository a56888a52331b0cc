"""The plan of a backfill: its tables, and the chunks that they are read in. Fixed once, whoever reads them and however
often: a chunk that was staged is never read again, and together they are the whole table."""

from typing import Final

import msgspec

from firn.log import backfill_layout as layout
from firn.log.batches import FORMAT, UnreadableBatch
from firn.log.store import Store, get, put_if_absent


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a column is read: `sql` gives the JSON of its value, or with `convert` the text that is then written as the
    stream writes a value of type `oid` with `modifier`."""

    name: str
    sql: str
    oid: int = 0
    modifier: int = -1
    convert: bool = False


class PlannedTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source table. `schema`: the inline Connect schema of its rows; `key`: columns whose values its rows name as
    their key, where neither firn.yaml nor the table says which; `rows`: how many the source estimates."""

    name: str
    schema: str
    cells: list[Cell]
    key: list[str] = []
    rows: int = 0


class Chunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a table. `table`: its place in the plan; `relation`: what is read, quoted, with the number of its file
    (`file`) if the chunk is a range of places in it; `where`: which rows; `last`: whether it is read after all that are
    not."""

    table: int
    relation: str
    where: str = ""
    file: str = ""
    last: bool = False


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """`server`: what tells the source from another one (PostgreSQL's system identifier and timeline); `log`: where
    its log was when the plan was made, "" if nobody asked."""

    format: int
    backfill: str
    made_at: str
    tables: list[PlannedTable]
    chunks: list[Chunk]
    server: str = ""
    log: str = ""

    @property
    def rows(self) -> int:
        """How many rows there are, by the source's estimate."""
        return sum(table.rows for table in self.tables)


_decode: Final = msgspec.json.Decoder(Plan).decode


def fix(store: Store, stream: str, plan: Plan) -> Plan:
    """Puts the plan if there is none. -> the one that is there. Raises StorageUnavailable, UnknownOutcome."""
    path = layout.backfill_path(stream, plan.backfill, "plan")
    if put_if_absent(store, path, msgspec.json.encode(plan)):
        return plan
    return read(store, stream, plan.backfill) or plan


def read(store: Store, stream: str, backfill: str) -> Plan | None:
    """The plan, None if it is not made yet. Raises StorageUnavailable, UnreadableBatch (of a newer format)."""
    data = get(store, layout.backfill_path(stream, backfill, "plan"))
    found = None if data is None else _decode(data)
    if found is not None and found.format > FORMAT:
        raise UnreadableBatch(
            f"backfill {backfill} has a plan of format {found.format}: update this side of Firn first"
        )
    return found
