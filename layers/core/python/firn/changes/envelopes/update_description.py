"""What an update of a MongoDB document says of it: the paths that it set, removed and cut.

https://www.mongodb.com/docs/manual/reference/change-events/update/. A path is dotted (`addr.zip`, `tags.1`); a field's
name may hold dots itself, which `disambiguatedPaths` tells, where the change stream is opened with showExpandedEvents.
Debezium has `updatedFields` as text, and calls the new size of an array `size`.

A document's top-level fields are columns: an update sets or removes some of them, and takes steps within others, which
the fold applies. Where the event holds the document before it, it is applied here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from firn.changes.envelopes.event_reader import decode, fields_of
from firn.errors import EventError

_NULL: Final = Raw(b"null")
_any: Final = msgspec.json.Decoder(Any).decode
_encode: Final = msgspec.json.Encoder().encode
_FAR: Final = 1_000  # places beyond arrays' ends that an update may reach: MongoDB fills them with nulls
_PATHS: Final = 10_000  # of one update
_DEEPEST: Final = 100  # steps of one path, as in MongoDB


class _Truncated(Struct, frozen=True):
    field: str
    newSize: int | None = None
    size: int | None = None


class _Description(Struct, frozen=True):
    updatedFields: Raw = _NULL
    removedFields: list[str] | None = None
    truncatedArrays: list[_Truncated] | None = None
    disambiguatedPaths: dict[str, list[str | int]] | None = None


class Update(Struct, frozen=True):
    """The steps of one update, in the order in which they apply: sizes of arrays, values, removals. Each path is its
    steps: names, and places in arrays."""

    sizes: Sequence[tuple[Sequence[str], int]]
    values: Sequence[tuple[Sequence[str], Raw]]
    removed: Sequence[Sequence[str]]

    def steps(self) -> dict[str, list[Any]]:
        """What it changes within fields: the steps by field, as merge/nested_updates.py has them."""
        found: dict[str, list[Any]] = {}
        for path, size in self.sizes:
            found.setdefault(path[0], []).append(["cut", path[1:], size])
        for path, value in self.values:
            if len(path) > 1:
                found.setdefault(path[0], []).append(["set", path[1:], value])
        for path in self.removed:
            if len(path) > 1:
                found.setdefault(path[0], []).append(["unset", path[1:]])
        return found

    def cells(self) -> dict[str, Raw]:
        """The whole fields that it sets, and null for those that it removes."""
        found = {path[0]: value for path, value in self.values if len(path) == 1}
        return found | {path[0]: _NULL for path in self.removed if len(path) == 1}


def read_update(text: bytes, within: str) -> Update:
    """Raises EventError bad_event, bad_json, too_deep."""
    said: _Description = decode(text, _Description, within=within)
    paths = said.disambiguatedPaths or {}

    def steps(path: str) -> Sequence[str]:
        return [str(step) for step in paths[path]] if path in paths else path.split(".")

    fields = bytes(said.updatedFields)
    if fields[:1] == b'"':
        fields = decode(fields, str, within=f"{within}.updatedFields").encode()
    values = {} if fields == b"null" else fields_of(fields, f"`{within}.updatedFields`")
    sizes = []
    for one in said.truncatedArrays or ():
        size = one.size if one.newSize is None else one.newSize
        if size is None or size < 0:
            raise EventError("bad_event", f"`{within}.truncatedArrays`: an array without its new size")
        sizes.append((steps(one.field), size))
    found = Update(
        sizes, [(steps(path), value) for path, value in values.items()], list(map(steps, said.removedFields or ()))
    )
    told = [*(path for path, _ in found.sizes), *(path for path, _ in found.values), *found.removed]
    if len(told) > _PATHS or max(map(len, told), default=1) > _DEEPEST or not all(told):
        raise EventError(
            "bad_event", f"`{within}` has more than {_PATHS:,} paths, or one of more than {_DEEPEST} steps, or of none"
        )
    return found


class _Room(Struct):
    """How many places an update may still fill with nulls: a few bytes of it could fill millions."""

    places: int = _FAR


def applied(document: bytes, update: Update, within: str) -> bytes:
    """The document after the update. Raises EventError bad_event where a path leads into what is none."""
    fields = fields_of(document, f"`{within}`")
    opened: dict[str, Any] = {}
    room = _Room()

    def opened_field(name: str) -> Any:
        if name not in opened:
            opened[name] = decode(fields.get(name, _NULL), Any, within=within)
        return opened[name]

    try:
        for path, size in update.sizes:
            array = _found(opened_field, path)
            if not isinstance(array, list):
                raise EventError("bad_event", f"the update cuts `{'.'.join(path)[:100]}`, which is no array")
            del array[size:]
        for path, value in update.values:
            if len(path) == 1:
                opened.pop(path[0], None)
                fields[path[0]] = value
            else:
                _set(_parent(opened_field, opened, path, room), path, _any(value), room)
        for path in update.removed:
            if len(path) == 1:
                opened.pop(path[0], None)
                fields.pop(path[0], None)
            else:
                _remove(_found(opened_field, path[:-1]), path[-1])
        return _encode(fields | {name: Raw(_encode(value)) for name, value in opened.items()})
    except RecursionError:
        raise EventError("too_deep", f"the update makes `{within}` nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise EventError("bad_event", f"`{within}`: {error}") from None


def _found(opened: Any, path: Sequence[str]) -> Any:
    """What is at a path; None if nothing is."""
    at = opened(path[0])
    for step in path[1:]:
        if isinstance(at, list):
            place = _place(step)
            at = at[place] if place is not None and place < len(at) else None
        else:
            at = at.get(step) if isinstance(at, dict) else None
    return at


def _parent(opened: Any, known: dict[str, Any], path: Sequence[str], room: _Room) -> Any:
    """What holds the last step of a path; documents that are not there yet are made, as MongoDB makes them."""
    if opened(path[0]) is None:
        known[path[0]] = {}
    at = known[path[0]]
    for step in path[1:-1]:
        inner = _found(lambda _, at=at: at, ["", step])
        if inner is None:
            inner = {}
            _set(at, [step], inner, room)
        at = inner
    return at


def _set(holder: Any, path: Sequence[str], value: Any, room: _Room) -> None:
    step = path[-1]
    if isinstance(holder, dict):
        holder[step] = value
    elif isinstance(holder, list) and _place(step) is not None and int(step) <= len(holder) + room.places:
        room.places -= max(int(step) - len(holder), 0)
        holder.extend([None] * (int(step) + 1 - len(holder)))
        holder[int(step)] = value
    else:
        raise EventError("bad_event", f"the update sets `{'.'.join(path)[:100]}` in what holds no such part")


def _place(step: str) -> int | None:
    """The place in an array that a step names; None if it names none, or none that an array reaches."""
    return int(step) if step.isdecimal() and len(step) < 8 else None


def _remove(holder: Any, step: str) -> None:
    if isinstance(holder, Mapping):
        holder.pop(step, None)  # type: ignore[attr-defined]
    elif isinstance(holder, list) and (place := _place(step)) is not None and place < len(holder):
        holder[place] = None  # MongoDB's $unset of a member leaves null in its place
