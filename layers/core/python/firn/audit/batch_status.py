"""What became of a batch: staged, in epoch n, in these snapshots, quarantined, or dead-lettered and why. Read from the
log alone: the function that answers has no catalog, and the cuts hold the snapshots."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

import msgspec

from firn.config.model import StreamConfig
from firn.errors import ConfigError, EventError
from firn.log import cuts, epochs, holds, layout, published_configs
from firn.log.batches import BatchMeta, read_meta
from firn.log.cuts import Cut
from firn.log.dead_letters import replay_marks
from firn.log.dead_letters.letters import DeadLetter, read_dead
from firn.log.dead_letters.reasons import advice
from firn.log.dead_letters.replay_marks import Replay
from firn.log.epochs import Epoch
from firn.log.holds import Quarantines
from firn.log.store import Store, paths
from firn.tables.routing import targets_of

State = Literal["staged", "sealed", "committed", "quarantined", "dead_lettered"]


class TableStatus(msgspec.Struct, frozen=True):
    """What became of the batch's changes of one source table.

    table     where they go; None if no rule takes them, or they can't be placed
    state     pending; committed (in `snapshot`, which cut `cut` shows); quarantined, skipped (`why` says it); ignored
              (no rule takes the table); refused (they are dead letters)
    """

    source: str
    rows: int
    table: str | None
    state: Literal["pending", "committed", "quarantined", "skipped", "ignored", "refused"]
    snapshot: int | None = None
    cut: int | None = None
    why: str | None = None


class DeadStatus(msgspec.Struct, frozen=True):
    """Dead letters of the batch with one source table and reason. `message`: of the first; `object` names them to
    `firn dead show`; `replayed_in`: batches in which `replayed` of them came again."""

    object: str
    table: str | None
    reason: str
    letters: int
    message: str
    advice: str
    replayed: int
    replayed_in: list[str]


class BatchStatus(msgspec.Struct, frozen=True):
    """The answer of `GET /v1/batches/{id}`. `tables`: rows by source table. `snapshots`: every table of the cut that
    holds the batch, or None. `expired`: the staged object is gone, and the epoch tells what it held. `quarantine`: why
    its epoch, or the whole stream, is held."""

    batch_id: str
    stream: str
    state: State
    received_at: str
    accepted: int
    rejected: int
    ignored: dict[str, int]
    dead_letters: int
    tables: dict[str, int]
    epoch: int | None = None
    cut: int | None = None
    snapshots: dict[str, int] | None = None
    targets: list[TableStatus] = []
    dead: list[DeadStatus] = []
    replay_of: str | None = None  # the dead letters that it brought again
    quarantine: str | None = None
    expired: bool = False


def status_for(store: Store, batch: str, writer: str | None) -> BatchStatus | None:
    """The batch's state as a writer of its stream may see it: if all of it is its own, as the staged object says, and
    without what may tell of others. `writer` None: of one who may post all of the stream. Raises as `batch_status`."""
    if writer is None:
        return batch_status(store, batch)
    meta = read_meta(store, layout.staged_path(batch)) if layout.is_batch_id(batch) else None
    if meta is None or not meta.is_of(writer):
        return None
    found = batch_status(store, batch)
    if found is None:
        return None
    held = None if found.quarantine is None else "it waits for a person"
    targets = [msgspec.structs.replace(one, why=None) for one in found.targets]
    return msgspec.structs.replace(found, snapshots=None, quarantine=held, targets=targets)


def batch_status(store: Store, batch: str) -> BatchStatus | None:
    """The batch's state, None if it is neither staged nor in an epoch. Raises StorageUnavailable, UnreadableBatch."""
    if not layout.is_batch_id(batch):
        return None
    meta = read_meta(store, layout.staged_path(batch))
    epoch = epochs.epoch_of(store, batch)
    if meta is None and epoch is None:
        return None
    stream = layout.stream_of(batch)
    known = holds.read_all(store, stream)
    if epoch is not None and epoch.n in known.epochs and known.epochs[epoch.n].lift is not None:
        epoch = None  # it was lifted, and the batch waits for another one
    cut = None if epoch is None else cuts.covering(store, stream, epoch.n)
    letters = _letters(store, batch, epoch)
    at_ingest = sum(one.letters for one in letters if one.object == batch)
    settings = None if epoch is None else _settings(store, epoch, cut)
    targets: list[TableStatus] = []
    if meta is not None and epoch is not None and settings is not None:
        targets = list(_targets(store, meta, epoch, cut, settings, known))
    accepted = _events(meta, epoch, batch)
    held = _held(known, epoch, settings)
    return BatchStatus(
        batch_id=batch,
        stream=stream,
        state=_state(epoch, cut, targets, held, accepted, letters),
        received_at=layout.instant(layout.time_of(batch)),
        accepted=accepted,
        rejected=at_ingest if meta is None else meta.rejected,
        ignored={} if meta is None else meta.ignored,
        dead_letters=sum(one.letters for one in letters),
        tables={} if meta is None else meta.tables,
        epoch=None if epoch is None else epoch.n,
        cut=None if cut is None else cut.n,
        snapshots=None if cut is None else cut.tables,
        targets=targets,
        dead=letters,
        replay_of=None if meta is None else meta.replay,
        quarantine=held,
        expired=meta is None,
    )


def _events(meta: BatchMeta | None, epoch: Epoch | None, batch: str) -> int:
    if meta is not None:
        return meta.accepted
    return sum(held.events for held in epoch.batches if held.id == batch) if epoch else 0


