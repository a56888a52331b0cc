"""What a mirror table must remember beside its rows: the append-only table `{table}__deletes` (docs/adr/0011).

Its rows are facts: `_firn_op` d (a key was deleted), t (the table was truncated) and c (a create with unavailable
values, perhaps the second half of a changed key). `_firn_looked` names the table's snapshot that was looked at before a
delete was applied: there is the row that it removed. Older versions of Firn kept that row itself, as a fact k. Facts
are written before the table's own commit: early or doubled ones do no harm. What the newest snapshot's summary says
spares reading the table at all while changes come in order.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.nanoseconds import is_fine
from firn.changes.decode.texts import changes_form
from firn.changes.decode.types import BINARY, STRING, VARIANT, Column, Type, promotable, storable
from firn.changes.merge.fold import RowChange
from firn.changes.merge.ordering import total
from firn.changes.metadata_columns import FACTS_METADATA, METADATA, OP, POSITION
from firn.changes.positions import WIDTH
from firn.config import names
from firn.config.file_writing import NEWEST_FORMAT
from firn.config.names import TableName
from firn.tables.planning import ColumnGone, ColumnPlan, KeyChanged
from firn.tables.renames import Renames
from firn.tables.table_state import BY_NUMBER, CREATES, EPOCH, FACTS, NEWEST, TRUNCATED, floor_of
from firn_spark.files import row_lookup
from firn_spark.files.retyped_files import finish_retype, retype_columns
from firn_spark.tables import fence
from firn_spark.tables.alterations import rename, upgrade
from firn_spark.tables.evolve import FORMAT_VERSION, Table, Tables

KEEP = timedelta(days=15)  # SQS keeps a message for 14
_MODE = "deletes"


@dataclass(frozen=True)
class Remembered:
    """What the facts of one table say, from their metadata alone. Orders as in `_ord`, with its first byte; "" where
    there is none: of the newest fact, of the newest truncate. `creates`: whether there are facts of op c. `floor`: the
    order up to which facts were dropped."""

    newest: bytes = b""
    truncated: bytes = b""
    creates: bool = False
    floor: bytes = b""


def name_in(properties: Mapping[str, str]) -> TableName | None:
    """Where a table with these properties has its facts, if not in `{table}__deletes`: a rebuild in place brings its
    own, in one commit with the rows."""
    return TableName.parse(properties[FACTS]) if FACTS in properties else None


def facts_beside(tables: Tables, table: Table) -> Table | None:
    """What is remembered beside this table; None if nothing is."""
    default = TableName(table.name.namespace, table.name.table + names.FACTS)
    found = tables.load(name_in(table.state.properties) or default)
    return found if found is not None and found.state.properties.get("firn.mode") == _MODE else None


class FactsTable:
    """Where the facts of one mirror table are: `table`, None as long as there are none, and what its metadata says.
    `spark`: the session."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        of: TableName,
        stream: str,
        warehouse: str,
        name: TableName | None = None,
        *,
        numbers: bool = False,
    ) -> None:
        """`name`: the facts' own table, if it is not `{of}__deletes` (`name_in`); `numbers`: table_state.by_number."""
        self.spark = spark
        self._tables = tables
        self.stream = stream
        self._warehouse = warehouse
        self.name = name or TableName(of.namespace, of.table + names.FACTS)
        self._of = of
        self._numbers = numbers
        self.table: Table | None = None
        self.said = Remembered()

    def look(self, renames: Renames) -> None:
        """Looks at the facts' metadata as they are now, and has their columns called as `renames` says. Raises
        KeyChanged if a table of that name is not Firn's."""
        self.table = self._tables.load(self.name)
        if self.table is None:
            self.said = Remembered()
            return
        if self.table.state.properties.get("firn.mode") != _MODE:
            raise KeyChanged(
                f"{self.name} exists and is no memory of deletes; rename it, or give {self._of} another name"
            )
        self.table = finish_retype(self.spark, self._tables, self.table)
        due = renames.due(field["name"] for field in self.table.state.fields)
        self.table = rename(self.spark, self._tables, self.table, due, {})
        state = self.table.state
        told = [s for s in state.ancestry if NEWEST in s] or self._told_by_rows(self.table)
        self.said = Remembered(
            newest=max((bytes.fromhex(s[NEWEST]) for s in told if NEWEST in s), default=b""),
            truncated=max((bytes.fromhex(s[TRUNCATED]) for s in told if TRUNCATED in s), default=b""),
            creates=any(CREATES in s for s in told),
            floor=floor_of(state.properties, numbers=self._numbers),
        )

    def _told_by_rows(self, table: Table) -> list[Mapping[str, str]]:
        """What a summary tells, by the facts themselves: another tool has expired the snapshots that told it. Nothing
        where there are no facts. Raises what Spark raises."""
        if not table.state.records:
            return []
        if table.unreadable:
            rows = row_lookup.every(self.spark, table, [Column(OP, STRING), Column(POSITION, BINARY)])
            facts = list(zip(rows.columns[OP], rows.columns[POSITION], strict=True))
            newest = max((at for _, at in facts), default=None)
            truncated = max((at for op, at in facts if op == "t"), default=None)
            return [_told(newest, truncated, any(op == "c" for op, _ in facts))]
        op, position = f.col(OP), f.col(POSITION)
        newest, truncated, creates = (
            self.spark.table(table.files_sql)
            .agg(f.max(position), f.max(f.when(op == "t", position)), f.max(op == "c"))
            .collect()[0]
        )
        return [_told(newest, truncated, bool(creates))]

    def check(self, key: Collection[str]) -> None:
        """Raises ColumnGone if another tool dropped or renamed a column by which facts are found. `key`: names."""
        gone = self.table.state.gone & METADATA.union(key) if self.table else frozenset[str]()
        if gone:
            raise ColumnGone(
                f"{self.name}, by which deletes from {self._of} are remembered, has no column {min(gone)[:100]} any "
                "more: somebody dropped or renamed it, and late changes would bring deleted rows back. Rename it back, "
                "or rebuild the table"
            )

    def fit(self, plan: ColumnPlan) -> None:
        """Gives the facts' columns the types that the plan has: keys are looked up as they are by now. Where a commit
        had no facts, they stayed as they were. Raises fence.LostRace, fence.CommitUnknown."""
        own = self._types()
        if any(own.get(column.name, column.type) != column.type for column in plan.columns):
            self.ready(plan)

    def _types(self) -> dict[str, Type]:
        return {column.name: storable(column.type) for column in self.table.columns()[0]} if self.table else {}

    def append(
        self, table: Table, files: Sequence[Any], truncated: bytes, newest: bytes, creates: bool, last: int
    ) -> None:
        """Appends files of facts to the table (`ready`) in one snapshot that carries the stream's progress `last`.

        truncated, newest  orders of the newest truncate among these facts and of the newest fact, b"" for none;
        creates            whether creates are among them
        Raises fence.LostRace, fence.CommitUnknown.
        """
        said = {NEWEST: max(newest, self.said.newest).hex()}
        if truncated or self.said.truncated:
            said[TRUNCATED] = max(truncated, self.said.truncated).hex()
        if creates or self.said.creates:
            said[CREATES] = "true"
        append = table.java.newAppend()
        for file in files:
            append.appendFile(file)
        properties = {f"{EPOCH}{self.stream}": str(last), "firn.format": "1"} | said
        fence.commit(self.spark, table, append, files, properties, self.stream)

    def ready(self, plan: ColumnPlan) -> Table:
        """The table, made if there is none, with all columns that these facts need. Raises fence.LostRace."""
        newest = any(is_fine(column.type) or column.type == VARIANT for column in plan.columns)
        if self.table is not None:
            if newest and self.table.state.version < NEWEST_FORMAT:
                self.table = upgrade(self.spark, self._tables, self.table, NEWEST_FORMAT)
            there = {field["name"] for field in self.table.state.fields}
            missing = tuple(Column(column.name, column.type) for column in plan.columns if column.name not in there)
            # By its own types: where a commit had no facts, they stayed as they were.
            own = self._types()
            late = [column for column in plan.columns if own.get(column.name, column.type) != column.type]
            wider = tuple(c for c in late if promotable(own[c.name], c.type) and not changes_form(own[c.name], c.type))
            added = ColumnPlan(plan.columns, missing, wider)
            self.table = retype_columns(self.spark, self._tables, self.table, [c for c in late if c not in wider])
            self.table = fence.unmoved(self.table, self._tables.evolve(self.table, added, FACTS_METADATA))
            if self._numbers != (self.table.state.properties.get(BY_NUMBER) == "true"):
                said = {BY_NUMBER: str(self._numbers).lower()}
                self.table = fence.unmoved(self.table, self._tables.set_properties(self.table, said))
            return self.table
        columns = [Column(column.name, column.type) for column in plan.columns]
        properties = {"firn.mode": _MODE, "firn.stream": self.stream, "firn.of": str(self._of)}
        properties |= {BY_NUMBER: "true"} if self._numbers else {}
        properties |= {FORMAT_VERSION: str(NEWEST_FORMAT)} if newest else {}
        self.table = self._tables.create(self.name, self._warehouse, columns, FACTS_METADATA, (), properties)
        return self.table


def _told(newest: bytes | None, truncated: bytes | None, creates: bool) -> dict[str, str]:
    told = {NEWEST: total(bytes(newest)).hex()} if newest else {}
    told |= {TRUNCATED: total(bytes(truncated)).hex()} if truncated else {}
    return told | ({CREATES: "true"} if creates else {})


def truncate_at(order: bytes, source: str | None) -> RowChange:
    """A truncate as the specification has it. `order`: as in `_ord`, of a change with a position."""
    return RowChange("t", (), order[1 : 1 + WIDTH], order, None, source=source)


def newest_of(truncates: Sequence[RowChange]) -> bytes:
    """The order of the newest, b"" if there is none."""
    return max((one.order for one in truncates), default=b"")
