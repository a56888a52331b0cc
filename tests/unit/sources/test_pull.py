"""A pull that dies anywhere stages each change once, and a plan's batches are sealed together."""

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import obstore.store
import pytest

from firn.config.reader import parse
from firn.errors import StorageUnavailable
from firn.log import epochs, layout, published_configs, pulls
from firn.log.batches import read_meta
from firn.log.store import paths
from firn.sources.database_port import SourceStopped
from firn.sources.postgres.row_form import UNCHANGED
from firn.sources.postgres.wal2json_lines import CatalogColumn, CatalogTable
from firn.sources.pull import PullTask, pull
from tests.soak import times
from tests.unit.sources import wal
from tests.unit.sources.wal import ITEMS, Wal

CONFIG = parse("""
streams:
  shop: {tables: {public.items: {to: shop.items, key: [id]}}}
sources:
  shop: {postgres: 'postgresql://firn@127.0.0.1/shop', slot: firn_shop, publication: firn, stream: shop}
""")
START = datetime(2026, 3, 1, tzinfo=UTC)


class Killed(BaseException):
    """The function dies here."""


class KillingStore:
    """A store that says each write to `step`, before and after."""

    def __init__(self, inner, step) -> None:
        self._inner, self.step = inner, step

    def put(self, path, file, *, mode):
        self.step(f"before {path.partition('/')[0]}")
        done = self._inner.put(path, file, mode=mode)
        self.step(f"after {path.partition('/')[0]}")
        return done

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=7)
        return self.now


def task_of(store, part_bytes=1 << 20, clock=None, **more) -> PullTask:
    return PullTask(store, CONFIG.sources["shop"], clock or Clock(), 1 << 20, part_bytes=part_bytes, **more)


def staged(store) -> list[tuple[str, list[dict]]]:
    """(batch, its changes) of all that is staged."""
    import pyarrow.parquet

    found = []
    for path in paths(store, "staged"):
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(bytes(store.get(path).bytes())))
        found.append((layout.staged_batch(path), table.to_pylist()))
    return found


def inserts(log: Wal, begin: int, count: int, size: int = 10) -> None:
    log.commit(*(wal.insert(ITEMS.oid, (b"%d" % number, b"x" * size)) for number in range(begin, begin + count)))


def test_changes_are_staged_under_a_plan_and_the_slot_is_let_go() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 1, 3)
    log.commit(
        wal.update(ITEMS.oid, (b"1", UNCHANGED)),
        wal.update(ITEMS.oid, (b"9", UNCHANGED), (b"2", None)),
        wal.delete(ITEMS.oid, (b"3", None)),
        wal.truncate(ITEMS.oid),
    )
    done = pull(task_of(store), CONFIG, log)
    assert (done.plan, done.changes, done.batches) == (1, 7, 1)
    assert log.confirmed == log.end
    [(batch, rows)] = staged(store)
    assert [row["op"] for row in rows] == ["c", "c", "c", "u", "d", "c", "d", "t"]
    assert [row["tx_order"] for row in rows] == [1, 2, 3, 1, 2, 3, 4, 5]
    assert [row["after"] for row in rows][3] == '{"id":1,"v":{"__firn_unavailable__":true}}'
    assert [(row["before"], row["after"]) for row in rows][4:6] == [
        ('{"id":2}', None),
        (None, '{"id":9,"v":{"__firn_unavailable__":true}}'),
    ]
    assert rows[6]["key"] == '{"id":3}'
    first, second = log.transactions
    assert rows[0]["order"] == f"[{first.commit_lsn},{first.messages[0][0]}]"
    assert rows[4]["order"] == rows[5]["order"] == f"[{second.commit_lsn},{second.messages[1][0]}]"
    assert {row["connector"] for row in rows} == {"postgresql"}
    assert {row["ts"] for row in rows} == {1_767_139_200_000}
    assert read_meta(store, layout.staged_path(batch)).plan == "pulls/shop/shop/00000000000000000001.plan"
    assert pull(task_of(store), CONFIG, log).plan == 0


