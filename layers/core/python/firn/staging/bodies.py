"""A request's body as bytes of JSON: content type, encoding, and inflation that stops at its bound. Pure."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import zstandard

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


@dataclass(frozen=True)
class Limits:
    """Bounds on a body, in bytes: as it is sent, and as what it inflates to."""

    sent: int = 4 * 1024 * 1024
    inflated: int = 64 * 1024 * 1024


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
    return inflate(raw, limits.inflated)


def _identity(raw: bytes, limit: int) -> bytes:
    if len(raw) > limit:
        raise _too_large(limit)
    return raw


def _gunzip(raw: bytes, limit: int) -> bytes:
    """One or more gzip members (RFC 1952); padding of zero bytes at the end is allowed, as gzip allows it."""
    parts: list[bytes] = []
    room, rest = limit, raw
    while True:
        member = zlib.decompressobj(wbits=31)
        try:
            data = member.decompress(rest, room + 1)
        except zlib.error as error:
            raise _broken("gzip", str(error)) from error
        if len(data) > room:
            raise _too_large(limit)
        if not member.eof:
            raise _broken("gzip", "it is cut off")
        parts.append(data)
        room -= len(data)
        rest = member.unused_data.lstrip(b"\0")
        if not rest:
            return b"".join(parts) if len(parts) > 1 else data


def _unzstd(raw: bytes, limit: int) -> bytes:
    """One or more zstd frames, fed in slices, because zstandard's decompressobj knows no bound on its output."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    parts: list[bytes] = []
    room, rest = limit, memoryview(raw)
    while True:
        frame = decompressor.decompressobj()
        while rest and not frame.eof:
            chunk, rest = rest[:_ZSTD_SLICE], rest[_ZSTD_SLICE:]
            try:
                data = frame.decompress(chunk)
            except zstandard.ZstdError as error:
                raise _broken("zstd", str(error)) from error
            parts.append(data)
            room -= len(data)
            if room < 0:
                raise _too_large(limit)
        if not frame.eof:
            raise _broken("zstd", "it is cut off")
        if frame.unused_data:
            rest = memoryview(raw)[len(raw) - len(rest) - len(frame.unused_data) :]
        if not rest:
            return b"".join(parts)


_INFLATE: Final[dict[str, Callable[[bytes, int], bytes]]] = {
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
    return RequestError(400, "unreadable_body", f"the body is no readable {encoding}: {why}")
