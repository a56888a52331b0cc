"""A lake as a reader of some of it has it, through its history: columns that were renamed, dropped and came again, rows
that changed hands, and moments before there was anything to tell them by."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.types import IntegerType, LongType, StringType

from firn.changes.merge.fold import fold
from firn.config.reader_scopes import Scope
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake
from firn_lake.reading.row_filter import UnfitRows
from firn_lake.scoped_lake import ScopedLake
from firn_lake.sql.query import streamed_over
from firn_lake.sql.query_errors import QueryError
from firn_lake.tables import TableNotFound
from tests.integration.spark.test_specification import change, history
from tests.unit.lake.test_fresh import Ground
from tests.unit.lake.test_views import Viewed, row


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {})
    opened.create_namespace("shop")
    yield opened
    opened.close()


def rows_of(lake: ScopedLake, sql: str, as_of: Any = None) -> list[dict[str, Any]]:
    with streamed_over(lake.at(as_of, None, None, fresh=False), sql) as found:
        return pa.Table.from_batches(list(found.batches), found.schema).to_pylist()


def scoped(catalog: Catalog, **narrowed: Any) -> ScopedLake:
    return ScopedLake(Lake(catalog), Scope("r", ("shop.*",), **narrowed))


def test_names_are_todays_and_mean_the_same_columns_before(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64()), ("old", pa.string()), ("gone", pa.string())]))
    table.append(pa.table({"id": [1], "old": ["mine"], "gone": ["hidden"]}))
    with table.update_schema() as change:
        change.rename_column("old", "now").delete_column("gone")
    with table.update_schema() as change:
        change.add_column("gone", StringType())  # another one, which is granted
    table.append(pa.table({"id": [2], "now": ["theirs"], "gone": ["shown"]}))
    first, second = (one.snapshot_id for one in table.history())
    lake = scoped(catalog, columns={"shop.*": ("id", "now", "gone")})
    assert rows_of(lake, "SELECT * FROM t ORDER BY id") == [
        {"id": 1, "now": "mine", "gone": None}, {"id": 2, "now": "theirs", "gone": "shown"}
    ]  # fmt: skip
    assert rows_of(lake, "SELECT * FROM t", first) == [{"id": 1, "old": "mine"}]
    told = lake.table("t").columns(None, "", -1, 100)["columns"]
    assert [(one["name"], [was["name"] for was in one["history"]]) for one in told] == [
        ("id", ["id"]), ("now", ["old", "now"]), ("gone", ["gone"])
    ]  # fmt: skip
    lake = scoped(catalog, rows={"shop.*": "now = 'mine'"})
    assert [row["id"] for row in rows_of(lake, "SELECT * FROM t", first)] == [1]
    assert [row["id"] for row in rows_of(lake, "SELECT * FROM t", second)] == [1]
    lake = scoped(catalog, columns={"shop.*": ("id",)}, rows={"shop.*": "gone IS NULL"})
    assert rows_of(lake, "SELECT * FROM t") == [{"id": 1}]
    assert rows_of(lake, "SELECT * FROM t", first) == []  # nobody can tell: the column came later


def test_nothing_is_there_before_the_columns_were(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    with table.update_schema() as change:
        change.add_column("status", StringType())
    first = table.history()[0].snapshot_id
    lake = scoped(catalog, columns={"shop.*": ("status",)})
    assert rows_of(lake, "SELECT * FROM t") == [{"status": None}]
    with pytest.raises(NoSuchMoment):
        rows_of(lake, "SELECT * FROM t", first)
    with pytest.raises(NoSuchMoment):
        scoped(catalog, columns={"shop.*": ("nope",)}).table("t").schema(None)


@pytest.mark.parametrize("again", [True, False])
def test_changes_tell_no_row_of_before_the_columns_were(catalog: Catalog, again: bool) -> None:
    columns = pa.schema([("id", pa.int64()), *([("tenant", pa.int64())] if again else [])])
    table = catalog.create_table("shop.t", columns, properties={"firn.key": '["id"]'})
    for ids in ([1, 2], [3]):
        table.append(pa.table({"id": ids, **({"tenant": [8] * len(ids)} if again else {})}))
    if again:
        with table.update_schema() as change:
            change.delete_column("tenant")
    with table.update_schema() as change:
        change.add_column("tenant", LongType())
    table.append(pa.table({"id": [4, 5], "tenant": pa.array([7, None], pa.int64())}))
    table.delete(EqualTo("id", 1))  # type: ignore[arg-type]
    moments = [one.snapshot_id for one in table.history()]
    lake = scoped(catalog, rows={"shop.*": "tenant IS NULL"})

    def seen(at: int) -> set[int]:
        return {row["id"] for row in rows_of(lake, "SELECT id FROM t", at)}

    assert [seen(at) for at in moments[:2]] == [set(), set()]
    for steps in (False, True):
        for place, from_ in enumerate((None, *moments)):
            for to in moments[max(place - 1, 0) :]:
                rows = set() if from_ is None else seen(from_)
                for one in lake.table("t").changes(from_, to, steps=steps, columns=None).pylist():
                    assert one["_change"] in ("insert", "delete")
                    assert (one["id"] in rows) == (one["_change"] == "delete")
                    rows ^= {one["id"]}
                assert rows == seen(to)


def test_a_column_that_got_wider_is_compared_at_both_moments(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64()), ("tenant", pa.int32())]))
    table.append(pa.table({"id": [1, 2], "tenant": pa.array([7, 8], pa.int32())}))
    with table.update_schema() as change:
        change.update_column("tenant", LongType())
    table.append(pa.table({"id": [3], "tenant": [7]}))
    first, second = (one.snapshot_id for one in table.history())
    lake = scoped(catalog, columns={"shop.*": ("id",)}, rows={"shop.*": "tenant = 7"})
    assert rows_of(lake, "SELECT * FROM t ORDER BY id") == [{"id": 1}, {"id": 3}]
    assert rows_of(lake, "SELECT * FROM t", first) == [{"id": 1}]
    for from_, to, expected in ((None, None, {1, 3}), (first, None, {3}), (second, first, {3})):
        changes = lake.table("t").changes(from_, to, steps=False, columns=None)
        assert {row["id"] for row in changes.pylist()} == expected
    assert isinstance(table.schema().find_type("tenant"), LongType)
    assert not isinstance(table.schema().find_type("id"), IntegerType)


def test_a_row_that_changes_hands_comes_and_goes(catalog: Catalog) -> None:
    columns = pa.schema([("id", pa.int64()), ("tenant", pa.int64()), ("x", pa.string())])
    table = catalog.create_table("shop.t", columns, properties={"firn.key": '["id"]'})
    table.append(pa.table({"id": [1, 2, 3], "tenant": [7, 7, 8], "x": ["a", "b", "c"]}))
    changed = pa.table({"id": [1, 2, 3], "tenant": [8, 7, 7], "x": ["a", "B", "c"]})
    table.overwrite(changed, EqualTo("id", 1) | EqualTo("id", 2) | EqualTo("id", 3))  # type: ignore[operator]
    first = table.history()[0].snapshot_id
    lake = scoped(catalog, columns={"shop.*": ("id", "x")}, rows={"shop.*": "tenant = 7"})
    told = {
        row["id"]: (row["_change"], row["x"], row["_before"] and row["_before"]["x"])
        for row in lake.table("t").changes(first, None, steps=False, columns=None).pylist()
    }
    assert told == {1: ("delete", "a", "a"), 2: ("update", "B", "b"), 3: ("insert", "c", None)}
    without_key = scoped(catalog, columns={"shop.*": ("x",)}, rows={"shop.*": "tenant = 7"})
    assert without_key.table("t").schema(None)["key"] == ()
    assert sorted(
        (row["_change"], row["x"])
        for row in without_key.table("t").changes(first, None, steps=False, columns=None).pylist()
    ) == [("delete", "a"), ("delete", "b"), ("insert", "B"), ("insert", "c")]


def test_hidden_updates_are_no_changes(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64()), ("x", pa.string())]))
    table.append(pa.table({"id": [1], "x": ["a"]}))
    table.overwrite(pa.table({"id": [1], "x": ["b"]}), EqualTo("id", 1))  # type: ignore[arg-type]
    first = table.history()[0].snapshot_id
    lake = scoped(catalog, columns={"shop.*": ("id",)})
    assert lake.table("t").changes(first, None, steps=False, columns=None).pylist() == []


def test_a_view_takes_a_grant_of_its_own(catalog: Catalog) -> None:
    for name, mode in (("orders", "mirror"), ("per_day", "view"), ("memory", "deletes")):
        table = catalog.create_table(f"shop.{name}", pa.schema([("n", pa.int64())]), properties={"firn.mode": mode})
        table.append(pa.table({"n": [1]}))
    view = ScopedLake(Lake(catalog), Scope("r", ("shop.per_day",)))
    assert [one["name"] for one in view.tables()] == ["shop.per_day"]
    assert rows_of(view, "SELECT * FROM per_day") == [{"n": 1}]
    for name in ("orders", "memory"):
        with pytest.raises(TableNotFound):
            rows_of(view, f"SELECT * FROM shop.{name}")
    source = ScopedLake(Lake(catalog), Scope("r", ("shop.orders", "shop.memory")))
    for name in ("per_day", "memory"):
        with pytest.raises(TableNotFound):
            rows_of(source, f"SELECT * FROM shop.{name}")
        with pytest.raises(TableNotFound):
            source.table(f"shop.{name}")


def test_what_does_not_fit_is_an_error_and_not_all_rows(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]))
    table.append(pa.table({"id": [1], "at": pa.array([None], pa.timestamp("us"))}))
    for condition in ("nope = 1", "id = 'a'", "at = 'x'", "id LIKE '1'", "id"):
        with pytest.raises(UnfitRows):
            rows_of(scoped(catalog, rows={"shop.*": condition}), "SELECT * FROM t")
        assert [one["name"] for one in scoped(catalog, rows={"shop.*": condition}).tables()] == ["shop.t"]
    assert rows_of(scoped(catalog, rows={"shop.*": "at IS NULL"}), "SELECT id FROM t") == [{"id": 1}]
    assert rows_of(scoped(catalog, rows={"shop.*": "at IS NOT NULL"}), "SELECT id FROM t") == []


def test_columns_of_the_condition_need_not_be_seen(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64()), ("t", pa.string())]))
    table.append(pa.table({"id": list(range(100)), "t": [str(n % 3) for n in range(100)]}))
    lake = scoped(catalog, columns={"shop.*": ("id",)}, rows={"shop.*": "t = '1' AND id < 50"})
    assert rows_of(lake, "SELECT count(*) AS n, max(id) AS m FROM t WHERE id > 3") == [{"n": 16, "m": 49}]
    with pytest.raises(QueryError, match=r"shop\.t has id$"):
        rows_of(lake, "SELECT t FROM shop.t AS x")


def test_a_whole_table_has_all(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64()), ("_firn_pos", pa.binary())]))
    table.append(pa.table({"id": [1], "_firn_pos": [b"x"]}))
    lake = scoped(catalog)
    assert rows_of(lake, "SELECT id, _firn_pos FROM t") == [{"id": 1, "_firn_pos": b"x"}]
    (told,) = lake.tables()
    assert (told["rows"], told["files"]) == (1, 1)
    page = lake.table("t").snapshots("", 10, newest_first=False)
    assert (page["snapshots"][0]["added"], page["snapshots"][0]["total"]) == (1, 1)


@pytest.mark.parametrize("seed", range(3))
def test_fresh_rows_are_those_of_the_scope(tmp_path: Path, seed: int) -> None:
    ground = Ground(tmp_path)
    posted = history(seed, 60, 5)
    narrow = {"columns": {"lake.t": ("id", "v")}, "rows": {"lake.t": "w >= 'w13' OR w IS NULL"}}
    lake = ScopedLake(Lake(ground.catalog, lambda: ground.store), Scope("r", ("lake.t",), **narrow))

    def told() -> dict[int, Any]:
        with streamed_over(lake.at(None, None, None, fresh=True), "SELECT * FROM lake.t") as found:
            return {row["id"]: row for row in pa.Table.from_batches(list(found.batches), found.schema).to_pylist()}

    def expected(events: list[dict[str, Any]]) -> dict[int, Any]:
        rows = [dict(row.values) for row in fold({}, [change(one) for one in events]).rows.values()]
        return {one["id"]: {"id": one["id"], "v": one["v"]} for one in rows if (one["w"] or "w13") >= "w13"}

    ground.post(posted[:30])
    assert told() == expected(posted[:30])
    ground.commit(ground.folded(), ground.seal())
    ground.post(posted[30:])
    assert told() == expected(posted)
    for name in ("lake.t__deletes", "t__deletes", "lake.other"):
        with pytest.raises(TableNotFound) as refused:
            rows_of(lake, f"SELECT * FROM {name}")
        assert "tables: lake.t" in str(refused.value)
        assert "other" not in str(refused.value).replace(name, "")
    ground.catalog.close()


def test_a_view_shows_what_its_query_says_and_nothing_of_what_it_rests_on(tmp_path: Path) -> None:
    viewed = Viewed(tmp_path)
    viewed.land(row(1, 10, "a"), row(2, 11, "a"))
    viewed.post([row(3, 20, "b")])
    lake = ScopedLake(viewed.lake, Scope("r", ("lake.sums",)))
    for fresh, expected in ((False, {"a"}), (True, {"a", "b"})):
        sql = "SELECT * FROM lake.sums"
        with streamed_over(lake.at(None, None, None, fresh=fresh), sql, all_columns=True) as found:
            assert found.schema.names == ["v", "size", "total", "ids"]
            rows = pa.Table.from_batches(list(found.batches), found.schema).to_pylist()
        assert {one["v"] for one in rows} == expected
        for name in ("lake.t", "lake.over"):
            with pytest.raises(TableNotFound):
                streamed_over(lake.at(None, None, None, fresh=fresh), f"SELECT * FROM {name}").__enter__()
    for column in ("_firn_id", "_firn_state_0"):
        with pytest.raises(QueryError):
            rows_of(lake, f"SELECT {column} FROM lake.sums")
    (told,) = lake.tables()
    assert (told["name"], told["source"], told["stream"]) == ("lake.sums", None, None)
    changes = lake.table("lake.sums").changes(None, None, steps=False, columns=None)
    assert [{name for name in one if name.startswith("_firn")} for one in changes.pylist()] == [set()]