def test_nothing_is_written_while_nothing_comes_and_the_slot_goes_on_over_wal_of_others() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    assert pull(task_of(store), CONFIG, log).plan == 0
    log.noise(1000)
    assert pull(task_of(store), CONFIG, log).plan == 0
    assert paths(store, "") == []
    assert pull(task_of(store), CONFIG, log, idle=True).plan == 1
    assert log.confirmed == log.end
    log.noise(1 << 26)
    assert pull(task_of(store), CONFIG, log).plan == 2
    assert log.confirmed == log.end
    assert staged(store) == []


def test_a_backlog_is_taken_in_windows_of_the_log() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    for number in range(30):
        inserts(log, number, 1, size=100)
    task = task_of(store, window=1000)
    rounds = []
    while not rounds or rounds[-1].behind:
        rounds.append(pull(task, CONFIG, log))
    assert len(rounds) > 3
    assert log.confirmed == log.end
    assert sum(one.changes for one in rounds) == 30


def test_a_window_is_no_smaller_than_what_is_decoded_again_under_an_open_transaction() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    log.noise(1 << 20)
    log.confirmed = log.end
    for number in range(30):
        inserts(log, number, 1, size=100)
    assert not pull(task_of(store, window=1000), CONFIG, log).behind


@pytest.mark.parametrize("seed", range(times(6, 100)))
def test_a_pull_that_dies_anywhere_stages_each_change_once(seed: int) -> None:
    """The function is killed before and after each write and each move of the slot, at random, the database crashes in
    between; then each change is in exactly one batch, in whole plans."""
    draw = random.Random(seed)
    log, inner, clock = Wal(), obstore.store.MemoryStore(), Clock()
    for number in range(12):
        inserts(log, 1000 * number, draw.choice([1, 3, 40]), size=draw.choice([5, 300]))
        log.noise(draw.choice([0, 100, 5000]))
    wanted = Counter(lsn for one in log.transactions for lsn, _ in one.messages)
    kills = before = draw.randrange(20, 40)
    steps, first = 0, draw.randrange(1, 7)  # one death for sure: a wide window leaves few steps to die at

    def step(_: str) -> None:
        nonlocal kills, steps
        steps += 1
        if kills and (steps == first or draw.random() < 0.04):
            kills -= 1
            raise Killed

    store = KillingStore(inner, step)
    log.step = step
    for _ in range(2000):
        try:
            done = pull(task_of(store, part_bytes=2000, clock=clock, window=draw.choice([2000, 10**6])), CONFIG, log)
            if not done.plan and not done.behind:
                break
        except Killed:
            if draw.random() < 0.3:
                log.crash()
        log.persisted = draw.choice([log.persisted, log.confirmed])
        sealed_whole(inner)
    assert kills < before
    rows = [row for _, batch in staged(inner) for row in batch]
    assert Counter(int(row["order"][1:-1].split(",")[1]) for row in rows) == wanted
    assert len({(row["order"], row["tx_order"]) for row in rows}) == len(rows)
    found = epochs.candidates(inner, "shop", clock())
    assert sum(batch.events for batch in found.batches) == len(rows)


def test_what_plans_hold_is_skipped_though_the_slot_is_further_back() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 1, 3)
    pull(task_of(store), CONFIG, log)
    log.crash()
    log.advance = lambda upto: None  # and it forgets again and again
    inserts(log, 10, 2)
    assert pull(task_of(store), CONFIG, log).changes == 2
    assert sorted(len(rows) for _, rows in staged(store)) == [2, 3]


def sealed_whole(store) -> None:
    """What dispatch would seal now holds whole transactions only."""
    found = epochs.candidates(store, "shop", START + timedelta(minutes=1))
    plans = Counter(read_meta(store, batch.path).plan for batch in found.batches)
    for path, count in plans.items():
        done = pulls.done_of(store, path)
        assert done is not None
        assert done.parts == count


def test_parts_of_a_large_transaction_are_sealed_in_one_epoch_or_not_at_all() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 100, size=200)
    steps = []

    def step(name: str) -> None:
        steps.append(name)
        if steps.count("after staged") == 5:
            raise Killed

    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, step), part_bytes=2000), CONFIG, log)
    assert len(staged(store)) == 5
    assert epochs.candidates(store, "shop", START).batches == []
    done = pull(task_of(store, part_bytes=2000), CONFIG, log)
    assert done.batches > 6
    caps = replace(epochs.DEFAULT_CAPS, events=20)
    found = epochs.candidates(store, "shop", START, caps=caps)
    assert len(found.batches) == done.batches
    assert found.left == []
    inserts(log, 200, 100, size=200)
    pull(task_of(store, part_bytes=2000), CONFIG, log)
    found = epochs.candidates(store, "shop", START, caps=caps)
    assert len(found.batches) == done.batches
    assert found.left


