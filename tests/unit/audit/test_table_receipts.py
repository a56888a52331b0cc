"""What a reader of a table hears of its batches and of what was refused: what counts, and how far is looked."""

import json
from datetime import UTC, datetime, timedelta

import obstore
import pytest

from firn.audit import table_receipts
from firn.audit.table_receipts import letters_of, receipt_of
from firn.ingest.accept import accept
from firn.log import holds, layout
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround

DAY = timedelta(days=1)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TABLE = "lake.orders"


@pytest.fixture
def stream() -> Stream:
    return Stream(MemoryGround())


def post(stream: Stream, now: datetime, n: int = 1) -> str:
    """A change of the table, and as many events that are none."""
    bad = [json.dumps(event("c", 2 + i, "none")).encode() for i in range(n)]
    body = b"\n".join([json.dumps(event("c", 1, {"id": 1, "v": "a"})).encode(), *bad])
    return accept(stream.store, stream.config, STREAM, body, now=now).batch_id


def letters(stream: Stream, at: datetime) -> tuple[list[tuple[str, int]], str | None]:
    found = letters_of(stream.store, stream.config, TABLE, None, NOW, at.date())
    assert not found.partial
    return [(one.day, one.letters) for one in found.letters], found.next


def test_no_more_objects_are_looked_at_than_one_answer_is_for_and_the_next_goes_on(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_receipts, "MOST_OBJECTS", 2)
    for back, n in ((0, 1), (1, 2), (1, 3), (5, 4)):
        post(stream, NOW - back * DAY, n)
    assert letters(stream, NOW) == ([("2026-11-21", 1)], "2026-11-20")
    assert letters(stream, NOW - DAY) == ([("2026-11-20", 5)], "2026-11-16")
    assert letters(stream, NOW - 5 * DAY) == ([("2026-11-16", 4)], None)


def test_letters_of_a_request_that_was_never_answered_do_not_count(stream: Stream) -> None:
    post(stream, NOW, 2)
    lost = post(stream, NOW, 3)
    assert letters(stream, NOW)[0] == [("2026-11-21", 5)]
    obstore.delete(stream.store, layout.staged_path(lost))
    assert letters(stream, NOW)[0] == [("2026-11-21", 2)]


def test_an_object_that_is_too_large_to_tell_whose_each_letter_is_makes_the_answer_partial(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(stream, NOW)
    monkeypatch.setattr(table_receipts, "MOST_BYTES", 1)
    found = letters_of(stream.store, stream.config, TABLE, "ada", NOW)
    assert (found.letters, found.partial) == ([], True)
    whole = letters_of(stream.store, stream.config, TABLE, None, NOW)
    assert ([one.letters for one in whole.letters], whole.partial) == ([1], False)


def test_of_a_batch_that_no_epoch_has_yet_the_changes_of_other_tables_do_not_count(stream: Stream) -> None:
    events = [event("c", 1, {"id": 1, "v": "a"}), event("c", 2, {"id": 2}, table="other")]
    body = b"\n".join(json.dumps(one).encode() for one in events)
    batch = accept(stream.store, stream.config, STREAM, body, now=NOW).batch_id
    found = receipt_of(stream.store, stream.config, TABLE, batch, None)
    assert found is not None
    assert (found.rows, found.state) == (1, "pending")


def test_a_batch_whose_epoch_waits_for_a_person_says_so(stream: Stream) -> None:
    batch = post(stream, stream.tick())
    n = stream.seal()

    def state() -> str | None:
        found = receipt_of(stream.store, stream.config, TABLE, batch, None)
        return found.state if found is not None else None

    assert state() == "pending"
    holds.hold(stream.store, holds.Quarantine(1, STREAM, n, "t", "killed", "it kills", "fix it", epoch=n, last=n))
    assert state() == "quarantined"
