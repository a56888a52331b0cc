"""Receipts: what an idempotency key was first used for. Written before the batch, so that a retry finds its path."""

import hashlib
from typing import Final

import msgspec

from firn.errors import RequestError, StorageUnavailable
from firn.staging import layout
from firn.staging.batch import FORMAT
from firn.staging.store import Store, get, put_if_absent

MAX_KEY: Final = 255


class Receipt(msgspec.Struct, frozen=True):
    """The batch that a key stands for. `body` is the SHA-256 (hex) of the request's body, inflated."""

    format: int
    stream: str
    batch: str
    body: str


_decode: Final = msgspec.json.Decoder(Receipt).decode


def claim(store: Store, key: str, body: bytes, batch: str) -> tuple[Receipt, bool]:
    """Use `key` for `batch` unless it was used before -> (its receipt, was it used before).

    Raises RequestError 409 if it was used for another body, 400 for a key that is empty, longer than 255 characters or
    not printable; StorageUnavailable, UnknownOutcome.
    """
    if not 0 < len(key) <= MAX_KEY or not key.isprintable():
        raise RequestError(400, "bad_idempotency_key", f"an Idempotency-Key has 1 to {MAX_KEY} printable characters")
    mine = Receipt(FORMAT, layout.stream_of(batch), batch, hashlib.sha256(body).hexdigest())
    path = layout.receipt_path(mine.stream, key)
    # The batch id is random, so that equal bytes mean: this very request wrote it.
    if put_if_absent(store, path, msgspec.json.encode(mine)):
        return mine, False
    data = get(store, path)
    if data is None:
        raise StorageUnavailable(f"the receipt {path} went away while it was read; try again")
    first = _decode(data)
    if first.body != mine.body:
        raise RequestError(
            409,
            "idempotency_conflict",
            "this Idempotency-Key was used for another body: send a new key with new events",
        )
    return first, True
