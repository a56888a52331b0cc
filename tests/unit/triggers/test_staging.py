"""Batches of records: staged in their places, however they come again, and wherever a delivery dies."""

import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from obstore.store import MemoryStore

from firn.changes.envelopes.limits import EventLimits
from firn.changes.merge.ordering import PLACED_BY, Order, placed
from firn.changes.positions import position
from firn.config.model import Config
from firn.errors import RequestError, TransientError
from firn.ingest.bodies import Limits
from firn.ingest.replay import Choice, replay
from firn.log.dead_letters.letters import DeadLetter, read_dead
from firn.log.store import Store, paths
from firn.triggers.staging import Outcome
from tests.unit.log.interrupted_store import Died, InterruptedStore, When
from tests.unit.log.storage_faults import Fault, FaultyStore
from tests.unit.triggers.conftest import Deliver, staged
from tests.unit.triggers.lambda_events import FIRST, STREAM, aggregated, change, kafka, kinesis, row

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SHARD = 6 << 32


def letters(store: Store, stream: str) -> list[DeadLetter]:
    return [letter for path in paths(store, f"dead/{stream}") for letter in read_dead(store, path)]


def rows_of(store: Store, stream: str) -> dict[int, dict[str, Any]]:
    """The mirror that the staged rows make: of each key the row with the highest position."""
    newest: dict[int, tuple[bytes, dict[str, Any] | None]] = {}
    for one in staged(store, stream):
        image = json.loads(one["after"] or one["before"])
        where = position(one.get("connector") or "", one["op"], one["order"], 0)
        assert where is not None
        value = None if one["op"] == "d" else image
        newest[image["id"]] = max(newest.get(image["id"], (b"", None)), (where, value), key=lambda it: it[0])
    return {key: value for key, (_, value) in newest.items() if value is not None}


def identities(store: Store, stream: str) -> set[tuple[str, str]]:
    """Who the staged changes are: their places, each of one content."""
    found = {(one["order"], one["after"] or one["before"]) for one in staged(store, stream)}
    assert len({order for order, _ in found}) == len(found), "one place, two contents"
    return found


def test_a_batch_of_kinesis_is_one_staged_object_with_a_place_for_each_row(deliver: Deliver) -> None:
    store = MemoryStore()
    done = deliver(store, kinesis([(FIRST + n, row(n)) for n in range(3)]))
    assert (done.failed, [one.accepted[0].accepted for one in done.staged]) == (None, [3])
    assert [one["order"] for one in staged(store, "clicks")] == [f"@kinesis:{FIRST + n}:{SHARD}:0" for n in range(3)]
    assert len(paths(store, "staged")) == 1


def test_sequence_numbers_are_compared_as_numbers_and_those_of_later_shards_are_higher() -> None:
    def at(text: str) -> bytes:
        found = position("rows", "c", text, 0)
        assert found is not None
        return found

    # 9 to 10 digits; the low 64 bits; a child shard's, as Kinesis numbers them: the time it was made stands in front.
    numbers = [999_999_999, 1_000_000_000, 2**64 - 1, 2**64, FIRST, FIRST + 1, FIRST + (1 << 150)]
    places = [at(f"@kinesis:{number}:0:0") for number in numbers]
    assert places == sorted(places)
    inside = [at(f"@kinesis:{FIRST}:{sub}:{n}") for sub in (0, 9, 10) for n in (0, 9, 10)]
    assert inside == sorted(inside)
    assert inside[-1] < at(f"@kinesis:{FIRST + 1}:0:0")
    offsets = [at(f"@kafka:{offset}:3:0") for offset in (9, 10, 2**32)]
    assert offsets == sorted(offsets)
    assert at("@kafka-time:1000:7:5:0") < at("@kafka-time:1001:0:9:0"), "a key that moved goes on at lower offsets"


@pytest.mark.parametrize("wrong", ["@kinesis:1:0", "@kinesis:-1:0:0", "@kinesis:x:0:0", f"@kinesis:{'9' * 61}:0:0", "@",
                                   "@kafka:1:2:3:4", f"@kafka:{2**64}:0:0", "@other:1:2:3"])  # fmt: skip
