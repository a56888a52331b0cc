"""Processes that read a range together: what they hold is what one process would, and none of them outlives the job."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firn.changes.decode.codec import DecodeSettings, declared_column
from firn.changes.decode.declared_types import parse_declared
from firn.changes.decode.row_decoder import Decoding
from firn.changes.envelopes.parser import parse
from firn.changes.merge.ordering import Order
from firn.changes.positions import position
from firn.config.model import StreamConfig
from firn.errors import TransientError
from firn.log.batches import FORMAT, BatchMeta, write_batch
from firn.log.epochs import Epoch, EpochBatch
from firn.log.generations import Generations
from firn.log.store import open_store, put_if_absent
from firn_spark import ranges
from firn_spark.driver import reader_pool as processes
from firn_spark.driver.range import ALONE, MOST_EVENTS
from firn_spark.driver.reader_pool import Readers
from firn_spark.driver.staged_changes import Held
from firn_spark.merge.column_decoder import MirrorColumns
from firn_spark.not_eligible import Unfit
from firn_spark.ranges import Ranges, Sealed
from firn_spark.staged.read import SealedBatch, rows_of
from tests.soak import SEED, few_cases

ROOT = Path(__file__).parents[3]
COLUMNS = (("id", "long"), ("v", "string"))
SETTINGS = DecodeSettings()
DECODING = Decoding(tuple(declared_column(n, *parse_declared(k), SETTINGS) for n, k in COLUMNS), (0,), SETTINGS)

UPTO = position("postgresql", "u", '["130","130"]', 0)


def change(lsn: int, table: str, op: str, row: dict[str, Any]) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "s", "table": table, "sequence": f'["{lsn}","{lsn}"]', "ts_ms": lsn}
    before, after = (row, None) if op == "d" else (None, row)
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": lsn}


def stage(folder: Path, objects: int = 12, seed: int = SEED) -> tuple[str, list[SealedBatch]]:
    """Staged objects of two epochs: `s.plain` holds what is plain, `s.odd` also what is not."""
    dice = random.Random(seed)
    url = f"file://{folder}"
    store = open_store(url)
    batches = []
    for place in range(objects):
        told = [
            change(100 + place * 10 + n, "plain", dice.choice("ud"), {"id": dice.randrange(9), "v": "x"})
            for n in range(5)
        ]
        told += [change(500 + place, "odd", "u", {"id": None if place == 3 else place, "v": None, f"n{place % 2}": 1})]
        dice.shuffle(told)
        name = f"bank.{place:03}"
        meta = BatchMeta(1, "bank", name, "2026-03-01T12:30:00.000Z", "sha", len(told), 0, {}, {})
        body = write_batch(parse(json.dumps(told).encode(), "debezium"), meta)
        assert put_if_absent(store, f"staged/{name}", body)
        batches.append(SealedBatch(1 + place // 7, place, name, f"staged/{name}", len(body)))
    return url, batches


@pytest.fixture
def readers() -> Iterator[Readers]:
    found = Readers(2)
    yield found
    found.stop()


def test_they_hold_together_what_one_process_would(tmp_path: Path, readers: Readers) -> None:
    url, batches = stage(tmp_path)
    one = Held(open_store(url), url, [(batches, Order())], whole=True)
    several = readers.read(url, batches, Order())
    assert several.facts == one.facts
    assert several.counts == one.counts
    assert several.schemas == one.schemas
    for high in (None, ((0).to_bytes(45).hex(), 10)):
        assert several.span(high) == one.span(high)
        assert one.span(high).top is not None
    for sources in (["s.plain"], ["s.odd"], ["s.odd", "s.plain"], ["s.none"]):
        for above, upto in ((0, None), (1, None), (2, None), (0, 1), (1, 2), (0, 0)):
            mine, theirs = one.of(sources, above, upto), several.of(sources, above, upto)
            assert theirs.count == mine.count == len(mine.rows)
            # Those of one source come in their order; of several, epoch by epoch.
            assert theirs.rows == mine.rows if len(sources) == 1 else by_place(theirs.rows) == by_place(mine.rows)
            assert [row["epoch"] for row in theirs.rows] == [row["epoch"] for row in mine.rows]
            assert theirs.rows_upto(UPTO) == [row for row in theirs.rows if row["pos"] <= UPTO]
            assert all(row["epoch"] > above and (upto is None or row["epoch"] <= upto) for row in theirs.rows)
            assert bool(theirs.rows_upto(UPTO)) == ("s.plain" in sources and above == 0 and upto != 0)
    for above, upto in ((0, None), (1, None), (0, 1)):
        for sources in (["s.plain"], ["s.odd"]):
            mine, theirs = one.of(sources, above, upto), several.of(sources, above, upto)
            alone, together = (part.split(MirrorColumns(), DECODING, 1) for part in (mine, theirs))
            assert alone.plain.num_rows
            assert together.plain.to_pylist() == alone.plain.to_pylist()
            assert together.odd.to_pylist() == alone.odd.to_pylist()
            assert len(alone.odd) == (sources == ["s.odd"] and above == 0)  # the one without a key, of the first epoch
    gone = frozenset((row["batch"], row["index"]) for row in one.of(["s.plain"]).rows[::3])
    for above, upto in ((0, None), (1, None), (0, 1)):
        told = one.told(["s.plain"], above, gone, upto)
        assert several.told(["s.plain"], above, gone, upto) == told
        assert told["s.plain"].seen
        assert one.told(["s.odd"], above, gone) == several.told(["s.odd"], above, gone)
    for held in (one, several):
        with pytest.raises(Unfit, match="more than 0 changes that are not plain"):
            held.of(["s.odd"]).split(MirrorColumns(), DECODING, 0)


def test_changes_of_each_table_are_held_as_they_were_staged(tmp_path: Path) -> None:
    url, batches = stage(tmp_path)
    store = open_store(url)
    told: dict[str, list[dict[str, Any]]] = {"s.plain": [], "s.odd": []}
    for batch in batches:
        body = store.get(batch.path).bytes().to_bytes()
        for row in rows_of(batch, body, Order()).changes.to_pylist():
            told[row["table"]].append(row)
    held = Held(store, url, [(batches, Order())], whole=True)
    for table, rows in told.items():
        assert held.of([table]).rows == rows
        assert {key: n for key, n in held.counts.items() if key[0] == table} == Counter(
            (table, row["epoch"], row["op"]) for row in rows
        )


def by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["batch"], row["index"]))


def test_two_ranges_at_once_and_one_is_let_go(tmp_path: Path, readers: Readers) -> None:
    url, batches = stage(tmp_path)
    first, second = readers.read(url, batches[:4], Order()), readers.read(url, batches[4:], Order())
    first.close()
    assert second.of(["s.plain"]).count == len(second.of(["s.plain"]).rows) == 40
    with pytest.raises(KeyError):
        first.of(["s.plain"]).rows  # noqa: B018 (it asks the processes)


def test_more_than_a_process_may_hold_is_left_to_spark(tmp_path: Path) -> None:
    url, batches = stage(tmp_path)
    readers = Readers(2, most_held=100)
    try:
        with pytest.raises(Unfit, match="more than 100 bytes"):
            readers.read(url, batches, Order())
    finally:
        readers.stop()


def test_an_object_that_is_missing_is_said_as_one_process_says_it(tmp_path: Path, readers: Readers) -> None:
    url, batches = stage(tmp_path)
    (tmp_path / batches[5].path).unlink()
    with pytest.raises(FileNotFoundError, match="restore it"):
        readers.read(url, batches, Order())
    # And what the other process read is let go.
    assert [pool.submit(held_ranges).result() for pool in readers._pools] == [0, 0]


def held_ranges() -> int:
    return len(processes._held)


def test_answers_that_are_called_off_leave_the_range_to_spark(tmp_path: Path, readers: Readers) -> None:
    url, batches = stage(tmp_path)
    held = readers.read(url, batches, Order())
    readers.stop()  # as another table's thread does that noticed a death first
    with pytest.raises(Unfit, match="died"):
        held.of(["s.plain"]).split(MirrorColumns(), DECODING, 9)


def pids(readers: Readers) -> list[int]:
    return [pid for pool in readers._pools for pid in pool._processes]


def test_a_process_that_dies_leaves_the_range_to_spark_and_the_next_range_has_new_ones(
    tmp_path: Path, readers: Readers
) -> None:
    url, batches = stage(tmp_path)
    held = readers.read(url, batches, Order())
    before = pids(readers)
    os.kill(before[1], signal.SIGKILL)
    with pytest.raises(Unfit, match="died"):
        held.of(["s.plain"]).split(MirrorColumns(), DECODING, 9)
    with pytest.raises(TransientError, match="died"):
        held.span(None)
    with pytest.raises(Unfit, match="died"):
        held.of(["s.plain"]).rows  # noqa: B018 (it asks the processes)
    held.close()
    again = readers.read(url, batches, Order())
    assert again.of(["s.plain"]).count == len(again.of(["s.plain"]).rows) == 60
    assert not set(before) & set(pids(readers))


JOB = """
import sys, time
from tests.unit.spark.test_readers import pids, stage
from firn.changes.merge.ordering import Order
from firn.changes.positions import position
from firn.config.model import StreamConfig
from firn_spark import ranges
from firn_spark.driver import reader_pool as processes
from firn_spark.driver.range import ALONE, MOST_EVENTS
from firn_spark.driver.reader_pool import Readers
from pathlib import Path
if __name__ == "__main__":
    readers = Readers(2)
    url, batches = stage(Path(sys.argv[1]))
    held = readers.read(url, batches, Order())
    print(*pids(readers), flush=True)
    if sys.argv[2] == "wait":
        time.sleep(60)
