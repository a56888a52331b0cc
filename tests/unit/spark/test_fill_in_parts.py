"""A view made by tasks, over files that are tables in memory and tasks that run one after the other in this process."""

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.changes.decode.types import DOUBLE, INT, STRING, Column, Type
from firn.config.names import TableName
from firn.errors import TerminalError
from firn_spark.arrow import Batches
from firn_spark.files.row_lookup import Files, Wanted
from firn_spark.pipelines import base_rows
from firn_spark.views import fill_in_parts as fills
from firn_spark.views import fill_task
from firn_spark.views.tables_at import TableAt
from firn_sql.views.clock import NEVER
from firn_sql.views.planner import plan
from firn_sql.views.refresh import AFTER, Refresh
from firn_sql.views.source_tables import source_table
from firn_sql.views.stored import stored
from firn_sql.views.sums import with_sums
from firn_sql.views.view_connection import connected
from firn_sql.views.view_parts import NotInParts, parts_of
from tests.property.test_views import QUERIES, bag
from tests.soak import few_cases, times

COLUMNS: Mapping[str, Mapping[str, Type]] = {
    "t": {"id": INT, "a": INT, "b": STRING, "x": DOUBLE, "m": INT},
    "u": {"id": INT, "a": INT, "c": STRING},
    "v": {"a": INT, "d": STRING},
}
SMALL = st.none() | st.integers(0, 3)
TEXT = st.none() | st.sampled_from(["p", "q", ""])
CELLS: Mapping[Any, Any] = {
    INT: SMALL, STRING: TEXT, DOUBLE: st.none() | st.sampled_from([0.5, -0.0, 0.0, 1e9, float("nan")]),
}  # fmt: skip
STATES = st.fixed_dictionaries({
    name: st.dictionaries(st.integers(0, 9), st.tuples(*(CELLS[one] for one in list(kinds.values())[1:])), max_size=9)
    for name, kinds in COLUMNS.items()
})  # fmt: skip
State = Mapping[str, Mapping[int, tuple[Any, ...]]]


class Frame:
    """Rows of Spark, by partitions."""

    def __init__(self, parts: Sequence[pa.Table]) -> None:
        self.parts = parts

    def repartitionByRange(self, _count: int, _by: str) -> "Frame":
        (rows,) = self.parts
        return Frame([rows.slice(place, 1) for place in range(len(rows))])

    def select(self, name: str) -> "Frame":
        return Frame([one.select([name]) for one in self.parts])

    def union(self, other: "Frame") -> "Frame":
        return Frame([*self.parts, *other.parts])

    def repartition(self, _count: int, by: str) -> "Frame":
        found: defaultdict[int, list[pa.Table]] = defaultdict(list)
        for part in self.parts:
            for place, label in enumerate(part[by].to_pylist()):
                found[label].append(part.slice(place, 1))
        return Frame([pa.concat_tables(some) for some in found.values()])


class Session:
    """Spark, as far as it is asked."""

    def createDataFrame(self, rows: Sequence[tuple[Any, ...]], schema: str) -> Frame:
        names = [one.split()[0] for one in schema.split(", ")]
        kinds = [fill_task.CUT.field(one).type if one in fill_task.CUT.names else None for one in names]
        columns = zip(*rows, strict=True)
        return Frame([pa.table([pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)], names=names)])


def mapped(frame: Frame, function: Batches, schema: pa.Schema) -> Frame:
    return Frame([pa.Table.from_batches(function(one.to_batches()), schema) for one in frame.parts])


def worked(frame: Frame, function: Batches, _layout: object, _writers: int) -> tuple[list[bytes], list[Any]]:
    told = [row for one in frame.parts for batch in function(one.to_batches()) for row in batch.to_pylist()]
    for row in told:
        if row["failure"] is not None:
            raise pickle.loads(row["failure"])
    return [row["done"] for row in told], []


def rows_of(name: str, state: State) -> pa.Table:
    rows = [(key, *row) for key, row in state[name].items()]
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS[name])
    kinds = {INT: pa.int32(), STRING: pa.string(), DOUBLE: pa.float64()}
    arrays = [pa.array(one, kinds[kind]) for one, kind in zip(columns, COLUMNS[name].values(), strict=True)]
    return pa.table(arrays, names=list(COLUMNS[name]))


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Callable[[State], None]:
    """Tasks find this in files: two rows each."""
    files: dict[str, pa.Table] = {}

    def every_row_in(some: Files, _ids: object, _columns: object, own: int, of: int) -> Iterator[pa.Table]:
        for path in some.files:  # whose rows are a row group each
            yield from (files[path].slice(number, 1) for number in range(own, len(files[path]), of))

    def planned(_spark: object, names: Sequence[str], _tables: object) -> dict[str, Files]:
        return {name: Files(Wanted(()), sorted(one for one in files if one.startswith(name))) for name in names}

    def portions(connection: Any, _layout: object, _how: object, rows: str) -> Iterator[pa.Table]:
        yield connection.sql(rows).to_arrow_table()

    for module, name, value in (
        (fill_task, "every_row_in", every_row_in), (fill_task, "portions", portions),
        (fill_task, "ordered", lambda _, rows: rows), (fill_task, "write_rows", lambda _, rows: [rows]),
        (fill_task, "_CUT_AT_ONCE", 20), (fills, "_planned", planned), (fills, "map_in_arrow", mapped),
        (fills, "worked", worked), (fills, "_labels", lambda _, count: [70 - one for one in range(count)]),
        (fills.row_lookup, "ids_of", lambda _: {}),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)

    def hold(state: State) -> None:
        files.clear()
        for name in COLUMNS:
            rows = rows_of(name, state)
            files.update({f"{name}{first}": rows.slice(first, 2) for first in range(0, len(rows), 2)})

    return hold


