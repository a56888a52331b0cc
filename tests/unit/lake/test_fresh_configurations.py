"""Fresh reads of what waits under several configurations: each epoch is judged by the one that it names, as the commit
does it. Beside committed rows it is tests/integration/spark/test_pipelines_append.py."""

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from firn.config.reader import parse
from firn.ingest import accept
from firn.log import published_configs
from firn.log.store import open_store
from firn_lake.fresh.coming_ranges import coming
from firn_lake.fresh.pending import NotFresh
from firn_lake.lake import Lake
from tests.integration.spark.spark_lake import ndjson
from tests.unit.lake.test_fresh import Ground, event

OLD, NEW = "{name: m, type: int64}", "{name: m, type: int64, required: true}"
TWICE = "INSERT INTO lake.made SELECT id, n * 2 AS n FROM clicks"
TABLES = ("users", "clicks", "plain")


def config(field: str, sql: str = "", more: str = "") -> str:
    schema = f"schema: {{fields: [{{name: id, type: int64, required: true}}, {{name: n, type: int64}}, {field}]}}"
    return (
        "streams:\n  spec:\n    envelope: rows\n    order_by: n\n    tables:\n"
        f"      users: {{to: lake.users, key: [id], {schema}}}\n"
        f"      clicks: {{to: lake.clicks, mode: append, {schema}}}\n"
        "      plain: {to: lake.plain, key: [id]}\n"
        + more
        + (f"    pipelines:\n      made: {{sql: {sql!r}}}\n" if sql else "")
    )


def post(ground: Ground, *rows: Any, tables: tuple[str, ...] = TABLES) -> None:
    for table in tables:
        ground.now += timedelta(seconds=1)
        assert accept.accept(ground.store, ground.config, "spec", ndjson([*rows]), now=ground.now, table=table).accepted


def publish(ground: Ground, text: str) -> None:
    ground.config = published_configs.publish(ground.store, text)


def rows(ground: Ground, table: str, names: str = "id, n, m") -> list[tuple[Any, ...]]:
    lake = Lake(ground.catalog, lambda: ground.store)
    found = lake.sql(f"SELECT {names} FROM lake.{table} ORDER BY ALL", fresh=True).pylist()
    return [tuple(row.values()) for row in found]


def test_what_was_sealed_under_a_former_schema_is_judged_by_that(tmp_path: Path) -> None:
    ground = Ground(tmp_path, config(OLD))
    post(ground, {"id": 1, "n": 1})
    ground.seal()
    publish(ground, config(NEW))
    assert [rows(ground, table) for table in ("users", "clicks")] == [[(1, 1, None)]] * 2


def test_what_no_epoch_has_is_judged_by_the_schema_of_today(tmp_path: Path) -> None:
    ground = Ground(tmp_path, config(OLD))
    post(ground, {"id": 1, "n": 1}, {"id": 2, "n": 2, "m": 2})
    publish(ground, config(NEW))
    assert [rows(ground, table) for table in ("users", "clicks")] == [[(2, 2, 2)]] * 2


def test_where_a_commit_has_to_come_first_it_says_so_and_a_table_that_stays_as_it_is_is_read(tmp_path: Path) -> None:
    ground = Ground(tmp_path, config(OLD))
    post(ground, {"id": 1, "n": 1, "m": 1})
    ground.seal()
    publish(ground, config(NEW))
    post(ground, {"id": 1, "n": 2, "m": 2})
    for table in ("users", "clicks"):
        with pytest.raises(
            NotFresh, match=rf"lake\.{table} was changed, and changes wait that are judged by the former"
        ):
            rows(ground, table)
    assert rows(ground, "plain") == [(1, 2, 2)]


@pytest.mark.parametrize("sql", [TWICE.replace("n * 2", "n * 10"), ""])
def test_what_was_sealed_under_former_sql_runs_under_that(tmp_path: Path, sql: str) -> None:
    """Though it was changed, or taken out."""
    ground = Ground(tmp_path, config(OLD, TWICE))
    post(ground, {"id": 1, "n": 1})
    ground.seal()
    publish(ground, config(OLD, sql))
    assert rows(ground, "made", "id, n") == [(1, 2)]
    if sql:
        post(ground, {"id": 2, "n": 2})
        with pytest.raises(NotFresh, match=r"the SQL of lake\.made was changed"):
            rows(ground, "made", "id, n")


def test_ranges_end_where_the_commits_do() -> None:
    texts = (config(OLD), config(OLD, TWICE), config(NEW, TWICE))
    stream = [parse(text).streams["spec"] for text in texts]
    found = coming({1: stream[0], 2: stream[0], 4: stream[1], 7: stream[2], 9: stream[1]})
    assert [sorted(one.epochs) for one in found] == [[1, 2], [4], [7], [9]]
    assert [one.settings for one in found] == [stream[0], *stream[1:], stream[1]]


def test_a_column_that_the_next_commit_adds_has_its_default_in_the_rows_that_are_there(tmp_path: Path) -> None:
    rule = "streams:\n  spec:\n    tables: {app.t: {to: lake.t, key: [id]}}\n"
    ground = Ground(tmp_path, rule)
    ground.post([event("c", 10 + n, {"id": n, "v": "a", "n": n}) for n in range(3)])
    ground.commit(ground.folded(), ground.seal())
    columns = "x: {type: int, default: 5}, d: {type: date, default: 2024-02-29}, s: {type: string, default: '7'}"
    columns += (
        ", m: {type: 'decimal(9,2)', default: 1.5}, b: {type: binary, default: AP8=}, n: {type: long, default: 9}"
    )
    ground.store = open_store(f"file://{tmp_path}/staging")  # what reads has known the former one for some seconds
    publish(ground, rule.replace("[id]", f"[id], format: 3, columns: {{{columns}}}"))
    ground.post([event("u", 20, {"id": 1, "v": "b", "x": None}), event("c", 21, {"id": 3, "v": "c", "x": 6})])
    rest = (date(2024, 2, 29), "7", Decimal("1.50"), b"\0\xff")
    found = rows(ground, "t", "id, x, d, s, m, b, n")
    assert found == [(0, 5, *rest, 0), (1, None, *rest, 9), (2, 5, *rest, 2), (3, 6, *rest, 9)]
    assert rows(ground, "t WHERE x = 5", "id") == [(0,), (2,)]
