"""What a commit job does for a table between commits (firn.maintenance.compaction_trigger): a look, and a little work.

Files that commits every few seconds delete from are best rewritten by the job that makes those commits: nobody
comes between. The rest is for the scheduled job, which decides by the Health that is left here.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.config.maintenance import Care
from firn.log.table_health import Health
from firn.maintenance import compaction_trigger, health
from firn_spark.driver.small_files import SMALL_BYTES
from firn_spark.maintenance import manifests
from firn_spark.maintenance.compaction import Budget, compact
from firn_spark.maintenance.health import measure, planned
from firn_spark.maintenance.listing import Cold, Listing
from firn_spark.not_eligible import Unfit
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import LostRace

TURN_BYTES: Final = 64_000_000  # that one turn rewrites: the next changes wait for it
TURN_MANIFESTS: Final = 16 * 1024 * 1024  # bytes of manifests, likewise: a Spark job of a second or two


class Turn:
    """One table's turn. `health`: how it is after it; None until it was looked at."""

    def __init__(
        self, spark: SparkSession, tables: Tables, stream: str, care: Care, now: datetime, cold: Cold | None = None
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._stream = stream
        self._care = care
        self._now = now
        self._cold = cold
        self.health: Health | None = None

    def take(self, table: Table, known: Health | None) -> Iterator[dict[str, Any]]:
        """Looks at the table, and rewrites what fits a turn. -> what was done, a log line each.

        Smaller files than driver.compact's large ones are left to it. Raises fence.CommitUnknown, and what Spark and
        the catalog raise.
        """
        began = time.monotonic()
        table = self._tables.look_again(table)
        if not compaction_trigger.may_look(table.state, known, self._now):
            return
        self.health, found = measure(self._spark, table, self._care, self._now, known, self._cold)
        budget = min(TURN_BYTES, health.left(known, self._care.compaction, self._now))
        most = Budget(budget, fresh=False, most=TURN_BYTES, least=SMALL_BYTES, manifests=TURN_MANIFESTS)
        if not self._worth(table, found, most):
            return
        try:
            done = compact(self._spark, table, self._stream, self._care, most, found=found)
        except (Unfit, LostRace) as why:
            yield {"status": "not compacted", "table": str(table.name), "error": str(why)}
            return
        seconds = round(time.monotonic() - began, 2)
        yield {"status": "compacted", "table": str(table.name), "seconds": seconds} | done.line()
        if done.effect:
            self.health, _ = measure(self._spark, self._tables.look_again(table), self._care, self._now, known)
            self.health = health.compacted(self.health, self._now, done.bytes + done.manifest_bytes)

    def _worth(self, table: Table, found: Listing, most: Budget) -> bool:
        """Whether anything fits a turn. A group that is larger than the budget must not hide the ones that would."""
        groups = planned(table, found, self._care, most=most.most, least=most.least)
        if any(group.bytes <= most.bytes for group in groups):
            return True
        if found.unfit:
            return False
        return bool(most.bytes and self._care.compaction.on and manifests.planned(self._spark, table, most.manifests))
