"""What `firn dead` shows, writes and reads."""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from firn.deployment.terminal import counted
from firn.errors import FirnError
from firn.ingest.replay import Choice, Letter, Replayed, acknowledged
from firn.log import layout, published_configs
from firn.log.dead_letters import replay_marks
from firn.log.dead_letters.letters import DeadLetter, read_dead
from firn.log.dead_letters.reasons import advice
from firn.log.store import Store


@dataclass(frozen=True)
class Group:
    """The letters of one object with one table and reason. `replayed_in`: the batch they came again in, or None."""

    stream: str
    object: str
    batch: str
    received_at: datetime  # of the first
    table: str | None
    reason: str
    letters: int
    replayed_in: str | None


@dataclass(frozen=True)
class Shown:
    """One letter, for people."""

    stream: str
    object: str
    batch: str
    index: int
    received_at: datetime
    table: str | None
    reason: str
    message: str
    advice: str
    replayed_in: str | None
    original: bytes


@dataclass
class Summary:
    """What a replay did, all objects together. `still`: letters that can't be taken yet, by reason."""

    stream: str
    config: str
    dry_run: bool
    letters: int = 0
    events: int = 0
    ignored: int = 0
    dead_again: int = 0
    unplaced: int = 0
    finished: list[str] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    still: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """It in words, with what to run next."""
        verb = "can be replayed" if self.dry_run else "replayed"
        letters, events = counted(self.letters, "letter"), counted(self.events, "event")
        yield f"{self.stream}: {letters} {verb}, {events} (config {self.config[:12]})"
        if self.finished:
            batches = counted(len(self.finished), "batch", "batches")
            yield f"staged {batches} of replays that had died: {', '.join(self.finished)}"
        if self.ignored:
            yield f"ignored {counted(self.ignored, 'event')}: no row changes, or no rule takes the table"
        if self.dead_again:
            yield f"{counted(self.dead_again, 'event')} of letters that held several: dead letters of the new batch"
        if self.unplaced:
            yield f"{counted(self.unplaced, 'event')} without a position: the newest of their rows (see order_by)"
        for reason, number in sorted(self.still.items()):
            yield f"{number:,} still dead, {reason}: {self.examples[reason]}"
            yield f"    {advice(reason, self.examples[reason])}"
        if self.letters and self.dry_run:
            yield f"Next: firn dead replay {self.stream}"
        elif self.letters or self.finished:
            yield f"Next: firn flush {self.stream}"


def streams(store: Store, only: str | None) -> list[str]:
    """The streams to look at: the one that is named, else all that are configured."""
    if only is not None:
        if not layout.is_stream_name(only):
            raise FirnError(f"{only!r} is not a stream's name")
        return [only]
    return sorted(published_configs.current(store).streams)


def groups(store: Store, stream: str, choice: Choice, *, replayed: bool) -> Iterator[Group]:
    """The letters of a stream, summed up. Reads one object at a time."""
    claims = replay_marks.of_stream(store, stream)
    for path in choice.objects(store, stream):
        found: dict[tuple[Any, ...], list[DeadLetter]] = {}
        for _, letter, batch in _letters(store, path, choice, claims.get(path, ())):
            if replayed or batch is None:
                found.setdefault((letter.table, letter.reason, batch), []).append(letter)
        for (table, reason, batch), letters in found.items():
            first = letters[0]
            name = layout.dead_name(path)
            yield Group(stream, name, first.batch, first.received_at, table, reason, len(letters), batch)


def shown(store: Store, name: str, index: int | None) -> list[Shown]:
    """The letters of a batch or of an object."""
    if layout.is_batch_id(name):
        stream, choice = layout.stream_of(name), Choice(batch=name)
        found = [(stream, path) for path in choice.objects(store, stream)]
    else:
        choice = Choice(object=name)
        found = [(stream, path) for stream in streams(store, None) for path in choice.objects(store, stream)]
    return [
        Shown(
            stream, layout.dead_name(path), x.batch, x.index, x.received_at, x.table, x.reason, x.message,
            advice(x.reason, x.message), batch, x.original,
        )
        for stream, path in found
        for _, x, batch in _letters(store, path, choice, replay_marks.of_object(store, path)[0])
        if index in (None, x.index)
    ]  # fmt: skip