def test_a_place_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(Exception, match=r"not the place|between 0 and") as caught:
        position("rows", "c", wrong, 0)
    assert getattr(caught.value, "code", "") == "bad_position"


def test_a_poison_record_is_a_dead_letter_with_its_bytes_and_its_place_and_the_batch_succeeds(
    deliver: Deliver, config: Config
) -> None:
    store = MemoryStore()
    done = deliver(store, kinesis([(FIRST, row(1, v=1)), (FIRST + 1, b"\xff poison"), (FIRST + 2, row(1, v=3))]))
    assert done.failed is None
    [letter] = letters(store, "clicks")
    assert (letter.original, letter.reason) == (b"\xff poison", "not_utf8")
    assert letter.record is not None
    assert letter.record.order(0) == f"@kinesis:{FIRST + 1}:{SHARD}:0"
    # Corrected, it stands between its neighbours, though it comes last.
    path = paths(store, "dead/clicks")[0]
    mended = {(path, 0): row(1, v=2)}
    [again] = replay(store, config, "clicks", Choice(), clock=lambda: NOW, corrected=mended)
    assert again.events == 1
    assert {json.loads(text)["v"]: order for order, text in identities(store, "clicks")}[2] == letter.record.order(0)
    assert rows_of(store, "clicks") == {1: {"id": 1, "v": 3}}


def test_one_of_several_events_of_a_record_keeps_its_number_when_it_is_replayed(
    deliver: Deliver, config: Config
) -> None:
    store = MemoryStore()
    deliver(store, kinesis([(FIRST, row(1) + b"\n[broken\n" + row(2))]))
    path = paths(store, "dead/clicks")[0]
    [_] = replay(store, config, "clicks", Choice(), clock=lambda: NOW, corrected={(path, 0): row(3)})
    numbers = {json.loads(text)["id"]: order.rpartition(":")[2] for order, text in identities(store, "clicks")}
    assert numbers == {1: "0", 3: "1", 2: "2"}


def test_gzip_and_aggregated_records_are_taken_apart(deliver: Deliver) -> None:
    store = MemoryStore()
    whole = aggregated([row(1), gzip.compress(row(2)), row(3)])
    cut = whole[:40] + whole[41:]
    deliver(store, kinesis([(FIRST, whole), (FIRST + 1, gzip.compress(row(4))), (FIRST + 2, cut)]))
    places = {json.loads(text)["id"]: order for order, text in identities(store, "clicks")}
    assert places == {
        1: f"@kinesis:{FIRST}:{SHARD}:0", 2: f"@kinesis:{FIRST}:{SHARD + 1}:0", 3: f"@kinesis:{FIRST}:{SHARD + 2}:0",
        4: f"@kinesis:{FIRST + 1}:{SHARD}:0",
    }  # fmt: skip
    [letter] = letters(store, "clicks")
    assert (letter.reason, letter.original) == ("bad_record", cut)


@pytest.mark.parametrize("cut", range(4, 60, 7))
def test_an_aggregated_record_whose_protobuf_is_broken_is_a_dead_letter(deliver: Deliver, cut: int) -> None:
    import hashlib

    store = MemoryStore()
    message = aggregated([row(1), row(2)])[4:-16][:cut] + b"\xff"
    broken = b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message).digest()
    assert deliver(store, kinesis([(FIRST, broken), (FIRST + 1, row(9))])).failed is None
    assert [letter.original for letter in letters(store, "clicks")] == [broken]


def test_a_bomb_is_a_dead_letter(deliver: Deliver) -> None:
    store = MemoryStore()
    bomb = gzip.compress(bytes(3_000_000))
    assert deliver(store, kinesis([(FIRST, bomb)]), limits=Limits(inflated=1 << 20)).failed is None
    assert [letter.reason for letter in letters(store, "clicks")] == ["inflates_too_large"]


def test_bombs_of_one_aggregated_record_count_together(deliver: Deliver) -> None:
    store, bomb = MemoryStore(), gzip.compress(bytes(600_000))
    event = kinesis([(FIRST, aggregated([bomb] * 2)), (FIRST + 1, row(1))])
    assert deliver(store, event, limits=Limits(inflated=1 << 20)).failed is None
    assert [letter.reason for letter in letters(store, "clicks")] == ["inflates_too_large"]
    assert len(identities(store, "clicks")) == 1


