"""Changes of MongoDB's documents, whoever tells them: a column for each top-level field, the key `_id`."""

from typing import Any, Final

import msgspec
from msgspec import Raw, structs

from firn.changes.change import STEPS, Change
from firn.changes.envelopes.event_reader import decode, fields_of
from firn.changes.envelopes.extended_json import encode, plain_cell, plain_document
from firn.changes.envelopes.update_description import Update, applied
from firn.errors import EventError

# Connectors of the native change streams and of Debezium: the second of each is of updates that say a part of a row.
MONGODB: Final = "mongodb_stream"
MONGODB_PATCH: Final = "mongodb_stream_patch"
DEBEZIUM_PATCH: Final = "mongodb_patch"
_text: Final = msgspec.json.Decoder(str).decode


def image(text: bytes | None, within: str) -> bytes | None:
    """A document as plain JSON, also where it travels as text. Raises EventError."""
    if text is not None and text.startswith(b'"'):
        text = decode(text, str, within=within).strip().encode()
    if text is None or text == b"null":
        return None
    return plain_document(text, within)


def key_of(cell: Raw | None) -> bytes | None:
    """The key of a document with this `_id`; None without one."""
    return None if cell is None else encode({"_id": plain_cell(bytes(cell), "_id")})


def debezium_key(key: bytes | None) -> bytes | None:
    """Debezium's key, `{"id": "extended JSON of _id"}`, as the document's. Any other stays as it is."""
    if key is None or not key.startswith(b"{"):
        return key
    fields = fields_of(key, "the key")
    if fields.keys() != {"id"} or bytes(fields["id"])[:1] != b'"':
        return key
    text: str = decode(fields["id"], str, within="key.id")
    try:
        return key_of(Raw(msgspec.json.decode(text.encode(), type=Raw)))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return encode({"_id": text})  # no JSON: a text as it is


def whole(change: Change, op: str, before: bytes | None, after: bytes | None) -> Change:
    """A change that tells the document itself. Raises EventError missing_image."""
    if op in "cur" and after is None:
        raise EventError("missing_image", "the event does not hold the document after the change")
    if op == "d" and before is None and change.key is None:
        raise EventError("missing_image", "the delete says neither the document's key nor the document before it")
    if op == "d":  # its key is a row too: a table may begin with a delete, and has to remember it
        return structs.replace(change, op=op, before=before or change.key, after=None)
    return structs.replace(change, op=op, before=before, after=_with_id(after))


def _with_id(document: bytes | None) -> bytes | None:
    """The document with its `_id` as keys have it: without spaces."""
    if document is None:
        return None
    fields = fields_of(document, "the document")
    cell = fields.get("_id")
    if cell is None or bytes(cell)[:1] not in (b"{", b"["):
        return document
    return encode(fields | {"_id": plain_cell(bytes(cell), "_id")})


def updated(
    change: Change, before: bytes | None, after: bytes | None, update: Update | None, *, gone: bool, patch: str
) -> Change:
    """A change that updates a document. `gone`: it was looked up, and is deleted by now; `patch`: the connector of
    updates that say a part of a row. Raises EventError missing_image, no_key, bad_event."""
    if before is not None and update is not None:
        done = image(applied(before, update, "the document before"), "the document after")
        return whole(change, "u", before, done)
    if after is not None:
        return whole(change, "u", before, after)
    if update is None:
        raise EventError("missing_image", "the update holds neither the document nor `updateDescription`")
    if change.key is None:
        raise EventError("no_key", "the update says only what it changes, and comes without the document's key")
    key = fields_of(change.key, "the key")
    cells = {name: plain_cell(bytes(cell), name) for name, cell in update.cells().items()}
    for name, cell in (*cells.items(), *key.items()):
        if bytes(cell)[:1] == b'"' and _text(cell).startswith(STEPS):
            raise EventError("bad_event", f"the text of the field {name[:100]!r} begins as nothing but steps may")
    if not gone:
        cells |= {name: _steps(name, steps) for name, steps in update.steps().items() if name not in cells}
    return structs.replace(change, op="u", connector=patch, before=None, after=encode(cells | key))


def _steps(name: str, steps: list[Any]) -> Raw:
    """The steps into a field as the text that a row decoder knows them by."""
    return Raw(encode(STEPS + bytes(plain_cell(encode(steps), name)).decode()))
