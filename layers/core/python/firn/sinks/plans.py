"""Plans and manifests of file sinks: what is going to be written, and what was (docs/adr/0054-file-sinks.md).

A plan is created, if absent, before the first of its files, and names all of them; its manifest is created once they
are all there. Plans are numbered without a gap, and each begins behind the one before: they partition the epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from firn.log import layout
from firn.log.batches import FORMAT, UnreadableBatch
from firn.log.store import Store, get, paths, put_if_absent


class PlannedFile(msgspec.Struct, frozen=True):
    """A file before it is written. `path`: below the sink's address; `folder`: its part before the name, "" for none;
    `first`: which row of its folder it begins with, from 0; `rows`: how many it holds."""

    path: str
    folder: str
    first: int
    rows: int


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Plan `n` of a sink.

    nonce    part of its files' names: a log that starts over never meets the files of the one before
    config   the sha of the configuration that its epochs name: which SQL, format and folders
    first    the epoch behind the last of the plan before; `last`: its own last. Between them it brings `epochs`; the
             others hold nothing for the sink, or are quarantined
    left_out batches of its epochs that an earlier plan brings: their epoch was quarantined since, and they came again
    to       the address below which its files lie
    commits  how positions are read (StreamConfig.commits)
    columns  the columns of the source and their types, as far as this plan and those before have seen them (JSON)
    events   staged changes in the epochs, and what became of them: `rows` in its files, and `dead` letters
    """

    format: int
    stream: str
    pipeline: str
    n: int
    nonce: str
    made_at: str  # RFC 3339, UTC, milliseconds
    config: str
    first: int
    last: int
    epochs: list[int]
    to: str
    columns: str
    files: list[PlannedFile]
    events: int
    rows: int
    dead: int = 0
    left_out: list[str] = []
    commits: bool = False


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that is there. `path`: below the manifest's `to`."""

    path: str
    rows: int
    bytes: int
    sha256: str  # of its bytes, in hex


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What plan `n` has written; the fields as in Plan."""

    format: int
    stream: str
    pipeline: str
    n: int
    made_at: str  # RFC 3339, UTC, milliseconds
    config: str
    first: int
    last: int
    to: str
    files: list[WrittenFile]
    events: int
    rows: int
    dead: int = 0


@dataclass(frozen=True)
class Progress:
    """How far a sink is. `plan`: its newest plan, None before the first; `open`: the plans that have no manifest yet;
    `done`: all plans up to this number have theirs; `written`: the last epoch that these cover, 0 before the first."""

    plan: Plan | None = None
    open: tuple[int, ...] = ()
    done: int = 0
    written: int = 0

    @property
    def planned(self) -> int:
        """The last epoch that a plan covers; 0 before the first."""
        return self.plan.last if self.plan is not None else 0


_decode_plan: Final = msgspec.json.Decoder(Plan).decode
_decode_manifest: Final = msgspec.json.Decoder(Manifest).decode
encode: Final = msgspec.json.encode


def progress(store: Store, stream: str, pipeline: str, done: int = 0) -> Progress:
    """How far the sink is. `done`: plans up to this number are known to be written. Raises StorageUnavailable,
    UnreadableBatch (a plan of a newer format)."""
    planned, written = set[int](), set[int]()
    for n, is_manifest in _listed(store, stream, pipeline, done):
        (written if is_manifest else planned).add(n)
    left = tuple(sorted(planned - written))
    newest = max(planned, default=done)
    plan = read_plan(store, stream, pipeline, newest) if newest else None
    if not left:
        return Progress(plan, left, newest, plan.last if plan is not None else 0)
    first = read_plan(store, stream, pipeline, left[0])
    return Progress(plan, left, left[0] - 1, first.first - 1 if first is not None else 0)


def _listed(store: Store, stream: str, pipeline: str, after: int) -> Sequence[tuple[int, bool]]:
    start = f"{layout.plan_path(stream, pipeline, after)}~" if after else None
    there = (layout.plan_of(path) for path in paths(store, layout.sink_prefix(stream, pipeline), start))
    return [found for found in there if found is not None]


def read_plan(store: Store, stream: str, pipeline: str, n: int) -> Plan | None:
    """Plan `n`, None if there is none. Raises StorageUnavailable, UnreadableBatch (a newer format)."""
    data = get(store, layout.plan_path(stream, pipeline, n))
    if data is None:
        return None
    plan = _decode_plan(data)
    if plan.format > FORMAT:
        raise UnreadableBatch(
            f"plan {n} of {stream}.{pipeline} has format {plan.format}: update this side of Firn first"
        )
    return plan


def propose(store: Store, plan: Plan) -> bool:
    """Put the plan, if absent. -> False: another job's plan of this number is there. Raises StorageUnavailable,
    UnknownOutcome."""
    return put_if_absent(store, layout.plan_path(plan.stream, plan.pipeline, plan.n), encode(plan))


def is_written(store: Store, plan: Plan) -> bool:
    """Whether the plan has its manifest. Raises StorageUnavailable."""
    return read_manifest(store, plan.stream, plan.pipeline, plan.n) is not None


def finish(store: Store, plan: Plan, files: Sequence[WrittenFile], made_at: str) -> None:
    """Put the plan's manifest; one that is there stays: its job wrote the same files. Raises StorageUnavailable,
    UnknownOutcome."""
    told = Manifest(
        FORMAT, plan.stream, plan.pipeline, plan.n, made_at, plan.config, plan.first, plan.last, plan.to, list(files),
        plan.events, plan.rows, plan.dead,
    )  # fmt: skip
    put_if_absent(store, layout.manifest_path(plan.stream, plan.pipeline, plan.n), encode(told))


def read_manifest(store: Store, stream: str, pipeline: str, n: int) -> Manifest | None:
    """The manifest of plan `n`, None if it is not written. Raises StorageUnavailable."""
    data = get(store, layout.manifest_path(stream, pipeline, n))
    return None if data is None else _decode_manifest(data)


def manifests(store: Store, stream: str, pipeline: str) -> list[Manifest]:
    """All manifests of a sink, by number. Raises StorageUnavailable."""
    there = (n for n, is_manifest in _listed(store, stream, pipeline, 0) if is_manifest)
    return [found for n in there if (found := read_manifest(store, stream, pipeline, n)) is not None]
