"""Raw changes of sealed batches in this process: read and placed by the code that the executors run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.placing import Order
from firn.jobs.facts import TableFacts
from firn.jobs.quarantine import High, Span
from firn.jobs.staged import facts_of, schema_texts
from firn.staging.store import Store
from firn_spark.packed import CHANGES
from firn_spark.read import SealedBatch, bodies, rows_of
from firn_spark.span import span_of_all

Change = dict[str, Any]


class Part:
    """Some changes of one table, as columns (packed.CHANGES) and as rows."""

    def __init__(self, columns: pa.Table) -> None:
        self.columns = columns

    @cached_property
    def rows(self) -> list[Change]:
        """A dict each. Ten times as large as the columns."""
        found: list[Change] = self.columns.to_pylist()
        return found


class Staged:
    """The changes of some batches, by source table."""

    def __init__(self, store: Store, staging: str, parts: Sequence[tuple[Sequence[SealedBatch], Order]], whole: bool):
        """`parts`: batches and what the stream says about their order. Raises as read.raw_changes."""
        self._tables: dict[str, list[pa.Table]] = {}
        self._said: list[Change] = []
        for batches, order in parts:
            for batch, body in bodies(store, staging, batches, whole=whole):
                changes, said = rows_of(batch, body, order)
                names = pc.unique(changes["table"]).to_pylist()
                for name in names:
                    mine = changes if len(names) == 1 else changes.filter(pc.equal(changes["table"], name))
                    self._tables.setdefault(name, []).append(mine)
                self._said += [fact | {"epoch": batch.epoch, "batch": batch.batch} for fact in said]

    def of(self, sources: Sequence[str], above: int = 0) -> Part:
        """The changes of some source tables, in epochs above `above`, in the order in which they arrived."""
        found = [one for source in sources for one in self._tables.get(source, ())]
        # Of one batch, all are of its epoch.
        found = [one for one in found if one.num_rows and one["epoch"][0].as_py() > above]
        if len(sources) > 1:
            found.sort(key=lambda one: one["epoch"][0].as_py())
        return Part(pa.concat_tables(found) if found else CHANGES.empty_table())

    def span(self, high: High | None) -> Span:
        """What the changes say about their source's time."""
        return span_of_all((batch for table in self._all() for batch in table.to_batches()), high)

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables."""
        counts: Counter[tuple[str, int, str]] = Counter()
        for table in self._all():
            told = table.group_by(["table", "epoch", "op"]).aggregate([([], "count_all")])
            for one in told.to_pylist():
                counts[one["table"], one["epoch"], one["op"]] += one["count_all"]
        return facts_of(counts, self._said)

    @cached_property
    def schemas(self) -> Mapping[str, str]:
        """The inline schemas by id."""
        return schema_texts(self._said)

    def _all(self) -> list[pa.Table]:
        return [table for tables in self._tables.values() for table in tables]