def test_a_source_that_firn_yaml_does_not_name_is_not_taken(deliver: Deliver) -> None:
    store = MemoryStore()
    done = deliver(store, kinesis([(FIRST, row(1))], arn="arn:aws:kinesis:eu-central-1:123456789012:stream/other"))
    assert done.failed == 0
    assert "stream/other" in str(done.why)
    assert paths(store, "") == []


def test_while_storage_is_away_nothing_is_staged_and_all_comes_again(deliver: Deliver) -> None:
    store = FaultyStore()
    store.away = True
    assert deliver(store, kinesis([(FIRST, row(1))])).failed == 0
    store.away = False
    assert deliver(store, kinesis([(FIRST, row(1))])).failed is None
    assert len(staged(store, "clicks")) == 1


def test_a_batch_of_too_many_events_is_several_objects_and_fails_from_the_first_that_is_not_there(
    deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firn.log.store._PAUSES", (0.0, 0.0))
    limits = replace(Limits(), events=EventLimits(alone=2))
    records = [(FIRST + n, row(n)) for n in range(5)]
    store = FaultyStore(None, "refused", "refused", "refused", "refused")
    done = deliver(store, kinesis(records), limits=limits)
    assert done.failed == 2
    store.faults = []
    assert deliver(store, kinesis(records[2:]), limits=limits).failed is None
    assert len(identities(store, "clicks")) == len(staged(store, "clicks")) == 5


def test_what_the_backlog_has_no_room_for_comes_again(deliver: Deliver) -> None:
    store = MemoryStore()
    full = TransientError("full")
    done = deliver(store, kinesis([(FIRST, row(1))]), refusal=lambda stream: full)
    assert (done.failed, done.why, paths(store, "")) == (0, full, [])


def test_a_record_that_no_batch_can_hold_is_a_dead_letter_and_the_others_are_staged(
    deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firn.triggers import staging

    def poisoned(store: Store, config: Config, stream: str, messages: Sequence[bytes], **how: Any) -> Any:
        if any(b"777" in message and not how["refused"] for message in messages):
            raise RequestError(400, "not_utf8", "a text of it is not UTF-8")
        return accept(store, config, stream, messages, **how)

    accept = staging.accept_messages
    monkeypatch.setattr(staging, "accept_messages", poisoned)
    store = MemoryStore()
    done = deliver(store, kinesis([(FIRST + n, row(n)) for n in (1, 2, 777, 4, 5)]))
    assert done.failed is None
    assert set(rows_of(store, "clicks")) == {1, 2, 4, 5}
    assert [(letter.reason, letter.original) for letter in letters(store, "clicks")] == [("not_utf8", row(777))]


def history() -> list[tuple[int, bytes]]:
    """Three keys that change again and again, in one shard."""
    return [(FIRST + n, row(n % 3, v=n)) for n in range(9)]


EXPECTED = {0: {"id": 0, "v": 6}, 1: {"id": 1, "v": 7}, 2: {"id": 2, "v": 8}}


@pytest.mark.parametrize("split", [(9,), (3, 6), (1, 1, 7), (4, 5)])
def test_a_batch_that_comes_again_in_other_parts_changes_nothing(deliver: Deliver, split: Sequence[int]) -> None:
    store = MemoryStore()
    records = history()
    deliver(store, kinesis(records))
    once = identities(store, "clicks")
    for size in split:
        deliver(store, kinesis(records[:size]))
        records = records[size:]
    assert identities(store, "clicks") == once
    assert rows_of(store, "clicks") == EXPECTED


def again(deliver: Deliver, store: Store, done: Outcome | None) -> None:
    """What the mapping does: all of it if the function died, else from the first that failed."""
    records = history()
    first = 0 if done is None else done.failed
    if first is not None:
        assert deliver(store, kinesis(records[first:]), limits=LIMITED).failed is None


LIMITED = replace(Limits(), events=EventLimits(alone=4))


@pytest.mark.parametrize("when", get_args(When))
def test_wherever_a_delivery_dies_nothing_is_lost_or_counts_twice(deliver: Deliver, when: When) -> None:
    at = 0
    while True:
        at += 1
        store, done = MemoryStore(), None
        interrupted = InterruptedStore(store, at, when)
        with suppress(Died):
            done = deliver(interrupted, kinesis([*history(), (FIRST + 9, b"poison")]), limits=LIMITED)
        again(deliver, store, done)
        assert rows_of(store, "clicks") == EXPECTED, f"died {when} call {at}"
        assert len(identities(store, "clicks")) == 9
        if not interrupted.dead:
            break
    assert at >= 4, "three batches and a dead letter"


@pytest.mark.parametrize("fault", get_args(get_args(Fault)[0]))
@pytest.mark.parametrize("times", [1, 3])
def test_failing_puts_and_lost_answers_cost_no_record(
    deliver: Deliver, monkeypatch: pytest.MonkeyPatch, fault: Fault, times: int
) -> None:
    monkeypatch.setattr("firn.log.store._PAUSES", (0.0, 0.0))
    for at in range(4):
        store = FaultyStore(*[None] * at, *[fault] * times)
        done = deliver(store, kinesis(history()), limits=LIMITED)
        store.faults.clear()
        again(deliver, store, done)
        assert rows_of(store, "clicks") == EXPECTED, f"{times} puts from {at} on were {fault}"
        assert len(identities(store, "clicks")) == 9


def test_an_event_with_a_place_of_its_own_keeps_it_and_one_without_gets_the_records(deliver: Deliver) -> None:
    store = MemoryStore()
    own = change(1, version=5)
    bare = {**change(2), "source": {"connector": "vitess", "schema": "public", "table": "orders"}}
    texts = [(0, n, b'{"id": %d}' % n, json.dumps(one).encode()) for n, one in enumerate((own, bare))]
    deliver(store, kafka(texts, "bank.public.orders"))
    found = {json.loads(one["after"])["id"]: one for one in staged(store, "bank")}
    assert found[1]["order"] == '["1","5"]'
    assert (found[2]["order"], found[2]["key"], found[2]["connector"]) == ("@kafka:1:0:0", '{"id": 1}', "vitess")


def test_an_event_that_is_sent_again_is_one_in_one_batch_as_in_two(deliver: Deliver) -> None:
    """Debezium that was restarted sends it under another offset, made at another time."""
    sent = [json.dumps({**change(1, version=5), "ts_ns": made}).encode() for made in (1_000, 2_000)]
    records = [(0, 7, None, sent[0]), (0, 9, None, sent[1])]
    for batches in ([records], [records[:1], records[1:]]):
        store = MemoryStore()
        for batch in batches:
            deliver(store, kafka(batch, "bank.public.orders"))
        found = staged(store, "bank")
        assert len(found) == 2
        columns = {name: [one.get(name) for one in found] for name in (*PLACED_BY, "ts")}
        columns["index"] = [one.get("index", n) for n, one in enumerate(found)]
        done = placed(columns, 0, Order())
        assert done["occurrence"] == [0, 0]
        assert len(set(done["ord"])) == 1
    # Two of one record are two.
    store = MemoryStore()
    deliver(store, kinesis([(FIRST, b"\n".join(sent))], arn=STREAM.replace("clicks", "bank")))
    assert [one["emitted"] for one in staged(store, "shop")] == [0, 1]


def test_tombstones_after_debeziums_deletes_are_ignored(deliver: Deliver) -> None:
    store = MemoryStore()
    gone = {**change(1), "op": "d", "before": {"id": 1}, "after": None}
    event = kafka([(0, 7, b'{"id":1}', json.dumps(gone, indent=1).encode()), (0, 8, b'{"id":1}', None)], "bank.orders")
    done = deliver(store, event)
    assert [one.ignored for one in done.staged[0].accepted] == [{"tombstone": 1}]
    assert [one["op"] for one in staged(store, "bank")] == ["d"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b'{"id": 1}', b'{"name": "Ada"}', '{"id":1,"name": "Ada"}'),
        (b"1", b'{"name": "Ada"}', '{"id":1,"name": "Ada"}'),
        (b"user-1", b"{}", '{"id":"user-1"}'),
        (b'{"schema": {"type": "int32"}, "payload": 1}', b"{}", '{"id":1}'),
        (b'{"id": 2}', b'{"id": 1}', '{"id": 1}'),
        (None, b'{"id": 1}', '{"id": 1}'),
    ],
)
def test_the_records_key_gives_a_row_the_columns_of_its_key_that_it_lacks(
    deliver: Deliver, key: bytes | None, value: bytes, expected: str
) -> None:
    store = MemoryStore()
    deliver(store, kafka([(0, 0, key, value)]))
    assert [(one["table"], one["after"]) for one in staged(store, "crm")] == [("users", expected)]


