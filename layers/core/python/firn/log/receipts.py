"""Receipts: what a key was first used for. Written before the batch, so that a retry finds its path."""

import hashlib
from typing import Final, Literal

import msgspec

from firn.errors import RequestError, StorageUnavailable
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, put_if_absent

MAX_KEY: Final = 255
_MOST_LINKS: Final = 20  # successors of a receipt that are looked for

Header = Literal["Idempotency-Key", "webhook-id"]


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """The batch that a key stands for. `body` is the SHA-256 (hex) of the body: a request's, inflated; a message's.
    `config` is the configuration (sha) under which the first try read it, "" where it does not say."""

    format: int
    stream: str
    batch: str
    body: str
    config: str = ""


_decode: Final = msgspec.json.Decoder(Receipt).decode


def receipt(batch: str, body: bytes, config: str = "") -> Receipt:
    """A receipt of the present format. ValueError if `batch` is not a batch id."""
    return Receipt(FORMAT, layout.stream_of(batch), batch, hashlib.sha256(body).hexdigest(), config)


def put(store: Store, path: str, mine: Receipt) -> Receipt:
    """Write `mine` at `path` if there is none -> the receipt that stands there now.

    The batch id is random, so that equal bytes mean: this very request wrote it. Raises StorageUnavailable,
    UnknownOutcome.
    """
    if put_if_absent(store, path, msgspec.json.encode(mine)):
        return mine
    data = get(store, path)
    if data is None:
        raise StorageUnavailable(f"the receipt {path} went away while it was read; try again")
    return _decode(data)


def _kind(header: Header, owner: str) -> str:
    kind = "" if header == "Idempotency-Key" else header
    return f"{kind}\n{owner}" if owner else kind  # a line feed is in no key


def find(
    store: Store, stream: str, key: str, body: bytes, header: Header = "Idempotency-Key", *, owner: str = ""
) -> Receipt | None:
    """The receipt that `key` has for this very body, None if it has none. Writes nothing. Raises StorageUnavailable."""
    data = get(store, layout.receipt_path(stream, key, _kind(header, owner)))
    found = None if data is None else _decode(data)
    return found if found is not None and found.body == hashlib.sha256(body).hexdigest() else None


def claim(
    store: Store,
    key: str,
    body: bytes,
    batch: str,
    header: Header = "Idempotency-Key",
    config: str = "",
    *,
    owner: str = "",
) -> tuple[Receipt, bool]:
    """Use `key` for `batch` unless it was used before -> (its receipt, was it used before). `header`: who brought it.
    `owner`: the writer whose key it is; "": the stream's own sender's.

    Raises RequestError 409 if it was used for another body, 400 for a key that is empty, longer than 255 characters or
    not printable; StorageUnavailable, UnknownOutcome.
    """
    if not 0 < len(key) <= MAX_KEY or not key.isprintable():
        raise RequestError(400, "bad_idempotency_key", f"{header} has 1 to {MAX_KEY} printable characters")
    mine = receipt(batch, body, config)
    first = put(store, layout.receipt_path(mine.stream, key, _kind(header, owner)), mine)
    if first.body != mine.body:
        raise RequestError(
            409,
            "idempotency_conflict",
            f"this {header} was used for another body: send a new one with new events",
        )
    return first, first.batch != mine.batch


def look(store: Store, stream: str, key: str, header: Header = "Idempotency-Key") -> Receipt | None:
    """The receipt that `key` has now, whatever its body was; None without one. Raises StorageUnavailable."""
    kind, found = "" if header == "Idempotency-Key" else header, None
    for link in range(1, _MOST_LINKS):
        data = get(store, layout.receipt_path(stream, key, kind, link))
        if data is None:
            break
        found = _decode(data)
    return found
