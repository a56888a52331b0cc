import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from firn.changes.envelopes.limits import EventLimits
from firn.config.model import Config
from firn.errors import RequestError, StorageUnavailable, UnknownOutcome
from firn.ingest import reading
from firn.ingest.accept import MAX_ERRORS, accept, accept_messages
from firn.log import layout
from firn.log.batches import read_meta
from firn.log.dead_letters.letters import read_dead
from firn.log.store import get, paths
from tests.unit.log.storage_faults import FaultyStore

Body = Callable[..., bytes]
Event = Callable[..., dict[str, Any]]


def staged(store: FaultyStore, batch: str) -> list[dict[str, Any]]:
    data = get(store, layout.staged_path(batch))
    assert data is not None
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).to_pylist()
    return [{"index": place} | row for place, row in enumerate(rows)]  # a file without `index`: 0, 1, 2, …


def test_an_accepted_request_is_one_staged_object(config: Config, now: datetime, body: Body) -> None:
    store = FaultyStore()
    done = accept(store, config, "shop", body(3), now=now)
    assert (done.accepted, done.rejected, done.duplicate, done.errors) == (3, 0, False, [])
    assert store.puts == [layout.staged_path(done.batch_id)]
    assert [row["after"] for row in staged(store, done.batch_id)] == ['{"id": 1}', '{"id": 2}', '{"id": 3}']
    meta = read_meta(store, layout.staged_path(done.batch_id))
    assert meta is not None
    assert (meta.config, meta.tables, meta.received_at) == (
        config.sha,
        {"public.orders": 3},
        "2026-03-01T12:30:00.000Z",
    )


def test_a_bad_event_becomes_a_dead_letter_and_the_good_999_land(config: Config, now: datetime, event: Event) -> None:
    events = [event(n) for n in range(1_000)]
    events[500] = {"op": "x"}
    store = FaultyStore()
    done = accept(store, config, "shop", json.dumps(events).encode(), now=now)
    assert (done.accepted, done.rejected) == (999, 1)
    assert [error.index for error in done.errors] == [500]
    letters = read_dead(store, layout.batch_dead_path(done.batch_id))
    assert [(x.index, x.batch, x.received_at) for x in letters] == [(500, done.batch_id, now)]
    assert json.loads(letters[0].original) == {"op": "x"}
    assert [row["index"] for row in staged(store, done.batch_id)] == [n for n in range(1_000) if n != 500]


def test_dead_letters_are_written_before_the_batch(config: Config, now: datetime) -> None:
    store = FaultyStore()
    accept(store, config, "shop", b'[{"op":"x"}]', now=now)
    assert [path.split("/")[0] for path in store.puts] == ["dead", "staged"]


def test_the_answer_lists_at_most_a_hundred_errors(config: Config, now: datetime) -> None:
    done = accept(FaultyStore(), config, "shop", json.dumps([{"op": "x"}] * 250).encode(), now=now)
    assert (done.rejected, len(done.errors)) == (250, MAX_ERRORS)


def test_tables_without_a_rule_are_counted_and_left_out(config: Config, now: datetime, event: Event) -> None:
    store = FaultyStore()
    events = [event(1), event(2, table="secret"), event(3, table="customers"), event(4, table="secret")]
    done = accept(store, config, "shop", json.dumps(events).encode(), now=now)
    assert (done.accepted, done.ignored) == (2, {"filtered_table": 2})
    assert [(row["index"], row["table"]) for row in staged(store, done.batch_id)] == [
        (0, "public.orders"), (2, "public.customers")
    ]  # fmt: skip


def test_a_request_of_ignored_events_is_staged_for_its_counts(config: Config, now: datetime, event: Event) -> None:
    store = FaultyStore()
    done = accept(store, config, "shop", json.dumps([event(1, table="secret")]).encode(), now=now)
    meta = read_meta(store, layout.staged_path(done.batch_id))
    assert meta is not None
    assert (meta.accepted, meta.ignored, meta.tables) == (0, {"filtered_table": 1}, {})


