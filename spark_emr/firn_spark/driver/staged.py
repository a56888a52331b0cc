"""Raw changes of sealed batches in this process: read and placed by the code that the executors run."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from firn.changes.placing import Order
from firn.jobs.facts import TableFacts
from firn.jobs.staged import facts_of, schema_texts
from firn.staging.store import Store
from firn_spark.read import SealedBatch, bodies, rows_of

Change = dict[str, Any]


class Staged:
    """The changes of some batches (dicts of packed.CHANGES), by source table."""

    def __init__(self, store: Store, staging: str, parts: Sequence[tuple[Sequence[SealedBatch], Order]], whole: bool):
        """`parts`: batches and what the stream says about their order. Raises as read.raw_changes."""
        self.by_table: dict[str, list[Change]] = {}
        self._said: list[Change] = []
        for batches, order in parts:
            for batch, body in bodies(store, staging, batches, whole=whole):
                changes, said = rows_of(batch, body, order)
                for change in changes.to_pylist():
                    self.by_table.setdefault(change["table"], []).append(change)
                self._said += [fact | {"epoch": batch.epoch, "batch": batch.batch} for fact in said]

    def all(self) -> list[Change]:
        """All changes."""
        return [change for changes in self.by_table.values() for change in changes]

    def of(self, sources: Sequence[str], above: int = 0) -> list[Change]:
        """The changes of some source tables, in epochs above `above`, in the order in which they arrived."""
        found = [one for source in sources for one in self.by_table.get(source, ()) if one["epoch"] > above]
        return found if len(sources) == 1 else sorted(found, key=lambda one: one["epoch"])

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables."""
        return facts_of(self.all(), self._said)

    @cached_property
    def schemas(self) -> Mapping[str, str]:
        """The inline schemas by id."""
        return schema_texts(self._said)
