"""Values of which updates change parts: a JSON document or array (text) as what it was, and the steps since.

MongoDB's updates reach into fields: `addr.zip` is set, `tags` is cut to two members. Two such updates can't be put
together from their results, and one that comes late can't be put below a result. So a row keeps, of each value that
steps were applied to, the value before them (the base) with its order, and the steps with theirs: whatever comes, in
any order, the value is the newest base with all newer steps, and rows alone are enough to tell it (fold.Row.held, under
PARTS).

Steps are a JSON array of `["set", path, value]`, `["unset", path]` and `["cut", path, size]`, which apply in this
order; a path is its names and places. They are total: what leads nowhere does nothing, so that any set of changes has a
value. Pure.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from firn.changes.decode.nesting import is_too_deep

MOST: Final = 256  # steps of one value that are kept apart,
LARGEST: Final = 1 << 20  # and characters of them
_FAR: Final = 1_000  # places beyond arrays' ends that an update may reach: MongoDB fills them with nulls
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_read: Final = msgspec.json.Decoder(dict[str, tuple[str, str | None, list[tuple[str, str]]]]).decode

Path = Sequence[str]


@dataclass(frozen=True)
class Composed:
    """A value: its base, and the steps since, by rising order, each order once."""

    base_order: bytes
    base: str | None
    steps: tuple[tuple[bytes, str], ...] = ()

    @cached_property
    def value(self) -> str | None:
        """What it is now, as JSON text."""
        return applied(self.base, [steps for _, steps in self.steps])

    def shortened(self) -> "Composed":
        """With at most MOST steps kept apart, and LARGEST of them: the oldest of more become part of the base."""
        size, first = 0, len(self.steps)
        while first and len(self.steps) - first < MOST and size + len(self.steps[first - 1][1]) <= LARGEST:
            first -= 1
            size += len(self.steps[first][1])
        if not first:
            return self
        old = self.steps[:first]
        return Composed(old[-1][0], applied(self.base, [steps for _, steps in old]), self.steps[first:])


def read(stored: bytes) -> dict[str, Composed]:
    """The composed values of a row, by column, as `written` made them."""
    return {
        column: Composed(b64decode(order), base, tuple((b64decode(at), steps) for at, steps in told))
        for column, (order, base, told) in _read(stored).items()
    }


def written(values: Mapping[str, Composed]) -> bytes:
    """The inverse: equal values give equal bytes."""
    return _encode({
        column: (_text(one.base_order), one.base, [(_text(at), steps) for at, steps in one.steps])
        for column, one in sorted(values.items())
    })  # fmt: skip


def _text(order: bytes) -> str:
    return b64encode(order).decode()


def applied(base: str | None, steps: Sequence[str]) -> str | None:
    """The JSON text after these steps, one after the other. Text that is no JSON, or nested beyond what JSON readers
    take, holds nothing for them to change."""
    document = Document(base)
    for told in steps:
        document.apply(told)
    return document.text


class Document:
    """A JSON text that steps are applied to, one after the other: each costs what it reaches, not the whole text."""

    def __init__(self, text: str | None) -> None:
        self._base = text
        self._root: list[Any] = [None]
        self._is_readable = True
        try:
            self._root = [None if text is None else _decode(text.encode())]
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self._is_readable = False

    def apply(self, steps: str) -> None:
        """The next steps. From what can't be read on, none counts."""
        if not self._is_readable:
            return
        try:
            told = _decode(steps.encode())
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self._is_readable = False
            return
        room = _FAR
        for kind, path, *more in told:
            room -= _step(self._root, path, kind, more[0] if more else None, room)

    @property
    def text(self) -> str | None:
        """What it is now; as at first where steps made it deeper than what changes may hold."""
        if not self._is_readable:
            return self._base
        try:
            found = None if self._root[0] is None else _encode(self._root[0]).decode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self._base
        return self._base if is_too_deep(found) else found


class Composing:
    """A Composed value in the making, while changes are replayed."""

    def __init__(self, base_order: bytes, base: str | None) -> None:
        self._base_order = base_order
        self._base = base
        self._steps: list[tuple[bytes, str]] = []
        self._document = Document(base)

    @classmethod
    def of(cls, made: Composed) -> "Composing":
        """To go on with what is there."""
        found = cls(made.base_order, made.base)
        for order, steps in made.steps:
            found.then(order, steps)
        return found

    def then(self, order: bytes, steps: str) -> None:
        """With these steps too, which come after all that it has; or are the last of them, told again."""
        if not (self._steps and self._steps[-1][0] == order):
            self._steps.append((order, steps))
            self._document.apply(steps)

    @property
    def value(self) -> str | None:
        """What it is now, as JSON text."""
        return self._document.text

    def composed(self) -> Composed:
        """What it is made of."""
        return Composed(self._base_order, self._base, tuple(self._steps))


def _step(holder: Any, path: Path, kind: str, what: Any, room: int) -> int:
    """One step at a path within the first member of `holder`, which is changed in place. `room`: places that it may
    fill before the one that it sets in an array -> how many it filled."""
    place: Any = 0
    filled = 0
    for depth, name in enumerate(path, 1):
        inside = holder[place]
        if inside is None and kind == "set":
            inside = holder[place] = {}
        if isinstance(inside, dict):
            if kind == "unset" and depth == len(path):
                inside.pop(name, None)
                return filled
            if kind == "set":
                inside.setdefault(name)
            elif name not in inside:
                return filled
            place = name
        elif isinstance(inside, list) and name.isdecimal() and len(name) < 8:
            place = int(name)
            between = max(place - len(inside), 0)
            if place >= len(inside) and (kind != "set" or between > room - filled):
                return filled
            filled += between
            inside.extend([None] * (place + 1 - len(inside)))
        else:
            return filled
        holder = inside
    if kind != "cut":
        holder[place] = what  # MongoDB's $unset of an array's member leaves null in its place
    elif isinstance(holder[place], list):
        del holder[place][what:]
    return filled
