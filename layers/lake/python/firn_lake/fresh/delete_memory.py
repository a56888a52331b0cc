"""What a mirror table remembers beside its rows (docs/adr/0011-memory.md), read by PyIceberg: deletes, truncates and
creates with unavailable values."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import NoSuchTableError

from firn.changes.decode.types import STRING, Column
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.ordering import total
from firn.changes.metadata_columns import LOOKED, OP, POSITION, SOURCE
from firn.changes.positions import WIDTH
from firn.config import names
from firn.config.names import TableName
from firn.tables.table_state import CREATES, FACTS, NEWEST, TRUNCATED, TableState, floor_of
from firn_lake.fresh.key_lookup import RowsByKey, rows_in
from firn_lake.long_history import summaries_of
from firn_lake.reading.versions import version_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from firn_lake.fresh.stored_rows import Stored

_ABOVE_ALL: Final = b"\xff"  # the first byte of an order is 0 to 3


class Facts:
    """The facts of one mirror table. Orders have their first byte; b"": there is none."""

    def __init__(self, catalog: "Catalog", table: "Table | None", state: TableState | None) -> None:
        """Looks at the facts' metadata; a table that is not there (None) has none. Raises what the catalog raises."""
        self._of = table
        self._table: Table | None = None
        if table is not None:
            *namespace, own = table.name()
            elsewhere = state.properties.get(FACTS) if state else None
            name = TableName.parse(elsewhere).identifier if elsewhere else (*namespace, own + names.FACTS)
            with contextlib.suppress(NoSuchTableError):
                self._table = catalog.load_table(name)
        told: list[dict[str, str]] = []
        if self._table is not None:
            told = list(summaries_of(self._table.metadata))
        self._newest = _highest(told, NEWEST)
        self.truncated = _highest(told, TRUNCATED)
        self.creates = any(CREATES in one for one in told)
        if not self._newest and self._table is not None and self._table.current_snapshot() is not None:
            # Another tool expired the snapshots that told it: the facts themselves are asked each time.
            self._newest, self.creates = _ABOVE_ALL, True
            self.truncated = max((one.order for one in self.truncates()), default=b"")
        self.floor = floor_of(self._table.properties) if self._table else b""

    def changes(self, key: Sequence[Column], keys: Collection[Key], low: bytes) -> list[RowChange]:
        """The deletes and the creates with unavailable values of these keys that are newer than `low`. Creates name no
        values, and "?" as what they left out."""
        if self._newest <= low:
            return []
        return [one for one in self._changes(key, keys) if one.order > low]

    def halves(self, key: Sequence[Column], positions: Collection[bytes]) -> list[RowChange]:
        """The creates with unavailable values, and the deletes at their positions and at these."""
        at = {*positions, *(one.position for one in self._changes([Column(OP, STRING)], {("c",)}))}
        if not at:
            return []
        prefixes = pa.array(list(at), pa.binary())

        def mine(batch: pa.RecordBatch) -> pa.Array:
            return pc.is_in(pc.binary_slice(batch.column(POSITION).cast(pa.binary()), 0, WIDTH), value_set=prefixes)

        return self._changes(key, None, mine)

    def _changes(
        self,
        key: Sequence[Column],
        keys: Collection[Key] | None,
        only: Callable[[pa.RecordBatch], pa.Array] | None = None,
    ) -> list[RowChange]:
        """The facts of op d and c, as RowsByKey.read takes `key`, `keys` and `only`."""
        if self._table is None:
            return []
        found = RowsByKey(version_of(self._table, self._table.current_snapshot()), key, [OP, POSITION, SOURCE])
        return [
            RowChange(op, one, position[:WIDTH], total(position), None, frozenset("?" if op == "c" else ""), source)
            for one, (op, position, source) in found.read(keys, only)
            if op in "dc"
        ]

    def truncates(self) -> list[RowChange]:
        """All truncates."""
        if self._table is None:
            return []
        op = Column(OP, STRING)
        found = RowsByKey(version_of(self._table, self._table.current_snapshot()), [op], [POSITION, SOURCE])
        return [
            RowChange("t", (), position[:WIDTH], total(position), None, source=source)
            for _, (position, source) in found.read({("t",)})
        ]

    def removed(self, stored: "Stored", columns: Sequence[Column], keys: Collection[Key]) -> list[tuple[Key, Row]]:
        """The rows of these keys that deletes removed, as far as the table still has the snapshots before them."""
        if self._table is None or self._of is None:
            return []
        facts = version_of(self._table, self._table.current_snapshot())
        found: list[tuple[Key, Row]] = []
        looked: set[int] = set()
        read = RowsByKey(facts, stored.key, [*(column.name for column in columns), OP, LOOKED], rows=True)
        for batch in read.batches(keys):
            if LOOKED in batch.schema.names:
                looked |= {int(one) for one in batch.column(LOOKED).to_pylist() if one is not None}
            kept = batch.filter(pc.equal(batch.column(OP), "k"))  # older versions of Firn kept the row itself
            found += rows_in(kept, stored.version, columns, stored.key, stored.unnamed)
        for snapshot in sorted(looked):
            found += stored.rows(columns, keys, snapshot)
        return found


def _highest(told: Iterable[dict[str, str]], name: str) -> bytes:
    return max((bytes.fromhex(one[name]) for one in told if name in one), default=b"")