def test_a_table_that_could_be_two_is_dead_lettered_as_it_came(config: Config, now: datetime) -> None:
    store = FaultyStore()
    flat = b'{"id":1,"__op":"c","__table":"twin","__lsn":5,"__source_ts_ms":1,"__deleted":"false"}'
    done = accept(store, config, "shop", flat, now=now)
    assert (done.accepted, done.rejected, done.errors[0].reason) == (0, 1, "ambiguous_table")
    assert read_dead(store, layout.batch_dead_path(done.batch_id))[0].original == flat


@pytest.mark.parametrize("body", [b"", b"[", b"nonsense", b"\xff\xfe", b"\x00"])
def test_an_unreadable_body_is_a_400_and_leaves_nothing(config: Config, now: datetime, body: bytes) -> None:
    store = FaultyStore()
    with pytest.raises(RequestError) as caught:
        accept(store, config, "shop", body, now=now, key="k")
    assert caught.value.status == 400
    assert store.puts == []


@pytest.mark.parametrize("stream", ["other", "", "..", "a/b", "shop.x"])
def test_an_unknown_stream_is_a_404(config: Config, now: datetime, body: Body, stream: str) -> None:
    with pytest.raises(RequestError) as caught:
        accept(FaultyStore(), config, stream, body(), now=now)
    assert caught.value.status == 404


def test_while_storage_is_away_nothing_is_acknowledged(config: Config, now: datetime, body: Body) -> None:
    store = FaultyStore()
    store.away = True
    with pytest.raises(StorageUnavailable):
        accept(store, config, "shop", body(), now=now)
    store.away = False
    assert paths(store, "staged") == []
    assert accept(store, config, "shop", body(), now=now).accepted == 1
    assert len(paths(store, "staged")) == 1


def test_a_lost_answer_of_the_put_lands_once(config: Config, now: datetime, body: Body) -> None:
    store = FaultyStore("lost after")
    done = accept(store, config, "shop", body(), now=now)
    assert paths(store, "staged") == [layout.staged_path(done.batch_id)]


def test_an_outcome_that_stays_unknown_is_not_acknowledged(config: Config, now: datetime, body: Body) -> None:
    with pytest.raises(UnknownOutcome):
        accept(FaultyStore("lost before", "lost before", "lost before"), config, "shop", body(), now=now)


def test_the_same_key_and_body_are_staged_once(config: Config, now: datetime, event: Event) -> None:
    store = FaultyStore()
    body = json.dumps([event(1), {"op": "x"}]).encode()
    first = accept(store, config, "shop", body, now=now, key="k1")
    again = accept(store, config, "shop", body, now=now + timedelta(hours=5), key="k1")
    assert not first.duplicate
    assert again.duplicate
    assert (again.batch_id, again.accepted, again.errors) == (first.batch_id, 1, first.errors)
    assert len(paths(store, "staged")) == 1


def test_the_same_key_with_another_body_is_a_409(config: Config, now: datetime, body: Body) -> None:
    store = FaultyStore()
    accept(store, config, "shop", body(1), now=now, key="k1")
    with pytest.raises(RequestError) as caught:
        accept(store, config, "shop", body(2), now=now, key="k1")
    assert caught.value.status == 409


def test_a_crash_between_receipt_and_batch_is_healed_by_the_retry(config: Config, now: datetime, body: Body) -> None:
    store = FaultyStore(None, "refused", "refused", "refused")
    with pytest.raises(StorageUnavailable):
        accept(store, config, "shop", body(), now=now, key="k1")
    assert paths(store, "staged") == []
    again = accept(store, config, "shop", body(), now=now + timedelta(minutes=1), key="k1")
    assert again.duplicate
    assert layout.time_of(again.batch_id) == now
    assert paths(store, "staged") == [layout.staged_path(again.batch_id)]


