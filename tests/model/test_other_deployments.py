"""Two deployments under one catalog that name a table alike: neither touches the other's, and nothing is lost."""

import pytest

from firn.config.names import TableName
from firn.log import holds
from tests.model.lake_contract import CONFIG, ORDERS, STREAM, Stream, event
from tests.model.memory_ground import MemoryGround

OTHER = TableName("lake", "other")
DEV = TableName("dev_lake", "orders")


def two() -> tuple[Stream, Stream]:
    """Theirs, with some epochs in `lake.orders`, and ours, which finds that table in the catalog."""
    theirs = Stream(MemoryGround())
    for n in range(1, 5):
        theirs.land(event("c", 10 * n, {"id": n, "v": "theirs"}))
    ground = MemoryGround()
    ground.catalog = ground.lake.catalog = theirs.ground.catalog  # type: ignore[attr-defined]
    ground.catalog.tables[ORDERS].location = "memory://theirs/lake/orders"
    return theirs, Stream(ground)


def sealed(ours: Stream) -> int:
    return ours.seal(
        event("c", 100, {"id": 9, "v": "ours"}), event("c", 110, {"id": 9, "v": "ours"}, table="other")
    )  # fmt: skip


def test_a_table_of_another_deployment_is_refused_by_name_and_the_others_go_on() -> None:
    theirs, ours = two()
    n = sealed(ours)
    assert n == 1, "theirs says nothing of what our numbers are"
    assert [ours.commit(n, attempt=attempt) for attempt in (1, 2, 3)] == [1, 1, 0], ours.lines
    said = holds.read_all(ours.store, STREAM).held()["lake.orders"].message
    assert "lake.orders lies at memory://theirs/lake/orders, outside of the warehouse memory://warehouse" in said
    assert ours.values(OTHER) == [(9, "ours")]
    assert theirs.values() == [(1, "theirs"), (2, "theirs"), (3, "theirs"), (4, "theirs")]
    theirs.land(event("u", 200, {"id": 1, "v": "still theirs"}))
    assert (1, "still theirs") in theirs.values()


def test_under_another_name_all_of_it_is_ours() -> None:
    _, ours = two()
    first = sealed(ours)
    assert ours.commit(first) == 1
    ours.publish(CONFIG.replace("lake.orders", "dev_lake.orders"))
    last = ours.seal(event("c", 120, {"id": 10, "v": "ours"}))
    assert ours.commit(first, last) == 0, ours.lines
    assert ours.values(DEV) == [(9, "ours"), (10, "ours")]


def test_a_release_without_a_remedy_is_refused_again() -> None:
    theirs, ours = two()
    n = sealed(ours)
    for attempt in (1, 2, 3):
        ours.commit(n, attempt=attempt)
    found = holds.read_all(ours.store, STREAM).held()["lake.orders"]
    assert holds.lift(ours.store, found, "retry", "2026-11-22T00:00:00.000Z")
    assert ours.commit(sealed(ours)) == 1
    assert len(theirs.values()) == 4


def test_a_cut_does_not_make_anothers_table_ours() -> None:
    theirs, ours = two()
    for n in range(1, 6):
        ours.land(event("c", 10 * n, {"id": n, "v": "ours"}, table="other"))
    n = sealed(ours)
    for attempt in (1, 2, 3):
        ours.commit(n, attempt=attempt)
    assert "lake.orders" not in ours.cut().tables
    found = holds.read_all(ours.store, STREAM).held()["lake.orders"]
    assert holds.lift(ours.store, found, "retry", "2026-11-22T00:00:00.000Z")
    assert ours.commit(ours.seal(event("u", 200, {"id": 9, "v": "ours again"}))) == 1
    assert theirs.values() == [(1, "theirs"), (2, "theirs"), (3, "theirs"), (4, "theirs")]


