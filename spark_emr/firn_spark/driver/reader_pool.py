"""Processes of this machine that read and decode a large range for the job's own. Each holds a share of the changes and
gives what is asked for: Python does this on one core a process, and it is most of what a commit costs.

They start with the first range that needs them and stay until the job ends; they die with it, however it dies.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from functools import lru_cache, partial, reduce
from itertools import count
from operator import or_
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa

from firn.changes.decode.row_decoder import ChangeId, Decoding
from firn.changes.merge.ordering import Order
from firn.changes.redelivery import Early
from firn.commit.staged_changes import facts_of, once
from firn.errors import TransientError
from firn.log.store import open_store
from firn.quarantine.rules import High, Span
from firn.tables.batch_facts import TableFacts
from firn_spark import vended_keys
from firn_spark.driver.staged_changes import Held, Part, Said, Split, too_many
from firn_spark.merge.column_decoder import Columns
from firn_spark.not_eligible import Unfit
from firn_spark.staged.packed import CHANGES
from firn_spark.staged.read import SealedBatch
from firn_spark.staged.span import together
from firn_spark.vended_keys import Keys

MOST_HELD = 512 * 1024 * 1024  # bytes of changes that a process holds
_MOST = 8  # processes
_GONE = RuntimeError  # what a pool says to a question if its process died, or it was stopped
_DIED = (BrokenExecutor, CancelledError)  # what becomes of the answers then
T = TypeVar("T")


def cores() -> int:
    """How many processes run at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Readers:
    """The processes of this job. Safe to use from several threads."""

    def __init__(self, processes: int, most_held: int = MOST_HELD) -> None:
        """`most_held`: bytes of changes that each of them holds, at most."""
        self._processes = processes
        self._most_held = most_held
        self._pools: list[ProcessPoolExecutor] = []
        self._numbers = count(1)
        self._lock = threading.Lock()

    def begin(self, staging: str, batches: Sequence[SealedBatch], order: Order) -> "Reading":
        """Begin to read some batches, and don't wait for it."""
        with self._lock:
            self._pools = self._pools or [_process() for _ in range(self._processes)]
            pools, number = self._pools, next(self._numbers)
        shares = _shares(batches, len(pools))
        try:
            begun = [
                pool.submit(partial(_read, number, staging, share, order, self._most_held))
                for pool, share in zip(pools, shares, strict=True)
            ]
        except _GONE:  # one died since it was last asked
            begun = []
        return Reading(self, pools, number, begun)

    def read(self, staging: str, batches: Sequence[SealedBatch], order: Order) -> "Spread":
        """The changes of some batches. Raises as Reading.held."""
        return self.begin(staging, batches, order).held()

    def stop(self) -> None:
        """End the processes; the next range starts new ones."""
        with self._lock:
            pools, self._pools = self._pools, []
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)


@lru_cache(maxsize=1)
def readers() -> Readers:
    """Those of this process: one for each core."""
    return Readers(min(cores(), _MOST))


class Reading:
    """A range that is being read."""

    def __init__(
        self, owner: Readers, pools: Sequence[ProcessPoolExecutor], number: int, begun: Sequence[Future[Said]]
    ) -> None:
        self._owner = owner
        self._pools = pools
        self._number = number
        self._begun = begun

    def held(self, seen: Callable[[int], None] = lambda _: None) -> "Spread":
        """Its changes. `seen`: hears how many more are read. Raises as read.raw_changes, and Unfit if there is too much
        of them or a process died."""
        said: list[Said] = []
        try:
            for one in self._begun:
                said.append(one.result())
                seen(said[-1].counts.total())
        except _DIED:
            said = []
        except Exception:
            self.drop()  # the other processes hold their shares
            raise
        if not said:
            self._owner.stop()
            raise Unfit("a process that reads died")
        return Spread(self._owner, self._pools, self._number, said)

    def drop(self) -> None:
        """It is not wanted."""
        _forgotten(self._pools, self._number)


