"""What the query function and its worker process say to each other, over two pipes.

A frame is its kind (one byte), its length (four bytes, big endian) and so many bytes. A question is one frame of JSON.
Its answer is a head, any number of parts and a done, or at any place among them a refusal. Imports little: the function
that asks loads neither PyArrow nor DuckDB.
"""

import os
import struct
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from firn.config.reader_scopes import Everything, Scope
from firn.errors import RequestError

READY: Final = b"r"  # the worker has imported what it needs
QUESTION: Final = b"q"
HEAD: Final = b"h"
PART: Final = b"p"
DONE: Final = b"d"
REFUSAL: Final = b"e"

MOST: Final = 1 << 20
"""Bytes of the largest part: longer ones are sent in several."""

_FRAME: Final = struct.Struct(">cI")


class Question(msgspec.Struct, frozen=True):
    """What is asked, of which lake, and what the answer may take.

    about    query, changes, snapshots, schema, columns, timeline, batch, dead or tables
    scope    what may be read for the answer
    seconds  of running, after which DuckDB is interrupted
    rows     of the answer
    memory   of DuckDB, and bytes of the answer: each so much, such as "1GB"
    """

    about: str
    scope: Everything | Scope
    staging: str
    catalog: str
    warehouse: str
    seconds: float
    rows: int
    memory: str
    body: bytes = b""
    table: str = ""
    parameters: Mapping[str, str] = {}


class Head(msgspec.Struct, frozen=True):
    """What the parts will be: a format (the suffix of a file) and its content type."""

    format: str
    content_type: str


class Done(msgspec.Struct, frozen=True):
    """The answer is whole, and has so many rows."""

    rows: int


class Refusal(msgspec.Struct, frozen=True):
    """Why there is no answer. `message` may hold what was asked and is for the caller alone; `kind`, the type of the
    error, and `at`, the lines of code it went through, hold nothing of it and may be logged."""

    status: int
    code: str
    message: str
    retry_after: int | None = None
    kind: str = ""
    at: tuple[str, ...] = ()


class Refused(RequestError):
    """The worker's refusal, as the function answers it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.status, refusal.code, refusal.message, refusal.retry_after)
        self.kind, self.at = refusal.kind, refusal.at


def send(pipe: int, kind: bytes, content: bytes) -> None:
    """Write one frame. Raises BrokenPipeError if nobody reads."""
    for part in (_FRAME.pack(kind, len(content)), content):
        left = memoryview(part)
        while left:
            left = left[os.write(pipe, left) :]


def receive(pipe: int) -> tuple[bytes, bytes] | None:
    """One frame: its kind and content; None at the end of the pipe."""
    head = _exactly(pipe, _FRAME.size)
    if head is None:
        return None
    kind, length = _FRAME.unpack(head)
    content = _exactly(pipe, length)
    return None if content is None else (kind, content)


def in_parts(content: bytes) -> Iterator[memoryview]:
    """The content, at most MOST bytes at a time."""
    view = memoryview(content)
    for first in range(0, len(view), MOST):
        yield view[first : first + MOST]


def _exactly(pipe: int, size: int) -> bytes | None:
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        count = os.readv(pipe, [view[got:]])
        if count == 0:
            return None
        got += count
    return bytes(buffer)