def test_a_tombstone_deletes_the_row_of_its_key(deliver: Deliver) -> None:
    store = MemoryStore()
    deliver(store, kafka([(0, 1, b"1", b"{}"), (0, 2, b"2", b"{}"), (0, 3, b"1", None), (0, 4, None, None)]))
    assert rows_of(store, "crm") == {2: {"id": 2}}
    nameless = kafka([(0, 5, b'{"other": 1}', None), (0, 6, b"3", b"not json")])
    done = deliver(store, nameless)
    assert done.failed is None
    assert sorted(letter.reason for letter in letters(store, "crm")) == ["bad_json", "no_key"]


def test_an_append_table_without_a_key_ignores_tombstones(deliver: Deliver) -> None:
    done = deliver(MemoryStore(), kafka([(0, 1, b"1", None)], "notes"))
    assert [one.ignored for one in done.staged[0].accepted] == [{"tombstone": 1}]


def test_topics_of_one_event_go_to_the_streams_that_name_them(deliver: Deliver) -> None:
    store = MemoryStore()
    event = kafka([(0, 0, b"1", b"{}")])
    event["records"] |= kafka([(0, 0, b"1", json.dumps(change(1)).encode())], "bank.x")["records"]
    event["records"] |= kafka([(0, 0, b"1", b"{}")], "nobodys")["records"]
    done = deliver(store, event)
    assert done.failed == 2
    assert "nobodys" in str(done.why)
    assert (len(staged(store, "crm")), len(staged(store, "bank"))) == (1, 1)