def test_a_listing_that_is_older_than_the_last_part_seals_nothing_of_the_plan() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 100, size=200)
    pull(task_of(store, part_bytes=2000), CONFIG, log)
    [*batches] = [batch for batch, _ in staged(store)]
    path = "pulls/shop/shop/00000000000000000001.plan"
    seen = batches[:3]
    assert pulls.unfinished(store, [(one, path) for one in seen], seen) == set(seen)
    assert pulls.unfinished(store, [(one, path) for one in batches], batches) == set()
    # Some are in an epoch already, and the others free again: together they are whole.
    assert pulls.unfinished(store, [(one, path) for one in seen], batches) == set()


def test_two_readers_of_one_plan_stage_it_once() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 50, size=200)

    def die(name: str) -> None:
        if name == "before staged":
            raise Killed

    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, die), part_bytes=2000), CONFIG, log)
    slow = Wal(log.transactions, log.end)
    first = pull(task_of(store, part_bytes=2000), CONFIG, log)
    again = pulls.newest(store, "shop", "shop")
    assert again is not None
    from firn.sources import pull as rounds

    second = rounds._finished(task_of(store, part_bytes=2000), CONFIG, slow, again.plan, slow.look())
    assert (first.changes, first.batches) == (second.changes, second.batches)
    assert sum(len(rows) for _, rows in staged(store)) == 50


def test_a_plan_is_not_made_when_storage_is_away_and_nothing_is_skipped() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 3)

    def away(name: str) -> None:
        raise OSError("kind: Connect")

    with pytest.raises(StorageUnavailable):
        pull(task_of(KillingStore(store, away)), CONFIG, log)
    assert log.confirmed == 1000
    assert pull(task_of(store), CONFIG, log).changes == 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda log: setattr(log, "database", replace_database(log, system="8000")), "another database"),
        (lambda log: setattr(log, "database", replace_database(log, timeline=2)), "timeline 2, and was on 1"),
        (lambda log: setattr(log, "database", replace_database(log, slot="other")), "another slot, other"),
        (lambda log: setattr(log, "confirmed", log.end), "created again, or somebody else reads it"),
        (lambda log: setattr(log, "end", 1001), "set back to an earlier state"),
    ],
    ids=["system", "timeline", "slot", "ahead", "behind"],
)
def test_a_log_that_does_not_go_on_where_the_last_plan_ended_stops_the_source(change, why: str) -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 3)
    pull(task_of(store), CONFIG, log)
    inserts(log, 10, 3)
    change(log)
    before = paths(store, "")
    with pytest.raises(SourceStopped, match=why) as stopped:
        pull(task_of(store), CONFIG, log)
    assert "generation: 1" in str(stopped.value)
    assert "firn backfill shop --replace" in str(stopped.value)
    assert paths(store, "") == before
    raised = parse(CONFIG.text.replace("{tables", "{generation: 1, tables"))
    log.end = max(log.end, 2000)
    log.confirmed = min(log.confirmed, log.end)
    inserts(log, 20, 2)
    assert pull(task_of(store), raised, log).plan == 2
    assert pulls.newest(store, "shop", "shop").plan.generation == 1


def replace_database(log: Wal, **change):
    import msgspec

    return msgspec.structs.replace(log.database, **change)


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("writes", [True, False])
def test_a_database_that_was_set_back_and_has_written_since_stops_the_source(idle: bool, writes: bool) -> None:
    """The image of a disk has the same identifier, timeline and slot: only what its log holds is other."""
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 3)
    pull(task_of(store), CONFIG, log)
    image = replace(log, transactions=list(log.transactions))
    inserts(log, 10, 3)
    pull(task_of(store), CONFIG, log)
    if idle:
        log.noise(50)
        assert pull(task_of(store), CONFIG, log, idle=True).plan == 3
    if writes:
        inserts(image, 20, 2)
    image.noise(500)
    with pytest.raises(SourceStopped, match=r"is not the one that was read.*generation: 1"):
        pull(task_of(store), CONFIG, image)
    assert image.confirmed < log.confirmed
    raised = parse(CONFIG.text.replace("{tables", "{generation: 1, tables"))
    assert pull(task_of(store), raised, image, idle=True).changes == 2 * writes


