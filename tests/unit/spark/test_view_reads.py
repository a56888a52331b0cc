"""What a view reads at a cut: each table once, however views read each other, and of several snapshots the newest."""

from types import SimpleNamespace
from typing import Any

import pytest

from firn.config.model import TableRule
from firn.config.names import TableName
from firn.config.views import View
from firn.errors import TransientError
from firn.views.cut import Told, ViewCut
from firn_spark.views.refreshed import _newest, _Reads

BASE = TableName("shop", "orders")
DEPTH = 24


def view(table: TableName, *sources: TableName) -> View:
    return View(table, f"SELECT * FROM {table}", sources, TableRule(str(table), str(table), mode="view"))


def table(name: TableName, told: Told | None = None, **more: Any) -> Any:
    state = SimpleNamespace(
        snapshot_id=7, uuid=str(name), ancestry=(told.summary(),) if told else (), fields=(), named_key=lambda: None
    )
    return SimpleNamespace(name=name, state=state, columns=lambda: ((), frozenset()), key=lambda: (), **more)


class Catalog:
    """A base and levels of two views, each of which reads both of the level below."""

    def __init__(self) -> None:
        levels = [[TableName("v", f"{side}{n}") for side in "ab"] for n in range(DEPTH)]
        below: list[TableName] = [BASE]
        self.views = []
        self.tables: dict[TableName, Any] = {BASE: table(BASE)}
        for level in levels:
            for name in level:
                made = view(name, *below)
                self.views.append(made)
                self.tables[name] = table(name, Told(made.sha, {one: (str(one), 7) for one in below}, {"shop": 1}))
            below = level
        self.loads = 0

    def load(self, name: TableName) -> Any:
        self.loads += 1
        return self.tables.get(name)

    def reads(self) -> _Reads:
        context: Any = SimpleNamespace(tables=self, config=SimpleNamespace(views=self.views))
        return _Reads(context, ViewCut({"shop": 1}, {BASE: frozenset({7})}))


def test_views_over_views_are_looked_at_once_each() -> None:
    catalog = Catalog()
    found = catalog.reads().of(view(TableName("v", "top"), *catalog.views[-1].sources))
    assert found is not None
    assert {one.until for one in found.values()} == {7}
    assert catalog.loads <= 2 * DEPTH + 1


def test_a_view_waits_for_one_far_below_that_is_not_of_the_cut() -> None:
    catalog = Catalog()
    catalog.tables[BASE].state.uuid = "made again"
    with pytest.raises(TransientError, match=r"v\.a1 waits for v\.a0, which is not of that cut yet"):
        catalog.reads().of(catalog.views[-1])
    del catalog.tables[BASE]
    assert catalog.reads().of(catalog.views[0]) is None


def test_of_several_snapshots_the_one_that_follows_the_others_counts() -> None:
    kept = {n: SimpleNamespace(snapshotId=lambda n=n: n, parentId=lambda n=n: n - 1 or None) for n in range(1, 6)}
    java = SimpleNamespace(currentSnapshot=lambda: kept[5], snapshot=kept.get)
    found: Any = SimpleNamespace(java=java)
    assert _newest(found, frozenset({2, 4})) == 4
    assert _newest(found, frozenset({4, 2, 9})) == 4
    assert _newest(found, frozenset({3})) == 3
    assert _newest(found, frozenset()) is None
    assert _newest(found, frozenset({8, 9})) is None
