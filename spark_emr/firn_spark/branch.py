"""A table that is rebuilt on a branch of its own, and published in one commit (docs/adr/0012-rebuild.md).

The branch begins at an empty snapshot without a parent, so that its ancestry tells the rebuild's own progress. The
facts are in a table of the rebuild's own; `firn.deletes` names it. One compare-and-swap of the table's metadata makes
the branch main, tags what main was, and switches key, mode and facts: readers see the old table or the new one.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column, storable
from firn.changes.metadata_columns import MIRROR_METADATA
from firn.config import names
from firn.config.modes import MODES
from firn.config.names import TableName
from firn.config.partitions import Partition
from firn.rebuild.plan import retyped
from firn.tables import table_state
from firn.tables.table_state import FACTS, REBUILD
from firn_spark.merge.facts_table import name_in
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.java import java_class
from firn_spark.tables.metadata_cache import KNOWN

REBUILT: Final = "firn.rebuilt"  # table property: the number of the newest rebuild in place that was published
OF: Final = "firn.rebuild.of"  # table property of what a rebuild makes: what it is a rebuild of
_UNDER: Final = "firn.rebuild.config"  # in a branch's first snapshot: the configuration's sha, mode and key
_ICEBERG: Final = "org.apache.iceberg"
_ERRORS: Final = f"{_ICEBERG}.exceptions"
# An answer that is not known is settled by the next look: a swap that landed shows, and one that lands late is refused.
_LOOK_AGAIN: Final = frozenset({f"{_ERRORS}.CommitFailedException", f"{_ERRORS}.CommitStateUnknownException"})


def times_rebuilt(table: Table) -> int:
    """How often the table was rebuilt in place."""
    return int(table.state.properties.get(REBUILT, 0))


class Moved(Exception):
    """The table was committed to meanwhile, or an answer got lost: look at it, bring the branch up to it, try again."""


class Placed(Tables):
    """The catalog as a rebuild uses it: tables that it makes are marked as its own, and of the table that a branch was
    made of only the branch is seen, with its properties instead of main's."""

    def __init__(self, spark: SparkSession, mark: str) -> None:
        super().__init__(spark)
        self._mark = mark
        self._branch: Branch | None = None

    def see(self, branch: "Branch") -> None:
        """From now on the branch is what there is of its table."""
        self._branch = branch

    def create(
        self,
        name: TableName,
        warehouse: str,
        columns: Sequence[Column],
        metadata: Sequence[Column],
        partition_by: Sequence[Partition],
        properties: Mapping[str, str],
    ) -> Table:
        """The same, with a mark."""
        return super().create(name, warehouse, columns, metadata, partition_by, {**properties, OF: self._mark})

    def marked(self, name: TableName) -> bool:
        """Whether the table is one that this very rebuild made."""
        table = self.load(name)
        return table is not None and table.state.properties.get(OF) == self._mark

    def drop(self, name: TableName) -> None:
        """Removes a table and its files; nothing happens if there is none."""
        identifier = self._identifier(name)
        if self._catalog.tableExists(identifier):
            self._catalog.dropTable(identifier, True)

    def like(self, name: TableName, of: Table, warehouse: str, properties: Mapping[str, str]) -> Table:
        """An empty table with the columns of another one, all optional."""
        columns = [replace(column, type=storable(column.type), required=False) for column in of.columns()[0]]
        metadata = MODES[properties["firn.mode"]].columns if "firn.mode" in properties else MIRROR_METADATA
        return self.create(name, warehouse, columns, metadata, (), properties)

    def _look(self, name: TableName, java: Any) -> Table:
        branch = self._branch
        if branch is None or name != branch.of:
            return super()._look(name, java)
        state = KNOWN.state_of(self._spark, java, branch.name)
        return Table(name, java, replace(state, properties={**state.properties, **branch.properties}), branch.name)


@dataclass(frozen=True)
class Branch:
    """The branch of rebuild `number` of the table `of`. `properties`: those that main gets when it is published."""

    of: TableName
    number: int
    properties: Mapping[str, str]

    @property
    def name(self) -> str:
        """Its name."""
        return f"rebuild-{self.number}"

    @property
    def tag(self) -> str:
        """What main was before."""
        return f"before-rebuild-{self.number}"

    @property
    def facts(self) -> TableName:
        """The table of its facts."""
        return TableName.parse(self.properties[FACTS])


