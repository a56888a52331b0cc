"""Dead letters through ingest again: exactly once, in their old place in the order, under the present configuration.

For each dead-letter object: see which can be taken now, claim them (replay_marks.py), stage them as one batch whose
id the claim has fixed, and say that it is done. Whatever dies in between is finished by the next replay; a letter that
can't be taken yet stays where it is. One object is in memory at a time.
"""

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from arro3.io import read_parquet

from firn.config.model import Config, StreamConfig
from firn.errors import ConfigError, EventError
from firn.ingest.accept import Random, dead_letters, stream_config
from firn.ingest.reprocess import Alike, Retaken, Retry, put_together, retake
from firn.log import epochs, layout, published_configs
from firn.log.batches import FORMAT, BatchMeta, read_meta, write_batch
from firn.log.dead_letters import replay_marks
from firn.log.dead_letters.letters import DeadLetter, StagedChange, read_dead, write_dead
from firn.log.dead_letters.replay_marks import Replay
from firn.log.store import Store, exists, get, paths, put_if_absent

Letter = tuple[str, int]  # path of the dead-letter object, row in it
Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Choice:
    """Which letters. `only` names them one by one; the rest are conditions, None for any."""

    batch: str | None = None
    object: str | None = None  # layout.dead_name
    reason: str | None = None
    table: str | None = None
    since: datetime | None = None
    after: str | None = None  # the path of an object: only those behind it
    only: frozenset[Letter] | None = None

    def takes(self, path: str, row: int, letter: DeadLetter) -> bool:
        """Does it take this letter?"""
        return (
            self.batch in (None, letter.batch)
            and self.object in (None, layout.dead_name(path))
            and self.reason in (None, letter.reason)
            and self.table in (None, letter.table)
            and (self.since is None or letter.received_at >= self.since)
            and (self.only is None or (path, row) in self.only)
        )

    def objects(self, store: Store, stream: str) -> list[str]:
        """The dead-letter objects of a stream that can hold such letters, oldest day first. StorageUnavailable."""
        if self.only is not None:
            return sorted({path for path, _ in self.only})
        found = sorted(path for path in paths(store, layout.dead_prefix(stream)) if path.endswith(".parquet"))
        if self.after is not None:
            found = [path for path in found if path > self.after]
        if self.object is not None:
            found = [path for path in found if layout.dead_name(path) == self.object]
        # Letters are written on the day their batch came, or later, by clocks that may differ.
        times = [self.since, layout.time_of(self.batch) if self.batch and layout.is_batch_id(self.batch) else None]
        floor = max((f"{when - epochs.SKEW:%Y/%m/%d}" for when in times if when), default="")
        return [path for path in found if layout.dead_day(path) >= floor]


@dataclass
class Replayed:
    """What became of the chosen letters of one object. `still`: those that can't be taken yet, by (reason, message)."""

    path: str
    batch: str | None = None  # where `letters` went; None if nothing was claimed
    letters: int = 0
    events: int = 0
    ignored: int = 0
    dead_again: int = 0
    unplaced: int = 0  # events without a position: they count as the newest
    finished: list[str] = field(default_factory=list)  # batches of earlier replays that had not been staged
    still: Counter[tuple[str, str]] = field(default_factory=Counter)


def replay(
    store: Store,
    config: Config,
    stream: str,
    choice: Choice,
    *,
    clock: Clock,
    corrected: Mapping[Letter, bytes] | None = None,
    dry_run: bool = False,
    random: Random = os.urandom,
) -> Iterator[Replayed]:
    """Replay the chosen letters that no replay has taken yet, object by object.

    corrected  what a person wrote in place of originals
    dry_run    only look: nothing is written

    Raises RequestError (404 unknown stream), StorageUnavailable, UnknownOutcome, UnreadableBatch. After any of them,
    run it again: what was claimed is finished first, and nothing is staged twice.
    """
    settings = stream_config(config, stream)
    for path in choice.objects(store, stream):
        mine = {row: text for (where, row), text in (corrected or {}).items() if where == path}
        if not acknowledged(store, path):
            continue
        one = _Object(store, path, _completed(store, read_dead(store, path)))
        yield one.replay(config, settings, choice, mine, clock=clock, dry_run=dry_run, random=random)