def test_a_slot_that_is_behind_after_a_crash_is_not_taken_for_one_that_was_set_back() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    for number in range(4):
        inserts(log, number, 2)
        pull(task_of(store), CONFIG, log)
        log.noise(50)
        pull(task_of(store), CONFIG, log, idle=True)
        if number == 2:
            log.persisted = log.confirmed
    log.crash()
    inserts(log, 99, 1)
    assert pull(task_of(store), CONFIG, log).changes == 1
    log.confirmed = log.transactions[-1].end_lsn - 1  # behind the last commit, and before the plan's end
    assert pull(task_of(store), CONFIG, log).plan == 0


def test_a_slot_that_was_moved_past_an_unfinished_plan_stops_the_source() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 50, size=200)

    def die(name: str) -> None:
        if name == "before staged":
            raise Killed

    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, die)), CONFIG, log)
    log.confirmed = log.transactions[0].end_lsn
    with pytest.raises(SourceStopped, match="somebody else advanced it"):
        pull(task_of(store), CONFIG, log)


def test_plans_are_removed_once_they_are_old_and_their_batches_are_sealed_all_the_same() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    for number in range(3):
        inserts(log, number, 1)
        pull(task_of(store), CONFIG, log)
    late = datetime.now(UTC) + pulls.KEEP + timedelta(hours=1)
    assert pulls.forget(store, "shop", "shop", datetime.now(UTC)) == 0
    assert pulls.forget(store, "shop", "shop", late) == 2
    assert [path.rpartition("/")[2][-6:] for path in paths(store, "pulls")] == ["3.done", "3.plan", "s.json"]
    assert pulls.newest(store, "shop", "shop").plan.n == 3
    assert pulls.newest(store, "shop", "shop", after=3).plan.n == 3
    pulls._dones.clear()
    assert len(epochs.candidates(store, "shop", START).batches) == 3


def test_what_was_never_finished_is_never_sealed_however_old_it_is() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 50, size=200)

    def die(name: str) -> None:
        if name == "after staged":
            raise Killed

    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, die), part_bytes=2000), CONFIG, log)
    raised = parse(CONFIG.text.replace("{tables", "{generation: 1, tables"))
    inserts(log, 100, 1)
    assert pull(task_of(store), raised, log).plan == 2
    assert pulls.forget(store, "shop", "shop", datetime.now(UTC) + timedelta(days=99)) == 0
    assert [one.events for one in epochs.candidates(store, "shop", START).batches] == [51]


def test_a_plan_that_stands_across_the_end_of_a_window_is_sealed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    log, store, clock = Wal(), obstore.store.MemoryStore(), Clock()
    monkeypatch.setattr(epochs, "MAX_BATCHES", 4)
    for number in range(3):
        inserts(log, number, 1)
        pull(task_of(store, clock=clock), CONFIG, log)
    inserts(log, 100, 30, size=200)
    done = pull(task_of(store, part_bytes=4000, clock=clock), CONFIG, log)
    assert done.batches == 2
    for epoch in range(1, 4):
        found = epochs.candidates(store, "shop", clock())
        if not found.batches:
            break
        assert len({batch.id for batch in found.batches} & {batch.id for batch in found.left}) == 0
        plans = Counter(meta.plan for meta in found.metas)
        for path, count in plans.items():
            assert pulls.done_of(store, path).parts == count
        assert epochs.seal(store, "shop", found, now=clock(), config="c", nonce="n").n == epoch
    assert epochs.candidates(store, "shop", clock()).batches == []


