"""Which changes of the log a table must have in, with the real ingest, job and log over tables in memory."""

import random
from typing import Any

import pytest

from firn.audit.row_check import RowAccount
from firn.config.names import TableName
from firn.ingest.accept import accept
from firn.ingest.replay import Choice, replay
from firn.log import epochs, layout
from firn.log.dead_letters.letters import DeadLetter, write_dead
from tests.model.lake_contract import CONFIG, ORDERS, STREAM, Stream, event
from tests.property.test_event_histories import EMITTERS, requests_of
from tests.unit.audit.audited import Ground, release, row_audited, typed

TEXT = CONFIG.replace("columns: {id: int}", "columns: {id: string}")


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture
def stream(ground: Ground) -> Stream:
    return Stream(ground)


def account(stream: Stream, ground: Ground, table: str = "lake.orders") -> RowAccount:
    return row_audited(stream, ground)[table]


def test_a_dead_letter_need_not_be_in_its_table(stream: Stream, ground: Ground) -> None:
    stream.land(typed(1, 1), typed(2, "x"))
    stream.publish(TEXT)
    stream.land(typed(3, "y"))  # the column is text from here on, and would take the dead one too
    found = account(stream, ground, "lake.typed")
    assert (found.right, found.expected) == (True, 2)
    (again,) = replay(stream.store, stream.config, STREAM, Choice(), clock=stream.tick)
    assert again.events == 1
    assert account(stream, ground, "lake.typed").expected == 2
    assert stream.commit(stream.seal()) == 0
    found = account(stream, ground, "lake.typed")
    assert (found.right, found.expected, found.found) == (True, 3, 3)


def test_what_has_a_letter_need_not_be_in_its_table_though_it_could_be(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}), event("c", 2, {"id": 2, "v": "b"}))

    def lost(log: Any, logged: Any, rows: list[Any]) -> list[Any]:
        return [one for one in rows if one[0] != (2,)]

    assert row_audited(stream, ground, damage=lost)["lake.orders"].missing == 1
    (sealed,) = epochs.read_range(stream.store, STREAM, 1, 1)
    letter = DeadLetter("too_old", "late", STREAM, "app.orders", sealed.batches[0].id, 1, stream.now, b"")
    path = layout.dead_path(STREAM, sealed.time, f"commit-{1:020d}-lake.orders")
    assert write_dead(stream.store, path, [letter])
    assert row_audited(stream, ground, damage=lost)["lake.orders"].right
    assert account(stream, ground).right


def test_what_a_table_was_told_to_skip_need_not_be_in_it(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    stream.land(event("u", 2, {"id": 1, "v": "b"}), event("c", 3, {"id": 2, "v": "c"}))
    head = ground.catalog.tables[ORDERS].ancestry()
    ground.catalog.rollback(ORDERS, head[1].id)
    stream.land(event("c", 4, {"id": 3, "v": "d"}))
    release(stream, "skip", "lake.orders")
    stream.land(event("c", 5, {"id": 4, "v": "e"}))
    assert (1, "a") in stream.values()
    found = account(stream, ground)
    assert (found.right, found.found) == (True, len(stream.values()))


def test_what_is_sealed_or_staged_and_not_committed_is_not_looked_at(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}))
    stream.seal(event("c", 2, {"id": 2, "v": "b"}), event("d", 3, None, {"id": 1}))
    stream.post(event("t", 4))
    found = account(stream, ground)
    assert (found.right, found.expected, found.found) == (True, 1, 1)


def test_of_a_truncate_that_is_committed_nothing_is_expected(stream: Stream, ground: Ground) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}), event("t", 4))
    stream.land(event("c", 3, {"id": 2, "v": "late"}), event("c", 5, {"id": 3, "v": "b"}))
    found = account(stream, ground)
    assert (found.right, found.expected) == (True, 1)

    def came_back(log: Any, logged: Any, rows: list[Any]) -> list[Any]:
        return [*rows, ((1,), rows[0][1])] if log.name == ORDERS else rows

    found = row_audited(stream, ground, damage=came_back)["lake.orders"]
    assert (found.surplus, [one.row for one in found.samples]) == (1, [("1",)])


@pytest.mark.parametrize("deep", [False, True])
def test_updates_that_change_parts_of_values_are_changes_like_others(ground: Ground, deep: bool) -> None:
    mongodb = "streams: {shop: {envelope: mongodb, tables: {shop.t: {to: lake.t, key: [_id]}}}}"
    stream, dice = Stream(ground, mongodb), random.Random(1)
    histories = (requests_of(EMITTERS["mongodb"], dice)[0] for _ in range(1_000))
    for body in next(bodies for bodies in histories if b'"addr.' in b"".join(bodies)):
        accept(stream.store, stream.config, STREAM, body, now=stream.tick())
        assert stream.commit(stream.seal()) == 0
    found = row_audited(stream, ground, deep=deep)["lake.t"]
    assert found.right, found
    assert found.found == len(ground.rows(TableName("lake", "t"))) > 0