def test_by_timestamp_a_key_goes_on_when_it_moves_to_another_partition(deliver: Deliver) -> None:
    for order in ((0, 1), (1, 0)):
        store = MemoryStore()
        batches = [kafka([(0, 900, b"1", b'{"v": 1}')], "timed", timestamp=1_700_000_000_000),
                   kafka([(4, 0, b"1", b'{"v": 2}')], "timed", timestamp=1_700_000_000_001)]  # fmt: skip
        for place in order:
            deliver(store, batches[place])
        assert rows_of(store, "timed") == {1: {"id": 1, "v": 2}}


def test_headers_go_with_the_event(deliver: Deliver, monkeypatch: pytest.MonkeyPatch) -> None:
    from firn.ingest import record_values

    seen: list[bytes] = []
    parse: Callable[..., Any] = record_values.parse
    monkeypatch.setattr(record_values, "parse", lambda text, *rest: seen.append(text) or parse(text, *rest))
    signed = [{"ce_type": [byte - 256 if byte > 127 else byte for byte in "é".encode()]}]
    deliver(MemoryStore(), kafka([(0, 0, None, json.dumps(change(1)).encode())], "bank.a", headers=signed))
    assert json.loads(seen[0])["headers"] == [["ce_type", "é"]]


def test_no_delete_at_a_records_place_is_forgotten_and_no_floor_made_of_one_counts() -> None:
    from firn.changes.record import by_record
    from firn.tables.table_state import FLOOR, floor_of

    old = position("rows", "d", f"@kinesis:{FIRST + (1 << 150)}:0:0", 0)
    timed = position("rows", "d", "@kafka-time:1700000000000:1:2:0", 0)
    lsn = position("postgresql", "d", '["1","2"]', 0)
    assert old is not None
    assert timed is not None
    assert lsn is not None
    assert [by_record(one) for one in (old, timed, lsn, b"")] == [True, False, False, False]
    assert floor_of({FLOOR: (old + b"\1rest").hex()}) == b""
    assert floor_of({FLOOR: timed.hex()}) == timed