def test_a_plan_is_read_again_by_the_publication_that_it_was_made_of() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    both = parse(CONFIG.text.replace("public.items: {to: shop.items", "public.*: {to: 'shop.{table}'"))
    other = replace_oid(ITEMS, 16385)
    log.tables[other.oid] = other
    log.published = {"firn": {ITEMS.oid, other.oid}, "less": {ITEMS.oid}}
    changes = [wal.insert(oid, (b"%d" % number, b"x" * 200)) for number in range(30) for oid in (other.oid, ITEMS.oid)]
    log.commit(*changes)
    puts = []

    def die(name: str) -> None:
        puts.append(name)
        if puts.count("after staged") == 2:
            raise Killed

    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, die), part_bytes=2000), both, log)
    less = parse(both.text.replace("publication: firn", "publication: less"))
    task = PullTask(store, less.sources["shop"], Clock(), 1 << 20, part_bytes=2000)
    pull(task, less, log)
    rows = [row for _, batch in staged(store) for row in batch]
    assert len(rows) == len({row["order"] for row in rows}) == 60


def test_half_a_primary_key_is_none() -> None:
    """The key is looked up after the change was made: one of its columns may have another name by then."""
    import msgspec

    full = msgspec.structs.replace(ITEMS, identity="f", key=(0, 1))
    log, store = Wal(tables={full.oid: full}), obstore.store.MemoryStore()
    log.primary_key = lambda _: ("id", "renamed")
    log.commit(wal.insert(full.oid, (b"1", b"x")), wal.insert(full.oid, (b"1", b"y")))
    unsaid = parse(CONFIG.text.replace(", key: [id]", ""))
    with pytest.raises(SourceStopped, match=r"primary key of public\.items has renamed, which changes of it lack"):
        pull(task_of(store), unsaid, log)
    assert staged(store) == []
    assert log.confirmed == 1000
    said = parse(CONFIG.text.replace("key: [id]", "key: [id, v]"))
    assert pull(task_of(store), said, log).changes == 2
    assert [row["key"] for row in staged(store)[0][1]] == ['{"id":1,"v":"x"}', '{"id":1,"v":"y"}']


@pytest.mark.parametrize("died", ["before pulls", "after pulls", "before staged", "after staged", "before advance"])
def test_a_source_that_gets_another_name_goes_on_where_it_was(died: str) -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 3)
    pull(task_of(store), CONFIG, log)
    inserts(log, 100, 60, size=200)
    steps = []

    def step(name: str) -> None:
        steps.append(name)
        if name == died:
            raise Killed

    log.step = step
    with pytest.raises(Killed):
        pull(task_of(KillingStore(store, step), part_bytes=2000), CONFIG, log)
    log.step = lambda _: None
    log.crash()
    other = replace(CONFIG.sources["shop"], name="store")
    for number in range(3):
        task = replace(task_of(store, part_bytes=2000), source=other)
        while pull(task, CONFIG, log).plan:
            pass
        inserts(log, 1000 + number, 1)
    assert pull(task, CONFIG, log).changes == 1
    rows = [row for _, batch in staged(store) for row in batch]
    assert len(rows) == len({(row["order"], row["tx_order"]) for row in rows}) == 66
    found = epochs.candidates(store, "shop", START)
    assert sum(batch.events for batch in found.batches) == 66
    assert pulls.newest(store, "shop", "store").plan.n > pulls.newest(store, "shop", "shop").plan.n


def test_another_database_under_another_name_does_not_go_on_in_the_stream() -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 0, 3)
    pull(task_of(store), CONFIG, log)
    second = Wal(database=replace_database(log, system="8000"))
    inserts(second, 0, 3)
    task = replace(task_of(store), source=replace(CONFIG.sources["shop"], name="store"))
    with pytest.raises(SourceStopped, match="another database"):
        pull(task, CONFIG, second)
    raised = parse(CONFIG.text.replace("{tables", "{generation: 1, tables"))
    assert pull(task, raised, second).changes == 3


DOTTED = parse("""
streams:
  shop: {tables: {'*': {to: 'shop.{table}'}}}
sources:
  shop: {postgres: 'postgresql://firn@127.0.0.1/shop', slot: firn_shop, publication: firn, stream: shop}
""")


def dotted() -> tuple[Wal, int, int]:
    """A database with the tables "a.b"."c" and "a"."b.c"."""
    import msgspec

    one = msgspec.structs.replace(ITEMS, schema="a.b", table="c")
    two = msgspec.structs.replace(ITEMS, oid=16385, schema="a", table="b.c")
    return Wal(tables={one.oid: one, two.oid: two}), one.oid, two.oid