def acknowledged(store: Store, path: str) -> bool:
    """Do the letters at `path` count? Ingest writes them before the batch: without it, nobody was told 202 for them.

    Where the batch is older than the log that is kept, they count. Raises StorageUnavailable, UnreadableBatch.
    """
    batch = layout.batch_of(path)
    if batch is None:
        return True  # of a commit
    meta = read_meta(store, layout.staged_path(batch))
    if meta is not None:
        return meta.rejected > 0  # else it was made void (queue.py)
    if epochs.epoch_of(store, batch) is not None:
        return True
    kept = epochs.numbers(store, layout.stream_of(batch))
    oldest = epochs.read(store, layout.stream_of(batch), kept[0]) if kept else None
    return oldest is not None and layout.time_of(batch) < oldest.time - epochs.OVERLAP


class _Object:
    """One dead-letter object at work."""

    def __init__(self, store: Store, path: str, letters: Sequence[DeadLetter]) -> None:
        self._store, self._path, self._letters = store, path, letters

    def replay(
        self,
        config: Config,
        settings: StreamConfig,
        choice: Choice,
        mine: Mapping[int, bytes],
        *,
        clock: Clock,
        dry_run: bool,
        random: Random,
    ) -> Replayed:
        done = Replayed(self._path)
        while True:
            earlier, staged = replay_marks.of_object(self._store, self._path)
            if not dry_run:
                for one in earlier:
                    if one.n not in staged:
                        self._finish(one, earlier)
                        done.finished.append(one.batch)
            claimed = {row for one in earlier for row in one.letters()}
            chosen = [
                row
                for row, letter in enumerate(self._letters)
                if row not in claimed and choice.takes(self._path, row, letter)
            ]
            if not chosen:
                return done
            retaken, refused = self._retaken(settings, _corrections(earlier) | dict(mine))
            rows = [row for row in chosen if row in retaken]
            done.still = Counter((refused[row].code, str(refused[row])) for row in chosen if row in refused)
            if not rows:
                return done
            again = put_together(self._letters, retaken, rows, self._landed(rows, retaken), {})
            if not dry_run:
                n = 1 + max((one.n for one in earlier), default=0)
                batch = layout.batch_id(settings.name, clock(), random(8))
                claim = replay_marks.make(self._path, n, batch, config.sha, rows, mine)
                if not replay_marks.claim(self._store, claim):
                    continue  # another replay was quicker
                self._stage(claim, config, settings, again)
                done.batch = batch
            done.letters, done.events = len(rows), len(again.parsed)
            done.ignored, done.dead_again = sum(again.parsed.ignored.values()), len(again.parsed.rejected)
            done.unplaced = 0 if settings.order_by else again.parsed.order.count(None)
            return done

    def _retaken(
        self, settings: StreamConfig, corrected: Mapping[int, bytes]
    ) -> tuple[dict[int, Retaken], dict[int, EventError]]:
        retaken: dict[int, Retaken] = {}
        refused: dict[int, EventError] = {}
        for row, letter in enumerate(self._letters):
            try:
                retaken[row] = retake(letter, settings, corrected.get(row))
            except EventError as error:
                refused[row] = error
        return retaken, refused

    def _landed(self, rows: Sequence[int], retaken: Mapping[int, Retaken]) -> dict[str, Alike]:
        """The changes in the staged batches of the letters that do not know yet which of several equals they are."""
        needed: dict[str, set[int]] = {}
        for row in rows:
            kept = retaken[row].kept
            if kept is None or kept.occurrence is None:
                needed[self._letters[row].batch] = set()
        for letter in self._letters:
            if letter.batch in needed:
                needed[letter.batch].add(letter.index)
        found: dict[str, Alike] = {}
        for batch, dead in needed.items():
            found[batch] = Alike()
            for index, change in _staged_rows(self._store, batch).items():
                if index not in dead:
                    found[batch].number(change)
        return found

    def _finish(self, claim: Replay, earlier: Sequence[Replay]) -> None:
        """Stage what another replay has claimed and, for all we see, not staged: as it would have."""
        if not exists(self._store, layout.staged_path(claim.batch)) and not epochs.epoch_of(self._store, claim.batch):
            config = published_configs.load(self._store, claim.config)
            settings = stream_config(config, layout.stream_of(claim.batch))
            before = [one for one in earlier if one.n <= claim.n]
            retaken, refused = self._retaken(settings, _corrections(before))
            rows = claim.letters()
            landed = self._landed([row for row in rows if row in retaken], retaken)
            # Who claimed them could take them all. What this version refuses is a letter again: of this batch.
            self._stage(claim, config, settings, put_together(self._letters, retaken, rows, landed, refused))
        else:
            replay_marks.finish(self._store, claim)

    def _stage(self, claim: Replay, config: Config, settings: StreamConfig, again: Retry) -> None:
        """Dead letters, batch, done. The first batch that is put stands, whoever puts it."""
        parsed = again.parsed
        when = layout.time_of(claim.batch)
        letters = dead_letters(parsed.rejected, settings, claim.batch)
        letters += [msgspec.structs.replace(letter, batch=claim.batch) for letter in again.letters]
        letters.sort(key=lambda letter: letter.index)
        meta = BatchMeta(
            FORMAT, settings.name, claim.batch, layout.instant(when), config.sha,
            len(parsed), len(letters), parsed.ignored, dict(Counter(parsed.table)), self._path,
        )  # fmt: skip
        data = write_batch(
            parsed, meta, {name: getattr(again, name) for name in ("occurrence", "generation", "origin")}
        )
        write_dead(self._store, layout.batch_dead_path(claim.batch), letters)
        put_if_absent(self._store, layout.staged_path(claim.batch), data)
        replay_marks.finish(self._store, claim)


