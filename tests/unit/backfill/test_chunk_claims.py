"""A chunk is staged as one batch, wherever whoever stages it dies, and whoever else does the same meanwhile."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from obstore.store import MemoryStore

from firn.backfill import chunk_claims
from firn.backfill.chunk_claims import Claim
from firn.changes.change import Parsed
from firn.errors import StorageUnavailable, UnknownOutcome
from firn.log import backfill_layout, layout
from firn.log.batches import FORMAT, BatchMeta, read_meta, write_batch
from firn.log.store import Store, paths, put_if_absent
from tests.faults.calls import FAULTS, Counting, Died, Fault, WatchedStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def parsed(rows: int) -> Parsed:
    none = [None] * rows
    return Parsed(
        index=[*range(rows)], op=["r"] * rows, table=["public.t"] * rows, ts=none, connector=["postgresql"] * rows,
        order=['["0","5"]'] * rows, tx_order=none, emitted=none, flat=[False] * rows, key=none, before=none,
        after=[b'{"id":1}'] * rows, schema=none, transaction=none, ignored={}, rejected=[],
    )  # fmt: skip


def body(rows: int) -> Callable[[str, str], bytes]:
    def made(batch: str, received: str) -> bytes:
        return write_batch(
            parsed(rows), BatchMeta(FORMAT, "shop", batch, received, "c", rows, 0, {}, {"public.t": rows})
        )

    return made


def stage(store: Store, rows: int = 2, seconds: int = 0) -> Claim:
    when = NOW + timedelta(seconds=seconds)
    return chunk_claims.stage(store, "shop", "b1", 7, "c", lambda: when, body(rows), Claim(FORMAT, "", rows, 10, "0/5"))


def held(store: Store) -> list[int]:
    """The rows of each batch that is there."""
    metas = [read_meta(store, path) for path in paths(store, "staged/shop")]
    return [meta.accepted for meta in metas if meta is not None]


def test_a_chunk_that_is_staged_is_not_staged_again() -> None:
    store = MemoryStore()
    first = stage(store)
    assert stage(store, rows=3, seconds=60) == first
    assert chunk_claims.find(store, "shop", "b1", 7, "c").staged == first
    assert held(store) == [2]
    assert layout.time_of(first.batch) == NOW


def test_a_chunk_without_rows_is_staged_by_its_claim_alone() -> None:
    store = MemoryStore()
    assert stage(store, rows=0).batch == ""
    assert chunk_claims.find(store, "shop", "b1", 7, "c").staged is not None
    assert held(store) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_call_fails_or_dies_the_next_try_leaves_one_batch(fault: Fault) -> None:
    store = MemoryStore()
    total = Counting()
    stage(WatchedStore(MemoryStore(), total))
    for at in range(1, len(total.log) + 1):
        store = MemoryStore()
        with suppress(Died, StorageUnavailable, UnknownOutcome):
            stage(WatchedStore(store, Counting(at, fault)), rows=2)
        found = stage(store, rows=3, seconds=7_200)
        assert sorted(held(store)) in ([2], [3], [0, 3]), (at, total.log)
        assert chunk_claims.find(store, "shop", "b1", 7, "c").staged == found
        # Of a batch that dispatch does not look for any more nothing is left to find.
        assert sum(held(store)) == found.rows


def test_who_was_thought_dead_stages_nothing() -> None:
    store = MemoryStore()
    claim = Claim(FORMAT, layout.batch_id("shop", NOW, b"12345678"), 2, 10, "0/5")
    assert put_if_absent(store, backfill_layout.chunk_path("shop", "b1", 7, 1), msgspec.json.encode(claim))
    second = stage(store, rows=3, seconds=5)  # it reads the chunk again, and makes the other's batch void
    assert not put_if_absent(store, layout.staged_path(claim.batch), body(2)(claim.batch, layout.instant(NOW)))
    assert sorted(held(store)) == [0, 3]
    assert second.batch != claim.batch
