"""Data files that others wrote, rewritten by Spark as the table's own: Parquet with field ids, and without the rows
that deletes took from them, in whatever way these say so.

It is Iceberg's `replace`, as a compaction: no row and no progress changes, and it yields to whoever deletes from these
files meanwhile.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.errors import TerminalError
from firn_spark.not_eligible import ForeignFiles
from firn_spark.tables import deletes, fence
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import LostRace
from firn_spark.tables.rewriting import FILE, PLACE, rows_of
from firn_spark.tables.writing import write_rows

_PROPERTIES: Final = {"firn.format": "1"}


def rewrite(spark: SparkSession, tables: Tables, some: Sequence[Table], stream: str, paths: Collection[str]) -> int:
    """Rewrites these data files of the tables, a commit for each table. -> how many. Raises LostRace (another commit
    came between: nothing was done, or a table before), CommitUnknown, and what Spark raises."""
    count = 0
    for table in some:
        tasks = _tasks(table, paths)
        if tasks:
            _rewrite(spark, tables, table, stream, tasks)
        count += len(tasks)
    if not count:
        raise LostRace(f"{some[0].name} was rewritten while its rows were looked up")
    return count


def _tasks(table: Table, paths: Collection[str]) -> list[Any]:
    """The scan tasks of those of the files that the table has."""
    found = []
    try:
        for task in deletes.tasks_of(table, paths):
            found.append(task)  # noqa: PERF402 (what came before the exception counts)
    except LostRace:
        pass  # another table's
    return found


def _rewrite(spark: SparkSession, tables: Tables, table: Table, stream: str, tasks: Sequence[Any]) -> None:
    if table.unreadable:
        raise TerminalError(
            f"{table.name} has files that others wrote and that only Spark could read, and {table.unreadable}: have "
            "whoever wrote them write Parquet with the table's field ids, or drop the column"
        )
    read_at = table.head().snapshotId()
    with rows_of(spark, table, tasks) as rows:
        added = write_rows(spark, table, rows.drop(FILE, PLACE))
    update = table.java.newRewrite().validateFromSnapshot(read_at)
    for old in (*(task.file() for task in tasks), *deletes.vectors_of(tasks)):
        update.deleteFile(old)
    for file in added:
        update.addFile(file)
    now = tables.look_again(table)
    if now.state.fields != table.state.fields:
        raise LostRace(f"the columns of {table.name} changed while its files were written")
    fence.commit(spark, table, update, added, _PROPERTIES, stream)


def unreadable(name: TableName, why: ForeignFiles, rewrites: int) -> TerminalError:
    """What to say of a table whose foreign files come again and again."""
    return TerminalError(
        f"{name}: {why.why}, such as {why.paths[0]}, and {rewrites} rewrites did not help; find what else "
        "writes such files into the table and stop it, or rewrite them: CALL firn.system.rewrite_data_files("
        f"table => '{name}', options => map('rewrite-all', 'true'))"
    )
