"""A request's body as bytes of JSON: content type, encoding, and inflation that stops at its bound. Pure."""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import zstandard

from firn.changes.envelopes.limits import EventLimits
from firn.errors import RequestError

Content = Literal["json", "ndjson", "auto"]

# `application/json` is read as "auto": clients send NDJSON under it, and no single JSON value looks like NDJSON.
_CONTENT: Final[dict[str, Content]] = {
    "": "auto",
    "application/json": "auto",
    "application/cloudevents+json": "auto",
    "application/cloudevents-batch+json": "auto",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
}
_ZSTD_WINDOW: Final = 8 * 1024 * 1024  # RFC 9659: what a decoder of Content-Encoding: zstd has to support, and no more
# A zstd block of 4 bytes can hold 128 KiB, so 1 KiB of input makes at most 32 MiB before the bound is looked at.
_ZSTD_SLICE: Final = 1024
_GZIP_SLICE: Final = 64 * 1024  # what follows a member is copied with each: no more than this
_ZEROS: Final = re.compile(rb"\0*")
_FREE: Final = 1024 * 1024  # bytes that any body may inflate to, however small it was


@dataclass(frozen=True)
class Limits:
    """Bounds on a body: bytes as it is sent and as what it inflates to, how many times as many that may be, in how many
    gzip members or zstd frames, and what may be in it."""

    sent: int = 4 * 1024 * 1024
    inflated: int = 64 * 1024 * 1024
    ratio: int = 1_000
    members: int = 1_000
    events: EventLimits = field(default_factory=EventLimits)


def content_of(content_type: str | None) -> Content:
    """How the body is to be read, by its Content-Type (None: not sent). RequestError 415 for what Firn doesn't read."""
    kind, _, parameters = (content_type or "").lower().partition(";")
    content = _CONTENT.get(kind.strip())
    if content is None:
        known = ", ".join(name for name in _CONTENT if name)
        raise RequestError(415, "content_type", f"Content-Type {kind.strip()!r} is not read here; send one of {known}")
    charset = [p.partition("=")[2].strip(' "') for p in parameters.split(";") if p.strip().startswith("charset")]
    if charset and charset[0] not in ("utf-8", "utf8", "us-ascii"):
        raise RequestError(415, "charset", f"charset {charset[0]!r} is not read here; send UTF-8")
    return content


def read_body(raw: bytes, content_encoding: str | None, limits: Limits) -> bytes:
    """The body as JSON text. RequestError: 413 over a limit, 415 unknown encoding, 400 broken or cut off."""
    if len(raw) > limits.sent:
        raise RequestError(
            413,
            "body_too_large",
            f"the body has {len(raw):,} bytes, the limit is {limits.sent:,}: send smaller batches",
        )
    encoding = (content_encoding or "identity").strip().lower()
    inflate = _INFLATE.get(encoding)
    if inflate is None:
        raise RequestError(
            415, "content_encoding", f"Content-Encoding {encoding!r} is not read here; send gzip, zstd or identity"
        )
    return inflate(raw, limits)


def _identity(raw: bytes, limits: Limits) -> bytes:
    if len(raw) > limits.inflated:
        raise _too_large(limits.inflated)
    return raw


def _gunzip(raw: bytes, limits: Limits) -> bytes:
    """One or more gzip members (RFC 1952); padding of zero bytes at the end is allowed, as gzip allows it."""
    inflated = _Inflated(len(raw), limits)
    at = 0
    while True:
        member = zlib.decompressobj(wbits=31)
        while at < len(raw) and not member.eof:
            chunk = raw[at : at + _GZIP_SLICE]
            at += len(chunk)
            try:
                inflated.add(member.decompress(chunk, inflated.room + 1))
            except zlib.error as error:
                raise _broken("gzip", str(error)) from error
        if not member.eof:
            raise _broken("gzip", "it is cut off")
        inflated.end_member()
        at -= len(member.unused_data)
        if (padding := _ZEROS.match(raw, at)) is not None:
            at = padding.end()
        if at == len(raw):
            return inflated.body()


def _unzstd(raw: bytes, limits: Limits) -> bytes:
    """One or more zstd frames, fed in slices, because zstandard's decompressobj knows no bound on its output."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    inflated = _Inflated(len(raw), limits)
    rest = memoryview(raw)
    while True:
        frame = decompressor.decompressobj()
        while rest and not frame.eof:
            chunk, rest = rest[:_ZSTD_SLICE], rest[_ZSTD_SLICE:]
            try:
                inflated.add(frame.decompress(chunk))
            except zstandard.ZstdError as error:
                raise _broken("zstd", str(error)) from error
        if not frame.eof:
            raise _broken("zstd", "it is cut off")
        inflated.end_member()
        if frame.unused_data:
            rest = memoryview(raw)[len(raw) - len(rest) - len(frame.unused_data) :]
        if not rest:
            return inflated.body()


class _Inflated:
    """What a body inflates to, piece by piece. Raises RequestError 413 as soon as it is too much."""

    def __init__(self, sent: int, limits: Limits) -> None:
        self._limits = limits
        self._most = min(limits.inflated, max(_FREE, limits.ratio * sent))
        self._parts: list[bytes] = []
        self._members = 0
        self.room = self._most

    def add(self, data: bytes) -> None:
        self.room -= len(data)
        if self.room < 0 and self._most < self._limits.inflated:
            raise RequestError(
                413,
                "inflates_too_large",
                f"the body inflates to more than {self._limits.ratio:,} times its bytes: send it less compressed, or "
                "as it is",
            )
        if self.room < 0:
            raise _too_large(self._most)
        self._parts.append(data)

    def end_member(self) -> None:
        self._members += 1
        if self._members > self._limits.members:
            raise RequestError(
                413,
                "too_many_members",
                f"the body has more than {self._limits.members:,} gzip members or zstd frames: compress it as one",
            )

    def body(self) -> bytes:
        return b"".join(self._parts) if len(self._parts) != 1 else self._parts[0]


_INFLATE: Final[dict[str, Callable[[bytes, Limits], bytes]]] = {
    "identity": _identity,
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "zstd": _unzstd,
}


def _too_large(limit: int) -> RequestError:
    return RequestError(
        413, "inflates_too_large", f"the body inflates to more than {limit:,} bytes: send smaller batches"
    )


def _broken(encoding: str, why: str) -> RequestError:
    return RequestError(400, "unreadable_body", f"the body is not readable {encoding}: {why}")
