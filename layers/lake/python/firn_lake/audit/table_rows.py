"""The rows of a table as the audit looks at them: plain ones (sure_verdicts.PlainRow) by columns, the others one by
one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.audit.expected_changes import TableLog
from firn.audit.row_check import NOTHING
from firn.audit.sure_verdicts import WHOLE, PlainRow
from firn.changes.decode.types import STRING, Column
from firn.changes.merge.fold import Row
from firn.changes.metadata_columns import BEFORE, HELD, IDENTITY, OP, POSITION, SOURCE
from firn.tables.table_state import of_unnamed
from firn_lake.fresh.key_lookup import RowsByKey, keys_in, rows_in, values_in
from firn_lake.reading.rows import Rows
from firn_lake.reading.versions import Version

Others = list[tuple[Any, Any]]
"""(key, Row), or (identity, values) of an append table."""


class TableRows:
    """The rows of one version of a table, by `log`'s columns. With their values if `log.deep`."""

    def __init__(self, version: Version, log: TableLog) -> None:
        self._version, self._log = version, log
        self._columns = self.stored_columns() if log.deep else []

    def __iter__(self) -> Iterator[tuple[list[PlainRow], Others]]:
        """A batch at a time. Raises UnreadableFile, StorageUnavailable."""
        if self._version.id is None:
            return iter(())
        return self._of_mirror() if self._log.mirror else self._of_append()

    def stored_name(self, name: str) -> str:
        """What the table calls a column that firn.yaml renames and no commit has renamed yet."""
        return next((old for old, new in self._log.plan.due.items() if new == name), name)

    def stored_columns(self) -> list[Column]:
        """The columns as the table calls them."""
        return [replace(column, name=self.stored_name(column.name)) for column in self._log.columns]

    def _of_mirror(self) -> Iterator[tuple[list[PlainRow], Others]]:
        key, unnamed = self._log.key, of_unnamed(self._log.state.sources)
        for batch in RowsByKey(self._version, key, [c.name for c in self._columns], rows=True).batches(None):
            plain = self._are_plain(batch)
            mine = batch.filter(plain)
            others = [
                self._other(*one)
                for one in rows_in(batch.filter(pc.invert(plain)), self._version, self._columns, key, unnamed)
            ]
            yield list(self._plain(mine, key, unnamed)) if mine.num_rows else [], others

    def _are_plain(self, batch: pa.RecordBatch) -> pa.Array:
        if POSITION not in batch.schema.names:
            return pa.repeat(False, batch.num_rows)
        plain = pc.fill_null(pc.equal(pc.binary_length(batch[POSITION]), WHOLE), False)
        if self._log.deep and HELD in batch.schema.names:
            plain = pc.and_(plain, pc.is_null(batch[HELD]))
        return plain

    def _plain(self, batch: pa.RecordBatch, key: Sequence[Column], unnamed: str | None) -> Iterator[PlainRow]:
        # As ordering.total has them.
        orders = pc.binary_join_element_wise(b"\1", batch[POSITION].cast(pa.binary()), b"").to_pylist()
        sources: Any = repeat(unnamed)
        if SOURCE in batch.schema.names and batch[SOURCE].null_count < batch.num_rows:
            sources = pc.fill_null(batch[SOURCE], unnamed).to_pylist() if unnamed else batch[SOURCE].to_pylist()
        return zip(keys_in(batch, key), orders, sources, self._cells(batch, self._columns), strict=False)

    def _cells(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> Any:
        return zip(*values_in(batch, columns).values(), strict=True) if self._log.deep else repeat(None)

    def _other(self, key: Any, row: Row) -> tuple[Any, Row]:
        if not self._log.deep:
            return key, replace(row, values=NOTHING, held={})
        due = self._log.plan.due
        return key, replace(row, values=_renamed(row.values, due), held=_renamed(row.held, due)) if due else row

    def _of_append(self) -> Iterator[tuple[list[PlainRow], Others]]:
        columns = [*self._columns, Column(OP, STRING), Column(BEFORE, STRING)] if self._log.deep else []
        there = [name for name in (IDENTITY, *(c.name for c in columns)) if name in self._version.columns]
        if not there:
            return
        for batch in Rows(self._version, self._version.select(there, metadata=True)):
            identities = values_in(batch, [Column(IDENTITY, STRING)])[IDENTITY]
            rows = zip(identities, repeat(b""), repeat(None), self._cells(batch, columns), strict=False)
            named: list[PlainRow] = [row for row in rows if row[0] is not None]
            yield named, [(None, NOTHING)] * (len(identities) - len(named))


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}
