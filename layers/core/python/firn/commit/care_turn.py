"""Care for the tables of a range that was committed: those whose turn it is (maintenance/compaction_trigger.py)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final

from firn.commit.job_context import Work
from firn.config.names import TableName
from firn.maintenance.compaction_trigger import is_due

AT_ONCE: Final = 4  # tables: each may rewrite some files in memory


def take(work: Work, log: Callable[[dict[str, Any]], None], now: Callable[[], datetime]) -> None:
    """Several tables at once, where they are looked at so: of small ones each waits for storage, most of the time."""
    tables = dict.fromkeys((*work.touched, *(target for _, _, target in work.mirrors)))
    due = [table for table in tables if is_due(table, work.states.get(table))]
    if not due:
        return

    def cared(table: TableName) -> list[dict[str, Any]]:
        return list(work.lake.care(work.stream, table, work.config.care_of(table), now()))

    with ThreadPoolExecutor(min(AT_ONCE, work.lake.looks_at_once)) as pool:
        for table, lines in zip(due, pool.map(cared, due), strict=True):
            for line in lines:
                log({"stream": work.stream, "table": str(table)} | line)
