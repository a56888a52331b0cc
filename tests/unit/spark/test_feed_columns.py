"""Which rows a pipeline's append table loses to an event that fails: that event's own, and no others."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from obstore.store import MemoryStore

from firn.commit.staged_changes import facts_of, raw_changes, said_by
from firn.config.reader import parse
from firn.ingest import accept
from firn.log import layout
from firn.log.store import get
from firn.tables.planning import MOST_COLUMNS
from firn.tables.routing import route
from firn.tables.table_state import TableState
from firn_spark.merge.append_columns import AppendColumns
from firn_spark.pipelines.feed_columns import FeedColumns
from firn_spark.staged.packed import CHANGES
from firn_sql.feed_plan import INPUT, plan_feeds

CONFIG = """
streams:
  web:
    envelope: rows
    tables:
      clicks: {{to: web.clicks, mode: append, {rule}}}
    pipelines:
      clean: {{sql: "INSERT INTO web.clean {sql}"}}
"""


def fed(
    rows: Sequence[bytes | dict[str, Any]],
    sql: str = "SELECT id, v FROM clicks",
    rule: str = "columns: {id: long, v: long}",
    known: str = "[]",
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The table's rows that a request becomes, and the numbers of those that become none. `known`: what the table knows
    of its source's columns."""
    config = parse(CONFIG.format(sql=sql, rule=rule))
    store, settings = MemoryStore(), config.streams["web"]
    body = b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    done = accept.accept(store, config, "web", body, now=datetime(2026, 11, 25, tzinfo=UTC), table="clicks")
    changes = raw_changes(get(store, layout.staged_path(done.batch_id)) or b"", 1, done.batch_id, 0, settings.order)
    said = [fact | {"epoch": 1, "batch": done.batch_id} for fact in said_by(changes)]
    counts = {("clicks", 1, "c"): len(changes)}
    target = next(one for one in route(settings, facts_of(counts, said)).targets if str(one.name) == "web.clean")
    state = TableState("m", {INPUT: json.dumps({"clean": known})}, (), None, ())
    plan = plan_feeds(target, settings, state)
    columns = FeedColumns(AppendColumns("web", False), plan.feeds)
    parts = [pa.Table.from_pylist([{name: one.get(name) for name in CHANGES.names} for one in changes], CHANGES)]
    found = list(columns.split(parts, plan.planned.decoding))
    good = [row for rows, _ in found for row in rows.to_pylist()]
    odd = [row["index"] for _, bad in found for row in bad.to_pylist()]
    names = [column.name for column in plan.planned.columns.columns]
    return [tuple(row[f"c{i}"] for i in range(len(names))) for row in good], odd


def test_a_row_that_fails_takes_no_other_with_it() -> None:
    good, odd = fed([{"id": 0, "v": 0}, {"id": 1, "v": "no number"}, {"id": 2, "v": 2}, {"id": 3, "v": 3}])
    assert sorted(good) == [(0, 0), (2, 2), (3, 3)]
    assert odd == [1]


def test_a_row_that_the_sql_fails_on_takes_no_other_with_it() -> None:
    """The first is not plain, and so decoded behind the others."""
    rows = [b'{"id": 0, "v": 1e2}', b'{"id": 1, "v": 1}', b'{"id": 2, "v": 5}', b'{"id": 3, "v": 3}']
    text = "CASE WHEN v = 1 THEN 'x' ELSE '1' END"
    good, odd = fed(rows, sql=f"SELECT id, CAST({text} AS INTEGER) AS v FROM clicks")
    assert sorted(one[0] for one in good) == [0, 2, 3]
    assert odd == [1]


def test_rows_without_any_column_yet() -> None:
    assert fed([{}, {}], sql="SELECT id, 1 AS one FROM clicks", rule="update: replace") == ([(1,), (1,)], [])


def test_events_of_too_many_columns_hold_no_table_of_a_pipeline() -> None:
    wide = [{"id": n, **{f"x{n}_{m}": m for m in range(200)}} for n in range(1 + MOST_COLUMNS // 200)]
    good, odd = fed(wide, sql="SELECT id FROM clicks", rule="columns: {id: long}")
    assert (good, odd) == ([(one["id"],) for one in wide], [])


def test_a_value_that_would_take_the_sql_its_types_is_a_dead_letter() -> None:
    """`id > 0` has no meaning for texts: one event must not hold the table."""
    rows: list[bytes | dict[str, Any]] = [{"id": 1}, {"id": "abc"}, {"id": 3}]
    sql, rule = "SELECT id FROM clicks WHERE id > 0", "update: replace"
    assert fed(rows, sql=sql, rule=rule, known='[["id", "long"]]') == ([(1,), (3,)], [1])


def test_a_value_that_leaves_the_sql_a_meaning_gives_its_column_another_type() -> None:
    rows: list[bytes | dict[str, Any]] = [{"id": 1}, {"id": "abc"}]
    good, odd = fed(rows, sql="SELECT id FROM clicks", rule="update: replace", known='[["id", "long"]]')
    assert (sorted(good), odd) == ([("1",), ("abc",)], [])


def test_everything_of_a_source_that_has_no_column_yet_is_rows_without_columns() -> None:
    assert fed([{}, {}], sql="SELECT * FROM clicks", rule="update: replace") == ([(), ()], [])


def test_maps_bytes_structs_and_lists_come_out_as_streams_have_them() -> None:
    nested = "s: 'struct<a: map<int, fixed[2]>>', l: 'list<map<date, string>>'"
    rule = f"columns: {{id: long, m: 'map<string, long>', f: 'fixed[3]', {nested}}}"
    row = {"id": 1, "m": {"a": 1, "b": None}, "f": "YWJj", "s": {"a": [[7, "YWI="]]}, "l": [{"2026-01-02": "x"}, None]}
    good, odd = fed([row, {"id": 2}], sql="SELECT *, MAP {'n': id} AS q, m['a'] AS a FROM clicks", rule=rule)
    whole = (1, [("a", 1), ("b", None)], b"abc", {"a": [(7, b"ab")]}, [[(date(2026, 1, 2), "x")], None], [("n", 1)], 1)
    assert (good, odd) == ([whole, (2, None, None, None, None, [("n", 2)], None)], [])
