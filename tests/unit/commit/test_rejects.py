import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from firn.commit.rejects import by_table, reasons, write_rejects
from firn.config.names import TableName
from firn.log import epochs, holds, layout, published_configs
from firn.log.dead_letters.letters import count_dead, read_dead
from firn.log.epochs import Epoch, EpochBatch
from firn.log.store import paths, put_if_absent
from firn.quarantine.rules import killing_epoch
from tests.unit.log.storage_faults import FaultyStore

CONFIG = "streams: {shop: {generation: 3, tables: {'*': {to: 'shop.{table}'}}}}"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
BATCH = layout.batch_id("shop", NOW, bytes(8))
TABLE = TableName("shop", "orders")


def epoch(n: int, sha: str) -> Epoch:
    return Epoch(1, "shop", n, "nonce", layout.instant(NOW + timedelta(days=n)), sha, [], {})


def row(index: int, n: int = 1, code: str = "no_key", **more: Any) -> dict[str, Any]:
    change = {
        "table": "db.orders",
        "op": "u",
        "connector": "mysql",
        "order": '["bin.000001",4,0]',
        "ts": 5,
        "tx_order": 2,
    }
    change |= {
        "flat": False,
        "key": None,
        "before": None,
        "after": '{"id": 1}',
        "occurrence": 1,
        "origin": None,
        "emitted": None,
        "transaction": None,
    }
    place = {"epoch": n, "batch": BATCH, "index": index, "generation": None, "pos": None, "schema": None}
    return change | place | {"_code": code, "_message": "why"} | more


def test_a_rejected_change_is_kept_as_the_change_it_is() -> None:
    store = FaultyStore()
    sealed = {1: epoch(1, published_configs.publish(store, CONFIG).sha)}
    written = write_rejects(store, "shop", TABLE, sealed, [row(7, schema='{"type": "struct"}')])
    assert written == {("db.orders", "no_key"): 1}
    (path,) = paths(store, "dead")
    assert path == "dead/shop/2026/03/02/commit-00000000000000000001-shop.orders.parquet"
    (letter,) = read_dead(store, path)
    assert (letter.reason, letter.table, letter.batch, letter.index, letter.received_at) == (
        "no_key", "db.orders", BATCH, 7, NOW
    )  # fmt: skip
    assert letter.change is not None
    assert (letter.change.order, letter.change.tx_order, letter.change.occurrence) == ('["bin.000001",4,0]', 2, 1)
    assert json.loads(letter.original)["payload"]["after"] == {"id": 1}
    assert letter.generation == 3


def test_the_generation_is_that_of_the_position() -> None:
    store = FaultyStore()
    sealed = {1: epoch(1, published_configs.publish(store, CONFIG).sha)}
    placed = row(1, pos=(2).to_bytes(4) + bytes(41))
    write_rejects(store, "shop", TABLE, sealed, [placed, row(2, generation=1)])
    assert [letter.generation for letter in read_dead(store, paths(store, "dead")[0])] == [2, 1]


def test_a_rerun_over_another_range_finds_its_letters_written() -> None:
    store = FaultyStore()
    sha = published_configs.publish(store, CONFIG).sha
    sealed = {n: epoch(n, sha) for n in (1, 2)}
    write_rejects(store, "shop", TABLE, {1: sealed[1]}, [row(1), row(2)])
    written = write_rejects(store, "shop", TABLE, sealed, [row(2), row(1), row(3, 2)])
    assert sum(written.values()) == 1
    assert [count_dead(store, path)[0] for path in paths(store, "dead")] == [2, 1]


def test_what_only_a_second_try_rejects_is_not_lost() -> None:
    store = FaultyStore()
    sealed = {1: epoch(1, published_configs.publish(store, CONFIG).sha)}
    write_rejects(store, "shop", TABLE, sealed, [row(1), row(2)])
    for _ in range(2):
        write_rejects(store, "shop", TABLE, sealed, [row(1), row(9, code="type_mismatch")])
    found = [read_dead(store, path) for path in paths(store, "dead")]
    assert sorted([letter.index for letter in letters] for letters in found) == [[1, 2], [9]]


def test_counts_by_table_and_reason() -> None:
    rows = [row(1), row(2), row(3, code="type_mismatch")]
    assert by_table(reasons(rows)) == {"db.orders": {"no_key": 2, "type_mismatch": 1}}


def test_letters_of_an_epoch_that_was_given_up_are_not_written_again_when_its_batches_are_sealed_anew() -> None:
    store = FaultyStore()
    sha = published_configs.publish(store, CONFIG).sha
    held = EpochBatch(BATCH, layout.staged_path(BATCH), 100, 2)
    given_up, again = (msgspec.structs.replace(epoch(n, sha), batches=[held]) for n in (1, 2))
    put_if_absent(store, layout.epoch_path("shop", 1), epochs.encode(given_up))
    write_rejects(store, "shop", TABLE, {1: given_up}, [row(7)])
    holds.hold(store, killing_epoch("shop", 1, 3, layout.instant(NOW)))
    assert write_rejects(store, "shop", TABLE, {2: again}, [row(7, 2), row(8, 2)]) == {("db.orders", "no_key"): 1}
    there = [(letter.batch, letter.index) for path in paths(store, "dead") for letter in read_dead(store, path)]
    assert sorted(there) == [(BATCH, 7), (BATCH, 8)]