def _corrections(earlier: Sequence[Replay]) -> dict[int, bytes]:
    return {row: text for one in earlier for row, text in one.corrected.items()}


def _completed(store: Store, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Letters of format 1 do not keep their change and generation: their staged batch tells, while it is there."""
    batches = {letter.batch for letter in letters if letter.generation is None}
    rows = {batch: _staged_rows(store, batch) for batch in batches}
    eras = {batch: _generation(store, batch) for batch in batches}
    return [
        letter
        if letter.batch not in batches
        else msgspec.structs.replace(
            letter,
            change=letter.change or rows[letter.batch].get(letter.index),
            generation=letter.generation if letter.generation is not None else eras[letter.batch],
        )
        for letter in letters
    ]


def _generation(store: Store, batch: str) -> int | None:
    """The stream's generation in the configuration that the batch came under; None if that can't be told any more."""
    meta = read_meta(store, layout.staged_path(batch))
    try:
        stream = published_configs.load(store, meta.config).streams.get(meta.stream) if meta else None
    except ConfigError:
        return None
    return stream.generation if stream else None


def _staged_rows(store: Store, batch: str) -> dict[int, StagedChange]:
    """The changes of a staged batch by index, with schema and which of several equals they are; {} if it is gone."""
    data = get(store, layout.staged_path(batch))
    if data is None:
        return {}
    table = read_parquet(io.BytesIO(data)).read_all()
    there = set(table.column_names)
    count = table.num_rows

    def column(name: str) -> list[Any]:
        if name in there:
            values: list[Any] = table.column(name).to_pylist()
            return values
        return list(range(count)) if name == "index" else [False if name == "flat" else None] * count

    names = [name for name in StagedChange.__struct_fields__ if name != "schema"]
    schemas = {one: text for one, text in zip(column("schema_id"), column("schema"), strict=True) if text is not None}
    columns = {name: column(name) for name in names}
    seen = Alike()
    found: dict[int, StagedChange] = {}
    for place, (index, schema) in enumerate(zip(column("index"), column("schema_id"), strict=True)):
        change = StagedChange(**{name: columns[name][place] for name in names}, schema=schemas.get(schema))
        if change.occurrence is None:
            change = msgspec.structs.replace(change, occurrence=seen.number(change))
        found[index] = change
    return found