def test_two_tables_of_one_name_by_where_the_dot_stands_are_not_mixed() -> None:
    log, one, two = dotted()
    store = obstore.store.MemoryStore()
    log.commit(wal.insert(one, (b"1", b"x")), wal.insert(two, (b"1", b"y")))
    with pytest.raises(SourceStopped, match=r'"a\.b"\."c" and "a"\."b\.c" are both called a\.b\.c here: take one'):
        pull(task_of(store), DOTTED, log)
    assert staged(store) == []
    assert log.confirmed == 1000
    log.namesakes = lambda *_: [("a", "b.c")]  # the other was taken out, and its changes are in the log all the same
    assert pull(task_of(store), DOTTED, log).changes == 2
    assert [(row["table"], row["after"]) for row in staged(store)[0][1]] == [("a.b.c", '{"id":1,"v":"y"}')]
    [letter] = [path for path in paths(store, "dead") if path.endswith(".parquet")]
    assert b"ambiguous_table" in bytes(store.get(letter).bytes())


def test_a_dot_in_a_name_alone_is_nothing_to_stop_for() -> None:
    log, one, _ = dotted()
    del log.tables[16385]
    store = obstore.store.MemoryStore()
    log.commit(wal.insert(one, (b"1", b"x")))
    assert pull(task_of(store), DOTTED, log).changes == 1
    assert paths(store, "dead") == []


def test_a_key_whose_old_values_no_change_holds_is_refused() -> None:
    """Of an update nobody could tell whether `v` was another one before, and the row of that would stay."""
    log, store = Wal(), obstore.store.MemoryStore()
    columns = tuple(CatalogColumn(name, 25, -1, True, True, name == "id") for name in ("id", "v"))
    log.catalog["public", "items"] = CatalogTable(ITEMS.oid, "public", "items", False, "d", columns)
    inserts(log, 1, 2)
    log.commit(wal.update(ITEMS.oid, (b"1", b"y")), wal.delete(ITEMS.oid, (b"2", None)))
    by_v = parse(CONFIG.text.replace("key: [id]", "key: [v]"))
    with pytest.raises(SourceStopped, match=r"key \[v\], .* old values of id alone.*IDENTITY FULL"):
        pull(task_of(store), by_v, log)
    assert staged(store) == []
    log.catalog["public", "items"] = replace(log.catalog["public", "items"], identity="f")
    assert pull(task_of(store), by_v, log).changes == 4
    assert [row["op"] for row in staged(store)[0][1]] == ["c", "c"]
    [letters] = [path for path in paths(store, "dead") if path.endswith(".parquet")]
    assert b"no_key" in bytes(store.get(letters).bytes())


@pytest.mark.parametrize("rule", ["key: [id]", "key: [ID]", "mode: append"])
def test_a_key_that_changes_hold_is_none_to_refuse(rule: str) -> None:
    log, store = Wal(), obstore.store.MemoryStore()
    inserts(log, 1, 2)
    log.commit(wal.update(ITEMS.oid, (b"1", b"y")))
    assert pull(task_of(store), parse(CONFIG.text.replace("key: [id]", rule)), log).changes == 3
    assert paths(store, "dead") == []


def replace_oid(relation, oid: int):
    import msgspec

    return msgspec.structs.replace(relation, oid=oid, table="others")


def test_what_is_committed_after_a_publish_is_routed_by_it_however_long_the_database_takes_to_look() -> None:
    """The round asked for its configuration, and the database answers once `firn publish` has long returned."""
    store, log = obstore.store.MemoryStore(), Wal()
    other = msgspec.structs.replace(ITEMS, oid=99, table="more")
    log.tables[99] = other
    old = published_configs.publish(store, CONFIG.text)
    new = CONFIG.text.replace("{public.items: ", "{public.more: {to: shop.more, key: [id]}, public.items: ")
    look = log.look

    def slow():
        if published_configs.current_sha(store) == old.sha:
            published_configs.publish(store, new)
            log.commit(wal.insert(99, (b"7", b"after")))
        return look()

    log.look = slow
    pull(task_of(store), old, log)
    pull(task_of(store), published_configs.current(store), log)
    assert [row["table"] for _, rows in staged(store) for row in rows] == ["public.more"]