def test_a_table_that_our_log_has_committed_to_may_lie_anywhere() -> None:
    ours = Stream(MemoryGround())
    ours.land(event("c", 10, {"id": 1, "v": "a"}))
    ours.ground.catalog.tables[ORDERS].location = "memory://former/lake/orders"  # type: ignore[attr-defined]
    ours.land(event("c", 20, {"id": 2, "v": "b"}))
    assert ours.values() == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_table_that_another_made_again_under_our_name_is_theirs(count: int) -> None:
    ours = Stream(MemoryGround())
    for n in (1, 2):
        ours.land(event("c", 10 * n, {"id": n, "v": "ours"}))
    ours.ground.drop(ORDERS)
    ground = MemoryGround()
    ground.catalog = ground.lake.catalog = ours.ground.catalog  # type: ignore[attr-defined]
    theirs = Stream(ground)
    for n in range(count):
        theirs.land(event("c", 100 + n, {"id": n, "v": "theirs"}))
    ground.catalog.tables[ORDERS].location = "memory://theirs/lake/orders"
    n = ours.seal(event("c", 200, {"id": 3, "v": "ours"}))
    assert ours.commit(n) == 0, ours.lines
    held = holds.read_all(ours.store, STREAM).held()["lake.orders"]
    assert held.reason == "rolled_back", "ours was dropped, whoever made it again"
    assert holds.lift(ours.store, held, "replay", "2026-11-22T00:00:00.000Z")
    n = ours.seal(event("c", 210, {"id": 4, "v": "ours"}))
    assert [ours.commit(n, attempt=attempt) for attempt in (1, 2, 3)] == [1, 1, 0], ours.lines
    assert "another deployment's" in holds.read_all(ours.store, STREAM).held()["lake.orders"].message
    assert theirs.values() == [(n, "theirs") for n in range(count)]
    theirs.land(event("u", 300, {"id": 0, "v": "still theirs"}))
    assert (0, "still theirs") in theirs.values()


def test_a_table_that_its_catalog_placed_elsewhere_is_ours_before_there_is_a_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = Stream(MemoryGround())
    n = ours.seal(event("c", 10, {"id": 1, "v": "a"}))
    with monkeypatch.context() as dying:
        dying.setattr("firn.commit.job.write_cut", _dies)
        assert ours.commit(n) == 1
    ours.ground.catalog.tables[ORDERS].location = "memory://its/own/place"  # type: ignore[attr-defined]
    assert ours.commit(n, attempt=2) == 0, ours.lines
    ours.land(event("c", 20, {"id": 2, "v": "b"}))
    assert ours.values() == [(1, "a"), (2, "b")]


def _dies(*_: object, **__: object) -> None:
    raise ConnectionError("killed")


def narrow(ours: Stream, *databases: str) -> Stream:
    ours.ground.lake.databases = databases  # type: ignore[misc]
    return ours


BOTH = (event("c", 100, {"id": 9, "v": "ours"}), event("c", 110, {"id": 9, "v": "ours"}, table="other"))
APART = CONFIG.replace("app.orders: {to: lake.orders", "app.orders: {to: 'sales.orders'")


def test_a_table_in_a_database_that_was_not_named_is_refused_by_name_and_the_others_go_on() -> None:
    ours = narrow(Stream(MemoryGround(), APART), "lake", "dev_*")
    n = ours.seal(*BOTH)
    assert [ours.commit(n, attempt=attempt) for attempt in (1, 2, 3)] == [1, 1, 0], ours.lines
    said = holds.read_all(ours.store, STREAM).held()["sales.orders"].message
    for word in ("sales.orders", "namespace sales", "GlueDatabases (lake, dev_*)"):
        assert word in said
    assert ours.values(OTHER) == [(9, "ours")]


def test_a_table_whose_database_is_no_longer_named_stops_no_other_and_goes_on_once_it_is() -> None:
    ours = Stream(MemoryGround(), APART)
    ours.land(*BOTH)
    before = ours.cut().tables
    narrow(ours, "lake")
    ours.land(event("u", 200, {"id": 9, "v": "later"}, table="other"))
    assert ours.values(OTHER) == [(9, "later")]
    assert ours.cut().tables["sales.orders"] == before["sales.orders"], "it is where it was, for all that is known"
    n = ours.seal(event("u", 300, {"id": 9, "v": "missed"}), event("u", 310, {"id": 9, "v": "newest"}, table="other"))
    assert [ours.commit(n, attempt=attempt) for attempt in (1, 2, 3)] == [1, 1, 0], ours.lines
    assert ours.values(OTHER) == [(9, "newest")]
    held = holds.read_all(ours.store, STREAM).held()["sales.orders"]
    assert "namespace sales is not one of GlueDatabases (lake)" in held.message
    narrow(ours)
    assert holds.lift(ours.store, held, "retry", "2026-11-22T00:00:00.000Z")
    ours.land(event("u", 400, {"id": 9, "v": "last"}, table="other"))
    assert ours.values(TableName("sales", "orders")) == [(9, "missed")]