class Spread(Said):
    """A Staged whose changes the readers hold."""

    def __init__(self, owner: Readers, pools: Sequence[ProcessPoolExecutor], number: int, said: Sequence[Said]) -> None:
        super().__init__()
        self._owner = owner
        self._pools = pools
        self._number = number
        for one in said:
            self.counts += one.counts
            self.said += one.said

    def of(self, sources: Sequence[str], above: int = 0, upto: int | None = None) -> Part:
        """As Staged says; the answers raise Unfit if a process died."""

        def raw(high: bytes | None) -> pa.Table:
            together = pa.concat_tables(self._each(_raw, sources, above, upto, high))
            return together.take(pa.compute.sort_indices(together["epoch"])) if len(sources) > 1 else together

        def split(columns: Columns, decoding: Decoding, most: int) -> Split:
            with TemporaryDirectory(prefix="firn-") as folder:
                keys = vended_keys.planned()  # of other tables, whose rows these are joined with
                answers = self._each(_split, folder, sources, above, upto, columns, decoding, most, keys)
                # Memory that is mapped outlives its file.
                plain = [pa.ipc.open_file(pa.memory_map(file)).read_all() for file, _ in answers]
            too_many(sum(map(len, plain)), sum(one.nbytes for one in plain), self.count(sources, above, upto))
            return Split(pa.concat_tables(plain), pa.concat_tables(odd for _, odd in answers))

        return Part(self.count(sources, above, upto), raw, split)

    def told(
        self, sources: Sequence[str], above: int, without: frozenset[ChangeId], upto: int | None = None
    ) -> Mapping[str, TableFacts]:
        """As Staged says. Raises Unfit if a process died."""
        said = self._each(_said, sources, above, without, upto)
        return facts_of({}, [fact for some in said for fact in some])

    def span(self, high: High | None) -> Span:
        """As Staged says. Raises TransientError if a process died."""
        try:
            return together(self._each(_span, high))
        except Unfit as died:
            raise TransientError(str(died)) from None

    def early(self, until: int) -> Early:
        """As Staged says. Raises Unfit if a process died."""
        return reduce(or_, self._each(_early, until))

    def close(self) -> None:
        """Let go of the changes."""
        _forgotten(self._pools, self._number)

    def _each(self, ask: Callable[..., T], *arguments: Any) -> list[T]:
        try:
            begun = [pool.submit(partial(ask, self._number, *arguments)) for pool in self._pools]
        except _GONE:
            begun = []
        try:
            found = [one.result() for one in begun]
        except _DIED:
            found = []
        if not found:
            self._owner.stop()
            raise Unfit("a process that reads died")
        return found


def _forgotten(pools: Sequence[ProcessPoolExecutor], number: int) -> None:
    for pool in pools:
        try:
            pool.submit(_forget, number)
        except _GONE:
            continue


def _shares(batches: Sequence[SealedBatch], number: int) -> list[list[SealedBatch]]:
    """The batches in their order in so many runs of about equal bytes."""
    whole = max(1, sum(batch.bytes for batch in batches))
    shares: list[list[SealedBatch]] = [[] for _ in range(number)]
    done = 0
    for batch in batches:
        shares[min(number - 1, done * number // whole)].append(batch)
        done += batch.bytes
    return shares


def _process() -> ProcessPoolExecutor:
    # A fresh interpreter: a fork would hold the JVM's pipes and the locks of threads that it does not have.
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)


# What follows runs in the processes.

_held: dict[int, Held] = {}  # by the range's number


def _begin() -> None:
    pa.set_cpu_count(1)
    threading.Thread(target=_end_with_the_job, daemon=True).start()


def _end_with_the_job() -> None:
    job = multiprocessing.parent_process()
    if job is not None:
        job.join()
    os._exit(1)


def _read(number: int, staging: str, batches: Sequence[SealedBatch], order: Order, most: int) -> Said:
    held = Held(open_store(staging), staging, [(batches, order)], whole=True, most=most)
    _held[number] = held
    said = Said()
    said.counts, said.said = held.counts, once(held.said)
    return said


def _raw(number: int, sources: Sequence[str], above: int, upto: int | None, high: bytes | None) -> pa.Table:
    return _held[number].raw(sources, above, upto, high)


def _split(
    number: int,
    folder: str,
    sources: Sequence[str],
    above: int,
    upto: int | None,
    columns: Columns,
    decoding: Decoding,
    most: int,
    keys: Sequence[Keys],
) -> tuple[str, pa.Table]:
    """Those by columns through a file: in a pipe, each byte would be copied four times."""
    vended_keys.take(keys)
    path = f"{folder}/{os.getpid()}.arrow"
    plain, odd = _held[number].split(sources, above, upto, columns, decoding, most)
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, columns.schema(decoding)) as writer:
        for one in plain:
            writer.write_table(one)
    return path, pa.concat_tables([CHANGES.empty_table(), *odd])


def _said(
    number: int, sources: Sequence[str], above: int, without: frozenset[ChangeId], upto: int | None
) -> list[Mapping[str, Any]]:
    return _held[number].said_without(sources, above, without, upto)


def _span(number: int, high: High | None) -> Span:
    return _held[number].span(high)


def _early(number: int, until: int) -> Early:
    return _held[number].early(until)


def _forget(number: int) -> None:
    _held.pop(number, None)