def made(sql: str, state: State, count: int, small: Sequence[str] = ()) -> tuple[Counter[Any], Counter[Any]] | None:
    """A view made by tasks, and by one process; None if no tasks make it."""
    tables = {
        name: TableAt(TableName("s", name), cast("Any", None), tuple(Column(*one) for one in kinds.items()), (), 1)
        for name, kinds in COLUMNS.items()
    }
    known = {name: source_table(one.columns, [one.columns[0].name]) for name, one in tables.items()}
    with ExitStack() as held:
        connection = held.enter_context(connected())
        found, _ = with_sums(plan(sql, known), known, connection)
        how = stored("lake.v", found, known, connection)
        try:
            parts = parts_of(found, known, connection, small.__contains__)
        except NotInParts:
            return None
        of = (parts, count, tables, how, cast("Any", type("Layout", (), {"partition": ()})()), connection, NEVER)
        files, number = fills.fill_in_parts(cast("Any", Session()), "lake.v", *of)
        other = held.enter_context(connected())
        for name in COLUMNS:
            other.register(f"{name}_now", rows_of(name, state))
        whole = how.rows(Refresh(other, found, cast("Any", Whole())).whole(AFTER))
        rows = pa.concat_tables(cast("Any", files)) if files else other.sql(f"{whole} LIMIT 0").to_arrow_table()
        assert len(rows) == number
        other.register("by_tasks", rows)
        return bag(other, "FROM by_tasks"), bag(other, whole)


class Whole:
    """All rows of each table."""

    def rows(self, source: str, _cut: int, columns: Sequence[str], _within: object) -> str:
        return f"SELECT {', '.join(columns)} FROM {source}_now"


@few_cases(8)
@pytest.mark.parametrize("sql", QUERIES)
@given(state=STATES, count=st.integers(1, 4), small=st.lists(st.sampled_from("tuv"), max_size=2))
@settings(max_examples=times(2, 100), deadline=None, suppress_health_check=list(HealthCheck))
def test_tasks_make_what_one_process_makes(
    tasks: Callable[[State], None], sql: str, state: State, count: int, small: list[str]
) -> None:
    tasks(state)
    found = made(sql, state, count, small)
    if found is not None:
        assert found[0] == found[1]


@given(files=st.integers(0, 9), count=st.integers(1, 20), groups=st.integers(1, 5))
def test_each_row_group_is_in_one_share(files: int, count: int, groups: int) -> None:
    found = [
        (path, group)
        for paths, own, of in fills.shares([f"f{n}" for n in range(files)], count)
        for path in paths for group in range(own, groups, of)
    ]  # fmt: skip
    assert sorted(found) == [(f"f{n}", group) for n in range(files) for group in range(groups)]


def test_what_a_row_makes_fail_is_the_views_error(tasks: Callable[[State], None]) -> None:
    """Of a value that rows are cut by, too."""
    state: State = {"t": {n: (n, "p" if n == 7 else "1", 0.5, n) for n in range(9)}, "u": {}, "v": {}}
    tasks(state)
    with pytest.raises(TerminalError, match=r"view lake\.v: Conversion Error: Could not convert string 'p'"):
        made("SELECT CAST(b AS INTEGER) AS k, max(x) AS m FROM t GROUP BY 1", state, 3)


def test_rows_that_a_query_leaves_out_make_nothing_fail(tasks: Callable[[State], None]) -> None:
    state: State = {"t": {n: (n, "p" if n == 7 else "1", 0.5, n) for n in range(9)}, "u": {}, "v": {}}
    tasks(state)
    found = made("SELECT CAST(b AS INTEGER) AS k, max(x) AS m FROM t WHERE id < 7 GROUP BY 1", state, 3)
    assert found is not None
    assert found[0] == found[1] != Counter()


def test_files_that_can_t_be_read_are_told_as_they_are(
    tasks: Callable[[State], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> Iterator[pa.Table]:
        raise fill_task.LostRace("a file is gone")
        yield

    state: State = {"t": {1: (1, "p", 0.5, 1)}, "u": {1: (1, "q")}, "v": {}}
    tasks(state)
    monkeypatch.setattr(fill_task, "every_row_in", lost)
    for sql in ("SELECT id FROM t", "SELECT t.id, c FROM t JOIN u USING (a)", "SELECT count(*) AS n FROM t"):
        with pytest.raises(fill_task.LostRace, match="a file is gone"):
            made(sql, state, 2)


def test_a_share_of_a_file_has_some_of_its_row_groups(tmp_path: Path) -> None:
    fields = [pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})]
    rows = pa.table([pa.array(range(10), pa.int32())], schema=pa.schema(fields))
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=3)
    files = Files(Wanted(()), [f"file://{tmp_path}/a.parquet"], home=f"file://{tmp_path}")
    found = [
        [one["id"].to_pylist() for one in base_rows.every_row_in(files, {"id": 1}, [Column("id", INT)], own, 3)]
        for own in range(3)
    ]
    assert found == [[[0, 1, 2], [9]], [[3, 4, 5]], [[6, 7, 8]]]
