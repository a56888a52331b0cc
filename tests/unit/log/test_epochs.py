import json
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from firn.audit.batch_status import batch_status, status_for
from firn.config.epoch_limits import Caps
from firn.config.model import Auth, Config
from firn.config.writers import Writer
from firn.ingest.accept import accept, accept_messages
from firn.log import cuts, epochs, holds, layout
from firn.log.batches import UnreadableBatch
from firn.log.store import Store, open_store, paths, put, remove
from firn.quarantine import rules
from tests.unit.log.storage_faults import FaultyStore

Body = Callable[..., bytes]
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture
def stage(config: Config, body: Body) -> Callable[..., str]:
    return lambda store, when, count=1: accept(store, config, "shop", body(count), now=when).batch_id


def seal(store: Store, now: datetime, nonce: str = "n", **options: Any) -> epochs.Epoch | None:
    found = epochs.candidates(store, "shop", now, **options)
    return epochs.seal(store, "shop", found, now=now, config="sha", nonce=nonce)


def test_an_epoch_lists_what_was_staged_and_by_whom_it_was_sealed(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    first, second = stage(store, now), stage(store, now + MINUTE, 3)
    epoch = seal(store, now + 2 * MINUTE)
    assert epoch is not None
    assert (epoch.n, epoch.config, epoch.events, epoch.tables) == (1, "sha", 4, {"public.orders": 4})
    assert [(b.id, b.path, b.events) for b in epoch.batches] == [
        (first, layout.staged_path(first), 1),
        (second, layout.staged_path(second), 3),
    ]
    assert all(batch.bytes > 1_000 for batch in epoch.batches)
    assert epochs.read(store, "shop", 1) == epoch
    stored = json.loads(bytes(store.get(layout.epoch_path("shop", 1)).bytes()))
    assert (stored["format"], stored["stream"], stored["n"]) == (1, "shop", 1)


def test_what_an_epoch_holds_is_no_candidate_again(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    stage(store, now)
    seal(store, now + MINUTE)
    late = stage(store, now + 2 * MINUTE)
    found = epochs.candidates(store, "shop", now + 3 * MINUTE)
    assert (found.next_n, [batch.id for batch in found.batches]) == (2, [late])


def test_a_batch_from_a_clock_an_hour_behind_is_found(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    stage(store, now)
    seal(store, now)
    behind = stage(store, now - timedelta(minutes=59))
    assert [b.id for b in epochs.candidates(store, "shop", now + MINUTE).batches] == [behind]


def test_who_lists_only_what_is_recent_leaves_what_is_late_to_others(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    stage(store, now)
    seal(store, now)
    late, soon = stage(store, now - timedelta(minutes=59)), stage(store, now - MINUTE)
    found = epochs.candidates(store, "shop", now + MINUTE, overlap=epochs.RECENT)
    assert [batch.id for batch in found.batches] == [soon]
    assert seal(store, now + MINUTE, overlap=epochs.RECENT) is not None
    assert [b.id for b in epochs.candidates(store, "shop", now + MINUTE).batches] == [late]


@pytest.mark.parametrize("behind", [0, 1, 59, 60])
def test_nothing_that_is_sealed_looks_free_however_little_is_listed(
    now: datetime, stage: Callable[..., str], behind: int
) -> None:
    """Sealers' clocks may be an hour off, either way."""
    store = MemoryStore()
    for n in range(40):
        at = now + 5 * n * MINUTE
        stage(store, at)
        assert seal(store, at + (-1) ** n * behind * MINUTE, nonce=str(n), overlap=epochs.RECENT)
        for overlap in (epochs.RECENT, epochs.OVERLAP):
            assert epochs.candidates(store, "shop", at, overlap=overlap).batches == []


def test_a_dispatcher_whose_clock_is_an_hour_behind_covers_the_same(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    for hour in range(6):
        stage(store, now + timedelta(hours=hour))
        assert seal(store, now + timedelta(hours=hour), nonce=str(hour))
        assert epochs.candidates(store, "shop", now + timedelta(hours=hour - 1)).batches == []


def test_a_batch_put_long_behind_the_floor_is_found_by_the_whole_listing(
    now: datetime, stage: Callable[..., str]
) -> None:
    store = MemoryStore()
    stage(store, now)
    seal(store, now)
    old = stage(store, now - timedelta(days=3))
    assert epochs.candidates(store, "shop", now).batches == []
    assert [b.id for b in epochs.candidates(store, "shop", now, whole=True).batches] == [old]


def test_a_stream_idle_for_long_is_found_again(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    stage(store, now)
    seal(store, now)
    new = stage(store, now + timedelta(days=30))
    assert [b.id for b in epochs.candidates(store, "shop", now + timedelta(days=30)).batches] == [new]


def test_numbers_go_on_after_9_and_after_99_999(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    for n in range(1, 12):
        stage(store, now + n * MINUTE)
        epoch = seal(store, now + n * MINUTE)
        assert epoch is not None
        assert epoch.n == n
    assert epochs.numbers(store, "shop") == list(range(1, 12))
    assert epochs.numbers(store, "shop", after=9) == [10, 11]
    assert epochs.candidates(store, "shop", now, above=99_999).next_n == 100_000


def test_a_twin_that_sealed_first_wins_and_the_loser_lists_again(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    stage(store, now)
    mine = epochs.candidates(store, "shop", now)
    assert seal(store, now, nonce="twin")
    assert epochs.seal(store, "shop", mine, now=now, config="sha", nonce="me") is None
    assert epochs.candidates(store, "shop", now).batches == []


def test_a_seal_whose_answer_was_lost_is_known_by_its_nonce(now: datetime, config: Config, body: Body) -> None:
    store = FaultyStore(None, "lost after")
    accept(store, config, "shop", body(), now=now)
    epoch = seal(store, now, nonce="me")
    assert epoch is not None
    assert epochs.numbers(store, "shop") == [1]


def test_of_many_dispatchers_sealing_at_once_each_batch_is_in_exactly_one_epoch(
    now: datetime, stage: Callable[..., str]
) -> None:
    store = MemoryStore()
    ids: list[str] = []
    start = threading.Barrier(5)

    def produce() -> None:
        start.wait()
        ids.extend(stage(store, now + n * timedelta(milliseconds=7)) for n in range(60))

    def dispatch(me: int) -> None:
        start.wait()
        for round_ in range(30):
            found = epochs.candidates(store, "shop", now + MINUTE)
            if found.batches:
                epochs.seal(store, "shop", found, now=now + MINUTE, config="sha", nonce=f"{me}.{round_}")

    threads = [threading.Thread(target=produce), *(threading.Thread(target=dispatch, args=(n,)) for n in range(4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while (
        seal(store, now + MINUTE, nonce="last") is not None and epochs.candidates(store, "shop", now + MINUTE).batches
    ):
        pass
    numbers = epochs.numbers(store, "shop")
    held = [batch.id for epoch in epochs.read_range(store, "shop", 1, numbers[-1]) for batch in epoch.batches]
    assert numbers == list(range(1, numbers[-1] + 1))
    assert sorted(held) == sorted(ids)


def test_an_epoch_holds_what_its_caps_allow_and_the_next_goes_on_from_there(
    now: datetime, stage: Callable[..., str]
) -> None:
    store = MemoryStore()
    staged = [stage(store, now + n * MINUTE, count) for n, count in enumerate((2, 1, 5, 1, 1))]
    caps = Caps(events=4, bytes=10**9)  # ten wait: the cap is 8
    first = epochs.candidates(store, "shop", now + 9 * MINUTE, caps=caps)
    assert [batch.id for batch in first.batches] == staged[:3]
    assert [(batch.id, batch.events) for batch in first.left] == [(staged[3], 1), (staged[4], 1)]
    assert epochs.seal(store, "shop", first, now=now + 9 * MINUTE, config="c", nonce="n")
    second = epochs.candidates(store, "shop", now + 9 * MINUTE, caps=Caps(events=1))
    assert ([batch.id for batch in second.batches], second.left) == (staged[3:], [])


def test_an_epoch_that_only_sets_the_number_hides_nothing_that_waits(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    many = [stage(store, now + n * SECOND) for n in range(3)]
    first = seal(store, now + MINUTE, per_writer=1)
    assert first is not None
    assert first.waits == many[1]
    later = now + 3 * epochs.OVERLAP
    empty = epochs.Epoch(1, "shop", 7, epochs.RENUMBERED, layout.instant(later), "sha", [], {})
    put(store, layout.epoch_path("shop", 7), epochs.encode(empty))
    for overlap in (epochs.OVERLAP, epochs.RECENT):
        found = epochs.candidates(store, "shop", later + MINUTE, overlap=overlap)
        assert (found.next_n, [one.id for one in found.batches]) == (8, many[1:])


def test_a_batch_that_waits_holds_back_those_who_sent_a_part_of_it_without_being_writers(
    now: datetime, config: Config, body: Body
) -> None:
    store, busy = MemoryStore(), Writer("busy", Auth("iam"))
    first = accept(store, config, "shop", body(5), now=now, writer=busy).batch_id
    both = layout.batch_id("shop", now + SECOND, bytes(8))
    accept_messages(
        store, config, "shop", [body(1), body(1)], tables=[None, None], writers=[busy, None], now=now, batch=both
    )
    after = accept(store, config, "shop", body(1), now=now + 2 * SECOND).batch_id
    found = epochs.candidates(store, "shop", now + MINUTE, per_writer=5)
    assert ([one.id for one in found.batches], [one.id for one in found.waiting]) == ([first], [both, after])


def test_a_batch_with_messages_of_who_is_no_writer_is_told_to_no_writer(
    now: datetime, config: Config, body: Body
) -> None:
    busy = Writer("busy", Auth("iam"))
    for others, told in ((None, False), (busy, True)):
        store, batch = MemoryStore(), layout.batch_id("shop", now, bytes(8))
        accept_messages(
            store, config, "shop", [body(1), body(1)], tables=[None, None], writers=[busy, others], now=now, batch=batch
        )
        assert (status_for(store, batch, "busy") is not None) is told


def test_what_waits_for_its_writers_sake_is_found_however_far_later_epochs_reach(
    now: datetime, config: Config, body: Body
) -> None:
    """Who lists only what is recent begins before the oldest that waits, though what is sealed is much newer."""
    store, busy, quiet = MemoryStore(), Writer("busy", Auth("iam")), Writer("quiet", Auth("iam"))

    def staged(when: datetime, count: int, writer: Writer) -> str:
        return accept(store, config, "shop", body(count), now=when, writer=writer).batch_id

    many = [staged(now + n * SECOND, 5, busy) for n in range(3)]
    few = [staged(now + 9 * MINUTE, 1, quiet)]
    shared: dict[str, Any] = {"per_writer": 5, "overlap": epochs.RECENT}
    found = epochs.candidates(store, "shop", now + 9 * MINUTE, **shared)
    assert ([one.id for one in found.batches], found.left) == ([many[0], *few], [])
    assert [one.id for one in found.waiting] == many[1:]
    sealed = [seal(store, now + (10 + 9 * n) * MINUTE, str(n), **shared) for n in range(3)]
    assert [epoch and [one.id for one in epoch.batches] for epoch in sealed] == [[many[0], *few], [many[1]], [many[2]]]
    assert [epoch and epoch.waits for epoch in sealed] == [many[1], many[2], ""]
    assert epochs.candidates(store, "shop", now + 30 * MINUTE, whole=True).batches == []


def test_what_nobody_looked_into_is_left_too(
    now: datetime, stage: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "MAX_BATCHES", 2)
    store = MemoryStore()
    staged = [stage(store, now + n * MINUTE) for n in range(3)]
    found = epochs.candidates(store, "shop", now + 9 * MINUTE)
    assert [(batch.id, batch.events) for batch in found.left] == [(staged[2], 0)]
    assert found.left[0].bytes > 1_000


def test_a_footer_is_read_once(now: datetime, stage: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    stage(store, now)
    first = epochs.candidates(store, "shop", now)
    monkeypatch.setattr(epochs, "read_meta", None)
    assert epochs.candidates(store, "shop", now) == first


def test_foreign_objects_are_left_out(
    now: datetime, stage: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    good = stage(store, now)
    put(store, "staged/shop/notes.txt", b"x")
    put(store, f"staged/shop/elsewhere/{good}.parquet", b"x")
    put(store, layout.staged_path(layout.batch_id("shop", now, bytes(8))), b"no parquet")
    assert [b.id for b in epochs.candidates(store, "shop", now).batches] == [good]
    assert "left out of every epoch" in caplog.text


def test_streams_whose_names_begin_alike_do_not_mix(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    stage(store, now)
    assert epochs.candidates(store, "sho", now).batches == []


def test_an_epoch_of_a_newer_format_is_refused(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    stage(store, now)
    epoch = seal(store, now)
    assert epoch is not None
    newer = {
        "format": 2,
        "stream": "shop",
        "n": 2,
        "nonce": "",
        "sealed_at": "",
        "config": "",
        "batches": [],
        "tables": {},
    }
    put(store, layout.epoch_path("shop", 2), json.dumps(newer).encode())
    with pytest.raises(UnreadableBatch, match="format 2"):
        epochs.read(store, "shop", 2)


def test_the_newest_cut_and_the_one_that_covers_an_epoch_are_found() -> None:
    store = MemoryStore()
    assert cuts.newest(store, "shop") == 0
    for n in (3, 10):
        assert cuts.write(store, cuts.make("shop", n, "2026-03-01T12:30:00.000Z", {"shop.orders": n * 1_000}))
    assert not cuts.write(store, cuts.make("shop", 10, "later", {}))
    assert cuts.newest(store, "shop") == 10
    assert [cut and cut.n for cut in (cuts.covering(store, "shop", n) for n in (1, 3, 4, 10, 11))] == [
        3,
        3,
        10,
        10,
        None,
    ]
    found = cuts.read(store, "shop", 3)
    assert found is not None
    assert found.tables == {"shop.orders": 3_000}


def test_a_batch_says_what_became_of_it(now: datetime, stage: Callable[..., str]) -> None:
    store = MemoryStore()
    batches = []
    for n in range(20):
        batches.append(stage(store, now + n * 30 * MINUTE))
        seal(store, now + n * 30 * MINUTE + MINUTE)
    last = stage(store, now + timedelta(days=1))
    cuts.write(store, cuts.make("shop", 12, "t", {"shop.orders": 77}))

    def state(batch: str) -> tuple[str, int | None, int | None]:
        status = batch_status(store, batch)
        assert status is not None
        return status.state, status.epoch, status.cut

    assert state(batches[0]) == ("committed", 1, 12)
    assert state(batches[11]) == ("committed", 12, 12)
    assert state(batches[12]) == ("sealed", 13, None)
    assert state(last) == ("staged", None, None)
    committed = batch_status(store, batches[0])
    assert committed is not None
    assert (committed.snapshots, committed.accepted, committed.dead_letters) == ({"shop.orders": 77}, 1, 0)


@pytest.mark.parametrize("batch", ["", "nonsense", "shop." + "0" * 28])
def test_an_unknown_batch_has_no_status(batch: str) -> None:
    assert batch_status(MemoryStore(), batch) is None


def test_epochs_are_read_back_only_as_far_as_they_may_be_wanted() -> None:
    store = FaultyStore()
    sealed = {1: "2026-01-01", 2: "2026-01-20", 3: "2026-01-30", 4: "2026-02-01"}
    for n, day in sealed.items():
        found = epochs.Candidates(n, [], [])
        when = datetime.fromisoformat(f"{day}T00:00:00+00:00")
        assert epochs.seal(store, "shop", found, now=when, config="sha", nonce=str(n))
    assert [epoch.n for epoch in epochs.read_back(store, "shop", 4, timedelta(days=15))] == [2, 3, 4]
    assert [epoch.n for epoch in epochs.read_back(store, "shop", 2, timedelta(days=15))] == [2]
    assert epochs.read_back(store, "shop", 9, timedelta(days=15)) == []


def test_a_warm_dispatcher_takes_no_epoch_of_an_emptied_staging_area_for_one_of_the_new(
    now: datetime, stage: Callable[..., str], tmp_path: Path
) -> None:
    warm, other = open_store(f"file://{tmp_path}"), open_store(f"file://{tmp_path}")
    stage(warm, now)
    assert seal(warm, now + MINUTE) is not None
    assert not epochs.candidates(warm, "shop", now + MINUTE).batches, "it has read the epoch"
    remove(warm, paths(warm, ""))
    new = stage(other, now + 2 * MINUTE)
    assert seal(other, now + 3 * MINUTE) is not None
    assert epochs.candidates(warm, "shop", now + 4 * MINUTE).batches == []
    assert [batch.id for epoch in epochs.read_range(warm, "shop", 1, 1) for batch in epoch.batches] == [new]


def test_a_listing_that_contradicts_one_epoch_forgets_those_below_it_too(
    now: datetime, stage: Callable[..., str]
) -> None:
    store = MemoryStore()
    for n in (1, 2, 3):
        stage(store, now + n * MINUTE)
        assert seal(store, now + n * MINUTE) is not None
    assert len(epochs.read_range(store, "shop", 1, 3)) == 3
    remove(store, [layout.epoch_path("shop", n) for n in (1, 2, 3)])
    assert epochs.numbers(store, "shop", 2) == []
    assert epochs.read(store, "shop", 1) is None


def test_epochs_that_are_as_they_were_are_read_once(now: datetime, stage: Callable[..., str], tmp_path: Path) -> None:
    for store in (FaultyStore(), open_store(f"file://{tmp_path}")):
        stage(store, now)
        seal(store, now + MINUTE)
        first = epochs.read(store, "shop", 1)
        assert epochs.numbers(store, "shop") == [1]
        assert epochs.read(store, "shop", 1) is first


class Reads(FaultyStore):
    """Another process's view of a store. `epochs`: the numbers of those that were read; `after`: where listings of them
    began."""

    def __init__(self, other: FaultyStore) -> None:
        super().__init__()
        self.inner = other.inner
        self.epochs: set[int | None] = set()
        self.after: list[int] = []

    def get(self, path: str) -> Any:
        if path.startswith(layout.epoch_prefix("shop")):
            self.epochs.add(layout.number_of(path))
        return super().get(path)

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> Any:
        if prefix == layout.epoch_prefix("shop"):
            self.after.append(layout.number_of(offset) or 0 if offset else 0)
        return super().list(prefix, offset=offset)


def test_a_look_at_everything_reads_no_epoch_from_before_what_is_staged(
    now: datetime, stage: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "_READ_AT_ONCE", 2)
    store = FaultyStore()
    for day in range(20):
        batch = stage(store, now + timedelta(days=day))
        assert seal(store, now + timedelta(days=day, hours=1), nonce=str(day))
        if day < 15:
            remove(store, [layout.staged_path(batch)])  # as the log's retention does
    late = stage(store, now + timedelta(days=17, minutes=1))  # put behind the floor by a retry that took its time
    looked = Reads(store)
    found = epochs.candidates(looked, "shop", now + timedelta(days=20), whole=True)
    assert [one.id for one in found.batches] == [late]
    assert looked.epochs >= {16, 17, 18, 19, 20}
    assert not looked.epochs & set(range(1, 13))


def test_an_epoch_that_was_sealed_again_costs_no_later_look_anything(
    now: datetime, stage: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "_LATEST", 6)
    store = FaultyStore()
    for day in range(12):
        stage(store, now + timedelta(days=day))
        assert seal(store, now + timedelta(days=day), nonce=str(day))
    held = rules.unreadable_epoch("shop", 2, "", layout.instant(now))
    holds.hold(store, held)
    holds.lift(store, held, "retry", layout.instant(now))
    then = now + timedelta(days=12)
    looked = Reads(store)
    found = epochs.candidates(looked, "shop", then, above=12)
    assert (len(found.batches), looked.after) == (1, [0])
    assert epochs.seal(store, "shop", found, now=then, config="sha", nonce="again")
    holds.note_again(store, "shop", 2)
    stage(store, then)
    assert seal(store, then, nonce="next", above=13)
    looked = Reads(store)
    found = epochs.candidates(looked, "shop", then, above=14)
    assert (found.batches, found.next_n, looked.after) == ([], 15, [8])


def test_objects_that_nobody_can_read_do_not_hold_up_what_comes_after_them(
    now: datetime, stage: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "MAX_BATCHES", 2)
    store = MemoryStore()
    for second in range(5):
        path = layout.staged_path(stage(store, now + timedelta(seconds=second)))
        store.put(path, b"no Parquet")
    good = [stage(store, now + timedelta(minutes=n)) for n in (1, 2, 3)]
    found = epochs.candidates(store, "shop", now + timedelta(minutes=5))
    assert [batch.id for batch in found.batches] == good[:1]
    assert [batch.id for batch in found.left] == good[1:]