"""


@few_cases(1)
@pytest.mark.parametrize("end", ["wait", "exit"])
def test_they_end_with_the_job_however_it_ends(tmp_path: Path, end: str) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    path = os.pathsep.join([str(ROOT), str(ROOT / "layers/core/python"), str(ROOT / "spark_emr")])
    command = [sys.executable, str(script), str(tmp_path / "staging"), end]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}) as job:
        assert job.stdout is not None
        processes = [int(word) for word in job.stdout.readline().split()]
        assert len(processes) == 2
        assert all(map(alive, processes))
        if end == "wait":
            job.kill()
        assert job.wait(30) == (-signal.SIGKILL if end == "wait" else 0)
    until = time.monotonic() + 10
    while any(map(alive, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, processes))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("count", [1, 2, 5])
def test_what_is_alike_in_all_changes_comes_back_as_it_was(tmp_path: Path, count: int) -> None:
    url = f"file://{tmp_path}"
    told = [change(100, "same", "u", {"id": 1, "v": "x"})] * count
    meta = BatchMeta(1, "bank", "bank.0", "2026-03-01T12:30:00.000Z", "sha", count, 0, {}, {})
    body = write_batch(parse(json.dumps(told).encode(), "debezium"), meta)
    put_if_absent(open_store(url), "staged/0", body)
    batch = SealedBatch(1, 0, "bank.0", "staged/0", len(body))
    held = Held(open_store(url), url, [([batch], Order())], whole=True)
    assert held.of(["s.same"]).columns.equals(rows_of(batch, body, Order()).changes)


def test_one_that_died_while_nothing_was_asked_is_noticed(tmp_path: Path, readers: Readers) -> None:
    url, batches = stage(tmp_path)
    readers.read(url, batches, Order()).close()
    begun = pids(readers)
    os.kill(begun[0], signal.SIGKILL)
    while alive(begun[0]):
        time.sleep(0.01)
    time.sleep(0.2)
    with pytest.raises(Unfit, match="died"):
        readers.begin(url, batches, Order()).held()
    assert readers.begin(url, batches, Order()).held().of(["s.plain"]).count == 60


@pytest.mark.parametrize(
    ("events", "most", "begins"),
    [(ALONE, None, 0), (ALONE + 1, None, 1), (MOST_EVENTS + 1, None, 0), (ALONE + 1, 0, 0)],
)
def test_a_large_range_is_read_as_soon_as_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: int, most: int | None, begins: int
) -> None:
    begun: list[str] = []

    def begin(staging: str, batches: Sequence[SealedBatch], order: Order) -> Any:
        begun.append(f"{len(batches)} of {order.generation}")
        return SimpleNamespace(held=lambda _seen: "held", drop=lambda: begun.append("dropped"))

    monkeypatch.setattr(ranges, "readers", lambda: SimpleNamespace(begin=begin))
    monkeypatch.setattr(ranges, "cores", lambda: 2)
    url = f"file://{tmp_path}"
    store = open_store(url)
    one = Ranges(store, url, most)
    batch = EpochBatch("bank.0", "staged/0", 1_000, events)
    epoch = Epoch(FORMAT, "bank", 1, "n", "2026-03-01T12:30:00.000Z", "sha", [batch], {"s.plain": events})
    settings = StreamConfig("bank", ())
    one.expect(settings, {1: epoch})
    assert begun == ["1 of 0"] * begins
    if begins:
        log = Generations(store, settings, 2)
        assert one._read(Sealed(settings, {1: epoch}, log, lambda _: [])) == "held"
        assert begun == ["1 of 0"]
        # Another range than the one that was expected.
        one.expect(settings, {1: epoch})
        assert one._read(Sealed(settings, {2: epoch}, log, lambda _: [])) == "held"
        assert begun == ["1 of 0", "1 of 0", "dropped", "1 of 0"]
