"""What the rows of an append table were joined with when they came: a rebuild joins them with the same snapshots."""

from collections.abc import Iterable, Sequence

from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.rebuild.plan import CannotRebuild, Part
from firn.tables.joined_snapshots import By, JoinedEpochs, recorded
from firn_spark.tables.evolve import Table, Tables
from firn_sql.check import check


def joined_before(
    tables: Tables, parts: Sequence[Part], name: TableName, live: Table | None
) -> dict[str, "JoinedBefore"]:
    """The joins of a rebuild, by stream. Raises as JoinedBefore."""
    return {part.stream: JoinedBefore(tables, part, name, live) for part in parts}


class JoinedBefore:
    """The joins of one stream's part of a rebuild.

    stops  epochs at which a range must end: those behind it were joined with other snapshots
    """

    def __init__(self, tables: Tables, part: Part, name: TableName, live: Table | None) -> None:
        """`name`: of the table that is rebuilt; `live`: as it is. Raises CannotRebuild where a snapshot is gone."""
        self._part, self._name = part, name
        self._tables = tables
        self._joining = [one for one in part.settings.pipelines if one.joins and one.target == name]
        told = recorded(part.stream, live.state.ancestry) if live is not None and self._joining else ()
        self._known = sorted(told, key=lambda one: one.last)
        self.stops = {n for one in self._known for n in (one.above, one.last)}
        self._there: dict[str, Table | None] = {}
        self._done = live.state.progress(part.stream) if live is not None else 0
        seen: set[tuple[int, str]] = set()
        for n in sorted(part.epochs):
            for pipeline in self._joined_in(n):
                one = self._at(n, pipeline)
                if (one.last, pipeline.name) not in seen:
                    seen.add((one.last, pipeline.name))
                    self._check(one, pipeline)

    def of(self, epochs: Iterable[int]) -> By | None:
        """What the rows of these epochs of a range were joined with; None where nothing is joined."""
        return next((self._at(n, one).by for n in sorted(epochs) for one in self._joined_in(n)), None)

    def _joined_in(self, n: int) -> list[Pipeline]:
        """The pipelines whose rows of an epoch are joined: what had no events then was joined with nothing."""
        tables = self._part.epochs[n].tables
        there = {source for source in self._part.sources if tables.get(source)} if self._joining else ()
        had = {one.name for source in there for one in self._part.settings.pipelines_of(source)}
        return [one for one in self._joining if one.name in had]

    def _at(self, n: int, pipeline: Pipeline) -> JoinedEpochs:
        found = next((one for one in self._known if one.above < n <= one.last), None)
        if found is None and n > self._done:
            raise CannotRebuild(
                f"epoch {n} of {self._part.stream} is not in {self._name} yet, and its rows are joined when it is: "
                f"run firn flush, or rebuild it --to {self._done}"
            )
        if found is None:
            why = "which snapshots its rows were joined with is not recorded any more"
            raise self._refusal(n, pipeline, why)
        return found

    def _check(self, one: JoinedEpochs, pipeline: Pipeline) -> None:
        for name in pipeline.joins:
            at, table = one.by.get(pipeline.name, {}).get(str(name)), self._load(name)
            if at is None:
                raise self._refusal(one.last, pipeline, f"it was not joined with {name} then")
            if table is None or table.state.uuid != at.uuid:
                raise self._refusal(one.last, pipeline, f"the table {name} that it was joined with is gone")
            if at.snapshot is not None and table.java.snapshot(at.snapshot) is None:
                raise self._refusal(one.last, pipeline, f"the snapshot {at.snapshot} of {name} has expired")
            if at.snapshot is not None and (column := _made_again(pipeline, table, at.snapshot)) is not None:
                raise self._refusal(one.last, pipeline, f"the column {column} of {name} was made again since")

    def _load(self, name: TableName) -> Table | None:
        if str(name) not in self._there:
            self._there[str(name)] = self._tables.load(name)
        return self._there[str(name)]

    def _refusal(self, n: int, pipeline: Pipeline, why: str) -> CannotRebuild:
        return CannotRebuild(
            f"{self._name} can't be rebuilt: of epoch {n} of {self._part.stream}, pipeline {pipeline.name}, {why}. The "
            "table is left as it is. What has to be made again at any time is a view (views:) over the events and what "
            "they are joined with; how long snapshots of the joined table stay, its care.expire.keep says"
        )


def _made_again(pipeline: Pipeline, table: Table, snapshot: int) -> str | None:
    """A column that the SQL names and that was another one in a snapshot, as when its values got another type: files of
    then do not have it."""
    number = table.java.snapshot(snapshot).schemaId()
    if number is None:
        return None
    then = table.java.schemas().get(number)
    now = {str(one["name"]).lower(): int(one["id"]) for one in table.state.fields}
    for join in check(pipeline.sql).joins:
        for column, _ in join.columns if join.table == str(table.name) else ():
            before = then.caseInsensitiveFindField(column)
            if before is not None and now.get(column.lower(), before.fieldId()) != before.fieldId():
                return column
    return None
