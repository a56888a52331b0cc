"""The data of a Kinesis record as user records: gzip is undone, and what the Kinesis Producer Library aggregated is
taken apart. Pure, and bounded: a record has at most a few megabytes, and inflates to no more than a request may.

Aggregation: "KPL Aggregated Record Format" (awslabs/amazon-kinesis-producer, aggregation-format.md): four magic bytes,
a protobuf message, and its MD5. Of the message field 3 is a user record, and field 3 of that its data.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from firn.errors import EventError, RequestError
from firn.ingest.bodies import Limits, read_body

_GZIP: Final = b"\x1f\x8b"
_AGGREGATED: Final = b"\xf3\x89\x9a\xc2"
_MD5: Final = 16
_USER_RECORD, _DATA = 3, 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf
MOST_USER_RECORDS: Final = 100_000


def user_records(data: bytes, limits: Limits) -> list[bytes]:
    """The user records of one record: itself as a rule. Raises EventError bad_record, inflates_too_large, ….

    A user record with nothing in it keeps its number, and is empty.
    """
    found = [data]
    if data.startswith(_AGGREGATED):
        body, digest = data[len(_AGGREGATED) : -_MD5], data[-_MD5:]
        if hashlib.md5(body, usedforsecurity=False).digest() != digest:
            raise EventError(
                "bad_record", "it looks aggregated by the Kinesis Producer Library, and its MD5 is another"
            )
        found = [_data_of(one) for number, one in _fields(body) if number == _USER_RECORD]
        if len(found) > MOST_USER_RECORDS:
            raise EventError("bad_record", f"it holds {len(found):,} user records, of {MOST_USER_RECORDS:,} at most")
    plain, left = list[bytes](), limits.inflated  # all of them are held at once
    for one in found:
        plain.append(_plain(one, replace(limits, inflated=left)))
        left = max(0, left - len(plain[-1]))
    return plain


def _plain(data: bytes, limits: Limits) -> bytes:
    if not data.startswith(_GZIP):
        return data
    try:
        return read_body(data, "gzip", limits)
    except RequestError as error:
        raise EventError(error.code, str(error)) from None


def _data_of(user_record: bytes) -> bytes:
    return next((value for number, value in _fields(user_record) if number == _DATA), b"")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a protobuf message; others are skipped. Raises EventError."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        elif kind == _BYTES:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise _cut()
            yield tag >> 3, message[at : at + size]
            at += size
        else:
            raise _cut()
    if at > len(message):
        raise _cut()


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
    raise _cut()


def _cut() -> EventError:
    return EventError("bad_record", "it looks aggregated by the Kinesis Producer Library, and its protobuf is broken")