class InPlace:
    """The rebuild `number` of one table in place."""

    def __init__(self, spark: SparkSession, tables: Placed, of: TableName, number: int) -> None:
        self._spark = spark
        self._plain = Tables(spark)  # main, as everybody sees it
        self._tables = tables
        self._of = of
        self._number = number
        self._old_facts: TableName | None = None  # those of main, from the first try to publish on

    def main(self) -> Table:
        """Main as it is now. Raises LookupError if the table is gone."""
        table = self._plain.load(self._of)
        if table is None:
            raise LookupError(f"{self._of} is gone: it was dropped while it was rebuilt")
        return table

    def published(self) -> bool:
        """Whether this rebuild is main already."""
        return times_rebuilt(self.main()) >= self._number

    def begin(self, key: Sequence[str], mode: str, sources: Iterable[str], config: str) -> Branch:
        """The branch: the one that an earlier run began under the same configuration, or a new one.

        Raises Moved if another writer was quicker: try again.
        """
        table = self.main()
        base = table.java.operations().current()
        mine = {"firn.key": json.dumps(list(key), ensure_ascii=False), "firn.mode": mode}
        mine["firn.source"] = ", ".join(sources)
        root = self._root(base)
        under = f"{config} {mode} {mine['firn.key']}"  # the key may come from the log, which grows
        if root is not None and root.get(_UNDER) == under and not self._retyped(base):
            return self._seen(mine | {FACTS: root[FACTS]})
        if root is not None:  # its rows follow the rules of another configuration, or lack columns that were retyped
            branch = Branch(self._of, self._number, {FACTS: root[FACTS]})
            self._swap(table, base, self._builder(base).removeRef(branch.name))
            self._tables.drop(branch.facts)
            raise Moved
        name = f"{self._of.table}{names.FACTS}_{self._number}_{uuid.uuid4().hex[:8]}"
        mine[FACTS] = str(TableName(self._of.namespace, name))
        branch = Branch(self._of, self._number, mine)
        snapshot = self._empty(table, base, {REBUILD: str(self._number), _UNDER: under, FACTS: mine[FACTS]})
        self._swap(table, base, self._builder(base).setBranchSnapshot(snapshot, branch.name))
        return self._seen(mine)

    def publish(self, branch: Branch, streams: Iterable[str]) -> None:
        """Makes the branch main, in one commit.

        Raises Moved if main has more of a stream than the branch, or changed in this very moment; LookupError if it was
        rolled back meanwhile.
        """
        table = self.main()
        base = table.java.operations().current()
        new = table_state.parse(self._json(base), branch.name)
        for stream in streams:
            if table.state.progress(stream) > new.progress(stream):
                raise Moved
            if table.state.progress(stream) < new.progress(stream):
                raise LookupError(
                    f"{self._of} is at epoch {table.state.progress(stream)} of {stream} and was at "
                    f"{new.progress(stream)}: it was rolled back while it was rebuilt; settle that first (firn status)"
                )
        if new.snapshot_id is None or table.state.snapshot_id is None or self._retyped(base):
            raise Moved
        builder = self._builder(base)
        tag = java_class(self._spark, f"{_ICEBERG}.SnapshotRef").tagBuilder(table.state.snapshot_id).build()
        builder.setRef(branch.tag, tag)
        builder.setBranchSnapshot(new.snapshot_id, "main")
        builder.removeRef(branch.name)
        builder.setProperties(self._map({**branch.properties, REBUILT: str(branch.number)}))
        default = TableName(self._of.namespace, self._of.table + names.FACTS)
        self._old_facts = name_in(table.state.properties) or default
        self._swap(table, base, builder)
        self.tidy()

    def tidy(self) -> None:
        """Once it is published nobody reads the old facts any more; what can't be dropped is only in the way."""
        if self._old_facts is not None:
            with suppress(Py4JJavaError):
                self._tables.drop(self._old_facts)

    def _seen(self, properties: Mapping[str, str]) -> Branch:
        branch = Branch(self._of, self._number, properties)
        self._tables.see(branch)
        return branch

    def _root(self, base: Any) -> Mapping[str, str] | None:
        """The summary of the branch's first snapshot; None if there is no branch."""
        state = table_state.parse(self._json(base), f"rebuild-{self._number}")
        return next((summary for summary in state.ancestry if REBUILD in summary), None)

    def _retyped(self, base: Any) -> bool:
        return retyped(self._json(base), f"rebuild-{self._number}")

    def _empty(self, table: Table, base: Any, summary: Mapping[str, str]) -> Any:
        """A snapshot of no files without a parent (org.apache.iceberg.Snapshot), in no table yet.

        Iceberg makes one only for a table that is replaced: the transaction is thrown away, its snapshot is kept.
        """
        builder = self._plain.builder(table).withPartitionSpec(base.spec()).withSortOrder(base.sortOrder())
        builder = builder.withLocation(base.location()).withProperties(base.properties())
        replacing = builder.replaceTransaction()
        append = replacing.newFastAppend()
        for name, value in summary.items():
            append.set(name, value)
        append.commit()
        return replacing.table().currentSnapshot()

    def _swap(self, table: Table, base: Any, builder: Any) -> None:
        try:
            table.java.operations().commit(base, builder.build())
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() in _LOOK_AGAIN:
                raise Moved from error
            raise

    def _builder(self, base: Any) -> Any:
        return java_class(self._spark, f"{_ICEBERG}.TableMetadata").buildFrom(base)

    def _json(self, base: Any) -> str:
        return str(java_class(self._spark, f"{_ICEBERG}.TableMetadataParser").toJson(base))

    def _map(self, values: Mapping[str, str]) -> Any:
        found = java_class(self._spark, "java.util.HashMap")()
        for name, value in values.items():
            found.put(name, value)
        return found
