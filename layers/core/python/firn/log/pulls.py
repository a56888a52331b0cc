"""Plans of a pull: which changes of a source's log go into which batches, fixed once, before any of them is staged.

    pulls/{stream}/{source}/{n:020d}.plan    what is read: the transactions that were committed in [from_lsn, upto_lsn)
    pulls/{stream}/{source}/{n:020d}.done    that all of it is staged, and in how many batches
    pulls/{stream}/{source}/state.json       how the source is, as the pull saw it last; overwritten

Both are created if absent. Whoever finds a plan that is not done reads the same changes again, makes the same batches
of them (`batch_of`), and puts each if it is absent: nothing is staged twice. The batches of a plan are sealed
together: a cut of a stream never lies inside a transaction.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from firn.errors import FirnError
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, exists, get, objects, paths, put, put_if_absent, remove
from firn.log.store_cache import Remembered

KEEP: Final = timedelta(days=1)  # plans that are done, and that they are: whoever asks later finds neither
_PART_DIGITS: Final = 6  # of the batch id, in hex: 16 million parts of a plan
T = TypeVar("T")


class UnreadablePlan(FirnError):
    """A plan of a newer format, or none at all."""


class Database(msgspec.Struct, frozen=True):
    """Which log the positions are of: PostgreSQL's system identifier and timeline, and the slot. A backup that is
    restored or a replica that is promoted has another timeline."""

    system: str
    timeline: int
    slot: str


class Plan(msgspec.Struct, frozen=True):
    """What one round reads. `at` is the time of its batches' ids; `generation`: the stream's when it was made;
    `publication`: by which it is read, however often; "" in plans of before, which did not say."""

    format: int
    stream: str
    source: str
    n: int
    from_lsn: int
    upto_lsn: int
    at: str  # RFC 3339, UTC, milliseconds
    generation: int
    database: Database
    publication: str = ""

    @property
    def path(self) -> str:
        """Where it lies, which each of its batches says."""
        return layout.pull_path(self.stream, self.source, self.n)


class LastCommit(msgspec.Struct, frozen=True):
    """A transaction: where its commit stands in the log, when it was (ms since 1970), and its number."""

    lsn: int
    ts: int
    xid: int


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """That a plan is staged: in so many batches, with so many changes. `late`: so long after it was made that the pull
    itself has to seal them (firn.sources.late_plan). `last`: the last transaction that is staged, by this plan or one
    before it; None if that is not known."""

    format: int
    parts: int
    changes: int
    late: bool = False
    last: LastCommit | None = None


class Newest(NamedTuple):
    """The newest plan, and whether it is staged."""

    plan: Plan
    done: Done | None


_decode_plan: Final = msgspec.json.Decoder(Plan).decode
_decode_done: Final = msgspec.json.Decoder(Done).decode
_encode: Final = msgspec.json.encode
_dones: Final = Remembered[str, Done]()
_DONES_LIMIT: Final = 20_000


def newest(store: Store, stream: str, source: str, after: int = 0) -> Newest | None:
    """The newest plan of a source, None if there is none. `after`: one that is known to be there is not below it; saves
    reading a long list. Raises StorageUnavailable, UnreadablePlan."""
    start = layout.pull_path(stream, source, after - 1) if after > 1 else None
    numbers = [n for path in paths(store, layout.pull_prefix(stream, source), start) if (n := _number(path, "plan"))]
    if not numbers:
        return newest(store, stream, source) if start else None
    plan = read(store, layout.pull_path(stream, source, max(numbers)))
    return None if plan is None else Newest(plan, done_of(store, plan.path))


def newest_of_others(store: Store, stream: str, source: str) -> Newest | None:
    """The newest plan that a source of another name made for the stream: one that was renamed goes on where it ended.
    Raises StorageUnavailable, UnreadablePlan."""
    found = [newest(store, stream, name) for name in sources(store, stream) if name != source]
    return max(filter(None, found), key=lambda one: one.plan.at, default=None)


def sources(store: Store, stream: str) -> list[str]:
    """The names of all sources that the stream is or was pulled from. Raises StorageUnavailable."""
    return sorted({path.split("/")[-2] for path in paths(store, layout.pulls_prefix(stream))})


def read(store: Store, path: str) -> Plan | None:
    """The plan at `path`, None if there is none. Raises StorageUnavailable, UnreadablePlan."""
    found: Plan | None = _read(store, path, _decode_plan)
    return found


def create(store: Store, plan: Plan) -> bool:
    """Fix the plan. False: another one has its number. Raises StorageUnavailable, UnknownOutcome."""
    return put_if_absent(store, plan.path, _encode(plan))


def finish(store: Store, plan: Plan, done: Done) -> None:
    """Say that all of it is staged. Raises StorageUnavailable, UnknownOutcome."""
    put_if_absent(store, _done_path(plan.path), _encode(done))


def done_of(store: Store, path: str) -> Done | None:
    """What is said of the plan at `path`, None if it is not staged yet. Raises StorageUnavailable, UnreadablePlan."""
    found: Done | None = _read(store, _done_path(path), _decode_done)
    return found


def last_before(store: Store, plan: Plan) -> LastCommit | None:
    """The last transaction that was staged before a plan; None if that is not known. Raises StorageUnavailable."""
    before = done_of(store, layout.pull_path(plan.stream, plan.source, plan.n - 1)) if plan.n > 1 else None
    return before.last if before is not None else None


def batch_of(plan: Plan, part: int) -> str:
    """The id of the batch that holds part `part` (from 0) of a plan. Those of a plan stand side by side."""
    if not 0 <= part < 16**_PART_DIGITS:
        raise ValueError(f"a plan has at most {16**_PART_DIGITS:,} parts")
    name = hashlib.blake2b(plan.path.encode(), digest_size=5).digest()
    return layout.batch_id(plan.stream, datetime.fromisoformat(plan.at), name + part.to_bytes(3))


def staged_parts(store: Store, plan: Plan) -> set[str]:
    """The batches of a plan that are staged. Raises StorageUnavailable."""
    first = batch_of(plan, 0)
    folder = layout.staged_path(first).rpartition("/")[0]
    found = (layout.staged_batch(path) for path in paths(store, folder))
    return {batch for batch in found if batch is not None and _family(batch) == _family(first)}


def unfinished(store: Store, named: Iterable[tuple[str, str]], there: Collection[str]) -> set[str]:
    """The batches that no epoch may have yet, because others of their plan are missing.

    named  (batch, its plan's path) of batches that a pull staged; there: all batches that were listed before, those of
           epochs among them. A plan that is done by now may have been on its way when they were listed.
    """
    plans: dict[str, list[str]] = {}
    for batch, path in named:
        plans.setdefault(path, []).append(batch)
    found: set[str] = set()
    for path, batches in plans.items():
        family = _family(batches[0])
        done = _known_done(store, path, family)
        if done is None or (done.parts > len(batches) and done.parts > sum(_family(one) == family for one in there)):
            found.update(batches)
    return found


def _known_done(store: Store, path: str, family: str) -> Done | None:
    """Kept by the batches' own name: a staging area that was started over has plans of the same paths."""
    known = _dones.of(store)
    if family not in known:
        found = done_of(store, path)
        if found is None and not exists(store, path):
            found = Done(FORMAT, 0, 0)  # forgotten, and so done long ago
        if found is None:
            return None
        if len(known) >= _DONES_LIMIT:
            known.clear()
        known[family] = found
    return known[family]


def whole_plans(plans: Sequence[str | None], count: int) -> int:
    """How many of some batches in a row to take if `count` were taken without regard to plans (their plans' paths, None
    for those without one): a plan that does not fit waits, unless it is the first."""
    end = count
    while 0 < end < len(plans) and plans[end] is not None and plans[end] == plans[end - 1]:
        end -= 1
    if end or not count:
        return end
    end = count
    while end < len(plans) and plans[end] == plans[0]:
        end += 1
    return end


def of_one_plan(batch: str, following: str) -> bool:
    """Whether two batches are parts of the same plan, by their ids alone."""
    return _family(batch) == _family(following)


def forget(store: Store, stream: str, source: str, now: datetime) -> int:
    """Remove plans that are done and older than KEEP, but for the newest -> how many. Raises StorageUnavailable.

    One that was never finished stays, for its batches must never be sealed.
    """
    found = objects(store, layout.pull_prefix(stream, source))
    plans = {n: one for one in found if (n := _number(one.path, "plan"))}
    done = {n for one in found if (n := _number(one.path, "done")) and one.modified < now - KEEP}
    gone = sorted(n for n in done if n != max(plans, default=0))
    # The plan first: without what is said of it, it would be unfinished.
    remove(store, [plans[n].path for n in gone if n in plans])
    remove(store, [_done_path(layout.pull_path(stream, source, n)) for n in gone])
    return len(gone)


def write_state(store: Store, stream: str, source: str, state: Any) -> None:
    """How the source is, for `firn status`. Raises StorageUnavailable, UnknownOutcome."""
    put(store, layout.pull_state_path(stream, source), _encode(state))


def read_state(store: Store, stream: str, source: str, kind: type[T]) -> T | None:
    """The same, None if there is none that can be read. Raises StorageUnavailable."""
    data = get(store, layout.pull_state_path(stream, source))
    try:
        return None if data is None else msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError:
        return None


def _read(store: Store, path: str, decode: Any) -> Any:
    data = get(store, path)
    if data is None:
        return None
    try:
        found = decode(data)
    except msgspec.MsgspecError as error:
        raise UnreadablePlan(f"{path} can't be read ({error}): it was not written by Firn") from error
    if found.format > FORMAT:
        raise UnreadablePlan(f"{path} has format {found.format}, this Firn reads up to {FORMAT}: update it first")
    return found


def _done_path(plan: str) -> str:
    return plan.removesuffix(".plan") + ".done"


def _family(batch: str) -> str:
    return batch[:-_PART_DIGITS]


def _number(path: str, *kinds: str) -> int | None:
    number, _, kind = path.rpartition("/")[2].partition(".")
    known = len(number) == 20 and number.isascii() and number.isdigit() and kind in kinds
    return int(number) if known else None