@pytest.mark.parametrize("header", ["Idempotency-Key", "webhook-id"])
def test_a_retry_of_what_was_taken_is_answered_so_whatever_the_limits_are_by_now(
    config: Config, now: datetime, body: Body, header: Any
) -> None:
    store = FaultyStore()
    first = accept(store, config, "shop", body(3), now=now, key="k1", key_header=header)
    fewer = EventLimits(events=2)
    again = accept(store, config, "shop", body(3), now=now, key="k1", key_header=header, limits=fewer)
    assert again == msgspec.structs.replace(first, duplicate=True)
    for key, events in ((None, 3), ("k2", 3), ("k1", 4), ("", 3)):
        with pytest.raises(RequestError) as caught:
            accept(store, config, "shop", body(events), now=now, key=key, key_header=header, limits=fewer)
        assert caught.value.status == 413
    assert len(paths(store, "staged")) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb"])
def test_a_key_that_is_no_key_is_a_400(config: Config, now: datetime, body: Body, key: str) -> None:
    with pytest.raises(RequestError) as caught:
        accept(FaultyStore(), config, "shop", body(), now=now, key=key)
    assert caught.value.status == 400


def test_keys_of_different_streams_do_not_meet(config: Config) -> None:
    assert layout.receipt_path("a", "k") != layout.receipt_path("b", "k")


def test_queue_messages_become_one_batch_numbered_through(config: Config, now: datetime, body: Body) -> None:
    store = FaultyStore()
    done = accept_messages(store, config, "shop", [body(2), body(1, start=9)], now=now)
    assert store.puts == [layout.staged_path(done.batch_id)]
    rows = staged(store, done.batch_id)
    assert [(row["index"], row["after"]) for row in rows] == [(0, '{"id": 1}'), (1, '{"id": 2}'), (2, '{"id": 9}')]


def test_an_unreadable_message_is_one_dead_letter_and_the_others_land(
    config: Config, now: datetime, body: Body
) -> None:
    store = FaultyStore()
    done = accept_messages(store, config, "shop", [body(1), b"\xff nonsense", body(1, start=5)], now=now)
    assert (done.accepted, done.rejected) == (2, 1)
    letters = read_dead(store, layout.batch_dead_path(done.batch_id))
    assert [(x.index, x.original) for x in letters] == [(1, b"\xff nonsense")]
    assert [row["index"] for row in staged(store, done.batch_id)] == [0, 2]


@pytest.mark.parametrize("header", ["Idempotency-Key", "webhook-id"])
def test_a_body_that_is_refused_does_not_use_up_its_key(
    config: Config, now: datetime, body: Body, header: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FaultyStore()
    read = reading.parse

    def of_other_bytes(*given: Any) -> Any:
        return msgspec.structs.replace(read(*given), after=[b"\xff"])

    with monkeypatch.context() as patch:
        patch.setattr(reading, "parse", of_other_bytes)
        with pytest.raises(RequestError) as caught:
            accept(store, config, "shop", body(1), now=now, key="k1", key_header=header)
    assert (caught.value.status, caught.value.code, store.puts) == (400, "not_utf8", [])
    done = accept(store, config, "shop", body(2), now=now, key="k1", key_header=header)
    assert (done.accepted, done.duplicate) == (2, False)


@pytest.mark.parametrize("bad", [b"\xff", b"", b"[{]", b'{"op":"c","note":"\xe9"}'])
def test_a_corrected_body_is_taken_under_the_key_of_one_that_could_not_be_read(
    config: Config, now: datetime, body: Body, bad: bytes
) -> None:
    store = FaultyStore()
    with pytest.raises(RequestError) as caught:
        accept(store, config, "shop", bad, now=now, key="k1")
    assert (caught.value.status, store.puts) == (400, [])
    assert accept(store, config, "shop", body(1), now=now, key="k1").accepted == 1
