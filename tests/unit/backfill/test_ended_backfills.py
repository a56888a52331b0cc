"""What a backfill left behind goes when it has ended long ago, and nothing before."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from obstore.store import MemoryStore

from firn.backfill import backfill_request as requests
from firn.backfill import chunk_plan
from firn.backfill.backfill_request import End, Request
from firn.backfill.chunk_claims import Claim
from firn.backfill.chunk_plan import Chunk, Plan, PlannedTable
from firn.backfill.ended_backfills import KEEP, sweep_ended
from firn.log import backfill_layout
from firn.log.batches import FORMAT
from firn.log.store import Store, paths, put
from tests.faults.calls import Counting, Died, WatchedStore

MADE = "2026-03-01T00:00:00.000Z"
ENDED = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
def store() -> Store:
    return MemoryStore()


def made(store: Store, name: str, status: Any = "done") -> None:
    """A backfill of two chunks. `status`: how it ended, None if it has not."""
    requests.write(store, Request(FORMAT, name, "shop", "postgres://u@h/d", MADE))
    chunk_plan.fix(store, "shop", Plan(FORMAT, name, MADE, [PlannedTable("public.t", "{}", [])], [Chunk(0, "t")] * 2))
    for n in range(2):
        path = backfill_layout.chunk_path("shop", name, n, 1)
        put(store, path, msgspec.json.encode(Claim(FORMAT, "", 0, 0, "0/5")))
    if status is not None:
        requests.end(store, "shop", name, End(FORMAT, status, "2026-03-02T00:00:00.000Z"))


def test_what_ended_long_ago_goes_and_what_is_open_or_new_stays(store: Store) -> None:
    made(store, "old")
    made(store, "cancelled", "cancelled")
    made(store, "open", None)
    put(store, "backfills/shop-2/x/request.json", b"{}")
    assert sweep_ended(store, "shop", ENDED + KEEP - timedelta(seconds=1)) == 0
    assert sweep_ended(store, "shop", ENDED + KEEP) == 10
    left = paths(store, "backfills")
    assert len(left) == 5
    assert all("/open/" in path or "/shop-2/" in path for path in left)
    assert [one.id for one in requests.open_ones(store, "shop")] == ["open"]
    assert sweep_ended(store, "shop", ENDED + 10 * KEEP) == 0


@pytest.mark.parametrize("how", ["dies before", "dies after"])
def test_wherever_it_dies_no_backfill_is_open_again_and_the_next_one_finishes(store: Store, how: Any) -> None:
    for at in range(1, 12):
        made(store, "old")
        with suppress(Died):
            sweep_ended(WatchedStore(store, Counting(at, how)), "shop", ENDED + KEEP)  # type: ignore[arg-type]
        assert requests.open_ones(store, "shop") == []
        sweep_ended(store, "shop", ENDED + KEEP)
        assert paths(store, "backfills/shop") == []