def exported(store: Store, stream: str, choice: Choice) -> Iterator[str]:
    """The letters that wait, a JSON line each: object, row, what is wrong, and `original` (a JSON object where it is
    one in a line, else text; `original_base64` where it is not text)."""
    claims = replay_marks.of_stream(store, stream)
    for path in choice.objects(store, stream):
        for row, letter, batch in _letters(store, path, choice, claims.get(path, ())):
            if batch is None:
                told = {"object": layout.dead_name(path), "row": row, "batch": letter.batch, "index": letter.index}
                told |= {"table": letter.table, "reason": letter.reason, "message": letter.message}
                yield msgspec.json.encode(told | _written(letter.original)).decode()


class _Line(msgspec.Struct):
    object: str
    row: int
    original: msgspec.Raw = msgspec.Raw(b"")
    original_base64: bytes | None = None


def imported(store: Store, stream: str, file: Path) -> dict[Letter, bytes]:
    """The originals of a corrected export. Raises FirnError that names the line."""
    where = {layout.dead_name(path): path for path in Choice().objects(store, stream)}
    found: dict[Letter, bytes] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise FirnError(f"{file} can't be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            told = msgspec.json.decode(line, type=_Line)
            original = _original(told)
        except (msgspec.MsgspecError, ValueError) as error:
            raise FirnError(f"{file}:{number}: {error}; write a line as `firn dead export` does") from error
        if told.object not in where:
            raise FirnError(f"{file}:{number}: stream {stream} has no dead-letter object {told.object!r}")
        found[where[told.object], told.row] = original
    return found


def summary(stream: str, config: str, done: Sequence[Replayed], *, dry_run: bool) -> Summary:
    """The objects' results as one."""
    result = Summary(stream, config, dry_run)
    still: Counter[str] = Counter()
    for one in done:
        result.letters += one.letters
        result.events += one.events
        result.ignored += one.ignored
        result.dead_again += one.dead_again
        result.unplaced += one.unplaced
        result.finished += one.finished
        result.batches += [one.batch] if one.batch else []
        for (reason, message), number in one.still.items():
            still[reason] += number
            result.examples.setdefault(reason, message)
    result.still = dict(still)
    return result


def pretty(original: bytes) -> str:
    """An event for people: indented JSON, else text, else its bytes in hexadecimal."""
    try:
        return json.dumps(json.loads(original), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        pass
    try:
        return original.decode()
    except UnicodeDecodeError:
        return "\n".join(f"{at:06x}  {original[at : at + 32].hex(' ')}" for at in range(0, len(original), 32))


def _letters(
    store: Store, path: str, choice: Choice, claims: Sequence[replay_marks.Replay]
) -> Iterator[tuple[int, DeadLetter, str | None]]:
    """(row, letter, the batch it was replayed in) of the chosen letters of an object."""
    replayed = {row: claim.batch for claim in claims for row in claim.letters()}
    if acknowledged(store, path):
        for row, letter in enumerate(read_dead(store, path)):
            if choice.takes(path, row, letter):
                yield row, letter, replayed.get(row)


def _written(original: bytes) -> dict[str, Any]:
    try:
        text = original.decode()
    except UnicodeDecodeError:
        return {"original_base64": base64.b64encode(original).decode()}
    if text.startswith("{") and "\n" not in text and "\r" not in text:
        try:
            msgspec.json.decode(original)
            return {"original": msgspec.Raw(original)}
        except (msgspec.DecodeError, RecursionError):
            pass
    return {"original": text}


def _original(told: _Line) -> bytes:
    raw = bytes(told.original)
    if not raw:
        if told.original_base64 is None:
            raise ValueError("neither `original` nor `original_base64` is there")
        return told.original_base64
    return msgspec.json.decode(raw, type=str).encode() if raw.startswith(b'"') else raw
