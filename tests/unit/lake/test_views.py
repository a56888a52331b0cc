"""Views as whoever reads them finds them: rows and their changes, at any moment, at a cut, and with what waits.

The tables of views are written here by the rule of refreshes (firn_sql.views) without Spark; with the real job it is
tests/integration/spark/test_views_read.py.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from firn.config.names import TableName
from firn.log import cuts, published_configs
from firn.log.cuts import Cut
from firn.log.store import open_store
from firn.tables.snapshot_history import NoSuchMoment
from firn.tables.table_state import EPOCH
from firn.views.cut import Told
from firn.views.renamed_columns import COLUMNS, called_in_sql, meant_columns
from firn_lake.fresh import fresh_tables, fresh_view
from firn_lake.fresh.fresh_rows import FreshTable
from firn_lake.fresh.fresh_view import FreshView, FreshViewRows, _Tables
from firn_lake.fresh.pending import Look, NotFresh
from firn_lake.http_api import Query, answer_query
from firn_lake.lake import Lake
from firn_lake.reading.rows import Rows
from firn_lake.refs.keep import drop_cut, keep_cut
from firn_lake.refs.names import RefRefused
from firn_lake.refs.rollback import CannotRollBack
from firn_lake.sql.duck import NOTES, Limits
from firn_lake.sql.query import query
from firn_lake.writing.stream_ownership import FedByStream
from firn_sql.views.refresh import AFTER, Refresh
from firn_sql.views.view_connection import connected
from tests.integration.spark.test_commit import config, event
from tests.unit.lake.test_fresh import Ground

SUMS = "SELECT v, count(*) AS size, sum(n) AS total, list(id) AS ids FROM lake.t GROUP BY v, upper(v)"
OVER = "SELECT size, count(*) AS groups, min(v) AS least FROM lake.sums GROUP BY size"
VIEWS = {"lake.sums": SUMS, "lake.over": OVER}


def with_views(views: dict[str, str], rule: str = "key: [id]", more: str = "") -> str:
    return config(rule) + "views:\n" + "".join(f"  {name}: {{sql: {sql!r}{more}}}\n" for name, sql in views.items())


def row(number: int, lsn: int, v: str, op: str = "c") -> dict[str, Any]:
    values = {"id": number, "v": v, "w": "w", "n": number}
    return event(op, lsn, None if op == "d" else values, values if op == "d" else None)


class Viewed(Ground):
    """A stream with views over its table, and over these."""

    epoch = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, with_views(VIEWS))
        self.folder = folder
        self.lake = Lake(self.catalog, lambda: self.store)

    def land(self, *events: dict[str, Any]) -> Cut:
        """All of these are what there is: a commit of them in place of what was, and the views brought to its cut."""
        for name in ("lake.t", "lake.t__deletes"):
            if self.catalog.table_exists(name):
                self.catalog.drop_table(name)
        self.post(list(events))
        self.epoch = self.seal()
        self.commit(self.folded(), self.epoch)
        self.refresh()
        return self.newest()

    def newest(self) -> Cut:
        found = cuts.last(self.store, "spec")
        assert found is not None
        return found

    def refresh(self) -> None:
        for view in self.config.streams["spec"].views:
            sources: dict[str, Any] = {}
            for name in view.sources:
                table = self.catalog.load_table(name.identifier)
                sources[str(name)] = FreshTable(self.catalog, Look(self.store), name.identifier, table)
            of = FreshView(view, sources, None, datetime.now(UTC))
            with connected() as connection:
                found, how, tables = of.bound(connection)
                there = _Tables(connection, found, tables, of.checked, of.called)
                made = connection.sql(how.rows(Refresh(connection, found, there, of.moments).whole(AFTER)))
                made = made.to_arrow_table()
            read = {TableName.parse(n): _at(s.table) for n, s in sources.items()}
            said = Told(view.sha, read, {"spec": self.epoch}, of.moments[1] if view.by_clock else None)
            named = {name: _ids(one.table) for name, one in sources.items()}
            summary = said.summary() | {f"{EPOCH}_view": str(self.epoch), COLUMNS: json.dumps(named)}
            if not self.catalog.table_exists(view.table.identifier):
                properties = {"firn.mode": "view", "firn.key": '["_firn_id"]', "firn.stream": "spec"}
                self.catalog.create_table(view.table.identifier, made.schema, properties=properties)
            table = self.catalog.load_table(view.table.identifier)
            write = table.append if table.current_snapshot() is None else table.overwrite
            write(made, snapshot_properties=summary)

    def publish(self, views: dict[str, str], rule: str = "key: [id]", more: str = "") -> None:
        self.config = published_configs.publish(self.store, with_views(views, rule, more))
        self.lake = Lake(self.catalog, lambda: open_store(f"file://{self.folder}/staging"))

    def fresh(self, name: str = "lake.sums", **how: Any) -> list[dict[str, Any]]:
        return _ordered(self.lake.table(name).read(fresh=True, **how).pylist())


def _at(table: Table) -> tuple[str, int]:
    assert table.metadata.current_snapshot_id is not None
    return str(table.metadata.table_uuid), table.metadata.current_snapshot_id


def _ids(table: Table) -> dict[str, int]:
    return {one.name: one.field_id for one in table.schema().fields}


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


@pytest.fixture
def viewed(tmp_path: Path) -> Viewed:
    return Viewed(tmp_path)


def test_of_a_view_are_shown_the_columns_of_its_query(viewed: Viewed) -> None:
    viewed.land(row(1, 10, "a"), row(2, 11, "a"), row(3, 12, "b"))
    lake, names = viewed.lake, ["v", "size", "total", "ids"]
    table = lake.table("lake.sums")
    every = table.read(metadata=True).arrow().column_names
    assert every[:4] == names
    assert {*every[4:]} == {"_firn_id", "_firn_state_0"}
    assert table.read().arrow().column_names == names == list(table.columns())
    assert lake.sql("SELECT * FROM lake.sums").arrow().column_names == names
    assert lake.sql("SELECT * FROM lake.sums", metadata=True).arrow().column_names == every
    named = lake.sql("SELECT *, _firn_state_0 FROM lake.sums").arrow().column_names
    assert named == [*names, "_firn_state_0", "_firn_state_0"]
    assert "_firn_" not in table.to_sql()
    [shown] = [one for one in lake.tables() if one.name == "lake.sums"]
    assert (shown.mode, shown.source, shown.rows) == ("view", "lake.t", 2)


def test_changes_of_a_view_are_told_by_who_its_rows_are(viewed: Viewed) -> None:
    first = [row(1, 10, "a"), row(2, 11, "a"), row(3, 12, "b")]
    viewed.land(*first)
    table = viewed.lake.table("lake.sums")
    start = table.snapshots()[-1].id
    viewed.land(*first, row(4, 20, "a"), row(3, 21, "b", "d"), row(5, 22, "c"))
    found = _ordered(table.changes(start).pylist())
    assert [(one["_change"], one["v"], one["size"]) for one in found] == [
        ("delete", "b", 1), ("insert", "c", 1), ("update", "a", 3),
    ]  # fmt: skip
    updated = found[2]
    assert (updated["_before"]["size"], updated["_before"]["_firn_id"]) == (2, updated["_firn_id"])
    assert len(updated["_firn_id"]) == 16
    assert not [name for name in updated if name.startswith("_firn_state")]
    end = table.snapshots()[-1].id
    viewed.refresh()  # the same rows again
    assert table.changes(end).pylist() == []
    followed = [one for part in table.follow(start, until=end) for one in part.pylist()]
    assert {one["_change"] for one in followed} <= {"delete", "insert", "update"}
    assert {one["v"] for one in followed} == {"a", "b", "c"}


def test_at_a_cut_a_view_is_as_it_was_of_that_cut(viewed: Viewed) -> None:
    one = viewed.land(row(1, 10, "a"))
    two = viewed.land(row(1, 10, "a"), row(2, 20, "a"))
    lake, sql = viewed.lake, "SELECT size FROM lake.sums"
    for cut, size in ((one, 1), (two, 2)):
        found = query(lake.catalog, sql, cut=cut)
        assert found.to_pylist() == [{"size": size}]
        assert NOTES.encode() not in found.schema.metadata
    nothing_new = cuts.make("spec", two.n + 1, "2026-11-21T00:00:00.000Z", two.tables)
    assert lake.table("lake.sums").read(as_of=nothing_new).note == ""
    newer = cuts.make("spec", two.n + 1, "2026-11-21T00:00:00.000Z", {"lake.t": 7})
    late = query(lake.catalog, sql, cut=newer)
    assert late.to_pylist() == [{"size": 2}]
    [note] = json.loads(late.schema.metadata[NOTES.encode()])
    assert f"lake.sums is of cut {two.n} of spec" in note
    assert cuts.write(viewed.store, newer)
    answer = answer_query(lake, Query(sql, cut=newer.n, stream="spec"), Limits())
    assert json.loads(b"".join(answer.parts))["notes"] == [note]
    before = cuts.make("spec", one.n - 1, "2026-11-21T00:00:00.000Z", {"lake.t": 7})
    with pytest.raises(NoSuchMoment, match=f"no snapshot of cut {one.n - 1} of spec .* of cut {one.n};"):
        query(lake.catalog, sql, cut=before)
    with pytest.raises(NoSuchMoment, match="a view of what spec feeds"):
        query(lake.catalog, sql, cut=cuts.make("other", 3, "2026-11-21T00:00:00.000Z", {}))


def test_a_kept_cut_holds_the_views_of_its_tables_too(viewed: Viewed) -> None:
    """Under that name, after expiry, as they were; until it is dropped."""
    kept_at, told = datetime(2026, 11, 21, tzinfo=UTC), list[str]()
    one = viewed.land(row(1, 10, "a"), row(2, 11, "a"))
    kept = keep_cut(viewed.catalog, viewed.store, "month-end", one, kept_at, told.append)
    assert (sorted(kept.views), sorted(kept.tables), told) == (["lake.over", "lake.sums"], [
        "lake.over", "lake.sums", "lake.t"], [])  # fmt: skip
    held = {name: _at(viewed.catalog.load_table(name))[1] for name in VIEWS}
    assert kept.views == held
    viewed.catalog.load_table("lake.t").delete("id = 1")
    viewed.epoch += 1
    viewed.refresh()
    assert keep_cut(viewed.catalog, viewed.store, "month-end", one, kept_at) == kept  # the same again
    for name in VIEWS:
        table = viewed.catalog.load_table(name)
        table.maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()
        assert viewed.catalog.load_table(name).metadata.refs["month-end"].snapshot_id == held[name]
    sql = "SELECT s.size, o.groups FROM lake.sums s, lake.over o WHERE s.size = o.size"
    for which in ("month-end", one.n):
        found = query(viewed.catalog, sql, cut=viewed.lake.cut(which))
        assert found.to_pylist() == [{"size": 2, "groups": 1}]
        assert NOTES.encode() not in found.schema.metadata
    assert viewed.lake.sql(sql).pylist() == [{"size": 1, "groups": 1}]
    with pytest.raises(RefRefused, match="holds cut"):
        viewed.lake.table("lake.sums").drop("month-end")
    drop_cut(viewed.catalog, viewed.store, "month-end")
    assert not [name for name in VIEWS if "month-end" in viewed.catalog.load_table(name).metadata.refs]


def test_a_view_that_no_snapshot_has_of_a_cut_keeps_none_from_being_kept(viewed: Viewed) -> None:
    told = list[str]()
    one = viewed.land(row(1, 10, "a"))
    viewed.catalog.drop_table("lake.over")
    of_before = cuts.make("spec", one.n - 1, one.made_at, one.tables)
    kept = keep_cut(viewed.catalog, viewed.store, "early", of_before, viewed.now, told.append)
    assert (kept.views, len(told)) == ({}, 2)
    assert "the view lake.sums is not kept: the view lake.sums has no snapshot of cut" in told[0]
    assert "lake.over is not made yet" in told[1]
    late = cuts.make("spec", one.n + 1, one.made_at, one.tables)
    assert [*keep_cut(viewed.catalog, viewed.store, "late", late, viewed.now).views] == ["lake.sums"]


def test_a_fresh_view_has_what_waits_for_its_tables(viewed: Viewed) -> None:
    """As the next refresh makes it, `_firn_id` and all; a view over it too."""
    first = [row(1, 10, "a"), row(2, 11, "a"), row(3, 12, "b")]
    viewed.land(*first)
    table = viewed.lake.table("lake.sums")
    assert isinstance(table.read(fresh=True), Rows)  # nothing waits
    more = [row(4, 20, "a"), row(3, 21, "b", "d"), row(5, 22, "c")]
    viewed.post(more)
    assert isinstance(table.read(fresh=True), FreshViewRows)
    shown = {name: viewed.fresh(name, metadata=True) for name in VIEWS}
    assert [(one["v"], one["size"], one["ids"]) for one in shown["lake.sums"]] == [("a", 3, [1, 2, 4]), ("c", 1, [5])]
    assert [(one["size"], one["groups"]) for one in shown["lake.over"]] == [(1, 1), (3, 1)]
    assert viewed.fresh(columns=["v"], filter="size > 1") == [{"v": "a"}]
    assert len(viewed.fresh(limit=1)) == 1
    joined = "SELECT t.id, s.size FROM lake.t t JOIN lake.sums s USING (v) ORDER BY id"
    assert viewed.lake.sql(joined, fresh=True).pylist() == [
        {"id": 1, "size": 3}, {"id": 2, "size": 3}, {"id": 4, "size": 3}, {"id": 5, "size": 1},
    ]  # fmt: skip
    viewed.land(*first, *more)
    assert {name: _ordered(viewed.lake.table(name).read(metadata=True).pylist()) for name in VIEWS} == shown
    assert {name: viewed.fresh(name, metadata=True) for name in VIEWS} == shown


def test_a_fresh_view_goes_on_where_a_column_of_a_table_was_renamed(viewed: Viewed) -> None:
    """Also where its changes still wait, and for a view over the view."""
    views = VIEWS | {"lake.each": "SELECT id, n + 1 AS next FROM lake.t WHERE n > 0"}
    viewed.publish(views)
    viewed.land(row(1, 10, "a"), row(2, 11, "b"))
    table = viewed.catalog.load_table("lake.t")
    with table.update_schema() as update:
        update.rename_column("n", "amount")
    assert isinstance(viewed.lake.table("lake.sums").read(fresh=True), Rows)  # the same rows as before
    viewed.publish(views, "key: [id], renames: {amount: n}")
    viewed.post([row(3, 20, "a"), row(2, 21, "b", "d")])
    assert [(one["v"], one["total"], one["ids"]) for one in viewed.fresh()] == [("a", 4, [1, 3])]
    assert viewed.fresh("lake.over") == [{"size": 2, "groups": 1, "least": "a"}]
    assert viewed.fresh("lake.each") == [{"id": 1, "next": 2}, {"id": 3, "next": 4}]


def test_a_fresh_view_may_be_one_that_runs_whole(viewed: Viewed) -> None:
    """Of what no view that is kept by what changed may have: a join that compares nothing by =."""
    less = "SELECT a.id, count(b.id) AS less FROM lake.t a LEFT JOIN lake.t b ON b.id < a.id GROUP BY a.id"
    viewed.publish({"lake.less": less}, more=", refresh: full")
    viewed.land(row(1, 10, "a"), row(2, 11, "b"))
    viewed.post([row(3, 20, "a"), row(2, 21, "b", "d")])
    assert viewed.fresh("lake.less") == [{"id": 1, "less": 0}, {"id": 3, "less": 1}]


def test_which_columns_a_view_means_is_its_own_words_or_nothing() -> None:
    told = {"firn.view.sql": "s", COLUMNS: '{"lake.t": {"n": 4, "v": 2}}'}
    assert meant_columns(({}, told), "s") == {"lake.t": {"n": 4, "v": 2}}
    assert meant_columns(({}, told), "other") == meant_columns((), "s") == {}
    for broken in ("{", "[1]", '{"lake.t": 3}', '{"lake.t": {"n": []}}'):
        assert meant_columns((told | {COLUMNS: broken},), "s") == {}
    fields = [{"id": 2, "name": "v"}, {"id": 4, "name": "amount"}]
    assert called_in_sql(fields, {"n": 4, "v": 2, "gone": 9}) == {"amount": "n"}
    assert called_in_sql([*fields, {"id": 5, "name": "n"}], {"n": 4}) == {}  # the name is another column's by now


def test_a_fresh_view_that_asks_for_the_time_is_of_the_moment_of_the_read(
    viewed: Viewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = datetime.now(UTC)
    old, new = (int((begun - timedelta(minutes=minutes)).timestamp()) for minutes in (50, 5))
    recent = "SELECT id FROM lake.t WHERE to_timestamp(n) > now() - INTERVAL 1 HOUR"
    viewed.publish({"lake.recent": recent, "lake.most": "SELECT max(id) AS most FROM lake.recent"}, more=", every: 1h")
    viewed.land(row(old, 10, "a"), row(new, 11, "a"))
    assert viewed.fresh("lake.recent") == [{"id": old}, {"id": new}]
    viewed.post([row(new + 1, 20, "a")])

    def at(minutes: int) -> Any:
        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
                return (begun + timedelta(minutes=minutes)).astimezone(tz)

        monkeypatch.setattr(fresh_tables, "datetime", Clock)
        return viewed.fresh("lake.recent"), viewed.fresh("lake.most")

    assert at(20) == ([{"id": new}, {"id": new + 1}], [{"most": new + 1}])
    assert at(90) == ([], [{"most": None}])
    assert at(-600) == ([{"id": old}, {"id": new}, {"id": new + 1}], [{"most": new + 1}]), "never before the stored one"
    assert viewed.lake.table("lake.recent").read().count() == 2


def test_a_view_that_is_behind_its_tables_is_not_called_fresh(viewed: Viewed) -> None:
    """Nothing waits, and yet its table is older than what it reads."""
    viewed.land(row(1, 10, "a"))
    viewed.catalog.load_table("lake.t").delete("id = 1")
    assert viewed.fresh() == viewed.fresh("lake.over") == []
    assert viewed.lake.table("lake.sums").read().count() == 1
    viewed.refresh()
    assert isinstance(viewed.lake.table("lake.sums").read(fresh=True), Rows)


def test_rows_that_others_write_into_a_view_are_not_called_fresh(viewed: Viewed) -> None:
    viewed.land(row(1, 10, "a"))
    viewed.catalog.load_table("lake.sums").append(viewed.catalog.load_table("lake.sums").scan().to_arrow())
    assert (viewed.lake.table("lake.sums").read().count(), len(viewed.fresh())) == (2, 1)


def test_what_can_t_be_shown_fresh_says_why(viewed: Viewed, monkeypatch: pytest.MonkeyPatch) -> None:
    viewed.land(row(1, 10, "a"))
    viewed.post([row(2, 20, "a")])
    with monkeypatch.context() as patch:
        patch.setattr(fresh_view, "MOST_ROWS", 0)
        with pytest.raises(NotFresh, match=r"lake.sums reads tables of 1 rows, and at most 0 are read"):
            viewed.fresh()
    viewed.publish({"lake.sums": "SELECT v, max(n) AS most FROM lake.t GROUP BY v, upper(v)"})
    with pytest.raises(NotFresh, match=r"gives the view lake.sums other columns: run firn flush"):
        viewed.fresh()
    viewed.publish({"lake.sums": SUMS.replace("sum(n)", "sum(CAST(v AS BIGINT))")})
    with pytest.raises(NotFresh, match=r"lake.sums can't be shown with what waits: Conversion Error"):
        viewed.fresh()
    viewed.catalog.drop_table("lake.sums")
    with pytest.raises(NotFresh, match=r"lake.sums is not made yet: run firn flush"):
        viewed.lake.sql("SELECT * FROM lake.sums", fresh=True)


def test_nobody_else_writes_into_a_view_or_rolls_it_back(viewed: Viewed) -> None:
    viewed.land(row(1, 10, "a"))
    table = viewed.lake.table("lake.sums")
    with pytest.raises(FedByStream, match=r"lake\.sums is a view: its rows are what its SQL makes"):
        table.append([{"v": "b"}])
    first = table.snapshots()[0].id
    viewed.refresh()
    with pytest.raises(CannotRollBack, match=r"lake\.sums is a view"):
        table.rollback(first, "skip")
