"""Changes of a table after which files that were planned before must not land: other names, another partitioning.

Each is one commit with a mark among the snapshots (fence.alter), so that a paused committer is refused and looks again.
New, wider and optional columns need none: a file that was planned without them is right.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.changes.metadata_columns import METADATA
from firn.config.partitions import Partition
from firn.tables import iceberg_format, partition_policy, table_state
from firn_spark.tables import fence
from firn_spark.tables.evolve import FORMAT_VERSION, Table, Tables, no_column, set_all
from firn_spark.tables.java import java_class


def altered(
    spark: SparkSession, tables: Tables, table: Table, both: Any, told: Mapping[str, str] = MappingProxyType({})
) -> Table:
    """The table after `both` (an org.apache.iceberg.Transaction on it), whose snapshot says what is `told`. Raises as
    fence.alter."""
    fence.alter(spark, table, both, told)
    return fence.unmoved(table, tables.look_again(table), alterations=1)


def rename(
    spark: SparkSession, tables: Tables, table: Table, names: Mapping[str, str], properties: Mapping[str, str]
) -> Table:
    """Renames columns (old name -> new name), which keep their ids, and sets properties, all in one commit. Raises
    fence.LostRace, fence.CommitUnknown."""
    if not names:
        return fence.unmoved(table, tables.set_properties(table, properties))
    new = {name: value for name, value in properties.items() if table.state.properties.get(name) != value}
    inferred = table.state.inferred
    if set(names) & set(inferred):
        moved = {names.get(name, name): kind for name, kind in inferred.items()}
        new[table_state.INFERRED_AS] = json.dumps(moved, ensure_ascii=False, sort_keys=True)
    both = table.java.newTransaction()
    update = both.updateSchema()
    for old, name in names.items():
        update = update.renameColumn(old, name)
    update.commit()
    if new:
        set_all(both.updateProperties(), new)
    return altered(spark, tables, table, both)


def upgrade(spark: SparkSession, tables: Tables, table: Table, wanted: int | None) -> Table:
    """The table in Iceberg's format `wanted`, as firn.yaml has it: in place, by one commit of metadata that changes no
    file. Position deletes that are there stay, until rows of their data files go again.

    Raises TerminalError for a table in a newer format, fence.LostRace, fence.CommitUnknown.
    """
    # A rebuild's branch is of a table whose main is read meanwhile: the next commit of main upgrades it.
    if table.branch is not None or not iceberg_format.upgrade_due(str(table.name), table.state, wanted):
        return table
    both = table.java.newTransaction()
    set_all(both.updateProperties(), {FORMAT_VERSION: str(wanted)})
    return altered(spark, tables, table, both)


def repartition(spark: SparkSession, tables: Tables, table: Table, wanted: Sequence[Partition]) -> Table:
    """New files are partitioned by these from here on, those that are there stay as they are; one commit of metadata.

    Raises ValueError for a column that the table does not have, or whose type has no such partition, and
    fence.LostRace, fence.CommitUnknown.
    """
    there = {field["name"] for field in table.state.fields} - METADATA
    for partition in wanted:
        if partition.column not in there:
            raise ValueError(no_column(table.name, partition))
    expressions = java_class(spark, "org.apache.iceberg.expressions.Expressions")
    words = [str(one) for one in wanted]
    both = table.java.newTransaction()
    update = both.updateSpec()
    before = table.partitions
    try:
        for word in before.keys() - set(words):
            update = update.removeField(before[word])
        for one in wanted:
            if str(one) not in before:
                term = getattr(expressions, "ref" if one.transform == "identity" else one.transform)
                update = update.addField(term(one.column) if one.size is None else term(one.column, one.size))
        update.commit()
    except Py4JJavaError as error:
        if not str(error.java_exception.getClass().getSimpleName()).startswith(("Validation", "IllegalArgument")):
            raise
        message = str(error.java_exception.getMessage())
        raise ValueError(f"{table.name} can't be partitioned by {', '.join(words)}: {message}") from error
    set_all(both.updateProperties(), partition_policy.asked(wanted))
    return altered(spark, tables, table, both)
