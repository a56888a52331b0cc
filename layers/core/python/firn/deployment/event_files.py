"""Event files as batches: NDJSON (plain or .gz), cut at line ends, each with a key that makes a second run harmless."""

import gzip
import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from firn.errors import TerminalError

MAX_BATCH_BYTES = 3_000_000
"""Below the ingress's 4 MB even if the body did not shrink on its way."""

MAX_MESSAGE_BYTES = 262_144
"""What one SQS message and one SendMessageBatch hold at most in every region (AWS raised it to 1 MiB in 2025)."""


class UnreadableFile(TerminalError):
    """An event file can't be read."""


@dataclass(frozen=True)
class Batch:
    """Some lines of a file. `number` counts its batches from 1; `read`: bytes of the file read until then."""

    body: bytes
    events: int
    number: int
    read: int

    def key(self, stream: str, table: str | None = None) -> str:
        """The Idempotency-Key: the same lines at the same place have the same one, so a rerun stages nothing twice.

        The place is in it because two equal batches of one file are both meant.
        """
        to = stream if table is None else f"{stream}\n{table}"
        place = f"{to}\n{self.number}\n".encode()
        return f"firn-send-{hashlib.sha256(place + self.body).hexdigest()}"


def file_size(path: Path) -> int:
    """Bytes on disk, 0 for standard input. Raises UnreadableFile."""
    try:
        return 0 if str(path) == "-" else path.stat().st_size
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror}") from error


def read_batches(
    path: Path, *, max_bytes: int = MAX_BATCH_BYTES, max_events: int | None = None, split: int | None = None
) -> Iterator[Batch]:
    """The file's batches, in order: at most `max_bytes` and `max_events` each, or `split` batches of equal count.

    `-` is standard input, which can't be split. Empty lines are left out. Raises UnreadableFile, also for a truncated
    .gz.
    """
    if split is not None:
        if str(path) == "-":
            raise UnreadableFile("standard input is read once and can't be split: give a file")
        total = sum(1 for _ in read_lines(path))
        max_events = max(1, -(-total // split))
    return cut(read_lines(path), max_bytes=max_bytes, max_events=max_events)


def cut(
    lines: Iterable[tuple[bytes, int]], *, max_bytes: int = MAX_BATCH_BYTES, max_events: int | None = None
) -> Iterator[Batch]:
    """Lines as batches. Each line comes with how far the file was read."""
    held: list[bytes] = []
    size = number = read = 0
    for line, position in lines:
        if held and (size + len(line) > max_bytes or len(held) == max_events):
            number += 1
            yield Batch(b"".join(held), len(held), number, read)
            held, size = [], 0
        held.append(line)
        size += len(line)
        read = position
    if held:
        yield Batch(b"".join(held), len(held), number + 1, read)


def messages(events: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Groups of events for SendMessageBatch: at most 10 and MAX_MESSAGE_BYTES together.

    Raises UnreadableFile for an event that no message holds.
    """
    group: list[bytes] = []
    size = 0
    for event in events:
        if len(event) > MAX_MESSAGE_BYTES:
            raise UnreadableFile(f"an event of {len(event):,} bytes is too large for SQS: send it without --queue")
        if group and (len(group) == 10 or size + len(event) > MAX_MESSAGE_BYTES):
            yield group
            group, size = [], 0
        group.append(event)
        size += len(event)
    if group:
        yield group


def read_lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """Each line that is not empty, with its newline, and how far the file (as it is on disk) was read."""
    try:
        with _open(path) as (raw, text):
            for line in text:
                if line.strip():
                    yield line if line.endswith(b"\n") else line + b"\n", raw.tell() if raw.seekable() else 0
    except (OSError, EOFError) as error:
        raise UnreadableFile(f"{path}: {error}") from error


@contextmanager
def _open(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file as it is on disk, and its text, inflated if its first bytes say gzip (whatever its name says)."""
    if str(path) == "-":
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            yield raw, raw
            return
        with gzip.open(raw) as text:
            yield raw, cast("IO[bytes]", text)