def _state(
    epoch: Epoch | None,
    cut: Cut | None,
    targets: Iterable[TableStatus],
    held: str | None,
    accepted: int,
    letters: Iterable[DeadStatus],
) -> State:
    dead = sum(one.letters for one in letters)
    if dead and accepted <= sum(one.letters for one in letters if one.object.startswith("commit-")):
        return "dead_lettered"  # all that it held; what is ignored apart
    if held is not None or any(one.state == "quarantined" for one in targets):
        return "quarantined"
    return "staged" if epoch is None else "sealed" if cut is None else "committed"


def _held(known: Quarantines, epoch: Epoch | None, settings: StreamConfig | None) -> str | None:
    case = known.epochs.get(epoch.n) if epoch else None
    if case is not None:
        return f"{case.quarantine.message}; {case.quarantine.advice}"
    stream = known.held_stream(settings.generation) if settings else None
    late = stream is not None and epoch is not None and epoch.n >= stream.epoch
    return f"{stream.message}; {stream.advice}" if stream is not None and late else None


def _settings(store: Store, epoch: Epoch, cut: Cut | None) -> StreamConfig | None:
    """The stream as the job that committed the epoch had it, with the epoch's own pipelines; None if one of these
    configurations is gone."""
    last = epochs.read(store, epoch.stream, cut.n) if cut else None
    try:
        found = published_configs.load(store, (last or epoch).config).streams.get(epoch.stream)
        own = published_configs.load(store, epoch.config).streams.get(epoch.stream)
    except ConfigError:
        return None
    return replace(found, pipelines=own.pipelines) if found is not None and own is not None else found


def _targets(
    store: Store, meta: BatchMeta, epoch: Epoch, cut: Cut | None, settings: StreamConfig, known: Quarantines
) -> Iterable[TableStatus]:
    for source, rows, target, refusal in _places(meta, settings):
        if target is None:
            state: Literal["refused", "ignored", "pending"] = "refused" if refusal is not None else "ignored"
            yield TableStatus(source, rows, None, state if cut else "pending", None, cut.n if cut else None, refusal)
            continue
        # A held table has what came before the first epoch that is left behind; the cuts of one that was rolled back do
        # not know what it lost.
        held = known.held().get(target)
        out = any(first <= epoch.n <= last for first, last in known.left_out.get(target, ()))
        if out:
            why = "it was left out on purpose: firn resume --skip"
            yield TableStatus(source, rows, target, "skipped", why=why)
        elif held is not None and epoch.n >= held.epoch:
            yield TableStatus(source, rows, target, "quarantined", why=f"{held.message}; {held.advice}")
        elif (found := _cut_with(store, target, epoch.n, cut)) is not None:
            yield TableStatus(source, rows, target, "committed", found.tables.get(target), found.n)
        else:
            yield TableStatus(source, rows, target, "pending")


def _places(meta: BatchMeta, settings: StreamConfig) -> Iterator[tuple[str, int, str | None, str | None]]:
    """(source table, changes, a table that they go to, why they are refused) for each such table, or one without."""
    for source, rows in meta.tables.items():
        refusal = _refusal(settings, source)
        targets = targets_of(settings, source)
        if refusal is not None or not (targets or settings.wants(source)):
            yield source, rows, None, refusal
        for target in targets:
            yield source, rows, str(target), None


def _refusal(settings: StreamConfig, source: str) -> str | None:
    """Why changes of a source table can't be placed; None if they can, or need not be."""
    try:
        rule = settings.rule_for(source)
        if rule is not None:
            rule.target(source)
    except EventError as error:
        return str(error)
    return None


def _cut_with(store: Store, target: str, n: int, cut: Cut | None) -> Cut | None:
    """The first cut that shows epoch `n` in the table: the one that covers it, or a later one if it was left behind."""
    if cut is None or target not in cut.quarantined or cut.progress.get(target, 0) >= n:
        return cut
    for number in cuts.numbers(store, cut.stream, cut.n):
        later = cuts.read(store, cut.stream, number)
        if later is not None and (target not in later.quarantined or later.progress.get(target, 0) >= n):
            return later
    return None


def _letters(store: Store, batch: str, epoch: Epoch | None) -> list[DeadStatus]:
    """The batch's letters: those of ingest, and those of the commit of its epoch, which lie together by day."""
    found = _of_object(store, layout.batch_dead_path(batch), batch)
    if epoch is not None:
        for path in paths(store, layout.dead_folder(epoch.stream, epoch.time)):
            commit = layout.commit_of(layout.dead_name(path))
            if commit is not None and commit[0] == epoch.n:
                found += _of_object(store, path, batch)
    return found


def _of_object(store: Store, path: str, batch: str) -> list[DeadStatus]:
    rows: dict[tuple[str | None, str], list[tuple[int, DeadLetter]]] = {}
    for row, letter in enumerate(read_dead(store, path)):
        if letter.batch == batch:
            rows.setdefault((letter.table, letter.reason), []).append((row, letter))
    claims = _claimed(replay_marks.of_object(store, path)[0]) if rows else {}
    name = layout.dead_name(path)
    found = []
    for (table, reason), letters in rows.items():
        again = [claims[row] for row, _ in letters if row in claims]
        found.append(
            DeadStatus(
                name, table, reason, len(letters), letters[0][1].message,
                advice(reason, letters[0][1].message), len(again), sorted(set(again)),
            )
        )  # fmt: skip
    return found


def _claimed(claims: Iterable[Replay]) -> Mapping[int, str]:
    return {row: claim.batch for claim in claims for row in claim.letters()}
