"""Mirrors that rest on a mirror, and tables that several ways lead to, in jobs that die, are held and are resumed."""

from typing import Any

import pytest

from firn.config.names import TableName
from tests.model.lake_contract import Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import fails_at
from tests.model.test_quarantine import catalog, fixed, go_on, held, release
from tests.unit.log.interrupted_store import Died

BASE, REST = TableName("lake", "orders"), TableName("lake", "rest")
CONFIG = """
streams:
  shop:
    tables:
      app.orders: {to: lake.orders, key: [id]}
      app.other: {to: lake.other, key: [id]}
    pipelines:
      rest: {mode: mirror, sql: 'INSERT INTO lake.rest SELECT id, upper(v) AS v FROM app.orders WHERE id < 9'}
"""


@pytest.fixture
def stream() -> Stream:
    return Stream(MemoryGround(), CONFIG)


def row(n: int, v: str, lsn: int = 0, op: str = "c") -> dict[str, Any]:
    return event(op, lsn or n, {"id": n, "v": v})


def selected(stream: Stream) -> list[tuple[Any, Any]]:
    return [(n, v.upper()) for n, v in stream.values(BASE) if n < 9]


def test_the_mirror_is_in_each_cut_what_its_base_is(stream: Stream) -> None:
    for n in (1, 2, 9):
        stream.land(row(n, f"v{n}"))
        cut, tables = stream.cut(), catalog(stream).tables
        assert [(one["id"], one["v"]) for one in tables[REST].rows(cut.tables[str(REST)])] == [
            (one["id"], one["v"].upper()) for one in tables[BASE].rows(cut.tables[str(BASE)]) if one["id"] < 9
        ]
        assert str(REST) not in cut.counts
    assert stream.values(REST) == [(1, "V1"), (2, "V2")]


@pytest.mark.parametrize("landed", [False, True])
def test_a_job_that_dies_between_the_two_commits_is_made_good_by_the_next(stream: Stream, landed: bool) -> None:
    stream.land(row(1, "a"))
    sealed = stream.seal(row(1, "b", 5, "u"), row(2, "c"))

    def around(call: Any, effect: Any) -> Any:
        if (call.kind, call.table) == ("commit", REST):
            if landed:
                effect()
            raise Died
        return effect()

    catalog(stream).around = around
    with pytest.raises(Died):
        stream.commit(sealed)
    catalog(stream).around = fixed
    assert stream.commit(sealed) == 0
    assert stream.values(REST) == selected(stream) == [(1, "B"), (2, "C")]


def test_a_mirror_stays_with_a_base_that_is_held_and_comes_with_it_again(stream: Stream) -> None:
    stream.land(row(1, "a"))
    catalog(stream).around = fails_at("commit", BASE)
    sealed = stream.seal(row(2, "b"), event("c", 70, {"id": 1, "v": "o"}, table="other"))
    assert stream.commit(sealed, attempt=3) == 0
    assert set(held(stream)) == {str(BASE)}
    assert stream.cut().quarantined == {str(BASE): "failed"}
    assert stream.values(REST) == selected(stream) == [(1, "A")]
    catalog(stream).around = fixed
    release(stream, str(BASE))
    stream.post(row(3, "c"))
    go_on(stream)
    assert stream.values(REST) == selected(stream) == [(1, "A"), (2, "B"), (3, "C")]


def test_a_mirror_that_fails_is_held_alone_and_is_made_good_once_it_is_resumed(stream: Stream) -> None:
    stream.land(row(1, "a"))
    catalog(stream).around = fails_at("commit", REST)
    assert stream.commit(stream.seal(row(2, "b")), attempt=3) == 0
    assert set(held(stream)) == {str(REST)}
    assert stream.values(BASE) == [(1, "a"), (2, "b")]
    catalog(stream).around = fixed
    release(stream, str(REST))
    stream.post(row(3, "c"))
    go_on(stream)
    assert stream.values(REST) == selected(stream) == [(1, "A"), (2, "B"), (3, "C")]
    assert stream.cut().quarantined == {}


def test_another_sql_makes_the_mirror_again(stream: Stream) -> None:
    stream.land(row(1, "a"))
    stream.land(row(2, "b"))
    stream.publish(CONFIG.replace("upper(v)", "v || v"))
    stream.land(row(3, "c"))
    assert stream.values(REST) == [(1, "aa"), (2, "bb"), (3, "cc")]


@pytest.mark.parametrize("table", [REST, BASE], ids=["the mirror", "its base"])
def test_whichever_is_rolled_back_the_mirror_is_what_its_base_is(stream: Stream, table: TableName) -> None:
    for n in (1, 2, 3):
        stream.land(row(n, f"v{n}"))
    one = catalog(stream).tables[table]
    one.current = one.ancestry()[1].id
    stream.land(event("c", 70, {"id": 1, "v": "o"}, table="other"))
    assert set(held(stream)) == ({str(BASE)} if table == BASE else set())
    assert stream.values(REST) == selected(stream)
    assert len(stream.values(REST)) == (2 if table == BASE else 3)


def test_a_removed_pipeline_leaves_its_table_as_it_is(stream: Stream) -> None:
    stream.land(row(1, "a"))
    stream.publish(CONFIG[: CONFIG.index("    pipelines:")])
    stream.land(row(2, "b"))
    assert stream.values(REST) == [(1, "A")]
    assert str(REST) in stream.cut().tables
